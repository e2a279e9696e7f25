"""The reference of the site names once what users need of the interfaces."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
from test_public_names import public_modules

import skdpsynth

PACKAGE = Path(skdpsynth.__file__).parent
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
    home = getattr(value, "__module__", module)  # a constant has none
    return home, getattr(value, "__qualname__", name)


@pytest.mark.parametrize(("module", "name"), entries())
def test_entry_is_a_public_name(module, name):
    assert name in importlib.import_module(module).__all__


def test_every_name_of_an_interface_is_listed_once_or_used_by_another_folder():
    """What users need is in the reference; nothing else is offered for its own sake."""
    listed = Counter(identity(module, name) for module, name in entries())
    assert [path for path, times in listed.items() if times > 1] == []
    assert {identity("skdpsynth", name) for name in users_of_the_package()} <= {*listed}
    used = names_imported_across_folders()
    unused = [
        (module, name)
        for module in public_modules()
        for name in importlib.import_module(module).__all__
        if module != "skdpsynth"
        and identity(module, name) not in listed
        and (module, name) not in used
    ]
    assert unused == []


def users_of_the_package() -> list[str]:
    """The version is a text, and has no page."""
    return [name for name in skdpsynth.__all__ if name != "__version__"]


def names_imported_across_folders() -> set[tuple[str, str]]:
    """Give module and name of all imports between folders, benchmarks included."""
    found = set()
    for root in (PACKAGE, PACKAGE.parent / "benchmarks", PACKAGE.parent / "tests"):
        for file in root.rglob("*.py"):
            own = ".".join(file.relative_to(root.parent).parts[:2])
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module != own:
                    found |= {(node.module, alias.name) for alias in node.names}
    return found
