"""The discriminator: what it releases, how it follows it, and what it teaches."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from _reserve import is_noise
from _training import (
    correlated_rows,
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
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.training import train_generator

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
    np.testing.assert_allclose(np.stack([r.exact for r in seen]) / 10, [first, second])
    with pytest.raises(ReservationError, match="holds 2 releases"):
        released(discriminator)


# --- What follows it ----------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
def test_a_step_adds_the_mean_gradient_of_generated_rows(loss, hidden_dims):
    """It descends along both, and by what was released of others.

    A penalty on slopes is added to a logistic loss. Of Adam's first step only the signs
    are left, and it forgets a little of the weights.
    """
    discriminator = make_discriminator(
        make_rows(23), loss=loss, hidden_dims=hidden_dims, learning_rate=0.7
    )
    start, before = leaves(discriminator._params), weights_of(discriminator).numpy()
    generated = torch.from_numpy(make_rows(9, seed=1))
    fakes = gradient_by_hand(start, generated, loss, -1) / 9
    unlabelled = torch.linspace(-1e-3, 1e-3, len(before)).double()
    total = (released(discriminator) + 0.2 * unlabelled.numpy()) / 0.8 + fakes
    if loss == "logistic":
        total += 0.1 * penalty_by_hand(start, generated)
    discriminator.add(unlabelled, 0.2)
    discriminator.follow(generated, identity)
    after = weights_of(discriminator).numpy()
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


def test_a_round_of_a_share_takes_shorter_steps():
    moved = []
    for share in (1.0, 0.25):
        own = make_discriminator(make_rows(20), hidden_dims=(7,))
        own.begin_round(share)
        before = weights_of(own)
        released(own)
        own.follow(torch.from_numpy(make_rows(6, seed=1)), identity)
        moved.append(float((weights_of(own) - before).norm()))
    assert moved[1] == pytest.approx(0.25 * moved[0], rel=1e-2)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_that_a_row_is_taken_for_real(loss):
    discriminator = make_discriminator(make_rows(5), hidden_dims=(6, 4), loss=loss)
    rows = torch.from_numpy(make_rows(9)).double()
    scores = scores_by_hand(discriminator._params, rows / math.sqrt(N_COLUMNS))[:, 0]
    expected = torch.sigmoid(scores).log() if loss == "logistic" else scores
    torch.testing.assert_close(discriminator.objective(rows, identity), expected)


# --- What a generator learns of it --------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "wasserstein"])
@pytest.mark.parametrize("clip", [10.0, 0.3])
def test_a_linear_one_tells_how_mean_features_differ(loss, clip):
    """Of 40,000 rows each. What is clipped, some rows or nearly all, tells less."""
    rows = make_rows(40_000) + np.float32([0.2, 0.0, -0.1, 0.0, 0.0])
    settings = {"max_grad_norm": clip, "expected_batch_size": 40_000.0, "loss": loss}
    own = make_discriminator(rows, **settings)
    released(own)
    generated = torch.from_numpy(make_rows(40_000, seed=1))
    told, means = own.told(generated, identity)
    torch.testing.assert_close(means, generated.double().mean(0))
    found = torch.linalg.solve(told.information, told.product)
    expected = torch.from_numpy(rows.mean(0)) - means
    torch.testing.assert_close(found, expected, rtol=0.3, atol=0.02)
    # Its error is that of the mean of the generated rows.
    error = told.information.diagonal() ** -0.5
    if clip == 10.0:
        of_mean = float(generated.square().mean() / 40_000) ** 0.5
        np.testing.assert_allclose(error, of_mean, rtol=0.01)


def test_what_it_tells_has_the_noise_of_the_release():
    """One deviation of a feature: noise times C, over the divisor and the slope."""
    reservation = reserve(epsilon=0.1)
    settings = {"max_grad_norm": 10.0, "expected_batch_size": 50.0}
    own = make_discriminator(make_rows(50), reservation=reservation, **settings)
    released(own)
    told, _ = own.told(torch.from_numpy(make_rows(4000, seed=1)), identity)
    expected = reservation.noise_std * 10.0 / 50.0 / (0.5 / math.sqrt(N_COLUMNS))
    error = told.information.diagonal() ** -0.5
    np.testing.assert_allclose(error, expected, rtol=0.01)


def test_a_generator_steps_against_what_follows_its_rows():
    """Along the gradient of the score of a network that has just seen these rows."""
    trainer, steps = factor_trainer(np.full((3, 2), 0.1)), []
    trainer.ascend = steps.append
    own = make_discriminator(correlated_rows(400, 0.8), hidden_dims=(4,))
    own.release(trainer.features)
    before = weights_of(own)
    train_generator(trainer, own, n_rows=10)
    assert not torch.equal(weights_of(own), before)
    (gradient,) = steps
    assert gradient.shape == (6,)
    assert gradient.any()
