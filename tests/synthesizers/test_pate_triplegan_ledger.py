"""PATE-TripleGAN's privacy argument: ledger and noise, with twins that are caught.

Ledger: all that is reserved is drawn, and both kinds of rows pay what is claimed.
Noise: it has the size of the ledger. Influence and flow are in
`test_pate_triplegan_privacy.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binomtest, chi2

from skdpsynth import PATETripleGANSynthesizer
from skdpsynth.exceptions import ReservationError
from skdpsynth.nn import (
    _branch,
    _classifier,
    _clipping,
    _discriminator,
    _dp_sgd,
    _teachers,
)
from skdpsynth.privacy import _aggregators, _mechanisms
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import (
    _pate_triplegan_classifier,
    _pate_triplegan_players,
)

pytestmark = [
    pytest.mark.usefixtures("short_fits"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear"),
    "b": Continuous(-6, 6, nullable=True, scale="linear"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 900, "v": 600})
SMALL = {
    "n_iter": 3,
    "n_teachers": 12,
    "batch_size": 8,
    "n_generator_steps": 2,
    "n_student_steps": 2,
    "latent_dim": 2,
    "epsilon": 4.0,
    "delta": DELTA,
    "random_state": 0,
}
BRANCH, CLASSIFIER = "unlabelled rows' gradients", "classifier's gradients"
CLIPS = {BRANCH: 0.5, "discriminator's gradients": 0.5, CLASSIFIER: 1.0}
FLOAT_RELEASES = (_branch, _classifier, _dp_sgd)
FACTORS = {"init": "marginals"}
MODES = [{}, {"desensitization": "dpsgd"}]


def make_table(n_rows=200, seed=0, unlabelled=0.3):
    rng = np.random.default_rng(seed)
    label = rng.random(n_rows) < 0.4
    a = rng.normal(size=n_rows)
    b = np.where(label, -a, a) + 0.4 * rng.normal(size=n_rows)
    b[rng.random(n_rows) < 0.1] = np.nan
    names = np.where(label, "v", "u").astype(object)
    names[rng.random(n_rows) < unlabelled] = None
    return pd.DataFrame(
        {
            "a": a + label,
            "b": b,
            "c": np.array(["p", "q", "r"])[rng.integers(3, size=n_rows)],
            "y": names,
        }
    )


def fit(table, **parameters):
    settings = SMALL | {"schema": COUNTED} | parameters
    return PATETripleGANSynthesizer(**settings).fit(table)


# --- Ledger ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("unlabelled", [0.0, 0.3, 1.0])
def test_all_that_is_reserved_is_drawn_whether_or_not_rows_lack_labels(
    unlabelled, mode
):
    synthesizer = fit(make_table(unlabelled=unlabelled), **mode)
    entries = synthesizer.privacy_report().entries
    assert all(entry.used == entry.releases > 0 for entry in entries)
    full = fit(make_table(), **mode).privacy_report().entries
    lines, full_lines = (  # how many cells a table has follows from the marginals
        [(e.name.split(",")[0], e.mu_total, e.releases) for e in part]
        for part in (entries, full)
    )
    assert lines == full_lines
    assert BRANCH in {entry.name for entry in entries}


@pytest.mark.parametrize("mode", [*MODES, FACTORS], ids=str)
def test_both_kinds_of_rows_pay_no_more_than_the_cap(mode):
    """By hand: Gaussian costs add up in squares. Unlabelled rows pay all they have."""
    report = fit(make_table(), **mode).privacy_report()
    assert 3.99 < report.epsilon <= 4.0
    paid = [
        math.sqrt(sum(e.mu_total**2 for e in report.entries if e.scope in payers))
        for payers in ({"all rows", "class u"}, {"all rows", "rows without a label"})
    ]
    assert max(paid) <= report.mu * (1 + 1e-9)
    assert min(paid) > 0.9 * report.mu


def test_every_vote_is_charged(monkeypatch):
    real, asked = _pate_triplegan_players.noisy_votes, []

    def keep(counts, n_teachers, reservation):
        asked.append((reservation.scope, len(counts), n_teachers))
        return real(counts, n_teachers, reservation)

    monkeypatch.setattr(_pate_triplegan_players, "noisy_votes", keep)
    fit(make_table())
    assert sorted(asked) == [("u", 8, 12)] * 3 + [("v", 8, 12)] * 3


def test_more_votes_than_reserved_cannot_be_had(monkeypatch):
    """The twin that asks twice per round runs out; nothing is drawn unpaid."""

    def twice(votes, n_teachers, reservation):
        _aggregators.noisy_votes(votes, n_teachers, reservation)
        return _aggregators.noisy_votes(votes, n_teachers, reservation)

    monkeypatch.setattr(_pate_triplegan_players, "noisy_votes", twice)
    with pytest.raises(ReservationError):
        fit(make_table())


# --- Noise -----------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 0.7, 0.0])
def test_the_noise_of_gradients_has_the_size_of_the_ledger(factor, monkeypatch):
    """Two-sided chi-square tests at 1e-6 on each of three releases.

    Noise of 0.7 sigma, and none, are caught.
    """
    noise = {}

    def spy(total, clip, reservation):
        noisy = total + factor * (
            _mechanisms.release_float_gaussian(total, clip, reservation) - total
        )
        scaled = (noisy - total) / (clip * reservation.noise_std)
        noise.setdefault(reservation.name, []).append(scaled)
        return noisy

    for module in FLOAT_RELEASES:
        monkeypatch.setattr(module, "release_float_gaussian", spy)
    fit(make_table(), n_iter=40, n_generator_steps=1, desensitization="dpsgd")
    assert set(noise) == set(CLIPS)
    for name, parts in noise.items():
        values = np.concatenate([part.ravel() for part in parts])
        assert values.size > (20 if name == CLASSIFIER else 200)
        low, high = chi2.ppf([5e-7, 1 - 5e-7], values.size)
        right = bool(low < (values**2).sum() < high)
        if factor in (0.0, 1.0) or name != CLASSIFIER:  # too few numbers for 0.7
            assert right == (factor == 1.0)


def test_infinite_epsilon_draws_no_noise(monkeypatch):
    stds = []

    def spy(total, clip, reservation):
        stds.append(reservation.noise_std)
        noisy = _mechanisms.release_float_gaussian(total, clip, reservation)
        np.testing.assert_array_equal(noisy, total)
        return noisy

    for module in FLOAT_RELEASES:
        monkeypatch.setattr(module, "release_float_gaussian", spy)
    for mode in MODES:
        synthesizer = fit(make_table(), epsilon=math.inf, **mode)
        assert synthesizer.epsilon_ == math.inf
    assert set(stds) == {0.0}


def near_tie(self, rows, features):
    """Say yes by 120 of 200 teachers."""
    said = torch.full((self._n_teachers, len(rows)), -1.0)
    said[: 3 * self._n_teachers // 5] = 1.0
    return said


def only_if_sure(counts, reservation):
    """Twin: the paper's test of the largest vote, unpaid; the others count as no."""
    sure = np.maximum(counts, 200 - counts) > 0.7 * 200
    return sure & _mechanisms.release_votes(counts, reservation)


def without_threshold(counts, reservation):
    """Twin: any noisy yes is a yes, not a majority of them."""
    return _mechanisms.release_votes(np.minimum(counts + 100, 200), reservation)


def without_noise(counts, reservation):
    """Twin: the exact majority, drawn down and charged all the same."""
    _mechanisms.release_votes(counts, reservation)
    return 2 * counts > 200


def with_half_the_noise(counts, reservation):
    """Twin: twice as far from the tie, which is the same as half the noise."""
    return _mechanisms.release_votes(2 * counts - 100, reservation)


@pytest.mark.parametrize(
    "twin",
    [None, only_if_sure, without_threshold, without_noise, with_half_the_noise],
)
def test_a_vote_is_a_majority_with_the_noise_of_the_ledger(twin, monkeypatch):
    """2,000 labels for 120 of 200 votes; two-sided exact binomial test at 1e-6.

    The probability of a label is summed from the masses of the discrete Gaussian.
    """
    answers = []

    def keep(counts, reservation):
        said = (twin or _mechanisms.release_votes)(counts, reservation)
        assert set(counts) == {120}
        answers.append((int(said.sum()), reservation.noise_std))
        return said

    monkeypatch.setattr(_aggregators, "release_votes", keep)
    monkeypatch.setattr(_pate_triplegan_players.TeacherEnsemble, "logits", near_tie)
    fit(make_table(), n_iter=1, n_teachers=200, batch_size=2000, epsilon=40.0)
    assert len(answers) == 2  # classes
    for ones, std in answers:
        values = np.arange(-4000, 4001)
        masses = np.exp(-((values / std) ** 2) / 2)
        expected = float(masses[values > 100 - 120].sum() / masses.sum())
        assert 0.55 < expected < 0.9
        found = binomtest(ones, 2000, expected).pvalue
        assert (found > 1e-6) == (twin is None)


def drawn_by(monkeypatch, name):
    """Fit with a fixed random_state; give what two generators of secrets drew first.

    Samples are drawn at a fixed rate, whatever was bought: nothing but the generators
    themselves can make two fits differ.
    """
    drawn, generators, sampled = [], [], name == "poisson_sample"

    def keep(n_rows, number, rng):
        number = 0.3 if sampled else number
        chosen = originals[0](n_rows, number, rng)
        if not any(rng is known for known in generators):
            generators.append(rng)
            # How many rows a player sees may follow from noisy votes: the first only.
            drawn.append(chosen[chosen < 40] if sampled else chosen[:40])
        return chosen

    modules = (_teachers, _clipping, _branch, _classifier, _discriminator)
    users = [m for m in (*modules, _pate_triplegan_players) if hasattr(m, name)]
    originals = [getattr(module, name) for module in users]
    with monkeypatch.context() as patch:
        for module in users:
            patch.setattr(module, name, keep)
        fit(make_table(400), random_state=3, batch_size=8)
    return np.concatenate(drawn[:2])  # how many there are follows from noisy votes


@pytest.mark.parametrize("name", ["assign_teachers", "poisson_sample"])
def test_random_state_draws_no_secret(monkeypatch, name):
    """Who teaches, and who is in a sample: equal by chance below 1e-10."""
    first, second = (drawn_by(monkeypatch, name) for _ in range(2))
    assert len(first) > 2
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("name", ["assign_teachers", "poisson_sample"])
def test_a_twin_that_draws_secrets_with_random_state_is_seen(monkeypatch, name):
    for module in (_pate_triplegan_players, _pate_triplegan_classifier):
        monkeypatch.setattr(
            module, "secret_generator", lambda: np.random.default_rng(3)
        )
    first, second = (drawn_by(monkeypatch, name) for _ in range(2))
    assert np.array_equal(first, second)
