"""The page on audits names tests for every known defect; they exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
IDS = sorted(set(re.findall(r"`(tests/[\w/.]+::[^`]+)`", PAGE)))

# Every defect of the design notes; those of quality have a table of their own.
LAST = {"O": 7, "U": 7, "S": 9, "T": 6, "B": 6, "N": 6, "B.": 14}
PUBLISHED = {f"{code}{i}" for code, last in LAST.items() for i in range(1, last + 1)}
PUBLISHED |= {f"G.1.{letter}" for letter in "abcdef"} | {f"G.{i}" for i in range(2, 7)}


@pytest.mark.parametrize("name", IDS)
def test_every_test_on_the_page_exists(name):
    """And the file has the twin in brackets."""
    path, _, test = name.partition("::")
    test, _, twin = test.rstrip("]").partition("[")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert f"def {test}(" in text
    assert re.search(rf"\b{re.escape(twin)}\b", text)


def test_every_known_defect_is_on_the_page_with_a_test():
    """A code is a word of the page: O1, B.12, G.1.f."""
    tables = PAGE.split("## Known defects")[1].split("## What no audit")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [line for line in rows if "::test_" in line]
    assert len(rows) > 40
    page = PAGE.replace("`", " ")
    missing = {
        code
        for code in PUBLISHED
        if not re.search(rf"(?<![\w.]){re.escape(code)}(?![\w.]*\w)", page)
    }
    assert missing == set()
