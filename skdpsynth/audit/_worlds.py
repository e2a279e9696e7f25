"""Two fits with equal secrets and equal releases: what may differ, and by how much.

`observed` keeps all that a fit releases, and answers another fit with it. Then the two
may differ in the exact values of releases alone: by their sensitivity, and for rows of
one scope (a class, or all rows). `differences` compares what is left.
"""

from __future__ import annotations

import functools
import math
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import methodcaller
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import erf
from sklearn.base import clone

from skdpsynth.audit._bounds import NEGLIGIBLE
from skdpsynth.audit._noise import is_vote
from skdpsynth.base import BaseSynthesizer
from skdpsynth.privacy import Reservation, scope_words
from skdpsynth.privacy.testing import (
    Release,
    coupled_rows,
    insecure_randomness,
    observe_releases,
)
from skdpsynth.schema import TableSchema
from skdpsynth.utils import EXCESS, MOST_SHOWN

Array = np.typing.NDArray[Any]

# What answers for a key that is not to pass, below every threshold.
NOT_PASSED: int = np.iinfo(np.int64).min
_SAMPLED_ROWS = 100
_LINE = (  # of the ledger, without what was used
    *("name", "scope", "kind", "count", "mu", "sensitivity", "noise_std"),
    *("delta", "sampling_rate", "n_teachers"),
)
_PLAIN = (str, bytes, int, bool, type(None))  # compared by type and value
# What makes an object equal to another of its type.
_ATTRIBUTES: dict[Any, tuple[str, ...]] = {
    np.random.Generator: ("bit_generator",),
    np.random.BitGenerator: ("state",),
    pd.CategoricalDtype: ("categories", "ordered"),
    pd.Timedelta: ("unit", "components"),
    functools.partial: ("func", "args", "keywords"),
    types.MethodType: ("__self__", "__func__"),
}


def canary_rows(
    table: pd.DataFrame,
    canary: Mapping[str, object] | pd.DataFrame,
    schema: TableSchema | None = None,
) -> pd.DataFrame:
    """Return rows of the table's columns and dtypes: one, or all of one new unit."""
    unit = getattr(schema, "privacy_unit", None)
    rows = canary if isinstance(canary, pd.DataFrame) else pd.DataFrame([dict(canary)])
    few = len(rows) == 1 or (unit is not None and len(rows) > 0)
    if not few or set(rows) != set(table):
        many = "one row" if unit is None else "the rows of one unit"
        raise ValueError(
            f"Expected a canary of {many} with the columns of the table. Got "
            f"{len(rows)} rows and the columns {list(rows)} instead of {list(table)}."
        )
    columns = {}
    for name in table:
        dtype, values = table[name].dtype, rows[name]
        known = getattr(dtype, "categories", None)
        typed = None
        with suppress(TypeError, ValueError, OverflowError):  # they say the value
            # astype would make a missing value of one that is no category
            if known is None or all(v in known or pd.isna(v) for v in values):
                typed = values.astype(dtype)
        if typed is None:
            raise ValueError(
                f"The canary's value for {name!r} must be one that {dtype} can hold. "
                "It is not; change the canary, or the dtype of the table."
            )
        columns[name] = typed.reset_index(drop=True)  # a Series keeps its dtype
    if unit is not None:
        ids = columns[unit]
        one = ids.isin(ids[:1]).all() and not ids.isna().any()
        if not one or table[unit].isin(ids).any():
            raise ValueError(
                f"Expected a canary of one {unit!r} that the table lacks, the same in "
                "all of its rows. Got one that is missing, in the table, or several; "
                "change it, since the audit is of a unit that comes or goes."
            )
    return pd.DataFrame(columns)


# --- Releases -----------------------------------------------------------------------


class SequenceError(Exception):
    """The second fit asks for other releases than the first; says how."""


@dataclass(frozen=True, eq=False)
class Observed(Release):
    """A release; of its private parts, digests are kept."""

    teachers: dict[int, bytes] | None = None  # digests of those that add anything
    adds_up: bool = True  # the teachers, to the exact value
    silent: bool = False  # no noise was added where some was reserved
    noise: bytes = b""  # a digest of what was added to whole numbers

    @classmethod
    def of(cls, release: Release) -> Observed:
        """Return what is kept of a release."""
        exact, noisy, teachers, adds_up = release.exact, release.noisy, None, True
        if release.by_teacher is not None:
            given = release.by_teacher()
            parts = given if isinstance(given, dict) else dict(enumerate(given))
            parts = {int(t): np.asarray(part, np.int64) for t, part in parts.items()}
            if all(part.shape == exact.shape for part in parts.values()):
                total = sum(parts.values(), np.zeros_like(exact))
                adds_up = np.array_equal(total, exact)
            teachers = {t: _digest(part) for t, part in parts.items() if part.any()}
        whole = exact.dtype == noisy.dtype == np.int64 and release.keys is None
        kept = {
            "by_teacher": None,
            "teachers": teachers,
            "adds_up": adds_up,
            "silent": _is_silent(release),
            "noise": _digest(noisy - exact) if whole else b"",
        }
        return cls(**vars(release) | kept)

    @property
    def names(self) -> list[tuple[int, type, Any]]:
        """Return names of the entries of a release of keys; 1 is not True."""
        return [(column, type(key), key) for column, key in self.keys or ()]

    @property
    def sure(self) -> int:
        """Return the least count of a key that is released without any one person."""
        return self.least + self.reservation.rows_per_unit


def _digest(array: Array) -> bytes:
    return blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()


def _is_silent(release: Release) -> bool:
    """Return whether numbers came out as they went in, although noise was reserved."""
    exact, std = release.exact, release.reservation.noise_std * release.unit
    same = exact.dtype == release.noisy.dtype and np.array_equal(exact, release.noisy)
    if std == 0 or not same:
        return False
    if exact.dtype != np.int64:
        return exact.size > 0
    alone = float(erf(0.5 / std / math.sqrt(2)))  # that noise rounds to 0
    return exact.size * math.log(alone) < math.log(NEGLIGIBLE)


@contextmanager
def observed(
    history: list[Observed] | None = None, *, edge: bool = False
) -> Iterator[list[Observed]]:
    """Collect all releases that are made inside, in order.

    With a `history`, each is answered with what the same release of another fit gave;
    noise is drawn too, so that both fits use up as many secret draws. With `edge`, keys
    of the least count that is released do not pass: a neighbour may lack them, which
    the delta of the release covers.
    """
    kept: list[Observed] = []

    def answer(release: Release) -> Array | None:
        seen, noisy = Observed.of(release), None
        if history is not None:
            noisy = _answer(seen, history, len(kept))
        elif edge and seen.keys is not None:
            noisy = np.where(seen.exact >= seen.sure, seen.noisy, NOT_PASSED)
        kept.append(seen if noisy is None else replace(seen, noisy=noisy))
        return noisy

    with observe_releases(answer):
        yield kept


def _answer(release: Observed, history: list[Observed], place: int) -> Array:
    """Return what the release at a place of a history gave, if it is the same."""
    name = release.reservation.name
    if place == len(history):
        raise SequenceError(f"one fit releases {name!r} more often")
    earlier = history[place]
    if release.what != earlier.what:
        raise SequenceError(
            f"release {place} is {earlier.reservation.name!r} of shape "
            f"{earlier.exact.shape} in one fit, and {name!r} of shape "
            f"{release.exact.shape} in the other"
        )
    if release.keys is None or earlier.keys is None:
        return earlier.noisy
    known = dict(zip(earlier.names, earlier.noisy.tolist(), strict=True))
    return np.array([known.get(key, NOT_PASSED) for key in release.names], np.int64)


# --- Fits ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class World:
    """What a fit did: releases, warnings, and the fitted object or the error."""

    releases: list[Observed]
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
    table: Any,
    seed: int,
    history: list[Observed] | None = None,
    *,
    coupled: bool,
) -> World:
    """Fit a clone with secrets of a seed, maybe with the releases of another world."""
    copy: BaseSynthesizer = clone(ready)
    fitted, failed = None, None
    with ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(insecure_randomness(seed))
        if coupled:
            stack.enter_context(coupled_rows())
        releases = stack.enter_context(observed(history, edge=True))
        try:
            fitted = copy.fit(table)
        except Exception as error:
            failed = error
    warned = [f"{w.category.__name__}: {w.message}" for w in caught]
    return World(releases, warned, fitted, failed)


def entries_of(releases: list[Observed]) -> list[Reservation]:
    """Return the lines of the ledger that was charged, in order of reservation."""
    return [*releases[0].reservation._ledger._used] if releases else []


def where_of(line: Reservation) -> str:
    """Return the name of a line, and whose rows it is of."""
    return f"{line.name!r} ({scope_words(line.scope)})"


def compare(first: World, second: World, row: str) -> tuple[list[float], list[str]]:
    """Return the largest shift of every line of the ledger, and wrong differences."""
    for world, cause in (first, "a secret draw"), (second, row):
        if isinstance(world.error, SequenceError):
            return [], [f"{cause} changes which releases are made: {world.error}."]
    if first.refusal != second.refusal:
        return [], [f"{row} decides whether there is an error, or which."]
    findings = []
    n_releases = [len(world.releases) for world in (first, second)]
    if n_releases[0] != n_releases[1]:
        findings.append(
            f"{row} changes how many releases are made: {n_releases[0]} in one fit, "
            f"and {n_releases[1]} in the other."
        )
    if first.warned != second.warned:
        findings.append(f"{row} decides what is warned of.")
    lines = [
        [[getattr(entry, name) for name in _LINE] for entry in entries_of(w.releases)]
        for w in (first, second)
    ]
    if differences(lines[0], lines[1]):
        findings.append(f"{row} changes what is reserved, or its noise.")
    shifts, more = compare_releases(first.releases, second.releases, row)
    findings += more
    if first.fitted is None or second.fitted is None:
        return shifts, findings
    # The objects (a pickle hides what its class hides) come first: samples change them.
    views: dict[str, Callable[[Any], Any]] = {
        "the fitted object depends": lambda fitted: fitted,
        "synthetic rows depend": methodcaller("sample", _SAMPLED_ROWS, random_state=0),
        "the report depends": lambda fitted: fitted.privacy_report().to_dict(),
    }
    for words, view in views.items():
        places = differences(view(first.fitted), view(second.fitted))[:MOST_SHOWN]
        if places:
            listed = ", ".join(places)
            findings.append(f"{words} on {row} past all releases ({listed}).")
    return shifts, findings


def compare_releases(
    history: list[Observed], answered: list[Observed], row: str
) -> tuple[list[float], list[str]]:
    """Return the largest shift of every line, and what moved too far."""
    lines, findings = entries_of(history), []
    shifts = dict.fromkeys(lines, 0.0)
    n_rows = 1
    of_scopes: dict[str, float] = defaultdict(float)  # the largest shift in each class
    teachers: set[tuple[str, int]] = set()
    for ours, theirs in zip(history, answered, strict=False):
        line, scope = ours.reservation, scope_words(ours.reservation.scope)
        if line not in shifts:  # of a second ledger, which is found elsewhere
            continue
        wrong = _compare_keys(ours, theirs)
        if ours.silent or theirs.silent:
            wrong.append("no noise was added.")
        if ours.noise != theirs.noise:
            wrong.append(f"the noise depends on {row}.")
        if not (ours.adds_up and theirs.adds_up):
            wrong.append("the teachers do not add up to what is released.")
        findings += [f"{where_of(line)}: {words}" for words in wrong]
        one, other = (release.teachers or {} for release in (ours, theirs))
        both = one.keys() | other.keys()
        teachers |= {(scope, t) for t in both if one.get(t) != other.get(t)}
        n_rows = line.rows_per_unit
        shift = _shift(ours, theirs) / (line.sensitivity * n_rows)
        if shift > 0 and line.scope is not None:
            of_scopes[scope] = max(of_scopes[scope], shift)
        shifts[line] = max(shifts[line], shift)
    findings += [
        f"{where_of(line)}: {row} moves a release by {shift:.4g} times its sensitivity."
        for line, shift in zip(lines, shifts.values(), strict=True)
        if shift > 1 + EXCESS
    ]
    if len(teachers) > 1:
        findings.append(f"{row} changes {len(teachers)} teachers; one row has one.")
    if len(of_scopes) > 1 and n_rows == 1:
        findings.append(
            "one row moves releases that are charged to different rows: "
            + ", ".join(sorted(of_scopes))
        )
    if (together := sum(of_scopes.values())) > 1 + EXCESS:
        findings.append(f"{row} moves all classes by {together:.4g} times what it may.")
    return [*shifts.values()], [*dict.fromkeys(findings)]


def _compare_keys(ours: Observed, theirs: Observed) -> list[str]:
    """Return where only one release has a key, but for what its delta covers."""
    # One row can lift one key of a column to the least count; k rows k, or one by k.
    if ours.keys is None or theirs.keys is None:
        return [] if ours.keys is theirs.keys else ["only one fit finds keys."]
    one, other = _counts_of(ours), _counts_of(theirs)
    apart = {
        key: n for key, n in (one | other).items() if (key in one) != (key in other)
    }
    if apart.keys() & one.keys() and apart.keys() & other.keys():
        return ["both fits have keys that the other lacks."]
    columns = Counter(column for column, *_ in apart)
    if max(columns.values(), default=0) > ours.reservation.rows_per_unit:
        return ["one row adds several keys to a column."]
    if any(count >= ours.sure for count in apart.values()):
        return [f"only one fit has a key of more than {ours.sure - 1} rows."]
    return []


def _counts_of(release: Observed) -> dict[tuple[int, type, Any], int]:
    return dict(zip(release.names, release.exact.tolist(), strict=True))


def _shift(ours: Observed, theirs: Observed) -> float:
    """Return the most by which one release moves, in units of the ledger."""
    first, second = ours.exact, theirs.exact
    if ours.keys is not None and theirs.keys is not None:
        counts, others = _counts_of(ours), _counts_of(theirs)
        shared = [key for key in counts if key in others]
        first, second = (
            np.array([c[k] for k in shared], int) for c in (counts, others)
        )
    if first.dtype == np.int64:  # without rounding or wrapping
        first, second = first.astype(object), second.astype(object)
    difference = (first - second).astype(np.float64)
    if difference.size == 0:
        return 0.0
    if is_vote(ours.reservation.kind):
        return float(np.abs(difference).max())
    by_release = difference.reshape(ours.n_releases, -1) / ours.unit
    return float(np.linalg.norm(by_release, axis=1).max())


# --- Objects ------------------------------------------------------------------------


def differences(first: Any, second: Any) -> list[str]:
    """List the places where two objects differ; no value is in the list."""
    # Types, and what arrays, tensors, tables and generators hold, to the bit; not which
    # parts are the same object, as `pickle` and `joblib.hash` do.
    # With the objects: an address is used again when its object is gone.
    met: dict[tuple[int, int], tuple[Any, Any]] = {}

    def between(first: Any, second: Any, where: str) -> list[str]:
        if type(first) is not type(second):
            return [where or "the object itself"]
        if isinstance(first, _PLAIN):
            return [] if first == second else [where]
        if (id(first), id(second)) in met:
            return []
        met[id(first), id(second)] = first, second
        ours, theirs = _parts_of(first), _parts_of(second)
        if [*ours] != [*theirs]:
            return [f"{where}: what it holds"]
        return [
            place
            for name, part in ours.items()
            for place in between(part, theirs[name], f"{where}{name}")
        ]

    return between(first, second, "")


def _parts_of(held: Any) -> dict[str, Any]:
    """Return the parts of an object, by name and in order."""
    for kinds, names in _ATTRIBUTES.items():
        if isinstance(held, kinds):
            return {f".{name}": getattr(held, name) for name in names}
    if isinstance(held, float | complex | np.generic):
        return {"": np.asarray(held).tobytes()}
    if isinstance(held, np.ndarray):
        content = held.ravel().tolist() if held.dtype.hasobject else held.tobytes()
        return {".dtype": str(held.dtype), ".shape": held.shape, " entries": content}
    # Torch is not imported here; these are its generators, and its tensors.
    if isinstance(held, np.random.RandomState) or hasattr(held, "initial_seed"):
        return {".state": held.get_state()}
    if hasattr(held, "is_leaf"):
        gradient = held.grad if held.is_leaf else None
        values = held.detach().cpu().numpy()
        return {".grad": gradient, ".device": str(held.device), "": values}
    if isinstance(held, pd.api.extensions.ExtensionDtype | np.dtype):
        return {"": str(held)}  # pandas keeps what it computes on some of them
    if isinstance(held, pd.DataFrame):
        columns = _numbered(held.iloc[:, place] for place in range(held.shape[1]))
        return {".columns": held.columns, ".index": held.index, **columns}
    if isinstance(held, pd.Series | pd.Index):
        return {
            ".dtype": str(held.dtype),
            ".name": held.name,
            ".categories": getattr(held.dtype, "categories", None),
            " values": np.array([*held], dtype=object) if len(held) else None,
        }
    if hasattr(held, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(held)
        return {".schema": str(table.schema), ".rows": table.to_pydict()}
    if isinstance(held, dict | types.MappingProxyType):
        # The order of keys may depend on a row, too.
        return {"'s keys": [*held], **_numbered(held.values())}
    if isinstance(held, list | tuple):
        return _numbered(held)
    if isinstance(held, set | frozenset):
        return {" members": sorted(held, key=repr)}
    if isinstance(held, types.FunctionType):
        cells = [cell.cell_contents for cell in held.__closure__ or ()]
        return {" code": held.__code__.co_code, " closure": cells}
    if isinstance(held, type | types.ModuleType | types.BuiltinFunctionType):
        return {"": f"{getattr(held, '__module__', '')}.{held.__name__}"}
    # Not what its class would write into a pickle; slots are apart from the others.
    state = object.__getstate__(held)
    states = state if isinstance(state, tuple) else (state,)
    named = {f".{name}": part for kept in states for name, part in (kept or {}).items()}
    if named or type(held).__repr__ is object.__repr__:
        return named
    return {"": repr(held)}


def _numbered(items: Any) -> dict[str, Any]:
    return {f"[{place}]": item for place, item in enumerate(items)}
