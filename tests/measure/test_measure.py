"""Second moments are those of the scores of rows, and scores are those of a class."""

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import Allocation, Spend, discover, measure
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import open_table

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
        metadata, rows = discover(table, layout, SCHEMA, accountant)
        spends = {"marginals": Spend(mu), "moments": Spend(mu)}
        plans = [Allocation(None, N_ROWS, n_bins=10, **spends)]
        return measure(rows, metadata, plans, accountant), rows


def test_moments_are_those_of_scores_with_the_noise_that_is_said():
    """Rows are shortened to twice the mean squared length."""
    exact, rows = measured(math.inf, math.inf)
    scores = exact.model.score_rows(rows.uniforms, rows.category_codes, 0)
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
    codes = np.zeros((2, 1), dtype=np.uint8)
    own, other = (
        model.score_rows(units.astype(np.float32), codes, c)[:, 0] for c in (0, 1)
    )
    assert max(abs(own[0]), abs(other[1])) < 1
    assert own[1] > 2
    assert other[0] < -2
