"""Plans: the same numbers before and in a fit, and notes where little will come out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import Allocation, Spend, allocate, allocate_measurements
from skdpsynth.privacy import GRID, grid_noise_std
from skdpsynth.schema import Boolean, Continuous, TableSchema
from skdpsynth.table import CategoryDomain, NumericDomain

ANY = Continuous(0, 1, decimals="any")
SCHEMA = TableSchema(
    {"a": ANY, "b": ANY, "f": Boolean(), "t": Boolean()},
    target="t",
    class_counts={False: 4000, True: 1000},
)


def table() -> pd.DataFrame:
    number = np.arange(5000)
    return pd.DataFrame(
        {
            "a": number / 5000,
            "b": number % 10 / 10,
            "f": number % 2 == 0,
            "t": number % 5 == 0,
        }
    )


def test_the_plan_is_what_a_fit_does():
    synthesizer = IndependentSynthesizer(schema=SCHEMA)
    plan = synthesizer.plan(5000, class_counts={False: 4000, True: 1000})
    entries = synthesizer.fit(table()).privacy_report().entries
    paid = [entry for entry in entries if entry.name == "marginals"]
    assert len(paid) == len(plan) == 2
    for entry, noise_std in zip(paid, plan["noise_std"], strict=True):
        # In rows. A column may turn out to have a few bins less than planned.
        assert 0.98 * noise_std < entry.noise_std / GRID <= noise_std * (1 + 1e-9)
    assert plan["rows"].tolist() == [4000, 1000]
    assert (plan["note"] == "").all()


@pytest.mark.parametrize(("n_numeric", "n_levels"), [(3, 0), (2, 5), (0, 4)])
def test_the_noise_of_a_plan_is_the_noise_of_the_mechanism(n_numeric, n_levels):
    """Sensitivity sqrt(columns), as of many cells; round 1 is left out of mu."""
    mu = 0.25
    plan = allocate_measurements("x", 1000.0, n_numeric, n_levels, mu)
    n_columns = n_numeric + n_levels
    mu_fine = mu * math.sqrt(1 - 0.4 * n_numeric / n_columns)
    exact = grid_noise_std(mu_fine, math.sqrt(n_columns))
    assert plan.marginals.noise_std == pytest.approx(exact, rel=0.05)
    assert plan.signal_to_noise == pytest.approx(
        1000 / plan.n_bins / plan.marginals.noise_std
    )


@pytest.mark.parametrize("count_std", [0.0, 90.0])
def test_cells_make_a_plan_sharper(count_std):
    """By the formula: binary levels half the squared sensitivity, others little."""
    number = NumericDomain(0.5, 9.0, log=False, integer=False, nullable=False)
    binary = CategoryDomain(("a", "b"), nullable=False)
    rough = allocate_measurements("x", 1000.0, 1, 5, 0.25)
    domains = [number, *[binary] * 4, None]  # of the last one nothing is known yet
    settings = (["x"], np.array([1000.0]), domains, 0.25)
    (plan,) = allocate(lambda *_: [rough], *settings, count_std=count_std)
    mu = 0.25 * math.sqrt(1 - 0.4 / 6)
    spread = (1 - 1 / plan.n_bins) + 4 / 2 + 1
    # The number of rows is released too: a declared one with 1 % of the other weights,
    # a measured one with the best weight if the last column is binary.
    small, cells = spread - 0.5, (plan.n_bins - 1) + 4 + 1
    known = 1 / (count_std * mu) ** 2 if count_std else math.inf
    best = (1 / math.sqrt(2 * cells) - known) / (1 + known) if count_std else 0.01
    wanted = math.sqrt(spread + small * best) / mu
    assert plan.marginals.noise_std == pytest.approx(wanted, rel=1e-5)
    assert plan.n_bins >= rough.n_bins
    assert plan.marginals.noise_std < 0.85 * rough.marginals.noise_std
    assert plan.most_categories == 2
    empty = Allocation("x", 9.0, Spend(), 1)
    (nothing,) = allocate(lambda *_: [empty], *settings, count_std=count_std)
    assert (nothing.marginals.noise_std, nothing.n_bins) == (0.0, 1)


def test_without_noise_every_bin_is_measured():
    plan = allocate_measurements(None, 100_000.0, 3, 3, math.inf)
    assert (plan.marginals.noise_std, plan.n_bins, plan.note) == (0.0, 256, "")
    assert plan.signal_to_noise == math.inf


def test_a_budget_too_small_is_said_in_advance():
    columns = TableSchema(SCHEMA.columns, target="t")
    plan = IndependentSynthesizer(0.01, schema=columns).plan(
        1000, class_counts={False: 990, True: 10}
    )
    assert plan["note"].str.contains("too few rows").all()
    generous = IndependentSynthesizer(5.0, schema=columns).plan(10**6)
    assert (generous["note"] == "").all()
    assert (generous["rows"] == 500_000).all()


def test_many_categories_are_said_in_advance():
    plan = Allocation("x", 1000.0, Spend(0.2, 5.0), 4, most_categories=900)
    assert "too many categories" in plan.note


def test_more_rows_never_get_fewer_bins():
    counts = [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
    bins = [allocate_measurements(None, count, 5, 0, 0.2).n_bins for count in counts]
    assert bins == sorted(bins)
    assert bins[0] < bins[-1]


@pytest.mark.parametrize("mu", [0.3, 0.02])
def test_a_row_of_any_class_is_charged_for_what_several_release_together(mu):
    """Of the squared mu of every class nothing is left, and nothing is missing.

    The third class has no tables, and is charged for those of the others. These spend a
    fifth on tables together, or half where 200 noise deviations are more than the rows.
    """
    counts = np.array([40_000.0, 20_000.0, 200.0])
    domains = [CategoryDomain(("p", "q", "r"), False)] * 6

    def plan_classes(labels, counts, n_continuous, n_discrete, mu):
        return [
            allocate_measurements(
                *(label, own, n_continuous, n_discrete, mu),
                **{"largest": counts.max(), "form": "pairs"},
            )
            for label, own in zip(labels, counts, strict=True)
        ]

    *having, rare = allocate(plan_classes, [*"abc"], counts, domains, mu)
    (shared,) = {plan.mus_together for plan in having}
    assert len({plan.relations for plan in having}) == 1  # with one noise
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

    def plan_classes(labels, counts, *columns):
        return [
            allocate_measurements(label, own, *columns, form="pairs")
            for label, own in zip(labels, counts, strict=True)
        ]

    for plan in allocate(plan_classes, [*"ab"], counts, domains, math.inf):
        assert plan.pairs.mu == math.inf
        assert plan.together.mu == 0
