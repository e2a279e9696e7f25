"""The scripts in `examples` run, on fewer rows; those in `benchmarks` are imported."""

import ast
import importlib
import inspect
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
GALLERY = sorted((EXAMPLES / "gallery").glob("plot_*.py"))
BENCHMARKS = EXAMPLES.parent / "benchmarks"
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
    assert printed.count("\nchoice of a pair") == len(chosen) > 0


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_a_page_of_the_gallery_has_a_title(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    title, underline = ast.get_docstring(tree).splitlines()[:2]
    assert underline == "=" * len(title)


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


def test_it_was_executed_in_order_without_errors():
    """A gap or a swap in the numbers is a cell that ran at another time."""
    numbers = [cell["execution_count"] for cell in EXECUTED]
    assert numbers == list(range(1, len(numbers) + 1))
    kinds = {output["output_type"] for output in OUTPUTS}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert not [output for output in OUTPUTS if output.get("name") == "stderr"]


def test_it_shows_no_path_of_a_machine():
    texts = ["".join(cell["source"]) for cell in CELLS]
    for output in OUTPUTS:
        shown = output.get("data", {})
        texts += ["".join(output.get("text", ""))]
        texts += ["".join(v) for k, v in shown.items() if not k.startswith("image")]
    assert not [text for text in texts if ABSOLUTE_PATH.search(text)]


def test_links_lead_to_files():
    text = "\n".join("".join(own["source"]) for own in CELLS if own not in EXECUTED)
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not (EXAMPLES / link).is_file()] == []


TEXTS = {"notebook": CODE, "script": SCRIPT}
TEXTS |= {script.stem: script.read_text(encoding="utf-8") for script in GALLERY}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_package_offers_what_is_imported_and_passed(text):
    """Keywords are those of its signature."""
    tree, names = ast.parse(text), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skdpsynth"):
            module = importlib.import_module(node.module)
            assert {alias.name for alias in node.names} <= {*module.__all__}
            names |= {own.name: getattr(module, own.name) for own in node.names}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in names:
            taken = inspect.signature(names[call.func.id]).parameters
            given = {keyword.arg for keyword in call.keywords if keyword.arg}
            assert given <= taken.keys(), ast.unparse(call)


def test_what_it_takes_of_the_script_is_there():
    """The notebook calls the script `runs`."""
    there = {getattr(node, "name", "") for node in ast.parse(SCRIPT).body}
    assert set(re.findall(r"\bruns\.(\w+)\(", CODE)) <= there
