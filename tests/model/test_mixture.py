"""The mixture draws what its numbers say, lends dependence, and follows relations."""

import math
from itertools import pairwise

import numpy as np
import pytest

from skdpsynth.measure import Relation
from skdpsynth.model import Followers, Mixture, MixtureGenerator

STARTS = np.array([0, 3, 5, 9])
ALPHA = 1e-6


def random_mixture(seed: int, n_components: int = 6) -> Mixture:
    """Make a mixture of three columns; their bins stand in a shuffled order."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_components))
    parts, ranks = [], np.empty((2, STARTS[-1]))
    for start, end in pairwise(STARTS):
        parts.append(rng.dirichlet(np.full(end - start, 0.4), n_components))
        ends = np.concatenate(([0.0], np.cumsum(rng.dirichlet(np.ones(end - start)))))
        ends[-1] = 1.0
        order = rng.permutation(end - start)
        ranks[:, start + order] = ends[:-1], ends[1:]
    return Mixture(weights, np.concatenate(parts, axis=1).astype(np.float32), ranks)


def bins_of(ranks, mixture):
    """Give the bin that each rank is in, by comparing it with all of them."""
    found = np.empty(ranks.shape, dtype=np.int64)
    for j, (start, end) in enumerate(pairwise(STARTS)):
        low, high = mixture.ranks[:, start:end]
        inside = (ranks[:, j, None] >= low) & (ranks[:, j, None] < high)
        assert (inside.sum(axis=1) == 1).all()
        found[:, j] = start + inside.argmax(axis=1)
    return found


def draw(mixtures, class_codes, seed=0, starts=STARTS):
    generator = MixtureGenerator(list(mixtures), starts)
    return generator.draw(np.asarray(class_codes), np.random.default_rng(seed))


def pair_shares(bins):
    one_hot = np.zeros((len(bins), STARTS[-1]))
    np.put_along_axis(one_hot, bins, 1.0, axis=1)
    return one_hot.T @ one_hot / len(bins)


def largest_error(n_rows, n_cells):
    """Bound the error of every share by Hoeffding's inequality, at `ALPHA`."""
    return math.sqrt(math.log(2 * n_cells / ALPHA) / (2 * n_rows))


@pytest.mark.statistical
def test_pairs_of_rows_are_the_matrix_product(global_random_seed):
    """n = 200,000 rows of two classes; the statistic is the largest error of a share.

    The share of each cell of a pair is binomial with the mean that ``P^T diag(w) P``
    gives. The 26 cells of each of 2 classes all stay within Hoeffding's bound but for a
    probability of 1e-6. So do distances from the uniform distribution inside the bins,
    of 6 columns (Dvoretzky, Kiefer, Wolfowitz).
    """
    mixtures = [random_mixture(seed) for seed in (1, 2)]
    class_codes = np.arange(200_000) % 2
    ranks = draw(mixtures, class_codes, global_random_seed)
    even = (np.arange(100_000) + 0.5) / 100_000
    for c, mixture in enumerate(mixtures):
        own = ranks[class_codes == c]
        bins = bins_of(own, mixture)
        error = np.abs(pair_shares(bins) - mixture.pair_shares())
        for start, end in pairwise(STARTS):
            error[start:end, start:end] = 0.0  # a column with itself
        assert error.max() < largest_error(100_000, 2 * 26)
        low, high = mixture.ranks[:, bins]
        inside = np.sort((own - low) / (high - low), axis=0)
        assert np.abs(inside - even[:, None]).max() < largest_error(100_000, 6) + 1e-5


def test_what_has_no_probability_is_not_drawn():
    """Neither a bin nor a component, at the first, a middle or the last place."""
    never = np.array([[0, 0.5, 0, 0.5, 0], [1, 0, 0, 0, 0]], dtype=np.float32)
    ends = np.linspace(0, 1, 6)
    mixture = Mixture(np.array([1.0, 0.0]), never, np.stack([ends[:-1], ends[1:]]))
    ranks = draw([mixture], np.zeros(50_000, np.int64), starts=np.array([0, 5]))
    assert set(np.floor(ranks[:, 0] * 5).astype(int)) == {1, 3}


def test_every_row_is_drawn_for_its_class():
    """Classes in any order, one of them without a row; ranks are in [0, 1).

    Components of a class are drawn in any order too.
    """
    ends = np.array([0.0, 0.3, 0.6, 0.9])[:, None] + [0.0, 0.05, 0.1]
    mixtures = [
        Mixture(
            np.full(2, 0.5), np.eye(2, dtype=np.float32), np.stack([own[:-1], own[1:]])
        )
        for own in ends
    ]
    class_codes = np.random.default_rng(0).choice([0, 1, 3], 6000)
    ranks = draw(mixtures, class_codes, starts=np.array([0, 2]))[:, 0]
    assert (np.floor(ranks / 0.3 + 1e-9).astype(int) == class_codes).all()
    assert ((ranks >= 0) & (ranks < 1)).all()
    # About 1,000 fair coins: within 8 standard deviations, a rate below 1e-14.
    first = ranks[class_codes == 1][:1000] - 0.3 < 0.05
    assert abs(first.mean() - 0.5) < 8 * 0.5 / math.sqrt(1000)


def exact(shares, order_of):
    """Make a class of given shares, with bins in the order of a mixture's."""
    ranks = np.empty((2, STARTS[-1]))
    for start, end in pairwise(STARTS):
        order = start + np.argsort(order_of.ranks[0, start:end])
        ranks[1, order] = np.cumsum(shares[order])
        ranks[0, order] = ranks[1, order] - shares[order]
    return Mixture.independent(shares, ranks)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("with_cells", [(), (0, 1, 2)])
def test_a_borrower_keeps_exactly_its_marginals(seed, with_cells):
    """In closed form: the ranks that it draws are uniform on [0, 1] in each column.

    The bins' intervals partition [0, 1], and each is as long as it is probable. They
    stand in the order of the lender's, or are the class's own where it has cells.
    """
    lender, own = random_mixture(seed), random_mixture(seed + 50)
    borrower = lender.lent(own, STARTS, [False] * 3, with_cells)
    shares = borrower.weights @ borrower.probabilities
    np.testing.assert_allclose(np.diff(borrower.ranks, axis=0)[0], shares, atol=1e-6)
    for start, end in pairwise(STARTS):
        low, high = borrower.ranks[:, start:end]
        order = np.argsort(low)
        ordered_by = own if with_cells else lender
        first = ordered_by.ranks[0, start:end]
        assert order.tolist() == np.argsort(first).tolist()
        assert low[order[0]] == 0
        assert high[order[-1]] == pytest.approx(1)
        np.testing.assert_allclose(low[order[1:]], high[order[:-1]])
    assert not with_cells or (borrower.ranks == own.ranks).all()
    assert borrower.weights is lender.weights


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("with_cells", [(), (0, 1, 2)])
def test_a_class_with_equal_marginals_borrows_all_dependence(seed, with_cells):
    """In closed form: with the lender's shares in its bins it is the lender."""
    lender = random_mixture(seed)
    own = exact(lender.weights @ lender.probabilities, lender)
    found = lender.lent(own, STARTS, [False, False, True], with_cells)
    np.testing.assert_allclose(found.probabilities, lender.probabilities, atol=1e-5)


@pytest.mark.parametrize("common", [1.0, 0.75, 0.5])
def test_a_class_with_other_marginals_borrows_less(common):
    """In closed form: of two columns that are equal, the first differs by class."""
    starts, ranks = np.array([0, 2, 4]), np.array([[0, 0.5] * 2, [0.5, 1] * 2])
    probabilities = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], np.float32)
    lender = Mixture(np.full(2, 0.5), probabilities, ranks)
    own = Mixture.independent(np.array([1.5 - common, common - 0.5, 0.5, 0.5]), ranks)
    found = lender.lent(own, starts, [False, False]).probabilities
    first, second = np.abs(np.diff(found, axis=0)[0, [0, 2]])
    assert first == pytest.approx(common)
    assert second == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(2))
def test_categories_are_lent_by_their_odds(seed):
    """Odds ratios are the lender's, shares the borrower's: no order matters.

    All but what the classes do not have in common, which is drawn independently.
    """
    lender, own = random_mixture(seed), random_mixture(seed + 50)
    borrower = lender.lent(own, STARTS, [True, False, True])
    shares = own.weights @ own.probabilities
    for start, end in ((STARTS[0], STARTS[1]), (STARTS[2], STARTS[3])):
        found = borrower.probabilities[:, start:end].astype(np.float64)
        given = lender.probabilities[:, start:end].astype(np.float64)
        np.testing.assert_allclose(lender.weights @ found, shares[start:end], atol=1e-3)
        common = np.minimum(lender.weights @ given, shares[start:end]).sum()
        found = (found - (1 - common) * (lender.weights @ found)) / common
        ratios = [part[:, 1:] / part[:, :1] for part in (found, given)]
        change = ratios[0] / ratios[1]
        np.testing.assert_allclose(change, change[:1].repeat(len(change), 0), rtol=1e-2)
        assert (borrower.ranks[:, start:end] == own.ranks[:, start:end]).all()


def test_a_category_that_the_lender_never_has_can_be_lent():
    """Or that the borrower never has: no division by nothing."""
    shares = np.array([[[0.6, 0.4, 0.0]], [[0.0, 0.5, 0.5]]], np.float32)
    lender, own = (Mixture(np.ones(1), row, np.zeros((2, 3))) for row in shares)
    found = lender.lent(own, np.array([0, 3]), [True]).probabilities[0]
    np.testing.assert_allclose(found, [0.0, 0.5, 0.5], atol=1e-4)


# --- Rows are changed until they follow the relations, and no further -----------------

OF_TWO = np.array([0, 3, 7])
N_ROWS = 200_000


def independent(first=(0.2, 0.3, 0.5), second=(0.4, 0.3, 0.2, 0.1)):
    """A mixture of two columns that say nothing of each other."""
    shares = np.array([*first, *second])
    ends = np.concatenate([np.cumsum(first), np.cumsum(second)])
    return Mixture.independent(shares, np.array([ends - shares, ends]))


def drawn(generator, seed=0):
    """Give the table of bins of many rows, and their ranks."""
    codes = np.zeros(N_ROWS, dtype=np.int64)
    ranks = generator.draw(codes, np.random.default_rng(seed))
    first, second = np.split(generator.mixtures[0].ranks[0], [3])
    bins = [
        np.searchsorted(low, own, "right") - 1
        for low, own in zip((first, second), ranks.T, strict=True)
    ]
    table = np.zeros((3, 4))
    np.add.at(table, tuple(bins), 1.0 / N_ROWS)
    return table, ranks


def followers(relation, std=0.0, mixtures=None):
    found = Followers([relation], std, (), ())
    mixtures = [independent()] if mixtures is None else mixtures
    found.compare(mixtures, np.ones(len(mixtures)), OF_TWO)
    return MixtureGenerator(mixtures, OF_TWO, found)


def joint(seed=1):
    """A table with zeros whose sums are those of the mixture."""
    rng = np.random.default_rng(seed)
    table = rng.random((3, 4)) ** 3
    table[0, 3] = table[2, 0] = 0.0
    rows, columns = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.3, 0.2, 0.1])
    for _ in range(500):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    return table


@pytest.mark.parametrize("turned", [False, True])
def test_a_strong_relation_is_drawn_as_it_was_measured(turned):
    """A share of 200,000 rows is off by 0.0011 at most, 5 deviations 0.0056."""
    wanted = joint()
    relation = Relation(0, 1, wanted, strong=True)
    if turned:
        relation = Relation(1, 0, wanted.T, strong=True)
    generator = followers(relation)
    table, _ = drawn(generator)
    assert np.abs(table - wanted).max() < 0.0056
    assert table[0, 3] == table[2, 0] == 0.0
    # One row is drawn like many: changes follow from the mixtures, not from the rows.
    rng, one = np.random.default_rng(0), np.zeros(1, dtype=np.int64)
    ranks = np.concatenate([generator.draw(one, rng) for _ in range(2000)])
    low = generator.mixtures[0].ranks[0]
    bins = np.searchsorted(low[3:7], ranks[:, 1], "right") - 1
    share = np.bincount(bins, minlength=4) / len(bins)
    assert np.abs(share - wanted.sum(axis=0)).max() < 0.06


def test_other_relations_change_what_is_surely_wrong_alone():
    """Impossible pairs go. Others stay within three deviations of what was measured."""
    wanted, std = joint(), 0.01
    relation = Relation(0, 1, wanted, strong=False)
    before = np.outer([0.2, 0.3, 0.5], [0.4, 0.3, 0.2, 0.1])
    table, _ = drawn(followers(relation, std))
    assert table[0, 3] == table[2, 0] == 0.0
    off, was = np.abs(table - wanted), np.abs(before - wanted)
    assert (off < np.maximum(was, 3 * std) + 0.03).all()
    assert table.sum(axis=1) == pytest.approx([0.2, 0.3, 0.5], abs=0.006)
    loose, _ = drawn(followers(Relation(0, 1, before, strong=False), std))
    assert np.abs(loose - before).max() < 0.0056  # nothing is wrong, nothing changes


def test_every_class_keeps_what_distinguishes_it():
    """Two classes with other shares of the first column follow one relation."""
    mixtures = [independent(), independent(first=(0.6, 0.2, 0.2))]
    relation = Relation(0, 1, joint(), strong=True)
    generator = followers(relation, mixtures=mixtures)
    codes = np.repeat([0, 1], N_ROWS // 2)
    ranks = generator.draw(codes, np.random.default_rng(0))
    share = (ranks[codes == 1, 0] < 0.6).mean()
    assert share == pytest.approx(0.6, abs=0.01)
