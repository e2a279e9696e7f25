"""The plot of pairs of columns: one row for each, real beside synthetic."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from skdpsynth.evaluation._marginals import Pair, PlainColumn, strongest_pairs
from skdpsynth.evaluation._plots import (
    SMALL,
    add_footer,
    drawable,
    new_grid,
    nothing,
    samples_at,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.evaluation._marginals import Side
    from skdpsynth.evaluation._results import ComparisonResult

    Shares = NDArray[np.float64]

_REAL_ROWS = "real rows"


def draw_pairs(
    result: ComparisonResult, axes: NDArray[Any] | None, epsilon: float | None
) -> NDArray[Any]:
    """Draw `ComparisonResult.plot_pairs`."""
    samples = samples_at(result, epsilon)
    if not samples:
        raise ValueError(nothing("samples"))
    pairs = result._real_pairs or strongest_pairs(_pooled(samples), result.target)
    titles = [*([_REAL_ROWS] if result._real_pairs else []), *samples]
    shape = len(pairs), len(titles)
    size = (2.3 + 1.9 * shape[1], 0.8 + 2.5 * shape[0])
    given = new_grid(*shape, size) if axes is None else np.atleast_2d(axes)
    if given.ndim != 2 or (np.array(given.shape) < shape).any():
        msg = f"axes must have the shape {shape}. Got {given.shape} instead."
        raise ValueError(msg)
    given = given[: shape[0], : shape[1]]
    for row, pair in zip(given, pairs, strict=True):
        parts = [pair.shares_of(sample) for sample in samples.values()]
        _draw_pair(row, pair, [pair.shares, *parts] if result._real_pairs else parts)
    for ax, title in zip(given[0], titles, strict=True):
        ax.set_title(drawable(title, 20), fontsize=10)
    add_footer(given[0, 0].figure, result)
    return given


def _pooled(samples: Mapping[str, Sequence[PlainColumn]]) -> list[PlainColumn]:
    """Put the rows of all samples together; kinds are those of the first."""
    first = next(iter(samples.values()))
    items: dict[tuple[str, str], list[Any]] = {(c.name, c.kind): [] for c in first}
    for column in chain.from_iterable(samples.values()):
        if (column.name, column.kind) in items:
            items[column.name, column.kind] += column.items
    return [PlainColumn(*of, values) for of, values in items.items()]


def _draw_pair(row: NDArray[Any], pair: Pair, parts: list[Shares | None]) -> None:
    """Draw one pair of all tables, on one scale of grey."""
    known = [part for part in parts if part is not None]
    used = np.max([pair.shares, *known], axis=0) > 0
    rows, columns = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    sides = _labels(pair.first, rows), _labels(pair.second, columns)
    # The longer labels stand on the left, where they are written once.
    turned = max(map(len, sides[1])) > max(map(len, sides[0]))
    upright, level = (pair.second, pair.first) if turned else (pair.first, pair.second)
    labels = sides[::-1] if turned else sides
    # A root, so that rare cells are seen beside frequent ones.
    scale = mpl.colors.PowerNorm(0.5, 0.0, max(part.max() for part in known))
    rotation = 90 if sum(map(len, labels[1])) > 24 else 0
    for ax, part in zip(row, parts, strict=True):
        ax.set_xticks(range(len(labels[1])), labels[1], rotation=rotation)
        ax.set_yticks(range(len(labels[0])), labels[0] if ax is row[0] else [])
        ax.tick_params(labelsize=SMALL - 1, length=2)
        ax.set_xlabel(drawable(level.name, 20), fontsize=SMALL)
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
    bar.ax.tick_params(labelsize=SMALL - 1)


def _labels(side: Side, used: NDArray[np.intp]) -> list[str]:
    """Name the cells that have a row in any table."""
    names = side.labels()
    return [drawable(names[i], 16) for i in used]
