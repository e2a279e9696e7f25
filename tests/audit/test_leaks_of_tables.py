"""Twins of the leaks from a table to a table, each beside a sound control.

They complete `test_ledger.py`: labels and class shares, missing values, dtypes,
counts less their mean, rows without a class, classes without rows, and plans. Pair
tables and their choice are in `test_replays.py` and `tests/synthesizers`.
"""

from __future__ import annotations

import numpy as np
import pytest
from _instances import INSTANCES, PLAIN_PRIVATE
from _twins import assert_caught, audit_of, whole

from skdpsynth import GPATESynthesizer, IndependentSynthesizer
from skdpsynth.audit._worlds import recorded, replayed
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import BudgetExceededError

# Where the twins are planted: between what is measured and how it is released.
from skdpsynth.measure import _discovery, _query
from skdpsynth.privacy import _aggregators
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema
from skdpsynth.table import PrivateRows

pytestmark = pytest.mark.statistical  # each audit errs with probability 1e-6

PAST, MOVED = "past all releases", "times its sensitivity"
RELEASES = "the canary changes which releases are made"
SCOPES = "charged to different rows"
LABEL = {"y": Categorical(["u", "v"])}
NUMBER = {"a": Continuous(-6, 8, scale="linear", decimals="any")}
HOLED = {"a": Continuous(-6, 8, scale="linear", nullable=True, decimals="any")}
CELLS = {
    "a": Continuous(-6, 8, scale="linear"),
    "b": Continuous(-6, 6, scale="linear"),
    "c": Categorical(["p", "q", "r"]),
    "f": Boolean(),
}


def schema_of(columns, counts=True):
    """A schema of two classes, whose rows are counted in public or by noise."""
    public = {"u": 90, "v": 60} if counts else None
    return TableSchema(columns | LABEL, target="y", class_counts=public)


DECLARED, UNCOUNTED = schema_of(NUMBER), schema_of(NUMBER, counts=False)
COUNTED, NOT_COUNTED = schema_of(CELLS), schema_of(CELLS, counts=False)
CANARY = {"a": 8.0, "y": "u"}
MISSING = CANARY | {"a": np.nan}
IN_A_CELL = {"a": 8.0, "b": -6.0, "c": "r", "f": True, "y": "u"}
# Missing where no missing value is declared, and a category that is not.
IN_NO_CELL = IN_A_CELL | {"a": np.nan, "b": np.nan, "c": "never seen"}
INDEPENDENT = IndependentSynthesizer()


@pytest.fixture
def cells(small_table):
    """The table with a column of every kind, all of them full."""
    rows = np.arange(len(small_table))
    return small_table.assign(b=small_table["b"].fillna(0.0), f=rows % 3 == 0)


@pytest.fixture
def table(small_table):
    return small_table[["a", "y"]]


def findings(synthesizer, schema, table, canary):
    return audit_of(synthesizer, table, canary, schema).findings


# --- Broken code ------------------------------------------------------------------

_real_counts, _real_histogram = _discovery.noisy_counts, _query.centred_histogram
_real_numbers = _aggregators.centred_numbers


def exact_counts(codes, n_bins, reservation):
    """Class counts without noise, charged like noisy ones."""
    _real_counts(codes, n_bins, reservation)
    return np.bincount(whole(codes), minlength=n_bins)


def exact_missing(codes, n_cells, reservation, weight):
    """The last cell, that of missing values, is counted without noise."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    ends = np.cumsum([n + 1 for n in n_cells])
    for j, end in enumerate(ends):  # the number before it is of rows in no cell
        missing = (whole(codes)[:, j] == n_cells[j] - 1).sum()
        released.numbers[end - 2] = missing - len(whole(codes)) / n_cells[j]
    return released


def uncentred(counts, n_rows, weight):
    """The counts as they are, on the grid and with the noise of centred ones.

    Of 4 columns with 3 to 12 cells: 1.2 times what was reserved.
    """
    plain = np.concatenate([_aggregators.GRID * column for column in counts])
    return np.concatenate([plain, _real_numbers([], n_rows, weight)])


# What is broken where, words of the finding, and the case that shows it.
LEAKS = [
    (_discovery, "noisy_counts", exact_counts, RELEASES, UNCOUNTED, CANARY),
    (_query, "centred_histogram", exact_missing, PAST, schema_of(HOLED), MISSING),
    (_aggregators, "centred_numbers", uncentred, MOVED, COUNTED, IN_A_CELL),
]


@pytest.mark.parametrize(
    ("where", "name", "twin", "words", "schema", "canary"),
    LEAKS,
    ids=[leak[2].__name__ for leak in LEAKS],
)
def test_a_leak_is_caught(
    where, name, twin, words, schema, canary, table, cells, monkeypatch
):
    """And the sound code has none."""
    rows = table if "b" not in canary else cells
    assert findings(INDEPENDENT, schema, rows, canary) == ()
    monkeypatch.setattr(where, name, twin)
    found = audit_of(INDEPENDENT, rows, canary, schema)
    assert_caught(found, words)
    if twin is uncentred:
        assert 1.1 < max(line.shift for line in found.lines) < 1.4


@pytest.mark.parametrize("schema", [COUNTED, NOT_COUNTED], ids=["public", "noisy"])
@pytest.mark.parametrize("canary", [IN_A_CELL, IN_NO_CELL], ids=["cell", "none"])
def test_a_row_moves_centred_counts_by_all_of_their_sensitivity(canary, schema, cells):
    """In a cell of all columns or in none; or by all but 1e-5 of it."""
    found = audit_of(GPATESynthesizer(), cells, canary, schema)
    assert found.findings == ()
    for line in found.lines:
        if "marginals" in line.name:
            wanted = 1.0 if line.scope == "class u" else 0.0
            assert line.shift == pytest.approx(wanted, abs=1e-5)


# --- Broken classes ---------------------------------------------------------------


class DtypesOfValues(IndependentSynthesizer):
    """Floats without fractions become whole numbers."""

    def fit(self, X, y=None):
        return super().fit(X.assign(a=X["a"].convert_dtypes()), y)


def test_dtypes_of_values_are_caught(table):
    """The canary has the first fraction."""
    case = table.assign(a=table["a"].round()), CANARY | {"a": 0.5}, DECLARED
    assert audit_of(INDEPENDENT, *case).findings == ()
    assert_caught(audit_of(DtypesOfValues(), *case), RELEASES)


class PassesTheCap(IndependentSynthesizer):
    """Large noisy counts get more than is left."""

    def _plan_classes(self, labels, counts, n_continuous, n_discrete, mu):
        more = mu * (1.1 if counts.max() > 10 else 1.0)
        return super()._plan_classes(labels, counts, n_continuous, n_discrete, more)


def test_a_plan_by_noisy_counts_that_passes_the_cap_is_refused(table):
    """The cap is fixed before the counts are released, and the ledger keeps it."""
    with pytest.raises(BudgetExceededError):
        PassesTheCap(schema=UNCOUNTED).fit(table)


# --- Every synthesizer ------------------------------------------------------------


def joins_every_class(rows, *positions):
    """Rows without a label are in every class."""
    mine = np.isin(rows.class_codes, [*positions, -1])
    return PrivateRows(
        rows.uniforms[mine], rows.category_codes[mine], rows.class_codes[mine]
    )


@pytest.mark.parametrize("name", ["independent", "triplegan", "pairwise rich"])
def test_rows_without_a_label_in_classes_are_caught(name, small_table, monkeypatch):
    """One such row: it may move its own kind's releases, or none."""
    columns = ["a", "b", "y"] if name == "pairwise rich" else ["a", "y"]
    some = small_table[columns]
    some = some.assign(y=some["y"].mask(some.index % 3 == 0))
    canary = dict.fromkeys(some, 5.0) | {"y": None}
    case = INSTANCES[name], schema_of(dict.fromkeys(columns[:-1], NUMBER["a"]))
    assert findings(*case, some, canary) == ()
    monkeypatch.setattr(PrivateRows, "of_class", joins_every_class)
    assert_caught(audit_of(case[0], some, canary, case[1]), SCOPES)


KNOWN = {
    "declared labels": {"schema": UNCOUNTED},
    "found labels": {"target": "y"},
    "no target": {"schema": TableSchema({**NUMBER, **LABEL})},
}


@pytest.mark.parametrize("known", KNOWN)
def test_fit_resample_returns_as_many_rows_as_noisy_counts_say(known, table):
    """With equal releases equally many, of a table and of one row less.

    The noise of the seed is seen: they are as many as in neither table.
    """
    made = IndependentSynthesizer(random_state=0, epsilon=5.0, **KNOWN[known])
    with insecure_randomness(7), recorded() as history:
        first = len(made.fit_resample(table)[0])
    counts = made.schema_.class_counts
    released = made.schema_.n_rows if counts is None else sum(counts.values())
    with insecure_randomness(7), replayed(history):
        second = len(made.fit_resample(table.iloc[1:])[0])
    assert first == second == released
    assert first not in (len(table), len(table) - 1)
    ways = {type(synth).fit_resample for synth in PLAIN_PRIVATE.values()}
    assert ways == {BaseSynthesizer.fit_resample}
