"""The page on audits names tests for every known defect; they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
IDS = sorted(set(re.findall(r"`(tests/[\w/.]+::[^`]+)`", PAGE)))

# Every defect of the design notes; those of quality have a table of their own.
LAST = {"O": 7, "U": 7, "S": 9, "T": 6, "B": 6, "N": 6, "B.": 14}
PUBLISHED = {f"{code}{i}" for code, last in LAST.items() for i in range(1, last + 1)}
PUBLISHED |= {f"G.1.{letter}" for letter in "abcdef"} | {f"G.{i}" for i in range(2, 7)}


def words_of(node: ast.AST) -> set[str]:
    """Give the names and texts in a piece of code."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    found |= {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef)}
    constants = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return found | {value for value in constants if isinstance(value, str)}


@cache
def cases_of(path: Path) -> dict[str, set[str]]:
    """Give the tests of a file, and all that each uses, its parameters included.

    A table of cases that has a name of its own counts as if it stood in the test.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tables = {
        target.id: words_of(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            words = words_of(node)
            found[node.name] = words.union(*(tables.get(w, set()) for w in words))
    return found


def is_a_test(name: str) -> bool:
    """Whether the file and the test exist, and the test uses the twin in brackets."""
    path, _, test = name.partition("::")
    test, _, twin = test.partition("[")
    if not (ROOT / path).exists():
        return False
    tests = cases_of(ROOT / path)
    return test in tests and (not twin or twin.removesuffix("]") in tests[test])


@pytest.mark.parametrize("name", IDS)
def test_every_test_on_the_page_exists(name):
    assert is_a_test(name)


@pytest.mark.parametrize(
    "name",
    [
        "tests/audit/test_absent.py::test_x",
        "tests/audit/test_defects.py::test_absent",
        "tests/audit/test_defects.py::is_a_test",
        "tests/audit/test_defects.py::test_every_test_on_the_page_exists[Absent]",
        # Of another test in the same file.
        "tests/audit/test_invariants.py::test_one_row_shows_in_its_releases_only[slices]",
    ],
)
def test_tests_that_do_not_exist_are_noticed(name):
    assert not is_a_test(name)


def test_every_known_defect_is_on_the_page():
    """A code is a word of the page: O1, B.12, G.1.f."""
    page = PAGE.replace("`", " ")
    missing = {
        code
        for code in PUBLISHED
        if not re.search(rf"(?<![\w.]){re.escape(code)}(?![\w.]*\w)", page)
    }
    assert missing == set()


def test_every_row_of_the_tables_names_a_test():
    tables = PAGE.split("## Known defects")[1].split("## What no audit")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [line for line in rows if not line.startswith(("| defect", "| where"))]
    assert len(rows) > 40
    assert all("::test_" in line for line in rows)
