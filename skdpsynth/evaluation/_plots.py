"""Pairs of columns in cells, and all drawings of a comparison."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats.contingency import association

from skdpsynth.metrics import Cells, finite_numbers
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN, PRIVATE_FOOTER, drawable
from skdpsynth.utils.arrays import Floats

Shares = Floats
Styles = dict[str, dict[str, Any]]

FOOTERS = {True: PRIVATE_FOOTER, False: "Computed from synthetic rows only"}
SETTINGS = {
    "B": "learnt from synthetic rows, tested on real rows",
    "C": "learnt from synthetic rows, tested on synthetic rows",
}
REAL_ROWS = {"B": "real rows", "C": "real rows in Setting C"}
# Distinct without colour too: by line and mark, and colours get lighter in order.
_LINES = ["-", "--", "-."]
_MARKS = ["o", "s", "^", "D", "v", "P", "X"]
TINY, SMALL, TITLE = "x-small", "small", "medium"  # letters
MOST_DRAWN = FEW_NUMBERS  # columns, so that a picture can be read
_N_PAIRS = 4  # rows of one figure
_DAY = pd.Timedelta("1D").total_seconds()


def _kind(column: pd.Series) -> str:
    """Return what a column is in a picture; booleans, and no values, are categories."""
    types, dtype = pd.api.types, column.dtype
    if types.is_datetime64_any_dtype(dtype):
        return "time"
    if types.is_timedelta64_dtype(dtype):
        return "days"
    numbers = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
    return "number" if numbers and column.notna().any() else "category"


def _values(column: pd.Series, kind: str) -> pd.Series:
    """Return what is drawn of a column: of times days."""
    if kind == "category":
        return column
    return pd.Series(finite_numbers(column) / (1 if kind == "number" else _DAY))


@dataclass(frozen=True)
class Side:
    """The cells of one column."""

    name: Hashable
    kind: str
    cells: Cells

    @classmethod
    def of(cls, column: pd.Series) -> Side:
        """Let the values choose 12 cells at most: quantiles, or frequent categories."""
        kind = _kind(column)
        of_cells = "category" if kind == "category" else "number"
        cells = Cells.of(_values(column, kind), of_cells, MOST_SHOWN)
        return cls(column.name, kind, cells)

    def codes(self, table: pd.DataFrame) -> NDArray[np.int16]:
        """Return the cells of a table's values."""
        return self.cells.codes(_values(table[self.name], self.kind))

    @property
    def title(self) -> str:
        """Name of the column, and its unit."""
        return f"{self.name} (days)" if self.kind == "days" else str(self.name)

    def labels(self) -> list[str]:
        """Name the cells: a number is where its cell begins."""
        if self.kind == "category":
            return [*map(str, self.cells.bounds), "(other)", "(missing)"]
        edges = [self._written(edge) for edge in self.cells.bounds]
        return [f"<{edges[0]}" if edges else "all", *edges, "(missing)"]

    def _written(self, edge: float) -> str:
        """Write a number or a date shortly."""
        if self.kind == "time":
            return f"{pd.Timestamp(0) + pd.Timedelta(edge, unit='D'):%Y-%m-%d}"
        return f"{edge:.0f}" if 1e3 <= abs(edge) < 1e7 else f"{edge:.3g}"


@dataclass(frozen=True)
class Pair:
    """Two columns, and the shares of the rows that chose their cells.

    `shares` has an axis for each column, whose last place is that of missing values.
    """

    sides: tuple[Side, Side]
    shares: Shares

    def shares_of(self, table: pd.DataFrame) -> Shares:
        """Compute the shares of another table."""
        return _shares(self.sides, [side.codes(table) for side in self.sides])


def strongest_pairs(table: pd.DataFrame, target: Hashable) -> list[Pair]:
    """Find the pairs of columns with the largest Cramer's V, and of the target."""
    others = [name for name in table if name != target]
    sides = [Side.of(table[name]) for name in [*others[:MOST_DRAWN], target]]
    coded = [(side, side.codes(table)) for side in sides]
    pairs = []
    for (first, codes), (second, other_codes) in combinations(coded, 2):
        shares = _shares([first, second], [codes, other_codes])
        counts = np.rint(shares * len(table)).astype(np.intp)
        used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
        strength = association(used) if min(used.shape) > 1 else 0.0
        pairs.append((strength, Pair((first, second), shares)))
    pairs.sort(key=lambda pair: -pair[0])
    return [pair for _, pair in pairs[:_N_PAIRS]]


def _shares(sides: Sequence[Side], codes: Sequence[NDArray[np.int16]]) -> Shares:
    """Compute the shares of rows in the cells of columns."""
    shape = tuple(side.cells.n_cells for side in sides)
    places = np.ravel_multi_index(tuple(codes), shape)
    counts = np.bincount(places, minlength=int(np.prod(shape)))
    return counts.reshape(shape) / max(len(places), 1)


def styles_of(names: Iterable[str], baseline: str) -> Styles:
    """Return a colour, a line and a mark of every synthesizer, alike in all plots.

    Those of the baseline, if there is one, are the same in every comparison.
    """
    listed = [name for name in names if name != baseline]
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, max(len(listed), 2)))
    styles = {
        name: {
            "color": mpl.colors.to_hex(colours[i]),
            "linestyle": _LINES[i % len(_LINES)],
            "marker": _MARKS[i % len(_MARKS)],
        }
        for i, name in enumerate(listed)
    }
    if baseline:
        styles[baseline] = {"color": "0.45", "linestyle": ":", "marker": "x"}
    return styles


def draw_curves(ax: Axes, points: pd.DataFrame, styles: Styles) -> None:
    """Draw mean scores over epsilon, with their spread.

    Each synthesizer and epsilon, the index, has a point at `mean`, and `std`.
    """
    epsilons = points.index.get_level_values("epsilon")
    positions = _positions({*epsilons})
    points = points.assign(x=epsilons.map(positions))
    lines = [name for name in styles if name in points.index]
    # Side by side, so that no bar hides another; more so where all share one place.
    apart = 0.05 if len(positions) - (math.inf in positions) <= 1 else 0.02
    for number, name in enumerate(lines):
        curve, style = points.loc[name], styles[name]
        x = curve["x"] + apart * (number - (len(lines) - 1) / 2)
        ax.plot(x, curve["mean"], label=drawable(name), **style)
        bars: dict[str, Any] = {"fmt": "none", "ecolor": style["color"], "capsize": 3}
        ax.errorbar(x, curve["mean"], curve["std"], **bars)
    ticks = [f"{e:g}" if e < math.inf else "no noise" for e in positions]
    ax.set_xticks(list(positions.values()), ticks)
    ax.set_xmargin(0.12)
    ax.set_xlabel("epsilon")


def _positions(epsilons: set[float]) -> dict[float, float]:
    """Place epsilons on a logarithmic axis, and the infinite one behind the last."""
    positions = {e: math.log10(e) for e in sorted(epsilons) if e < math.inf}
    if math.inf in epsilons:
        x = list(positions.values()) or [0.0]
        gap = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else 0.5
        positions[math.inf] = x[-1] + gap
    return positions


def draw_classifiers(
    ax: Axes, table: pd.DataFrame, real: pd.Series, styles: Styles, setting: str
) -> None:
    """Draw a line for each classifier, with a mark for each column of a table."""
    heights = np.arange(len(table))
    if real.notna().any():
        bar: dict[str, Any] = {"color": "black", "marker": "|", "linewidth": 2}
        ax.scatter(real, heights, s=190, label=REAL_ROWS[setting], **bar)
    shown = [name for name in styles if name in table]
    for number, name in enumerate(shown):  # no mark on top of another
        mark = {key: styles[name][key] for key in ("color", "marker")}
        y = heights + 0.09 * ((len(shown) - 1) / 2 - number)
        ax.plot(table[name], y, ls="", label=drawable(name), **mark)
    ax.set_yticks(heights, [drawable(name) for name in table.index], fontsize=SMALL)
    ax.set_ylim(-0.7, len(table) - 0.3)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)


def draw_pair(row: Sequence[Axes], pair: Pair, parts: list[Shares]) -> None:
    """Draw one pair of all tables, on one scale of grey."""
    used = np.max([pair.shares, *parts], axis=0) > 0
    places = [np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))]
    labels = [
        [drawable(side.labels()[i], 16) for i in cells]
        for side, cells in zip(pair.sides, places, strict=True)
    ]
    (upright, flat), (left, below) = pair.sides, labels
    # A root, so that rare cells are visible beside frequent ones.
    scale = mpl.colors.PowerNorm(0.5, 0.0, max(part.max() for part in parts))
    rotation = 90 if sum(map(len, below)) > 24 else 0
    for ax, part in zip(row, parts, strict=True):
        ax.set_xticks(range(len(below)), below, rotation=rotation)
        ax.set_yticks(range(len(left)), left if ax is row[0] else [])
        ax.tick_params(labelsize=TINY, length=2)
        ax.set_xlabel(drawable(flat.title, 20), fontsize=SMALL)
        shown = part[np.ix_(*places)]
        image = ax.imshow(shown, cmap="Greys", norm=scale, aspect="auto")
        if upright.kind != "category":
            ax.invert_yaxis()  # numbers grow upwards, frequent categories come first
    row[0].set_ylabel(drawable(upright.title, 20), fontsize=SMALL)
    bar = row[0].figure.colorbar(image, ax=list(row), fraction=0.03, pad=0.01)
    bar.set_label("share of rows", fontsize=SMALL)
    bar.ax.tick_params(labelsize=TINY)


def new_axes(n_rows: int, n_columns: int, size: tuple[float, float]) -> NDArray[Any]:
    """Return the axes of a new figure."""
    how: dict[str, Any] = {"layout": "constrained", "squeeze": False}
    return plt.subplots(n_rows, n_columns, figsize=size, **how)[1]


def finish(ax: Axes, given: object, private: bool) -> None:
    """Add legend and footer; the legend of a figure of our own is above the axes."""
    figure: Any = ax.figure
    ax.spines[["top", "right"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    how: dict[str, Any] = {"fontsize": SMALL, "frameon": False}
    if given is None:
        figure.legend(handles, labels, loc="outside upper center", ncols=3, **how)
    else:
        ax.legend(handles, labels, **how)
    add_footer(figure, private)


def add_footer(figure: Any, private: bool) -> None:  # noqa: ANN401 - or a part of one
    """Write the footer once, where the figure has room."""
    footer = FOOTERS[private]
    if footer in [artist.get_text() for artist in figure.texts]:
        return
    if figure.get_supxlabel():
        how: dict[str, Any] = {"ha": "right", "fontsize": TINY, "color": "0.35"}
        figure.text(0.99, 0.005, footer, **how)
    else:
        figure.supxlabel(footer, fontsize=SMALL, color="0.35")
