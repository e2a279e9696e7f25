"""The white-box audit of one mechanism: the package's pass, broken ones do not."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from _reserve import exact, release_gaussian
from scipy.stats import binom

import skdpsynth.audit
from skdpsynth.audit import audit_mechanism

# The exact tests behind the findings.
from skdpsynth.audit._noise import flip_rates, noise_test, smallest_ratio, vote_test
from skdpsynth.privacy import GRID, PrivacyAccountant, release_float_gaussian
from skdpsynth.privacy.statistics import gaussian_sum, noisy_histogram, noisy_votes
from skdpsynth.training import ClippedSums

pytestmark = pytest.mark.statistical

CLIP = 0.25
LAW = 25, 9.0, "gaussian vote"  # teachers, noise and kind
ledger = partial(PrivacyAccountant, 1.0, 1e-5)


def reserve(sensitivity=1.0, mu=0.2):
    return ledger().reserve_gaussian("g", mu=mu, sensitivity=sensitivity)


def reserve_votes(noise="gaussian"):
    return ledger().reserve_votes("v", mu=0.04, n_teachers=25, noise=noise)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_flip_rates_are_those_of_the_sampler(noise):
    """4,000 draws of the real mechanism for each of 10 counts; 6 sigma of each."""
    counts, n = np.arange(8, 18), 4_000
    reservation = reserve_votes(noise)
    rates = flip_rates(counts, 25, reservation.noise_std, reservation.kind)
    asked = n * len(counts)
    line = PrivacyAccountant(1e3, 1e-5).reserve_votes(
        "v", mu=reservation.mu, n_teachers=25, count=asked, noise=noise
    )
    assert line.noise_std == pytest.approx(reservation.noise_std)
    answers = noisy_votes(np.tile(counts, n), 25, line).reshape(n, -1)
    flips = (answers != (2 * counts > 25)).mean(axis=0)
    assert (np.abs(flips - rates) <= 6 * np.sqrt(rates * (1 - rates) / n)).all()


def test_the_vote_test_has_the_law_of_a_sum_of_coins():
    """Two kinds of counts: the law by brute force over both numbers of flips."""
    counts = np.repeat([10, 14], [6, 5])
    rates = flip_rates(np.array([10, 14]), *LAW)
    joint = np.zeros(12)
    for i in range(7):
        for j in range(6):
            joint[i + j] += binom.pmf(i, 6, rates[0]) * binom.pmf(j, 5, rates[1])
    for flips in range(12):
        answers = 2 * counts > 25
        answers[:flips] = ~answers[:flips]
        ratio, p_value = vote_test(counts, answers, *LAW)
        expected = min(1.0, 2 * min(joint[: flips + 1].sum(), joint[flips:].sum()))
        assert p_value == pytest.approx(expected)
        assert ratio == pytest.approx(flips / (6 * rates[0] + 5 * rates[1]))
    assert vote_test(counts[:0], counts[:0] > 0, *LAW)[1] == 1


def test_the_noise_test_is_exact():
    """p-values of normal noise are uniform: 2,000 of them, by their quarters."""
    rng = np.random.default_rng(0)
    p_values = [noise_test(rng.normal(size=20))[1] for _ in range(2000)]
    quarters = np.bincount((4 * np.array(p_values)).astype(int).clip(0, 3))
    assert (np.abs(quarters - 500) < 6 * math.sqrt(2000 * 3 / 16)).all()
    assert noise_test(np.empty(0))[1] == 1


def test_power_is_the_chance_of_rejection():
    """Noise of the ratio named is rejected 8 times in 10, of 3,000 tries."""
    ratio, rng = smallest_ratio(200, 1e-6), np.random.default_rng(1)
    noise = ratio * rng.normal(size=(3000, 200))
    rejected = np.mean([noise_test(row)[1] < 1e-6 for row in noise])
    assert rejected == pytest.approx(0.8, abs=0.04)
    assert smallest_ratio(0, 1e-6) == 0


def histogram(codes, reservation):
    return np.concatenate(noisy_histogram(codes, [3, 2], reservation))


def summed(vectors, reservation):
    return gaussian_sum(vectors, CLIP, reservation)


def step(gradients, reservation):
    """A score whose gradient, by the weights, is the row itself."""
    sums = ClippedSums(torch.nn.Linear(3, 1, bias=False), CLIP)
    total = sums.of_private(torch.from_numpy(gradients), lambda x: x, torch.ravel)
    return release_float_gaussian(total.numpy(), CLIP, reservation)


def votes(counts, reservation):
    return noisy_votes(counts, 25, reservation)


CODES = np.array([[0, 1], [2, 0], [1, 1]])
OPPOSITE = np.array([[0.0, 9.0, 0.0], [1.0, 0.0, 0.0]])
TURNED = OPPOSITE, OPPOSITE * [[1], [-1]]  # one teacher turns round
QUERIES = np.repeat([12, 0], 10), np.repeat([13, 1], 10)
OF_2C = partial(reserve, 2 * GRID)
# A mechanism, its inputs, what reserves for it, and its unit.
CASES = {
    "histogram": (histogram, (CODES, CODES[:2]), partial(reserve, 2**0.5), 1.0),
    "sum": (summed, TURNED, OF_2C, CLIP / GRID),
    "step": (
        *(step, (9 * OPPOSITE, 9 * OPPOSITE[:1])),
        lambda: ledger().reserve_sampled_gaussian("s", mu=0.2, sampling_rate=0.1),
        CLIP,
    ),
    "votes": (votes, QUERIES, reserve_votes, 1.0),
    "laplace votes": (votes, QUERIES, partial(reserve_votes, "laplace"), 1.0),
}


def audited(name, mechanism=None, reservation=None, **settings):
    real, pair, make, unit = CASES[name]
    settings = {"unit": unit, "n_draws": 400} | settings
    reservation = reservation or make()
    return audit_mechanism(mechanism or real, *pair, reservation, **settings)


@pytest.mark.parametrize("sigma", [3.0, 8.0])
def test_single_whole_numbers_are_rejected_no_more_often_than_they_should(sigma):
    """By the law of the discrete Gaussian: no draw, no luck. 20 zeros are rejected."""
    noise = np.arange(-12 * sigma, 12 * sigma + 1) / sigma
    law = np.exp(-(noise**2) / 2)
    p_values = [
        noise_test(noise[i : i + 1], step=1 / sigma)[1] for i in range(len(law))
    ]
    for level in (0.05, 1e-3, 1e-6, 1e-9):
        assert law[np.array(p_values) < level].sum() / law.sum() <= level
    assert noise_test(np.zeros(20), step=1 / sigma)[1] < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_the_package_agrees_with_its_ledger(name):
    """p-values at 1e-6. These pairs attain the sensitivity."""
    reservation = CASES[name][2]()
    found = audited(name, reservation=reservation)
    (line,) = found.lines
    assert found.findings == ()
    assert line.shift == pytest.approx(1.0, rel=1e-5)
    assert reservation.used == 0  # it was a pattern only
    assert line.reserved == reservation.count
    assert line.charged == line.drawn == (8000 if "votes" in name else 400)
    assert "found no violation" in str(found)


def exact_sum(vectors):
    """Sum clipped vectors in units of the ledger."""
    return np.rint(summed(vectors, exact(2 * GRID)) * GRID / CLIP).astype(np.int64)


def less_noise(factor):
    """A twin that charges what it should, and has a share of the noise."""

    def less(vectors, reservation):
        exact = exact_sum(vectors) * CLIP / GRID
        return exact + factor * (summed(vectors, reservation) - exact)

    return less


def not_charged(vectors, reservation):
    noise = np.random.default_rng().normal(0, reservation.noise_std, 3)
    return (exact_sum(vectors) + noise) * CLIP / GRID


def own_noise(vectors, reservation):
    """Draws noise of its own size, whatever the ledger says."""
    noise = np.random.default_rng().normal(0, 3e6, 3)
    return summed(vectors, reservation) + noise * CLIP / GRID


def charged_twice(vectors, reservation):
    summed(vectors, reservation)
    return summed(vectors, reservation)


@pytest.mark.parametrize(
    ("twin", "words"),
    [
        (less_noise(0.5), "times the ledger's (p ="),
        (less_noise(0.0), "the noise is 0 times"),
        (not_charged, "400 releases were made, but 0 were charged"),
        (charged_twice, "800 were charged"),
        (own_noise, "noise is drawn where the reservation has none"),
    ],
)
def test_broken_sums_are_caught(twin, words):
    found = audited("sum", twin)
    assert found.violated
    assert words in " ".join(found.findings)
    assert "Contradiction" in str(found)


def spared_direction(counts, reservation):
    """Noise of the ledger's size, but none where the row moves the counts."""
    noise = (release_gaussian(counts, reservation) - counts).astype(np.float64)
    noise[0] = 0.0
    return counts + noise * math.sqrt(len(counts) / (len(counts) - 1))


def test_noise_that_spares_the_direction_of_the_row_is_caught():
    """The squares add up as they should: guesses alone show it, all of them right."""
    pair = np.zeros(20, dtype=np.int64), np.eye(1, 20, dtype=np.int64)[0]
    reservation = reserve()
    sound = audit_mechanism(release_gaussian, *pair, reservation)
    assert not sound.violated
    assert sound.lines[0].mu_lower_bound < reservation.mu
    found = audit_mechanism(spared_direction, *pair, reservation)
    assert found.lines[0].noise_ratio == pytest.approx(1.0, abs=0.05)
    assert found.lines[0].mu_lower_bound > 4
    (finding,) = found.findings
    assert "guesses by the release show a mu above" in finding


def unchecked(vectors, reservation):
    return release_gaussian(exact_sum(vectors), reservation) * (CLIP / GRID)


def test_a_reservation_for_c_where_2c_is_due_is_caught():
    """A teacher that turns round moves the sum by 2C."""
    found = audited("sum", unchecked, reserve(GRID))
    assert found.lines[0].shift == pytest.approx(2.0, rel=1e-5)
    assert found.violated


def of_floats(values, reservation):
    return release_float_gaussian(values.astype(np.float64), 1.0, reservation)


def test_a_row_is_in_its_sample():
    """What is charged is for a row that is in one of 100 samples, and this one is.

    The claim is that of the noise itself: with half of it the guesses are too good.
    4,000 are 8 sigma off where that fails by chance.
    """
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6, amplified=True)
    reservation = accountant.reserve_sampled_gaussian(
        "sums", mu=0.05, sampling_rate=0.01, tail_delta=1e-7
    )
    pair = np.array([0]), np.array([int(reservation.sensitivity)])
    claimed = reservation.sensitivity / reservation.noise_std
    assert claimed > 10 * reservation.mu

    def quiet(values, line):
        return values + (of_floats(values, line) - values) / 2

    sound = audit_mechanism(of_floats, *pair, reservation, n_draws=4000)
    assert not sound.violated, sound.findings
    assert sound.lines[0].mu_lower_bound > 5 * reservation.mu
    broken = audit_mechanism(quiet, *pair, reservation, n_draws=4000)
    assert "guesses by the release" in broken.findings[-1]


def two_noises(counts, reservation):
    """U3: a noise of each side where one is charged: too much, not too little."""
    votes(counts, reservation)
    noise = np.random.default_rng().normal(0, reservation.noise_std, (2, len(counts)))
    return 2 * (counts + noise[0] - noise[1]) > 25


def certain(counts, reservation):
    votes(counts, reservation)
    return 2 * counts > 25


@pytest.mark.parametrize("twin", [two_noises, certain])
def test_broken_votes_are_caught(twin):
    """30,000 answers to two kinds of queries: 9 sigma, and more."""
    found = audited("votes", twin, n_draws=1500)
    assert found.violated
    assert "answers against the majority" in found.findings[0]


def test_a_row_with_two_votes_is_caught():
    pair = np.array([12]), np.array([14])
    found = audit_mechanism(votes, *pair, reserve_votes(), n_draws=100)
    assert "the row moves a release by 2 times" in found.findings[0]


@pytest.mark.parametrize("bad", [{"unit": 0.0}, {"n_draws": 1}, {"alpha": 1.0}])
def test_parameters_out_of_range(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be"):
        audited("sum", **bad)


def test_without_noise_there_is_no_bound():
    accountant = PrivacyAccountant(math.inf, 1e-5)
    reservation = accountant.reserve_gaussian("g", mu=math.inf, sensitivity=1.0)
    pair = np.array([1, 2]), np.array([2, 2])
    found = audit_mechanism(release_gaussian, *pair, reservation)
    assert math.isnan(found.lines[0].noise_ratio)
    assert not found.violated


def test_what_a_result_was_is_deprecated():
    """The fields of its line, its class, and a parameter that went."""
    with pytest.warns(FutureWarning, match="delta is deprecated since 0.3"):
        found = audited("sum", delta=1e-5)
    with pytest.warns(FutureWarning, match=r"Read lines\[0\].noise_ratio"):
        assert found.noise_ratio == found.lines[0].noise_ratio
    with pytest.warns(FutureWarning, match="returns a LedgerAudit"):
        assert isinstance(found, skdpsynth.audit.MechanismAudit)
    with pytest.raises(AttributeError, match="'residuals'"):
        found.residuals  # noqa: B018
