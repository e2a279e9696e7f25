"""Headings, paragraphs, lists, tables and pictures: as Markdown and as HTML."""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

PRIVATE_FOOTER = (
    "Contains private statistics: computed from real rows, covered by no epsilon"
)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{meta}<title>{title}</title>
<style>
body {{ font: 16px/1.5 sans-serif; color: #222; background: #fff; margin: 0 auto;
  max-width: 62rem; padding: 0 1rem 4rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.2rem; margin-top: 2rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .25rem .6rem; text-align: left;
  vertical-align: top; }}
img {{ display: block; max-width: 100%; height: auto; margin: 1rem 0; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
# What Markdown takes for more than a letter, also in a cell of a table; an underscore
# within a word is one.
_SPECIAL = re.compile(r"([\\`*\[\]<>|#]|\b_|_\b)")


@dataclass(frozen=True)
class Heading:
    """A title of a document (level 1), of a part of it (2) or of a part of that (3)."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A PNG picture and the words for who does not see it; Markdown has these alone."""

    png: bytes
    says: str


def picture(ax: Axes, says: str) -> Picture:
    """Turn the figure of axes into a picture of a document, and close it."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure: Any = ax.figure
    figure.savefig(buffer, format="png", dpi=150)
    plt.close(figure)
    return Picture(buffer.getvalue(), says)


def drawable(name: object, width: int = 32) -> str:
    """Make a name fit to be drawn: neither mathematics, nor hidden, nor too long."""
    text = " ".join(str(name).split())
    text = text if len(text) <= width else f"{text[: width - 3]}..."
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


Block = str | Heading | Items | Grid | Picture


class Document:
    """What can be read as Markdown, as HTML, and in a notebook.

    A subclass may say in `_blocks` of what it consists; a str is a paragraph. Texts of
    a page are escaped: a name of a column cannot become markup. `meta` is what a page
    of HTML says of itself to programs.
    """

    # Without an annotation: a dataclass that is a document has no such field.
    _meta = MappingProxyType[str, object]({})

    def __init__(
        self, blocks: Iterable[Block], meta: Mapping[str, object] | None = None
    ) -> None:
        self._listed, self._meta = tuple(blocks), MappingProxyType(dict(meta or {}))

    def _blocks(self, *, drawn: bool) -> Iterable[Block]:
        """Return the blocks, with those that must be drawn first or without them."""
        del drawn
        return self._listed

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write it as Markdown.

        Parameters
        ----------
        path : path-like, optional
            Where to write it too; an existing file is replaced.

        Returns
        -------
        str
            The text.
        """
        text = self._lines(_plain)
        return _written(text, path)

    def _lines(self, shown: Callable[[str], str]) -> str:
        blocks = self._blocks(drawn=False)
        return "\n\n".join(_as_markdown(block, shown) for block in blocks) + "\n"

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write it as one self-contained page of HTML.

        Parameters
        ----------
        path : path-like, optional
            Where to write it too; an existing file is replaced.

        Returns
        -------
        str
            The page.
        """
        blocks = [*self._blocks(drawn=True)]
        titles = [b.text for b in blocks if isinstance(b, Heading)]
        meta = "".join(
            f'<meta name="{name}" content="{value}">\n'
            for name, value in self._meta.items()
        )
        title = html.escape((titles or ["skdpsynth"])[0])
        page = _PAGE.format(meta=meta, title=title, body=_body(blocks))
        return _written(page, path)

    def __str__(self) -> str:
        return self._lines(_on_one_line)  # a terminal shows what is escaped

    def _repr_html_(self) -> str:
        return _body(self._blocks(drawn=True))


def _body(blocks: Iterable[Block]) -> str:
    return "\n".join(map(_as_html, blocks))


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    return text


def _as_markdown(block: Block, shown: Callable[[str], str]) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {shown(block.text)}"
    if isinstance(block, Items):
        return "\n".join(f"- {shown(text)}" for text in block.texts)
    if isinstance(block, Grid):
        head, *rows = [list(map(shown, row)) for row in (block.headings, *block.rows)]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        widths[-1] = len(head[-1])  # it may be long: what is behind it need not align
        lines = [head, ["-" * max(width, 3) for width in widths], *rows]
        padded = [map(str.ljust, line, widths) for line in lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in padded)
    if isinstance(block, Picture):
        return f"*{shown(block.says)}*"
    return shown(block)


def _plain(text: str) -> str:
    """Write a text on one line so that Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\1", _on_one_line(text))


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _as_html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    if isinstance(block, Items):
        return f"<ul>{_tagged('li', block.texts)}</ul>"
    if isinstance(block, Grid):
        body = "".join(f"<tr>{_tagged('td', row)}</tr>" for row in block.rows)
        head = f"<thead><tr>{_tagged('th', block.headings)}</tr></thead>"
        table = f"<table>{head}<tbody>{body}</tbody></table>"
        return f'<div class="wide">{table}</div>'
    if isinstance(block, Picture):
        data = base64.b64encode(block.png).decode("ascii")
        says = html.escape(block.says)
        return f'<img alt="{says}" src="data:image/png;base64,{data}">'
    return f"<p>{html.escape(block)}</p>"


def _tagged(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
