"""The reference of the site names every public object once."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
from test_public_names import public_modules

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "index.rst"


def entries() -> list[tuple[str, str]]:
    """Give module and name of each line of each `autosummary`."""
    found, module, listing = [], None, False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)$", line):
            module = match[1]
        elif line.startswith(".. autosummary::"):
            listing = True
        elif line and not line.startswith(" "):
            listing = False
        elif listing and (match := re.match(r" +([A-Za-z_]\w*)$", line)):
            found.append((module, match[1]))
    return found


def identity(module: str, name: str) -> tuple[str, str]:
    """Say where an object lives, whatever module it is imported from."""
    value = getattr(importlib.import_module(module), name)
    return value.__module__, value.__qualname__


@pytest.mark.parametrize(("module", "name"), entries())
def test_entry_is_a_public_name(module, name):
    assert name in importlib.import_module(module).__all__


def test_every_public_object_is_listed_once():
    """The version is a text, and has no page."""
    public = {
        identity(module, name)
        for module in public_modules()
        for name in importlib.import_module(module).__all__
        if name != "__version__"
    }
    listed = Counter(identity(module, name) for module, name in entries())
    assert public - set(listed) == set()
    assert [path for path, times in listed.items() if times > 1] == []
