"""The docstring of every public class, function and method follows numpydoc."""

from __future__ import annotations

import importlib
import inspect

import pytest
from numpydoc.validate import validate
from test_reference import entries

# ES01: a short function needs no extended summary. GL01, GL02: where the text starts
# and ends is the formatter's business. RT02: a named return value reads better.
IGNORED = {"ES01", "GL01", "GL02", "RT02"}
# "See Also" and "Examples" are asked of classes only.
IGNORED_BELOW_CLASSES = IGNORED | {"SA01", "EX01"}
# Errors and warnings are not constructed by users.
IGNORED_FOR_EXCEPTIONS = IGNORED_BELOW_CLASSES


def public_objects() -> list[str]:
    """Give the dotted names of what the reference lists, and of their methods."""
    names = []
    for module_name, name in entries():
        # Names for authors keep the short docstrings of where they live.
        if module_name == "skdpsynth.extension":
            continue
        path = f"{module_name}.{name}"
        value = getattr(importlib.import_module(module_name), name)
        if inspect.isclass(value):
            names += [path, *(f"{path}.{member}" for member in own_members(value))]
        else:
            names.append(path)
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
