"""Documents: what is shown is what was given, in Markdown and in HTML."""

import html
import re

from hypothesis import given, settings, strategies as st

from skdpsynth.utils import Document, Grid, Heading, Items, Picture

WORDS = st.text(alphabet="ab _*|<>&[]`\\#'\"\n", max_size=12)


def unescaped(text):
    """Read Markdown's escapes back."""
    return re.sub(r"\\([\\`*_\[\]<>|#])", r"\1", text)


@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
@settings(deadline=None)
def test_cells_come_back(rows):
    document = Document([Grid(("a", "b"), rows)])
    lines = document.to_markdown().splitlines()
    assert lines[1] == "| " + "-" * (len(lines[1].split(" | ")[0]) - 2) + " | --- |"
    for line, row in zip(lines[2:], rows, strict=True):
        cells = re.split(r"(?<!\\)(?:\\\\)*\|", line)
        found = re.findall(r"\| ((?:[^|\\]|\\.)*?) *(?= \||$)", line)
        assert len(cells) >= 3
        expected = [" ".join(own.split()) for own in row]
        assert [unescaped(own).strip() for own in found] == expected
    cells = re.findall("<td>(.*?)</td>", document.to_html(), re.DOTALL)
    assert [html.unescape(own) for own in cells] == [own for row in rows for own in row]


def test_every_block_is_written(tmp_path):
    document = Document(
        [
            Heading("A <title>", 1),
            "a_name, _emphasis_ and\nmore",
            Items(["one", "*two*"]),
            Grid(("x",), [("1",)]),
            Picture(b"\x89PNG", 'says "it"'),
        ]
    )
    text = document.to_markdown(tmp_path / "a.md")
    assert text == (tmp_path / "a.md").read_text(encoding="utf-8")
    assert str(document) == unescaped(text)  # in a terminal nobody reads escapes
    assert text.split("\n\n") == [
        r"# A \<title\>",
        r"a_name, \_emphasis\_ and more",
        "- one\n- \\*two\\*",
        "| x |\n| --- |\n| 1 |",
        '*says "it"*\n',
    ]
    page = document.to_html(tmp_path / "a.html")
    assert page == (tmp_path / "a.html").read_text(encoding="utf-8")
    assert document._repr_html_() in page
    assert "<title>A &lt;title&gt;</title>" in page
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "<li>*two*</li>" in page
    assert 'alt="says &quot;it&quot;" src="data:image/png;base64,iVBORw=="' in page
