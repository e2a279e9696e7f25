"""DPGANSynthesizer: a Wasserstein critic with clipped weights, by the same DP-SGD.

Its privacy argument is tested beside DP-CGAN's, in `test_dpcgan_privacy.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import DPGANSynthesizer
from skdpsynth.nn._discriminator import Discriminator
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

SCHEMA = TableSchema(
    {
        "a": Continuous(-6, 6, scale="linear"),
        "b": Continuous(-6, 6, scale="linear"),
        "y": Categorical(["u", "v"]),
    },
    target="y",
)


def make_table(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    member = rng.integers(2, size=n_rows)
    a, rest = rng.standard_normal((2, n_rows))
    b = np.where(member == 0, 0.9, -0.9) * a + math.sqrt(1 - 0.81) * rest
    return pd.DataFrame({"a": a, "b": b, "y": np.array(["u", "v"])[member]})


def test_dependence_is_learnt_without_noise():
    with insecure_randomness(0):
        synthesizer = DPGANSynthesizer(
            epsilon=math.inf, schema=SCHEMA, init="marginals", random_state=0
        ).fit(make_table(3000))
    rows = synthesizer.sample(4000, sampling_strategy="balanced", random_state=0)
    for label, part in rows.groupby("y"):
        sign = 1 if label == "u" else -1
        assert sign * np.corrcoef(part["a"], part["b"])[0, 1] > 0.6


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("hidden_dims", [(), (4,)])
def test_weights_of_the_critic_stay_in_their_bound(hidden_dims, monkeypatch):
    bounds = []

    def check(self, fakes, features):
        follow(self, fakes, features)
        bounds.append(max(float(p.detach().abs().max()) for p in self._params))

    follow = Discriminator.follow
    monkeypatch.setattr(Discriminator, "follow", check)
    DPGANSynthesizer(
        epsilon=8.0,
        schema=SCHEMA,
        n_iter=2,
        n_generator_steps=2,
        weight_clip=0.01,
        hidden_dims=hidden_dims,
        random_state=0,
    ).fit(make_table(400))
    assert max(bounds) == pytest.approx(0.01)


def test_it_is_saved_and_stays_in_its_budget(tmp_path):
    synthesizer = DPGANSynthesizer(schema=SCHEMA, n_iter=2, n_generator_steps=2)
    synthesizer.fit(make_table(3000)).save(tmp_path / "model.skdp")
    assert 0.98 <= synthesizer.epsilon_ <= 1
    same = DPGANSynthesizer.load(tmp_path / "model.skdp")
    pd.testing.assert_frame_equal(
        same.sample(50, random_state=1), synthesizer.sample(50, random_state=1)
    )
    assert same.weight_clip == 0.1


def test_a_bad_bound_is_refused():
    with pytest.raises(ValueError, match="weight_clip"):
        DPGANSynthesizer(weight_clip=0.0).fit(make_table(50))
