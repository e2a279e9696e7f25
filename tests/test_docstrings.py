"""The docstring of every public class, function and method follows numpydoc."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import skdpsynth

# ES01: a short function needs no extended summary. GL01, GL02: where the text starts
# and ends is the formatter's business. RT02: a named return value reads better.
IGNORED = {"ES01", "GL01", "GL02", "RT02"}
# "See Also" and "Examples" are asked of classes only.
IGNORED_BELOW_CLASSES = IGNORED | {"SA01", "EX01"}
# Errors and warnings are not constructed by users.
IGNORED_FOR_EXCEPTIONS = IGNORED_BELOW_CLASSES


def public_objects() -> list[str]:
    """Give the dotted names of the public classes, their methods, and functions."""
    found = pkgutil.walk_packages(skdpsynth.__path__, prefix="skdpsynth.")
    # Names for authors keep the short docstrings of where they live.
    modules = [
        module.name
        for module in found
        if "._" not in module.name and module.name != "skdpsynth.extension"
    ]
    names = []
    # The names of the package itself are those of the modules they live in.
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isroutine(value):
                names.append(f"{module_name}.{name}")
            elif inspect.isclass(value):
                path = f"{module_name}.{name}"
                names += [path, *(f"{path}.{member}" for member in own_members(value))]
    return sorted(names)


def own_members(cls: type) -> list[str]:
    """Give the public methods and properties that our own classes define."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("skdpsynth")]
    members = {name: value for base in ours for name, value in vars(base).items()}
    kinds = (classmethod, staticmethod, property)
    return [
        name
        for name, value in members.items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, kinds))
    ]


def ignored_codes(path: str) -> set[str]:
    owner, _, name = path.rpartition(".")
    if not name[0].isupper():
        return IGNORED_BELOW_CLASSES
    value = getattr(importlib.import_module(owner), name)
    return IGNORED_FOR_EXCEPTIONS if issubclass(value, BaseException) else IGNORED


@pytest.mark.parametrize("path", public_objects())
def test_docstring_is_valid(path):
    errors = validate(path)["errors"]
    assert [error for error in errors if error[0] not in ignored_codes(path)] == []
