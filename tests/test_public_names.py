"""Every public module says what it offers, and offers what it says."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
import re
from pathlib import Path

import pytest

import skdpsynth
from skdpsynth import exceptions

ROOT = Path(skdpsynth.__file__).parent
REPOSITORY = ROOT.parent


def public_modules() -> list[str]:
    """Give the package and all modules below it whose path has no underscore."""
    found = pkgutil.walk_packages([str(ROOT)], prefix="skdpsynth.")
    names = [module.name for module in found]
    return ["skdpsynth", *(name for name in names if "._" not in name)]


def constants_first(name: str) -> tuple[bool, bool, str]:
    """Order names as ruff does: constants, classes, others."""
    return not name.isupper(), not name[0].isupper(), name


@pytest.mark.parametrize("name", public_modules())
def test_all_is_complete_and_sorted(name):
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__), key=constants_first)
    missing = [entry for entry in module.__all__ if not hasattr(module, entry)]
    assert missing == []


def test_type_checkers_see_the_lazy_names():
    """The block under `if TYPE_CHECKING` says where each name is public, and lives."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    mirror = {
        alias.name: importlib.import_module(statement.module)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert set(skdpsynth.__all__) == {*mirror, "__version__"} <= set(dir(skdpsynth))
    for name, home in mirror.items():
        assert name in home.__all__
        assert getattr(skdpsynth, name) is getattr(home, name)
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        skdpsynth.absent  # noqa: B018


def test_one_version_everywhere():
    version = skdpsynth.__version__
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert importlib.metadata.version("skdpsynth") == version
    assert re.search(r"^version: (.+)$", citation, flags=re.MULTILINE)[1] == version
    assert f"## [{version}]" in changelog


def test_errors_are_also_the_builtin_ones():
    """A caller who knows only Python's own exceptions catches ours."""
    for name in exceptions.__all__:
        kind = getattr(exceptions, name)
        if name.endswith("Warning"):
            assert issubclass(kind, UserWarning)
        elif kind is not exceptions.SkdpsynthError:
            assert issubclass(kind, exceptions.SkdpsynthError)
            assert issubclass(kind, ValueError | OSError | ImportError | RuntimeError)
