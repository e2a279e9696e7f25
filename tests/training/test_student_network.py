"""A network learns the labels of the last rounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _training import CPU

from skdpsynth.models import NetworkTrainer
from skdpsynth.training import RecentLabels, RowFeatures, StudentNetwork


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
