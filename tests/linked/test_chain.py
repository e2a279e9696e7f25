"""Chains without noise come to what can be computed; order and bounds always hold."""

import numpy as np
import pytest

from skdpsynth.linked import _regression as regression
from skdpsynth.linked._chain import LinkModel
from skdpsynth.linked._columns import Column
from skdpsynth.linked._regression import Known, fit_regression
from skdpsynth.table import CategoryDomain, NumericDomain


def choice(name, n=2, *, nullable=False):
    return Column(name, CategoryDomain(tuple(range(n)), nullable))


def number(name, high, *, log=False, integer=True, nullable=False, low=0.0):
    return Column(name, NumericDomain(low, float(high), log, integer, nullable))


def fitted(model, values, unit, parents, rng, std=0.0):
    """Fit a model to the tables of rows of which each unit weighs 1, with noise."""
    n = np.bincount(unit, minlength=len(parents))
    first = np.diff(unit, prepend=-1) != 0
    weights = {
        "first": 1.0 * first,
        "later": ~first / np.maximum(n[unit] - 1, 1),
        "rows": 1 / n[unit],
    }
    counts, every = [], [*values.T, model.gaps(values, unit)]
    for k, column in enumerate(model.shapes):
        cells = column.cells(every[k])
        seen = cells >= 0
        of = weights["rows" if k < len(model.own) else "later"]
        own = np.bincount(cells[seen], of[seen], column.n_cells)
        counts.append(own + std * rng.standard_normal(column.n_cells))
    mu = np.inf if std == 0 else 10.0 / std
    model.choose(counts, std, parents, n, np.ones(len(n)), mu)
    codes, tables = model.encode(values, unit, parents), {}
    for (i, j), pair in model.pairs.items():
        table = np.zeros((model.columns[i].n_bins, model.columns[j].n_bins))
        seen = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        place = codes[seen, i], codes[seen, j]
        np.add.at(table, place, weights[pair.scope][seen])
        tables[i, j] = table + std * rng.standard_normal(table.shape)
    noise = dict.fromkeys(tables, std)
    model.fit(tables, noise, parents, np.maximum(n, std > 0), np.ones(len(n)), rng)
    return model


def sequences(n_units, n, step, rng):
    """Draw sequences of 0 and 1, (n_units, n): `step` has the chance of a next 1."""
    rows = np.empty((n_units, n))
    for t in range(n):
        rows[:, t] = rng.random(n_units) < step(rows[:, :t])
    return rows


def drawn(rows, rng, n_units):
    """Fit to sequences, and draw others of the same length."""
    n = rows.shape[1]
    model = LinkModel([choice("x")], [choice("parent")], most=n)
    unit = np.repeat(np.arange(len(rows)), n)
    fitted(model, rows.reshape(-1, 1), unit, np.zeros((len(rows), 1)), rng)
    _, values = model.draw(np.zeros((n_units, 1)), np.full(n_units, n), rng)
    return values.reshape(n_units, n)


def test_a_markov_chain_has_its_lags(global_random_seed):
    """Agreement p with the row before, p^2 + (1-p)^2 with the one before that.

    n = 20,000 sequences of 4 to fit to and to draw; deviations of agreements are below
    .004 together, and the simulated contexts add less than .006: .03 is 5 deviations,
    a false-alarm rate below 1e-6.
    """
    rng, p = np.random.default_rng(global_random_seed), 0.8
    rows = sequences(
        20_000,
        4,
        lambda past: np.where(past[:, -1] > 0, p, 1 - p) if past.size else 0.5,
        rng,
    )
    found = drawn(rows, rng, 20_000)
    for lag, right in ((1, p), (2, p**2 + (1 - p) ** 2)):
        agree = (found[:, lag:] == found[:, :-lag]).mean()
        assert abs(agree - right) < 0.03


def test_rows_of_a_unit_are_alike_as_in_an_urn(global_random_seed):
    """Of a Polya urn with a = b = 1 two rows of a unit have the correlation 1/3.

    n = 20,000 units of 4 rows: the deviation of a correlation is below .006, fitted and
    drawn .012 with contexts. The memory of categories is the most frequent one, which
    makes at most .03: .1 is 5 deviations above, a false-alarm rate below 1e-6.
    """
    rng = np.random.default_rng(global_random_seed)
    rows = sequences(
        20_000, 4, lambda past: (1 + past.sum(1)) / (2 + past.shape[1]), rng
    )
    of_rows = np.corrcoef(drawn(rows, rng, 20_000).T)
    assert abs(of_rows[np.triu_indices(4, 1)].mean() - 1 / 3) < 0.1


@pytest.mark.parametrize("descending", [False, True])
def test_gaps_have_their_mean_and_do_not_drift(descending, global_random_seed):
    """Exponential gaps: their mean, at every position; order and bounds always hold.

    n = 4,000 units of 6 rows; the mean of the gaps at a position has a deviation of 1.6
    % as drawn and as fitted, and 14 bins lose 2 %: 14 % is 5 deviations above, a
    false-alarm rate below 1e-6.
    """
    rng, n, end = np.random.default_rng(global_random_seed), 4_000, 2_000
    days = np.floor(rng.exponential(30, (n, 6)))
    days[:, 0] = rng.integers(0, 600, n)
    values = days.cumsum(1)
    assert values.max() < end
    values = end - values if descending else values
    own, gap = [number("day", end), choice("x")], number("gap", end, log=True)
    model = LinkModel(own, [choice("p")], gap, most=6, descending=descending)
    rows = np.column_stack((values.ravel(), rng.integers(0, 2, 6 * n)))
    unit, parents = np.repeat(np.arange(n), 6), np.zeros((n, 1))
    fitted(model, rows, unit, parents, rng)
    of_unit, found = model.draw(parents, np.full(n, 6), rng)
    assert (of_unit == unit).all()
    assert found[:, 0].min() >= 0
    assert found[:, 0].max() <= end
    steps = np.diff(found[:, 0].reshape(n, 6), axis=1) * (-1 if descending else 1)
    assert steps.min() >= 0
    right = days[:, 1:].mean()
    assert np.abs(steps.mean(0) / right - 1).max() < 0.14


def test_slopes_are_log_odds_ratios(monkeypatch):
    """Of one binary given, by arithmetic, without a prior."""
    monkeypatch.setattr(regression, "PRIORS", {"own": 1e3})
    monkeypatch.setattr(regression, "WIDEST", 1e3)
    own, given = choice("x"), choice("y")
    table = np.array([[300.0, 100.0], [50.0, 550.0]])
    own.settle(table.sum(0) / 1000, np.arange(2))
    given.settle(table.sum(1) / 1000, np.arange(2))
    codes = np.repeat([0, 1], [400, 600])
    known = Known(given, codes, np.ones(1000), table, 0.0, "own")
    _, slopes = fit_regression(own, [known])
    ratio = (slopes[1, 1] - slopes[1, 0]) - (slopes[0, 1] - slopes[0, 0])
    assert abs(ratio - np.log(300 * 550 / (100 * 50))) < 0.01


def test_noise_alone_is_not_fitted(global_random_seed):
    """Without a row log-odds stay near 0, and nothing is drawn of no children.

    Those of places of rows are free. Of the others the posterior shrinks noise: a mean
    square of 10 prior variances has a chance below 1e-6 for the 4 odds of a table.
    """
    rng = np.random.default_rng(global_random_seed)
    model = LinkModel([number("a", 50), choice("b", 3)], [choice("p")], most=5)
    nobody = np.empty((0, 2)), np.empty(0, np.int64), rng.integers(0, 2, (500, 1)) * 1.0
    fitted(model, *nobody, rng, std=5.0)
    for j, slopes in model.slopes.items():
        sizes = [model.columns[i].n_bins for i in model.uses[j]]
        parts = np.split(slopes, np.cumsum(sizes)[:-1])
        for i, part in zip(model.uses[j], parts, strict=True):
            if model.columns[i].name != "position":
                prior = regression.PRIORS[model.pairs[i, j].role]
                assert (part**2).mean() < 10 * prior**2
    unit, values = model.draw(np.zeros((7, 1)), np.zeros(7, np.int64), rng)
    assert unit.shape == (0,)
    assert values.shape == (0, 2)
    assert values.dtype == np.float64


def test_codes_of_a_unit_depend_on_its_own_rows(global_random_seed):
    """Whatever other units there are: else a unit could move more than its weight."""
    rng = np.random.default_rng(global_random_seed)
    own = [
        number("day", 900),
        number("v", 3, integer=False, nullable=True),
        choice("c"),
    ]
    model = LinkModel(own, [choice("p")], number("gap", 900), most=9)
    n = rng.integers(0, 9, 60)
    unit = np.repeat(np.arange(60), n)
    rows = rng.random((len(unit), 3)) * [900, 3, 2] // [1, 1e-9, 1]
    rows[:, 0] = np.sort(rows[:, 0] + 1000 * unit) % 1000
    rows[rng.random(len(rows)) < 0.2, 1] = np.nan
    parents = rng.integers(0, 2, (60, 1)) * 1.0
    fitted(model, rows, unit, parents, rng)
    every = model.encode(rows, unit, parents)
    for u in np.flatnonzero(n):
        alone = model.encode(rows[unit == u], np.zeros(n[u], int), parents[[u]])
        np.testing.assert_array_equal(alone, every[unit == u])
    again = LinkModel.from_state(*model.to_state())
    for one in (model, again):
        one.drawn = one.draw(parents, n, np.random.default_rng(1))[1]
    np.testing.assert_array_equal(model.drawn, again.drawn)
