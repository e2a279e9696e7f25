"""All that a fit measures: what the plans say, in order, and what a row moves of it."""

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import Allocation, Spend, discover, measure
from skdpsynth.privacy import GRID, PrivacyAccountant
from skdpsynth.privacy.statistics import MOMENTS_SENSITIVITY
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import open_table

SCHEMA = TableSchema(
    {
        "a": Continuous(-4, 4, scale="linear", decimals="any"),
        "b": Continuous(-4, 4, nullable=True, scale="linear", decimals="any"),
        "c": Categorical(["p", "q", "r", "s"]),
        "y": Categorical(["u", "v"]),
    },
    target="y",
    class_counts={"u": 400, "v": 200},
)


def make_table(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    first = np.clip(rng.normal(size=n_rows), -3.9, 3.9)
    second = np.clip(first + rng.normal(size=n_rows), -3.9, 3.9)
    second[rng.random(n_rows) < 0.1] = np.nan
    columns = {"a": first, "b": second, "c": rng.choice([*"pqrs"], n_rows)}
    return pd.DataFrame(columns | {"y": np.where(np.arange(n_rows) % 3, "u", "v")})


TABLE = make_table()


def plan(label, exact=False, n_tables=0, **mus):
    own = {name: Spend(math.inf if exact else mu, 1.0) for name, mu in mus.items()}
    own = {"marginals": Spend()} | own
    return Allocation(label, 300.0, n_bins=10, n_groups=3, n_tables=n_tables, **own)


def plans(exact=False):
    """Everything of one class; of the other what cannot go with it in a real plan."""
    return [
        plan("u", exact, marginals=0.2, pairs=0.3, triples=0.25, n_tables=3),
        plan("v", exact, marginals=0.2, moments=0.15),
    ]


def measured(table, own=None, epsilon=20.0):
    """Measure a table, and list what was released of it."""
    seen = []
    _, layout = open_table(table, schema=SCHEMA)
    with insecure_randomness(1):
        accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=1e-6)
        metadata, rows = discover(table, layout, SCHEMA, accountant)
        with observe_releases(seen.append):
            found = measure(rows, metadata, own or plans(), accountant)
    return found, seen, rows


def test_what_is_released_is_what_the_plans_say_in_this_order():
    _, seen, _ = measured(TABLE)
    lines = [(own.reservation.name, own.reservation.scope) for own in seen]
    found, _, _ = measured(TABLE)
    n_cells = int(found.pairs[0].measured.sum())
    assert lines == [
        ("coarse marginals", "u"),
        ("coarse marginals", "v"),
        ("marginals", "u"),
        ("marginals", "v"),
        (f"3 tables of 2 columns, {n_cells} cells", "u"),
        ("1 table of 3 columns, 27 cells", "u"),
        ("second moments of 3 columns", "v"),
    ]
    squared = [own.reservation.mu**2 for own in seen]
    assert squared[0] + squared[2] == pytest.approx(0.2**2)
    assert squared[1] + squared[3] == pytest.approx(0.2**2)
    assert squared[4:] == pytest.approx([0.3**2, 0.25**2, 0.15**2])
    sensitivities = [own.reservation.sensitivity for own in seen[4:]]
    expected = [GRID * math.sqrt(3), GRID, MOMENTS_SENSITIVITY]
    assert sensitivities == pytest.approx(expected)
    assert all(own.reservation.used == own.reservation.count == 1 for own in seen)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_nothing_is_released_that_is_not_planned(order):
    """Flat marginals, marginals, pairs and triples, one after the other."""
    mus = dict.fromkeys(("marginals", "pairs", "triples")[:order], 0.2)
    found, seen, _ = measured(TABLE, [plan("u", **mus), plan("v", **mus)])
    assert len(seen) == [0, 4, 6, 8][order]
    assert [*found.pairs] == [0, 1] * (order >= 2)
    assert [*found.triples] == [0, 1] * (order >= 3)
    assert not found.moments
    assert len(found.rounds) == 2
    assert all(map(bool, found.rounds)) == (order > 0)
    assert {own.order for own in found.tables()} <= {*range(order + 1)}
    if order == 0:
        values, _ = found.model.marginals[0][0].decode(np.array([0.0, 0.25, 1.0]))
        assert values == pytest.approx([-4, -2, 4])


def test_moments_are_those_of_scores_with_the_noise_that_is_said():
    """Rows are shortened to twice the mean squared length. Counts: see the labels."""
    exact, _, rows = measured(TABLE, plans(exact=True), math.inf)
    other = rows.of_class(1)
    scores = exact.model.score_rows(other.uniforms, other.category_codes, 1)
    means, stds, _ = exact.model.score_moments(1)
    off = scores - means
    limit = math.sqrt(2 * np.square(stds).sum())
    off *= limit / np.maximum(np.linalg.norm(off, axis=1, keepdims=True), limit)
    expected = (off.T @ off / 200)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(exact.moments[1].values, expected, atol=0.005)
    noisy, _, _ = measured(TABLE)
    _, stds, _ = noisy.model.score_moments(1)
    std = 2 * np.square(stds).sum() / math.sqrt(2) / 0.15 / 200
    assert noisy.moments[1].noise_std == pytest.approx(std, rel=1e-3)
    assert noisy.triples[0].noise_std == pytest.approx(1 / 0.25, rel=1e-4)


def test_scores_of_rows_follow_their_class():
    """1.5 is usual in one class and 6 in the other; there the other is far off."""
    frame = pd.DataFrame(
        {"a": np.repeat([1.5, 6.0], 50), "t": np.repeat(["p", "q"], 50)}
    )
    model = IndependentSynthesizer(math.inf, target="t").fit(frame)._model
    units = model.metadata.domains[0].to_unit(np.array([[1.5], [6.0]]))
    codes = np.zeros((2, 1), dtype=np.uint8)
    own, other = (
        model.score_rows(units.astype(np.float32), codes, c)[:, 0] for c in (0, 1)
    )
    assert max(abs(own[0]), abs(other[1])) < 1
    assert own[1] > 2
    assert other[0] < -2
