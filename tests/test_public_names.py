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
    """The block under `if TYPE_CHECKING` and the lazy table say the same."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    mirror = {
        alias.name: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert mirror == skdpsynth._LAZY_NAMES
    assert set(skdpsynth.__all__) == {*mirror, "__version__"}


@pytest.mark.parametrize(("name", "module"), skdpsynth._LAZY_NAMES.items())
def test_lazy_name_is_public_where_it_lives(name, module):
    home = importlib.import_module(module)
    assert name in home.__all__
    assert getattr(skdpsynth, name) is getattr(home, name)


def test_one_version_everywhere():
    version = skdpsynth.__version__
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert importlib.metadata.version("skdpsynth") == version
    assert re.search(r"^version: (.+)$", citation, flags=re.MULTILINE)[1] == version
    assert f"## [{version}]" in changelog


def test_errors_are_also_the_builtin_ones():
    """A caller who knows only Python's own exceptions catches ours."""
    from skdpsynth import exceptions

    builtin = {
        "BudgetExceededError": ValueError,
        "DatasetUnavailableError": OSError,
        "FolderNotFoundError": FileNotFoundError,
        "InvalidSchemaError": ValueError,
        "InvalidTableError": ValueError,
        "MissingDependencyError": ImportError,
        "PersistenceError": ValueError,
        "ReservationError": RuntimeError,
    }
    for name, parent in builtin.items():
        error = getattr(exceptions, name)
        assert issubclass(error, parent)
        assert issubclass(error, exceptions.SkdpsynthError)
    others = set(exceptions.__all__) - set(builtin) - {"SkdpsynthError"}
    assert all(issubclass(getattr(exceptions, name), UserWarning) for name in others)
