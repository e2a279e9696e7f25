"""The discriminator: what it releases, how it follows it, and what it teaches."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from _reserve import is_noise
from _training import (
    correlated_rows,
    correlation_of,
    factor_trainer,
    flat_gradient,
    identity,
    leaves,
    make_discriminator,
    reserve,
    scores_by_hand,
    sum_by_hand,
    uniform_rows,
)
from torch.nn import functional

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.training import share_above_noise, train_generator

N_COLUMNS, CLIP, DIVISOR = 5, 0.1, 10.0  # those of `make_discriminator`
HIDDEN = [(), (7,), (6, 4)]
LOSSES = ["logistic", "wasserstein"]

make_rows = partial(uniform_rows, n_columns=N_COLUMNS, width=2.0)


def weights_of(discriminator):
    return torch.cat([p.detach().flatten() for p in discriminator._params])


def losses_of(loss, sign):
    """Give the losses of real rows (1) or of generated ones (-1), of their scores."""
    if loss == "logistic":
        return lambda scores: functional.softplus(-sign * scores.squeeze(-1))
    return lambda scores: -sign * scores.squeeze(-1)


def gradient_by_hand(parameters, rows, loss, sign):
    """Add the clipped gradients of rows, whose features all have a size about 1."""
    values = torch.as_tensor(rows).double() / math.sqrt(N_COLUMNS)
    return sum_by_hand(parameters, values, losses_of(loss, sign), CLIP)


def penalty_by_hand(parameters, rows):
    """Differentiate half the mean squared slope of the score by features."""
    own = leaves(parameters)
    values = rows.double() / math.sqrt(N_COLUMNS)
    (slopes,) = torch.autograd.grad(
        scores_by_hand(own, values.requires_grad_()).sum(), values, create_graph=True
    )
    return flat_gradient(0.5 * slopes.square().sum(1).mean(), own)


def released(discriminator):
    discriminator.release(identity)
    return discriminator._released.numpy()


# --- The release ------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
def test_a_release_is_a_clipped_sum_over_the_public_divisor(loss, hidden_dims):
    """Whatever the number of rows is."""
    for n_rows in (0, 1, 23):
        rows = make_rows(n_rows)
        discriminator = make_discriminator(rows, loss=loss, hidden_dims=hidden_dims)
        expected = gradient_by_hand(discriminator._params, rows, loss, 1) / DIVISOR
        assert discriminator.n_parameters == len(expected)
        np.testing.assert_allclose(released(discriminator), expected, atol=2e-6 * CLIP)


@pytest.mark.parametrize(("n_rows", "hidden_dims"), [(0, ()), (3, ()), (0, (2,))])
def test_noise_has_the_reserved_std_with_rows_and_without(n_rows, hidden_dims):
    """Of a gradient that is exactly 0, as that of zeros is, and of an empty sample.

    n = 3,000 numbers or more, the sum of squares, two-sided, false alarm 1e-6.
    """
    reservation = reserve(epsilon=1.0)
    rows = np.zeros((n_rows, 3000), dtype=np.float32)
    settings = {"hidden_dims": hidden_dims, "reservation": reservation}
    noise = released(make_discriminator(rows, **settings))
    assert len(noise) == (2 * 3000 + 2 + 2 if hidden_dims else 3000)
    assert is_noise(noise, reservation.noise_std * CLIP / DIVISOR)


def test_each_step_takes_one_release_of_a_sample():
    reservation = reserve(count=2, rate=0.5)
    discriminator = make_discriminator(make_rows(200), reservation=reservation)
    seen, generated = [], torch.from_numpy(make_rows(6, seed=1))
    with observe_releases(seen.append):
        first = released(discriminator)
        for _ in range(3):
            discriminator.follow(generated, identity)
        assert reservation.used == 1
        np.testing.assert_array_equal(discriminator._released, first)
        second = released(discriminator)
    assert not np.allclose(first, second)
    assert [release.unit for release in seen] == [CLIP, CLIP]
    # A linear one learns anew in every round, from the mean of all releases.
    exact = np.stack([release.exact for release in seen]) / 10
    np.testing.assert_allclose([exact[0], exact.mean(0)], [first, second])
    with pytest.raises(ReservationError, match="holds 2 releases"):
        released(discriminator)


def test_another_kind_of_reservation_is_refused():
    sums = PrivacyAccountant(1.0, 1e-5).reserve_gaussian("sums", mu=0.1, sensitivity=1)
    with pytest.raises(ReservationError):
        released(make_discriminator(make_rows(5), reservation=sums))


# --- What follows it ----------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
def test_a_step_adds_the_mean_gradient_of_generated_rows(loss, hidden_dims):
    """A linear one descends along both, and by what was released of others.

    With hidden layers a penalty on slopes is added to a logistic loss. Of Adam's first
    step only the signs are left, and it forgets a little of the weights.
    """
    discriminator = make_discriminator(
        make_rows(23), loss=loss, hidden_dims=hidden_dims, learning_rate=0.7
    )
    start, before = leaves(discriminator._params), weights_of(discriminator).numpy()
    generated = torch.from_numpy(make_rows(9, seed=1))
    fakes = gradient_by_hand(start, generated, loss, -1) / 9
    unlabelled = torch.linspace(-1e-3, 1e-3, len(before)).double()
    total = (released(discriminator) + 0.2 * unlabelled.numpy()) / 0.8 + fakes
    if hidden_dims and loss == "logistic":
        total += 0.1 * penalty_by_hand(start, generated)
    discriminator.add(unlabelled, 0.2)
    discriminator.follow(generated, identity)
    after = weights_of(discriminator).numpy()
    if not hidden_dims:
        np.testing.assert_allclose(after, before - 0.7 * total, atol=1e-6)
        return
    clear = np.abs(total) > 1e-6
    assert clear.sum() > 0.8 * len(clear)
    kept = after + 0.7 * 4e-3 * np.sign(total)
    np.testing.assert_allclose(kept[clear], (before * (1 - 7e-4))[clear], atol=1e-9)


@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
def test_following_takes_the_last_step_again(hidden_dims):
    """As if the step had been taken against the other rows, also the next one."""
    generated = torch.from_numpy(make_rows(6, seed=2))
    follower, other = (
        make_discriminator(
            make_rows(20), hidden_dims=hidden_dims, reservation=reserve(count=2)
        )
        for _ in range(2)
    )
    for _ in range(2):
        released(follower)
        follower.follow(generated + 1.0, identity)
        follower.follow(generated, identity)
        released(other)
        other.follow(generated, identity)
        assert torch.equal(weights_of(follower), weights_of(other))


@pytest.mark.parametrize("hidden_dims", [(), (7,)], ids=str)
def test_weights_stay_within_their_bound(hidden_dims):
    discriminator = make_discriminator(
        make_rows(20), hidden_dims=hidden_dims, weight_bound=1e-3, learning_rate=1e3
    )
    released(discriminator)
    discriminator.follow(torch.from_numpy(make_rows(6, seed=1)), identity)
    assert float(weights_of(discriminator).abs().max()) == pytest.approx(1e-3)


def test_a_round_begins_anew_or_more_slowly():
    """A linear one forgets the last round; a network takes shorter steps."""
    moved = {}
    for hidden_dims in ((), (7,)):
        for share in (1.0, 0.25):
            own = make_discriminator(make_rows(20), hidden_dims=hidden_dims)
            own.begin_round(share)
            before = weights_of(own)
            released(own)
            own.follow(torch.from_numpy(make_rows(6, seed=1)), identity)
            moved[hidden_dims, share] = float((weights_of(own) - before).norm())
            own.begin_round()
            assert weights_of(own).any() == bool(hidden_dims)
    assert moved[(7,), 0.25] == pytest.approx(0.25 * moved[(7,), 1.0], rel=1e-2)
    assert moved[(), 0.25] == moved[(), 1.0]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_that_a_row_is_taken_for_real(loss):
    discriminator = make_discriminator(make_rows(5), hidden_dims=(6, 4), loss=loss)
    rows = torch.from_numpy(make_rows(9)).double()
    scores = scores_by_hand(discriminator._params, rows / math.sqrt(N_COLUMNS))[:, 0]
    expected = torch.sigmoid(scores).log() if loss == "logistic" else scores
    torch.testing.assert_close(discriminator.objective(rows, identity), expected)


# --- Signal and noise ---------------------------------------------------------------


@pytest.mark.parametrize("size", [0.0, 0.5, 2.0, 30.0])
def test_the_share_above_noise_is_that_of_james_and_stein(size):
    """E |signal + noise|^2 is |signal|^2 + n s^2: the part of the first of them.

    n = 10,000; the sum of squares is outside of 8 deviations less than once in 10^6.
    """
    n, std = 10_000, 0.3
    noise = np.random.default_rng(0).normal(0.0, std, n)
    found = share_above_noise(torch.from_numpy(noise + size * std), std)
    error = 8 * math.sqrt(2 * n + 4 * n * size**2) / (n * (1 + size**2))
    assert found == pytest.approx(size**2 / (1 + size**2), abs=error)
    assert share_above_noise(torch.zeros(4), 1.0) == 0.0
    assert share_above_noise(torch.ones(4), 0.0) == 1.0


@pytest.mark.parametrize(("epsilon", "most"), [(1e-3, 0.9), (math.inf, 1.0)])
def test_a_linear_discriminator_knows_the_share_of_noise(epsilon, most):
    reservation = reserve(epsilon=epsilon)
    own = make_discriminator(make_rows(20), reservation=reservation)
    assert own.share == 1.0
    released(own)
    generated = torch.from_numpy(make_rows(600, seed=1))
    own.follow(generated, identity)
    noise = reservation.noise_std * CLIP / DIVISOR
    # All rows are clipped, and the mean of 600 of them is known to C / sqrt(600).
    noise = math.sqrt(noise**2 + CLIP**2 / (600 * N_COLUMNS))
    # It started at 0, and its learning rate is 1.
    share = share_above_noise(-weights_of(own), noise)
    assert own.share == pytest.approx(share, abs=0.05)
    assert own.share <= most
    assert own.share > 0.9 or math.isfinite(epsilon)


def test_a_generator_comes_to_depend_as_rows_do():
    """By DP-SGD without noise; if all were noise, it would stay as it was."""
    trainer = factor_trainer(np.full((3, 2), 0.1), n_steps=60)
    own = make_discriminator(
        correlated_rows(400, 0.8),
        n_features=trainer.n_features,
        max_grad_norm=10.0,
        expected_batch_size=400.0,
        reservation=reserve(count=30),
    )
    for _ in range(30):
        own.begin_round()
        own.release(trainer.features())
        train_generator(trainer, own, n_steps=2, n_rows=512)
    assert 0.6 < correlation_of(trainer) < 0.95


def test_a_generator_steps_by_the_share_above_noise():
    """Of each step, along the gradient of what follows its own rows."""
    trainer, steps = factor_trainer(np.full((3, 2), 0.1)), []
    trainer.ascend = lambda gradient, share: steps.append((gradient, share, own.share))
    own = make_discriminator(correlated_rows(400, 0.8), reservation=reserve(epsilon=30))
    own.release(trainer.features())
    train_generator(trainer, own, n_steps=3, n_rows=10)
    assert len(steps) == 3
    for gradient, share, of_noise in steps:
        assert gradient.shape == (6,)
        assert share == of_noise < 1.0
