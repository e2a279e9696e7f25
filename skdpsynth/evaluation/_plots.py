"""The drawings of a comparison, on axes that the caller has made."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from skdpsynth.evaluation._marginals import Marginal, PlainColumn, Side
from skdpsynth.metrics import CategoryCells
from skdpsynth.utils import Picture

if TYPE_CHECKING:
    import pandas as pd

Shares = NDArray[np.float64]
Styles = dict[str, dict[str, Any]]
Curve = Mapping[float, tuple[float, float]]  # from epsilon to mean and deviation

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
    curves: Mapping[str, Curve],
    styles: Styles,
    baseline: str,
    *,
    largest: bool,
) -> None:
    """Draw scores over epsilon: the best with their spread, the others in grey."""
    positions = _positions({e for curve in curves.values() for e in curve})
    lines = [name for name in curves if name != baseline]
    means = {name: [mean for mean, _ in curves[name].values()] for name in curves}
    sign = 1 if largest else -1
    # A line that lacks epsilons is behind those that have all.
    best = sorted(lines, key=lambda n: (len(means[n]), sign * np.mean(means[n])))
    best = best[-len(_MARKS) :]  # of more, greys are hard to distinguish
    others = [name for name in lines if name not in best]
    for number, name in enumerate(others):
        along = [positions[e] for e in curves[name]]
        label = "" if number else f"others: {len(others)}"
        ax.plot(along, means[name], ".-", color="0.8", lw=1, label=label)
    lines = [name for name in lines if name in best]
    # Where all share one place, side by side.
    one_place = len(positions) - (math.inf in positions) <= 1
    banded = len(lines) <= len(_LINES)  # more would hide each other
    apart = 0.05 if one_place else 0.0 if banded else 0.02
    for number, name in enumerate(lines):
        shift = apart * (number - (len(lines) - 1) / 2)
        places = np.array([positions[e] + shift for e in curves[name]])
        _draw_curve(ax, curves[name], places, name, styles[name], banded=banded)
    if baseline in curves:
        # A line through its points, or across where there is one.
        ending = "" if "baseline" in baseline.lower() else " (baseline)"
        line: dict[str, Any] = {"color": "0.45", "linestyle": ":", "linewidth": 2}
        line["label"] = drawable(baseline) + ending
        if len(means[baseline]) == 1:
            ax.axhline(means[baseline][0], **line)
        else:
            along = [positions[e] for e in curves[baseline]]
            ax.plot(along, means[baseline], **line)
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
    names = [name for name in styles if name in table]
    for name, shift in zip(names, _shifts(names), strict=True):
        mark = {k: styles[name][k] for k in ("color", "marker")}
        x = table[name]
        ax.plot(x, heights + shift, linestyle="", label=drawable(name), **mark)
    ax.set_yticks(heights, [drawable(name) for name in table.index], fontsize=SMALL)
    ax.set_ylim(-0.7, len(table) - 0.3)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)


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


def _draw_curve(
    ax: Axes,
    curve: Curve,
    x: NDArray[np.float64],
    name: str,
    style: dict[str, Any],
    *,
    banded: bool,
) -> None:
    """Draw a line with its band, and single points, or all, with a bar."""
    mean, spread = np.array(list(curve.values())).T
    finite = np.isfinite(list(curve))
    ax.plot(x, mean, label=drawable(name), **style)
    if banded and finite.sum() > 1:
        low, high = (mean - spread)[finite], (mean + spread)[finite]
        ax.fill_between(x[finite], low, high, color=style["color"], alpha=0.15, lw=0)
        x, mean, spread = x[~finite], mean[~finite], spread[~finite]
    ax.errorbar(x, mean, spread, fmt="none", ecolor=style["color"], capsize=3)


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
    found = {of: chosen.shares_of(sample) for of, sample in samples.items()}
    parts = {of: part for of, part in found.items() if part is not None}
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
    for (name, part), shift in zip(parts.items(), _shifts(parts), strict=True):
        style = {k: styles[name][k] for k in ("color", "marker")}
        ax.plot(part[used], heights + shift, linestyle="", markersize=4.5, **style)
    ax.set_xlabel("share of rows", fontsize=TINY)
    ax.set_ylim(-0.8, len(used) - 0.2)
    ax.set_yticks(heights, [drawable(labels[i], 16) for i in used])
    ax.set_xlim(left=0)


def draw_pair(row: NDArray[Any], pair: Marginal, parts: list[Shares | None]) -> None:
    """Draw one pair of all tables, on one scale of grey."""
    known = [part for part in parts if part is not None]
    used = np.max([pair.shares, *known], axis=0) > 0
    rows, columns = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    upright, flat = pair.sides
    labels = _labels(upright, rows), _labels(flat, columns)
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


def _labels(side: Side, used: NDArray[np.intp]) -> list[str]:
    """Name the cells that have a row in any table."""
    names = side.labels()
    return [drawable(names[i], 16) for i in used]


def pooled(samples: Mapping[str, Sequence[PlainColumn]]) -> list[PlainColumn]:
    """Put the rows of all samples together; kinds are those of the first."""
    first = next(iter(samples.values()))
    items: dict[tuple[str, str], list[Any]] = {(c.name, c.kind): [] for c in first}
    for column in chain.from_iterable(samples.values()):
        if (column.name, column.kind) in items:
            items[column.name, column.kind] += column.items
    return [PlainColumn(*of, values) for of, values in items.items()]


def _positions(epsilons: set[float]) -> dict[float, float]:
    """Place epsilons on a logarithmic axis, and the infinite one behind the last."""
    positions = {e: math.log10(e) for e in sorted(epsilons) if e < math.inf}
    if math.inf in epsilons:
        x = list(positions.values()) or [0.0]
        gap = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else 0.5
        positions[math.inf] = x[-1] + gap
    return positions


def _shifts(several: Collection[str]) -> NDArray[np.float64]:
    """Move marks apart that would hide each other; the first is on top."""
    return 0.09 * ((len(several) - 1) / 2 - np.arange(len(several), dtype=np.float64))


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
