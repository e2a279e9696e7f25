"""Twins of the leaks from a table to a table, each beside a sound control.

They complete `test_ledger.py` and `test_invariants.py`: labels and class shares,
missing values, keys, the order of rows, dtypes, counts less their mean, 2-way
marginals, rows without a class, classes without rows, and plans. Noise and samples of
rows are in `test_draws.py`.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES, PLAIN_PRIVATE
from _twins import assert_caught, audit_of, whole
from sklearn.base import clone

from skdpsynth import (
    GPATESynthesizer,
    IndependentSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.audit._worlds import recorded, replayed
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import BudgetExceededError, ReservationError
from skdpsynth.measure import TableBins, _discovery, _marginals, _tables
from skdpsynth.privacy import _aggregators, _mechanisms
from skdpsynth.privacy import _tables as _mechanisms_of_tables
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema
from skdpsynth.table import PrivateRows, _domains, _layout

pytestmark = pytest.mark.statistical  # each audit errs with probability 1e-6

PAST, MOVED = "past all releases", "times its sensitivity"
NOISE, OTHERS = "the noise is", "the canary changes"
RELEASES = "the canary changes which releases are made"
SCOPES = "charged to different rows"
LABEL = {"y": Categorical(["u", "v"])}
COUNTS = {"u": 90, "v": 60}
NUMBER = {"a": Continuous(-6, 8, scale="linear", decimals="any")}
LABELLED = TableSchema(LABEL, target="y", class_counts=COUNTS)
UNCOUNTED = TableSchema(NUMBER | LABEL, target="y")
DECLARED = TableSchema(NUMBER | LABEL, target="y", class_counts=COUNTS)
CELLS = {
    "a": Continuous(-6, 8, scale="linear"),
    "b": Continuous(-6, 6, scale="linear"),
    "c": Categorical(["p", "q", "r"]),
    "f": Boolean(),
}
COUNTED = TableSchema(CELLS | LABEL, target="y", class_counts=COUNTS)
NOT_COUNTED = TableSchema(CELLS | LABEL, target="y")
BOTH, EITHER = (
    pytest.mark.parametrize("schema", pair, ids=["public", "noisy"])
    for pair in ([DECLARED, UNCOUNTED], [COUNTED, NOT_COUNTED])
)
CANARY = {"a": 8.0, "y": "u"}
INDEPENDENT = IndependentSynthesizer()
_real_counts, _real_histogram = _discovery.noisy_counts, _marginals.centred_histogram
_real_ranges, _real_levels = _discovery.discover_ranges, _discovery.discover_categories


@pytest.fixture
def table(small_table):
    return small_table[["a", "y"]]


def findings(synthesizer, schema, table, canary):
    return audit_of(synthesizer, table, canary, schema).findings


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
    assert_caught(audit_of(twin(), table, CANARY, DECLARED), PAST)
    assert findings(INDEPENDENT, DECLARED, table, CANARY) == ()


def exact_counts(codes, n_bins, reservation):
    """Class counts without noise, charged like noisy ones."""
    _real_counts(codes, n_bins, reservation)
    return np.bincount(whole(codes), minlength=n_bins)


def exact_flags(table, columns, accountant, **settings):
    """Whether a value is missing is read off the table, and not released."""
    frame = whole(table)
    domains = _real_ranges(table, columns, accountant, **settings)
    pairs = zip(domains, columns, strict=True)
    return [replace(d, nullable=bool(frame[c.name].isna().any())) for d, c in pairs]


def exact_missing(codes, n_cells, reservation, weight):
    """The last cell, that of missing values, is counted without noise."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    for j, deviations in enumerate(released.deviations):
        missing = (whole(codes)[:, j] == n_cells[j] - 1).sum()
        deviations[-1] = missing - len(whole(codes)) / n_cells[j]
    return released


HOLED = {"a": Continuous(-6, 8, scale="linear", nullable=True, decimals="any")}
MISSING = CANARY | {"a": np.nan}


def caught(module, name, twin, schema, table, canary, words, monkeypatch):
    """Expect nothing of the sound code, and these words of the twin."""
    assert findings(INDEPENDENT, schema, table, canary) == ()
    monkeypatch.setattr(module, name, twin)
    assert_caught(audit_of(INDEPENDENT, table, canary, schema), words)


def test_exact_class_counts_are_caught(table, monkeypatch):
    """Labels are declared, and their counts are not: the canary is one more.

    Here it gives its class another bin.
    """
    twin = _discovery, "noisy_counts", exact_counts
    caught(*twin, UNCOUNTED, table, CANARY, RELEASES, monkeypatch)


DECLARED_HOLES = TableSchema(HOLED | LABEL, target="y", class_counts=COUNTS)


@pytest.mark.parametrize(
    ("module", "name", "twin", "schema", "words"),
    [
        # A cell for missing values.
        (_discovery, "discover_ranges", exact_flags, LABELLED, RELEASES),
        (_marginals, "centred_histogram", exact_missing, DECLARED_HOLES, PAST),
    ],
)
def test_exact_missing_values_are_caught(
    module, name, twin, schema, words, table, monkeypatch
):
    """The canary has the first missing value; or one more, of a declared column."""
    caught(module, name, twin, schema, table, MISSING, words, monkeypatch)


# --- Keys -------------------------------------------------------------------------
# Twins of the holes between a value and its key, which 0.1.0 had. The audit adds its
# canary at the end, and the hash tables of pandas keep what they saw first: so the
# twins read a column from its end.

TEA, SPELT = "a\ud800", "'a\\ud800'"  # the second spells the first, as `repr` does


class Named(str):
    """A text that carries something."""

    __slots__ = ("luggage",)


def by_pandas(series):
    """The keys of 0.1.0, of a column that is read from its end."""
    codes, uniques = pd.factorize(series[::-1])
    keys = uniques.tolist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.append(np.argsort(order), -1)
    return ranks[codes][::-1], [keys[position] for position in order]


def texts(values):
    numbers = np.arange(len(values)) % 10.0
    return pd.DataFrame({"c": pd.Series(values, dtype=object), "n": numbers})


def findings_of_texts(table, canary, declared=None):
    described = {} if declared is None else {"c": Categorical(declared)}
    columns = {"n": Continuous(0, 9, scale="linear")} | described
    schema = TableSchema(columns, n_rows=len(table))
    return " ".join(findings(IndependentSynthesizer(8.0), schema, table, canary))


@pytest.mark.parametrize("declared", [None, [TEA, "coffee"]], ids=["found", "public"])
def test_a_row_that_renames_a_category_is_caught(declared, monkeypatch):
    """The rule is in `table/test_keys.py`; this is what breaking it does."""
    table, canary = texts([TEA, "coffee"] * 60), {"c": SPELT, "n": 9.0}
    assert findings_of_texts(table, canary, declared) == ""
    monkeypatch.setattr(_domains, "factorize", by_pandas)
    found = findings_of_texts(table, canary, declared)
    assert MOVED in found or PAST in found


def test_a_kept_subclass_is_caught(monkeypatch):
    """What is attached to a text of one row is in the fitted object of the twin.

    A key of another type is another key, so the audit sees it in the releases.
    """
    secret = Named("tea")
    secret.luggage = "the canary's"
    table, canary = texts(["tea", "coffee"] * 60), texts([secret])
    assert findings_of_texts(table, canary) == ""
    monkeypatch.setattr(_domains, "factorize", by_pandas)
    monkeypatch.setattr(_layout, "factorize", by_pandas)
    assert RELEASES in findings_of_texts(table, canary)


def only_what_pandas_sees(series):
    return series.isna().to_numpy(dtype=bool, copy=True)


def test_an_unseen_nan_is_caught(monkeypatch):
    """It ended the fit with an error of its own, after the charge."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=121) for _ in range(2)]
    values[0][-1] = np.nan
    label = np.where(np.arange(121) % 4 == 1, None, np.arange(121) % 2)
    full = pd.DataFrame(
        {
            "n": pd.arrays.FloatingArray(values[0], np.zeros(121, dtype=bool)),
            "m": values[1],
            "y": pd.array(label, dtype="Int64"),
        }
    )
    numbers = {"n": Continuous(-4, 4), "m": Continuous(-4, 4)}
    schema = TableSchema(
        numbers | {"y": Categorical([0, 1], nullable=True)}, target="y"
    )
    synth = PATETripleGANSynthesizer(8.0, n_iter=2, batch_size=16)
    case = synth, schema, full.iloc[:-1], full.iloc[-1:]
    assert findings(*case) == ()
    monkeypatch.setattr(_layout, "is_missing", only_what_pandas_sees)
    with np.errstate(invalid="ignore"):
        (finding,) = findings(*case)
    assert finding == "the canary decides whether there is an error, or which."


# --- Order, index and dtypes ------------------------------------------------------


def two_fits(call, first, second):
    """Call two fits, the second with the releases of the first."""
    with insecure_randomness(7), recorded() as history:
        ours = call(first)
    with insecure_randomness(7), replayed(history):
        return ours, call(second)


def order_shows(synthesizer, table):
    """Whether a fitted object knows the order or the index of its rows."""
    other = table.sample(frac=1, random_state=3)
    other.index = [f"row {i}" for i in range(len(other))]
    ours, theirs = two_fits(lambda rows: clone(synthesizer).fit(rows), table, other)
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
    return [replace(d, low=low) for d, low in zip(domains, first, strict=True)]


def by_first_appearance(table, columns, accountant, **settings):
    """Released categories in the order in which the table has them."""
    frame = whole(table)
    domains = _real_levels(table, columns, accountant, **settings)
    found = [frame[c.name].drop_duplicates().tolist() for c in columns]
    return [
        replace(domain, categories=tuple(sorted(domain.categories, key=order.index)))
        for domain, order in zip(domains, found, strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        (None, KeepsIndex),
        ("discover_ranges", from_the_first_row),
        ("discover_categories", by_first_appearance),
    ],
)
def test_the_order_of_rows_is_caught(name, twin, small_table, monkeypatch):
    """The same rows in another order, with another index."""
    known = IndependentSynthesizer(epsilon=50.0, schema=LABELLED, random_state=0)
    assert not order_shows(known, small_table)
    assert len(clone(known).fit(small_table).schema_.columns["c"].categories) == 3
    if name is None:
        known = twin(**known.get_params())
    else:
        monkeypatch.setattr(_discovery, name, twin)
    assert order_shows(known, small_table)


class DtypesOfValues(IndependentSynthesizer):
    """Floats without fractions become whole numbers."""

    def fit(self, X, y=None):
        return super().fit(X.assign(a=X["a"].convert_dtypes()), y)


def test_dtypes_that_values_choose_are_caught(table):
    """The canary has the first fraction: a few whole numbers need no cell for 0."""
    case = table.assign(a=table["a"].round()), CANARY | {"a": 0.5}, DECLARED
    assert audit_of(INDEPENDENT, *case).findings == ()
    assert_caught(audit_of(DtypesOfValues(), *case), RELEASES)


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
    made = cls(random_state=0, epsilon=5.0, **settings)
    both = two_fits(lambda rows: len(made.fit_resample(rows)[0]), table, table.iloc[1:])
    counts = made.schema_.class_counts
    return *both, made.schema_.n_rows if counts is None else sum(counts.values())


@pytest.mark.parametrize("known", KNOWN)
def test_the_exact_number_of_rows_is_caught(known, table):
    """As many rows as the noisy counts say: with equal releases equally many."""
    first, second, released = resampled(IndependentSynthesizer, KNOWN[known], table)
    assert first == second == released
    assert first not in (len(table), len(table) - 1)  # the noise of the seed is seen
    first, second, _ = resampled(ExactNumber, KNOWN[known], table)
    assert (first, second) == (len(table), len(table) - 1)


def test_no_synthesizer_counts_rows_in_its_own_way():
    """All have the `fit_resample` of the test above."""
    assert {type(s).fit_resample for s in PLAIN_PRIVATE.values()} == {
        BaseSynthesizer.fit_resample
    }


def test_a_numeric_target_is_charged_like_any_column(audited, table):
    """One row moves what it may, and nothing past the releases."""
    schema = TableSchema(NUMBER | LABEL, target="a")
    assert findings(audited, schema, table, CANARY) == ()


# --- Rows without a class, and classes without rows -------------------------------


def joins_every_class(rows, *positions):
    """Rows without a label are in every class."""
    mine = np.isin(rows.class_codes, [*positions, -1])
    return PrivateRows(
        rows.uniforms[mine], rows.category_codes[mine], rows.class_codes[mine]
    )


@pytest.mark.parametrize("name", ["independent", "triplegan", "pairwise rich"])
def test_rows_without_a_label_in_classes_are_caught(name, small_table, monkeypatch):
    """One such row: it may move its own kind's releases, or none."""
    made, columns = INSTANCES[name], [["a", "y"], ["a", "b", "y"]]
    some = small_table[columns[name == "pairwise rich"]]
    some = some.assign(y=some["y"].mask(some.index % 3 == 0))
    canary = dict.fromkeys(some, 5.0) | {"y": None}
    schema = TableSchema(
        dict.fromkeys(some, NUMBER["a"]) | LABEL,
        target="y",
        class_counts=COUNTS,
    )
    assert findings(made, schema, some, canary) == ()
    monkeypatch.setattr(PrivateRows, "of_class", joins_every_class)
    assert_caught(audit_of(made, some, canary, schema), SCOPES)


class SkipsEmptyClasses(GPATESynthesizer):
    """A class without rows trains nothing, so nothing is released for it."""

    def _fit(self, rows, metadata, plans, accountant, seed):
        plans = [
            plan if len(rows.of_class(c).class_codes) else replace(plan, training=None)
            for c, plan in enumerate(plans)
        ]
        return super()._fit(rows, metadata, plans, accountant, seed)


@BOTH
def test_the_only_row_of_a_class_is_like_any_other(audited, schema, table):
    """Counts that are public or noisy: a class without rows releases as well."""
    one = table[table["y"] == "u"]
    assert findings(audited, schema, one, CANARY | {"y": "v"}) == ()


@BOTH
def test_classes_without_rows_that_release_nothing_are_caught(schema, table):
    one, canary = table[table["y"] == "u"], CANARY | {"y": "v"}
    twin = SkipsEmptyClasses(init="random", n_iter=3, n_teachers=4)
    assert_caught(audit_of(twin, one, canary, schema), OTHERS)


# --- Plans ------------------------------------------------------------------------


def with_steps(plan, n_iter):
    return replace(plan, training=replace(plan.training, n_iter=n_iter))


class PlansByExactCounts(GPATESynthesizer):
    """Steps follow the exact number of rows of the class."""

    def _fit(self, rows, metadata, plans, accountant, seed):
        plans = [
            with_steps(plan, 1 + len(rows.of_class(c).class_codes) % 3)
            for c, plan in enumerate(plans)
        ]
        return super()._fit(rows, metadata, plans, accountant, seed)


class PassesTheCap(IndependentSynthesizer):
    """Large noisy counts get more than is left."""

    def _plan_classes(self, labels, counts, n_continuous, n_discrete, mu):
        more = mu * (1.1 if counts.max() > 10 else 1.0)
        return super()._plan_classes(labels, counts, n_continuous, n_discrete, more)


def test_plans_by_exact_counts_are_caught(table):
    settings = {"init": "random", "n_iter": 3, "n_teachers": 4}
    assert findings(GPATESynthesizer(**settings), DECLARED, table, CANARY) == ()
    twin = PlansByExactCounts(**settings)
    assert_caught(audit_of(twin, table, CANARY, DECLARED), OTHERS)


def test_a_plan_by_noisy_counts_that_passes_the_cap_is_refused(table):
    """The cap is fixed before the counts are released, and the ledger keeps it."""
    IndependentSynthesizer(schema=UNCOUNTED).fit(table)
    with pytest.raises(BudgetExceededError):
        PassesTheCap(schema=UNCOUNTED).fit(table)


# --- Counts less their mean -------------------------------------------------------
# One row moves them by less than 1 in each column, and what makes it so can be lost:
# the mean, the entry of rows in no cell, the weight of the number of rows.

IN_A_CELL = {"a": 8.0, "b": -6.0, "c": "r", "f": True, "y": "u"}
# Missing where no missing value is declared, and a category that is not.
IN_NO_CELL = IN_A_CELL | {"a": np.nan, "b": np.nan, "c": "never seen"}
_real_numbers = _aggregators.centred_numbers


@pytest.fixture
def cells(small_table):
    rows = np.arange(len(small_table))
    return small_table.assign(b=small_table["b"].fillna(0.0), f=rows % 3 == 0)


@EITHER
@pytest.mark.parametrize("canary", [IN_A_CELL, IN_NO_CELL], ids=["cell", "none"])
@pytest.mark.parametrize(
    "synthesizer",
    [INDEPENDENT, GPATESynthesizer(n_iter=2, n_teachers=6)],
    ids=["independent", "gpate"],
)
def test_centred_counts_are_sound(synthesizer, canary, schema, cells):
    """A row in a cell of all columns moves all of the sensitivity, or all but 1e-5."""
    found = audit_of(synthesizer, cells, canary, schema)
    assert found.findings == ()
    for line in found.lines:
        if "marginals" in line.name:
            wanted = 1.0 if line.scope == "class u" else 0.0
            assert line.shift == pytest.approx(wanted, abs=1e-5)


def uncentred(counts, n_rows, weight):
    """The counts as they are, on the grid and with the noise of centred ones.

    Of 4 columns with 3 to 12 cells: 1.2 times what was reserved.
    """
    plain = np.concatenate([_aggregators.GRID * column for column in counts])
    return np.concatenate([plain, _real_numbers([], n_rows, weight)])


def heavier_size(counts, n_rows, weight):
    """The number of rows weighs as much as a column, charged as little as it should."""
    numbers = _real_numbers(counts, n_rows, weight)
    numbers[-1] = _aggregators.GRID * n_rows
    return numbers


@pytest.mark.parametrize("twin", [uncentred, heavier_size])
def test_centred_counts_that_move_too_far_are_caught(twin, cells, monkeypatch):
    monkeypatch.setattr(_aggregators, "centred_numbers", twin)
    found = audit_of(INDEPENDENT, cells, IN_A_CELL, COUNTED)
    assert_caught(found, MOVED)
    assert twin is heavier_size or 1.1 < max(line.shift for line in found.lines) < 1.4


@EITHER
def test_full_entries_of_rows_in_no_cell_are_caught(schema, cells, monkeypatch):
    """A missing value and a new category: 1 each, where others move 1 - 1/B."""
    twin = _aggregators, "_apart_entry", lambda n_cells: _aggregators.GRID
    caught(*twin, schema, cells, IN_NO_CELL, MOVED, monkeypatch)
    # It must be such a row.
    assert findings(INDEPENDENT, schema, cells, IN_A_CELL) == ()


def exact_size(codes, n_cells, reservation, weight):
    """Counts are read with the exact number of rows, charged like the noisy one."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    return replace(released, size=float(len(whole(codes))), size_std=1e-9)


def exact_apart(codes, n_cells, reservation, weight):
    """The rows in no cell are subtracted as they are."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    outside = (whole(codes) == np.array(n_cells)).sum(axis=0)
    return replace(released, apart=outside / 1.0, apart_stds=np.zeros(len(n_cells)))


@pytest.mark.parametrize(
    ("twin", "schema", "canary"),
    [
        (exact_size, COUNTED, IN_A_CELL),
        (exact_size, NOT_COUNTED, IN_A_CELL),
        (exact_apart, COUNTED, IN_NO_CELL),
    ],
)
def test_exact_totals_are_caught(twin, schema, canary, cells, monkeypatch):
    """No number that is released has moved; the marginals have."""
    monkeypatch.setattr(_marginals, "centred_histogram", twin)
    assert_caught(audit_of(INDEPENDENT, cells, canary, schema), PAST)


# --- 2-way marginals --------------------------------------------------------------
# What is counted, what it is charged, and what decides it can each go wrong: noise, the
# number of tables, bins and choices from private counts, rows in two classes.

RICH = INSTANCES["pairwise rich"]
_real_tables, _real_distances = _tables.noisy_pair_tables, _tables.noisy_pair_distances
_real_encode, _real_integers = TableBins.encode, _mechanisms._noisy_integers


@pytest.fixture(params=["all pairs", "chosen pairs"])
def choosing(request, monkeypatch):
    """Three columns: all of their pairs, or those of them that a choice finds."""
    if request.param == "chosen pairs":
        monkeypatch.setattr(_tables, "MOST_TABLES", 2)
    return request.param == "chosen pairs"


def lines_of(found, words):
    return [line for line in found.lines if words in line.name]


def test_pair_tables_are_sound(choosing, case):
    """A row moves E tables by sqrt(E), all of the sensitivity, in its class and in all.

    Missing and unknown values are in a cell: such a row moves as much, and no more.
    """
    table, canary, schema = case
    odd = canary | {"a": np.nan, "b": np.nan, "c": "never seen"}
    for row in (canary, odd):
        found = audit_of(RICH, table, row, schema)
        assert found.findings == ()
        tables = lines_of(found, "of 2 columns")
        shifts = {line.scope: line.shift for line in tables}
        whole = pytest.approx(1.0)
        assert shifts == {"all rows": whole, "class u": whole, "class v": 0.0}
        choices = lines_of(found, "choice of pairs")
        assert [line.scope for line in choices] == ["all rows"] * choosing
        for line in choices:
            assert line.shift <= 1 + 1e-9
            assert row is odd or line.shift > 0


def weaker(factor, values, reservation, *others):
    """Less noise on the pair tables and their choice, and on nothing else."""
    noisy = _real_integers(values, reservation, *others)
    if not {"columns", "pairs"} & set(re.split("[ ,]", reservation.name)):
        return noisy
    return values + np.rint(factor * (noisy - values)).astype(np.int64)


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_less_noise_is_caught(factor, choosing, case, monkeypatch):
    """Of 64 cells and more half of the noise has probability 1e-9 at most."""
    monkeypatch.setattr(_mechanisms, "_noisy_integers", partial(weaker, factor))
    monkeypatch.setattr(_tables, "_LEAST_BINS", 16)
    found = audit_of(RICH, *case)
    assert any(NOISE in f and "of 2 columns" in f for f in found.findings), (
        found.findings
    )


def mean_of_two(*release):
    """Each table released twice under one reservation, and averaged."""
    first = _real_tables(*release)
    return (first + _real_tables(*release)) // 2


def test_a_table_is_not_released_twice(case, monkeypatch):
    monkeypatch.setattr(_tables, "noisy_pair_tables", mean_of_two)
    with pytest.raises(ReservationError, match="left"):
        audit_of(RICH, *case)


def unseen_second(values, reservation, *others):
    """The same below the ledger: two draws, of which one is charged."""
    first = _real_integers(values, reservation, *others)
    if "of 2 columns" not in reservation.name:
        return first
    return (first + _real_integers(values, reservation, *others)) // 2


def test_a_second_draw_below_the_ledger_is_caught(case, monkeypatch):
    """0.71 of the noise: thousands of cells show it, as many rows are declared."""
    table, canary, schema = case
    many = {"u": 3000, "v": 3000}
    many = TableSchema(schema.columns, target="y", class_counts=many)
    assert audit_of(RICH, table, canary, many).findings == ()
    monkeypatch.setattr(_mechanisms, "_noisy_integers", unseen_second)
    assert_caught(audit_of(RICH, table, canary, many), NOISE)


@pytest.fixture
def for_one_table(monkeypatch):
    """Reserve for a row in one table, however many there are."""
    real = math.sqrt

    class OneTable:
        pi = math.pi
        inf, comb = math.inf, math.comb

        @staticmethod
        def sqrt(value):
            return 1.0 if isinstance(value, int) and value > 1 else real(value)

    monkeypatch.setattr(_tables, "math", OneTable)


def test_the_sensitivity_of_one_table_is_refused(for_one_table, case):
    with pytest.raises(ReservationError, match="sensitivity"):
        audit_of(RICH, *case)


def test_the_sensitivity_of_one_table_is_caught_without_the_check(
    for_one_table, case, monkeypatch
):
    """A row moves three tables by sqrt(3)."""
    monkeypatch.setattr(_mechanisms_of_tables, "require_sensitivity", lambda *_: None)
    found = audit_of(RICH, *case)
    assert_caught(found, MOVED)
    assert max(line.shift for line in found.lines) == pytest.approx(math.sqrt(3))


def in_two_bins(self, rows):
    """Rows stand once in their bin and once in the last one of each column."""
    codes = _real_encode(self, rows)
    return np.concatenate([codes, np.tile(np.array(self.sizes) - 1, (len(codes), 1))])


def bins_at_true_quantiles(self, rows):
    """Rows are binned at their own quantiles, which a row moves, and others with them.

    They should be binned at released ones.
    """
    columns = []
    for j, column in enumerate(self.columns):
        if len(column.edges) > 2:
            inner = np.quantile(
                rows.uniforms[:, j], np.linspace(0, 1, len(column.edges))
            )
            edges = np.concatenate(([0.0], inner[1:-1], [1.0]))
            column = replace(column, edges=edges)
        columns.append(column)
    return _real_encode(TableBins(columns), rows)


@pytest.mark.parametrize("twin", [in_two_bins, bins_at_true_quantiles])
def test_rows_in_other_bins_are_caught(twin, case, monkeypatch):
    monkeypatch.setattr(TableBins, "encode", twin)
    assert_caught(audit_of(RICH, *case), MOVED)


def test_kept_bins_from_true_counts_are_caught(case, monkeypatch):
    """The last edge is the largest value, which the canary has: the model shows it."""
    kept, real_fit, real_bins = [], type(RICH)._fit, _tables.bins_of_numbers

    def fit(self, rows, *others):
        kept[:] = [rows]
        return real_fit(self, rows, *others)

    def at_the_largest(domain, marginals, prior, n_bins):
        found = real_bins(domain, marginals, prior, n_bins)
        largest = float(kept[0].uniforms.max()) * 0.999
        inner = np.append(found.edges[1:-2], largest)
        edges = np.concatenate(([0.0], np.sort(inner), [1.0]))
        return replace(found, edges=edges)

    monkeypatch.setattr(type(RICH), "_fit", fit)
    monkeypatch.setattr(_tables, "bins_of_numbers", at_the_largest)
    table, canary, schema = case
    no_zero = table.assign(a=table["a"].clip(-3, 3), b=1.0)
    assert_caught(audit_of(RICH, no_zero, canary, schema), PAST)


def exact_distances(codes, n_bins, expected, reservation):
    """Choose by exact distances, charged like noisy ones."""
    _real_distances(codes, n_bins, expected, reservation)
    off = np.abs(_mechanisms_of_tables.exact_pair_counts(codes, n_bins) - expected)
    starts = np.cumsum(n_bins)[:-1]
    rows = np.split(off, starts, axis=0)
    blocks = [[part.sum() for part in np.split(row, starts, axis=1)] for row in rows]
    return np.array(blocks)[np.triu_indices(len(n_bins), 1)]


def the_first_one_by_parity(distances, noise, first):
    """Of two choices the one that the last bit of a distance says."""
    return np.array([int(distances[0]) % 2])


def to_true_marginals(codes, n_bins, expected, reservation):
    """What is expected follows the rows: one more moves many cells of it."""
    shares = np.diag(_mechanisms_of_tables.exact_pair_counts(codes, n_bins))
    own = 40 * np.outer(shares, shares) // max(shares.sum() // len(n_bins), 1)
    return _real_distances(codes, n_bins, own, reservation)


@pytest.fixture
def chosen(monkeypatch):
    """A choice between two pairs."""
    monkeypatch.setattr(_tables, "MOST_TABLES", 2)


def test_choices_by_exact_distances_are_caught(chosen, case, monkeypatch):
    """The choice is so sensitive that one row turns it round."""
    monkeypatch.setattr(_tables, "_worth", the_first_one_by_parity)
    assert audit_of(RICH, *case).findings == ()
    monkeypatch.setattr(_tables, "noisy_pair_distances", exact_distances)
    assert_caught(audit_of(RICH, *case), OTHERS)


def test_distances_to_true_counts_are_caught(chosen, case, monkeypatch):
    monkeypatch.setattr(_tables, "noisy_pair_distances", to_true_marginals)
    assert_caught(audit_of(RICH, *case), MOVED)


def exact_tables(codes, n_bins, pairs, reservation, scale):
    """Tables without noise, charged like noisy ones."""
    released = _real_tables(codes, n_bins, pairs, reservation, scale)
    counts = scale * _mechanisms_of_tables.exact_pair_counts(codes, n_bins)
    return np.where(
        _mechanisms_of_tables.measured_cells(n_bins, pairs), counts, 0 * released
    )


def test_tables_without_noise_are_caught(choosing, case, monkeypatch):
    """No release shows it; the generator that is kept does."""
    monkeypatch.setattr(_tables, "noisy_pair_tables", exact_tables)
    assert_caught(audit_of(RICH, *case), PAST)
