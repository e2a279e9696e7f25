"""Axes are monotone, stay inside their range and give whole numbers their own cells."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.preprocessing._axes import (
    LevelAxis,
    NumericAxis,
    axis_from_dict,
    is_wide,
)

BOUNDS = st.floats(-1e9, 1e9, allow_subnormal=False)


@st.composite
def axes(draw, *, integer: bool | None = None) -> NumericAxis:
    """Draw an axis; its range may have width 0."""
    low, high = sorted((draw(BOUNDS), draw(BOUNDS)))
    whole = draw(st.booleans()) if integer is None else integer
    if whole:
        low, high = float(round(low)), float(round(high))
    return NumericAxis(low, high, draw(st.booleans()), whole, nullable=False)


@given(axes(), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2))
@settings(max_examples=150, deadline=None)
def test_units_are_monotone_and_values_clamped(axis, values):
    ordered = np.sort(np.array(values))
    units = axis.to_unit(ordered)
    assert (units >= 0).all()
    assert (units <= 1).all()
    assert (np.diff(units) >= 0).all()
    back = axis.from_unit(units)
    assert (back >= axis.low).all()
    assert (back <= axis.high).all()


@given(axes(integer=False), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_a_value_survives_the_way_to_the_axis_and_back(axis, share):
    value = np.clip(axis.low + share * (axis.high - axis.low), axis.low, axis.high)
    back = axis.from_unit(axis.to_unit(np.array([value])))[0]
    size = abs(value) if axis.log else max(abs(axis.low), abs(axis.high))
    assert back == pytest.approx(value, abs=1e-9 * max(size, 1.0))


@given(axes(integer=True), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_a_whole_number_survives_exactly(axis, share):
    value = float(round(axis.low + share * (axis.high - axis.low)))
    assert axis.from_unit(axis.to_unit(np.array([value])))[0] == value


@pytest.mark.parametrize("log", [True, False])
def test_a_value_far_outside_does_not_overflow(log):
    axis = NumericAxis(0.0, 1e-9, log, integer=False, nullable=False)
    units = axis.to_unit(np.array([-1.7e308, 1.7e308]))
    assert units.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("integer", [True, False])
def test_a_range_of_width_0_gives_its_only_value(integer):
    axis = NumericAxis(7.0, 7.0, log=False, integer=integer, nullable=False)
    assert (
        axis.from_unit(axis.to_unit(np.array([-1.0, 7.0, 1e9]))).tolist() == [7.0] * 3
    )
    assert axis.snap(np.linspace(0, 1, 9)).tolist() == [0.0, 1.0]


def test_a_number_too_large_for_halves_has_one_cell():
    axis = NumericAxis(2.0**60, 2.0**60, log=True, integer=True, nullable=False)
    assert axis.snap(np.linspace(0, 1, 9)).tolist() == [0.0, 1.0]
    assert axis.from_unit(np.array([0.2])).tolist() == [2.0**60]


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
    axis = NumericAxis(low, high, log, integer, nullable=False)
    assert (axis.zero is not None) == has_zero
    if axis.zero is not None:
        assert axis.from_unit(np.array([axis.zero]))[0] == 0.0


@given(axes(integer=True), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_no_whole_number_lies_on_a_cell_edge(axis, n_cells):
    edges = axis.snap(np.linspace(0, 1, n_cells + 1))
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= n_cells + 1
    numbers = np.unique(np.rint(axis.from_unit(edges[1:-1])))
    around = np.concatenate((numbers - 1, numbers, numbers + 1))
    around = around[(around >= axis.low) & (around <= axis.high)]
    if len(around) and len(edges) > 2:
        gaps = np.abs(axis.to_unit(around)[:, None] - edges[None, 1:-1])
        assert gaps.min() > 0


def test_every_number_of_a_narrow_range_gets_its_own_cell():
    axis = NumericAxis(-3.0, 6.0, log=False, integer=True, nullable=False)
    edges = axis.snap(np.linspace(0, 1, 65))
    cells = np.searchsorted(edges, axis.to_unit(np.arange(-3.0, 7.0))) - 1
    assert cells.tolist() == list(range(10))


def test_axes_survive_json():
    for axis in (
        NumericAxis(-1.5, 2.0, True, False, True, quantile=True),
        LevelAxis(("a", "b"), True, ordered=True),
        LevelAxis((1, 2.5, True), False),
        LevelAxis((pd.Timestamp("2020-02-29", tz="Europe/Berlin"),), False),
    ):
        assert axis_from_dict(json.loads(json.dumps(axis.to_dict()))) == axis


def test_levels_have_codes_for_other_and_missing():
    assert LevelAxis(("a", "b"), nullable=False).n_codes == 4
    assert LevelAxis((), nullable=True).n_codes == 2


@pytest.mark.parametrize(
    ("axis", "wide"),
    [
        (NumericAxis(0.0, 1.0, log=False, integer=False, nullable=False), True),
        (NumericAxis(0.0, 3.0, log=False, integer=True, nullable=False), False),
        (NumericAxis(0.0, 4.0, log=False, integer=True, nullable=False), True),
        (LevelAxis(("a", "b"), nullable=False), False),
    ],
)
def test_where_rows_are_must_be_found_but_for_levels_and_few_numbers(axis, wide):
    """Floats from 0 to 1 are wide: nearly all may lie below 0.01."""
    assert is_wide(axis) == wide
