"""The network as a generator: its rows, its gradients and what is left of it."""

import numpy as np
import pytest
import torch

from skdpsynth.training import NetworkTrainer

STARTS = np.array([0, 3, 5, 9, 13, 33])
N_BINS = 33
RANKS = np.zeros((2, N_BINS))
# Of two columns: the first two bins, and the other two.
GROUPS = np.zeros((N_BINS, 4), dtype=np.float32)
GROUPS[5:7, 0] = GROUPS[7:9, 1] = GROUPS[9:11, 2] = GROUPS[11:13, 3] = 1.0
OF_COLUMNS = [GROUPS[:3, :0], GROUPS[3:5, :0], GROUPS[5:9, :2]]
OF_COLUMNS += [GROUPS[9:13, 2:], GROUPS[13:, :0]]


def make_trainer(n_steps=20):
    return NetworkTrainer(
        RANKS,
        OF_COLUMNS,
        (6, 5),
        n_steps=n_steps,
        learning_rate=1.0,
        generator=torch.Generator().manual_seed(3),
        device=torch.device("cpu"),
    )


def probabilities(trainer, codes):
    """Give what the network says of codes, by another implementation."""
    values = codes.double().numpy()
    parts = [p.double().numpy() for p in trainer.parameters.values()]
    for layer in range(0, len(parts), 2):
        if layer:
            values = values / (1 + np.exp(-values))
        values = values @ parts[layer].T + parts[layer + 1]
    values = values[:, :N_BINS] + values[:, N_BINS:] @ GROUPS.T
    split = np.split(np.exp(values), STARTS[1:-1], axis=1)
    return np.concatenate([v / v.sum(1, keepdims=True) for v in split], axis=1)


def test_a_row_has_one_bin_of_every_column_as_often_as_the_network_says():
    trainer = make_trainer()
    draws = trainer.draw(40_000)
    # The same code for all rows.
    draws = draws._replace(codes=draws.codes[:1].expand(40_000, -1))
    rows = trainer.rows(draws).numpy()
    assert set(np.unique(rows)) == {0.0, 1.0}
    of_column = np.add.reduceat(rows, STARTS[:-1], axis=1)
    assert (of_column == 1).all()
    expected = probabilities(trainer, draws.codes[:1])[0]
    # Six deviations of a share, in 33 of them: a false alarm in 10**7 runs.
    np.testing.assert_allclose(rows.mean(axis=0), expected, atol=6 * 0.5 / 200)


def test_the_gradient_passes_through_the_relaxed_row():
    """Of a score that is linear in the row, by differences of the relaxed one."""
    trainer = make_trainer()
    draws = trainer.draw(7)
    weights = torch.arange(float(N_BINS))

    def relaxed_score():
        logits = np.log(probabilities(trainer, draws.codes)) + draws.gumbels.numpy()
        split = np.split(np.exp(2.0 * logits), STARTS[1:-1], axis=1)
        rows = np.concatenate([v / v.sum(1, keepdims=True) for v in split], axis=1)
        return (rows @ weights.numpy()).mean()

    found = trainer.gradient(draws, lambda rows: rows @ weights)
    flat = trainer._flat()
    for place in range(0, len(flat), 5):
        step = torch.zeros_like(flat)
        step[place] = 1e-2
        trainer._set(flat + step)
        above = relaxed_score()
        trainer._set(flat - step)
        slope = (above - relaxed_score()) / 2e-2
        assert float(found[place]) == pytest.approx(slope, abs=5e-3)


def test_a_gradient_of_a_score_of_two_columns_sees_the_row_that_was_drawn():
    """Straight through: a bin's slope is taken where the other column's bin is."""
    trainer = make_trainer()
    draws = trainer.draw(9)
    rows = trainer.rows(draws)
    both = trainer.gradient(draws, lambda r: r[:, 0] * r[:, 3])
    parts = trainer.gradient(
        draws, lambda r: r[:, 0] * rows[:, 3] + rows[:, 0] * r[:, 3]
    )
    np.testing.assert_allclose(both, parts, atol=1e-7)


def test_scales_are_deviations_of_bins_and_follow_the_weights():
    trainer = make_trainer()
    scales = trainer.scales
    rows = trainer.rows(trainer.draw(50_000)).numpy()
    # Of 256 codes, whose bins are nearly even at first.
    np.testing.assert_allclose(scales, rows.std(axis=0), atol=0.03)
    trainer._set(50.0 * trainer._flat())
    assert float((trainer.scales - scales).abs().max()) > 0.03


def test_features_are_rows_of_equal_length():
    trainer = make_trainer()
    rows = trainer.rows(trainer.draw(5))
    found = trainer.features(rows)
    assert found.shape == (5, trainer.n_features)
    length = np.sqrt(trainer.n_features)
    np.testing.assert_allclose(found.norm(dim=1), length, rtol=1e-6)
    groups = found[:, N_BINS:] / found.max()
    np.testing.assert_allclose(groups, rows.numpy() @ GROUPS, rtol=1e-6)


def test_what_is_kept_is_the_network_at_many_codes():
    """The mean over the second half of the steps, at codes that are as likely."""
    trainer = make_trainer(n_steps=2)
    trainer.ascend(torch.ones_like(trainer._flat()))
    trainer.ascend(-torch.ones_like(trainer._flat()))
    last = trainer._flat()
    mixture = trainer.result()
    torch.testing.assert_close(trainer._flat(), last)
    assert mixture.weights.sum() == pytest.approx(1)
    shares = mixture.weights @ mixture.probabilities
    # Both stand for the normal distribution of codes: 10,000 and 50,000 draws.
    drawn = trainer.rows(trainer.draw(50_000)).double().mean(0)
    np.testing.assert_allclose(shares, drawn, atol=0.03)
    assert (mixture.probabilities.std(axis=0) > 1e-3).all()


def test_a_step_is_one_of_adam():
    """All weights move by the learning rate at first, whatever the gradient's size.

    And rows follow, of the same draws.
    """
    trainer = make_trainer()
    before, draws = trainer._flat(), trainer.draw(50)
    rows = trainer.rows(draws)
    gradient = 10.0 ** torch.linspace(-6, 6, len(before))
    trainer.ascend(-gradient, share=0.5)
    torch.testing.assert_close(before - trainer._flat(), torch.full_like(before, 0.5))
    assert not torch.equal(trainer.rows(draws), rows)
