"""What linear teachers say of the mean features of real rows, by sums and by votes."""

import math

import numpy as np
import pytest
import torch
from _training import CPU, factor_trainer, identity
from scipy.stats import binom, chi2

from skdpsynth.training import (
    LinearTeachers,
    RealMeans,
    Student,
    Told,
    move_means,
    told_by_labels,
    told_by_sum,
)

N_FEATURES, N_TEACHERS = 3, 2000


def mean_of(trainer):
    return trainer.mean_features(trainer.draw(4096))


def told_of(trainer, rows, kind, *, noise_std=0.0, seed=0):
    """Ask teachers of rows once, as a round of G-PATE or PATE-GAN does."""
    rng = np.random.default_rng(seed)
    given = rows, N_TEACHERS, trainer, len(rows)
    teachers = LinearTeachers(*given, rng=rng, device=CPU)
    beside, of_rows = teachers.rehearse(torch.Generator().manual_seed(seed))
    generated = mean_of(trainer)
    for some in (teachers, beside):
        some.learn(generated)
    if kind == "sum":
        asked, clip = trainer.rows(trainer.draw(32)), 0.02
        vectors = torch.from_numpy(teachers.mean_gradients(asked)).double()
        norms = vectors.norm(dim=1, keepdim=True).clamp_min(1e-30)
        assert (norms > clip).any()
        mean = (vectors * (clip / norms).clamp_max(1.0)).mean(0)
        mean += noise_std * torch.from_numpy(rng.standard_normal(trainer.n_features))
        public_ones = torch.from_numpy(beside.mean_gradients(asked)).double()
        told = told_by_sum(mean, N_TEACHERS, noise_std, public_ones, clip)
        return told, of_rows
    asked = trainer.rows(trainer.draw(20_000))
    votes = (teachers.logits(asked) > 0).sum(0).double()
    votes += noise_std * torch.from_numpy(rng.standard_normal(len(asked)))
    given = (votes > N_TEACHERS / 2).double(), trainer.features(asked).double()
    told = told_by_labels(*given, N_TEACHERS, noise_std, beside.logits(asked).double())
    return told, of_rows


@pytest.mark.parametrize(
    ("kind", "noise_std"),
    [("sum", 1e-4), *(("labels", noise) for noise in (1.0, 30.0, 300.0, 1000.0))],
)
def test_teachers_tell_how_mean_features_differ(kind, noise_std):
    """The direction, and less than all of it where differences are large.

    What is clipped, or a majority, follows the median of skewed features as much as
    their mean. So rounds are repeated from where the generator has come.
    """
    trainer = factor_trainer(np.full((N_FEATURES, 2), 0.3), n_steps=10)
    other = factor_trainer(np.array([[0.6, 0.3], [0.6, 0.3], [0.1, 0.0]]), n_steps=10)
    rows = other.rows(other.draw(40_000))
    expected = trainer.features(rows).double().mean(0) - mean_of(trainer)
    real = RealMeans()
    real.add(*told_of(trainer, rows.numpy(), kind, noise_std=noise_std))
    found, share = real.beyond(mean_of(trainer))
    assert share > 0.8
    assert found @ expected > 0.9 * found.norm() * expected.norm()
    assert 0.2 < found.norm() / expected.norm() < 1.2


class Columns:
    """Stands for a generator of columns that all follow one coin."""

    n_columns, n_features = 8, 28

    def __init__(self, follows):
        self.rng, self.follows = torch.Generator().manual_seed(0), follows

    def draw(self, n_rows):
        return torch.rand((n_rows, 1 + self.n_columns), generator=self.rng)

    def rows(self, draws):
        coin, others = (draws[:, :1] < 0.5).float(), draws[:, 1:]
        return torch.where(others < self.follows, 2.0 * coin - 1.0, 1.0 - 2.0 * coin)

    def features(self, rows):
        first, second = torch.triu_indices(8, 8, 1)
        return rows[..., first] * rows[..., second]

    def mean_features(self, draws):
        return self.features(self.rows(draws)).double().mean(0)


@pytest.mark.parametrize(
    ("kind", "noise_std", "cosine"), [("sum", 1e-4, 0.95), ("labels", 1000.0, 0.5)]
)
def test_teachers_tell_of_products_that_vary_together(kind, noise_std, cosine):
    """A second step at the full rate would take back what the first has learnt."""
    trainer, other = Columns(0.9), Columns(0.95)
    rows = other.rows(other.draw(40_000))
    means = trainer.features(trainer.rows(trainer.draw(40_000))).double().mean(0)
    expected = trainer.features(rows).double().mean(0) - means
    real = RealMeans()
    real.add(*told_of(trainer, rows.numpy(), kind, noise_std=noise_std))
    found = real.beyond(means)[0]
    assert found @ expected > cosine * found.norm() * expected.norm()


@pytest.mark.parametrize("kind", ["sum", "labels"])
def test_rows_like_those_of_the_generator_move_nothing(kind):
    """By clipped vectors alone, their mean would be taken for a difference."""
    trainer = factor_trainer(np.full((N_FEATURES, 2), 0.5), n_steps=10)
    rows = trainer.rows(trainer.draw(40_000)).numpy()
    real = RealMeans()
    real.add(*told_of(trainer, rows, kind, noise_std=1e-4 if kind == "sum" else 100.0))
    found, share = real.beyond(mean_of(trainer))
    assert share * found.norm() < 0.1


def test_rounds_are_combined_by_the_inverse_of_their_variance():
    """Two rounds, from other places: the mean of both, and a prior that is wide."""
    rng = np.random.default_rng(0)
    truth = torch.from_numpy(rng.standard_normal(N_FEATURES))
    real, total, product = RealMeans(), 0.0, 0.0
    for size in (1e6, 4e6):
        half = torch.from_numpy(rng.standard_normal((N_FEATURES, N_FEATURES)))
        information = size * (half @ half.T + torch.eye(N_FEATURES))
        means = torch.from_numpy(rng.standard_normal(N_FEATURES))
        noise = torch.from_numpy(rng.standard_normal(N_FEATURES)) * 1e-4
        told = Told(information, information @ (truth + noise - means))
        real.add(told, means)
        total, product = total + information, product + information @ (truth + noise)
    expected = torch.linalg.solve(total, product)
    for now in (torch.zeros_like(truth), truth + 0.5):
        found, share = real.beyond(now)
        torch.testing.assert_close(now + found, expected, rtol=1e-5, atol=1e-5)
        assert share > 0.999


@pytest.mark.statistical
def test_noise_is_taken_for_signal_as_often_as_chi_squared_says(global_random_seed):
    """A share above a bound s means a statistic above k / (1 - s), with k features.

    600 draws of noise alone, four bounds: a count is outside with probability 1.2e-7 on
    either side, in all 1e-6.
    """
    rng, k, n_runs = np.random.default_rng(global_random_seed), 5, 600
    half = torch.from_numpy(rng.standard_normal((k, k)))
    shares = []
    for _ in range(n_runs):
        real = RealMeans()
        noise = half @ torch.from_numpy(rng.standard_normal(k))
        real.add(Told(half @ half.T, noise), torch.zeros(k, dtype=torch.float64))
        found, share = real.beyond(torch.zeros(k, dtype=torch.float64))
        assert (share > 0) == bool(found.any())
        shares.append(share)
    for bound in (0.0, 0.2, 0.4, 0.6):
        expected = chi2.sf(k / (1 - bound), k)
        low, high = binom.ppf([1.2e-7, 1 - 1.2e-7], n_runs, expected)
        assert low <= (np.array(shares) > bound).sum() <= high


def test_means_move_to_real_ones_and_not_without_signal():
    """From noise alone nothing moves at all."""
    for size in (1e6, 1e-6):
        trainer = factor_trainer(np.full((3, 2), 0.3), n_steps=100)
        first, before = trainer.parameters["loadings"].clone(), mean_of(trainer)
        real, wanted = RealMeans(), torch.tensor([0.2, 0.0, 0.0], dtype=torch.float64)
        real.add(Told(size * torch.eye(3).double(), size * wanted), before)
        move_means(trainer, real, 100)
        moved = sum(mean_of(trainer) for _ in range(20)) / 20 - before
        if size > 1:
            assert 0.12 < float(moved[0]) < 0.28
            assert moved[1:].abs().max() < 0.08
        else:
            torch.testing.assert_close(trainer.parameters["loadings"], first)


OF_STUDENT = 6


def make_student(hidden_dims=(), n_features=OF_STUDENT, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return Student(n_features, hidden_dims, generator=generator, device=CPU)


def make_rows(n_rows, seed=0, n_features=OF_STUDENT):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((n_rows, n_features))).float()


def along_a_line(rows):
    return rows[:, 0] > rows[:, 1]


def exclusive_or(rows):
    """No column tells it alone, nor a sum of columns."""
    return (rows[:, 0] > 0) != (rows[:, 1] > 0)


def right(student, told, rows=None):
    """Give the share of new rows that a student takes for what they are."""
    rows = make_rows(2000, seed=9) if rows is None else rows
    real = student.objective(rows, identity) > math.log(0.5)
    return float((real == told(rows)).double().mean())


@pytest.mark.parametrize(
    ("hidden_dims", "told"), [((), along_a_line), ((16, 16), exclusive_or)]
)
def test_a_student_learns_what_labels_say_of_rows(hidden_dims, told):
    student = make_student(hidden_dims)
    for seed in range(8):
        rows = make_rows(512, seed)
        student.add(rows, told(rows).float())
    student.train(500)
    assert right(student, told) > 0.9
    # The objective is log S: of a row and its opposite, odds of a linear one are 1.
    if not hidden_dims:
        rows = make_rows(10)
        shares = [student.objective(own, identity).exp() for own in (rows, -rows)]
        torch.testing.assert_close(sum(shares), torch.ones(10))
    assert right(make_student(), exclusive_or) < 0.6


def test_a_student_forgets_labels_of_more_than_eight_rounds():
    student, rows = make_student((16, 16)), make_rows(512)
    student.add(rows, (~along_a_line(rows)).float())
    student.train(100)
    for seed in range(7):
        student.add(make_rows(1, seed), torch.zeros(1))
    student.train(100)
    assert right(student, along_a_line) < 0.2
    student.add(rows, along_a_line(rows).float())
    student.train(400)
    assert right(student, along_a_line) > 0.9


def test_a_released_gradient_is_learnt_beside_labels():
    """It pushes against itself, until another takes its place."""
    student, rows = make_student(), make_rows(4000)
    coins = torch.from_numpy(np.random.default_rng(1).integers(0, 2, 4000)).float()
    for sign in (1.0, -1.0):
        gradient = torch.zeros(OF_STUDENT, dtype=torch.float64)
        gradient[2] = sign
        student.add_gradient(gradient)
        student.add(rows, coins)
        student.train(1000)
        (weight,) = (p.detach()[0] for p in student.network.parameters())
        assert int(weight.abs().argmax()) == 2
        assert sign * float(weight[2]) < -0.5
