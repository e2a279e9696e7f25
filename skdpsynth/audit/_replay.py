"""Replay: two fits that differ in one row and in nothing else that is secret."""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch
from zlib import crc32

import joblib
import pandas as pd
from sklearn.base import clone

from skdpsynth.audit._odd_tables import (
    ALL_SOURCES,
    OddTable,
    contained,
    missing_library,
    odd_tables,
    table_of_frame,
)
from skdpsynth.audit._planted import PLANTED
from skdpsynth.audit._worlds import compare, enter
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.generators import _fit
from skdpsynth.models import _mixture_trainer
from skdpsynth.privacy import _calibration, _parts
from skdpsynth.synthesizers import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
    _dpcgan,
)
from skdpsynth.table import _sources
from skdpsynth.utils import withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skdpsynth.audit._worlds import World

PLACES = ("first", "middle", "last")
CHANGES = ("added", "removed")

# So much that pairs are measured in small tables, and keys found; sensitivities do not
# depend on it.
_EPSILON = 100.0
_SHORT: dict[str, Any] = {"epsilon": _EPSILON, "n_iter": 2}
_GAN = _SHORT | {"n_generator_steps": 2}
_VOTES = _GAN | {"n_student_steps": 2, "batch_size": 16, "n_teachers": 5}
_SCRATCH: dict[str, Any] = {"init": "random", "hidden_dims": (3,)}
# The papers' networks, of a few units and for a few rounds; all else is as published.
_LAYERS: dict[str, Any] = {
    "generator_hidden_dims": (4, 4),
    "hidden_dims": (3,),
    "latent_dim": 3,
}
_PAPER = {"epsilon": _EPSILON, "n_iter": 2, "batch_size": 16, **_LAYERS}
_PAPER_VOTES = _PAPER | {
    "batch_size": 64,  # so many votes that a row changes one
    "n_teachers": 5,
    "n_student_steps": 2,
    "n_generator_steps": 2,
}

# Every private synthesizer, and each way of training once.
SYNTHESIZERS: dict[str, BaseSynthesizer] = {
    "Independent": IndependentSynthesizer(_EPSILON),
    "Marginal": MarginalSynthesizer(_EPSILON),
    "GPATE": GPATESynthesizer(**_SHORT),
    "GPATE, hidden layers": GPATESynthesizer(n_teachers=5, **_SHORT, **_SCRATCH),
    "GPATE, votes": GPATESynthesizer(
        aggregator="confident_gnmax",
        batch_size=4,
        projection_dim=2,
        n_teachers=5,
        **_SHORT,
    ),
    "GPATE, networks": GPATESynthesizer.as_published(
        **_PAPER | {"batch_size": 4, "n_teachers": 5, "projection_dim": 2}
    ),
    "PATEGAN": PATEGANSynthesizer(**_VOTES),
    "PATEGAN, Laplace": PATEGANSynthesizer(noise="laplace", **_SCRATCH, **_VOTES),
    "PATEGAN, networks": PATEGANSynthesizer.as_published(**_PAPER_VOTES),
    "DPCGAN": DPCGANSynthesizer(**_GAN),
    "DPCGAN, sampled": DPCGANSynthesizer(batch_size=10, **_SCRATCH, **_GAN),
    "DPCGAN, networks": DPCGANSynthesizer.as_published(
        **_PAPER | {"batch_size": 10, "hidden_dims": (3, 3)}
    ),
    "DPGAN": DPGANSynthesizer(**_GAN),
    "DPGAN, networks": DPGANSynthesizer.as_published(**_PAPER | {"batch_size": 10}),
    "PATETripleGAN": PATETripleGANSynthesizer(**_VOTES),
    "PATETripleGAN, measured": PATETripleGANSynthesizer(_EPSILON),
    "PATETripleGAN, DP-SGD": PATETripleGANSynthesizer(
        desensitization="dpsgd", **_SCRATCH, **_VOTES
    ),
    "PATETripleGAN, networks": PATETripleGANSynthesizer.as_published(**_PAPER_VOTES),
}
# They train in steps, which are refused where several rows of a person take part.
_OF_ONE_ROW = {*SYNTHESIZERS} - {
    *("Independent", "Marginal", "PATETripleGAN, measured"),
}
# In every source by default: one that counts, and one that trains on rows in parts.
_EVERYWHERE = ("Independent", "GPATE")

# Cells of a block, and steps of the generator that follow a release: tables of some
# rows are to be read in several parts, and what follows releases is post-processing.
_BLOCK_ENTRIES, _FEW_STEPS = 48, 20
# What sampled steps cost takes seconds to compute, and all plans of a table ask for it.
_kept_mu = lru_cache(maxsize=1024)(_calibration.steps_mu)


@dataclass(frozen=True)
class ReplayedPair:
    """Two fits, of a table with and without a row.

    Parameters
    ----------
    synthesizer, table, source : str
        What was fitted, on what, and what the table came as.
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
    n_releases : int
        Releases of the first fit.
    seconds : float
        The second fit took.

    See Also
    --------
    replay : Makes them.

    Examples
    --------
    >>> from skdpsynth.audit import ReplayedPair
    >>> where = "Independent", "plain", "csv", "added", "last"
    >>> print(ReplayedPair(*where, "equal", (), 1.0, 5, 0.1))
    equal    Independent            plain                csv     added last     1.00
    """

    synthesizer: str
    table: str
    source: str
    change: str
    place: str
    outcome: str
    findings: tuple[str, ...]
    shift: float
    n_releases: int
    seconds: float

    def __str__(self) -> str:
        line = (
            f"{self.outcome:8} {self.synthesizer:22} {self.table:20} {self.source:7} "
            f"{self.change} {self.place:6} {self.shift:6.2f}"
        )
        return "  ".join([line, "; ".join(self.findings)]).rstrip()


@dataclass(frozen=True)
class ReplayedTwin:
    """A synthesizer that was broken on purpose, and whether the replay noticed.

    Parameters
    ----------
    name : str
        What is broken.
    findings : tuple of str
        What the replay says of it.
    seen : bool
        Whether the expected finding is among these.

    See Also
    --------
    replay : Plants them.

    Examples
    --------
    >>> from skdpsynth.audit import ReplayedTwin
    >>> print(ReplayedTwin("slices", ("one row changes 4 teachers",), True))
    seen     twin: slices                  one row changes 4 teachers
    """

    name: str
    findings: tuple[str, ...]
    seen: bool

    def __str__(self) -> str:
        said = self.findings[0] if self.findings else "no finding"
        return f"{'seen' if self.seen else 'NOT SEEN':8} twin: {self.name:23} {said}"


@dataclass(frozen=True)
class Replay:
    """Result of `replay`.

    Without any pair it says nothing of a fit: see `left_out`.

    Parameters
    ----------
    pairs : tuple of ReplayedPair
        In the order in which they were tried.
    twins : tuple of ReplayedTwin
        What was broken on purpose.
    left_out : tuple of str
        What was asked for and not tried, and why.
    seconds : float
        How long all took.

    See Also
    --------
    replay : Makes one.

    Examples
    --------
    >>> from skdpsynth.audit import Replay
    >>> Replay(pairs=(), twins=(), left_out=(), seconds=0.0).violated
    False
    """

    pairs: tuple[ReplayedPair, ...]
    twins: tuple[ReplayedTwin, ...]
    left_out: tuple[str, ...]
    seconds: float

    @property
    def findings(self) -> tuple[str, ...]:
        """Pairs that differ, and twins that were not noticed, in a line each."""
        bad = [str(pair) for pair in self.pairs if pair.findings]
        return (*bad, *(str(twin) for twin in self.twins if not twin.seen))

    @property
    def violated(self) -> bool:
        """Whether there is any finding."""
        return bool(self.findings)

    def __str__(self) -> str:
        outcomes = Counter(pair.outcome for pair in self.pairs)
        counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
        seen = sum(twin.seen for twin in self.twins)
        left_out = [f"left out: {reason}" for reason in self.left_out]
        if not self.pairs:
            left_out.append("no pair was tried: nothing is known of any fit.")
        total = f"{len(self.pairs)} pairs ({counts or 'none'}); {seen} of "
        total += f"{len(self.twins)} twins seen; {self.seconds:.0f} seconds"
        return "\n".join([*self.findings, *left_out, total])

    def to_frame(self) -> pd.DataFrame:
        """Put the pairs into a table.

        Returns
        -------
        DataFrame
            One row per pair, columns as the fields of `ReplayedPair`.
        """
        return pd.DataFrame([vars(pair) for pair in self.pairs])

    def to_dict(self) -> dict[str, Any]:
        """Give all as what JSON can hold.

        Returns
        -------
        dict
            Keys as the parameters, and "violated".
        """
        return {"violated": self.violated, **asdict(self)}


class _Group(NamedTuple):
    """Pairs with the first fit in common."""

    name: str
    synthesizer: BaseSynthesizer
    table: OddTable
    source: str

    @property
    def where(self) -> str:
        """Name, table and source in words."""
        return f"{self.name} on {self.table.name} from {self.source}"


def replay(
    synthesizer: BaseSynthesizer | str | None = None,
    table: pd.DataFrame | str | Path | None = None,
    *,
    source: str | Sequence[str] | None = None,
    rows: Sequence[str] = PLACES,
    minutes: float | None = None,
    twins: bool = True,
    n_jobs: int = 1,
    seed: int = 0,
    tell: Callable[[object], None] | None = None,
) -> Replay:
    """Fit tables that differ in one row, with equal secrets and equal releases.

    Parameters
    ----------
    synthesizer : BaseSynthesizer or str, optional
        One of your own, or the beginning of the name of ours, such as "GPATE". By
        default all.
    table : DataFrame, str or Path, optional
        A table of yours, the path of a CSV or Parquet file, or the name of one of
        ours. By default all of ours. Make it up: what a replay prints is computed from
        its rows and is not private.
    source : str, sequence of str, or "all", optional
        What tables come as: "pandas", "polars", "arrow", "csv", "parquet", "folder" (of
        Parquet files), "batches" (of Arrow) or "dask"; "all" is each of them, for every
        synthesizer. By default "pandas" where synthesizer or table is given; else
        "pandas" for all, and all for two synthesizers, one that counts and one that
        trains on rows in parts.
    rows : sequence of {"first", "middle", "last"}
        Where a row is added, and where one is removed; by default all three.
    minutes : float, optional
        Stop after so long, and list what is left out. The order is then mixed, the same
        whenever it is asked.
    twins : bool, default=True
        Whether to try synthesizers that are broken on purpose, too.
    n_jobs : int, default=1
        Processes.
    seed : int, default=0
        Of the secrets, which are equal in all fits and not private.
    tell : callable, optional
        Called with every `ReplayedPair` and `ReplayedTwin` once there is one.

    Returns
    -------
    Replay
        Its `findings` are empty where all agrees.

    Raises
    ------
    ValueError
        If a name is none of ours, or a number is out of range.
    InvalidTableError
        If a file cannot be read.

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

    Tables are cut into parts of a few rows, and generators take fewer steps than usual
    after a release, which is post-processing. A replay finds what its tables provoke,
    and proves nothing. What is broken on purpose is so inside `insecure_randomness`
    alone: other threads fit as ever, but for the sizes of parts and the numbers of
    steps, which are of the whole process.

    Examples
    --------
    >>> from skdpsynth.audit import replay
    >>> found = replay("Independent", "plain", rows=["first"], twins=False)
    >>> [(pair.change, pair.outcome, round(pair.shift, 2)) for pair in found.pairs]
    [('added', 'equal', 1.0), ('removed', 'equal', 1.0)]
    """
    start = time.monotonic()
    if not len(rows) or not set(rows) <= set(PLACES):
        raise ValueError(f"rows must be some of {PLACES}. Got {[*rows]!r} instead.")
    if minutes is not None and not minutes > 0:
        raise ValueError(f"minutes must be positive. Got {minutes!r} instead.")
    deadline = time.time() + 60 * minutes if minutes is not None else math.inf
    groups, left_out = _plan(synthesizer, table, source)
    if minutes is not None:  # a part of all kinds, whenever time is over
        groups.sort(key=lambda group: crc32(group.where.encode()))
    tell = tell or (lambda _: None)
    tried: list[ReplayedTwin] = []
    for name in PLANTED if twins else ():
        tried.append(replay_twin(name, seed))
        tell(tried[-1])
    run = partial(_replay_group, places=tuple(rows), deadline=deadline, seed=seed)
    pairs: list[ReplayedPair] = []
    skipped: Counter[str] = Counter()
    with joblib.Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        made = parallel(joblib.delayed(run)(group) for group in groups)
        for group, found in zip(groups, made, strict=True):
            for pair in found:
                tell(pair)
            pairs += found
            where = f"{group.name} from {group.source}"
            skipped[where] += len(rows) * len(CHANGES) - len(found)
    for where, n_pairs in sorted((+skipped).items()):
        left_out.append(f"{n_pairs} pairs of {where}: {minutes:g} minutes were over")
    return Replay(tuple(pairs), tuple(tried), tuple(left_out), time.monotonic() - start)


def replay_twin(name: str, seed: int) -> ReplayedTwin:
    """Try one of what is broken on purpose, until it is noticed."""
    twin = PLANTED[name]
    ready = SYNTHESIZERS[twin.synthesizer]
    group = _Group(twin.synthesizer, ready, odd_tables()[twin.table], "pandas")
    findings: list[str] = []
    with twin.planted():
        for pair in _pairs_of(group, PLACES, seed):
            findings += pair.findings
            if any(twin.finding in words for words in findings):
                return ReplayedTwin(name, tuple(findings), seen=True)
    return ReplayedTwin(name, tuple(findings), seen=False)


def _plan(
    synthesizer: BaseSynthesizer | str | None,
    table: pd.DataFrame | str | Path | None,
    source: str | Sequence[str] | None,
) -> tuple[list[_Group], list[str]]:
    """List what is to be tried, table by table, and what cannot be."""
    synthesizers, tables = _synthesizers(synthesizer), _tables(table)
    some = synthesizer is None and table is None and source is None
    if source is None:
        source = "all" if some else "pandas"
    sources = ALL_SOURCES if source == "all" else source
    sources = [sources] if isinstance(sources, str) else sources
    if unknown := [name for name in sources if name not in ALL_SOURCES]:
        raise ValueError(
            f"source must be one of {ALL_SOURCES}, or 'all'. Got {unknown}."
        )
    absent = {name: missing_library(name) for name in sources}
    left_out = [
        f"source {name}: {library} is not installed"
        for name, library in absent.items()
        if library is not None
    ]
    if len(tables) == 1:
        left_out += [
            f"source {name}: the table {tables[0].name!r} does not come as that"
            for name in sources
            if name not in tables[0].sources
        ]
    groups = [
        _Group(name, ready, own, where)
        for own in tables
        for name, ready in synthesizers.items()
        for where in sources
        if where in own.sources and absent[where] is None
        if where == "pandas" or name in _EVERYWHERE or not some
        if own.rows_per_unit == 1 or ready is synthesizer or name not in _OF_ONE_ROW
    ]
    return groups, left_out


def _synthesizers(asked: BaseSynthesizer | str | None) -> dict[str, BaseSynthesizer]:
    if isinstance(asked, BaseSynthesizer):
        return {type(asked).__name__.removesuffix("Synthesizer"): asked}
    name = (asked or "").removesuffix("Synthesizer")
    found = {
        own: ready
        for own, ready in SYNTHESIZERS.items()
        if not name or name in (own, own.partition(",")[0])
    }
    if not found:
        raise ValueError(
            f"synthesizer must be one of {[*SYNTHESIZERS]}, the name of its class, or "
            f"a synthesizer. Got {asked!r} instead."
        )
    return found


def _tables(asked: pd.DataFrame | str | Path | None) -> list[OddTable]:
    ours = odd_tables()
    if asked is None:
        return [*ours.values()]
    if isinstance(asked, str) and asked in ours:
        return [ours[asked]]
    name, frame = "a table of yours", asked
    if not isinstance(frame, pd.DataFrame):
        path = Path(frame)
        if not path.exists():
            raise ValueError(
                f"table must be one of {[*ours]}, a DataFrame, or the path of a CSV or "
                f"Parquet file. Got {str(path)!r} instead."
            )
        with withheld(f"{str(path)!r} must be a CSV or Parquet file"):
            read = pd.read_csv if path.suffix.lower() == ".csv" else pd.read_parquet
            name, frame = path.name, read(path)
    if len(frame) < 3:
        raise InvalidTableError("Expected a table of 3 rows at least, to remove one.")
    return [table_of_frame(frame, name)]


def _replay_group(
    group: _Group, *, places: tuple[str, ...], deadline: float, seed: int
) -> list[ReplayedPair]:
    """Replay a table with each row more or less, as long as there is time."""
    found, pairs = [], _pairs_of(group, places, seed)
    while time.time() < deadline and (pair := next(pairs, None)) is not None:
        found.append(pair)
    return found


def _pairs_of(
    group: _Group, places: Sequence[str], seed: int
) -> Iterator[ReplayedPair]:
    """Fit a table, and each of its neighbours with the releases of that fit."""
    table = group.table
    what = "the person" if table.more else "the row"
    ready = clone(group.synthesizer).set_params(random_state=0, budget=None)
    if ready.schema is None:
        ready.set_params(schema=table.schema)
    if ready.target is None and table.schema is None:
        ready.set_params(target=table.target)
    with tempfile.TemporaryDirectory() as name, _small():

        def fit(rows: tuple[Any, ...], history: Any = None) -> World:
            own = contained(group.source, table, rows, Path(name))
            return enter(ready, own, seed, history, coupled=True)

        first = fit(table.rows)
        refusals: list[str] = []
        for place, change in product(places, CHANGES):
            start = time.monotonic()
            second = fit(table.neighbour(place, change), first.releases)
            shifts, findings = compare(first, second, what)
            if first.refusal is not None:  # by all of them nothing was compared
                error = ": ".join(first.refusal.splitlines()[:2])
                findings.append(f"the table without {what} is refused, {error}")
            outcome = "finding" if findings else "equal"
            if table.refusable and change == "added" and first.error is None:
                refusals.append(_refused_at_once(second))
                if refusals[0] != refusals[-1]:
                    outcome = "finding"
                    findings = ["where the row stands decides whether it is refused."]
                elif refusals[-1]:
                    outcome, findings = "refused", []
            yield ReplayedPair(
                *(group.name, table.name, group.source, change, place, outcome),
                tuple(findings),
                max(shifts, default=0.0),
                len(first.releases),
                round(time.monotonic() - start, 3),
            )


def _refused_at_once(world: World) -> str:
    """Say how a fit was refused before any release, but for numbers; empty if not."""
    if world.refusal is None or world.releases:
        return ""
    return re.sub(r"\d+", "", world.refusal)


@contextmanager
def _small() -> Iterator[None]:
    """Read tables in small parts, take few steps, and keep Dask in this thread."""
    with ExitStack() as stack:
        for where, name, value in (
            (_parts, "_BLOCK_ENTRIES", _BLOCK_ENTRIES),
            (_sources, "_BLOCK_ENTRIES", _BLOCK_ENTRIES),
            (_fit, "_STEPS", (_FEW_STEPS, _FEW_STEPS)),
            (_mixture_trainer, "_HELD_LAST", _FEW_STEPS),
            (_calibration, "steps_mu", _kept_mu),
            (_dpcgan, "steps_mu", _kept_mu),
        ):
            stack.enter_context(patch.object(where, name, value))
        if missing_library("dask") is None:
            import dask

            stack.enter_context(dask.config.set(scheduler="synchronous"))
        yield
