"""PATE-GAN's privacy argument: ledger and noise, with broken twins that are caught.

Ledger: what was drawn is what was planned. Noise: it has the size that the ledger says.
Influence, flow, and the list of known defects are in `test_pategan_privacy.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _small_table import make_table
from scipy.stats import binomtest

from skdpsynth import PATEGANSynthesizer
from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import _aggregators, _mechanisms, _tables
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import _pategan

pytestmark = [
    pytest.mark.usefixtures("short_fits"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})
SMALL = {
    "batch_size": 16,
    "n_student_steps": 3,
    "n_generator_steps": 3,
    "n_iter": 3,
    "latent_dim": 2,
    "random_state": 0,
    "delta": DELTA,
}
LABELS = "labels by vote"
GRID = 5e-5  # of losses: what it rounds up adds to what is found, vote by vote


def fit(table, **parameters):
    return PATEGANSynthesizer(**(SMALL | {"schema": COUNTED} | parameters)).fit(table)


# --- Ledger ----------------------------------------------------------------------


def fit_spied(monkeypatch, **parameters):
    """Fit, and list every release: its name, class, number, noise and teachers."""
    draws = []

    def spy_on(home, name):
        real = getattr(home, name)

        def spy(values, reservation, n_releases=1):
            votes = name == "release_votes"
            answers = real(values, reservation, *([] if votes else [n_releases]))
            n = len(values) if votes else n_releases
            draws.append((reservation, n, values.copy(), answers))
            return answers

        monkeypatch.setattr(home, name, spy)

    spy_on(_aggregators, "release_gaussian")
    spy_on(_tables, "release_gaussian")
    spy_on(_aggregators, "release_votes")
    return fit(make_table(), **parameters), draws


def test_the_ledger_is_the_plan_and_all_is_used(monkeypatch):
    synthesizer, draws = fit_spied(monkeypatch)
    plan = synthesizer.plan(class_counts={"u": 90, "v": 60}).set_index("class")
    for scope in ("u", "v"):
        labels = [d for d in draws if d[0].name == LABELS and d[0].scope == scope]
        assert sum(n for _, n, _, _ in labels) == 3 * 16
        for reservation, *_ in labels:
            planned = plan["step_noise_std"][scope]
            assert reservation.noise_std == pytest.approx(planned, rel=1e-6)
        assert {d[0].n_teachers for d in labels} == {plan["n_teachers"][scope]}
    names = [entry.name for entry in synthesizer.privacy_report().entries]
    assert names.index(LABELS) < names.index("marginals")
    for entry in synthesizer.privacy_report().entries:
        assert entry.used == entry.releases > 0


def discrete_tails(scale, noise):
    """P(noise >= j) for all j near 0, summed from the masses."""
    values = np.arange(-int(60 * scale) - 200, int(60 * scale) + 201)
    power = (values / scale) ** 2 / 2 if noise == "gaussian" else np.abs(values) / scale
    mass = np.exp(-power)
    return dict(zip(values, np.cumsum((mass / mass.sum())[::-1])[::-1], strict=True))


def losses_of_votes(scale, n_votes, n_teachers, noise):
    """Compose votes about a tie, where one tells most; not where a row moves it."""
    from dp_accounting.pld import privacy_loss_distribution

    tails, half = discrete_tails(scale, noise), n_teachers // 2
    few, many = (tails[half + 1 - n] for n in (half, half + 1))
    logs = [{"yes": math.log(p), "no": math.log1p(-p)} for p in (few, many)]
    return privacy_loss_distribution.from_two_probability_mass_functions(
        *logs, value_discretization_interval=GRID, symmetric=False
    ).self_compose(n_votes)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("epsilon", "init"), [(1.0, "marginals"), (4.0, "marginals"), (4.0, "pairs")]
)
def test_epsilon_by_own_arithmetic_is_what_was_asked_for(
    epsilon, init, noise, proven_sensitivities, monkeypatch
):
    """All draws of a class, composed here by their laws and sensitivities.

    That votes cannot be asked so that they tell more is in `privacy/test_blocks.py`.
    """
    from dp_accounting.pld import privacy_loss_distribution

    def squared(name, scope):
        if "pair tables" in name:
            return 3.0
        return proven_sensitivities[name][scope] ** 2

    settings = {"epsilon": epsilon, "noise": noise, "init": init}
    synthesizer, draws = fit_spied(monkeypatch, **settings)
    assert (init == "measured") == any("pair tables" in d[0].name for d in draws)
    for scope in ("u", "v"):
        paid = [draw for draw in draws if draw[0].scope in (None, scope)]
        # A row is in one cell of the table of each pair of three columns.
        mu_squared = sum(
            n * squared(line.name, scope) / (line.noise_std**2 - 4)
            for line, n, _, _ in paid
            if line.name != LABELS
        )
        (line,) = {draw[0] for draw in paid if draw[0].name == LABELS}
        n_votes = sum(n for own, n, _, _ in paid if own is line)
        found = (
            privacy_loss_distribution.from_gaussian_mechanism(
                mu_squared**-0.5, value_discretization_interval=GRID
            )
            .compose(losses_of_votes(line.noise_std, n_votes, line.n_teachers, noise))
            .get_epsilon_for_delta(DELTA)
        )
        assert 0.93 * epsilon <= found <= epsilon
    assert synthesizer.epsilon_ <= epsilon


def test_votes_are_read_once_and_only_by_the_mechanism(monkeypatch):
    """Opinions are asked for once per round; each set goes into one release."""
    asked = []
    real = _pategan.TeacherEnsemble.logits

    def count(self, rows, features):
        asked.append(len(rows))
        return real(self, rows, features)

    monkeypatch.setattr(_pategan.TeacherEnsemble, "logits", count)
    _, draws = fit_spied(monkeypatch)
    assert asked == [d[1] for d in draws if d[0].name == LABELS] == [16] * 6


def test_more_labels_than_reserved_cannot_be_had(monkeypatch):
    """The twin that asks twice per round runs out; nothing is drawn unpaid."""

    def twice(votes, n_teachers, reservation):
        _aggregators.noisy_votes(votes, n_teachers, reservation)
        return _aggregators.noisy_votes(votes, n_teachers, reservation)

    monkeypatch.setattr(_pategan, "noisy_votes", twice)
    with pytest.raises(ReservationError):
        fit(make_table())


# --- Noise -----------------------------------------------------------------------


def flips(monkeypatch, noise, scale_by=None):
    """Labels of one fit whose teachers all but tie; with the noise's planned scale."""
    if scale_by is not None:
        for name in ("_measurement", "_laplace_measurement"):
            real = getattr(_mechanisms, name)
            monkeypatch.setattr(
                _mechanisms, name, lambda scale, real=real: real(scale_by(scale))
            )

    def near_tie(self, rows, features):
        said = torch.full((self._n_teachers, len(rows)), -1.0)
        said[: 3 * self._n_teachers // 5] = 1.0
        return said

    monkeypatch.setattr(_pategan.TeacherEnsemble, "logits", near_tie)
    settings = {"batch_size": 2000, "n_iter": 1, "n_teachers": 200, "epsilon": 20.0}
    _, draws = fit_spied(monkeypatch, noise=noise, **settings)
    (draw,) = [d for d in draws if d[0].name == LABELS and d[0].scope == "u"]
    assert set(draw[2]) == {120}
    return int(draw[3].sum()), draw[0].noise_std


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("scale_by", "right"),
    [(None, True), (lambda s: s / 2, False), (lambda s: 1 / s, False)],
    ids=["as planned", "halved", "inverse"],
)
def test_the_noise_of_a_vote_is_what_the_ledger_says(
    noise, scale_by, right, monkeypatch
):
    """2,000 labels for 120 of 200 votes; two-sided exact binomial test at 1e-6.

    The probability of a label is summed from the masses of the discrete noise. The
    twins draw half the noise (O3, T2), or take the scale for its inverse (U2).
    """
    said_real, scale = flips(monkeypatch, noise, scale_by)
    expected = discrete_tails(scale, noise)[101 - 120]
    assert 0.6 < expected < 0.9
    found = binomtest(said_real, 2000, expected).pvalue
    assert (found > 1e-6) == right


def test_infinite_epsilon_draws_no_noise(monkeypatch):
    _, draws = fit_spied(monkeypatch, epsilon=math.inf)
    labels = [d for d in draws if d[0].name == LABELS]
    assert len(labels) == 6
    for reservation, _, votes, answers in labels:
        assert reservation.noise_std == 0
        np.testing.assert_array_equal(answers, 2 * votes > reservation.n_teachers)
