"""Two fits with equal secrets and equal releases: what may differ, and by how much.

The second is answered with the releases of the first. All that the two may differ in
are the exact values of releases, by their sensitivity, and of rows of one payer.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skdpsynth.audit._mechanism import is_vote
from skdpsynth.audit._recording import SequenceError, named, recorded, replayed
from skdpsynth.audit._same import differences
from skdpsynth.privacy._counts import MIN_KEY_COUNT
from skdpsynth.privacy._report_text import scope_words
from skdpsynth.privacy.testing import coupled_rows, insecure_randomness

if TYPE_CHECKING:
    from skdpsynth.audit._recording import Seen
    from skdpsynth.base import BaseSynthesizer

_ROUNDING = 1e-9
_SAMPLED_ROWS = 100
_MOST_NAMED = 3  # places of a fitted object that a finding names
_LINE = (  # of the ledger, without what was used
    "name",
    "scope",
    "kind",
    "count",
    "mu",
    "sensitivity",
    "noise_std",
    "delta",
    "sampling_rate",
    "n_teachers",
)


@dataclass(frozen=True, eq=False)
class World:
    """What a fit did: releases, warnings, and the fitted object or the error."""

    releases: list[Seen]
    warned: list[str]
    fitted: BaseSynthesizer | None
    error: Exception | None

    @property
    def refusal(self) -> str | None:
        """The error in words, with its notes; None without one."""
        if self.error is None:
            return None
        notes = getattr(self.error, "__notes__", [])
        return "\n".join([type(self.error).__name__, str(self.error), *notes])


def enter(
    ready: BaseSynthesizer,
    table: Any,  # noqa: ANN401 - any container
    seed: int,
    history: list[Seen] | None = None,
    *,
    coupled: bool,
) -> World:
    """Fit a clone with secrets of a seed, maybe with the releases of another world.

    If `coupled`, equal rows have equal secret draws, wherever they stand.
    """
    copy: BaseSynthesizer = clone(ready)
    fitted, failed = None, None
    with ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(insecure_randomness(seed))
        if coupled:
            stack.enter_context(coupled_rows())
        watching = recorded(edge=True) if history is None else replayed(history)
        releases = stack.enter_context(watching)
        try:
            fitted = copy.fit(table)
        except Exception as error:
            failed = error
    warned = [f"{w.category.__name__}: {w.message}" for w in caught]
    return World(releases, warned, fitted, failed)


def entries_of(releases: list[Seen]) -> list[Any]:
    """Give the lines of the ledger that paid, in order of reservation."""
    if not releases:
        return []
    return list(releases[0].reservation._known_ledger().entries)


def compare(first: World, second: World, row: str) -> tuple[list[float], list[str]]:
    """Give the largest shift of every line of the ledger, and what must not be.

    `row` names what only one of the worlds has. If that decides on an error, the rest
    of the fits is not compared.
    """
    if isinstance(second.error, SequenceError):
        return [], [f"{row} changes which releases are made: {second.error}."]
    if first.refusal != second.refusal:
        return [], [f"{row} decides whether there is an error, or which."]
    findings = []
    if len(first.releases) != len(second.releases):
        findings.append(
            f"{row} changes how many releases are made: {len(first.releases)} in one "
            f"fit, and {len(second.releases)} in the other."
        )
    if first.warned != second.warned:
        findings.append(f"{row} decides what is warned of.")
    lines = [
        [[getattr(entry, name) for name in _LINE] for entry in entries_of(w.releases)]
        for w in (first, second)
    ]
    if differences(lines[0], lines[1]):
        findings.append(f"{row} changes what is reserved, or its noise.")
    shifts, more = _compare_releases(first.releases, second.releases, row)
    findings += more
    if first.fitted is not None and second.fitted is not None:
        findings += _compare_fitted(first.fitted, second.fitted, row)
    return shifts, findings


def _compare_fitted(
    first: BaseSynthesizer, second: BaseSynthesizer, row: str
) -> list[str]:
    findings = []
    both = first, second
    # In memory: a pickle shows what the class lets it. Before the samples are drawn,
    # which move generators on.
    places = differences(first, second)
    if places:
        named_places = ", ".join(places[:_MOST_NAMED])
        findings.append(
            f"the fitted object depends on {row} past all releases ({named_places})."
        )
    samples = [s.sample(_SAMPLED_ROWS, random_state=0) for s in both]
    if differences(samples[0], samples[1]):
        findings.append(f"synthetic rows depend on {row} past all releases.")
    reports = [s.privacy_report().to_dict() for s in both]
    if differences(reports[0], reports[1]):
        findings.append(f"the report depends on {row} past all releases.")
    return findings


def _compare_releases(
    history: list[Seen], answered: list[Seen], row: str
) -> tuple[list[float], list[str]]:
    """Give the largest shift of every line, and what moved too far."""
    entries, findings = entries_of(history), []
    position = {id(entry.reservation): i for i, entry in enumerate(entries)}
    shifts = [0.0] * len(entries)
    moved = set()
    teachers: dict[str, set[int]] = defaultdict(set)
    for ours, theirs in zip(history, answered, strict=False):
        index = position.get(id(ours.reservation))
        if index is None:  # of a second ledger, which is found elsewhere
            continue
        line, payers = ours.reservation, scope_words(ours.reservation.scope)
        where = f"{line.name!r} ({payers})"
        if ours.silent or theirs.silent:
            findings.append(f"{where}: no noise was added.")
        if ours.noise != theirs.noise:
            findings.append(f"{where}: the noise depends on {row}.")
        if not (ours.adds_up and theirs.adds_up):
            findings.append(f"{where}: the teachers do not add up to what is released.")
        findings += [f"{where}: {words}" for words in _compare_keys(ours, theirs)]
        teachers[payers] |= _changed_teachers(ours, theirs)
        shift = _shift(ours, theirs) / line.sensitivity
        if shift > 0 and line.scope is not None:
            moved.add(payers)
        shifts[index] = max(shifts[index], shift)
    for entry, shift in zip(entries, shifts, strict=True):
        if shift > 1 + _ROUNDING:
            findings.append(
                f"{entry.name!r} ({scope_words(entry.scope)}): {row} moves a "
                f"release by {shift:.4g} times its sensitivity."
            )
    changed = sum(map(len, teachers.values()))
    if changed > 1:
        findings.append(f"{row} changes {changed} teachers; one row has one.")
    if len(moved) > 1:
        findings.append(
            "one row moves releases that different rows pay for: "
            + ", ".join(sorted(moved))
        )
    return shifts, [*dict.fromkeys(findings)]


def _compare_keys(ours: Seen, theirs: Seen) -> list[str]:
    """Say where only one of two releases has a key, but for what its delta covers.

    One row can lift one key of a column to the least count that is released.
    """
    if ours.keys is None or theirs.keys is None:
        return [] if ours.keys is theirs.keys else ["only one fit finds keys."]
    pairs = (ours, theirs), (theirs, ours)
    alone = [_alone(own, other) for own, other in pairs]
    if alone[0] and alone[1]:
        return ["both fits have keys that the other lacks."]
    columns = Counter(column for (column, *_), _ in [*alone[0], *alone[1]])
    if columns and max(columns.values()) > 1:
        return ["one row adds several keys to a column."]
    if any(count != MIN_KEY_COUNT for _, count in [*alone[0], *alone[1]]):
        return [f"only one fit has a key of more than {MIN_KEY_COUNT} rows."]
    return []


def _alone(own: Seen, other: Seen) -> list[tuple[Any, int]]:
    """Give the keys that only one of two releases has, with their counts."""
    known = set(named(other))
    pairs = zip(named(own), own.exact.tolist(), strict=True)
    return [(key, count) for key, count in pairs if key not in known]


def _changed_teachers(ours: Seen, theirs: Seen) -> set[int]:
    first, second = ours.teachers or {}, theirs.teachers or {}
    return {t for t in first.keys() | second.keys() if first.get(t) != second.get(t)}


def _shift(ours: Seen, theirs: Seen) -> float:
    """Give the most by which one release moves, in ledger units."""
    first, second = ours.exact, theirs.exact
    if ours.keys is not None and theirs.keys is not None:
        own, other = (
            dict(zip(named(r), r.exact.tolist(), strict=True)) for r in (ours, theirs)
        )
        shared = [key for key in own if key in other]
        first, second = (
            np.array([w[key] for key in shared], np.int64) for w in (own, other)
        )
    difference = _difference(first, second)
    if difference.size == 0:
        return 0.0
    if is_vote(ours.reservation.kind):
        return float(np.abs(difference).max())
    by_release = difference.reshape(ours.n_releases, -1) / ours.unit
    return float(np.linalg.norm(by_release, axis=1).max())


def _difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Subtract, whole numbers without rounding or wrapping, and give it as floats."""
    if first.dtype == np.int64:
        first, second = first.astype(object), second.astype(object)
    return (first - second).astype(np.float64)
