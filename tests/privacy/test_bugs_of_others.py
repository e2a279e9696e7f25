"""Privacy bugs that other libraries had in 2025 and 2026: none of them is ours.

Each test names the thread that it is about, and has a case with the bug planted, which
the check must catch.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from _dtypes import columns, with_holes
from _releases import (
    differences,
    flow,
    shown,
    watched,
)
from _twins import exact_levels, exact_ranges
from _ways import WAYS, table_of, without_schema
from scipy.stats import beta
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer, TableSchema
from skdpsynth.audit._worlds import SequenceError, compare, enter
from skdpsynth.measure import _discovery
from skdpsynth.privacy import (
    PrivacyAccountant,
    _accountant,
    _aggregators,
    confident_gnmax,
    noisy_pair_distances,
    noisy_votes,
)
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.schema import Continuous
from skdpsynth.table import NumericDomain
from skdpsynth.table._layout import ColumnLayout
from tests.privacy.test_discovery import tail, threshold_in_effect

pytestmark = pytest.mark.usefixtures("short_fits")

bug_or_not = pytest.mark.parametrize("planted", [False, True], ids=["ours", "planted"])
SHORT = ("pairwise", "gpate votes", "dpgan random", "dpcgan sampled", "triplegan dpsgd")


# --- What a selection costs ---------------------------------------------------------


def plurality(accountant, mu, row, n):
    """Confident GNMax between two bins; a row's teacher has voted for either."""
    line = accountant.reserve_gaussian(
        "argmax", mu=mu, sensitivity=math.sqrt(2), count=n
    )
    any_maximum = accountant.reserve_gaussian("max", mu=mu, sensitivity=1, count=n)
    votes = np.tile([50 + row, 51 - row], (n, 1))
    return confident_gnmax(votes, -1e9, any_maximum, line) == 0


def vote(accountant, mu, row, n, noise="gaussian"):
    """A yes or no of 101 teachers."""
    line = accountant.reserve_votes("vote", mu=mu, n_teachers=101, count=n, noise=noise)
    return noisy_votes(np.full(n, 50 + row), 101, line)


def laplace_vote(*arguments):
    return vote(*arguments, noise="laplace")


def better_pair(accountant, mu, row, n):
    """Which of two pairs of columns has the larger noisy distance, and is chosen.

    One release is made; the noise of the others has its size.
    """
    line = accountant.reserve_gaussian("choice", mu=mu, sensitivity=math.sqrt(3))
    codes, expected, seen = np.zeros((49 + row, 3), int), np.full((3, 3), 99), []
    expected[0, 1] = 0
    with observe_releases(seen.append):
        noisy_pair_distances(codes, [1, 1, 1], expected, line)
    noise = np.random.default_rng(row).normal(0, line.noise_std, (n, 2))
    return np.greater(*(seen[0].exact[:2] + np.rint(noise)).T)


@pytest.mark.usefixtures("frozen_noise")
@bug_or_not
@pytest.mark.parametrize("choice", [plurality, vote, laplace_vote, better_pair])
def test_a_noisy_choice_loses_what_it_is_charged(choice, planted):
    """opendp#2911: a noisy maximum that was charged a quarter of its zCDP.

    Of 10^6 choices in each of two worlds, by Clopper and Pearson at 2.5e-7 for each: a
    lower bound on the Renyi divergence of order 2, at most mu^2 by the ledger. The
    noise is frozen; another would be wrong at a rate of at most 5e-7. Planted is a
    charge of a quarter.
    """
    mu, n, counts = 0.15, 10**6, []
    for row in (0, 1):
        accountant = PrivacyAccountant(1e6, 1e-5)
        chosen = choice(accountant, mu * (1 + planted), row, n)
        counts.append(int(chosen.sum()))
    few, many = sorted(counts)
    q, p = beta.isf(2.5e-7, few + 1, n - few), beta.ppf(2.5e-7, many, n - many + 1)
    assert p > q
    renyi = math.log(p * p / q + (1 - p) ** 2 / (1 - q))
    assert (renyi <= mu * mu) != planted


@bug_or_not
def test_delta_has_the_mass_at_the_threshold(planted, monkeypatch):
    """opendp#2922: counts at the threshold are released, and delta leaves them out.

    A key that one row brings has two rows, and needs a noisy count above T, found by
    trying all. The exact sum of the noise from there on is at most delta.
    """
    real = _aggregators.key_threshold
    if planted:
        monkeypatch.setattr(_aggregators, "key_threshold", lambda *a: real(*a) - 1)
    within, exact = [], []
    for mu in (0.4, 0.7, 1.0, 2.0):
        std, threshold = threshold_in_effect(mu, 1e-6, 1, 2)
        within.append(tail(std, threshold + 1 - 2) <= 1e-6)
        exact.append(threshold - real(std, 1e-6, 1, 2))
    assert all(within) != planted
    assert exact == [-planted] * 4


# --- What a row shows beside the releases -------------------------------------------


@pytest.mark.parametrize(
    ("holes", "planted"), [(True, False), (False, False), (False, True)]
)
def test_whether_a_value_is_missing_is_in_the_ledger(holes, planted, monkeypatch):
    """opendp#2935, #2936, #2938, #2939: a coercion makes a null whose count is free.

    A row of missing values in columns of all dtypes at once, some of which cannot hold
    one. Planted is a column that is nullable where it has a missing value.
    """
    table = pd.DataFrame(columns())
    row = table.iloc[-1:].apply(with_holes)
    if holes:
        table = table.apply(with_holes)
    larger = pd.concat([row, table], ignore_index=True)
    assert (larger.dtypes == table.dtypes).all()
    assert row.isna().sum(axis=1).item() > 30
    real = ColumnLayout.of

    def by_values(name, series, *args):
        own = real(name, series, *args)
        return replace(own, can_be_missing=bool(series.isna().any()))

    if planted:
        monkeypatch.setattr(ColumnLayout, "of", by_values)
    synthesizer = IndependentSynthesizer(epsilon=50.0, random_state=0)
    first = enter(synthesizer, table, 3, coupled=True)
    assert first.refusal is None
    second = enter(synthesizer, larger, 3, first.releases, coupled=True)
    shifts, findings = compare(first, second, "a row")
    assert planted or max(shifts) > 0.5
    assert (findings == []) != planted


BOUNDS = [(0, 100), (-100, 0), (-100, -50), (-1e-9, 1e12), (-1e12, -1), (0, 1e-300)]


@pytest.mark.parametrize(
    ("way", "bounds", "planted"),
    [
        *(("moments", bounds, False) for bounds in BOUNDS),
        *(("pairwise", bounds, False) for bounds in BOUNDS[:4:3]),
        *((way, BOUNDS[0], True) for way in ("moments", "pairwise")),
    ],
)
def test_noise_is_that_of_the_largest_move(way, bounds, planted, monkeypatch):
    """IBM's differential-privacy-library#105: a sensitivity from the lower bound twice.

    By brute force: with the releases frozen, no row at an end, in the middle, outside
    or missing moves a statistic by more than ``mu sqrt(std^2 - 4)``, and some move one
    by half of that. Planted is the noise of a sensitivity of nearly 0.
    """
    real, (low, high) = _accountant.grid_noise_std, bounds
    if planted:
        monkeypatch.setattr(_accountant, "grid_noise_std", lambda mu, s: real(mu, 1e-9))
    table, known = table_of(way), WAYS[way].schema
    unit = (table[["a", "b"]] - table[["a", "b"]].min()) / 14.0
    table = table.assign(**(low + unit * (float(high) - low)))
    own = dict.fromkeys("ab", Continuous(low, high, nullable=True, decimals="any"))
    schema = TableSchema(
        known.columns | own,
        target=known.target,
        n_rows=known.n_rows,
        class_counts=known.class_counts,
    )
    fit = clone(WAYS[way]).set_params(schema=schema)
    _, before = watched(fit, table, secrets=2)
    used = []
    for value in (low, high, (low + high) / 2, 1e300, np.nan):
        row = pd.DataFrame({"a": [value], "b": [value], "c": ["p"], "y": ["u"]})
        _, after = watched(fit, pd.concat([row, table]), history=before, secrets=2)
        for ours, theirs in zip(before, after, strict=True):
            if ours.release.keys is None:
                moved = (ours.release.exact - theirs.release.exact).astype(float)
                covered = ours.line.mu * math.sqrt(max(ours.line.noise_std**2 - 4, 0))
                used.append(float(np.linalg.norm(moved)) / covered)
    assert max(used) > 0.5
    assert (max(used) <= 1 + 1e-9) != planted


@bug_or_not
@pytest.mark.parametrize("way", ["pairwise", "gpate random", "dpgan random"])
def test_a_value_outside_is_clipped_before_it_is_used(way, planted, monkeypatch):
    """smartnoise-sdk#621, #622: data were clipped, and the raw ones were used.

    Rows of 10^12 and of an undeclared category, against rows just outside and another
    category: every exact statistic is the same, and so is the fit. Planted are ranks
    of the raw values, which wrap as codes do.
    """
    table = table_of(way)
    just, far = (table.assign(a=table["a"] * 1.0) for _ in range(2))
    just.loc[::100, ["a", "b", "c"]] = 8.5, -6.5, "another"
    far.loc[::100, ["a", "b", "c"]] = 1.23e12, -1.23e12, "elsewhere"

    def raw(self, values):
        return (values - self.low) / (self.high - self.low) % 1.0

    if planted:
        monkeypatch.setattr(NumericDomain, "to_unit", raw)
    first, ours = watched(WAYS[way], just, secrets=5)
    second, theirs = watched(WAYS[way], far, history=ours, secrets=5)
    different = [
        own.name
        for own, other in zip(ours, theirs, strict=True)
        if not np.array_equal(own.release.exact, other.release.exact)
    ]
    different += differences(shown(first), shown(second))
    assert (different == []) != planted


@pytest.mark.parametrize("name", [None, "discover_ranges", "discover_categories"])
@pytest.mark.parametrize("way", ["independent", "pairwise", "gpate factors"])
def test_domains_come_from_releases_where_nothing_is_declared(way, name, monkeypatch):
    """dpmm#18, #24: the domain of a column was its maximum, its categories were raw.

    A table of other extremes and a further category, with the releases of the first,
    gives the same fit. Planted are ranges, or categories, of the data.
    """
    table = table_of(way).dropna()
    other = table.copy()
    other.loc[other.index[1::20], ["a", "b", "c"]] = 900.0, -900.0, "new"
    if name is not None:
        twin = {"discover_ranges": exact_ranges, "discover_categories": exact_levels}
        monkeypatch.setattr(_discovery, name, twin[name])
    try:
        found = flow(without_schema(WAYS[way]), table, other)
    except SequenceError:  # other releases are made
        found = ["releases"]
    assert (found == []) == (name is None)
