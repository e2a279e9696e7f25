"""DP-SGD step by step: what enters a sum, what it is divided by, and its noise."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from _training import (
    flat_gradient,
    identity,
    leaves,
    make_discriminator,
    reserve,
    scores_by_hand,
    sum_by_hand,
    uniform_rows,
)
from _twins import last_layer_unclipped, one_layer_at_a_time
from scipy.stats import binom, chi2

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import PrivacyAccountant, secret_generator
from skdpsynth.training import _discriminator  # its constants, and smaller chunks
from skdpsynth.training._clipping import (  # rules alone, beside twins of them
    clipped_layer_sums,
    clipped_sums,
    poisson_sample,
)

N_COLUMNS, CLIP = 5, 0.1
HIDDEN = [(), (7,), (6, 4)]
LOSSES = ["logistic", "wasserstein"]


make_rows = partial(uniform_rows, n_columns=N_COLUMNS, width=2.0)


def released(discriminator, generated=None):
    """Take one step; give what was released, as one vector."""
    generated = torch.zeros(4, N_COLUMNS) if generated is None else generated
    discriminator.release(identity)
    discriminator.follow(generated, identity)
    parts = [part.flatten() for part in discriminator._released]
    return torch.cat(parts).double().numpy()


def penalty_by_hand(parameters, rows):
    """The gradient of half the mean squared slope, by what the first layer gets."""
    own = leaves(parameters)
    scaled = (
        torch.from_numpy(rows).double() / math.sqrt(rows.shape[1])
    ).requires_grad_()
    total = scores_by_hand(own, scaled * math.sqrt(rows.shape[1])).sum()
    (slopes,) = torch.autograd.grad(total, scaled, create_graph=True)
    return flat_gradient(0.5 * slopes.square().sum(1).mean(), own)


# --- What is summed ---------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
@pytest.mark.parametrize(("clip", "chunk"), [(CLIP, 7), (100.0, 2**20)])
def test_the_sum_is_that_of_a_loop_over_rows(
    loss, hidden_dims, clip, chunk, monkeypatch
):
    monkeypatch.setattr(_discriminator, "_MAX_CHUNK", chunk)
    rows = make_rows(23)
    discriminator = make_discriminator(
        rows, loss=loss, hidden_dims=hidden_dims, max_grad_norm=clip
    )
    start = [p.detach().clone() for p in discriminator._params]
    expected = sum_by_hand(start, torch.from_numpy(rows), clip, loss)
    np.testing.assert_allclose(10 * released(discriminator), expected, rtol=2e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
def test_a_step_adds_the_exact_gradient_of_the_fakes(loss, hidden_dims):
    """Descent along the released gradient and the mean of the clipped exact ones.

    With hidden layers a penalty on slopes is added, unless weights are bounded. Of
    Adam's first step only the signs are left; it forgets a little of the weights.
    """
    generated = make_rows(9, seed=1)
    discriminator = make_discriminator(
        make_rows(23), loss=loss, hidden_dims=hidden_dims, learning_rate=0.7
    )
    start = [p.detach().clone() for p in discriminator._params]
    fakes = torch.from_numpy(generated)
    sums = discriminator._sums_of_generated(fakes, identity)
    real = released(discriminator, fakes)
    exact = sum_by_hand(start, fakes, CLIP, loss, sign=-1.0) / 9
    before = torch.cat([p.flatten() for p in start]).double().numpy()
    after = torch.cat([p.detach().flatten() for p in discriminator._params]).numpy()
    sums = torch.cat([part.flatten() for part in sums]).numpy()
    np.testing.assert_allclose(sums / 9, exact, atol=1e-7)
    if hidden_dims:
        if loss == "logistic":
            weight = _discriminator._PENALTY  # the table is not wide
            exact = exact + weight * penalty_by_hand(start, generated)
        step = 0.7 * _discriminator.HIDDEN_RATE * np.sign(real + exact)
        kept = before * (1 - 0.7 * _discriminator.FORGOTTEN)
        clear = np.abs(real + exact) > 1e-9
        np.testing.assert_allclose(after[clear], (kept - step)[clear], atol=1e-9)
    else:
        np.testing.assert_allclose(after, before - 0.7 * (real + exact), atol=1e-6)


# --- Sensitivity ------------------------------------------------------------------


def one_row_moves_the_sum_by(rows, row, sums):
    gradients = [torch.from_numpy(part) for part in rows]
    with_row = [
        torch.cat([part, torch.from_numpy(own)[None]])
        for part, own in zip(gradients, row, strict=True)
    ]
    pairs = zip(sums(with_row, CLIP), sums(gradients, CLIP), strict=True)
    return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in pairs))


GRADIENTS = (3, 2), (4,)
# What goes into two layers, and the slopes by what comes out of them.
LAYERS = (3,), (2,), (4,), (3,)


def layer_sums(factors, clip, rule=clipped_layer_sums):
    inputs, slopes = factors[::2], factors[1::2]
    return rule(slopes, inputs, [True, False], clip)


def worst_move(sums, seed, shapes=GRADIENTS):
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(30):
        n_rows = int(rng.integers(0, 8))
        scale = 10.0 ** rng.integers(-6, 12)
        rows = [rng.normal(size=(n_rows, *shape)) for shape in shapes]
        row = [scale * rng.normal(size=shape) for shape in shapes]
        worst = max(worst, one_row_moves_the_sum_by(rows, row, sums))
    return worst


@pytest.mark.parametrize(
    ("sums", "shapes"), [(clipped_sums, GRADIENTS), (layer_sums, LAYERS)]
)
def test_one_row_moves_the_sum_by_at_most_the_clipping_norm(
    sums, shapes, global_random_seed
):
    """And a millionth less, which is left for rounding."""
    worst = worst_move(sums, global_random_seed, shapes)
    assert 0.9 * CLIP < worst < CLIP * (1 - 0.9e-6)


def microbatches(gradients, clip):
    """The thesis with m < B: means of pairs of rows are clipped."""
    paired = [
        torch.stack([g[i : i + 2].mean(dim=0) for i in range(0, len(g), 2)])
        if len(g)
        else g
        for g in gradients
    ]
    return clipped_sums(paired, clip)


def test_twins_move_more():
    assert worst_move(microbatches, 0) > 1.2 * CLIP


def with_one_factor(factors, slopes, inputs, biased):
    sums = []
    for slope, values, bias in zip(slopes, inputs, biased, strict=True):
        kept = factors * slope
        sums += [kept.T @ values, *[kept.sum(0)] * bias]
    return sums


def norms_of(slopes, inputs, biased):
    each = zip(slopes, inputs, biased, strict=True)
    squares = [s.square().sum(1) * (x.square().sum(1) + bias) for s, x, bias in each]
    return torch.stack(squares).sum(0).sqrt()


def biases_forgotten(slopes, inputs, biased, clip):
    """The norm of a row is that of the weights alone."""
    norms = norms_of(slopes, inputs, [False] * len(biased))
    factors = clip / norms.clamp_min(clip)[:, None]
    return with_one_factor(factors, slopes, inputs, biased)


def by_the_mean_norm(slopes, inputs, biased, clip):
    """All rows have the factor of the mean norm, which each of them moves."""
    norms = norms_of(slopes, inputs, biased)
    factor = clip / max(float(norms.sum()) / max(len(norms), 1), clip)
    return with_one_factor(factor, slopes, inputs, biased)


def of_rows_without_inputs(sums, factors, clip):
    """Only biases have a gradient: also of a layer that no unit before speaks to."""
    return sums([(place % 2) * part for place, part in enumerate(factors)], clip)


@pytest.mark.parametrize(
    "twin",
    [
        last_layer_unclipped,
        one_layer_at_a_time,
        biases_forgotten,
        by_the_mean_norm,
    ],
)
def test_twins_of_layers_move_more(twin):
    """Rows of any size, and rows in which all but the biases of a layer is 0."""
    worst = {}
    for rule in (clipped_layer_sums, twin):
        sums = partial(layer_sums, rule=rule)
        moves = (sums, partial(of_rows_without_inputs, sums))
        worst[rule] = max(worst_move(own, 0, LAYERS) for own in moves)
    assert worst[clipped_layer_sums] < CLIP
    assert worst[twin] > 1.2 * CLIP


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_without_a_finite_gradient_counts_as_0(bad):
    gradients = torch.tensor([[0.03, 0.0], [bad, 1.0]])
    (total,) = clipped_sums([gradients], CLIP)
    np.testing.assert_allclose(total.numpy(), [0.03, 0.0], rtol=1e-6)
    one = torch.ones(2, 1, dtype=torch.float64)
    for factors in ([one, gradients.double()], [gradients.double(), one]):
        (total,) = clipped_layer_sums(factors[1:], factors[:1], [False], CLIP)
        np.testing.assert_allclose(total.flatten(), [0.03, 0.0], rtol=1e-6)


@pytest.mark.parametrize("position", [0, 11, 36])
def test_no_row_changes_the_gradient_of_another_row(position):
    """Only the rounding of doubles: a millionth of C is left for 10 million rows."""
    rows = torch.from_numpy(make_rows(37))

    def gradients(part):
        discriminator = make_discriminator(rows.numpy(), expected_batch_size=37.0)
        for p in discriminator._params:
            p.data += 0.1  # a linear one starts at 0, where all rows look alike
        discriminator._backward(part, identity, real=True)
        flat = [p.grad_sample[: len(part)].flatten(1) for p in discriminator._params]
        return torch.cat(flat, dim=1)

    others = [i for i in range(37) if i != position]
    ours, theirs = gradients(rows)[others], gradients(rows[others])
    assert float(((ours - theirs).norm(dim=1) / ours.norm(dim=1)).max()) < 1e-14


# --- Samples and divisor ----------------------------------------------------------


def test_samples_are_independent_draws_of_the_rate():
    """n = 40,000 at rate 0.3: outside with probability 1e-6 in all."""
    chosen = poisson_sample(40_000, 0.3, secret_generator())
    low, high = binom.ppf([5e-7, 1 - 5e-7], 40_000, 0.3)
    assert low <= len(chosen) <= high
    assert (np.diff(chosen) > 0).all()
    assert len(poisson_sample(50, 1.0, secret_generator())) == 50
    assert len(poisson_sample(0, 0.5, secret_generator())) == 0


def test_the_divisor_is_the_public_constant():
    """Every row twice: twice the sum, for the number of rows does not enter."""
    rows = make_rows(30)
    once = released(make_discriminator(rows))
    twice = released(make_discriminator(np.concatenate([rows, rows])))
    tenth = released(make_discriminator(rows, expected_batch_size=100.0))
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)
    np.testing.assert_allclose(10 * tenth, once, rtol=1e-6)


# --- Noise ------------------------------------------------------------------------


def noise_in_units(rows, **changes):
    """Release a gradient that is exactly 0, in units of its noise; 3,000 numbers."""
    reservation = reserve(epsilon=1.0)
    discriminator = make_discriminator(
        rows, n_features=3000, reservation=reservation, **changes
    )
    discriminator.release(identity)
    vector = torch.cat([part.flatten() for part in discriminator._released])
    return 10 * vector.double().numpy() / (reservation.noise_std * CLIP)


def assert_standard_normal(noise):
    """n = 3,000, sum of squares, two-sided, false alarm 1e-6."""
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(noise))
    assert low <= (noise**2).sum() <= high


@pytest.mark.parametrize(("n_rows", "hidden_dims"), [(0, ()), (3, ()), (0, (2,))])
def test_noise_has_the_reserved_std_with_rows_and_without(n_rows, hidden_dims):
    """Rows of zeros have a gradient of 0; so has an empty sample, of all layers."""
    rows = np.zeros((n_rows, 3000), dtype=np.float32)
    noise = noise_in_units(rows, hidden_dims=hidden_dims)
    assert len(noise) == (2 * 3000 + 2 + 2 if hidden_dims else 3000)
    assert_standard_normal(noise)


# --- The ledger, and what is left ---------------------------------------------------


def test_a_step_draws_one_release_and_following_none():
    reservation = reserve(count=2)
    discriminator = make_discriminator(make_rows(20), reservation=reservation)
    released(discriminator)
    kept = [part.clone() for part in discriminator._released]
    for seed in range(3):
        generated = torch.from_numpy(make_rows(6, seed=seed))
        discriminator.follow(generated, identity)
    assert reservation.used == 1
    for part, other in zip(discriminator._released, kept, strict=True):
        assert torch.equal(part, other)
    released(discriminator)
    with pytest.raises(ReservationError, match="holds 2 releases"):
        released(discriminator)


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
        follower.follow(generated, identity)
        released(other, generated)
        for mine, theirs in zip(follower._params, other._params, strict=True):
            assert torch.equal(mine, theirs)


def test_another_kind_of_reservation_is_refused():
    sums = PrivacyAccountant(1.0, 1e-5).reserve_gaussian("sums", mu=0.1, sensitivity=1)
    with pytest.raises(ReservationError):
        released(make_discriminator(make_rows(5), reservation=sums))


def test_the_share_of_a_step_that_is_noise_is_taken_off():
    """E |signal + noise|^2 = |signal|^2 + n s^2: the share n s^2 is taken off."""
    linear = make_discriminator(make_rows(20), reservation=reserve(epsilon=1.0))
    (weight,) = linear._params
    n_weights, noise = weight.numel(), linear._noise
    assert noise == pytest.approx(linear._optimizer.noise_multiplier * CLIP / 10)
    for size in (0.0, 0.5, 30.0):
        gradient = torch.full_like(weight, size * noise)
        weight.grad = gradient.clone()
        linear._discount_noise()
        kept = max(0.0, 1 - 1 / size**2) if size else 0.0
        torch.testing.assert_close(weight.grad, kept * gradient)
    assert n_weights > 1
