"""Keys that are private themselves: the threshold, and what passes it."""

import math

import numpy as np
import pytest
from _reserve import exact, noisy

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy.statistics import key_threshold, thresholded_counts
from skdpsynth.privacy.testing import insecure_randomness, observe_releases


def tail(std, start):
    z = np.arange(-int(45 * std) - 5, int(45 * std) + 6, dtype=np.float64)
    weights = np.exp(-(z**2) / (2 * std**2))
    return float(weights[z >= start][::-1].cumsum()[-1] / weights.sum())


@pytest.mark.parametrize("delta", [0.3, 1e-4, 1e-7, 1e-12, 1e-30])
@pytest.mark.parametrize("std", [3.0, 18.9, 63.7, 1000.0])
def test_threshold_bounds_the_exact_tail_and_is_tight(std, delta):
    threshold = key_threshold(std, delta / 0.9, 1)
    # A key whose count went from one to two passes when 2 + Z > threshold.
    assert tail(std, threshold - 1) <= delta
    if delta < 0.1:
        assert tail(std, threshold - 1 - math.ceil(0.03 * std + 1)) > delta


def test_threshold_without_noise_and_out_of_range():
    assert key_threshold(0.0, 1e-6, 1) == 1
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="threshold_delta must be in"):
            key_threshold(3.0, delta, 1)
    codes = [np.array([1, 2, 3, 1])]
    ((keys, counts),) = thresholded_counts(codes, exact(1.0, delta=1e-6), 1e-6)
    assert (keys.tolist(), counts.tolist()) == ([1, 2], [2, 3])


def test_columns_share_the_delta():
    """Of 2,000 keys at the threshold some pass by 1, and none by less.

    Noise of sigma 10 is 1 with probability .04: so some do, but for 1e-35.
    """
    line = noisy(2.0, delta=1e-6)
    threshold = key_threshold(line.noise_std, 1e-6, 4)
    assert threshold == key_threshold(line.noise_std, 0.25e-6, 1)
    released = thresholded_counts([np.full(500, threshold)] * 4, line, 1e-6)
    assert min(counts.min() for _, counts in released) == threshold + 1
    # Half of them pass; none of those that did not is there.
    assert 0 < sum(len(keys) for keys, _ in released) < 2000


def threshold_in_effect(std_of, delta, n_columns, least, **of_unit):
    """Give noise, and the noisy count that keys must exceed, by trying all of them."""
    line = noisy(math.sqrt(n_columns), mu=std_of, delta=delta, **of_unit)
    columns = [np.full(5000, 10**6), *[np.empty(0, np.int64)] * (n_columns - 1)]

    def answer(release):
        return np.arange(len(release.exact))

    with insecure_randomness(0), observe_releases(answer):
        released = thresholded_counts(columns, line, delta, least=least)
    return line.noise_std, int(released[0][1].min()) - 1


@pytest.mark.parametrize("least", [2, 3, 17, 1000])
@pytest.mark.parametrize(("n_columns", "delta"), [(1, 1e-7), (9, 1e-6), (40, 1e-9)])
def test_a_larger_least_count_raises_the_threshold(least, n_columns, delta):
    """The exact tail of a key of so many rows is below d = 0.9 delta / K, and not far.

    What is left covers removing a row: d / (1 - d) is below delta, which is below 0.1.
    """
    bound = 0.9 * delta / n_columns
    for mu in (0.05, 0.4):
        std, threshold = threshold_in_effect(mu, delta, n_columns, least)
        assert threshold == key_threshold(std, delta, n_columns, least)
        needed = threshold + 1 - least  # noise with which it would pass
        assert tail(std, needed) <= bound
        assert tail(std, needed - math.ceil(0.03 * std + 1)) > bound
    assert key_threshold(0.0, delta, n_columns, least) == least - 1


def partitions(total, largest=None):
    """All ways to share out rows among keys."""
    if total == 0:
        yield []
    for part in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - part, part):
            yield [part, *rest]


@pytest.mark.parametrize("mu", [0.02, 0.6])
@pytest.mark.parametrize("most", [2, 5, 10])
def test_no_way_to_share_out_rows_shows_a_key_more_often(mu, most):
    """A key of j rows of a unit, and of one other: d for the column is enough.

    The threshold of one row would let a key of all k rows pass more often.
    """
    std, threshold = threshold_in_effect(mu, 1e-6, 4, 2, rows_per_unit=most)
    bound = 0.9 * 1e-6 / 4
    seen = [sum(tail(std, threshold - j) for j in keys) for keys in partitions(most)]
    assert 0 < max(seen) <= bound
    of_row = key_threshold(std, 1e-6, 4, 2)
    assert tail(std, of_row - most) > bound


@pytest.mark.parametrize("least", [2, 5, 9])
def test_keys_of_fewer_rows_are_not_considered(least):
    """So that leaving them out changes nothing: not what is released, nor the noise."""
    counts = np.array([1, 4, 5, 8, 9, 10**6])
    names, seen = list("abcdef"), []
    for kept in (counts > 0, counts >= least):
        own = [name for name, keep in zip(names, kept, strict=True) if keep]
        with insecure_randomness(1), observe_releases(seen.append):
            line = noisy(1.0, delta=1e-6)
            thresholded_counts(
                [counts[kept]], line, 1e-6, lambda n=own: [n], least=least
            )
    whole, part = seen
    assert whole.exact.tolist() == [n for n in counts.tolist() if n >= least]
    assert whole.least == part.least == least
    assert whole.keys == part.keys
    assert np.array_equal(whole.noisy, part.noisy)


@pytest.mark.parametrize(
    ("n_columns", "error", "match"),
    [
        (1, ReservationError, r"delta of 1e-07, .* needs 1e-06"),
        (3, ReservationError, r"needs 1\.73205"),
        (0, ValueError, "at least one column"),
    ],
)
def test_what_was_not_reserved_is_refused(n_columns, error, match):
    reservation = noisy(math.sqrt(2), delta=1e-7)
    with pytest.raises(error, match=match):
        thresholded_counts([np.array([5])] * n_columns, reservation, 1e-6)
    assert reservation.used == 0


def test_names_are_made_for_an_observer_only():
    """They are all private keys: a fit that nobody observes lists none of them."""
    asked, seen, counts = [], [], [np.array([5, 1, 7])]

    def names():
        asked.append(1)
        return [["a", "b", "c"]]

    thresholded_counts(counts, noisy(1.0, delta=1e-6), 1e-6, names)
    assert asked == []
    with observe_releases(seen.append):
        thresholded_counts(counts, noisy(1.0, delta=1e-6), 1e-6, names)
    assert asked == [1]
    assert [release.keys for release in seen] == [((0, "a"), (0, "c"))]


@pytest.mark.parametrize("counts", [[], [1, 1]])
def test_a_release_is_made_where_no_key_is_considered(counts):
    line = noisy(1.0, delta=1e-6)
    ((keys, _),) = thresholded_counts([counts], line, 1e-6)
    assert (len(keys), line.used) == (0, 1)
