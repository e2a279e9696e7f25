"""The notebook in `examples` was executed, shows no machine, and calls what exists.

It is not executed here: that takes the table, and minutes. Every name of the package in
its code must exist, and every keyword must be one of the callable's.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import pandas as pd

from skdpsynth.evaluation import ComparisonResult, compare_synthesizers
from skdpsynth.privacy import PrivacyReport

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = EXAMPLES / "kaggle_credit.ipynb"
SCRIPT = EXAMPLES / "kaggle_credit_runs.py"
LARGEST = 1_500_000  # bytes
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


def test_it_shows_tables_and_pictures():
    kinds = [kind for output in OUTPUTS for kind in output.get("data", {})]
    assert kinds.count("image/png") >= 3
    assert kinds.count("text/html") >= 8
    assert len(NOTEBOOK.read_bytes()) < LARGEST


def test_it_shows_no_path_of_a_machine():
    texts = ["".join(cell["source"]) for cell in CELLS]
    for output in OUTPUTS:
        shown = output.get("data", {})
        texts += ["".join(output.get("text", ""))]
        texts += ["".join(v) for k, v in shown.items() if not k.startswith("image")]
    assert not [text for text in texts if ABSOLUTE_PATH.search(text)]
    assert ABSOLUTE_PATH.search('File "/usr/lib/python3/x.py"')


def test_links_lead_to_files():
    text = "\n".join("".join(own["source"]) for own in CELLS if own not in EXECUTED)
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not (EXAMPLES / link).is_file()] == []


def imported(tree: ast.AST) -> dict[str, object]:
    """Map the names that code imports from the package to what they are now."""
    return {
        alias.asname or alias.name: getattr(
            importlib.import_module(node.module), alias.name
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skdpsynth")
        for alias in node.names
    }


def meant_by(call: ast.Call, names: dict[str, object]) -> list[object]:
    """List what of the package a call may mean; nothing if it is another's."""
    if isinstance(call.func, ast.Name):
        return [names[call.func.id]] if call.func.id in names else []
    name = getattr(call.func, "attr", "")
    if name == "compare":  # the script's, which passes all on
        return [compare_synthesizers]
    if hasattr(pd.DataFrame, name) and "sampling_strategy" not in ast.unparse(call):
        return []  # a table's
    classes = [v for v in names.values() if inspect.isclass(v)]
    classes += [ComparisonResult, PrivacyReport]
    return [getattr(kind, name) for kind in classes if hasattr(kind, name)]


def wrong_keywords(text: str) -> list[str]:
    """List the keywords of calls to the package that no such callable takes."""
    tree = ast.parse(text)
    names = imported(tree)
    found = []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (meant := meant_by(call, names)):
            each = [inspect.signature(one).parameters.values() for one in meant]
            taken = {p.name for parameters in each for p in parameters}
            free = any(
                p.kind is p.VAR_KEYWORD for parameters in each for p in parameters
            )
            given = [keyword.arg for keyword in call.keywords if keyword.arg]
            found += [name for name in given if not free and name not in taken]
    return found


def test_the_package_has_what_is_imported_and_passed():
    """`imported` raises AttributeError where a name is gone."""
    names = imported(ast.parse(CODE))
    assert {"PATEGANSynthesizer", "fetch_kaggle_credit", "TableSchema"} <= set(names)
    assert wrong_keywords(CODE) == []
    assert wrong_keywords(SCRIPT.read_text(encoding="utf-8")) == []
    head = "from skdpsynth import PATEGANSynthesizer\n"
    assert wrong_keywords(head + "PATEGANSynthesizer(epsilons=1.0)") == ["epsilons"]
    assert wrong_keywords(head + "synth.plan(counts={0: 1})") == ["counts"]


def test_what_it_takes_of_the_script_is_there():
    """The notebook calls the script `runs`."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    there = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    used = set(re.findall(r"\bruns\.(\w+)\(", CODE))
    assert {"compare", "joined"} <= used <= there
