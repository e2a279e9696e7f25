"""Rounds of DP-CGAN, DPGAN and PATE-GAN: their plans, steps and votes."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from _instances import TABLE, WAYS, table_of
from _releases import watched
from sklearn.base import clone
from tables import COLUMNS, correlated_schema, correlated_table

from skdpsynth import DPGANSynthesizer, GPATESynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.extension import Outline
from skdpsynth.schema import TableSchema
from skdpsynth.training import (
    Discriminator,
    LinearTeachers,
    TeacherEnsemble,
    told_by_labels,
)

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

STEPS, LABELS = "discriminator's gradients", "labels by vote"


@pytest.mark.parametrize("n_rows", [1_000, 10**7])
def test_noise_of_a_sampled_step_is_at_least_3_clipping_norms(n_rows):
    """Otherwise samples are larger: the mean is as good, the accounting tighter.

    By default none is amplified: the noise is 1 / mu, so that whole classes are exact.
    """
    schema = TableSchema(COLUMNS, target="y")
    settings = {"schema": schema, "n_iter": 3, "init": "random"}
    planned = []
    for batch_size in (100, "auto"):
        synthesizer = DPGANSynthesizer(
            8.0, batch_size=batch_size, n_discriminator_steps=2, **settings
        )
        table = Outline(["u"], [float(n_rows)], [None] * 3)
        (plan,) = synthesizer._allocate(table, 0.5)
        planned.append(plan.training)
    sampled, alone = planned
    assert sampled.sampling_rate == 1 or sampled.noise_std >= 3
    assert sampled.sampling_rate >= 100 / n_rows
    assert alone.sampling_rate == pytest.approx(min(1.0, 2**18 / n_rows))
    # A round has two steps, and there are three of them.
    assert alone.noise_std == pytest.approx(math.sqrt(2) / alone.mu_step)
    assert alone.mu == math.sqrt(3) * alone.mu_step == pytest.approx(0.5)


@pytest.mark.parametrize("way", ["dpgan random", "dpcgan sampled"])
def test_the_divisor_is_rate_times_the_planned_count(way):
    schema = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})
    settings = {"batch_size": 75, "n_iter": 3, "epsilon": 0.5, "schema": schema}
    how = {"autospec": True, "side_effect": Discriminator.__init__}
    with mock.patch.object(Discriminator, "__init__", **how) as made:
        clone(WAYS[way]).set_params(**settings).fit(TABLE[:150])
    seen = {}
    for given in (call.kwargs for call in made.call_args_list):
        line = given["reservation"]
        seen[line.scope] = given["expected_batch_size"], line.sampling_rate
    assert seen["u"] == pytest.approx((75, 75 / 90))
    assert seen["v"] == pytest.approx((60, 1.0))


@pytest.mark.parametrize("way", ["dpcgan", "dpcgan sampled", "dpgan random"])
def test_noise_of_floating_point_numbers_is_said(way):
    """The report says which noise was drawn, of whole classes and of samples."""
    fitted, seen = watched(WAYS[way], TABLE)
    steps = [own for own in seen if own.family == STEPS]
    assert {own.release.exact.dtype for own in steps} == {np.dtype("float64")}
    report = fitted.privacy_report()
    lines = [entry for entry in report.entries if entry.name == STEPS]
    assert {line.kind for line in lines} == {"sampled gaussian"}
    assert any(line.sampling_rate < 1 for line in lines) == (way == "dpcgan sampled")
    assert any("floating-point" in note for note in report.notes)


@pytest.mark.parametrize("hidden_dims", [(), (4,)])
def test_weights_of_the_critic_stay_in_their_bound(hidden_dims, monkeypatch):
    bounds = []

    def check(self, generated, features):
        follow(self, generated, features)
        bounds.append(max(float(p.detach().abs().max()) for p in self._params))

    follow = Discriminator.follow
    monkeypatch.setattr(Discriminator, "follow", check)
    settings = {"weight_clip": 0.001, "hidden_dims": ((4,), hidden_dims)}
    clone(WAYS["dpgan random"]).set_params(**settings).fit(TABLE)
    assert max(bounds) == pytest.approx(0.001)


@pytest.mark.parametrize("way", ["pategan", "pategan laplace"])
def test_votes_are_those_of_many_teachers(way):
    """Influence would also be right if one had all rows."""
    synthesizer = clone(WAYS[way]).set_params(n_teachers=12)
    _, seen = watched(synthesizer, table_of(way))
    votes = [s.release for s in seen if s.family == LABELS]
    assert [own.n_releases for own in votes] == [WAYS[way].batch_size] * 4
    assert all(sum(map(any, own.teachers.values())) >= 6 for own in votes)


@pytest.mark.parametrize(("noise", "ratio"), [("gaussian", 1.0), ("laplace", 2**0.5)])
def test_labels_are_read_by_the_deviation_of_their_noise(noise, ratio):
    """A Laplace law is stated by its scale."""
    synthesizer = clone(WAYS["pategan"]).set_params(noise=noise)
    where = "skdpsynth.synthesizers._pategan.told_by_labels"
    with mock.patch(where, side_effect=told_by_labels) as told:
        _, seen = watched(synthesizer, table_of("pategan"))
    stds = [call.args[3] for call in told.call_args_list]
    stated = [own.line.noise_std for own in seen if own.family == LABELS]
    assert stds == pytest.approx([ratio * std for std in stated], rel=1e-6)


def test_rounds_do_not_depend_on_unanimous_or_split_votes(monkeypatch):
    """No data-dependent stop: the ledger is the same whatever the teachers say."""
    reports = []
    for share in (0.0, 0.5, 1.0):

        def votes_of(self, rows, *features, share=share):
            said = torch.full((self._n_teachers, len(rows)), -1.0)
            said[: int(share * self._n_teachers)] = 1.0
            return said

        for kind in (LinearTeachers, TeacherEnsemble):
            monkeypatch.setattr(kind, "logits", votes_of)
        fitted = clone(WAYS["pategan laplace"]).fit(TABLE)
        reports.append(fitted.privacy_report().to_dict())
    assert reports[0] == reports[1] == reports[2]


def test_a_random_model_says_that_it_learns_nothing():
    synthesizer = GPATESynthesizer(
        1e-3, init="random", n_iter=2, schema=correlated_schema()
    )
    assert synthesizer.plan(200)["note"].all()
    with pytest.warns(DegradedResultWarning):
        synthesizer.fit(correlated_table(200))
    assert len(synthesizer.sample(100).dropna()) == 100
