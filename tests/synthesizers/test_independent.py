"""The floor: marginals that are right, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp, spearmanr

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Categorical, Continuous, TableSchema


def table(n_rows):
    """Two classes, 1 in 5; a shifted column, a skewed one, one of three levels."""
    rng = np.random.default_rng(1)
    label = (rng.random(n_rows) < 0.2).astype(int)
    return pd.DataFrame(
        {
            "shifted": rng.normal(size=n_rows) + 2 * label,
            "skewed": rng.exponential(100, n_rows) * (rng.random(n_rows) < 0.7),
            "level": np.where(
                rng.random(n_rows) < 0.3 + 0.4 * label,
                "x",
                rng.choice(["y", "z"], n_rows),
            ),
            "y": label,
        }
    )


def differences(real, fake):
    """Largest distance of the distribution functions, or of shares, over classes."""
    found: dict[str, float] = {}
    for label in (0, 1):
        a, b = real[real["y"] == label], fake[fake["y"] == label]
        for name in ("shifted", "skewed"):
            distance = ks_2samp(a[name], b[name]).statistic
            found[name] = max(found.get(name, 0.0), distance)
        shares = [part["level"].value_counts(normalize=True) for part in (a, b)]
        gap = shares[0].sub(shares[1], fill_value=0.0).abs().max()
        found["level"] = max(found.get("level", 0.0), gap)
    return found


@pytest.mark.parametrize(("epsilon", "most"), [(math.inf, 0.06), (1.0, 0.1)])
def test_marginals_of_each_class(epsilon, most):
    """A sampling error of 40,000 rows in two classes, the smaller of 8,000.

    It is below 0.03 with probability 1 - 1e-6 (Dvoretzky, Kiefer and Wolfowitz); the
    rest is the bins.
    """
    real = table(20_000)
    synth = IndependentSynthesizer(epsilon=epsilon, target="y", random_state=0)
    fake = synth.fit(real).sample(40_000)
    found = differences(real, fake)
    assert max(found.values()) < most, found
    assert abs(fake["y"].mean() - real["y"].mean()) < 0.02
    # A zero stays exactly zero, in about 3 of 10 rows.
    assert abs((fake["skewed"] == 0).mean() - 0.3) < 0.05


def test_columns_are_independent_within_a_class():
    """Columns that are equal come out independent.

    The rank correlation of 20,000 independent pairs exceeds 0.05 with probability
    below 1e-11 (it is normal with standard deviation 0.00707).
    """
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    real = pd.DataFrame({"a": values, "b": values})
    fake = IndependentSynthesizer(epsilon=math.inf).fit(real).sample(20_000)
    assert abs(spearmanr(fake["a"], fake["b"]).statistic) < 0.05


def test_public_facts_are_free():
    """With everything declared, marginals and frequent values are all that is paid."""
    schema = TableSchema(
        {
            "shifted": Continuous(-5, 8, decimals="any"),
            "skewed": Continuous(0, 2000, decimals="any"),
            "level": Categorical(["x", "y", "z"]),
            "y": Categorical([0, 1]),
        },
        target="y",
        class_counts={0: 1600, 1: 400},
    )
    synth = IndependentSynthesizer(schema=schema).fit(table(2000))
    report = synth.privacy_report()
    own = [e for e in report.entries if e.scope is not None]
    assert {e.name for e in own} == {"coarse marginals", "marginals"}
    assert {e.name for e in report.entries if e.scope is None} <= {"frequent values"}
    assert synth.schema_.columns == schema.columns
    assert synth.sample(2000)["y"].value_counts().to_dict() == {0: 1600, 1: 400}


def test_it_is_the_marginal_synthesizer_of_order_1():
    """The same is released, and the same marginals come of it."""
    found = []
    for synth in (IndependentSynthesizer(), MarginalSynthesizer(order=1)):
        seen = []
        synth.set_params(epsilon=3.0, target="y", random_state=0)
        with insecure_randomness(0), observe_releases(seen.append):
            synth.fit(table(2000))
        names = [(own.reservation.name, own.reservation.scope) for own in seen]
        found.append((names, [own.noisy.tolist() for own in seen], synth.sample(4000)))
    (names, noisy, rows), (*others, other_rows) = found
    assert [names, noisy] == others
    # Of 4,000 rows each, the larger class of 3,200: above 0.07 once in 10^6 or rarer.
    assert max(differences(rows, other_rows).values()) < 0.15


def test_a_file_of_0_2_is_read(tmp_path, monkeypatch):
    """It had no generator: columns alone."""
    synth = IndependentSynthesizer(target="y").fit(table(500))
    with monkeypatch.context() as patch:
        patch.setattr(IndependentSynthesizer, "_generator_state", lambda self: ({}, {}))
        synth.save(tmp_path / "old")
    again = IndependentSynthesizer.load(tmp_path / "old")
    ours, theirs = (own.sample(50, random_state=0) for own in (synth, again))
    pd.testing.assert_frame_equal(ours, theirs)
