"""Twins: the package with one thing broken, which a replay must notice.

Each replaces a function of the package, by as little as the mistake is in the code
where it was found.
"""

import pkgutil
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from skdpsynth.table import NumericDomain, numeric_values, total_keys
from skdpsynth.table._units import Limited


class Twin(NamedTuple):
    """What is put in place of what, as what it shows, and on which fit.

    `broken` is called with the sound function and then with what that is called with.
    """

    where: str  # below the package: a module, or ``module:Class``
    name: str
    broken: Callable[..., Any]
    finding: str  # words of it
    synthesizer: str = "independent"
    table: str = "plain"

    def planted(self) -> AbstractContextManager[Any]:
        owner = pkgutil.resolve_name(f"skdpsynth.{self.where}")
        sound = getattr(owner, self.name)
        return patch.object(
            owner, self.name, lambda *own, **named: self.broken(sound, *own, **named)
        )


def _slices(real: Any, n_units: int, n_teachers: int, rng: Any) -> Any:
    """Give teachers slices of the table: B3, N4 and the code of G-PATE."""
    return np.arange(n_units) * n_teachers // n_units


def _shared_scaler(real: Any, self: Any, rows: Any, *args: Any, **named: Any) -> None:
    """Normalise the rows of all teachers together."""
    shift = rows.mean(axis=0, keepdims=True) if len(rows) else 0.0
    real(self, rows - np.float32(shift), *args, **named)


def _categories_of_rows(real: Any, self: Any, rows: Any, *args: Any) -> Any:
    """Read the categories off the data, past the release."""
    found = real(self, rows, *args)
    keys = total_keys(rows, [column.name for column in found])
    return {
        column: replace(
            domain, categories=tuple(sorted(key for key in own if key is not None))
        )
        for own, (column, domain) in zip(keys, found.items(), strict=True)
    }


def _range_of_rows(real: Any, self: Any, rows: Any, *args: Any) -> Any:
    """Read a range off the data, past the release."""
    found = real(self, rows, *args)
    for column in found:
        parts = [numeric_values(part[column.name], column) for part in rows.each()]
        present = np.concatenate([values[~missing] for values, missing in parts])
        low, high = float(present.min()), float(present.max())
        found[column] = NumericDomain(low, high, False, False, nullable=True)
    return found


def _dtype_of_block(real: Any, series: Any) -> Any:
    """Let one missing number turn a block of whole ones into floats, as pandas does."""
    if series.dtype == "Int64" and series.isna().any():
        series = series.astype("float64").astype("Int64")
    return real(series)


def _keeps_number_of_rows(real: Any, self: Any, rows: Any, *args: Any) -> Any:
    self.n_rows_ = sum(map(len, rows._parts.each()))
    return real(self, rows, *args)


def _nothing_for_nobody(real: Any, values: Any, *args: Any) -> Any:
    """Skip the release of a class without rows."""
    return real(values, *args) if values.any() else values.copy()


def _warns_of_values(real: Any, series: Any, column: Any) -> Any:
    """Warn where rows lie outside of a declared range."""
    values, missing = real(series, column)
    if np.abs(values).max(initial=0.0) > 6.0:
        warnings.warn("large values", UserWarning, stacklevel=2)
    return values, missing


def _limit_of_parts(real: Any, table: Any, schema: Any) -> Any:
    """Limit the rows of a person in every few rows of the table alone."""
    unit, most = schema.privacy_unit, schema.max_rows_per_unit
    ranks = table.groupby([np.arange(len(table)) // 8, unit]).cumcount()
    kept = table[(ranks < most) & table[unit].notna()].reset_index(drop=True)
    return Limited(kept)


def _unit_per_row(real: Any, *args: Any) -> Any:
    """Count a person once for each row, beyond those that take part."""
    rows, sizes = real(*args)
    return rows, np.repeat(sizes, sizes + 1)


def _choice_by_place(real: Any, *args: Any) -> Any:
    """Choose the rows of a person by where they stand among those of others."""
    keys = real(*args)
    keys[:, 2] = (keys[:, 3] * np.uint64(7)) % np.uint64(5)
    return keys


_PAST, _ONE, _NETWORKS = "past all releases", "one row has one", "gpate networks"
_ASSIGNED = "training._teachers", "assign_teachers"
_ENSEMBLE = "training._teachers:TeacherRows", "__init__"
_FIT = "synthesizers:IndependentSynthesizer", "_fit"
TWINS = {
    "slices": Twin(*_ASSIGNED, _slices, _ONE, _NETWORKS),
    "round-robin": Twin(
        *_ASSIGNED,
        lambda real, n_units, n_teachers, rng: np.arange(n_units) % n_teachers,
        *(_ONE, _NETWORKS),
    ),
    "a shared scaler": Twin(*_ENSEMBLE, _shared_scaler, _ONE, _NETWORKS),
    "slices, by votes": Twin(*_ASSIGNED, _slices, _ONE, "pategan"),
    "no noise": Twin(
        "privacy._mechanisms",
        "_noisy_integers",
        lambda real, values, reservation: values.copy(),
        "no noise",
        table="undeclared",
    ),
    "twice the sensitivity": Twin(
        *("privacy.statistics", "exact_counts"),
        lambda real, codes, n_bins: [2 * counts for counts in real(codes, n_bins)],
        "2 times",
    ),
    "categories of the rows": Twin(
        *("measure._steps:Categories", "run", _categories_of_rows),
        "the row",
        table="undeclared",
    ),
    "a range of the rows": Twin(
        "measure._steps:Ranges", "run", _range_of_rows, _PAST, table="undeclared"
    ),
    "a dtype of a block": Twin(
        "table._layout", "factorize", _dtype_of_block, "times its", table="large levels"
    ),
    "the number of rows kept": Twin(*_FIT, _keeps_number_of_rows, _PAST),
    "no release for nobody": Twin(
        *("privacy.statistics", "release_gaussian", _nothing_for_nobody),
        "releases are made",
        table="empty class",
    ),
    "no limit of rows": Twin(
        *("base", "limit_rows", lambda real, table, schema: Limited(table)),
        "times its",
        table="visits",
    ),
    "a limit of each part": Twin(
        "base", "limit_rows", _limit_of_parts, "times its", table="visits"
    ),
    "a person for each row": Twin(
        "table._units", "_first", _unit_per_row, "times its", table="visits"
    ),
    "a choice by place": Twin(
        "table._units", "_keys", _choice_by_place, "times what it may", table="visits"
    ),
    "a warning of values": Twin(
        "table._domains", "numeric_values", _warns_of_values, "is warned of"
    ),
}
