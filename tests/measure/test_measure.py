"""Which tables or moments are measured, with what of the budget, and scores of rows."""

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import (
    Allocation,
    Discovery,
    PairTables,
    Spend,
    allocate,
    allocate_measurements,
    measure,
    measured_form,
)

# Of one class by itself nothing is listed.
from skdpsynth.measure._relations import with_together
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import CategoryDomain, PrivateRows, open_table

NUMBERS = Continuous(-4, 4, nullable=True, scale="linear", decimals="any")
N_ROWS = 200
SCHEMA = TableSchema(
    {"a": NUMBERS, "b": NUMBERS, "c": Categorical([*"pqrs"])}, n_rows=N_ROWS
)


def make_table():
    rng = np.random.default_rng(0)
    first = np.clip(rng.normal(size=N_ROWS), -3.9, 3.9)
    second = np.clip(first + rng.normal(size=N_ROWS), -3.9, 3.9)
    second[rng.random(N_ROWS) < 0.1] = np.nan
    return pd.DataFrame({"a": first, "b": second, "c": rng.choice([*"pqrs"], N_ROWS)})


def measured(epsilon, mu):
    """Measure marginals and second moments, both with so much mu; and the rows."""
    with insecure_randomness(1):
        table, layout = open_table(make_table(), schema=SCHEMA)
        accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=1e-6)
        metadata, rows = Discovery(layout, SCHEMA).run(table, accountant)
        plans = [Allocation(None, N_ROWS, Spend(mu), 10, moments=Spend(mu))]
        [part] = rows.parts_of_class(-1, 0).each()
        return measure(rows, metadata, plans, accountant), part


def test_moments_are_those_of_scores_with_the_noise_that_is_said():
    """Rows are shortened to twice the mean squared length."""
    exact, rows = measured(math.inf, math.inf)
    scores = exact.model.score_rows(rows, 0)
    means, stds, _ = exact.model.score_moments(0)
    off = scores - means
    limit = math.sqrt(2 * np.square(stds).sum())
    off *= limit / np.maximum(np.linalg.norm(off, axis=1, keepdims=True), limit)
    expected = (off.T @ off / N_ROWS)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(exact.moments[0].values, expected, atol=0.005)
    noisy, _ = measured(20.0, 0.15)
    _, stds, _ = noisy.model.score_moments(0)
    std = 2 * np.square(stds).sum() / math.sqrt(2) / 0.15 / N_ROWS
    assert noisy.moments[0].noise_std == pytest.approx(std, rel=1e-3)


def test_scores_of_rows_follow_their_class():
    """1.5 is usual in one class and 6 in the other; there the other is far off."""
    frame = pd.DataFrame(
        {"a": np.repeat([1.5, 6.0], 50), "t": np.repeat(["p", "q"], 50)}
    )
    model = IndependentSynthesizer(math.inf, target="t").fit(frame)._model
    units = model.metadata.domains[0].to_unit(np.array([[1.5], [6.0]]))
    rows = PrivateRows(units.astype("f4"), np.zeros((2, 1), int), np.arange(2))
    own, other = (model.score_rows(rows, c)[:, 0] for c in (0, 1))
    assert max(abs(own[0]), abs(other[1])) < 1
    assert own[1] > 2
    assert other[0] < -2


def test_classes_are_corrected_by_tables_of_all_of_them():
    """The estimate of weighted least squares, cell by cell, and its variance."""
    rng, stds = np.random.default_rng(0), [3.0, 5.0, 8.0, 4.0]

    def tables(noise_std):
        counts = rng.normal(50, 20, (2, 2)).astype(np.float32)
        return PairTables(counts, counts > -99, noise_std, 100.0, np.array([[0, 1]]))

    *each, together = map(tables, stds)
    found = with_together(dict(enumerate(each)), together)
    design = np.vstack([np.eye(3), np.ones(3)])
    weights = np.diag([std**-2 for std in stds])
    covariance = np.linalg.inv(design.T @ weights @ design)
    seen = np.array([own.counts for own in (*each, together)])
    expected = np.tensordot(covariance @ design.T @ weights, seen, 1)
    ours = [found[c].counts for c in range(3)]
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    variances = [own.noise_std**2 for own in found.values()]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "n_rows", "n_columns", "form"),
    [
        ((None,), [5169.0], 10, "pairs"),  # 200 noise deviations are 5,164 rows
        ((None,), [5159.0], 10, "moments"),  # few rows without classes
        (("u", "v"), [5e4, 600.0], 10, "pairs"),  # the second one borrows
        (("u", "v"), [400.0, 9.0], 10, "moments"),
        (("u", "v"), [200.0, 200.0], 10, "marginals"),
        (("u", "v", "w"), [5e4, 2e4, 9.0], 10, "pairs"),  # the third one borrows
        (("u", "v"), [2e4, 1e4], 40, "moments"),
        (("u", "v"), [5e6, 9.0], 120, "moments"),
        (("u", "v"), [5e6, 2e6], 2001, "marginals"),
        ((None,), [200.0], 10, "marginals"),
    ],
)
def test_one_form_serves_all_classes_of_a_table(labels, n_rows, n_columns, form):
    """Tables where one class affords them, else moments where one does, else none."""
    assert measured_form(labels, n_rows, n_columns, 0, 0.3) == form
    assert measured_form(labels, n_rows, n_columns, 0, 1e-5) == "marginals"


def test_tables_go_before_second_moments_where_moments_lack_something():
    """Categories among numbers; rows without a label, of which only tables are."""
    few, many = ((None,), [3e3]), (("u", "v"), [2e4, 1e4])
    assert measured_form(*few, 5, 5, 0.3) == "moments"
    assert measured_form(*many, 38, 2, 0.3) == "moments"
    assert measured_form(*many, 37, 3, 0.3) == "pairs"
    assert measured_form(*many, 40, 0, 0.3, tables_first=True) == "pairs"
    assert measured_form(*few, 10, 0, 0.3, tables_first=True) == "moments"


def plan_classes(labels, counts, *columns_and_mu):
    """Plan tables of two columns and more, as the synthesizers do."""
    options = {"largest": counts.max(), "form": "pairs"}
    return [
        allocate_measurements(label, own, *columns_and_mu, **options)
        for label, own in zip(labels, counts, strict=True)
    ]


@pytest.mark.parametrize("mu", [0.3, 0.02])
def test_a_row_of_any_class_is_charged_for_what_several_release_together(mu):
    """Of the squared mu of every class nothing is left, and nothing is missing.

    The third class has no tables, and is charged for those of the others. These spend a
    fifth on tables together, or half where 200 noise deviations are more than the rows.
    """
    counts = np.array([40_000.0, 20_000.0, 200.0])
    domains = [CategoryDomain(("p", "q", "r"), False)] * 6

    *having, rare = allocate(plan_classes, [*"abc"], counts, domains, mu)
    ((*spent,),) = {(own.choice, own.together, own.relations) for own in having}
    shared = [spend.mu for spend in spent]  # with one noise
    for plan in having:
        own = plan.pairs.mu, plan.triples.mu, plan.marginals.mu
        assert math.hypot(*own, *shared) == pytest.approx(mu)
        scarce = 40_000 * math.hypot(plan.pairs.mu, plan.together.mu) < 200 * 15**0.5
        assert scarce == (mu == 0.02)
        share = 0.5 if scarce else 0.2
        whole = plan.together.mu**2 + plan.pairs.mu**2
        assert plan.together.mu**2 == pytest.approx(share * whole)
    assert rare.pairs.mu == 0
    assert math.hypot(rare.marginals.mu, *shared) == pytest.approx(mu)


def test_without_noise_nothing_is_measured_twice():
    """Exact tables of each class say all that those of all classes together do."""
    counts, domains = np.array([4000.0, 1000.0]), [CategoryDomain((*"pq",), False)] * 3
    for plan in allocate(plan_classes, [*"ab"], counts, domains, math.inf):
        assert plan.pairs.mu == math.inf
        assert plan.together.mu == 0
