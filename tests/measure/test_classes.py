"""Classes and their sizes: free where declared, else counted once or found."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure._discovery import likely_counts, measure_classes
from skdpsynth.privacy import Parts, PrivacyAccountant
from skdpsynth.schema import Boolean, Categorical, TableSchema
from skdpsynth.table import Classes, ColumnLayout, place_labels, rounded

DELTA = 1e-6


def discovered(values, schema=None, epsilon=math.inf, n_rows=None):
    """Release classes; give them, the class_codes and what was reserved."""
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=DELTA)
    target = None if values is None else pd.Series(values, name="y")
    column = None if target is None else ColumnLayout.of("y", target)
    frame = pd.DataFrame({"y": range(n_rows)} if target is None else {"y": target})
    classes = measure_classes(
        Parts.of(frame),
        column,
        schema,
        accountant,
        mu=accountant.mu_cap,
        threshold_delta=DELTA,
    )
    class_codes = place_labels(frame, column, classes.labels)
    return classes, class_codes.tolist(), accountant.report().entries


def declared(categories, counts=None, **options) -> TableSchema:
    return TableSchema(
        {"y": Categorical(categories, **options)}, target="y", class_counts=counts
    )


def test_declared_counts_cost_nothing():
    schema = declared(["n", "p"], {"n": 70, "p": 0})
    classes, class_codes, entries = discovered(["p", "n", "n", "?"], schema)
    assert classes.labels == ("n", "p")
    assert classes.counts.tolist() == [70.0, 1.0]
    assert class_codes == [1, 0, 0, -1]
    assert entries == ()
    free = TableSchema({"a": Boolean()}, n_rows=50)
    classes, class_codes, entries = discovered(None, free, n_rows=3)
    assert (classes.labels, classes.counts.tolist()) == ((), [50.0])
    assert (class_codes, entries) == ([0, 0, 0], ())


@pytest.mark.parametrize(
    ("values", "schema", "categories", "counts", "class_codes"),
    [
        (["p", "n", "n"], declared(["p", "n"]), ("p", "n"), [1, 2], [0, 1, 1]),
        ([True, True], None, (False, True), [1, 2], [1, 1]),
        ([0, 1, 1, 0, 1], None, (0, 1), [2, 3], [0, 1, 1, 0, 1]),
        ([2, 3, 3, 2, 3], None, (2, 3), [2, 3], [0, 1, 1, 0, 1]),
        ([-1, 1, 1, -1], None, (-1, 1), [2, 2], [0, 1, 1, 0]),
        ([1, 1, 7], None, (1,), [2], [0, 0, -1]),
        (
            ["b", "a", "b", "a", None, "x"],
            None,
            ("a", "b"),
            [2, 2],
            [1, 0, 1, 0, -1, -1],
        ),
        (pd.array([1, None, 1], dtype="Int64"), None, (1,), [2], [0, -1, 0]),
        (pd.array([None] * 3, dtype="Int64"), None, (0,), [1], [-1] * 3),
        (["a", "b", "c"], None, (), [3], [0, 0, 0]),  # no label twice: one class
        ([None] * 3, None, (), [3], [0, 0, 0]),
        ([None] * 3, declared([], nullable=True), (), [3], [0, 0, 0]),
    ],
)
def test_without_noise_the_counts_are_exact(
    values, schema, categories, counts, class_codes
):
    classes, found, _ = discovered(values, schema)
    assert classes.labels == categories
    assert classes.counts.tolist() == counts
    assert found == class_codes
    assert len(classes) == len(counts)
    assert classes.scopes == (categories or (None,))


def test_a_usual_label_that_does_not_occur_is_not_invented():
    """Noise lets one of 0 and 1 pass in 10 % of the fits, not in most of them.

    More than 15 of 40 have probability below 1e-6.
    """
    labels = np.repeat([2, 3], 3000)
    invented = sum(len(discovered(labels, epsilon=1.0)[0]) > 2 for _ in range(40))
    assert invented <= 15


def test_a_table_too_small_for_the_budget_still_has_a_class():
    for _ in range(10):
        classes, class_codes, _ = discovered([0, 1, 0], epsilon=0.1)
        assert set(classes.labels) <= {0, 1}
        assert classes.labels
        assert set(class_codes) <= {-1, 0, 1}


@pytest.mark.parametrize(
    ("values", "releases"),
    [
        ([0, 1] * 500, {"class counts": 1.0, "other class labels": 1.0}),
        (["a", "b"] * 500, {"class labels and counts": 1.0}),
        (["a", "b", "c"], {"class labels and counts": 1.0, "row count": 1.0}),
        ([True, False] * 500, {"class counts": 1.0}),
        (None, {"row count": 1.0}),
    ],
)
def test_what_is_released_stays_within_its_share(values, releases):
    _, _, entries = discovered(
        values, epsilon=1.0, n_rows=9 if values is None else None
    )
    assert {entry.name: entry.sensitivity for entry in entries} == releases
    cap = PrivacyAccountant(1.0, 1e-5, discovery_delta=DELTA).mu_cap
    assert sum(entry.mu_total**2 for entry in entries) <= cap**2 * (1 + 1e-9)


def test_noisy_counts_are_off_by_the_noise_paid_for():
    """Six standard deviations of ten counts: exceeded with probability below 1e-7.

    The noise of a count is 0 with probability below 0.1, that of all below 1e-10.
    """
    classes, _, entries = discovered(list("abcdefghij") * 4000, epsilon=1.0)
    (entry,) = entries
    error = np.abs(classes.counts - 4000)
    assert (error < 6 * entry.noise_std).all()
    assert (error > 0).any()


def test_planned_counts_have_two_digits():
    counts = np.array([0.2, 7.0, 99.0, 104.0, 105.1, 994.0, 284_807.0])
    assert rounded(counts).tolist() == [1, 7, 99, 100, 110, 990, 280_000]
    classes = Classes(("a", "b"), np.array([104.0, 312.0]))
    assert classes.planned.tolist() == [100, 310]
    assert classes.prior.tolist() == [0.25, 0.75]


def test_likely_counts_are_the_mean_of_what_can_be():
    """Independently: sample counts of at least 0 given the released one."""
    rng = np.random.default_rng(0)
    for released in (-60.0, 0.0, 30.0, 500.0):
        prior = rng.uniform(0, 900, 2_000_000)
        weight = np.exp(-0.5 * ((prior - released) / 25.0) ** 2)
        expected = float((prior * weight).sum() / weight.sum())
        got = float(likely_counts(np.array(released), 25.0))
        assert got == pytest.approx(expected, rel=0.02)
    assert likely_counts(np.array([-1e9, 0.0, 7.0]), 0.0).tolist() == [1.0, 1.0, 7.0]
    assert (likely_counts(np.array([-1e9, 1e9]), 3.0) >= 1.0).all()


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
def test_a_rare_usual_label_is_not_lost():
    """Fewer positives than the noise: both labels are there all the same."""
    target = pd.Series([0] * 800 + [1] * 10, name="y")
    for _ in range(20):
        fitted = IndependentSynthesizer(target="y").fit(
            pd.DataFrame({"u": np.linspace(0, 1, 810), "y": target})
        )
        assert fitted.classes_.tolist() == [0, 1]
