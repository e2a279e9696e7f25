"""Whether the parts of a file fit together, before a synthesizer is built of them.

A file with valid check sums may still come from a stranger, who may have put anything
into it. Whether numbers that fit together are also good ones, nobody can tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.preprocessing._axes import LevelAxis
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.schema._dtypes import kind_of_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._scores import ColumnScores

__all__ = ["check_names_no_file", "check_parts"]

_ZONE = re.compile(r"[A-Za-z0-9_+\-/:]{1,64}")
_FACTORS = re.compile(r"generator\.\d+\.(loadings|location|log_scale)")


def check_names_no_file(document: object) -> None:
    """Raise a ValueError for a time zone that pandas would read from a file.

    Parameters
    ----------
    document : object
        Parsed JSON. A name such as ``dateutil//path`` has dateutil open that path.
    """
    items = [document]
    while items:
        item = items.pop()
        if isinstance(item, list):
            items += item
        elif isinstance(item, dict):
            items += item.values()
            zone = item.get("zone") if "time" in item else None
            dtype = item.get("dtype")
            if zone is not None and not _ZONE.fullmatch(zone):
                msg = "a strange time zone"
                raise ValueError(msg)
            if "dateutil" in f"{zone}{dtype}":
                msg = "a time zone out of a file"
                raise ValueError(msg)


def check_parts(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise a ValueError, TypeError or LookupError where parts do not fit together.

    Parameters
    ----------
    document : mapping
        The header.
    arrays : mapping of str to ndarray
        The numbers.
    """
    table = document["table"]
    places = table["columns"]
    model = TableModel.from_state(table, arrays)
    facts, counts = model.facts, model.facts.classes.counts
    n_columns = len(facts.columns)
    _require(all(type(p) is int and p >= 0 for p in places), "places")
    _require(len(set(places)) == len(places) == len(facts.axes), "columns")
    for layout in facts.layout.columns:
        said = (layout.kind, layout.can_be_missing)
        _require(kind_of_dtype(layout.dtype) == said, "a dtype")
    _require(
        counts.ndim == 1
        and len(counts) == max(len(facts.classes.levels), 1) == len(model.scores)
        and bool(np.isfinite(counts).all() and (counts > 0).all()),
        "classes",
    )
    for row in model.scores:
        _require(len(row) == n_columns, "marginals")
        for column in row:
            _check_marginal(column)
    own = document["generator"]
    _require(own.get("n_classes", len(counts)) == len(counts), "generator")
    for name, array in arrays.items():
        if _FACTORS.fullmatch(name):
            fits = array.dtype.kind == "f" and array.shape[:1] == (n_columns,)
            _require(fits and bool(np.isfinite(array).all()), "generator")


def _check_marginal(column: ColumnScores) -> None:
    points, cumulative = column.points, column.cumulative
    _require(points.dtype == cumulative.dtype == np.float64, "dtype of a marginal")
    _require(points.ndim == cumulative.ndim == 1, "shape of a marginal")
    _require(0 <= column.missing <= 1, "missing values")
    _require(_rises(cumulative), "a distribution")
    if isinstance(column.axis, LevelAxis):
        _require(len(cumulative) == len(points) + 1, "shape of a marginal")
        codes = np.arange(len(points))
        _require(np.array_equal(np.sort(points), codes), "codes")
        _require(len(points) in (0, len(column.axis.levels)), "codes")
        return
    _require(len(points) == len(cumulative) >= 2 and _rises(points), "a marginal")
    low, high, step = column.axis.low, column.axis.high, column.axis.step
    _require(bool(np.isfinite([low, high]).all()) and low <= high, "a range")
    _require(step is None or 0 < float(step) < np.inf, "a unit of time")


def _rises(values: NDArray[np.float64]) -> bool:
    """Whether numbers go up within [0, 1]; rounding may pass 1 by a little."""
    inside = bool((values >= 0).all() and (values <= 1 + 1e-9).all())
    return inside and bool((np.diff(values) >= 0).all())


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)
