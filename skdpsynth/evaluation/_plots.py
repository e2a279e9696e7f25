"""Columns and pairs of columns in cells, and all drawings of a comparison."""

from __future__ import annotations

import io
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from skdpsynth.metrics import Cells, cramers_v, finite_numbers
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN, Picture
from skdpsynth.utils.arrays import Floats

Shares = Floats
Styles = dict[str, dict[str, Any]]

PRIVATE_FOOTER = (
    "Contains private statistics: computed from real rows, covered by no epsilon"
)
FOOTERS = {True: PRIVATE_FOOTER, False: "Computed from synthetic rows only"}
SETTINGS = {
    "B": "learnt from synthetic rows, tested on real rows",
    "C": "learnt from synthetic rows, tested on synthetic rows",
}
REAL_ROWS = {"B": "real rows", "C": "real rows in Setting C"}
_REAL_FILL = "0.8"
# Distinct without colour too: by line and mark, and colours get lighter in order.
_LINES = ["-", "--", "-."]
_MARKS = ["o", "s", "^", "D", "v", "P", "X"]
TINY, SMALL, TITLE = "x-small", "small", "medium"  # letters
MOST_DRAWN = FEW_NUMBERS  # columns, or bins of one, so that a picture can be read
_N_PAIRS = 4  # rows of one figure
_DAY = pd.Timedelta("1D").total_seconds()


def _as_drawn(column: pd.Series) -> tuple[str, pd.Series]:
    """Return what a column is in a picture; times are days, and booleans categories."""
    types, dtype = pd.api.types, column.dtype
    if types.is_datetime64_any_dtype(dtype):
        kind, unit = "time", _DAY
    elif types.is_timedelta64_dtype(dtype):
        kind, unit = "days", _DAY
    elif types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype):
        kind, unit = "number", 1
    else:
        return "category", column
    return kind, pd.Series(finite_numbers(column) / unit)


@dataclass(frozen=True)
class Side:
    """The cells of one column; `ends` are where those of numbers begin and end."""

    name: Hashable
    kind: str
    cells: Cells
    ends: tuple[float, ...] = ()

    @classmethod
    def of(cls, column: pd.Series, *, alone: bool = False) -> Side:
        """Let the values choose 12 cells at most: quantiles, or frequent categories.

        Numbers that are plotted `alone` have 32 bins of equal width at most, whole
        ones in their own where they fit; the outer bins take what lies beyond the
        middle 99 %.
        """
        kind, values = _as_drawn(column)
        if alone and kind != "category":
            edges = _edges(values.dropna().to_numpy())
            ends = float(edges[0]), float(edges[-1])
            return cls(column.name, kind, Cells("number", edges[1:-1]), ends)
        of_cells = "category" if kind == "category" else "number"
        return cls(column.name, kind, Cells.of(values, of_cells, MOST_SHOWN))

    def codes(self, table: pd.DataFrame) -> NDArray[np.int16]:
        """Return the cells of a table's values."""
        return self.cells.codes(_as_drawn(table[self.name])[1])

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


def _edges(values: Shares) -> Shares:
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
    def of(cls, table: pd.DataFrame, *sides: Side) -> Marginal:
        """Compute the shares of the rows of a table."""
        return cls(sides, _shares(sides, [side.codes(table) for side in sides]))

    def shares_of(self, table: pd.DataFrame) -> Shares | None:
        """Compute the shares of another table; None if a column is of another kind."""
        kinds = [_as_drawn(table[side.name])[0] for side in self.sides]
        alike = kinds == [side.kind for side in self.sides]
        return Marginal.of(table, *self.sides).shares if alike else None


def column_marginals(table: pd.DataFrame) -> list[Marginal]:
    """Let the rows of a table choose cells for each column alone, and count."""
    columns = (column for _, column in table.items())
    return [Marginal.of(table, Side.of(column, alone=True)) for column in columns]


def strongest_pairs(table: pd.DataFrame, target: Hashable) -> list[Marginal]:
    """Find the pairs of columns with the largest Cramer's V, and of the target."""
    others = [name for name in table if name != target]
    sides = [Side.of(table[name]) for name in [*others[:MOST_DRAWN], target]]
    coded = [(side, side.codes(table)) for side in sides]
    pairs = []
    for (first, codes), (second, other_codes) in combinations(coded, 2):
        shares = _shares([first, second], [codes, other_codes])
        counts = np.rint(shares * len(table)).astype(np.intp)
        used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
        pairs.append((cramers_v(used), Marginal((first, second), shares)))
    pairs.sort(key=lambda pair: -pair[0])
    return [marginal for _, marginal in pairs[:_N_PAIRS]]


def _shares(sides: Sequence[Side], codes: Sequence[NDArray[np.int16]]) -> Shares:
    """Compute the shares of rows in the cells of columns."""
    shape = tuple(side.cells.n_cells for side in sides)
    places = np.ravel_multi_index(tuple(codes), shape)
    counts = np.bincount(places, minlength=int(np.prod(shape)))
    return counts.reshape(shape) / max(len(places), 1)


def pooled(samples: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put the rows of all samples together that have the kinds of the first."""
    kinds = [[_as_drawn(c)[0] for _, c in t.items()] for t in samples.values()]
    alike = zip(samples.values(), kinds, strict=True)
    return pd.concat([t for t, own in alike if own == kinds[0]], ignore_index=True)


def styles_of(names: Iterable[str]) -> Styles:
    """Return a colour, a line and a mark of every synthesizer, alike in all plots."""
    listed = [*names]
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, max(len(listed), 2)))
    return {
        name: {
            "color": mpl.colors.to_hex(colours[i]),
            "linestyle": _LINES[i % len(_LINES)],
            "marker": _MARKS[i % len(_MARKS)],
        }
        for i, name in enumerate(listed)
    }


def draw_curves(
    ax: Axes, points: pd.DataFrame, styles: Styles, baseline: str, *, largest: bool
) -> None:
    """Draw mean scores over epsilon: the best with their spread, the others in grey.

    Each synthesizer and epsilon, the index, has a point at `mean`, and `std`.
    """
    epsilons = points.index.get_level_values("epsilon")
    positions = _positions({*epsilons})
    points = points.assign(x=epsilons.map(positions))
    curves = {name: points.loc[name] for name in styles if name in points.index}
    sign = 1 if largest else -1
    # A line that lacks epsilons is behind those that have all.
    ranked = sorted(
        [name for name in curves if name != baseline],
        key=lambda name: (len(curves[name]), sign * curves[name]["mean"].mean()),
    )
    others = ranked[: -len(_MARKS)]  # of more than seven, greys are hard to distinguish
    for number, name in enumerate(others):
        label = "" if number else f"others: {len(others)}"
        x, y = curves[name]["x"], curves[name]["mean"]
        ax.plot(x, y, ".-", color="0.8", lw=1, label=label)
    lines = [name for name in curves if name in ranked and name not in others]
    # Side by side, so that no bar hides another; more so where all share one place.
    apart = 0.05 if len(positions) - (math.inf in positions) <= 1 else 0.02
    for number, name in enumerate(lines):
        x = curves[name]["x"] + apart * (number - (len(lines) - 1) / 2)
        y, spread, style = curves[name]["mean"], curves[name]["std"], styles[name]
        ax.plot(x, y, label=drawable(name), **style)
        ax.errorbar(x, y, spread, fmt="none", ecolor=style["color"], capsize=3)
    if baseline in curves:
        ending = "" if "baseline" in baseline.lower() else " (baseline)"
        line: dict[str, Any] = {"color": "0.45", "linestyle": ":", "linewidth": 2}
        line["label"] = drawable(baseline) + ending
        x, y = curves[baseline]["x"], curves[baseline]["mean"]
        if len(y) == 1:  # a line across
            ax.axhline(y.iloc[0], **line)
        else:
            ax.plot(x, y, **line)
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
    _draw_marks(ax, {name: table[name] for name in styles if name in table}, styles)
    ax.set_yticks(heights, [drawable(name) for name in table.index], fontsize=SMALL)
    ax.set_ylim(-0.7, len(table) - 0.3)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)


def _draw_marks(
    ax: Axes, values: Mapping[str, Any], styles: Styles, *, size: float | None = None
) -> None:
    """Draw a mark for each line and synthesizer, none on top of another."""
    for number, (name, x) in enumerate(values.items()):
        mark = {k: styles[name][k] for k in ("color", "marker")}
        y = np.arange(len(x)) + 0.09 * ((len(values) - 1) / 2 - number)
        ax.plot(x, y, ls="", label=drawable(name), markersize=size, **mark)


def draw_marginal(
    ax: Axes,
    marginal: Marginal,
    samples: Mapping[str, pd.DataFrame],
    styles: Styles,
    real: bool,
) -> None:
    """Draw the shares of one column in samples, and in real rows if they chose it."""
    (side,) = marginal.sides
    shares = {name: marginal.shares_of(sample) for name, sample in samples.items()}
    parts = {name: part for name, part in shares.items() if part is not None}
    if side.kind == "category":
        most = np.max([marginal.shares, *parts.values()], axis=0)
        used = np.flatnonzero(most > 0)[::-1]
        heights = np.arange(len(used))
        if real:
            ax.barh(heights, marginal.shares[used], 0.8, color=_REAL_FILL)
        _draw_marks(ax, {n: part[used] for n, part in parts.items()}, styles, size=4.5)
        ax.set_xlabel("share of rows", fontsize=TINY)
        ax.set_ylim(-0.8, len(used) - 0.2)
        labels = side.labels()
        ax.set_yticks(heights, [drawable(labels[i], 16) for i in used])
        ax.set_xlim(left=0)
    else:
        edges = [side.ends[0], *side.cells.bounds, side.ends[1]]
        if real:
            ax.stairs(marginal.shares[:-1], edges, fill=True, color=_REAL_FILL)
        for name, part in parts.items():
            style = {k: styles[name][k] for k in ("color", "linestyle")}
            ax.stairs(part[:-1], edges, linewidth=1.3, **style)
        ax.set_ylabel("share of rows", fontsize=TINY)
        ax.locator_params(axis="x", nbins=5)
        if side.kind == "time":
            ax.xaxis_date()
            ax.tick_params(axis="x", rotation=30)
    ax.set_title(drawable(side.title), fontsize=TITLE)
    ax.tick_params(labelsize=TINY)


def marginal_legend(styles: Styles, real: bool) -> tuple[list[Any], list[str]]:
    """Return handles and labels of the synthesizers, and of real rows."""
    handles = [mpl.lines.Line2D([], [], **style) for style in styles.values()]
    labels = [drawable(name) for name in styles]
    if real:
        grey = mpl.patches.Patch(color=_REAL_FILL)
        return [grey, *handles], ["real rows", *labels]
    return handles, labels


def draw_pair(row: Sequence[Axes], pair: Marginal, parts: list[Shares | None]) -> None:
    """Draw one pair of all tables, on one scale of grey."""
    known = [part for part in parts if part is not None]
    used = np.max([pair.shares, *known], axis=0) > 0
    places = [np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))]
    labels = [
        [drawable(side.labels()[i], 16) for i in cells]
        for side, cells in zip(pair.sides, places, strict=True)
    ]
    # The longer labels stand on the left, where they are written once.
    turned = max(map(len, labels[1])) > max(map(len, labels[0]))
    (upright, flat), (left, below) = pair.sides, labels
    if turned:
        upright, flat, left, below = flat, upright, below, left
    # A root, so that rare cells are visible beside frequent ones.
    scale = mpl.colors.PowerNorm(0.5, 0.0, max(part.max() for part in known))
    rotation = 90 if sum(map(len, below)) > 24 else 0
    for ax, part in zip(row, parts, strict=True):
        ax.set_xticks(range(len(below)), below, rotation=rotation)
        ax.set_yticks(range(len(left)), left if ax is row[0] else [])
        ax.tick_params(labelsize=TINY, length=2)
        ax.set_xlabel(drawable(flat.title, 20), fontsize=SMALL)
        if part is None:
            ax.text(0.5, 0.5, "of another kind", ha="center", transform=ax.transAxes)
            continue
        shown = part[np.ix_(*places)]
        shown = shown.T if turned else shown
        image = ax.imshow(shown, cmap="Greys", norm=scale, aspect="auto")
        if upright.kind != "category":
            ax.invert_yaxis()  # numbers grow upwards, frequent categories come first
    row[0].set_ylabel(drawable(upright.title, 20), fontsize=SMALL)
    bar = row[0].figure.colorbar(image, ax=list(row), fraction=0.03, pad=0.01)
    bar.set_label("share of rows", fontsize=SMALL)
    bar.ax.tick_params(labelsize=TINY)


def drawable(name: object, width: int = 32) -> str:
    """Make a name fit to be drawn: neither mathematics, nor hidden, nor too long."""
    text = " ".join(str(name).split())
    text = text if len(text) <= width else f"{text[: width - 3]}..."
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def new_axes(n_rows: int, n_columns: int, size: tuple[float, float]) -> NDArray[Any]:
    """Return the axes of a new figure."""
    how: dict[str, Any] = {"layout": "constrained", "squeeze": False}
    return plt.subplots(n_rows, n_columns, figsize=size, **how)[1]


def first_axes(given: Any, shape: tuple[int, int]) -> NDArray[Any]:  # noqa: ANN401
    """Return as many of the axes given as are needed."""
    axes = np.atleast_2d(given)
    if axes.ndim != 2 or (np.array(axes.shape) < shape).any():
        raise ValueError(
            f"axes must hold {shape[0]} x {shape[1]} Axes. Got {axes.shape} instead."
        )
    return axes[: shape[0], : shape[1]]


def finish(
    axes: Sequence[Axes],
    given: object,
    private: bool,
    legend: tuple[list[Any], list[str]] | None = None,
) -> None:
    """Add legend and footer; the legend of a figure of our own is above the axes."""
    figure: Any = axes[0].figure
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = legend or axes[0].get_legend_handles_labels()
    how: dict[str, Any] = {"fontsize": SMALL, "frameon": False}
    if given is None:
        figure.legend(handles, labels, loc="outside upper center", ncols=3, **how)
    else:
        axes[0].legend(handles, labels, **how)
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


def picture(ax: Axes, says: str) -> Picture:
    """Turn the figure of axes into a picture of a document, and close it."""
    buffer, figure = io.BytesIO(), cast("Figure", ax.figure)
    figure.savefig(buffer, format="png", dpi=150)
    plt.close(figure)
    return Picture(buffer.getvalue(), says)
