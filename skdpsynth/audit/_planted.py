"""Twins: the package with one thing broken, which a replay must notice.

Each replaces a function of the package, by as little as the mistake is in the code
where it was found. It is broken inside `insecure_randomness` alone: fits of other
threads call the sound function, and a fit that calls the broken one has no epsilon.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skdpsynth.nn import _teachers
from skdpsynth.preprocessing import _columns, _purchase
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.privacy import _aggregators, _mechanisms
from skdpsynth.privacy._random import insecure_randomness_active
from skdpsynth.synthesizers import IndependentSynthesizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def replaced(where: Any, name: str, value: Any) -> Iterator[None]:  # noqa: ANN401
    """Give an attribute of a module, or one of a class itself, another value inside."""
    held = vars(where)[name]
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, held)


class Twin(NamedTuple):
    """What is put in place of what, on which fit it shows, and as what."""

    where: Any
    name: str
    broken: Callable[[Any], Any]  # given the sound one
    synthesizer: str
    table: str
    finding: str  # words of it

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Break the package inside the block, for who draws insecure randomness."""
        sound = getattr(self.where, self.name)
        broken = self.broken(sound)

        def either(*args: Any, **named: Any) -> Any:  # noqa: ANN401
            own = broken if insecure_randomness_active() else sound
            return own(*args, **named)

        with replaced(self.where, self.name, either):
            yield


def _slices(real: Any) -> Any:  # noqa: ANN401
    """Give teachers slices of the table: B3, N4 and the code of G-PATE."""
    del real
    return lambda n_units, n_teachers, rng: np.arange(n_units) * n_teachers // n_units


def _round_robin(real: Any) -> Any:  # noqa: ANN401
    del real
    return lambda n_units, n_teachers, rng: np.arange(n_units) % n_teachers


def _without_noise(real: Any) -> Any:  # noqa: ANN401
    del real
    return lambda values, reservation: values.copy()


def _counted_twice(real: Any) -> Any:  # noqa: ANN401
    return lambda codes, n_bins: [2 * counts for counts in real(codes, n_bins)]


def _levels_of_rows(real: Any) -> Any:  # noqa: ANN401
    """Read the categories off the data, past the release."""

    def twin(table: Any, columns: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        found = real(table, columns, *args, **named)
        keys = _columns.total_keys(table, [column.name for column in columns])
        levels = [tuple(sorted(k for k in own if k is not None)) for own in keys]
        return [
            LevelDomain(own, domain.nullable, domain.ordered)
            for own, domain in zip(levels, found, strict=True)
        ]

    return twin


def _range_of_rows(real: Any) -> Any:  # noqa: ANN401
    """Read a range off the data, past the release."""

    def twin(table: Any, columns: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        found = real(table, columns, *args, **named)
        for place, column in enumerate(columns):
            parts = [
                _columns.numeric_values(part[column.name], column)
                for part in table.each()
            ]
            present = np.concatenate([values[~missing] for values, missing in parts])
            low, high = float(present.min()), float(present.max())
            found[place] = NumericDomain(low, high, False, False, nullable=True)
        return found

    return twin


def _dtype_of_block(real: Any) -> Any:  # noqa: ANN401
    """Let one missing number turn a block of whole ones into floats, as pandas does."""

    def twin(series: Any) -> Any:  # noqa: ANN401
        if series.dtype == "Int64" and series.isna().any():
            series = series.astype("float64").astype("Int64")
        return real(series)

    return twin


def _keeps_number_of_rows(real: Any) -> Any:  # noqa: ANN401
    def twin(self: Any, rows: Any, *args: Any) -> Any:  # noqa: ANN401
        self.n_rows_ = len(rows)
        return real(self, rows, *args)

    return twin


def _nothing_for_nobody(real: Any) -> Any:  # noqa: ANN401
    """Skip the release of a class without rows."""

    def twin(values: Any, *args: Any) -> Any:  # noqa: ANN401
        return real(values, *args) if values.any() else values.copy()

    return twin


def _warns_of_values(real: Any) -> Any:  # noqa: ANN401
    """Warn where rows lie outside of a declared range."""

    def twin(series: Any, column: Any) -> Any:  # noqa: ANN401
        values, missing = real(series, column)
        if np.abs(values).max(initial=0.0) > 6.0:
            warnings.warn("large values", UserWarning, stacklevel=2)
        return values, missing

    return twin


def _moves_all_teachers(real: Any) -> Any:  # noqa: ANN401
    """Normalise the rows of all teachers together, as a shared scaler would."""

    def twin(self: Any, rows: Any, *args: Any, **named: Any) -> None:  # noqa: ANN401
        shift = rows.mean(axis=0, keepdims=True) if len(rows) else 0.0
        real(self, rows - np.float32(shift), *args, **named)

    return twin


_PAST = "past all releases"
_ONE = "one row has one"
PLANTED = {
    "slices": Twin(
        _teachers, "assign_teachers", _slices, "GPATE, networks", "plain", _ONE
    ),
    "round-robin": Twin(
        _teachers, "assign_teachers", _round_robin, "GPATE, networks", "plain", _ONE
    ),
    "a shared scaler": Twin(
        _teachers.TeacherEnsemble,
        "__init__",
        _moves_all_teachers,
        "GPATE, networks",
        "plain",
        _ONE,
    ),
    "slices, by votes": Twin(
        _teachers, "assign_teachers", _slices, "PATEGAN", "plain", _ONE
    ),
    "no noise": Twin(
        _mechanisms,
        "_noisy_integers",
        _without_noise,
        "Independent",
        "undeclared",
        "no noise",
    ),
    "twice the sensitivity": Twin(
        _aggregators, "exact_counts", _counted_twice, "Independent", "plain", "2 times"
    ),
    "categories of the rows": Twin(
        _purchase, "buy_levels", _levels_of_rows, "Independent", "undeclared", "the row"
    ),
    "a range of the rows": Twin(
        _purchase, "buy_ranges", _range_of_rows, "Independent", "undeclared", _PAST
    ),
    "a dtype of a block": Twin(
        _columns,
        "factorize",
        _dtype_of_block,
        "Independent",
        "large levels",
        "times its",
    ),
    "the number of rows kept": Twin(
        IndependentSynthesizer,
        "_fit",
        _keeps_number_of_rows,
        "Independent",
        "plain",
        _PAST,
    ),
    "no release for nobody": Twin(
        _aggregators,
        "release_gaussian",
        _nothing_for_nobody,
        "Independent",
        "empty class",
        "releases are made",
    ),
    "a warning of values": Twin(
        _columns,
        "numeric_values",
        _warns_of_values,
        "Independent",
        "plain",
        "is warned of",
    ),
}
