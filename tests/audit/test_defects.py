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
PUBLISHED = {
    *(f"O{i}" for i in range(1, 8)),
    *(f"U{i}" for i in range(1, 8)),
    *(f"S{i}" for i in range(1, 10)),
    *(f"T{i}" for i in range(1, 7)),
    *(f"B{i}" for i in range(1, 7)),
    *(f"N{i}" for i in range(1, 7)),
    *(f"B.{i}" for i in range(1, 15)),
    *(f"G.1.{letter}" for letter in "abcdef"),
    *(f"G.{i}" for i in range(2, 7)),
}


@cache
def names_in(path: Path) -> tuple[set[str], set[str]]:
    """Give the tests of a file, and all names it uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    defined = {
        n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)
    }
    return {name for name in tests if name.startswith("test_")}, used | defined


def is_a_test(name: str) -> bool:
    """Whether the file, the test, and the twin in brackets exist."""
    path, _, test = name.partition("::")
    test, _, twin = test.partition("[")
    if not (ROOT / path).exists():
        return False
    tests, names = names_in(ROOT / path)
    return test in tests and (not twin or twin.removesuffix("]") in names)


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
