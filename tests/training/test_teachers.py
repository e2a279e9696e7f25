"""One row touches one teacher, to the last bit, and the teachers learn."""

import copy
import io
import pickle
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from _reserve import is_noise
from _training import (
    DEVICES,
    assign_teachers,
    identity,
    leaves,
    make_ensemble,
    teacher_scores,
    uniform_rows,
    with_products,
)
from scipy.stats import chi2
from torch.nn import functional

from skdpsynth.privacy import HoldsPrivateRows
from skdpsynth.training import (
    Classifier,
    Discriminator,
    LinearTeachers,
    TeacherEnsemble,
    UnlabelledBranch,
    ballots_of,
    decode_answers,
    random_projections,
)

N_COLUMNS = 3
HIDDEN = [(), (8,), (8, 5)]


FEATURES = {identity: N_COLUMNS, with_products: 2 * N_COLUMNS}


def generated_pool(seed, n_columns=N_COLUMNS, n_rows=10):
    return torch.from_numpy(uniform_rows(n_rows, 1000 + seed, n_columns))


def gradients_of(ensemble, queries, features=identity):
    parts = [g for _, g in ensemble.iter_feature_gradients(queries, features)]
    return torch.cat(parts)


def weights_of(ensemble):
    """Give one row of parameters per teacher."""
    return torch.cat([p.flatten(1) for p in ensemble._parameters], dim=1).cpu()


def trained(rows, seed, n_teachers=12, *, features=identity, **changes):
    """Train for some steps; give all that a teacher could show, a row per teacher."""
    n_features = FEATURES.get(features, N_COLUMNS)
    ensemble = make_ensemble(
        rows, n_teachers, seed=seed, n_features=n_features, **changes
    )
    pool = generated_pool(seed)
    for _ in range(4):
        ensemble.train_step(pool, features)
    logits = ensemble.logits(pool, features).cpu()
    gradients = gradients_of(ensemble, pool, features).cpu().flatten(1)
    return torch.cat([weights_of(ensemble), logits, gradients], dim=1)


def changed_teachers(before, after):
    """Give the teachers that differ in a bit; NaN is compared as bits too."""
    bits = [answers.numpy().view(np.int32) for answers in (before, after)]
    return np.flatnonzero((bits[0] != bits[1]).any(axis=1))


def said(rows, seed, **changes):
    """Give all that a linear teacher could show, a row per teacher."""
    teachers, pool = linear(rows, seed=seed, **changes), generated_pool(seed)
    parts = [teachers._means.cpu(), teachers.logits(pool).cpu()]
    return torch.cat([*parts, torch.from_numpy(teachers.mean_gradients(pool))], dim=1)


NETWORKS = [
    partial(trained, hidden_dims=hidden_dims, features=features)
    for hidden_dims, features in product(HIDDEN, FEATURES)
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shown", [*NETWORKS, partial(said, n_rows=60.0)])
def test_a_row_changes_its_own_teacher_only(shown, device, global_random_seed):
    seed, rows = global_random_seed, uniform_rows(60, global_random_seed)
    changed = rows.copy()
    changed[17] = [50.0, np.nan, -3.0]
    before = shown(rows, seed, device=device)
    for other in (changed, rows[:-1]):
        after = shown(other, seed, device=device)
        assert len(changed_teachers(before, after)) == 1


def test_the_longest_part_may_grow_and_the_only_row_leave(global_random_seed):
    """Batches do not follow from the size of the largest part."""
    seed, rows = global_random_seed, uniform_rows(61, global_random_seed)
    assignment = assign_teachers(61, 2, np.random.default_rng(seed).spawn(2)[0])
    longest = next(
        n for n in range(30, 61) if 2 * (assignment[:n] == assignment[n - 1]).sum() > n
    )
    for n_rows in (longest, 1):
        before, after = (trained(rows[:n], seed, 2) for n in (n_rows, n_rows - 1))
        assert len(changed_teachers(before, after)) == 1


@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_teachers_without_rows_read_nothing_and_answer_zero(
    hidden_dims, global_random_seed
):
    """All private rows are NaN: whoever reads one cannot have finite weights."""
    rows = np.full((5, N_COLUMNS), np.nan, dtype=np.float32)
    pool, ensembles = generated_pool(global_random_seed), []
    for part in (rows, rows[:0]):
        ensemble = make_ensemble(part, seed=global_random_seed, hidden_dims=hidden_dims)
        for _ in range(3):
            ensemble.train_step(pool, identity)
        ensembles.append(ensemble)
    weights, of_nobody = (weights_of(ensemble) for ensemble in ensembles)
    assignment = assign_teachers(
        5, 12, np.random.default_rng(global_random_seed).spawn(2)[0]
    )
    empty = torch.from_numpy(np.bincount(assignment, minlength=12) == 0)
    assert empty.sum() >= 7
    assert of_nobody.isfinite().all()
    assert weights[~empty].isnan().any(dim=1).all()
    assert torch.equal(weights[empty], of_nobody[empty])
    for ensemble, silent in zip(ensembles, (empty, empty | True), strict=True):
        assert not ensemble.logits(pool, identity)[silent].any()
        # Teachers that diverged send zeros too.
        assert not gradients_of(ensemble, pool).any()


def test_empty_teachers_answer_zero_whatever_the_feature_map_makes_of_zeros():
    ensemble = make_ensemble(uniform_rows(0, 0))
    pool = generated_pool(0)
    ensemble.train_step(pool, lambda rows: 1 / rows)
    assert weights_of(ensemble).isnan().any()
    assert not ensemble.logits(pool, identity).any()
    assert not gradients_of(ensemble, pool).any()


def rows_read(ensemble, n_steps):
    """What a feature map sees: private batches, between those of generated rows."""
    seen = []

    def spy(batch):
        seen.append(batch.clone())
        return batch

    for _ in range(n_steps):
        ensemble.train_step(torch.zeros(2, 1), spy)
    return torch.cat(seen[1::2]).squeeze(2).long().numpy()


@pytest.mark.parametrize("extreme", [None, 0.0, 1 - 2**-53])
def test_teachers_read_their_own_rows_only(extreme, global_random_seed):
    """Also where all draws are the smallest, or the largest."""
    rows = np.arange(1, 301, dtype=np.float32)[:, None]
    ensemble = make_ensemble(rows, 40, seed=global_random_seed)
    if extreme is not None:
        ensemble._batch_rng = SimpleNamespace(
            random=partial(np.full, fill_value=extreme)
        )
    read = rows_read(ensemble, 1)
    rng = np.random.default_rng(global_random_seed).spawn(2)[0]
    assignment = np.append(-1, assign_teachers(300, 40, rng))
    counts = np.bincount(assignment[1:], minlength=40)
    owners = np.where(counts > 0, np.arange(40), -1)
    assert read.shape == (40, 6)
    assert (assignment[read] == owners[:, None]).all()


@pytest.mark.statistical
def test_minibatches_are_uniform_over_the_part(global_random_seed):
    """chi2 of 24,000 draws from 30 rows, both tails; false alarm 1e-6 (and 0 here
    for the seeds 0..99: the draws are seeded)."""
    rows = np.arange(30, dtype=np.float32)[:, None]
    ensemble = make_ensemble(rows, 1, seed=global_random_seed, n_read=6000)
    read = rows_read(ensemble, 4)
    assert_uniform(np.bincount(read.ravel(), minlength=30))


def assert_uniform(counts):
    expected = counts.sum() / counts.size
    statistic = ((counts - expected) ** 2 / expected).sum()
    law = chi2(counts.size - 1)
    assert min(law.cdf(statistic), law.sf(statistic)) > 5e-7


@pytest.mark.statistical
def test_assignment_is_uniform_and_independent(global_random_seed):
    """chi2 of 40,000 units over 50 teachers, and of 20,000 successive pairs over 100
    cells; both tails, so parts that are too equal fail as well. False alarm 2e-6 in
    all, and 0 for the seeds 0..99: the draws are seeded."""
    rng = np.random.default_rng(global_random_seed)
    assert_uniform(np.bincount(assign_teachers(40_000, 50, rng), minlength=50))
    pairs = assign_teachers(40_000, 10, rng).reshape(-1, 2)
    assert_uniform(np.bincount(pairs @ [10, 1], minlength=100))


def test_gradient_mode_and_graphs_of_the_caller_are_left_alone():
    ensemble = make_ensemble(uniform_rows(50, 0), hidden_dims=(4,))
    pool = generated_pool(0).requires_grad_()
    ensemble.train_step(pool * 2, identity)
    outside = gradients_of(ensemble, pool * 2)
    assert not outside.requires_grad
    assert not ensemble.logits(pool * 2, identity).requires_grad
    with torch.no_grad():
        for part, gradients in ensemble.iter_feature_gradients(pool * 2, identity):
            assert not torch.is_grad_enabled()
            assert torch.equal(gradients, outside[part])
    assert pool.grad is None


def test_private_rows_cannot_be_saved_or_copied():
    holder = make_ensemble(uniform_rows(5, 0))
    holders = (
        LinearTeachers,
        TeacherEnsemble,
        Discriminator,
        Classifier,
        UnlabelledBranch,
    )
    assert all(issubclass(cls, HoldsPrivateRows) for cls in holders)
    ways = [pickle.dumps, copy.copy, copy.deepcopy]
    ways.append(lambda value: torch.save(value, io.BytesIO()))
    for way in ways:
        with pytest.raises(TypeError, match="holds private rows"):
            way(holder)


# --- Linear teachers: the mean features of their rows ---------------------------------


def linear(rows, n_teachers=12, *, seed=0, n_rows=None, device="cpu", features=None):
    trainer = SimpleNamespace(
        n_features=2 * N_COLUMNS, features=features or with_products
    )
    given = rows, n_teachers, trainer, len(rows) if n_rows is None else n_rows
    teachers = LinearTeachers(*given, rng=np.random.default_rng(seed), device=device)
    teachers.learn(torch.full((2 * N_COLUMNS,), 0.1, dtype=torch.float64))
    return teachers


def test_linear_teachers_read_their_own_rows_and_as_many_each(global_random_seed):
    """128 draws of each; none where there is no row."""
    rows = np.arange(1, 301, dtype=np.float32)[:, None].repeat(N_COLUMNS, axis=1)
    seen = []

    def spy(batch):
        seen.append(batch[..., 0].clone())
        return with_products(batch)

    linear(rows, 15, seed=global_random_seed, features=spy)
    read = torch.cat(seen).long().numpy()
    rng = np.random.default_rng(global_random_seed).spawn(2)[0]
    assignment = np.append(-1, assign_teachers(300, 15, rng))
    assert read.shape == (15, 128)
    assert (assignment[read] == np.arange(15)[:, None]).all()
    nobody = said(np.full((0, N_COLUMNS), np.nan, np.float32), 0, n_rows=100.0)
    assert not nobody[:, 2 * N_COLUMNS :].any()


def test_a_linear_teacher_takes_a_step_of_logistic_regression(global_random_seed):
    """From 0, at a rate of one half; and sends the mean gradient of its log D."""
    rows, pool = uniform_rows(3, global_random_seed), generated_pool(1)
    teachers = linear(np.repeat(rows[:1], 5, axis=0), 1)
    means = torch.full((2 * N_COLUMNS,), 0.1, dtype=torch.float64)
    real = with_products(torch.from_numpy(rows[:1])).double()[0]
    weights = torch.zeros(2 * N_COLUMNS, dtype=torch.float64, requires_grad=True)
    scores = torch.stack([real @ weights, means @ weights])
    loss = functional.binary_cross_entropy_with_logits(
        scores, torch.tensor([1.0, 0.0], dtype=torch.float64)
    )
    (slopes,) = torch.autograd.grad(loss, weights)
    expected = -0.5 * slopes
    queries = with_products(pool).double().requires_grad_()
    functional.logsigmoid(queries @ expected).sum().backward()
    near = {"rtol": 1e-5, "atol": 1e-6}
    logits = teachers.logits(pool)[0].double()
    torch.testing.assert_close(logits, queries.detach() @ expected, **near)
    found = torch.from_numpy(teachers.mean_gradients(pool))[0].double()
    torch.testing.assert_close(found, queries.grad.mean(dim=0), **near)


# --- The batched program equals a loop over single teachers ---------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_equals_a_loop_over_single_networks(hidden_dims, device, global_random_seed):
    """The same draws, and gradient descent in doubles for one teacher at a time."""
    n_steps, n_teachers, batch, rate, decay = 5, 12, 6, 0.1, 1e-3
    rows = uniform_rows(40, global_random_seed, 3)
    pool = torch.from_numpy(uniform_rows(10, 1, 3))
    ensemble = make_ensemble(
        rows,
        n_teachers,
        seed=global_random_seed,
        n_features=6,
        hidden_dims=hidden_dims,
        device=device,
    )
    starts = [p.cpu().clone() for p in ensemble._parameters]
    for _ in range(n_steps):
        ensemble.train_step(pool, with_products)
    logits = ensemble.logits(pool, with_products).cpu()
    chunks = ensemble.iter_feature_gradients(pool, with_products)
    gradients = torch.cat([part for _, part in chunks]).cpu()

    assignment_rng, batch_rng = np.random.default_rng(global_random_seed).spawn(2)
    assignment = assign_teachers(len(rows), n_teachers, assignment_rng)
    uniform = batch_rng.random((n_steps, 2, n_teachers, batch))
    labels = torch.tensor([1.0] * batch + [0.0] * batch, dtype=torch.float64)
    with_rows = [t for t in range(n_teachers) if (assignment == t).any()]
    assert len(with_rows) > 6
    for teacher in with_rows:
        part = torch.from_numpy(rows[assignment == teacher])
        own = leaves([start[teacher] for start in starts])
        for real_draws, fake_draws in uniform[:, :, teacher]:
            real = part[(real_draws * len(part)).astype(int)]
            generated = pool[(fake_draws * len(pool)).astype(int)]
            inputs = with_products(torch.cat([real, generated])).double()
            scores = teacher_scores(own, inputs)
            loss = functional.binary_cross_entropy_with_logits(scores, labels)
            slopes = torch.autograd.grad(loss, own)
            pairs = zip(own, slopes, strict=True)
            own = leaves([(1 - decay) * p - rate * slope for p, slope in pairs])
        queries = with_products(pool).double().requires_grad_()
        expected = teacher_scores(own, queries)
        (slopes,) = torch.autograd.grad(functional.logsigmoid(expected).sum(), queries)
        found = [p[teacher].cpu() for p in ensemble._parameters]
        for ours, theirs in zip(
            [*found, logits[teacher], gradients[teacher]],
            [*own, expected, slopes],
            strict=True,
        ):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_chunks_change_rounding_at_most(hidden_dims, device, monkeypatch):
    """They cover all teachers, and depend on public numbers alone."""
    rows, pool = uniform_rows(60, 0, 3), torch.from_numpy(uniform_rows(10, 1, 3))
    results, parts = [], []
    for entries, n_rows in ((2**20, 60), (600, 60), (600, 7), (1, 60)):
        monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", entries)
        own = rows[:n_rows]
        ensemble = make_ensemble(own, 30, hidden_dims=hidden_dims, device=device)
        for _ in range(4):
            ensemble.train_step(pool, identity)
        chunks = list(ensemble.iter_feature_gradients(pool, identity))
        parts.append([(part.start, part.stop) for part, _ in chunks])
        gradients = torch.cat([part for _, part in chunks]).flatten(1)
        logits = ensemble.logits(pool, identity)
        weights = [parameter.flatten(1) for parameter in ensemble._parameters]
        results.append(torch.cat([gradients, logits, *weights], dim=1))
    assert parts[1] == parts[2]
    assert len(parts[0]) == 1 < len(parts[1]) < len(parts[3]) == 30
    for own in parts:
        assert [i for start, stop in own for i in range(start, stop)] == [*range(30)]
    for result in (results[1], results[3]):
        torch.testing.assert_close(result, results[0], rtol=0, atol=1e-6)


# --- Gradient discretisation does what Algorithm 2 of G-PATE says ---------------------


N_GENERATED, N_DIMENSIONS, N_BINS, CLIP = 4, 2, 5, 0.02


class GivenGradients:
    """Stands for an ensemble: gradients of each teacher by features are given."""

    def __init__(self, gradients, chunk=3):
        self.gradients, self.chunk = gradients, chunk

    def iter_feature_gradients(self, rows, features):
        for start in range(0, len(self.gradients), self.chunk):
            part = slice(start, start + self.chunk)
            yield part, self.gradients[part]


def public_stream(seed, n_columns=N_COLUMNS):
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(n_columns=n_columns, latent=draw)


def with_squares(rows):
    return torch.cat([rows, rows**2], dim=-1)


def make_case(seed, n_teachers=8, scale=0.01):
    stream = torch.Generator().manual_seed(seed)
    generated = torch.randn(N_GENERATED, N_COLUMNS, generator=stream)
    shape = (n_teachers, N_GENERATED, 2 * N_COLUMNS)
    gradients = scale * torch.randn(shape, generator=stream)
    projections = random_projections(N_GENERATED, N_DIMENSIONS, public_stream(seed))
    return generated, gradients, projections


def votes_of(gradients, generated, projections):
    """Give one vote per teacher, query and bin, of all chunks of teachers."""
    teachers = GivenGradients(gradients)
    asked = generated, with_squares, projections, CLIP, N_BINS
    return torch.cat([*ballots_of(teachers, *asked)]).numpy()


def test_votes_equal_a_loop_over_teachers_fakes_and_dimensions(global_random_seed):
    """Project, clip, choose among B equal bins, one vote per teacher and query."""
    generated, gradients, projections = make_case(global_random_seed)
    found = votes_of(gradients, generated, projections)
    expected, edges = np.zeros_like(found), np.linspace(-CLIP, CLIP, N_BINS + 1)
    for teacher, gradient in enumerate(gradients):
        for row in range(N_GENERATED):
            leaf = generated[row].clone().requires_grad_()
            (with_squares(leaf) * gradient[row]).sum().backward()
            for axis in range(N_DIMENSIONS):
                value = float(projections[row, axis] @ leaf.grad)
                clipped = min(max(value, -CLIP), CLIP)
                assert np.abs(edges - clipped).min() > 1e-9 or clipped != value
                place = int(np.searchsorted(edges[1:-1], clipped, side="right"))
                expected[teacher, row * N_DIMENSIONS + axis, place] = 1
    np.testing.assert_array_equal(found, expected)
    assert (found.sum(axis=(0, 1)) > 0).all()


def test_what_a_teacher_says_is_its_own():
    """One teacher's gradients changed without bound: its votes."""
    generated, gradients, projections = make_case(0)
    other = gradients.clone()
    other[5] = -1e6 * gradients[5]
    before, after = (votes_of(g, generated, projections) for g in (gradients, other))
    assert np.flatnonzero((before != after).any(axis=(1, 2))).tolist() == [5]
    assert (after.sum(axis=2) == 1).all()
    large, huge = (
        votes_of(size * gradients, generated, projections) for size in (1e6, 1e30)
    )
    np.testing.assert_array_equal(huge, large)  # clipped before they are whole numbers


def test_projections_have_variance_one_over_k(global_random_seed):
    """Two-sided chi-square test at 1e-6; and R^T R is the identity on average."""
    stream = public_stream(global_random_seed, n_columns=6)
    drawn = random_projections(500, 4, stream).double()
    assert is_noise(drawn.numpy(), 0.5)
    mean = torch.einsum("mkd,mke->de", drawn, drawn) / 500
    # Off-diagonal entries have variance 1/k, diagonal ones 2/k; 36 entries at 6 sigma.
    assert float((mean - torch.eye(6)).abs().max()) < 6 * np.sqrt(2 / 4 / 500)


def test_answers_are_midpoints_projected_back():
    """In units of the largest coordinate."""
    _, _, projections = make_case(1)
    answers = np.array([0, 4, 2, 1, 3, 0, 2, 4])
    midpoints = np.array([-0.8, -0.4, 0.0, 0.4, 0.8])[answers].reshape(N_GENERATED, -1)
    expected = np.einsum("mk,mkd->md", midpoints, projections.numpy())
    found = decode_answers(answers, projections, N_BINS)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
