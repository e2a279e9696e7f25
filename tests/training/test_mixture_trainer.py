"""The mixture in training: what it draws, how updates move it, and what holds it."""

import math
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from scipy.linalg import svd
from scipy.stats import chi2

from skdpsynth.measure import PairTables
from skdpsynth.model import Components, Heads, Mixture, ReleasedClass
from skdpsynth.training import BinScores, MixtureTrainer, on_device

STARTS = np.array([0, 3, 5, 9])
D, N_COMPONENTS, N_ROWS = 9, 6, 5000.0
CPU = torch.device("cpu")
TENSORS = on_device(CPU)
EVERY = np.triu(np.ones((3, 3), dtype=bool), 1)  # pair of columns


def make_mixture(seed=0, n_components=N_COMPONENTS):
    """Components that differ much; no bin is rare."""
    rng = np.random.default_rng(seed)
    parts = [
        rng.dirichlet(np.full(b - a, 2.0), size=n_components)
        for a, b in pairwise(STARTS)
    ]
    weights = rng.dirichlet(np.full(n_components, 5.0))
    return Mixture(weights, np.hstack(parts).astype(np.float32), np.zeros((2, D)))


def joint_of(mixture):
    """Probability of each pair of bins, 0 for those of one column; and the shares."""
    probabilities = mixture.probabilities.astype(np.float64)
    joint = (mixture.weights[:, None] * probabilities).T @ probabilities
    for a, b in pairwise(STARTS):
        joint[a:b, a:b] = 0.0
    return joint, mixture.weights @ probabilities


def make_released(mixture):
    """Exact tables of a mixture, as if they had been measured."""
    joint, shares = joint_of(mixture)
    measured = np.triu(joint > 0)
    counts = np.where(measured, N_ROWS * joint, 0.0).astype(np.float32)
    tables = PairTables(counts, EVERY, 5.0, N_ROWS)
    return ReleasedClass(STARTS, shares, 5.0, tables, arrays=TENSORS)


def components_of(mixture):
    """Give the parameters of a mixture, in which every bin has its own logit."""
    heads = Heads(STARTS, np.full(D, np.nan), TENSORS)
    logs = np.log(mixture.probabilities.astype(float))
    home = np.broadcast_to(np.log(joint_of(mixture)[1]), logs.shape)
    unit = heads(torch.eye(D), torch.zeros(D, D))
    unit = float((unit[0, 0] / unit[0, 1]).log())  # of a logit
    return Components(np.log(mixture.weights), (logs - home) / unit, home, heads, 1)


def scores_of(mixture):
    """Return the scores where the tables of all pairs were measured."""
    return BinScores.fit(mixture, STARTS, EVERY)


def make_trainer(mixture=None, *, seed=0, n_steps=20):
    mixture = mixture or make_mixture()
    return MixtureTrainer(
        components_of(mixture),
        mixture.ranks,
        scores_of(mixture),
        make_released(mixture),
        n_steps=n_steps,
        learning_rate=0.1,
        generator=torch.Generator().manual_seed(seed),
        device=CPU,
    )


def test_scores_of_bins_are_those_of_correspondence_analysis():
    """Of a column against all others: the first singular vector, up to the sign."""
    mixture = make_mixture()
    table, (joint, shares) = scores_of(mixture).table, joint_of(mixture)
    for j, (a, b) in enumerate(pairwise(STARTS)):
        others = np.r_[0:a, b:D]
        residuals = joint[a:b][:, others] - np.outer(shares[a:b], shares[others])
        residuals /= np.sqrt(np.outer(shares[a:b], shares[others]))
        expected = svd(residuals)[0][:, 0] / np.sqrt(shares[a:b])
        expected *= np.sign(expected @ table[a:b, j])
        np.testing.assert_allclose(table[a:b, j], expected, atol=1e-4)


def test_columns_with_one_bin_or_that_depend_on_nothing_have_finite_scores():
    shares, starts = np.array([[1.0, 0.2, 0.3, 0.5]]), np.array([0, 1, 4])
    mixture = Mixture(np.ones(1), shares, np.zeros((2, 4)))
    scores = BinScores.fit(mixture, starts, np.zeros((2, 2), dtype=bool))
    assert not scores.table[:, scores.columns == 0].any()
    table = scores.table[1:, scores.columns == 1]
    np.testing.assert_allclose(shares[0, 1:] @ table**2, 1.0)


def test_pairs_without_a_table_have_products_of_more_scores():
    """Columns of 3, 2 and 4 bins have 2, 1 and 3 scores, without a constant."""
    mixture, n_of = make_mixture(), [2, 1, 3]
    for measured, most, expected in (
        (EVERY, 500, 3),
        (np.eye(3, k=1) > 0, 500, 2 + 2 * 3),
        (~EVERY, 500, 2 * 1 + 2 * 3 + 1 * 3),
        (~EVERY, 10, 2 * 1 + 2 * 2 + 1 * 2),  # of two scores each
        (~EVERY, 0, 3),
    ):
        scores = BinScores.fit(mixture, STARTS, measured, most)
        first, second = scores.products
        assert len(first) == expected
        assert (scores.columns[first] < scores.columns[second]).all()
        assert (np.bincount(scores.columns, minlength=3) <= n_of).all()
        # Scores of a column do not depend on each other.
        covariance = scores.table.T @ (joint_of(mixture)[1][:, None] * scores.table)
        same = scores.columns[:, None] == scores.columns
        np.testing.assert_allclose(covariance[same], np.eye(len(same))[same], atol=1e-4)


def test_rows_have_the_probabilities_of_the_mixture(global_random_seed):
    """n = 40,000: chi-square tests of each of 3 tables of pairs.

    False alarms at 3e-7 each, below 1e-6 in all.
    """
    trainer, n_rows = make_trainer(seed=global_random_seed), 40_000
    rows = trainer.rows(trainer.draw(n_rows)).numpy()
    table, (joint, _) = (scores_of(make_mixture()).table, joint_of(make_mixture()))
    bins = [
        np.abs(rows[:, [j]] - table[a:b, j]).argmin(axis=1) + a
        for j, (a, b) in enumerate(pairwise(STARTS))
    ]
    for j, k in ((0, 1), (0, 2), (1, 2)):
        expected = n_rows * joint[STARTS[j] : STARTS[j + 1], STARTS[k] : STARTS[k + 1]]
        found = np.zeros((D, D))
        np.add.at(found, (bins[j], bins[k]), 1)
        found = found[STARTS[j] : STARTS[j + 1], STARTS[k] : STARTS[k + 1]]
        statistic = ((found - expected) ** 2 / expected).sum()
        assert statistic < chi2.isf(3e-7, expected.size - 1)


def test_features_are_products_of_the_scores_of_two_columns():
    """Those that depend most on each other in the first mixture come first."""
    mixture = make_mixture(6)  # where weights of components matter
    trainer = make_trainer(mixture)
    rows = trainer.rows(trainer.draw(20))
    means = mixture.probabilities @ scores_of(mixture).table
    dependence = np.abs((mixture.weights * means.T) @ means)
    pairs = sorted(combinations(range(3), 2), key=lambda pair: -dependence[pair])
    expected = torch.stack([rows[:, i] * rows[:, j] for i, j in pairs], dim=1)
    torch.testing.assert_close(trainer.features(rows), expected)
    assert (trainer.n_columns, trainer.n_features) == (3, 3)


def test_the_gradient_is_that_of_the_exact_expected_score(global_random_seed):
    """Of a score that is linear, by the logits and by the weights of the codes.

    The expectation is differentiated by finite differences. The gradient of the logits
    is exact given the codes. n = 60,000 in 60 parts: every mean is within 7 of its
    standard errors by the parts, Student's t with 59 degrees: 60 at 3e-9, 2e-7 in all.
    """
    trainer = make_trainer(seed=global_random_seed)
    slopes = torch.tensor([1.0, -2.0, 0.5])
    exactly = TENSORS._replace(take=partial(torch.tensor, dtype=torch.float64))
    heads = Heads(STARTS, np.full(D, np.nan), exactly)

    def expected(flat):
        log_weights = flat[:N_COMPONENTS]
        own = flat[N_COMPONENTS:].reshape(N_COMPONENTS, -1)
        means = heads(own, trainer._home.double()) @ trainer._table.double()
        return float(log_weights.softmax(0) @ (means @ slopes.double()))

    start, step = trainer._flat().double(), 1e-5
    exact = []
    for i in range(len(start)):
        move = torch.zeros_like(start)
        move[i] = step
        exact.append((expected(start + move) - expected(start - move)) / (2 * step))
    parts = torch.stack(
        [
            trainer.gradient(trainer.draw(1000), lambda rows: rows @ slopes)
            for _ in range(60)
        ]
    )
    parts = parts.double().numpy()
    # A baseline that is the mean of 1,000 rows takes a thousandth of the first part.
    exact = np.array(exact)
    exact[:N_COMPONENTS] *= 1 - 1 / 1000
    error = parts.std(axis=0, ddof=1) / math.sqrt(60) + 1e-9
    assert (np.abs(parts.mean(axis=0) - exact) <= 7 * error).all()
    assert np.abs(exact[:N_COMPONENTS]).max() > 5 * error[:N_COMPONENTS].max()
    assert np.abs(exact[N_COMPONENTS:]).max() > 5 * error[N_COMPONENTS:].max()


def test_mean_features_and_their_gradient_are_exact(global_random_seed):
    """Means of many rows, at 6 standard errors; and differences of means."""
    trainer = make_trainer(seed=global_random_seed)
    values = trainer.features(trainer.rows(trainer.draw(100_000))).double()
    exact = trainer.mean_features(None)
    error = values.std(0) / len(values) ** 0.5
    assert ((values.mean(0) - exact).abs() < 6 * error + 1e-6).all()
    along = torch.linspace(-1.0, 2.0, len(exact), dtype=torch.float64)
    gradient = trainer.gradient_of_means(None, along)
    start, way = trainer._flat(), torch.sin(torch.arange(len(gradient)).float())
    ends = []
    for size in (-1e-2, 1e-2):
        trainer._set(start + size * way)
        ends.append(float(trainer.mean_features(None) @ along))
    assert (ends[1] - ends[0]) / 2e-2 == pytest.approx(float(gradient @ way), rel=0.02)


def test_no_step_to_an_aim_goes_beyond_it():
    """Steps of full length swing around an aim that is near."""
    trainer = make_trainer(n_steps=40)
    trainer._hold = lambda: None
    aim = trainer.mean_features(None) + 0.01
    left = [float((aim - trainer.mean_features(None)).norm())]
    for _ in range(40):
        trainer.approach(aim, None, 1.0)
        left.append(float((aim - trainer.mean_features(None)).norm()))
    assert np.diff(left).max() < 1e-4 * left[0]
    assert left[-1] < 0.3 * left[0]


def distance(mixture):
    """Squared distance to the exact tables of `make_mixture`, in noise variances."""
    pairs = zip(joint_of(mixture), joint_of(make_mixture()), strict=True)
    (joint, truth), (shares, own) = pairs
    off = np.sum(np.triu(joint - truth) ** 2) + np.sum((shares - own) ** 2)
    return (N_ROWS / 5.0) ** 2 * float(off)


@pytest.mark.parametrize("size", [1.0, 1e12])
def test_tables_hold_a_generator_that_follows_noise(size):
    """One whose steps are too short for noise comes back to them, in half as many."""
    found, held = {}, None
    for share in (1.0, 1e-6):
        trainer = make_trainer(n_steps=100)
        noise = torch.Generator().manual_seed(1)
        far = 3.0 * torch.randn(len(trainer._flat()), generator=noise)
        trainer._set(trainer._flat() + far)
        first = distance(trainer.present())
        for _ in range(100):
            gradient = size * torch.randn(len(far), generator=noise)
            trainer.ascend(gradient, share)
        held = trainer.result()
        found[share] = distance(held) / first
    assert found[1e-6] < 0.7
    assert found[1.0] < 1.0
    assert held.weights.sum() == pytest.approx(1.0)
    sums = np.add.reduceat(held.probabilities, STARTS[:-1], axis=1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    assert held.probabilities.dtype == np.float32
    assert held.weights.dtype == np.float64
