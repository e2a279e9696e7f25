"""Frequent values: found by threshold, given cells of their own, and drawn exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from _written import N, fitted, layouts_of, without_noise

# One kind of release, and without noise: `discover` makes others too.
from skdpsynth.measure._written import discover_values
from skdpsynth.privacy import LocalParts
from skdpsynth.schema import Continuous
from skdpsynth.table import NumericDomain

UNIFORM = tuple(np.linspace(0.2, 1.8, 100).tolist())  # room of last digits, mean 1
WHOLE = NumericDomain(0.0, 20_000.0, False, True, False)


def distance(first, second):
    """Total variation distance of two columns."""
    shares = [own.value_counts(normalize=True) for own in (first, second)]
    return shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2


# --- Frequent values: what is found -----------------------------------------------


def many_kinds():
    """A table, its domains, and the values of each column that can be frequent."""
    rng = np.random.default_rng(3)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.poisson(60, N), unit="D")
    frame = pd.DataFrame(
        {
            "float": np.round(rng.normal(0, 9, N), 1) + math.pi,
            "whole": rng.poisson(40, N) - 20,
            "cents": np.where(rng.random(N) < 0.2, 0.29, rng.integers(0, 300, N) / 100),
            "tens": 1000 * rng.poisson(30, N),
            "maybe": pd.array(rng.poisson(9, N), dtype="Int64"),
            "day": days + pd.to_timedelta(rng.integers(0, 24, N), unit="h"),
            "zone": days.tz_localize("America/New_York"),
        }
    )
    frame.loc[::3, "float"] = np.nan
    frame.loc[::5, "maybe"] = pd.NA
    frame.loc[::7, "day"] = pd.NaT
    day = {"step": 86_400.0, "log": False, "integer": True, "nullable": True}
    domains = [
        NumericDomain(-20.0, 20.0, False, False, True),
        NumericDomain(-15, 40, True, True, False),
        NumericDomain(0, 250, False, True, False, decimals=2),
        NumericDomain(0, 40, False, True, False, decimals=-3),
        NumericDomain(2, 99, False, True, True),
        NumericDomain(18_262, 18_330, **day),
        NumericDomain(18_262, 18_330, **day),
    ]
    steps = {
        "float": frame["float"],
        "whole": frame["whole"].replace(0, -99),  # 0 is counted anyway
        "cents": (frame["cents"] * 100).round().replace(0, -99),
        "tens": (frame["tens"] // 1000).replace(0, -99),
        "maybe": frame["maybe"].astype("Float64"),
    }
    for name in ("day", "zone"):
        clock = frame[name].dt.tz_localize(None)
        steps[name] = (clock - pd.Timestamp(0)).dt.days
    return frame, domains, steps


def reference(steps, domain, least):
    """What `discover_values` finds without noise, by pandas."""
    counts = steps[(steps >= domain.low) & (steps <= domain.high)].value_counts()
    counts = counts[counts >= least].sort_index()
    return tuple((float(k), n / N) for k, n in counts.items())


def found_values(table, columns, domains, n_rows=N):
    return discover_values(
        table,
        columns,
        domains,
        without_noise(),
        mu=math.inf,
        threshold_delta=1e-6,
        n_rows=n_rows,
    )


@pytest.mark.parametrize("n_parts", [1, 4])
def test_frequent_values_are_those_that_pandas_counts(n_parts):
    """Out of range, missing and zero with a cell are left out."""
    frame, domains, steps = many_kinds()
    ends = np.linspace(0, N, n_parts + 1).astype(int)
    pieces = [frame[a:b] for a, b in pairwise(ends)]
    table = frame if n_parts == 1 else LocalParts(lambda: iter(pieces))
    found = found_values(table, layouts_of(frame), domains)
    for domain, name in zip(found, frame, strict=True):
        expected = reference(steps[name], domain, 3)
        assert domain.frequent == expected, name
        assert len(expected) > 10


def test_at_most_512_values_and_those_of_most_rows():
    ranks = np.arange(1, 801)
    values = np.repeat(ranks * 7, 3 + ranks)
    frame = pd.DataFrame({"a": np.random.default_rng(0).permutation(values)})
    (found,) = found_values(frame, layouts_of(frame), [WHOLE], n_rows=1000.0)
    assert [value for value, _ in found.frequent] == (7 * ranks[-512:]).tolist()


# --- Frequent values: what is drawn -----------------------------------------------


def with_spikes(spikes, others):
    """Three in ten rows have one of the values `spikes`, each equally often."""
    rng = np.random.default_rng(0)
    return np.where(rng.random(N) < 0.3, rng.choice(spikes, N), others(rng))


SPIKED = {
    "logarithm": ([math.log(3)], lambda rng: rng.lognormal(0, 1, N)),
    "huge": ([123_456_789_012], lambda rng: rng.integers(0, 10**12, N)),
    "consecutive": ([*range(5000, 5006)], lambda rng: rng.integers(0, 20_000, N)),
    "lowest": ([18.0], lambda rng: rng.uniform(18, 65, N)),
    "near in a huge range": (
        [500_000_000_001, 500_000_000_003],
        lambda rng: rng.integers(0, 10**12, N),
    ),
}


@pytest.mark.parametrize("name", SPIKED)
def test_frequent_values_come_back_to_the_bit(name):
    """Without noise: 30,000 drawn rows have a share within 6 deviations of .0026."""
    spikes, others = SPIKED[name]
    values = with_spikes(spikes, others)
    spec = Continuous(18, 65, decimals="any") if name == "lowest" else None
    _, drawn = fitted(values, spec=spec)
    assert drawn.dtype == values.dtype
    for value in spikes:
        assert (drawn == value).mean() == pytest.approx(
            (values == value).mean(), abs=0.016 if len(spikes) > 1 else 0.01
        )


def test_frequent_values_keep_their_share_beside_zeros():
    """Their share is of all rows, also where several share a bin with other numbers."""
    rng = np.random.default_rng(0)
    prices = rng.integers(100, 200, N) * 100.0
    prices[rng.random(N) < 0.5] += 0.37
    others = rng.random(N) < 0.4
    prices[others] = rng.uniform(10_000, 20_000, others.sum())
    prices[rng.random(N) < 0.3] = 0.0
    _, drawn = fitted(prices, spec=Continuous(0, 20_000, scale="linear"))
    exact = np.isin(drawn, np.arange(100, 200) * 100.0)
    expected = np.isin(prices, np.arange(100, 200) * 100.0).mean()
    assert exact.mean() == pytest.approx(expected, abs=0.015)  # 5 deviations


def test_equal_bounds_are_not_equal_domains():
    """Where a number lies depends on the room of others; zero is remembered."""
    even = NumericDomain(-5000, 9000, False, True, False)
    uneven = replace(even, remainders=tuple(np.linspace(0.1, 1.9, 100).tolist()))
    assert even != uneven
    for domain in (even, uneven, even):
        assert domain.zero == domain.to_unit(np.zeros(1))[0]
    assert even.zero != uneven.zero


def test_cells_of_frequent_values_are_apart():
    """And hold the place of the value as rows are kept, in single precision."""
    values = (-3.5, -math.e, 0.1, 0.10001, math.log(3), 9.25)
    shares = tuple((value, 0.1) for value in values)
    floats = NumericDomain(-10.0, 10.0, False, False, False, frequent=shares)
    whole = tuple((value, 0.01) for value in (-250.0, 17.0, 18.0, 999.0, 1000.0))
    numbers = NumericDomain(
        -300, 1000, True, True, False, remainders=UNIFORM, frequent=whole
    )
    for domain in (floats, numbers):
        (begins, ends), _ = domain.frequent_cells()
        steps = np.array([value for value, _ in domain.frequent])
        places = domain.to_unit(domain.from_steps(steps)).astype(np.float32)
        assert (begins <= places).all()
        assert (places < ends).all()
        assert (begins[1:] >= ends[:-1] - 1e-12).all()
        middles = (begins + ends) / 2
        assert np.array_equal(domain.from_unit(middles), domain.from_steps(steps))


def round_amounts(seed=0):
    """A price of 81 round values, and the length of one of 210 routes."""
    rng = np.random.default_rng(seed)
    prices = 1000 * rng.choice(np.arange(10, 1001), 81, replace=False)
    routes = np.rint(np.geomspace(17, 5000, 260)).astype(int)
    routes = np.unique(routes)[:210]
    shares = [rng.dirichlet(np.full(n, 0.5)) for n in (81, len(routes))]
    return pd.DataFrame(
        {
            "price": rng.choice(prices, N, p=shares[0]),
            "route": rng.choice(routes, N, p=shares[1]),
        }
    )


@pytest.mark.parametrize(
    ("epsilon", "price", "route"), [(1.0, 0.06, 0.2), (math.inf, 0.015, 0.02)]
)
def test_columns_of_few_values_among_many(epsilon, price, route):
    """100,000 drawn rows: their own distance is below .01. Bins alone give .3."""
    frame = round_amounts()
    _, drawn = fitted(frame, epsilon=epsilon, n=100_000)
    ours = [distance(frame[name], drawn[name]) for name in frame]
    assert ours[0] < price
    assert ours[1] < route
