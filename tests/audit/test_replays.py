"""The replay on every synthesizer, and every twin that is planted in the package."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from replay.matrix import (
    SYNTHESIZERS,
    Group,
    findings_of_twin,
    groups,
    pairs_of,
    small,
)
from replay.odd_tables import odd_tables
from replay.twins import TWINS
from sklearn.base import clone

import skdpsynth
from skdpsynth.audit import replay
from skdpsynth.schema import Boolean, TableSchema


@pytest.mark.parametrize("name", TWINS)
def test_every_twin_is_seen(name):
    findings = findings_of_twin(name)
    assert any(TWINS[name].finding in words for words in findings), findings


@pytest.mark.replay
@pytest.mark.parametrize("group", groups(), ids="{0[0]}, {0[2].name}, {0[3]}".format)
def test_all_pairs_are_silent(group):
    """Every group of pairs, which `make replay` alone tries."""
    assert not [pair for pair in pairs_of(group) if pair.findings]


def outcomes_and_shifts(name, table, source="pandas", place="middle"):
    group = Group(name, SYNTHESIZERS[name], odd_tables()[table], source)
    pairs = [*pairs_of(group, [place])]
    return {pair.outcome for pair in pairs}, max(pair.shift for pair in pairs)


# Every synthesizer on two tables, and every twin's own without the twin.
SOUND = {*product(SYNTHESIZERS, ["cells", "missing labels"])}
# Of persons with several rows, by all that counts; with one row each, by all.
SOUND |= {*product(SYNTHESIZERS, ["one visit each"])}
SOUND |= {*product(["pairwise", "gpate", "triplegan"], ["visits"])}
SOUND |= {("pairwise", "undeclared visits")}
SOUND |= {(twin.synthesizer, twin.table) for twin in TWINS.values()}


@pytest.mark.parametrize(("name", "table"), sorted(SOUND))
def test_every_synthesizer_is_silent(name, table):
    outcomes, shift = outcomes_and_shifts(name, table)
    assert outcomes == {"equal"}
    assert shift > 0.1


@pytest.mark.parametrize("table", ["measured target", "infinite levels"])
def test_a_row_before_all_others_moves_no_more(table):
    """All rows come to lie in other parts then, also those of sums of both signs."""
    assert outcomes_and_shifts("gpate", table, place="first")[0] == {"equal"}


@pytest.mark.parametrize("source", ["csv", "folder", "batches", "dask"])
@pytest.mark.parametrize(
    ("name", "table"), [("independent", "visits"), ("gpate", "one visit each")]
)
def test_a_person_moves_no_more_in_any_source(source, name, table):
    """Its rows stand apart, in several parts of the source."""
    outcomes, shift = outcomes_and_shifts(name, table, source, "first")
    assert outcomes == {"equal"}
    # Three rows move a count of classes by 3, or by sqrt(5) if they are of both.
    assert shift > 0.74


CHOICE = "choice of pairs"
# 26 columns, so 325 pairs, of which 300 are measured at most. At so large an epsilon a
# few rows can afford tables; sensitivities do not depend on it.
_NAMES = [f"c{place}" for place in range(26)]
WIDE = pd.DataFrame(np.random.default_rng(0).random((60, 26)) < 0.5, columns=_NAMES)
OF_WIDE = skdpsynth.MarginalSynthesizer(
    6000.0,
    schema=TableSchema(dict.fromkeys(_NAMES, Boolean()), n_rows=60),
    random_state=0,
)


def test_the_choice_of_pairs_is_replayed():
    """It is in the ledger, and nothing depends on the row but by its sensitivity."""
    found = replay(OF_WIDE, WIDE, rows=["first", "middle"])
    assert {pair.outcome for pair in found.pairs} == {"equal"}
    with small():
        fitted = clone(OF_WIDE).fit(WIDE)
    assert CHOICE in {entry.name for entry in fitted.privacy_report().entries}
