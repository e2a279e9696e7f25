"""Replay: two fits that differ in one row and in nothing else that is secret."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdpsynth.audit._worlds import compare, enter
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidTableError

PLACES = ("first", "middle", "last")
CHANGES = ("added", "removed")


@dataclass(frozen=True)
class ReplayedPair:
    """Two fits, of a table with and without a row.

    Parameters
    ----------
    change, place : str
        "added" or "removed": what the row was in the second fit; and "first", "middle"
        or "last": where it is in the table.
    outcome : str
        "equal", "finding", or "refused" if every fit with a row that may be refused is,
        by the same error and before it releases anything.
    findings : tuple of str
        What differs and must not.
    shift : float
        The most by which the row (or person) moved a release, over its sensitivity (of
        all rows of a person that may take part).

    See Also
    --------
    replay : Makes them.
    """

    change: str
    place: str
    outcome: str
    findings: tuple[str, ...]
    shift: float

    def __str__(self) -> str:
        line = f"{self.outcome:8} {self.change:7} {self.place:6} {self.shift:6.2f}"
        return "  ".join([line, "; ".join(self.findings)]).rstrip()


@dataclass(frozen=True)
class Replay:
    """Result of `replay`.

    Parameters
    ----------
    pairs : tuple of ReplayedPair
        In the order in which they were tried.

    See Also
    --------
    replay : Makes one.
    """

    pairs: tuple[ReplayedPair, ...]

    @property
    def findings(self) -> tuple[str, ...]:
        """Pairs that differ and must not, in a line each."""
        return tuple(str(pair) for pair in self.pairs if pair.findings)

    @property
    def violated(self) -> bool:
        """Whether there is any finding."""
        return bool(self.findings)

    def __str__(self) -> str:
        outcomes = Counter(pair.outcome for pair in self.pairs)
        counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
        return "\n".join([*self.findings, f"{len(self.pairs)} pairs ({counts})"])


def replay(
    synthesizer: BaseSynthesizer,
    table: pd.DataFrame,
    *,
    rows: Sequence[str] = PLACES,
    seed: int = 0,
) -> Replay:
    """Fit tables that differ in one row, with equal secrets and equal releases.

    Parameters
    ----------
    synthesizer : BaseSynthesizer
        For example one of your own.
    table : DataFrame of at least 3 rows
        Make it up: what a replay prints is computed from its rows and is not private.
    rows : sequence of {"first", "middle", "last"}
        Where a row is added, and where one is removed; by default all three. The one
        that is added is extreme in every column.
    seed : int, default=0
        Of the secrets, which are equal in all fits and not private.

    Returns
    -------
    Replay
        Its `findings` are empty where all agrees.

    Raises
    ------
    InvalidTableError
        If the table has fewer than 3 rows.
    TypeError
        If what is given is no synthesizer or no DataFrame.
    ValueError
        If `rows` is not as above.

    See Also
    --------
    audit_ledger : The same for a row at the end of a table, and the noise.

    Notes
    -----
    Every pair is a fit on a table and one on its neighbour (all rows of a person come
    or go, where the schema has a `privacy_unit`), with secrets frozen by
    `insecure_randomness`, and rows that draw by what is in them, so that a row that
    comes or goes anywhere moves nobody else's teacher or sample. The second fit is
    answered with the releases of the first. Then

    1. each exact statistic may differ by the sensitivity that was reserved at most, for
       one class beside all rows, and in one teacher; of keys that are found, one per
       column may reach the least count that is released, which the delta covers; what k
       rows of a person may move is k times as much, over all classes together;
    2. all else is equal: number, order, shape and noise of releases, what is reserved,
       warnings, errors, the fitted object, the report, and sampled rows.

    A replay finds what its tables provoke, and proves nothing.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth import IndependentSynthesizer
    >>> from skdpsynth.audit import replay
    >>> table = pd.DataFrame({"age": [20.5, 31.0, 47.0, 52.5], "c": [*"pqpq"]})
    >>> result = replay(IndependentSynthesizer(100.0), table, rows=["first"])
    >>> [(pair.change, pair.outcome) for pair in result.pairs]
    [('added', 'equal'), ('removed', 'equal')]
    """
    if not (
        isinstance(synthesizer, BaseSynthesizer) and isinstance(table, pd.DataFrame)
    ):
        raise TypeError(
            "Expected a BaseSynthesizer and a DataFrame. Got "
            f"{type(synthesizer).__name__} and {type(table).__name__} instead."
        )
    if not len(rows) or not set(rows) <= set(PLACES):
        raise ValueError(f"rows must be some of {PLACES}. Got {[*rows]!r} instead.")
    if len(table) < 3:
        raise InvalidTableError("Expected a table of 3 rows at least, to remove one.")
    unit = getattr(synthesizer.schema, "privacy_unit", None)
    what = "the row" if unit is None else "the person"
    neighbours = _neighbours(table, rows, unit)
    return Replay(tuple(replayed_pairs(synthesizer, table, neighbours, seed, what)))


def replayed_pairs(
    synthesizer: BaseSynthesizer,
    table: Any,
    neighbours: Iterable[tuple[str, str, Any]],
    seed: int,
    what: str,
    *,
    refusable: bool = False,
) -> Iterator[ReplayedPair]:
    """Fit a table, and each of its neighbours with the releases of that fit."""
    # If an added row is `refusable`, all fits with it must be refused, or none.
    ready = clone(synthesizer).set_params(random_state=0, budget=None)
    first = enter(ready, table, seed, coupled=True)
    refusals: list[str] = []
    for place, change, other in neighbours:
        second = enter(ready, other, seed, first.releases, coupled=True)
        shifts, findings = compare(first, second, what)
        if first.refusal is not None:  # by all of them nothing was compared
            error = ": ".join(first.refusal.splitlines()[:2])
            findings.append(f"the table without {what} is refused, {error}")
        outcome = "finding" if findings else "equal"
        if refusable and change == "added" and first.error is None:
            # How it was refused, but for numbers; "" if not before any release.
            told = None if second.releases else second.refusal
            refusals.append(re.sub(r"\d+", "", told or ""))
            if refusals[0] != refusals[-1]:
                outcome = "finding"
                findings = ["where the row stands decides whether it is refused."]
            elif refusals[-1]:
                outcome, findings = "refused", []
        shift = max(shifts, default=0.0)
        yield ReplayedPair(change, place, outcome, tuple(findings), shift)


def _neighbours(
    table: pd.DataFrame, places: Sequence[str], unit: Any
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield tables with an extreme row more, and with a row or a person less."""
    columns = [
        pd.Series([_extreme(table[name])], dtype=table[name].dtype, name=name)
        for name in table
    ]
    extra = pd.concat(columns, axis=1)
    for place in places:
        at = {"first": 0, "middle": len(table) // 2, "last": len(table)}[place]
        parts = table.iloc[:at], extra, table.iloc[at:]
        yield place, "added", pd.concat(parts, ignore_index=True)
        gone = np.arange(len(table)) == min(at, len(table) - 1)
        if unit is not None:
            gone = (table[unit] == table[unit][gone].iloc[0]).to_numpy(bool) | gone
        yield place, "removed", table[~gone].reset_index(drop=True)


def _extreme(series: pd.Series) -> Any:
    """Return the most extreme value that the dtype of a column has."""
    dtype = series.dtype
    number = getattr(dtype, "numpy_dtype", dtype)
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return series.iloc[-1]
    if pd.api.types.is_integer_dtype(dtype):
        return np.iinfo(number).max
    if pd.api.types.is_float_dtype(dtype):
        return float(np.finfo(number).max)
    if str(dtype) == "object" or isinstance(dtype, pd.StringDtype):
        return "a text that no other row has"
    return series.max()
