"""Columns in plain values, their 1-way and 2-way marginals, and all drawings.

A drawing is on axes that the caller has made.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from skdpsynth.metrics import CategoryCells, NumberCells, cramers_v
from skdpsynth.schema import as_moments
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN, Picture

Shares = NDArray[np.float64]
Styles = dict[str, dict[str, Any]]

PRIVATE_FOOTER = (
    "Contains private statistics: computed from real rows, covered by no epsilon"
)
PUBLIC_FOOTER = "Computed from synthetic rows only"
FOOTERS = {True: PRIVATE_FOOTER, False: PUBLIC_FOOTER}
SETTINGS = {
    "B": "learnt from synthetic rows, tested on real rows",
    "C": "learnt from synthetic rows, tested on synthetic rows",
}
REAL_ROWS = {"B": "real rows", "C": "real rows in Setting C"}
REAL_FILL = "0.8"
# Distinct without colour too: by line and mark, and colours get lighter in order.
_LINES = ["-", "--", "-."]
_MARKS = ["o", "s", "^", "D", "v", "P", "X"]
TINY, SMALL, TITLE = "x-small", "small", "medium"  # letters
MOST_DRAWN = FEW_NUMBERS  # columns, or bins of one, so that a picture can be read
_N_PAIRS = 4  # rows of one figure
_DAY = pd.Timedelta("1D")


@dataclass(frozen=True)
class PlainColumn:
    """Values of a column; times are days since 1970, and None or NaN is missing."""

    name: str
    kind: str
    items: list[Any]

    @classmethod
    def of(cls, name: str, column: pd.Series) -> PlainColumn:
        """Reduce a column of a table to what a plot needs."""
        types, column = pd.api.types, as_moments(column)
        kind = "number"
        if types.is_datetime64_any_dtype(column.dtype):
            kind, zone = "time", column.dt.tz
            column = (column - pd.Timestamp(0, tz=zone and "UTC")) / _DAY
        elif types.is_timedelta64_dtype(column.dtype):
            name, column = f"{name} (days)", column / _DAY
        elif not types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(
            column.dtype
        ):
            texts = [None if pd.isna(v) else str(v) for v in column.astype(object)]
            return cls(name, "category", texts)
        return cls(name, kind, column.to_numpy("float64", na_value=np.nan).tolist())

    def values(self) -> Any:  # noqa: ANN401 - what its kind of cells takes
        """Return the values as an array of numbers, or as a Series of categories."""
        if self.kind == "category":
            return pd.Series(self.items, dtype=object)
        return np.array(self.items, dtype=float)


def plain_columns(table: pd.DataFrame) -> list[PlainColumn]:
    """Reduce a table to what a plot needs."""
    return [PlainColumn.of(str(name), column) for name, column in table.items()]


@dataclass(frozen=True)
class Side:
    """The cells of one column; `ends` are where those of numbers begin and end."""

    name: str
    kind: str
    cells: NumberCells | CategoryCells
    ends: tuple[float, ...] = ()

    @classmethod
    def of(cls, column: PlainColumn, *, alone: bool = False) -> Side:
        """Let the values choose 12 cells at most: quantiles, or frequent categories.

        Numbers that are plotted `alone` have 32 bins of equal width at most, whole
        ones in their own where they fit; the outer bins take what lies beyond the
        middle 99 %.
        """
        values = column.values()
        if column.kind == "category":
            cells = CategoryCells.of(values, MOST_SHOWN)
            return cls(column.name, column.kind, cells)
        if not alone:
            return cls(column.name, column.kind, NumberCells.of(values, MOST_SHOWN))
        edges = _edges(values[~np.isnan(values)])
        ends = float(edges[0]), float(edges[-1])
        return cls(column.name, column.kind, NumberCells(edges[1:-1]), ends)

    def labels(self) -> list[str]:
        """Name the cells: a number is where its cell begins."""
        if isinstance(self.cells, CategoryCells):
            return [*map(str, self.cells.categories), "(other)", "(missing)"]
        edges = [self._written(edge) for edge in self.cells.edges]
        return [f"<{edges[0]}" if edges else "all", *edges, "(missing)"]

    def _written(self, edge: float) -> str:
        """Write a number or a date shortly."""
        if self.kind == "time":
            return f"{pd.Timestamp(0) + pd.Timedelta(edge, unit='D'):%Y-%m-%d}"
        return f"{edge:.0f}" if 1e3 <= abs(edge) < 1e7 else f"{edge:.3g}"


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Choose the bins of numbers, none of which is missing."""
    if not values.size:
        return np.array([0.0, 1.0])
    low, high = np.quantile(values, [0.005, 0.995])
    if (values == np.round(values)).all():
        low, high = np.floor(low), np.ceil(high)
        width = max(1.0, np.ceil((high - low + 1) / MOST_DRAWN))
        return np.arange(low - 0.5, high + width, width)
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    return np.linspace(low, high, MOST_DRAWN + 1)


@dataclass(frozen=True)
class Marginal:
    """One column or two, and the shares of the rows that chose their cells.

    `shares` has one axis for each column, whose last place is that of missing values.
    """

    sides: tuple[Side, ...]
    shares: Shares

    @classmethod
    def of(cls, column: PlainColumn) -> Marginal:
        """Choose cells for a column that is plotted alone, and count."""
        side = Side.of(column, alone=True)
        return cls((side,), _shares([side], [side.cells.codes(column.values())]))

    def shares_of(self, table: Sequence[PlainColumn]) -> Shares | None:
        """Compute the shares of another table; None if a column is of another kind."""
        named = {column.name: column for column in table}
        columns = [named[side.name] for side in self.sides]
        if [side.kind for side in self.sides] != [column.kind for column in columns]:
            return None
        pairs = zip(self.sides, columns, strict=True)
        return _shares(self.sides, [s.cells.codes(c.values()) for s, c in pairs])


def strongest_pairs(columns: Sequence[PlainColumn], target: str) -> list[Marginal]:
    """Find the pairs of columns with the largest Cramer's V, and of the target."""
    others = [column for column in columns if column.name != target]
    labels = [column for column in columns if column.name == target]
    sides = [(Side.of(c), c.values()) for c in others[:MOST_DRAWN] + labels]
    coded = [(side, side.cells.codes(values)) for side, values in sides]
    pairs = []
    for (first, codes), (second, others_codes) in combinations(coded, 2):
        shares = _shares([first, second], [codes, others_codes])
        counts = np.rint(shares * len(codes)).astype(np.intp)
        used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
        pairs.append((cramers_v(used), Marginal((first, second), shares)))
    pairs.sort(key=lambda pair: -pair[0])
    return [marginal for _, marginal in pairs[:_N_PAIRS]]


def _shares(
    sides: Sequence[Side], codes: Sequence[NDArray[np.int16]]
) -> NDArray[np.float64]:
    """Compute the shares of rows in the cells of columns."""
    shape = tuple(side.cells.n_cells for side in sides)
    places = np.ravel_multi_index(tuple(codes), shape)
    counts = np.bincount(places, minlength=int(np.prod(shape)))
    return counts.reshape(shape) / max(len(places), 1)


def styles_of(names: Sequence[str]) -> Styles:
    """Return a colour, a line and a mark of every synthesizer, alike in all plots."""
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, max(len(names), 2)))
    return {
        name: {
            "color": mpl.colors.to_hex(colours[i]),
            "linestyle": _LINES[i % len(_LINES)],
            "marker": _MARKS[i % len(_MARKS)],
        }
        for i, name in enumerate(names)
    }


def draw_curves(
    ax: Axes,
    curves: Mapping[str, pd.DataFrame],
    styles: Styles,
    baseline: str,
    *,
    largest: bool,
) -> None:
    """Draw mean scores over epsilon: the best with their spread, the others in grey."""
    positions = _positions({e for curve in curves.values() for e in curve.index})
    means = {name: curve["mean"] for name, curve in curves.items()}
    places = {name: [positions[e] for e in curves[name].index] for name in curves}
    lines = [name for name in curves if name != baseline]
    sign = 1 if largest else -1
    # A line that lacks epsilons is behind those that have all.
    ranked = sorted(lines, key=lambda n: (len(means[n]), sign * means[n].mean()))
    others = ranked[: -len(_MARKS)]  # of more than seven, greys are hard to distinguish
    for number, name in enumerate(others):
        label = "" if number else f"others: {len(others)}"
        ax.plot(places[name], means[name], ".-", color="0.8", lw=1, label=label)
    lines = [name for name in lines if name not in others]
    # Side by side, so that no bar hides another; more so where all share one place.
    apart = 0.05 if len(positions) - (math.inf in positions) <= 1 else 0.02
    for number, name in enumerate(lines):
        x = np.array(places[name]) + apart * (number - (len(lines) - 1) / 2)
        ax.plot(x, means[name], label=drawable(name), **styles[name])
        bars = {"ecolor": styles[name]["color"], "capsize": 3}
        ax.errorbar(x, means[name], curves[name]["std"], fmt="none", **bars)
    if baseline in curves:
        # A line through its points, or across where there is one.
        ending = "" if "baseline" in baseline.lower() else " (baseline)"
        line: dict[str, Any] = {"color": "0.45", "linestyle": ":", "linewidth": 2}
        line["label"] = drawable(baseline) + ending
        if len(means[baseline]) == 1:
            ax.axhline(means[baseline].iloc[0], **line)
        else:
            ax.plot(places[baseline], means[baseline], **line)
    ticks = [f"{e:g}" if e < math.inf else "no noise" for e in positions]
    ax.set_xticks(list(positions.values()), ticks)
    ax.set_xmargin(0.12)
    ax.set_xlabel("epsilon")


def draw_marks(
    ax: Axes, table: pd.DataFrame, real: pd.Series, styles: Styles, setting: str
) -> None:
    """Draw a line for each classifier, with a mark for each column of a table."""
    heights = np.arange(len(table))
    if real.notna().any():
        bar: dict[str, Any] = {"color": "black", "marker": "|", "linewidth": 2}
        ax.scatter(real, heights, s=190, label=REAL_ROWS[setting], **bar)
    _draw_in_lines(ax, {name: table[name] for name in styles if name in table}, styles)
    ax.set_yticks(heights, [drawable(name) for name in table.index], fontsize=SMALL)
    ax.set_ylim(-0.7, len(table) - 0.3)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)


def finish(
    axes: Sequence[Axes],
    own: bool,
    private: bool,
    entries: dict[str, Any] | None = None,
) -> None:
    """Add legend and footer; the legend of our own figure is above the axes."""
    figure = axes[0].figure
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    if entries is None:
        handles, labels = axes[0].get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True))
    options: dict[str, Any] = {"fontsize": SMALL, "frameon": False}
    if own:
        options |= {"loc": "outside upper center", "ncols": 3}
    (figure if own else axes[0]).legend(entries.values(), entries, **options)
    add_footer(figure, private)


def add_footer(figure: Figure | SubFigure, private: bool) -> None:
    """Write the footer once, where the figure has room."""
    if FOOTERS[private] in [artist.get_text() for artist in figure.texts]:
        return
    if figure.get_supxlabel():
        how: dict[str, Any] = {"ha": "right", "fontsize": TINY, "color": "0.35"}
        figure.text(0.99, 0.005, FOOTERS[private], **how)
    else:
        figure.supxlabel(FOOTERS[private], fontsize=SMALL, color="0.35")


def picture(ax: Axes, says: str) -> Picture:
    """Turn the figure of axes into a picture of a document, and close it."""
    buffer, figure = io.BytesIO(), cast("Figure", ax.figure)
    figure.savefig(buffer, format="png", dpi=150)
    plt.close(figure)
    return Picture(buffer.getvalue(), says)


def draw_marginal(
    ax: Axes,
    name: str,
    real: Marginal | None,
    samples: Mapping[str, Sequence[PlainColumn]],
    styles: Styles,
) -> None:
    """Draw the shares of one column; without real rows the synthetic ones choose."""
    if real is not None and real.shares_of(next(iter(samples.values()))) is None:
        real = None
    chosen = real or next(Marginal.of(c) for c in pooled(samples) if c.name == name)
    (side,) = chosen.sides
    shares = {of: chosen.shares_of(sample) for of, sample in samples.items()}
    parts = {of: part for of, part in shares.items() if part is not None}
    if isinstance(side.cells, CategoryCells):
        _draw_categories(ax, side.labels(), real, parts, styles)
    else:
        edges = [side.ends[0], *side.cells.edges, side.ends[1]]
        if real is not None:
            ax.stairs(real.shares[:-1], edges, fill=True, color=REAL_FILL)
        for of, part in parts.items():
            style = {k: styles[of][k] for k in ("color", "linestyle")}
            ax.stairs(part[:-1], edges, linewidth=1.3, **style)
        ax.set_ylabel("share of rows", fontsize=TINY)
        ax.locator_params(axis="x", nbins=5)
        if side.kind == "time":
            ax.xaxis_date()
            ax.tick_params(axis="x", rotation=30)
    ax.set_title(drawable(name), fontsize=TITLE)
    ax.tick_params(labelsize=TINY)


def _draw_categories(
    ax: Axes,
    labels: list[str],
    real: Marginal | None,
    parts: dict[str, Shares],
    styles: Styles,
) -> None:
    """Draw the shares of categories: bars for real rows, marks for the others."""
    bars = np.zeros(len(labels)) if real is None else real.shares
    used = np.flatnonzero(np.max([bars, *parts.values()], axis=0) > 0)[::-1]
    heights = np.arange(len(used))
    if real is not None:
        ax.barh(heights, bars[used], 0.8, color=REAL_FILL)
    _draw_in_lines(ax, {n: part[used] for n, part in parts.items()}, styles, size=4.5)
    ax.set_xlabel("share of rows", fontsize=TINY)
    ax.set_ylim(-0.8, len(used) - 0.2)
    ax.set_yticks(heights, [drawable(labels[i], 16) for i in used])
    ax.set_xlim(left=0)


def _draw_in_lines(
    ax: Axes, values: Mapping[str, Any], styles: Styles, *, size: float | None = None
) -> None:
    """Draw a mark for each line and synthesizer, none on top of another."""
    for number, (name, x) in enumerate(values.items()):
        mark = {k: styles[name][k] for k in ("color", "marker")}
        y = np.arange(len(x)) + 0.09 * ((len(values) - 1) / 2 - number)
        ax.plot(x, y, ls="", label=drawable(name), markersize=size, **mark)


def draw_pair(row: NDArray[Any], pair: Marginal, parts: list[Shares | None]) -> None:
    """Draw one pair of all tables, on one scale of grey."""
    known = [part for part in parts if part is not None]
    used = np.max([pair.shares, *known], axis=0) > 0
    rows, columns = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    upright, flat = pair.sides
    labels = [
        [drawable(side.labels()[i], 16) for i in cells]
        for side, cells in ((upright, rows), (flat, columns))
    ]
    # The longer labels stand on the left, where they are written once.
    turned = max(map(len, labels[1])) > max(map(len, labels[0]))
    if turned:
        upright, flat, labels = flat, upright, labels[::-1]
    # A root, so that rare cells are visible beside frequent ones.
    scale = mpl.colors.PowerNorm(0.5, 0.0, max(part.max() for part in known))
    rotation = 90 if sum(map(len, labels[1])) > 24 else 0
    for ax, part in zip(row, parts, strict=True):
        ax.set_xticks(range(len(labels[1])), labels[1], rotation=rotation)
        ax.set_yticks(range(len(labels[0])), labels[0] if ax is row[0] else [])
        ax.tick_params(labelsize=TINY, length=2)
        ax.set_xlabel(drawable(flat.name, 20), fontsize=SMALL)
        if part is None:
            ax.text(0.5, 0.5, "of another kind", ha="center", transform=ax.transAxes)
            continue
        shown = part[np.ix_(rows, columns)]
        shown = shown.T if turned else shown
        image = ax.imshow(shown, cmap="Greys", norm=scale, aspect="auto")
        if upright.kind != "category":
            ax.invert_yaxis()  # numbers grow upwards, frequent categories come first
    row[0].set_ylabel(drawable(upright.name, 20), fontsize=SMALL)
    bar = row[0].figure.colorbar(image, ax=list(row), fraction=0.03, pad=0.01)
    bar.set_label("share of rows", fontsize=SMALL)
    bar.ax.tick_params(labelsize=TINY)


def pooled(samples: Mapping[str, Sequence[PlainColumn]]) -> list[PlainColumn]:
    """Put the rows of all samples together; kinds are those of the first."""
    columns = [*chain.from_iterable(samples.values())]
    return [
        PlainColumn(name, kind, [*chain.from_iterable(parts)])
        for name, kind in [(c.name, c.kind) for c in next(iter(samples.values()))]
        for parts in [[c.items for c in columns if (c.name, c.kind) == (name, kind)]]
    ]


def _positions(epsilons: set[float]) -> dict[float, float]:
    """Place epsilons on a logarithmic axis, and the infinite one behind the last."""
    positions = {e: math.log10(e) for e in sorted(epsilons) if e < math.inf}
    if math.inf in epsilons:
        x = list(positions.values()) or [0.0]
        gap = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else 0.5
        positions[math.inf] = x[-1] + gap
    return positions


def drawable(name: str, width: int = 32) -> str:
    """Make a name fit to be drawn: neither mathematics, nor hidden, nor too long."""
    name = " ".join(str(name).split())
    name = name if len(name) <= width else f"{name[: width - 3]}..."
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def new_grid(n_rows: int, n_columns: int, size: tuple[float, float]) -> NDArray[Any]:
    return plt.subplots(
        n_rows, n_columns, figsize=size, layout="constrained", squeeze=False
    )[1]


def new_row(n_axes: int) -> NDArray[Any]:
    """Make a figure with as many axes as asked for, at most three in a row."""
    n_columns = min(n_axes, 3)
    n_rows = -(-n_axes // n_columns)
    size = (3.2 * n_columns + 0.4, 2.5 * n_rows + 0.8)
    axes = new_grid(n_rows, n_columns, size).ravel()
    for ax in axes[n_axes:]:
        ax.remove()
    return axes[:n_axes]
