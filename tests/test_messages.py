"""What users read when something is wrong: public names, and all of them documented."""

import ast
import re
from pathlib import Path

import skdpsynth
from skdpsynth import exceptions

ROOT = Path(skdpsynth.__file__).parent
# A class or a module that nobody can import by that name.
PRIVATE_NAME = re.compile(r"\b_\w*[A-Za-z]\w*|\._\w+|__\w+__")

TREES = {path: ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}


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
    page = (ROOT.parent / "docs" / "errors.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(listed) == exceptions.__all__
    for name in listed:
        (line,) = re.findall(rf"^\| `{name}` \| (.*?) \|", page, flags=re.MULTILINE)
        parents = {kind.__name__ for kind in getattr(exceptions, name).__mro__[1:]}
        assert set(re.findall(r"`(\w+)`", line)) <= parents
    assert all(getattr(exceptions, name).__doc__ for name in exceptions.__all__)
