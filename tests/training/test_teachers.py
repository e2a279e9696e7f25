"""One row touches one teacher, to the last bit, and the teachers learn."""

import copy
import io
import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from _training import DEVICES, identity, make_ensemble, uniform_rows, with_products
from scipy.stats import chi2

from skdpsynth.privacy import HoldsPrivateRows
from skdpsynth.training import (
    Classifier,
    Discriminator,
    TeacherEnsemble,
    UnlabelledBranch,
)
from skdpsynth.training._teachers import assign_teachers  # its law is a claim

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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_a_row_changes_its_own_teacher_only(
    hidden_dims, features, device, global_random_seed
):
    changes = {"hidden_dims": hidden_dims, "device": device, "features": features}
    rows = uniform_rows(60, global_random_seed)
    changed = rows.copy()
    changed[17] = [50.0, np.nan, -3.0]
    before = trained(rows, global_random_seed, **changes)
    for other in (changed, rows[:-1]):
        after = trained(other, global_random_seed, **changes)
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
    ensemble = make_ensemble(rows, 1, seed=global_random_seed, batch_size=6000)
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
    holders = (TeacherEnsemble, Discriminator, Classifier, UnlabelledBranch)
    assert all(issubclass(cls, HoldsPrivateRows) for cls in holders)
    ways = [pickle.dumps, copy.copy, copy.deepcopy]
    ways.append(lambda value: torch.save(value, io.BytesIO()))
    for way in ways:
        with pytest.raises(TypeError, match="holds private rows"):
            way(holder)
