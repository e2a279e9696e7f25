"""The page and the pictures of linked tables beside real ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.stats.contingency import association

from skdpsynth.metrics._linked_rows import Family
from skdpsynth.utils import (
    MOST_SHOWN,
    PRIVATE_FOOTER,
    Block,
    Document,
    Grid,
    Heading,
    check_range,
    drawable,
    picture,
)

_SIDES = ("real", "synthetic")
_SEQUENCES = 3  # of each table that are drawn, as many as fit beside one another
_COLUMNS = 6  # of them: as many as fit on a screen
MEANING = {
    "children": "number of rows of a parent",
    "children given parent": "the same given each column of the parent",
    "parent x child": "pairs of a column of the parent and one of its rows",
    "own x own": "pairs of columns of a row",
    "icc": "share of a column's variance that is between parents: error",
    "lag 1": "pairs of a column and one of the row before",
    "lag 1 same": "a column and itself in the row before",
    "lag 2": "pairs of a column and one two rows before",
    "lag 2 same": "a column and itself two rows before",
    "changes": "how often a column changes among the rows of a parent",
    "c2st rows": "AUC of boosting that tells rows from real ones (.5 is best)",
    "c2st sequences": "the same of all rows of a parent together",
    "tstr auroc": "AUROC of the outcome learnt from all rows of a parent (1 is best)",
    "tstr r2": "R squared of the outcome learnt from all rows of a parent (1 is best)",
    "orphans": "share of rows without a parent",
    "disorder": "share of rows that are written before an earlier one",
    "above max_rows": "share of parents with more rows",
    "repeated keys": "share of parents whose key another one has",
}


@dataclass(frozen=True, eq=False)
class LinkedFidelity(Document):
    """How good synthetic tables that hang on one another are.

    It is computed from real rows, so **it is not differentially private**, and no
    epsilon covers it: it is for who may see the real tables.

    Parameters
    ----------
    scores : DataFrame
        Columns `link` (its child), `score`, `value` and `floor`, which is what real
        tables reach; NaN where the units are too few, or there is no such column.
    families : mapping of str to pair
        Real and synthetic rows of each link, as they are drawn.

    See Also
    --------
    linked_fidelity : Makes it.

    Notes
    -----
    It prints as text, shows in a notebook, and has ``to_markdown``, ``to_html`` and
    ``plot``. It holds real rows, and pictures show some.
    """

    scores: pd.DataFrame
    families: Mapping[str, tuple[Family, Family]]

    def plot(self, link: str | None = None) -> NDArray[Any]:
        """Draw children per parent, what rows say of the next, and some sequences.

        Parameters
        ----------
        link : str, optional
            The child of the link; by default the first one.

        Returns
        -------
        ndarray of Axes
            Of a new figure: numbers of children, dependence of columns (Cramer's V)
            on those of the row before, or without an order on one another, of real and
            of synthetic rows, and below three real parents beside three synthetic ones.
        """
        link = next(iter(self.families)) if link is None else link
        check_range("link", link, link in self.families, f"one of {[*self.families]}")
        pair = self.families[link]
        columns = [i for i, c in enumerate(pair[0].own) if c.name in pair[0].children]
        columns = columns[:_COLUMNS]
        figure = plt.figure(figsize=(12, 4.5 + len(columns)), layout="constrained")
        heights = [4, max(len(columns), 1)]
        parts = figure.add_gridspec(2, 1, height_ratios=heights)
        places = parts[0].subgridspec(1, 3)
        top = [figure.add_subplot(places[i]) for i in range(3)]
        _draw_counts(top[0], pair)
        drawn = zip(top[1:], pair, _SIDES, strict=True)
        images = [_draw_dependence(*one) for one in drawn]
        bar = figure.colorbar(images[0], ax=top[1:], fraction=0.04, pad=0.02)
        bar.set_label("Cramer's V", fontsize="small")
        if columns:
            grid = (
                parts[1]
                .subgridspec(len(columns), 2 * _SEQUENCES)
                .subplots(sharex=True, sharey="row", squeeze=False)
            )
            for part, family, words in zip((0, 1), pair, _SIDES, strict=True):
                axes = grid[:, _SEQUENCES * part :][:, :_SEQUENCES]
                _draw_sequences(axes, family, columns, words)
        figure.supxlabel(PRIVATE_FOOTER, fontsize="small", color="0.35")
        return np.array(figure.axes)

    def _blocks(self, *, drawn: bool) -> Iterator[Block]:
        yield Heading("Linked tables beside real ones", 1)
        yield f"{PRIVATE_FOOTER}."
        yield (
            "Distances are total variation distances (0 is best). The floor is what one"
            " half of the real units has beside the other; copies of real units have no"
            " less."
        )
        for link, scores in self.scores.groupby("link", sort=False):
            yield Heading(str(link))
            rows = [
                [row.score, f"{row.value:.3f}", f"{row.floor:.3f}", MEANING[row.score]]
                for row in scores.itertuples()
            ]
            yield Grid(["score", "value", "floor", "meaning"], rows)
            if drawn:
                says = f"{link}: rows of a parent, dependence, and three sequences"
                yield picture(self.plot(str(link))[0], says)


def _draw_counts(ax: Axes, pair: tuple[Family, Family]) -> None:
    """Draw how many children parents have."""
    most = max(family.counts.max() for family in pair)
    shares = [np.bincount(f.counts, minlength=most + 1) / len(f.counts) for f in pair]
    ax.bar(range(most + 1), shares[0], color="0.75", label=_SIDES[0])
    ax.plot(range(most + 1), shares[1], "ko-", markersize=4, label=_SIDES[1])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="rows of a parent", ylabel="share of parents")
    ax.legend(frameon=False)


def _draw_dependence(ax: Axes, family: Family, words: str) -> AxesImage:
    """Draw Cramer's V of each column and each one of the row before, if there is."""
    lag = int(family.link.order_by is not None)
    at, columns = family.steps(lag), family.own[:MOST_SHOWN]
    squares = np.zeros((len(columns), len(columns)))
    for i, before in enumerate(columns):
        for j, after in enumerate(columns):
            shape = before.cells.n_cells, after.cells.n_cells
            places = before.codes[at] * shape[1] + after.codes[at + lag]
            counts = np.bincount(places, minlength=shape[0] * shape[1]).reshape(shape)
            used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
            squares[i, j] = association(used) if min(used.shape) > 1 else 0.0
    names = [drawable(column.name, 16) for column in columns]
    ax.set_xticks(range(len(names)), names, rotation=90, fontsize="small")
    ax.set_yticks(range(len(names)), names, fontsize="small")
    ax.set_title(words, fontsize="medium")
    ax.set_ylabel("column of the row before" if lag else "column", fontsize="small")
    return ax.imshow(squares, cmap="Greys", vmin=0.0, vmax=1.0)


def _draw_sequences(
    axes: NDArray[Any], family: Family, columns: list[int], words: str
) -> None:
    """Draw the rows of some parents, a line of axes for each column."""
    counts = family.counts
    several = np.flatnonzero(counts >= min(_SEQUENCES, counts.max()))
    chosen = several[np.linspace(0, len(several) - 1, _SEQUENCES).astype(int)]
    for number, parent in enumerate(chosen):
        at = np.flatnonzero(family.place == parent)
        axes[0, number].set_title(f"{words} {number + 1}", fontsize="medium")
        for ax, i in zip(axes[:, number], columns, strict=True):
            name, cells, codes = family.own[i]
            values = family.children[name].iloc[at].to_numpy()
            if cells.kind == "category":
                labels = [*cells.bounds, "(other)", "(missing)"]
                values = codes[at]
                ax.set_yticks(range(len(labels)), [drawable(v, 8) for v in labels])
            ax.plot(range(1, len(at) + 1), values, "ko-", markersize=3, linewidth=1)
            ax.tick_params(labelsize="x-small")
            ax.spines[["top", "right"]].set_visible(False)
            if ax.get_subplotspec().is_first_col():
                ax.set_ylabel(drawable(name, 14), fontsize="small")
