"""A network learns the labels of the last rounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _training import CPU, sum_by_hand

from skdpsynth.models import NetworkTrainer
from skdpsynth.training import (
    BranchedStudentNetwork,
    RecentLabels,
    RowFeatures,
    StudentNetwork,
)

CLIP = 0.5


def make_trainer():
    return NetworkTrainer(
        np.zeros((1, 6)),
        [np.zeros((2, 0), dtype=np.float32)] * 3,
        (4,),
        n_factors=2,
        n_steps=10,
        learning_rate=1.0,
        generator=torch.Generator().manual_seed(0),
        device=CPU,
    )


@pytest.mark.parametrize("n_rounds", [1, 5, 8, 9, 20])
def test_the_last_eight_rounds_are_kept(n_rounds):
    view = RowFeatures(lambda rows: 2.0 * rows, 1)
    buffer, pool = RecentLabels(), torch.zeros(1, 1)
    for step in range(n_rounds):
        rows = torch.tensor([[step], [step + 0.5]])
        buffer.add(view, rows, torch.tensor([step % 2, 1]), pool, 1.0)
    inputs, labels = buffer.kept()
    expected = [
        pair
        for step in range(max(n_rounds - 8, 0), n_rounds)
        for pair in [(2.0 * step, step % 2), (2.0 * step + 1.0, 1.0)]
    ]
    found = zip(inputs[:, 0].tolist(), labels.tolist(), strict=True)
    assert sorted(found) == sorted(expected)


def test_a_student_learns_what_labels_say_of_rows():
    """The label is the exclusive or of two columns: no single bin tells it."""
    trainer = make_trainer()
    student = StudentNetwork(
        trainer, (16, 16), generator=torch.Generator().manual_seed(1), device=CPU
    )
    buffer, view = RecentLabels(), RowFeatures.of(trainer)

    def labelled():
        rows = trainer.rows(trainer.draw(512))
        return rows, (rows[:, 0] != rows[:, 2]).float()

    for _ in range(8):
        buffer.add(view, *labelled(), torch.zeros(0), 1.0)
    student.train(buffer, 300)
    rows, labels = labelled()
    with torch.no_grad():
        real = student.objective(rows, view.features) > np.log(0.5)
    assert (real == labels.bool()).all()


def branched(clip=CLIP):
    """A student that sees private rows without a label, and three columns of 2 bins."""
    trainer = make_trainer()
    student = BranchedStudentNetwork(
        trainer,
        (4,),
        generator=torch.Generator().manual_seed(1),
        device=CPU,
        max_grad_norm=clip,
    )
    return student, RowFeatures.of(trainer)


def unlabelled(n_rows):
    first = torch.from_numpy(np.random.default_rng(2).integers(0, 2, (n_rows, 3)))
    return torch.stack([first, 1 - first], dim=-1).flatten(1).float()


@pytest.mark.parametrize("clip", [0.05, 100.0])
def test_the_sum_of_unlabelled_rows_is_that_of_a_loop(clip):
    student, view = branched(clip)
    rows = unlabelled(23)
    found = student.clipped_sum(rows, view)
    expected = sum_by_hand(student._params, view.features(rows), clip, sign=-1.0)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-9)
    assert found.shape == (student.n_parameters,)


@pytest.mark.parametrize("n_rows", [0, 1, 40])
def test_one_unlabelled_row_moves_the_sum_by_the_clipping_norm(n_rows):
    """At most, and by a millionth less where its gradient is long."""
    student, view = branched()
    rows, moved = unlabelled(n_rows + 1), []
    others = student.clipped_sum(rows[:-1], view)
    for size in (1.0, 1e6, -1e6):  # far on the one side the loss is flat
        more = torch.cat([rows[:-1], size * rows[-1:]])
        moved.append(float((student.clipped_sum(more, view) - others).norm()))
    assert 0.9 * CLIP < max(moved) < CLIP * (1 - 0.9e-6)
    assert moved[0] > 0.01 * CLIP
