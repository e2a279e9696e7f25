"""DP-SGD: what enters a sum of clipped gradients, and who is in a sample."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from _reserve import is_noise
from _training import (
    CPU,
    factor_trainer,
    flat_gradient,
    identity,
    leaves,
    make_discriminator,
    reserve,
    sampled,
    scores_by_hand,
    sum_by_hand,
    uniform_rows,
)
from torch import nn
from torch.nn import functional

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import secret_generator
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.training import (
    Classifier,
    ClippedSums,
    UnlabelledBranch,
    pseudo_label_rows,
    rejected,
    train_generator,
)

CLIP, N_COLUMNS, CHUNK = 0.5, 5, 7


def losses_of(loss, sign):
    """Give the losses of real rows (1) or of generated ones (-1), of their scores."""
    if loss == "logistic":
        return lambda scores: functional.softplus(-sign * scores.squeeze(-1))
    return lambda scores: -sign * scores.squeeze(-1)


# Widths of the network, and the loss of a row.
CASES = {
    "linear": ((N_COLUMNS, 1), losses_of("logistic", 1)),
    "hidden": ((N_COLUMNS, 7, 1), losses_of("logistic", 1)),
    "wasserstein": ((N_COLUMNS, 6, 4, 1), losses_of("wasserstein", 1)),
    "classes": (
        (N_COLUMNS, 3),  # all of class 1
        lambda scores: functional.cross_entropy(
            scores, torch.ones(len(scores), dtype=torch.int64), reduction="none"
        ),
    ),
}


def make_sums(case, clip=CLIP):
    """Give sums over the present weights of a network, and these weights."""
    widths, losses = CASES[case]
    network = nn.Sequential()
    for depth, (n_in, n_out) in enumerate(pairwise(widths)):
        last = depth == len(widths) - 2
        network.append(nn.Linear(n_in, n_out, bias=not last))
        if not last:
            network.append(nn.SiLU())
    sums, generator = ClippedSums(network, clip, CHUNK), torch.Generator()
    for p in network.parameters():  # those at the time of a call count
        p.data = torch.randn(p.shape, generator=generator.manual_seed(p.numel()))
    return sums, losses, [*network.parameters()]


some_rows = partial(uniform_rows, n_columns=N_COLUMNS, width=2.0)


def make_rows(n_rows, seed=0):
    return torch.from_numpy(some_rows(n_rows, seed))


def doubled(rows):
    """A map to features."""
    return 2.0 * rows


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("clip", [CLIP, 100.0])
def test_the_sum_is_that_of_a_loop_over_rows(case, clip):
    """Also a second time, of chunks that are not full, and of no row at all."""
    sums, losses, parameters = make_sums(case, clip)
    for n_rows in (0, 1, 23):
        rows = make_rows(n_rows)
        expected = sum_by_hand(parameters, doubled(rows), losses, clip)
        found = sums.of_private(rows, doubled, losses)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * clip)
        assert found.dtype == torch.float64


@pytest.mark.parametrize("case", CASES)
def test_public_rows_have_weights(case):
    sums, losses, parameters = make_sums(case)
    values, weights = make_rows(9), torch.arange(9.0).double() - 3.0
    expected = sum_by_hand(parameters, values, losses, CLIP, weights.numpy())
    found = sums(values, losses, weights)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_one_row_moves_the_sum_by_at_most_the_clipping_norm(case, global_random_seed):
    """Rows of any size at any place, and a millionth less, which is for rounding."""
    rng = np.random.default_rng(global_random_seed)
    sums, losses, _ = make_sums(case)
    worst = 0.0
    for _ in range(60):
        rows = make_rows(int(rng.integers(0, 16)), int(rng.integers(10**6)))
        row = torch.from_numpy(rng.normal(size=(1, N_COLUMNS)))
        row *= 10.0 ** rng.integers(-6, 12)
        place = int(rng.integers(0, len(rows) + 1))
        more = torch.cat([rows[:place], row, rows[place:]])
        both = (sums.of_private(own, doubled, losses) for own in (rows, more))
        worst = max(worst, float((next(both) - next(both)).norm()))
    assert 0.9 * CLIP < worst < CLIP * (1 - 0.9e-6)


@pytest.mark.parametrize("case", CASES)
def test_the_term_of_a_row_is_its_own(case):
    """Wherever it stands, and beside whom: but for the rounding of doubles."""
    sums, losses, _ = make_sums(case)
    rows = make_rows(23)
    alone = [sums.of_private(row[None], doubled, losses) for row in rows]
    for order in (slice(None), torch.arange(22, -1, -1), slice(3, 17)):
        together = sums.of_private(rows[order], doubled, losses)
        expected = torch.stack(alone)[order].sum(0)
        assert float((together - expected).abs().max()) < 1e-13 * CLIP * len(rows)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 23])
def test_private_rows_pass_in_chunks_of_one_shape(n_rows):
    """Another may round a row's term otherwise."""
    sums, losses, _ = make_sums("hidden")
    shapes = []

    def features(rows):
        shapes.append((tuple(rows.shape), rows.dtype))
        return rows

    sums.of_private(make_rows(n_rows), features, losses)
    one = (CHUNK, N_COLUMNS), torch.float64
    assert shapes == math.ceil(n_rows / CHUNK) * [one]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_row_without_a_finite_gradient_counts_as_0(case, bad):
    sums, losses, _ = make_sums(case)
    rows = make_rows(9).double()
    expected = sums.of_private(rows, doubled, losses)
    for spoilt in ([bad] * N_COLUMNS, [bad, 1.0, 1.0, 1.0, 1.0]):
        row = torch.tensor([spoilt], dtype=torch.float64)
        more = torch.cat([rows[:4], row, rows[4:]])
        found = sums.of_private(more, doubled, losses)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def samples(n_rows, rate, rng, n_samples=1):
    """Give the numbers of the rows in some samples."""
    rows, reservation = torch.arange(n_rows)[:, None], reserve(rate=rate)
    return [sampled(rows, reservation, rng)[:, 0].tolist() for _ in range(n_samples)]


def test_samples_are_independent_draws_of_the_rate():
    """Of 100 rows at rate 0.3, 2000 times: sizes, and how often each row is drawn.

    Both sums of squares over their variance are nearly chi-squared.
    """
    drawn = np.zeros((2000, 100))
    for own, sample in zip(
        drawn, samples(100, 0.3, secret_generator(), 2000), strict=True
    ):
        own[sample] = 1.0
        assert sample == sorted(set(sample))
    for axis, n in ((1, 100), (0, 2000)):
        sums = drawn.sum(axis)
        assert is_noise(sums - 0.3 * n, math.sqrt(0.21 * n), alpha=5e-7)
    (everybody,) = samples(50, 1.0, secret_generator())
    assert everybody == [*range(50)]
    assert samples(0, 0.5, secret_generator()) == [[]]


def test_a_row_that_joins_moves_no_other_draw():
    """Of this sample and of later ones, by equal secret streams."""
    for n_rows in range(1, 20):
        fewer, more = (
            samples(n, 0.5, np.random.default_rng(3), 3) for n in (n_rows - 1, n_rows)
        )
        assert [[i for i in own if i < n_rows - 1] for own in more] == fewer


# --- The discriminator: what it releases, how it follows it, and what it teaches ------


NORM, DIVISOR = 0.1, 10.0  # those of `make_discriminator`
HIDDEN = [(), (7,), (6, 4)]
LOSSES = ["logistic", "wasserstein"]


def weights_of(discriminator):
    return torch.cat([p.detach().flatten() for p in discriminator._params])


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
    assert is_noise(noise, reservation.noise_std * NORM / DIVISOR)


def test_each_step_takes_one_release_of_a_sample():
    reservation = reserve(count=2, rate=0.5)
    discriminator = make_discriminator(some_rows(200), reservation=reservation)
    seen, generated = [], make_rows(6, seed=1)
    with observe_releases(seen.append):
        first = released(discriminator)
        for _ in range(3):
            discriminator.follow(generated, identity)
        assert reservation.used == 1
        np.testing.assert_array_equal(discriminator._released, first)
        second = released(discriminator)
    assert not np.allclose(first, second)
    assert [release.unit for release in seen] == [NORM, NORM]
    np.testing.assert_allclose(np.stack([r.exact for r in seen]) / 10, [first, second])
    with pytest.raises(ReservationError, match="holds 2 releases"):
        released(discriminator)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hidden_dims", HIDDEN, ids=str)
def test_a_step_adds_the_mean_gradient_of_generated_rows(loss, hidden_dims):
    """It descends along both, and by what was released of others.

    A penalty on slopes is added to a logistic loss. Of Adam's first step only the signs
    are left, and it forgets a little of the weights.
    """
    discriminator = make_discriminator(
        some_rows(23), loss=loss, hidden_dims=hidden_dims, learning_rate=0.7
    )
    start, before = leaves(discriminator._params), weights_of(discriminator).numpy()
    generated = make_rows(9, seed=1)
    values = generated.double() / math.sqrt(N_COLUMNS)  # a feature of a size about 1
    fakes = sum_by_hand(start, values, losses_of(loss, -1), NORM) / 9
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
    generated = make_rows(6, seed=2)
    follower, other = (
        make_discriminator(
            some_rows(20), hidden_dims=hidden_dims, reservation=reserve(count=2)
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
        own = make_discriminator(some_rows(20), hidden_dims=(7,))
        own.begin_round(share)
        before = weights_of(own)
        released(own)
        own.follow(make_rows(6, seed=1), identity)
        moved.append(float((weights_of(own) - before).norm()))
    assert moved[1] == pytest.approx(0.25 * moved[0], rel=1e-2)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_that_a_row_is_taken_for_real(loss):
    discriminator = make_discriminator(some_rows(5), hidden_dims=(6, 4), loss=loss)
    rows = make_rows(9).double()
    scores = scores_by_hand(discriminator._params, rows / math.sqrt(N_COLUMNS))[:, 0]
    expected = torch.sigmoid(scores).log() if loss == "logistic" else scores
    torch.testing.assert_close(discriminator.objective(rows, identity), expected)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("clip", [10.0, 0.3])
def test_a_linear_one_tells_how_mean_features_differ(loss, clip):
    """Of 40,000 rows each. What is clipped, some rows or nearly all, tells less."""
    rows = some_rows(40_000) + np.float32([0.2, 0.0, -0.1, 0.0, 0.0])
    settings = {"max_grad_norm": clip, "expected_batch_size": 40_000.0, "loss": loss}
    own = make_discriminator(rows, **settings)
    released(own)
    generated = make_rows(40_000, seed=1)
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
    own = make_discriminator(some_rows(50), reservation=reservation, **settings)
    released(own)
    told, _ = own.told(make_rows(4000, seed=1), identity)
    expected = reservation.noise_std * 10.0 / 50.0 / (0.5 / math.sqrt(N_COLUMNS))
    error = told.information.diagonal() ** -0.5
    np.testing.assert_allclose(error, expected, rtol=0.01)


def test_a_generator_steps_against_what_follows_its_rows():
    """Along the gradient of the score of a network that has just seen these rows."""
    trainer, steps = factor_trainer(np.full((3, 2), 0.1)), []
    trainer.ascend = steps.append
    own = make_discriminator(uniform_rows(400), hidden_dims=(4,))
    own.release(trainer.features)
    before = weights_of(own)
    train_generator(trainer, own, n_rows=10)
    assert not torch.equal(weights_of(own), before)
    (gradient,) = steps
    assert gradient.shape == (6,)
    assert gradient.any()


# --- The classifier trained by DP-SGD, and the branch of unlabelled rows --------------


def make_classifier(rows, generated=None, charged=None, weights=None, **settings):
    n_classes = len(rows)
    charged = [reserve(count=10) for _ in rows] if charged is None else charged
    start = np.zeros((n_classes, rows[0].shape[1])) if weights is None else weights
    return Classifier(
        start,
        rows,
        generated,
        charged,
        [float(max(len(part), 1)) for part in rows],
        rng=secret_generator(),
        **settings,
    )


def rows_of_classes(seed=0, sizes=(40, 25, 30), n_features=4):
    rng = np.random.default_rng(seed)
    return [rng.normal(c, 1.0, (size, n_features)) for c, size in enumerate(sizes)]


def test_a_step_is_the_gradient_of_the_balanced_cross_entropy():
    """Without noise and clipping; computed again by automatic differentiation."""
    rows, generated = rows_of_classes(), rows_of_classes(1, (8, 8, 8))
    classifier = make_classifier(rows, generated, max_grad_norm=1e6)
    classifier.train_step()
    weights = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)

    def loss(parts):
        return sum(
            functional.cross_entropy(
                torch.from_numpy(part) @ weights.T, torch.full((len(part),), c)
            )
            for c, part in enumerate(parts)
        )

    ((loss(rows) + 0.1 * loss(generated)) / 3).backward()
    np.testing.assert_allclose(classifier.weights, -weights.grad, rtol=2e-6, atol=1e-9)


def test_a_class_that_pays_nothing_is_represented_by_generated_rows():
    rows, generated = rows_of_classes(), rows_of_classes(1, (8, 8, 8))
    charged = [reserve(count=10), None, reserve(count=10)]
    other = [rows[0], rows[1] + 100.0, rows[2]]
    ours, theirs = (make_classifier(part, generated, charged) for part in (rows, other))
    for classifier in (ours, theirs):
        for _ in range(3):
            classifier.train_step()
    np.testing.assert_array_equal(ours.weights, theirs.weights)


def test_a_pseudo_label_depends_on_its_row_and_the_prior_alone():
    weights = torch.eye(3, 4, dtype=torch.float64)
    rows = np.random.default_rng(0).normal(size=(9000, 4))
    prior = np.array([0.2, 0.3, 0.5])
    pseudo_labels = pseudo_label_rows(weights, rows, prior)
    for part in (slice(0, 1), slice(50, 60), slice(8000, 9000)):
        np.testing.assert_array_equal(
            pseudo_label_rows(weights, rows[part], prior), pseudo_labels[part]
        )
    sure = pseudo_label_rows(weights, rows, np.array([1.0, 1e-30, 1e-30]))
    assert not sure.any()
    assert pseudo_label_rows(weights, np.empty((0, 4)), prior).shape == (0,)


def make_branch(rows, n_parameters=6, counts=None, epsilon=math.inf, **settings):
    classes = range(len(rows))
    defaults = {"weight": 0.05, "max_grad_norm": 0.5}
    return UnlabelledBranch(
        dict(enumerate(rows)),
        counts=counts or {c: float(len(rows[c])) for c in classes},
        n_parameters=dict.fromkeys(classes, n_parameters),
        reservation=reserve(count=10, epsilon=epsilon),
        rng=secret_generator(),
        device=CPU,
        **(defaults | settings),
    )


def scores(n_rows, n_columns=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)).astype(np.float32)


def test_a_class_that_is_rarely_called_weighs_less():
    empty = [scores(0), scores(0)]
    few = make_branch(empty, 60, counts={0: 1e7, 1: 30.0}, epsilon=1.0)
    assert few.weights[0] == pytest.approx(0.05)
    assert few.weights[1] < 0.01
    none = make_branch(empty, 60, counts={0: -50.0, 1: 0.0}, epsilon=1.0)
    assert max(none.weights.values()) < 1e-3


def test_a_round_has_one_release_of_the_means_of_the_classes_asked_for():
    rows = [scores(30), scores(20, seed=1), scores(10, seed=2)]
    branch, seen = make_branch(rows, n_parameters=4, max_grad_norm=1.0), []
    sums = {c: lambda part: part.double().sum(dim=0) for c in (0, 2)}
    with observe_releases(seen.append):
        released = branch.release(sums)
    assert list(released) == [0, 2]
    for c in released:
        np.testing.assert_allclose(released[c], rows[c].mean(axis=0), atol=1e-6)
    assert [(release.exact.shape, release.unit) for release in seen] == [((8,), 1.0)]


def test_rows_to_be_rejected_have_the_loss_of_fakes():
    """The score is the log odds of "real"."""
    values = torch.tensor([[-3.0], [0.0], [0.5]], dtype=torch.float64)
    shares = 1 / (1 + torch.exp(-values[:, 0]))
    torch.testing.assert_close(rejected(values), -torch.log(1 - shares))
