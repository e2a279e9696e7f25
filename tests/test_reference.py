"""The reference of the site names once what users need of the interfaces.

And the docstring of every class, function and method in it follows numpydoc.
"""

import ast
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest
from numpydoc.validate import validate

import skdpsynth
from skdpsynth import exceptions

PACKAGE = Path(skdpsynth.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "index.rst"
# ES01: a short function needs no extended summary. GL01, GL02: where the text starts
# and ends is the formatter's business. RT02: a named return value reads better.
IGNORED = {"ES01", "GL01", "GL02", "RT02"}
# "See Also" and "Examples" are asked of classes only, and not of errors and results.
IGNORED_BELOW_CLASSES = IGNORED | {"SA01", "EX01"}
RESULTS = ("skdpsynth.audit", "skdpsynth.evaluation", "skdpsynth.metrics")


def entries() -> list[tuple[str, str]]:
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


def value_of(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def offered(module: str) -> set[str]:
    """Give the names in `__all__`, and `name as name`, which other folders import.

    Without either, what a module defines whose name has no underscore.
    """
    file = Path(importlib.import_module(module).__file__)
    body = ast.parse(file.read_text(encoding="utf-8")).body
    imported = [
        alias for n in body if isinstance(n, ast.ImportFrom) for alias in n.names
    ]
    names = {alias.name for alias in imported if alias.asname == alias.name}
    names |= {*getattr(importlib.import_module(module), "__all__", ())}
    if names or file.name == "__init__.py":
        return names
    defined = {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return {name for name in defined if not name.startswith("_")}


def identity(module: str, name: str) -> tuple[str, str]:
    """Say where an object lives, whatever module it is imported from."""
    value = value_of(module, name)
    home = getattr(value, "__module__", module)  # a constant has none
    return home, getattr(value, "__qualname__", name)


def names_imported_across_folders() -> set[tuple[str, str]]:
    """Give module and name of all imports between folders, benchmarks included."""
    found = set()
    for root in (PACKAGE, PACKAGE.parent / "benchmarks", PACKAGE.parent / "tests"):
        for file in root.rglob("*.py"):
            own = ".".join(file.relative_to(root.parent).parts[:2])
            modules = {}  # what may be one, by its name in the file
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module != own:
                    found |= {(node.module, alias.name) for alias in node.names}
                    modules |= {a.name: f"{node.module}.{a.name}" for a in node.names}
                elif isinstance(node, ast.Attribute):
                    owner = getattr(node.value, "id", None)
                    found.add((modules.get(owner), node.attr))
    return found


def test_every_name_of_an_interface_is_listed_once_or_used_by_another_folder():
    """What users need is in the reference; nothing else is offered for its own sake."""
    for module, name in entries():
        assert name in offered(module)
    listed = Counter(identity(module, name) for module, name in entries())
    assert [path for path, times in listed.items() if times > 1] == []
    # The version is a text, and has no page.
    names = {*skdpsynth.__all__} - {"__version__"}
    assert {identity("skdpsynth", name) for name in names} <= {*listed}
    others = {
        (module, name)
        for module in public_modules()
        for name in offered(module)
        if module != "skdpsynth" and identity(module, name) not in listed
    }
    assert others <= names_imported_across_folders()


def public_objects() -> list[tuple[str, set[str]]]:
    """Give what the reference lists, and its methods, with the codes to ignore."""
    found = []
    for module, name in entries():
        path, value = f"{module}.{name}", value_of(module, name)
        if module == "skdpsynth.extension":
            continue  # names for authors keep the short docstrings of where they live
        if not inspect.isclass(value):
            found.append((path, IGNORED_BELOW_CLASSES))
            continue
        # Users make neither errors nor results, which need no example.
        given = issubclass(value, BaseException) or module in RESULTS
        found.append((path, IGNORED_BELOW_CLASSES if given else IGNORED))
        ours = [base for base in value.__mro__ if base.__module__.startswith("skdps")]
        kinds = (classmethod, staticmethod, property)
        for member in {k: v for base in ours for k, v in vars(base).items()}.items():
            # What is deprecated has a line.
            leaves = (member[1].__doc__ or "").endswith("; until 0.5.")
            public = not (member[0].startswith("_") or leaves)
            if public and (
                inspect.isfunction(member[1]) or isinstance(member[1], kinds)
            ):
                found.append((f"{path}.{member[0]}", IGNORED_BELOW_CLASSES))
    return sorted(found)


@pytest.mark.parametrize(
    ("path", "ignored"), [pytest.param(*own, id=own[0]) for own in public_objects()]
)
def test_docstring_is_valid(path, ignored):
    errors = validate(path)["errors"]
    assert [error for error in errors if error[0] not in ignored] == []


REPOSITORY = PACKAGE.parent


def public_modules() -> list[str]:
    """Give the package and all modules below it whose path has no underscore."""
    found = pkgutil.walk_packages([str(PACKAGE)], prefix="skdpsynth.")
    names = [module.name for module in found]
    return ["skdpsynth", *(name for name in names if "._" not in name)]


def test_type_checkers_see_the_lazy_names():
    """The block under `if TYPE_CHECKING` says where each name is public, and lives."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    mirror = {
        alias.name: importlib.import_module(statement.module)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert set(skdpsynth.__all__) == {*mirror, "__version__"} <= set(dir(skdpsynth))
    for name, home in mirror.items():
        assert name in offered(home.__name__)
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


ERRORS = sorted(n for n, kind in vars(exceptions).items() if isinstance(kind, type))
# A class or a module that nobody can import by that name.
PRIVATE_NAME = re.compile(r"\b_\w*[A-Za-z]\w*|\._\w+|__\w+__")

TREES = {path: ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


def test_no_message_names_what_is_private():
    """But for `_generator_state`, which the author of a synthesizer fills in."""
    texts = [
        part.value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    found = [text for text in texts if PRIVATE_NAME.search(text)]
    assert [text for text in found if "_generator_state" not in text] == []


def test_the_guide_has_every_exception_and_warning():
    """Who knows only Python's own catches ours."""
    page = (PACKAGE.parent / "docs" / "errors.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(listed) == ERRORS
    root = exceptions.SkdpsynthError
    for name in listed:
        kind = getattr(exceptions, name)
        (line,) = re.findall(rf"^\| `{name}` \| (.*?) \|", page, flags=re.MULTILINE)
        parents = {parent.__name__ for parent in kind.__mro__[1:]}
        assert set(re.findall(r"`(\w+)`", line)) <= parents
        assert issubclass(kind, UserWarning if name.endswith("Warning") else root)
        builtin = UserWarning | ValueError | OSError | ImportError | RuntimeError
        assert issubclass(kind, builtin) or kind is root
        assert kind.__doc__
