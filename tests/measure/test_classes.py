"""Classes and their sizes: free where declared, else counted once or found."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import discover

# A closed form, which a fit shows with noise only.
from skdpsynth.measure._discovery import likely_counts
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.schema import Categorical, TableSchema
from skdpsynth.table import open_table

DELTA = 1e-6


def discovered(values, schema=None, epsilon=math.inf, n_rows=None):
    """Release classes; give them, the codes of the rows, and lines of the ledger."""
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=DELTA)
    # Booleans have nothing to be found.
    frame = pd.DataFrame({"u": np.zeros(n_rows or len(values), dtype=bool)})
    target = None if values is None else "y"
    if target:
        frame["y"] = pd.Series(values)
    table, layout = open_table(frame, target=target, schema=schema)
    metadata, rows = discover(table, layout, schema, accountant)
    entries = accountant.report().entries
    return metadata.classes, rows.class_codes.tolist(), entries


def declared(categories, counts=None, **options) -> TableSchema:
    return TableSchema(
        {"y": Categorical(categories, **options)}, target="y", class_counts=counts
    )


def test_declared_counts_cost_nothing():
    schema = declared(["n", "p"], {"n": 70, "p": 0})
    classes, class_codes, entries = discovered(["p", "n", "n", "?"], schema)
    assert (classes.labels, classes.counts.tolist()) == (("n", "p"), [70.0, 1.0])
    assert (class_codes, entries) == ([1, 0, 0, -1], ())
    free = TableSchema({}, n_rows=50)
    classes, class_codes, entries = discovered(None, free, n_rows=3)
    assert (classes.labels, classes.counts.tolist()) == ((), [50.0])
    assert (class_codes, entries) == ([0, 0, 0], ())


@pytest.mark.parametrize(
    ("values", "schema", "categories", "counts", "class_codes"),
    [
        (["p", "n", "n"], declared(["p", "n"]), ("p", "n"), [1, 2], [0, 1, 1]),
        ([True, True], None, (False, True), [1, 2], [1, 1]),
        ([0, 1, 1, 0, 1], None, (0, 1), [2, 3], [0, 1, 1, 0, 1]),
        ([-1, 1, 1, -1], None, (-1, 1), [2, 2], [0, 1, 1, 0]),
        ([1, 1, 7], None, (1,), [2], [0, 0, -1]),
        ([*"baba", None, "x"], None, ("a", "b"), [2, 2], [1, 0, 1, 0, -1, -1]),
        (pd.array([1, None, 1], dtype="Int64"), None, (1,), [2], [0, -1, 0]),
        (pd.array([None] * 3, dtype="Int64"), None, (0,), [1], [-1] * 3),
        (["a", "b", "c"], None, (), [3], [0, 0, 0]),  # no label twice: one class
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
    assert sum(entry.mu_total**2 for entry in entries) <= 0.1 * cap**2


@pytest.mark.statistical
def test_noisy_counts_are_off_by_the_noise_paid_for():
    """n = 10 counts: six standard deviations are passed at a rate below 1e-7.

    The noise of a count is 0 with probability below 0.1, that of all below 1e-10.
    """
    classes, _, (entry,) = discovered(list("abcdefghij") * 4000, epsilon=1.0)
    error = np.abs(classes.counts - 4000)
    assert (error < 6 * entry.noise_std).all()
    assert (error > 0).any()


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
    for _ in range(5):
        fitted = IndependentSynthesizer(target="y").fit(
            pd.DataFrame({"u": np.linspace(0, 1, 810), "y": target})
        )
        assert fitted.classes_.tolist() == [0, 1]
