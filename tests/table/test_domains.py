"""Domains are monotone, stay in their range and give whole numbers their own cells."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdpsynth.table import (
    CategoryDomain,
    NumericDomain,
    domain_from_dict,
    is_continuous,
)

BOUNDS = st.floats(-1e9, 1e9, allow_subnormal=False)


@st.composite
def domains(draw, *, integer: bool | None = None) -> NumericDomain:
    """Draw a domain; its range may have width 0."""
    low, high = sorted((draw(BOUNDS), draw(BOUNDS)))
    whole = draw(st.booleans()) if integer is None else integer
    if whole:
        low, high = float(round(low)), float(round(high))
    return NumericDomain(low, high, draw(st.booleans()), whole, nullable=False)


@given(
    domains(), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2)
)
@example(NumericDomain(0.0, 1e-9, True, False, nullable=False), [-1.7e308, 1.7e308])
@example(NumericDomain(0.0, 1e-9, False, False, nullable=False), [-1.7e308, 1.7e308])
@settings(max_examples=150, deadline=None)
def test_units_are_monotone_and_values_clamped(domain, values):
    ordered = np.sort(np.array(values))
    units = domain.to_unit(ordered)
    assert (units >= 0).all()
    assert (units <= 1).all()
    assert (np.diff(units) >= 0).all()
    back = domain.from_unit(units)
    assert (back >= domain.low).all()
    assert (back <= domain.high).all()


@given(domains(), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_a_value_survives_the_way_to_the_domain_and_back(domain, share):
    """A whole number exactly."""
    value = domain.low + share * (domain.high - domain.low)
    value = np.clip(value, domain.low, domain.high)
    size = abs(value) if domain.log else max(abs(domain.low), abs(domain.high))
    room = 1e-9 * max(size, 1.0)
    if domain.integer:
        value, room = float(round(value)), 0.0
    back = domain.from_unit(domain.to_unit(np.array([value])))[0]
    assert abs(back - value) <= room


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("value", [7.0, 2.0**60])  # the second has no halves
def test_a_range_of_width_0_has_one_cell_and_value(value, integer):
    domain = NumericDomain(value, value, log=True, integer=integer, nullable=False)
    assert domain.snap(np.linspace(0, 1, 9)).tolist() == [0.0, 1.0]
    back = domain.from_unit(domain.to_unit(np.array([-1.0, value, 1e300])))
    assert back.tolist() == [value] * 3


@pytest.mark.parametrize(
    ("low", "high", "integer", "has_zero"),
    [
        (-1.0, 1.0, False, True),
        (0.0, 5.0, False, True),
        (-5.0, 0.0, False, True),
        (1.0, 5.0, False, False),
        (0.0, 20.0, True, False),  # every number has a cell
        (0.0, 20_000.0, True, True),
        (1.0, 20_000.0, True, False),
    ],
)
@pytest.mark.parametrize("log", [True, False])
def test_zero_has_a_place_where_a_cell_of_its_own_is_needed(
    low, high, integer, has_zero, log
):
    domain = NumericDomain(low, high, log, integer, nullable=False)
    assert (domain.zero is not None) == has_zero
    if domain.zero is not None:
        assert domain.from_unit(np.array([domain.zero]))[0] == 0.0


@given(domains(integer=True), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_no_whole_number_lies_on_a_cell_edge(domain, n_cells):
    edges = domain.snap(np.linspace(0, 1, n_cells + 1))
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= n_cells + 1
    numbers = np.unique(np.rint(domain.from_unit(edges[1:-1])))
    around = np.concatenate((numbers - 1, numbers, numbers + 1))
    around = around[(around >= domain.low) & (around <= domain.high)]
    if len(around) and len(edges) > 2:
        gaps = np.abs(domain.to_unit(around)[:, None] - edges[None, 1:-1])
        assert gaps.min() > 0


def test_every_number_of_a_narrow_range_gets_its_own_cell():
    domain = NumericDomain(-3.0, 6.0, log=False, integer=True, nullable=False)
    edges = domain.snap(np.linspace(0, 1, 65))
    cells = np.searchsorted(edges, domain.to_unit(np.arange(-3.0, 7.0))) - 1
    assert cells.tolist() == list(range(10))


def test_domains_survive_json():
    for domain in (
        NumericDomain(-1.5, 2.0, True, False, True, quantile=True),
        CategoryDomain(("a", "b"), True, ordered=True),
        CategoryDomain((1, 2.5, True), False, other=0.25),
        NumericDomain(0.0, 9.0, False, True, False, released=True, guessed=True),
        CategoryDomain((pd.Timestamp("2020-02-29", tz="Europe/Berlin"),), False),
    ):
        again = domain_from_dict(json.loads(json.dumps(domain.to_dict())))
        assert again == domain
        assert vars(again) == vars(domain)  # what a warning says, too


@pytest.mark.parametrize(
    ("domain", "continuous"),
    [
        (NumericDomain(0.0, 1.0, log=False, integer=False, nullable=False), True),
        (NumericDomain(0.0, 3.0, log=False, integer=True, nullable=False), False),
        (NumericDomain(0.0, 4.0, log=False, integer=True, nullable=False), True),
        (CategoryDomain(("a", "b"), nullable=False), False),
    ],
)
def test_where_rows_are_must_be_found_but_for_categories_and_few_numbers(
    domain, continuous
):
    """Floats from 0 to 1 are continuous: nearly all may lie below 0.01."""
    assert is_continuous(domain) == continuous
