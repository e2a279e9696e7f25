"""The notebook in `examples` was executed, shows no machine, and calls what exists.

It is not executed here: that takes the table, and minutes.
"""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
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


@pytest.mark.parametrize("text", [CODE, SCRIPT], ids=["notebook", "script"])
def test_the_package_has_what_is_imported_and_passed(text):
    """AttributeError where a name is gone; keywords are those of its signature."""
    tree = ast.parse(text)
    names = {
        alias.name: getattr(importlib.import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skdpsynth")
        for alias in node.names
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in names:
            taken = inspect.signature(names[call.func.id]).parameters
            given = {keyword.arg for keyword in call.keywords if keyword.arg}
            assert given <= taken.keys(), ast.unparse(call)


def test_what_it_takes_of_the_script_is_there():
    """The notebook calls the script `runs`."""
    there = {getattr(node, "name", "") for node in ast.parse(SCRIPT).body}
    assert set(re.findall(r"\bruns\.(\w+)\(", CODE)) <= there
