"""Rows with the parities that were measured, of a mixture that does not know them."""

from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pytest

from skdpsynth.generators import Mixture, MixtureGenerator, Tilts
from skdpsynth.measure import Parities

N_COLUMNS, N_ROWS = 5, 200_000
STARTS = np.arange(0, 4 * N_COLUMNS + 1, 4)
HALVES = np.tile([0, 0, 1, 1], N_COLUMNS)
RANKS = np.tile([[0.0, 0.25, 0.5, 0.75], [0.25, 0.5, 0.75, 1.0]], N_COLUMNS)
SETS = np.array(
    [
        np.isin(np.arange(N_COLUMNS), own)
        for size in (4, 5)
        for own in combinations(range(N_COLUMNS), size)
    ]
)


def mixture(n_components=1, seed=0):
    """One of even columns, or a few components that are not."""
    if n_components == 1:
        return Mixture.independent(np.full(4 * N_COLUMNS, 0.25), RANKS)
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(4), (n_components, N_COLUMNS))
    weights = rng.dirichlet(np.ones(n_components))
    probabilities = shares.reshape(n_components, -1).astype(np.float32)
    return Mixture(weights, probabilities, RANKS)


def tilts(own, means, noise_std=0.0, n_rows=1e6):
    """Choose tilts for mean parities of the sets."""
    parities = Parities(HALVES, SETS, n_rows * np.array(means), n_rows * noise_std)
    return Tilts.of(parities, n_rows, own.weights, own.probabilities, STARTS)


def drawn(own, found, seed=0):
    """Give the bins of many rows."""
    generator = MixtureGenerator([own], STARTS, None, {0: found} if found else {})
    codes = np.zeros(N_ROWS, dtype=np.int64)
    return (4 * generator.draw(codes, np.random.default_rng(seed))).astype(int)


def parities_of(bins):
    """Give the mean parities of rows, off by 0.0023 at most: 0.0116 at 5 deviations."""
    signs = np.where(bins >= 2, -1, 1)
    return np.array([signs[:, own].prod(axis=1).mean() for own in SETS])


@pytest.mark.parametrize("wanted", [0.8, -0.3, 1.0])
def test_rows_have_the_parity_that_was_measured(wanted):
    """And all tables of three columns are those of the mixture."""
    means = [0.0, 0.0, wanted, 0.0, 0.0, 0.0]
    found = tilts(mixture(), means)
    assert found.sets.tolist() == SETS[2:3].tolist()
    assert found.strengths == pytest.approx([wanted])
    bins = drawn(mixture(), found)
    assert parities_of(bins) == pytest.approx(means, abs=0.0116)
    for columns in combinations(range(N_COLUMNS), 3):
        cells = np.bincount(bins[:, columns] @ [16, 4, 1], minlength=64) / N_ROWS
        assert np.abs(cells - 1 / 64).max() < 5 * math.sqrt(1 / 64 / N_ROWS)


def test_several_parities_of_components_that_depend_on_each_other():
    """What the closed form says of tilted rows is what is drawn."""
    own = mixture(6)
    found = tilts(own, [0.5, -0.4, 0.1, 0.0, 0.2, 0.3])
    assert 2 <= len(found.sets) <= 4
    before = parities_of(drawn(own, None))
    expected = found.parities(SETS, own.weights, own.probabilities, STARTS)
    after = parities_of(drawn(own, found))
    assert after == pytest.approx(expected, abs=0.0116)
    assert np.abs(after - before).max() > 0.3


def test_noise_is_not_followed():
    """Five deviations are; four are not, nor those of as many rows without noise."""
    flat = np.zeros(len(SETS))
    for deviations, n_tilts in ((4.0, 0), (6.0, 1)):
        for noise_std, n_rows in ((0.01, 1e9), (0.0, 1e4)):
            means = flat.copy()
            means[3] = deviations * max(noise_std, 1 / math.sqrt(n_rows))
            found = tilts(mixture(), means, noise_std, n_rows)
            assert (0 if found is None else len(found.sets)) == n_tilts


def test_values_that_were_asked_for_decide_the_class():
    """Of two classes with opposite parities, given values leave one alone."""
    means = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    both = {0: tilts(mixture(), means), 1: tilts(mixture(), np.negative(means))}
    generator = MixtureGenerator([mixture(), mixture()], STARTS, None, both)
    upper, lower = np.array([[0.5, 1.0]]), np.array([[0.0, 0.5]])
    for signs in (0b00000, 0b10110, 0b11011, 0b00001):
        spans = {j: upper if signs >> j & 1 else lower for j in range(N_COLUMNS)}
        within, shares = generator.within([spans, spans])
        odd = signs.bit_count() % 2
        assert shares[odd] == pytest.approx(2 * 0.5**N_COLUMNS)
        assert shares[1 - odd] == pytest.approx(0.0, abs=1e-9)
        codes = np.full(50, odd)
        bins = within.draw(codes, np.random.default_rng(0)) >= 0.5
        assert (bins == [signs >> j & 1 for j in range(N_COLUMNS)]).all()


def test_a_generator_survives_its_state():
    found = tilts(mixture(6), [0.5, -0.4, 0.1, 0.0, 0.2, 0.3])
    generator = MixtureGenerator([mixture(), mixture(6)], STARTS, None, {1: found})
    document, arrays = generator.to_state()
    again = MixtureGenerator.from_state(json.loads(json.dumps(document)), arrays)
    codes = np.arange(500) % 2
    ours, theirs = (g.draw(codes, np.random.default_rng(3)) for g in (generator, again))
    assert (ours == theirs).all()
    for name, damage in (
        ("halves", HALVES[1:]),
        ("sets", found.sets[:, 1:]),
        ("strengths", 2 + found.strengths),
    ):
        with pytest.raises(ValueError, match="another table"):
            MixtureGenerator.from_state(document, arrays | {f"tilts.1.{name}": damage})
