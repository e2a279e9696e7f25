"""Examples of the guide and scripts run, links lead somewhere, names are there."""

import ast
import doctest
import importlib
import inspect
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import skdpsynth.schema
from skdpsynth.__main__ import main
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import TableSchema

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, *ROOT.glob("*.md")]
# No example for doctest in them; that of the start page is run beside the README's.
WITHOUT_EXAMPLES = {"algorithms", "changelog", "everyday", "glossary", "index"}
WITHOUT_EXAMPLES |= {"install", "measured", "peers", "reproduction", "security"}
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
    """Of pages, and of the notebook, whose text is JSON."""
    for page in [*PAGES, NOTEBOOK]:
        links = re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_code_names_on_a_page_exist():
    """What is set as code and looks like a function or class is in the package."""
    sources = [path.read_text("utf-8") for path in (ROOT / "skdpsynth").rglob("*.py")]
    words = {word for text in sources for word in re.findall(r"[A-Za-z_]+", text)}
    for page in DOCS:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`(?:[a-z_]+\.)?([A-Za-z_]+)(?:\([^`]*\))?`", text))
        assert named <= words, page


# --- The commands of the pages do what the pages say, in their order ------------------


_BLOCKS = re.compile(r"^```(sh|json)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(page: str) -> list[list[str]]:
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


# --- Scripts in `examples` run, on fewer rows; those in `benchmarks` are imported -----

EXAMPLES = ROOT / "examples"
GALLERY = sorted((EXAMPLES / "gallery").glob("plot_*.py"))
BENCHMARKS = ROOT / "benchmarks"
MODULES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a script in quick mode, with a folder of its own for what it writes."""

    def call(name: str) -> str:
        monkeypatch.setattr("sys.argv", [name, "--quick"])
        script = runpy.run_path(str(EXAMPLES / name), run_name="script")
        # The names that its functions look up, unlike those that `run_path` returns.
        monkeypatch.setitem(script["main"].__globals__, "OUTPUT", tmp_path)
        script["main"]()
        for picture in tmp_path.glob("*.png"):
            assert picture.read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out

    return call


def test_choosing_a_budget(run, tmp_path):
    """Signal grows with epsilon, and every candidate is scored."""
    plan, scores = (
        part.strip().splitlines()[2:]
        for part in run("choose_budget.py").split("\n\n")[1::2]
    )
    signal = [float(line.split()[3]) for line in plan]
    assert signal[0] < signal[2]
    assert signal[1] < signal[3]
    scored = [float(score) for line in scores for score in line.split()[-3:-1]]
    assert len(scored) == 8
    assert all(0 < score < 1 for score in scored)
    assert (tmp_path / "choose_budget.png").exists()


def test_a_pipeline_with_a_budget(run):
    """Three folds and one table are paid for; the next fit is refused."""
    printed = run("sklearn_pipeline.py")
    assert "nan" not in printed
    assert printed.count("fit      1.0") == 3
    assert "refused, before it started: The budget has epsilon = 0 left of 4" in printed


def test_what_three_columns_know_is_learnt_from_tables_of_three_alone(run):
    """Chance is 0.5; eight runs had 0.53 to 0.61 and 0.996 to 0.999."""
    scores = dict(re.findall(r"  (\S.*?) +(\d\.\d+)\n", run("three_columns.py")))
    assert float(scores["real rows"]) > 0.95
    assert float(scores["order=2"]) < 0.75
    assert float(scores["order=3"]) > 0.9


@pytest.mark.usefixtures("short_fits")
def test_a_synthesizer_in_one_file(run):
    """Two rounds of each class that affords tables."""
    printed = run("aim.py")
    chosen = re.findall(r"^\S+ and \S+, of (\d)$", printed, re.M)
    assert sorted(chosen) == sorted(2 * [*{*chosen}])
    assert printed.count("\nchoice of pairs") == len(chosen) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_a_page_of_the_gallery_runs(script, monkeypatch):
    """Warnings are errors, but that there is no window to show a picture in."""
    plt = importlib.import_module("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    runpy.run_path(str(script))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_fits_the_package(name, monkeypatch):
    """It imports what it needs of the package, private names included."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    importlib.import_module(name)
    for module in MODULES:
        sys.modules.pop(module, None)


# --- The notebook in `examples` was executed, shows no machine, and calls what exists -


NOTEBOOK = EXAMPLES / "kaggle_credit.ipynb"
SCRIPT = (EXAMPLES / "kaggle_credit_runs.py").read_text(encoding="utf-8")
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
EXECUTED = [cell for cell in CELLS if cell["cell_type"] == "code"]
OUTPUTS = [output for cell in EXECUTED for output in cell["outputs"]]
CODE = "\n".join("".join(cell["source"]) for cell in EXECUTED)
# A path from the root, of a user, or on a drive; not the / of a fraction or a link.
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<*-])/\w+/\w|file://|\b[A-Z]:\\\w")


def test_it_was_executed_in_order_without_errors_and_shows_no_path_of_a_machine():
    """A gap or a swap in the numbers is a cell that ran at another time."""
    numbers = [cell["execution_count"] for cell in EXECUTED]
    assert numbers == list(range(1, len(numbers) + 1))
    kinds = {output["output_type"] for output in OUTPUTS}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert not [output for output in OUTPUTS if output.get("name") == "stderr"]
    texts = ["".join(cell["source"]) for cell in CELLS]
    for output in OUTPUTS:
        shown = output.get("data", {})
        texts += ["".join(output.get("text", ""))]
        texts += ["".join(v) for k, v in shown.items() if not k.startswith("image")]
    assert not [text for text in texts if ABSOLUTE_PATH.search(text)]


TEXTS = {"notebook": CODE, "script": SCRIPT}
TEXTS |= {script.stem: script.read_text(encoding="utf-8") for script in GALLERY}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_package_offers_what_is_imported_and_passed(text):
    """Keywords are those of its signature. The notebook calls the script `runs`."""
    there = {getattr(node, "name", "") for node in ast.parse(SCRIPT).body}
    assert set(re.findall(r"\bruns\.(\w+)\(", text)) <= there
    tree, names = ast.parse(text), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skdpsynth"):
            module = importlib.import_module(node.module)
            offered = {*getattr(module, "__all__", vars(module))}
            assert {alias.name for alias in node.names} <= offered
            names |= {own.name: getattr(module, own.name) for own in node.names}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in names:
            taken = inspect.signature(names[call.func.id]).parameters
            given = {keyword.arg for keyword in call.keywords if keyword.arg}
            assert given <= taken.keys(), ast.unparse(call)


# --- The table of kinds and rules of the page on schemas ------------------------------

KINDS_SHOWN = re.findall(
    r'^\| `(\w+\(.*\))` \| `(\{"(?:kind|rule)".*\})` \|$',
    (ROOT / "docs" / "schema.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
KINDS = (
    *("Continuous", "Categorical", "Boolean", "Datetime", "Identifier", "Text"),
    *("Ordered", "Derived", "SumOf", "MissingTogether", "Determines"),
)


def test_every_kind_has_an_example():
    assert {code.partition("(")[0] for code, _ in KINDS_SHOWN} == {*KINDS}


@pytest.mark.parametrize(("code", "text"), KINDS_SHOWN)
def test_a_kind_is_the_same_in_python_and_in_json(code, text):
    named = {name: getattr(skdpsynth.schema, name) for name in KINDS}
    own = eval(code, named)
    if "kind" in json.loads(text):
        data = {"schema_version": 1, "columns": [["x", json.loads(text)]]}
        assert TableSchema.from_json(json.dumps(data)).columns["x"] == own
        return
    number = named["Continuous"](0, 1, nullable=True)
    columns = dict.fromkeys(own.names, number)
    if type(own).__name__ == "Determines":
        columns = {
            name: named["Categorical"]([value])
            for name, value in zip(own.names, *own.table.items(), strict=True)
        }
    written = json.loads(TableSchema(columns, rules=[own]).to_json())
    assert written["rules"] == [json.loads(text)]
    data = written | {"rules": [json.loads(text)]}
    assert TableSchema.from_json(json.dumps(data)).rules == (own,)


# --- The page on audits names tests for every known defect ----------------------------

AUDIT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/.]+::[^`]+)`", AUDIT)))

# Every defect of the design notes; those of quality have a table of their own.
LAST = {"O": 7, "U": 7, "S": 9, "T": 6, "B": 6, "N": 6, "B.": 14}
PUBLISHED = {f"{code}{i}" for code, last in LAST.items() for i in range(1, last + 1)}
PUBLISHED |= {f"G.1.{letter}" for letter in "abcdef"} | {f"G.{i}" for i in range(2, 7)}


@pytest.mark.parametrize("name", TESTS)
def test_every_test_on_the_page_exists(name):
    """And the file has the twin in brackets."""
    path, _, test = name.partition("::")
    test, _, twin = test.rstrip("]").partition("[")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert f"def {test}(" in text
    assert re.search(rf"\b{re.escape(twin)}\b", text)


def test_every_known_defect_is_on_the_page_with_a_test():
    """A code is a word of the page: O1, B.12, G.1.f."""
    tables = AUDIT.split("## Known defects")[1].split("## What no audit")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [line for line in rows if "::test_" in line]
    assert len(rows) > 40
    page = AUDIT.replace("`", " ")
    missing = {
        code
        for code in PUBLISHED
        if not re.search(rf"(?<![\w.]){re.escape(code)}(?![\w.]*\w)", page)
    }
    assert missing == set()
