"""The examples of the guide run as they stand, and its links lead somewhere."""

import doctest
import json
import re
import runpy
import shlex
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from skdpsynth.__main__ import main
from skdpsynth.privacy.testing import insecure_randomness

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, *ROOT.glob("*.md")]
# No example for doctest in them; that of the start page is run beside the README's.
WITHOUT_EXAMPLES = {"algorithms", "changelog", "everyday", "glossary", "index"}
WITHOUT_EXAMPLES |= {"install", "measured", "peers", "reproduction", "security"}
# What the page of upgrades names is no longer there.
GONE = {"PrivacyLeakWarning", "epsilon_labelled_", "epsilon_of", "epsilon_unlabelled_"}
OPTIONS = (
    doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
)
# Their examples train or compare; 5 to 15 seconds each.
NIGHTLY = {"evaluation", "gan", "images", "training"}
# The noise would change their examples once in 300 to 100,000 runs.
FROZEN = {"independent", "numbers", "schema", "sklearn"}


@pytest.mark.slow
@pytest.mark.usefixtures("short_fits", "few_trees")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.nightly] * (page.stem in NIGHTLY))
        for page in DOCS
        if page.stem != "command_line"  # with its commands, below
    ],
    ids=lambda page: page.stem,
)
def test_examples_of_a_page_run(page, tmp_path, monkeypatch, request):
    """They share names within a page, write into a folder of their own, do not warn."""
    monkeypatch.chdir(tmp_path)
    if page.stem in FROZEN:
        request.getfixturevalue("frozen_noise")
    # Loops have all their rounds, with few teachers.
    monkeypatch.setattr("skdpsynth.synthesizers._base.MOST_TEACHERS", 10)
    # Pictures are drawn in `evaluation/test_results.py`, each in a second.
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **how: None)
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=OPTIONS, encoding="utf-8"
    )
    assert result.failed == 0
    assert (result.attempted == 0) == (page.stem in WITHOUT_EXAMPLES)


@pytest.mark.slow
@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize(
    "page", ["README.md", pytest.param("docs/index.md", marks=pytest.mark.nightly)]
)
def test_the_first_example_runs(page, tmp_path, monkeypatch, capsys):
    """It saves a file, so it runs in a folder of its own."""
    text = (ROOT / page).read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, page, "exec"), names)
    train, fake = names["train"], names["fake"]
    assert len(fake) == 10_000
    assert (fake.dtypes == train.dtypes).all()
    assert 0.98 <= names["synth"].epsilon_ <= 1.0
    same = type(names["synth"]).load(tmp_path / "adult.skdp")
    assert same.epsilon_ == names["synth"].epsilon_
    printed = capsys.readouterr().out
    assert "add or remove one row" in printed
    assert "auroc" in printed


def test_links_to_files_exist():
    for page in PAGES:
        links = re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_code_names_on_a_page_exist():
    """What is set as code and looks like a function or class is in the package."""
    sources = [path.read_text("utf-8") for path in (ROOT / "skdpsynth").rglob("*.py")]
    words = {word for text in sources for word in re.findall(r"[A-Za-z_]+", text)}
    assert words & GONE == set()
    for page in DOCS:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`(?:[a-z_]+\.)?([A-Za-z_]+)(?:\([^`]*\))?`", text))
        assert named - words == (named & GONE if page.stem == "releases" else set())


# --- The commands of the pages do what the pages say, in their order ------------------


_BLOCKS = re.compile(r"^```(sh|json)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(page: str) -> list[list[str]]:
    """Run all commands of a page, which must end well, and edit as it shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    commands: list[list[str]] = []
    for kind, block in _BLOCKS.findall(text):
        if kind == "json":
            edit_schema(block)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line, comments=True)
            if program == "python":
                runpy.run_path(str(ROOT / words[0]), run_name="__main__")
            else:
                assert program == "skdpsynth"
                assert main(words) == 0, line
            commands.append(words)
    return commands


def edit_schema(lines: str) -> None:
    """Put what a block shows into the schema file, as an editor would."""
    path = Path("schema.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    columns = dict(schema["columns"])
    for line in filter(str.strip, lines.splitlines()):
        try:
            name, description = json.loads(line.rstrip(","))
            columns[name] = description
        except ValueError:
            schema |= json.loads("{" + line.strip().rstrip(",") + "}")
    path.write_text(
        json.dumps(schema | {"columns": [*columns.items()]}), encoding="utf-8"
    )


@pytest.fixture
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["python"])


@pytest.mark.usefixtures("few_trees", "_folder")
def test_from_a_messy_file_to_a_release(capsys):
    with insecure_randomness(0):  # one column in 4,000 has other decimals by noise
        commands = run_page("command_line.md")
    said = capsys.readouterr().out
    assert {words[0] for words in commands[1:]} == {
        *("schema", "check", "plan", "fit", "report", "card", "budget", "sample"),
        "evaluate",
    }
    assert "left   epsilon = 0, delta = 0" in said
    how = {"sep": ";", "encoding": "latin-1", "dtype": str, "keep_default_na": False}
    real, drawn = (
        pd.read_csv(f"{name}.csv", **how) for name in ("visits", "synthetic")
    )
    assert [*drawn] == [*real]
    assert len(drawn) == len(real)
    forms = {
        "patient_id": r"P\d{6}",
        "admitted": r"\d\d\.\d\d\.202[234]",
        "age": r"\d{1,3}",
        "zip": "01067|04109|20095|80331",
        "city": "Dresden|Leipzig|Hamburg|München",
        "smoker": "yes|no|",
        "weight": r"\d+\.\d|",
        "days": r"\d+",
        "cost": r"\d+\.\d\d?",
        "remark": "",
        "readmitted": "yes|no",
    }
    for name, form in forms.items():
        assert drawn[name].str.fullmatch(form).all(), name
    assert 0.005 < (drawn["readmitted"] == "yes").mean() < 0.06
    # Each zip code has its city: that is what a release is to keep.
    pairs = set(zip(real["zip"], real["city"], strict=True))
    kept = [pair in pairs for pair in zip(drawn["zip"], drawn["city"], strict=True)]
    assert sum(kept) > 0.97 * len(kept)
