"""The size of the project is a budget: it is what somebody who joins has to read.

`make size` prints where it stands. What goes lowers a figure; one is raised only with a
line in CONTRIBUTING.md that says what users get for it.
"""

import ast
import io
import subprocess
import tokenize
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "skdpsynth"

# Of every folder: lines, tokens without comments, files, and names that it offers.
FOLDERS = {
    ".ci": (44, 296, 1, 0),
    "benchmarks": (2065, 15779, 10, 0),
    "docs": (78, 258, 1, 0),
    "examples": (2511, 15931, 26, 0),
    "skdpsynth": (2056, 11378, 8, 18),
    "skdpsynth/audit": (2130, 11663, 7, 14),
    "skdpsynth/datasets": (355, 1447, 2, 6),
    "skdpsynth/evaluation": (2050, 12809, 6, 5),
    "skdpsynth/linked": (2146, 15895, 10, 3),
    "skdpsynth/model": (1451, 11917, 5, 21),
    "skdpsynth/measure": (6619, 50841, 16, 37),
    "skdpsynth/metrics": (2327, 13972, 8, 32),
    "skdpsynth/privacy": (3726, 18028, 10, 30),
    "skdpsynth/sampling": (692, 4737, 3, 5),
    "skdpsynth/schema": (2880, 16824, 6, 39),
    "skdpsynth/synthesizers": (2685, 11469, 12, 9),
    "skdpsynth/table": (4178, 33501, 11, 46),
    "skdpsynth/training": (1936, 13368, 9, 32),
    "skdpsynth/utils": (1535, 9087, 10, 33),
    "tests": (31408, 282033, 122, 0),
}
# Of the package.
CIRCLES = 0  # modules that import one another, also for their types alone
CONSTANTS = 227  # that are numbers, of modules
UNEXPLAINED = 0  # of these, without a comment
LITERALS = 513  # numbers in functions other than -1, 0, 1 and 2
DOCS = 42917  # words of docs
# So much below its budget a figure may stay, since two changes may come together.
SLACK = 0.02

_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT),
    *(tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER),
}


@cache
def tracked(pattern: str) -> list[str]:
    """Return the files of a pattern that git knows and that exist."""
    command = ["git", "ls-files", pattern]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a clone, not an sdist")
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def parsed(file: str) -> ast.Module:
    return ast.parse(text_of(file))


def modules() -> list[str]:
    return [file for file in tracked("*.py") if file.startswith(PACKAGE)]


def folder_of(file: str) -> str:
    """Return the folder of a file, of two levels inside the package."""
    folders = Path(file).parts[:-1]
    return "/".join(folders[: 2 if folders[0] == PACKAGE else 1])


def offered(file: str) -> int:
    """Count what a folder of the package offers: to users, or as `name as name`."""
    if not (file.startswith(PACKAGE) and file.endswith("__init__.py")):
        return 0
    names = set()
    for node in parsed(file).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names if alias.name == alias.asname}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names |= {*ast.literal_eval(node.value)}
    return len(names)


def sizes() -> dict[str, tuple[int, ...]]:
    """Return what `FOLDERS` has, as it is."""
    found: dict[str, tuple[int, ...]] = {}
    for file in tracked("*.py"):
        text = text_of(file)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        n_tokens = sum(token.type not in _LAYOUT for token in tokens)
        own = text.count("\n"), n_tokens, 1, offered(file)
        before = found.get(folder_of(file), (0,) * 4)
        found[folder_of(file)] = tuple(map(sum, zip(before, own, strict=True)))
    return found


def numbers_in(node: ast.AST) -> list[float]:
    constants = (leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Constant))
    return [leaf.value for leaf in constants if type(leaf.value) in (int, float)]


def constants_of(file: str) -> list[bool]:
    """Return, for every name of a module that is a number, whether a comment has why.

    It stands in the lines of the constant or above them; several names share one if no
    other line is between them.
    """
    lines = text_of(file).splitlines()
    found, explained = [], -1  # the line up to which the comment above holds
    for node in parsed(file).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [
            leaf.id
            for target in targets
            for leaf in ast.walk(target)
            if isinstance(leaf, ast.Name) and leaf.id.isupper()
        ]
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        above = explained == first or lines[first - 1].startswith("#")
        explained = last if above else explained
        beside = any("  # " in line for line in lines[first:last])
        if numbers_in(node.value):
            found += [above or beside] * len(names)
    return found


def literals_of(file: str) -> int:
    """Count numbers in the functions of a module, in their defaults too."""
    functions = [
        leaf
        for node in parsed(file).body
        for leaf in (node.body if isinstance(node, ast.ClassDef) else [node])
        if isinstance(leaf, ast.FunctionDef)
    ]
    found = (number for leaf in functions for number in numbers_in(leaf))
    return sum(abs(number) not in (0, 1, 2) for number in found)


def circle() -> list[str]:
    """Return modules of which each imports the next one; none without a circle."""
    there = {*modules()}
    graph = {
        file: {
            path
            for node in ast.walk(parsed(file))
            if isinstance(node, ast.ImportFrom) and node.module
            for name in [node.module, *(f"{node.module}.{x.name}" for x in node.names)]
            if (path := name.replace(".", "/") + ".py") in there
        }
        for file in there
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def counts() -> dict[str, tuple[int, int]]:
    """Return every figure of the project beside its budget."""
    explained = [known for file in modules() for known in constants_of(file)]
    words = sum(len(text_of(file).split()) for file in tracked("docs/*.md"))
    return {
        "modules in a circle of imports": (len(circle()), CIRCLES),
        "numeric constants": (len(explained), CONSTANTS),
        "of these without a comment": (explained.count(False), UNEXPLAINED),
        "numbers in functions": (sum(map(literals_of, modules())), LITERALS),
        "words of docs": (words, DOCS),
    }


def above(figure: int, budget: int) -> bool:
    """Tell whether a figure is above its budget, or this far above the figure."""
    return figure > budget or figure < budget * (1 - SLACK) - 1


def test_no_folder_is_larger_than_its_budget():
    found = sizes()
    assert found.keys() == FOLDERS.keys()
    wrong = {
        folder: (found[folder], budget)
        for folder, budget in FOLDERS.items()
        if any(map(above, found[folder], budget))
    }
    assert not wrong, "Raise or lower them: figure, budget"


def test_nothing_else_is_more_than_its_budget():
    wrong = {name: pair for name, pair in counts().items() if above(*pair)}
    assert not wrong, "Raise or lower them: figure, budget"


def print_sizes() -> None:
    """Print the figures in the form of `FOLDERS`, and the others."""
    found = sizes()
    for folder, own in found.items():
        print(f'    "{folder}": {own},')
    inside = [own for folder, own in found.items() if folder.startswith(PACKAGE)]
    print(
        "package:",
        *map(sum, zip(*inside, strict=True)),
        "(lines, tokens, files, names)",
    )
    for name, (figure, budget) in counts().items():
        print(f"{name}: {figure} (budget {budget})")


if __name__ == "__main__":
    print_sizes()
