"""What a file may say of a table, whoever wrote it.

Parts that do not fit together raise a ValueError, TypeError or LookupError. Whether
numbers that do are also good ones, nobody can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.schema import kind_of_dtype
from skdpsynth.table import CategoryDomain, check_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure._model import TableModel
    from skdpsynth.schema import TableSchema
    from skdpsynth.table import Classes, MarginalTransform, NumericDomain

_FLAGS = {"released", "guessed", "integer", "log", "nullable", "ordered", "quantile"}
_PERIODS, _LEAST_ROOM = (7, 24, 60, 100), 1e-3  # of remainders; a fit leaves more room
_MAX_COUNT = 2.0**63  # of rows


def check_table(
    model: TableModel, places: Sequence[int], schema: TableSchema | None
) -> None:
    """Check the parts of a table, whose modelled columns are at `places` of its layout.

    Parameters
    ----------
    model : TableModel
        What a file says.
    places : sequence of int
        Positions of the modelled columns.
    schema : TableSchema, optional
        Declarations, whose rules the columns must be able to keep.
    """
    metadata = model.metadata
    if schema is not None:
        check_rules(schema, metadata.layout)
    require(all(type(p) is int and p >= 0 for p in places), "places")
    require(len(set(places)) == len(places) == len(metadata.domains), "columns")
    for layout in metadata.layout.columns:
        said = (layout.kind, layout.can_be_missing)
        require(kind_of_dtype(layout.dtype) == said, "a dtype")
    _check_classes(metadata.classes, len(model.marginals))
    units = metadata.units
    if schema is not None and units is not None and units.sizes is not None:
        require(units.sizes.shape == (1 + (schema.max_rows_per_unit or 0),), "units")
        require((np.abs(units.sizes) < _MAX_COUNT).all(), "units")
        require(type(units.noise_std) is float, "units")
        require(0 <= units.noise_std < _MAX_COUNT, "units")
    for row in model.marginals:
        require(len(row) == len(metadata.columns), "marginals")
        for column in row:
            _check_marginal(column)


def require(fits: object, what: str) -> None:
    """Raise a ValueError about `what` unless something fits."""
    if not fits:
        raise ValueError(what)


def _check_classes(classes: Classes, n_marginals: int) -> None:
    counts, n_classes = classes.counts, max(len(classes.labels), 1)
    hash(classes.labels)
    require(counts.dtype == np.float64, "classes")
    require(counts.shape == (n_classes,) == (n_marginals,), "classes")
    require(((counts > 0) & (counts < _MAX_COUNT)).all(), "classes")


def _check_marginal(column: MarginalTransform) -> None:
    points, cumulative = column.points, column.cumulative
    require(points.dtype == cumulative.dtype == np.float64, "dtype of a marginal")
    require(points.ndim == cumulative.ndim == 1, "shape of a marginal")
    require(type(column.missing) in (int, float), "missing values")
    require(0 <= column.missing <= 1, "missing values")
    require(_rises(cumulative), "a distribution")
    own = vars(column.domain)
    flags = [own[name] for name in _FLAGS & set(own)]
    require(all(type(flag) is bool for flag in flags), "flags")
    if isinstance(column.domain, CategoryDomain):
        hash(column.domain.categories)
        require(len(cumulative) == len(points) + 1, "shape of a marginal")
        codes = np.arange(len(points))
        require(np.array_equal(np.sort(points), codes), "codes")
        require(len(points) in (0, len(column.domain.categories)), "codes")
        return
    require(len(points) == len(cumulative) >= 2 and _rises(points), "a marginal")
    low, high, step = column.domain.low, column.domain.high, column.domain.step
    numbers = [low, high] if step is None else [low, high, step]
    require(all(type(number) in (int, float) for number in numbers), "numbers")
    decimals = column.domain.decimals
    require(type(decimals) is int and -9 <= decimals <= 9, "decimals")
    require(decimals == 0 or (column.domain.integer and step is None), "decimals")
    require(low <= high and np.isfinite(float(high) - float(low)), "a range")
    require(step is None or 0 < float(step) < np.inf, "a unit of time")
    _check_written(column.domain)


def _check_written(domain: NumericDomain) -> None:
    """Check what a domain says of how its numbers are written."""
    pairs, room = domain.frequent, domain.remainders
    require(all(len(pair) == 2 for pair in pairs), "frequent values")
    numbers = [*room, *(number for pair in pairs for number in pair)]
    require(all(type(number) in (int, float) for number in numbers), "numbers")
    values, shares = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    inside = (values >= domain.low) & (values <= domain.high) & (shares > 0)
    require(inside.all() and np.isfinite(shares).all(), "frequent values")
    require((np.diff(values) > 0).all(), "frequent values")
    require(not domain.integer or (values == np.rint(values)).all(), "frequent values")
    require(len(room) in (0, *_PERIODS) and (domain.integer or not room), "room")
    require(all(_LEAST_ROOM <= own <= 1 / _LEAST_ROOM for own in room), "room")


def _rises(values: NDArray[np.float64]) -> bool:
    """Whether numbers go up within [0, 1]; rounding may pass 1 by a little."""
    inside = (values >= 0).all() and (values <= 1 + 1e-9).all()
    return bool(inside and (np.diff(values) >= 0).all())
