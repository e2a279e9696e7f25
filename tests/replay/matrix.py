"""All that is replayed: synthesizers, odd tables, sources, and twins.

`make replay` fits them all, with a row more and a row less at three places each.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import dask
from _instances import PLAIN, PRIVATE
from replay.odd_tables import OddTable, contained, odd_tables
from replay.twins import TWINS
from sklearn.base import clone

# The one runner of pairs, under `skdpsynth.audit.replay` too.
from skdpsynth.audit._replay import CHANGES, PLACES, ReplayedPair, replayed_pairs
from skdpsynth.base import BaseSynthesizer
from skdpsynth.synthesizers import MarginalSynthesizer

# So much that pairs are measured in small tables, keys found, and the loops run;
# sensitivities do not depend on it.
_EPSILON = 100.0
# For small tables: few teachers, samples that are no whole table, and so many votes of
# the papers' networks that a row changes one.
_SMALL: dict[str, Any] = {"epsilon": _EPSILON, "n_teachers": 5}
_LAYERS: dict[str, Any] = {
    "hidden_dims": ((4, 4), (3,)),
    "n_iter": 2,
    "n_student_steps": 2,
}
_BATCHES = {"gpate": 4, "pategan": 64, "dpcgan": 10, "dpgan": 10, "triplegan": 64}


def _with(synthesizer: BaseSynthesizer, **settings: Any) -> BaseSynthesizer:
    """Clone it, with those of the settings that it has."""
    known = synthesizer.get_params()
    return clone(synthesizer).set_params(
        **{name: value for name, value in settings.items() if name in known}
    )


# Every private synthesizer by default, each other way of training once, and the papers'
# networks, of a few units and for a few rounds; all else is as published.
SYNTHESIZERS: dict[str, BaseSynthesizer] = {
    name: _with(ready, **_SMALL)
    for name, ready in PRIVATE.items()
    if name != "pairwise rich"
}
_PLAIN = {name: type(own) for name, own in PRIVATE.items() if own in PLAIN.values()}
SYNTHESIZERS |= {
    name: _with(default(_EPSILON), n_student_steps=2)
    for name, default in _PLAIN.items()
}
SYNTHESIZERS["pairwise unlabelled"] = MarginalSynthesizer(_EPSILON, use_unlabelled=True)
SYNTHESIZERS["dpcgan sampled"].set_params(batch_size=10)
for _name, _size in _BATCHES.items():
    _published = type(PRIVATE[_name]).as_published()
    SYNTHESIZERS[f"{_name} networks"] = _with(
        _published, **_SMALL, **_LAYERS, batch_size=_size, projection_dim=2
    )
SYNTHESIZERS["dpcgan networks"].set_params(hidden_dims=((4, 4), (3, 3)))
# They were asked for steps, which are refused where a person has several rows.
_OF_ONE_ROW = {*SYNTHESIZERS} - {*_PLAIN, "pairwise unlabelled"}
# In every source by default: one that counts, and one that trains on rows in parts.
_EVERYWHERE = ("independent", "gpate")

# Cells of a block, and steps of the generator that follow a release: tables of some
# rows are to be read in several parts, and what follows releases is post-processing.
_BLOCK_ENTRIES, _FEW_STEPS = 48, 20


class Group(NamedTuple):
    """Pairs with the first fit in common."""

    name: str
    synthesizer: BaseSynthesizer
    table: OddTable
    source: str = "pandas"


def groups() -> list[Group]:
    """Return what is tried: of pandas all, of all sources two synthesizers.

    All of all, with the environment variable REPLAY_SOURCES set to "all".
    """
    everywhere = os.environ.get("REPLAY_SOURCES") == "all"
    return [
        Group(name, ready, own, source)
        for own in odd_tables().values()
        for name, ready in SYNTHESIZERS.items()
        for source in own.sources
        if source == "pandas" or name in _EVERYWHERE or everywhere
        if own.rows_per_unit == 1 or name not in _OF_ONE_ROW
    ]


def pairs_of(
    group: Group, places: Sequence[str] = PLACES, seed: int = 0
) -> Iterator[ReplayedPair]:
    """Fit a table, and each of its neighbours with the releases of that fit."""
    _, ready, table, source = group
    if table.schema is not None:
        ready = clone(ready).set_params(schema=table.schema)
    else:
        ready = clone(ready).set_params(target=table.target)
    what = "the person" if table.more else "the row"
    with tempfile.TemporaryDirectory() as folder, small():

        def container(rows: Any) -> Any:
            return contained(source, table, rows, Path(folder))

        neighbours = (
            (place, change, container(table.neighbour(place, change)))
            for place, change in product(places, CHANGES)
        )

        fits = ready, container(table.rows), neighbours, seed, what
        yield from replayed_pairs(*fits, refusable=table.refusable)


def findings_of_twin(name: str) -> list[str]:
    """Try one of what is broken on purpose, until what it does is found."""
    twin, findings = TWINS[name], []
    own = SYNTHESIZERS[twin.synthesizer]
    group = Group(twin.synthesizer, own, odd_tables()[twin.table])
    with twin.planted():
        for pair in pairs_of(group):
            findings += pair.findings
            if any(twin.finding in words for words in findings):
                break
    return findings


@contextmanager
def small() -> Iterator[None]:
    """Read tables in small parts, take few steps, and keep Dask in this thread."""
    with ExitStack() as stack:
        for name, value in (
            ("privacy._parts._BLOCK_ENTRIES", _BLOCK_ENTRIES),
            ("model._fit._STEPS", (_FEW_STEPS, _FEW_STEPS)),
            ("training._network.N_KNOWN", 60),
            ("synthesizers._pategan.VotingGAN._generator_steps", 2),
            ("synthesizers._base.GENERATOR_STEPS", 2),
        ):
            stack.enter_context(patch(f"skdpsynth.{name}", value))
        stack.enter_context(dask.config.set(scheduler="synchronous"))
        yield
