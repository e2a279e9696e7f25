"""Twins of the leaks from a table to a table, each beside a sound control.

They complete `test_ledger.py` and `test_invariants.py`: labels and class shares,
missing values, the order of rows, dtypes, rows without a class, classes without rows,
and plans. Noise and samples of rows are in `test_draws.py`.
"""

from __future__ import annotations

from dataclasses import replace

import joblib
import numpy as np
import pytest
from _instances import INSTANCES, PLAIN_PRIVATE
from _twins import whole
from sklearn.base import clone

from skdpsynth import GPATESynthesizer, IndependentSynthesizer
from skdpsynth.audit import audit_ledger
from skdpsynth.audit._worlds import recorded, replayed
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.preprocessing import _classes, _marginals, _purchase
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

pytestmark = [
    pytest.mark.statistical,  # audits of ledgers; each errs with probability 1e-6
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

PAST = "past all releases"
OTHERS = "the canary changes which releases are made"
LABEL = {"y": Categorical(["u", "v"])}
COUNTS = {"u": 90, "v": 60}
NUMBER = {"a": Continuous(-6, 8, scale="linear", decimals="any")}
LABELLED = TableSchema(LABEL, target="y", class_counts=COUNTS)
UNCOUNTED = TableSchema(NUMBER | LABEL, target="y")
DECLARED = TableSchema(NUMBER | LABEL, target="y", class_counts=COUNTS)
CANARY = {"a": 8.0, "y": "u"}
_real_counts, _real_histogram = _classes.noisy_counts, _marginals.centred_histogram
_real_ranges, _real_levels = _purchase.buy_ranges, _purchase.buy_levels


@pytest.fixture
def table(small_table):
    return small_table[["a", "y"]]


def findings(synthesizer, schema, table, canary):
    ready = clone(synthesizer).set_params(schema=schema)
    return audit_ledger(ready, table, canary).findings


def assert_caught(found, words):
    assert any(words in finding for finding in found), found


# --- Labels, shares and missing values --------------------------------------------


class RealLabels(IndependentSynthesizer):
    """O6, B6: labels are drawn from those of the table."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.labels_ = X["y"].to_numpy()
        return self

    def sample(self, n_samples=1, *, sampling_strategy=None, random_state=None):
        rows = super().sample(n_samples, random_state=random_state)
        drawn = np.random.default_rng(random_state).choice(self.labels_, n_samples)
        return rows.assign(y=drawn)


class ExactShares(IndependentSynthesizer):
    """PATECTGAN: classes are drawn by their shares in the table."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.shares_ = X["y"].value_counts(normalize=True).to_dict()
        return self

    def sample(self, n_samples=1, *, sampling_strategy=None, random_state=None):
        return super().sample(
            n_samples, sampling_strategy=self.shares_, random_state=random_state
        )


@pytest.mark.parametrize("twin", [RealLabels, ExactShares])
def test_real_labels_are_caught(twin, table):
    """Labels are all that they keep beside what was released."""
    assert_caught(findings(twin(), DECLARED, table, CANARY), PAST)
    assert findings(IndependentSynthesizer(), DECLARED, table, CANARY) == ()


def exact_counts(codes, n_bins, reservation):
    """Class counts without noise, charged like noisy ones."""
    _real_counts(codes, n_bins, reservation)
    return np.bincount(whole(codes), minlength=n_bins)


def test_exact_class_counts_are_caught(table, monkeypatch):
    """Labels are declared, and their counts are not: the canary is one more."""
    assert findings(IndependentSynthesizer(), UNCOUNTED, table, CANARY) == ()
    monkeypatch.setattr(_classes, "noisy_counts", exact_counts)
    assert_caught(findings(IndependentSynthesizer(), UNCOUNTED, table, CANARY), PAST)


def exact_flags(table, columns, accountant, **settings):
    """Whether a value is missing is seen, and not bought."""
    frame = whole(table)
    domains = _real_ranges(table, columns, accountant, **settings)
    seen = [bool(frame[column.name].isna().any()) for column in columns]
    return [
        replace(domain, nullable=n) for domain, n in zip(domains, seen, strict=True)
    ]


def exact_missing(codes, n_cells, reservation, weight):
    """The last cell, that of missing values, is counted without noise."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    for j, deviations in enumerate(released.deviations):
        missing = (whole(codes)[:, j] == n_cells[j] - 1).sum()
        deviations[-1] = missing - len(whole(codes)) / n_cells[j]
    return released


@pytest.mark.parametrize(
    ("module", "name", "twin", "words"),
    [
        (_purchase, "buy_ranges", exact_flags, OTHERS),  # a cell for missing values
        (_marginals, "centred_histogram", exact_missing, PAST),
    ],
)
def test_exact_missing_values_are_caught(module, name, twin, words, table, monkeypatch):
    """The canary has the first missing value; or one more, of a declared column."""
    schema, missing = LABELLED, CANARY | {"a": np.nan}
    if twin is exact_missing:
        number = Continuous(-6, 8, scale="linear", nullable=True, decimals="any")
        schema = TableSchema({"a": number} | LABEL, target="y", class_counts=COUNTS)
    assert findings(IndependentSynthesizer(), schema, table, missing) == ()
    monkeypatch.setattr(module, name, twin)
    assert_caught(findings(IndependentSynthesizer(), schema, table, missing), words)


# --- Order, index and dtypes ------------------------------------------------------


def two_fits(synthesizer, first, second):
    """Fit two tables, the second with the releases of the first."""
    with insecure_randomness(7), recorded() as history:
        ours = clone(synthesizer).fit(first)
    with insecure_randomness(7), replayed(history):
        theirs = clone(synthesizer).fit(second)
    return ours, theirs


def order_shows(synthesizer, table):
    """Whether a fitted object knows the order or the index of its rows."""
    other = table.sample(frac=1, random_state=3)
    other.index = [f"row {i}" for i in range(len(other))]
    ours, theirs = two_fits(synthesizer, table, other)
    same = ours.sample(9, random_state=0).equals(theirs.sample(9, random_state=0))
    return not same or joblib.hash(ours) != joblib.hash(theirs)


class KeepsIndex(IndependentSynthesizer):
    """Rows come out under the index that came in."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.index_ = X.index
        return self

    def sample(self, n_samples=1, *, sampling_strategy=None, random_state=None):
        rows = super().sample(n_samples, random_state=random_state)
        return rows.set_axis(self.index_[:n_samples])


def from_the_first_row(table, columns, accountant, **settings):
    """The first row decides where a range begins."""
    frame = whole(table)
    domains = _real_ranges(table, columns, accountant, **settings)
    first = [min(frame[c.name].dropna().iloc[0], 0.0) for c in columns]
    return [
        replace(domain, low=low) for domain, low in zip(domains, first, strict=True)
    ]


def by_first_appearance(table, columns, accountant, **settings):
    """Released categories in the order in which the table has them."""
    frame = whole(table)
    domains = _real_levels(table, columns, accountant, **settings)
    seen = [frame[c.name].drop_duplicates().tolist() for c in columns]
    return [
        replace(domain, levels=tuple(sorted(domain.levels, key=order.index)))
        for domain, order in zip(domains, seen, strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        (None, KeepsIndex),
        ("buy_ranges", from_the_first_row),
        ("buy_levels", by_first_appearance),
    ],
)
def test_the_order_of_rows_is_caught(name, twin, small_table, monkeypatch):
    """The same rows in another order, with another index."""
    schema = TableSchema(LABEL, target="y", class_counts=COUNTS)
    known = IndependentSynthesizer(epsilon=50.0, schema=schema, random_state=0)
    assert not order_shows(known, small_table)
    assert len(clone(known).fit(small_table).schema_.columns["c"].categories) == 3
    if name is None:
        known = twin(**known.get_params())
    else:
        monkeypatch.setattr(_purchase, name, twin)
    assert order_shows(known, small_table)


class DtypesOfValues(IndependentSynthesizer):
    """Floats without fractions become whole numbers."""

    def fit(self, X, y=None):
        return super().fit(X.assign(a=X["a"].convert_dtypes()), y)


def test_dtypes_that_values_choose_are_caught(table):
    """The canary has the first fraction: a few whole numbers need no cell for 0."""
    whole, canary = table.assign(a=table["a"].round()), CANARY | {"a": 0.5}
    assert findings(IndependentSynthesizer(), DECLARED, whole, canary) == ()
    assert_caught(findings(DtypesOfValues(), DECLARED, whole, canary), OTHERS)


# --- Numbers of rows of `fit_resample` --------------------------------------------


class ExactNumber(IndependentSynthesizer):
    """As many rows as came."""

    def fit_resample(self, X, y=None):
        self.fit(X, y)
        return self.sample(len(X)), None


KNOWN = {
    "declared labels": {"schema": UNCOUNTED},
    "found labels": {"target": "y"},
    "no target": {"schema": TableSchema({**NUMBER, **LABEL})},
}


def resampled(cls, settings, table):
    """Give the rows of `fit_resample` for a table and for one row less of it."""
    synthesizer = cls(random_state=0, epsilon=5.0, **settings)
    with insecure_randomness(7), recorded() as history:
        first = len(clone(synthesizer).fit_resample(table)[0])
    with insecure_randomness(7), replayed(history):
        fitted = clone(synthesizer)
        second = len(fitted.fit_resample(table.iloc[1:])[0])
    facts = fitted.schema_
    counts = facts.class_counts
    return first, second, facts.n_rows if counts is None else sum(counts.values())


@pytest.mark.parametrize("known", KNOWN)
def test_the_exact_number_of_rows_is_caught(known, table):
    """As many rows as the noisy counts say: with equal releases equally many."""
    first, second, bought = resampled(IndependentSynthesizer, KNOWN[known], table)
    assert first == second == bought
    assert first not in (len(table), len(table) - 1)  # the noise of the seed is seen
    first, second, _ = resampled(ExactNumber, KNOWN[known], table)
    assert (first, second) == (len(table), len(table) - 1)


def test_no_synthesizer_counts_rows_in_its_own_way():
    """All have the `fit_resample` of the test above."""
    assert {type(s).fit_resample for s in PLAIN_PRIVATE.values()} == {
        BaseSynthesizer.fit_resample
    }


def test_a_numeric_target_is_paid_for_like_any_column(audited, table):
    """One row moves what it may, and nothing past the releases."""
    schema = TableSchema(NUMBER | LABEL, target="a")
    assert findings(audited, schema, table, CANARY) == ()


# --- Rows without a class, and classes without rows -------------------------------


def joins_every_class(rows, position):
    mine = np.isin(rows.members, [position, -1])
    return PrivateRows(rows.units[mine], rows.category_codes[mine], rows.members[mine])


@pytest.mark.parametrize("name", ["independent", "triplegan"])
def test_rows_without_a_label_in_classes_are_caught(name, table, monkeypatch):
    """One such row: it may move its own kind's releases, or none."""
    some = table.assign(y=table["y"].mask(table.index % 3 == 0))
    canary = CANARY | {"y": None}
    assert findings(INSTANCES[name], DECLARED, some, canary) == ()
    monkeypatch.setattr(PrivateRows, "of_class", joins_every_class)
    found = findings(INSTANCES[name], DECLARED, some, canary)
    assert_caught(found, "charged to different rows")


class SkipsEmptyClasses(GPATESynthesizer):
    """A class without rows trains nothing, so nothing is released for it."""

    def _fit(self, rows, facts, plans, accountant, seed):
        some = [len(rows.of_class(c).members) > 0 for c in range(len(plans))]
        plans = [
            plan if filled else replace(plan, n_iter=0)
            for plan, filled in zip(plans, some, strict=True)
        ]
        return super()._fit(rows, facts, plans, accountant, seed)


@pytest.mark.parametrize("schema", [DECLARED, UNCOUNTED], ids=["public", "bought"])
def test_the_only_row_of_a_class_is_like_any_other(audited, schema, table):
    """Counts that are public or bought: a class without rows releases as well."""
    one = table[table["y"] == "u"]
    found = findings(audited, schema, one, CANARY | {"y": "v"})
    assert found == ()


@pytest.mark.parametrize("schema", [DECLARED, UNCOUNTED], ids=["public", "bought"])
def test_classes_without_rows_that_release_nothing_are_caught(schema, table):
    one, canary = table[table["y"] == "u"], CANARY | {"y": "v"}
    twin = SkipsEmptyClasses(init="random", n_iter=3, n_teachers=4)
    assert_caught(findings(twin, schema, one, canary), "canary changes")


# --- Plans ------------------------------------------------------------------------


class PlansByExactCounts(GPATESynthesizer):
    """Steps follow the exact number of rows of the class."""

    def _fit(self, rows, facts, plans, accountant, seed):
        sizes = [len(rows.of_class(c).members) for c in range(len(plans))]
        plans = [
            replace(plan, n_iter=1 + size % 3)
            for plan, size in zip(plans, sizes, strict=True)
        ]
        return super()._fit(rows, facts, plans, accountant, seed)


class PassesTheCap(IndependentSynthesizer):
    """Large noisy counts get more than is left."""

    def _plan_classes(self, labels, counts, n_continuous, n_discrete, mu):
        more = mu * (1.1 if counts.max() > 10 else 1.0)
        return super()._plan_classes(labels, counts, n_continuous, n_discrete, more)


def test_plans_by_exact_counts_are_caught(table):
    settings = {"init": "random", "n_iter": 3, "n_teachers": 4}
    sound = GPATESynthesizer(**settings)
    assert findings(sound, DECLARED, table, CANARY) == ()
    found = findings(PlansByExactCounts(**settings), DECLARED, table, CANARY)
    assert_caught(found, "canary changes")


def test_a_plan_by_noisy_counts_that_passes_the_cap_is_refused(table):
    """The cap is fixed before the counts are bought, and the ledger keeps it."""
    IndependentSynthesizer(schema=UNCOUNTED).fit(table)
    with pytest.raises(BudgetExceededError):
        PassesTheCap(schema=UNCOUNTED).fit(table)
