"""The notebook in `examples` was executed, shows no machine, and calls what exists.

It is not executed here: that takes the table, and minutes. Every name of the package in
its code must exist, and every keyword must be one of the callable's.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import math
import re
import runpy
from pathlib import Path

import pandas as pd
import pytest

from skdpsynth.evaluation import ComparisonResult, compare_synthesizers
from skdpsynth.privacy import PrivacyReport

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = EXAMPLES / "kaggle_credit.ipynb"
SCRIPT = EXAMPLES / "kaggle_credit_runs.py"
LARGEST = 1_500_000  # bytes
# A path from the root, of a user, or on a drive; not the / of a fraction or a link.
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<*-])/\w+/\w|file://|\b[A-Z]:\\\w")


@pytest.fixture(scope="module")
def cells():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.fixture(scope="module")
def codes(cells):
    return [source(cell) for cell in cells if cell["cell_type"] == "code"]


def source(cell) -> str:
    """JSON holds the text of a cell whole or line by line."""
    return "".join(cell["source"])


def test_it_is_a_notebook(cells):
    """What a reader of the format needs, whichever reader it is."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    identifiers = [cell["id"] for cell in cells]
    assert len(set(identifiers)) == len(identifiers)
    assert {cell["cell_type"] for cell in cells} == {"markdown", "code"}


def test_it_was_executed_in_order_without_errors(cells):
    """A gap or a swap in the numbers is a cell that ran at another time."""
    executed = [cell for cell in cells if cell["cell_type"] == "code"]
    numbers = [cell["execution_count"] for cell in executed]
    assert numbers == list(range(1, len(numbers) + 1))
    outputs = [output for cell in executed for output in cell["outputs"]]
    kinds = {output["output_type"] for output in outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_it_shows_tables_and_pictures(cells):
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert kinds.count("image/png") >= 3
    assert kinds.count("text/html") >= 8
    assert len(NOTEBOOK.read_bytes()) < LARGEST


def test_it_shows_no_path_of_a_machine(cells):
    for cell in cells:
        texts = [source(cell)]
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            texts += ["".join(output.get("text", ""))]
            texts += ["".join(v) for k, v in shown.items() if not k.startswith("image")]
        for text in texts:
            assert not ABSOLUTE_PATH.search(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("reads /home/ada/credit.csv", True),
        ('File "/usr/lib/python3/x.py"', True),
        (r"C:\Users\ada", True),
        ("results/kaggle_credit, N/1000, 0.9/0.5", False),
        ("https://openreview.net/data/x", False),
        ("../docs/pategan.md and </td>", False),
    ],
)
def test_what_counts_as_a_path(text, found):
    assert bool(ABSOLUTE_PATH.search(text)) == found


def test_links_lead_to_files(cells):
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for target in re.findall(r"\]\(([^)#]+)", source(cell)):
                assert (EXAMPLES / target).is_file(), target


def imported(tree: ast.AST) -> dict[str, object]:
    """Map the names that code imports from the package to what they are now."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skdpsynth"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                found[alias.asname or alias.name] = getattr(module, alias.name)
    return found


def methods(names: dict[str, object]) -> dict[str, list[object]]:
    """Map names of public methods to all methods of this name that code may mean."""
    classes = [v for v in names.values() if inspect.isclass(v)]
    found: dict[str, list[object]] = {}
    for kind in (*classes, ComparisonResult, PrivacyReport):
        for name, method in inspect.getmembers(kind, callable):
            if not name.startswith("_"):
                found.setdefault(name, []).append(method)
    return found


def accepts(function: object, keyword: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == keyword or p.kind is p.VAR_KEYWORD for p in parameters)


def meant_by(
    call: ast.Call, names: dict[str, object], of_classes: dict[str, list[object]]
) -> list[object]:
    """List what of the package a call may mean; nothing if it is another's."""
    if isinstance(call.func, ast.Name):
        return [names[call.func.id]] if call.func.id in names else []
    name = getattr(call.func, "attr", "")
    if name == "compare":  # the script's, which passes all on
        return [compare_synthesizers]
    if any(hasattr(kind, name) for kind in (pd.DataFrame, pd.Series)):
        # A table's, but for a `sample` that says how many of each class.
        stated = {keyword.arg for keyword in call.keywords}
        return of_classes["sample"] if "sampling_strategy" in stated else []
    return of_classes.get(name, [])


def wrong_keywords(text: str) -> list[str]:
    """List the keywords of calls to the package that no such callable takes."""
    tree = ast.parse(text)
    names = imported(tree)
    of_classes = methods(names)
    return [
        f"{ast.unparse(call.func)}({keyword.arg}=...)"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and (meant := meant_by(call, names, of_classes))
        for keyword in call.keywords
        if keyword.arg and not any(accepts(each, keyword.arg) for each in meant)
    ]


def test_the_package_has_what_it_imports_and_passes(codes):
    """`imported` raises AttributeError where a name is gone."""
    text = "\n".join(codes)
    names = imported(ast.parse(text))
    assert {"PATEGANSynthesizer", "fetch_kaggle_credit", "TableSchema"} <= set(names)
    assert wrong_keywords(text) == []


def test_the_script_passes_what_the_package_takes():
    assert wrong_keywords(SCRIPT.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "call",
    [
        "PATEGANSynthesizer(epsilons=1.0)",
        "runs.compare('x', [], train, test, 'Class', repeats=5)",
        "result.plot_classifiers(axis=ax)",
        "synth.plan(counts={0: 1})",
    ],
)
def test_a_keyword_that_is_gone_is_noticed(call):
    head = "from skdpsynth import PATEGANSynthesizer\n"
    assert len(wrong_keywords(head + call)) == 1


def test_what_it_takes_of_the_script_is_there(codes):
    """The notebook calls the script `runs`."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    there = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    there |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets}
    used = set(re.findall(r"\bruns\.(\w+)\(", "\n".join(codes))) | {"QUICK"}
    assert {"compare", "joined"} <= used <= there


def scored(name, epsilon, setting, values):
    """Make a comparison of one run from its AUROC of each classifier."""
    run = {"synthesizer": name, "epsilon": epsilon, "repeat": 0}
    rows = [
        run | {"setting": setting, "classifier": key, "metric": "auroc", "value": value}
        for key, value in values.items()
    ]
    return ComparisonResult(pd.DataFrame(rows), pd.DataFrame([run]), {}, [], "Class")


def test_joined_has_the_runs_of_all_and_each_once():
    """The reference is in both, and is taken from the first."""
    joined = runpy.run_path(str(SCRIPT))["joined"]
    parts = (
        scored("real data", math.nan, "A", {"one": 0.9, "two": 0.7}),
        scored("floor", 1.0, "B", {"one": 0.6, "two": 0.5}),
        scored("real data", math.nan, "A", {"one": 0.1, "two": 0.1}),
        scored("floor", 10.0, "B", {"one": 0.8, "two": 0.7}),
    )
    result = joined(*parts)
    assert result.runs["synthesizer"].tolist() == ["real data", "floor", "floor"]
    reference = result.repeats("real data", math.nan, "A", "auroc")
    assert reference.tolist() == [pytest.approx(0.8)]
    summary = result.summary()
    assert summary["auroc"].tolist() == pytest.approx([0.8, 0.55, 0.75])
    few = joined(*parts, classifiers=["one"])
    assert few.summary()["auroc"].tolist() == pytest.approx([0.9, 0.6, 0.8])
