"""Any table and any parameters: a table like it comes back, or an error of ours.

Hypothesis draws a recipe (dtypes, missing values, names, schema, parameters) and a
seed, NumPy the values. Whatever is asked, `fit` either succeeds, and then `sample`
gives the same columns and dtypes within the released schema, or it raises one of our
errors before any budget is charged. Where nothing in a recipe is doubtful it must
succeed. The 50 tables of CI take 6 seconds of one core.
"""

import math
import re
import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _chains import carried
from _columns import NAMES, SECRET, check_dtype, describe, draw_column
from _instances import INSTANCES
from hypothesis import HealthCheck, event, given, note, settings, strategies as st
from sklearn.base import clone

import skdpsynth
from skdpsynth import PrivacyBudget
from skdpsynth.exceptions import DegradedResultWarning, SkdpsynthError
from skdpsynth.schema import Continuous, Identifier, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")

PACKAGE = Path(skdpsynth.__file__).parent
# Where a plain ValueError or TypeError is a check of ours, and no accident.
PLACES = [PACKAGE / own for own in ("base.py", "sampling", "synthesizers", "training")]
OUR_CHECKS = tuple(map(str, PLACES))

WAYS = list(INSTANCES.values())
# What `check` says of rows that are not as the schema says.
OUTSIDE = "^(below|above|before|after|missing|category not|infinite)"


@dataclass
class Case:
    """What is passed to `fit`, and why that may refuse it."""

    synth: Any
    table: Any = None
    labels: Any = None
    doubts: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)  # for a failure's report


def rarely(draw, one_in: int) -> bool:
    # Hypothesis likes the ends of a range, and shrinks to its start.
    return draw(st.integers(0, one_in)) == (one_in + 1) // 2


def draw_names(draw, case: Case, n_columns: int) -> list[Any]:
    style = draw(
        st.sampled_from(["plain", "odd", "plain", "any", "plain"]), label="names"
    )
    if style == "plain":
        return [f"c{number}" for number in range(n_columns)]
    case.doubts.append("the names")
    places = st.integers(0, len(NAMES) - 1)
    listed = st.lists(
        places, min_size=n_columns, max_size=n_columns, unique=style == "odd"
    )
    return [NAMES[place] for place in draw(listed, label="places of names")]


def draw_series(draw, case: Case, n_rows: int, *, label: str):
    doubtful = rarely(draw, 15)
    if doubtful:
        case.doubts.append(f"the dtype of {label}")
    return draw_column(draw, n_rows, label=label, doubtful=doubtful)


def draw_schema(draw, case: Case, frame: pd.DataFrame, kinds, target):
    if rarely(draw, 2):
        return None
    described = {}
    for place, name in enumerate(frame.columns):
        is_label = target is not None and place == target
        found = describe(
            draw, kinds[place], frame.dtypes.iloc[place], is_label=is_label
        )
        if found is not None:
            described[name] = found
    hidden = sum(isinstance(column, Identifier) for column in described.values())
    if hidden >= frame.shape[1] - (target is not None):
        case.doubts.append("the identifiers")
    if target is not None and rarely(draw, 2):
        label = described.get(frame.columns[target])
        levels = getattr(label, "categories", [False, True])
        if label is not None and frame.columns[target] is not None:
            if isinstance(label, Continuous):
                return TableSchema(described, target=frame.columns[target])
            counts = {level: draw(st.sampled_from([0, 1, 10**6])) for level in levels}
            return TableSchema(
                described, target=frame.columns[target], class_counts=counts
            )
    n_rows = draw(st.sampled_from([None, None, 1, 300, 10**6]), label="n_rows")
    return TableSchema(described, n_rows=n_rows)


def draw_synthesizer(draw, case: Case):
    way = clone(draw(st.sampled_from(WAYS), label="synthesizer"))
    has = way.get_params()
    wanted = {
        "epsilon": draw(st.sampled_from([1.0, 1e-9, 1e-3, 0.1, 20.0, 1e6, math.inf])),
        "delta": draw(st.sampled_from([1e-5, 1e-12, 0.5])),
        "random_state": draw(st.sampled_from([None, 0, 2**32 - 1])),
    }
    if rarely(draw, 3):
        wanted["learning_rate"] = draw(st.sampled_from([1e-30, 1e3, 1e30]))
    if rarely(draw, 2):
        wanted["budget"] = PrivacyBudget(1e7, 0.99)
        if wanted["epsilon"] == math.inf:
            case.doubts.append("the budget")
    return way.set_params(**{name: v for name, v in wanted.items() if name in has})


def draw_case(draw, max_rows: int) -> Case:
    case = Case(None)
    n_rows = round(max_rows ** draw(st.floats(0.2, 1), label="size"))
    if rarely(draw, 30):
        n_rows = draw(st.sampled_from([0, 1]))
        case.doubts.append("the number of rows")
    n_columns = draw(st.integers(1, 5), label="columns")
    pairs = [
        draw_series(draw, case, n_rows, label=f"column {place}")
        for place in range(n_columns)
    ]
    frame = pd.concat([series for series, _ in pairs], axis=1)
    kinds = [kind for _, kind in pairs]
    frame.columns = pd.Index(
        draw_names(draw, case, n_columns), dtype=object, tupleize_cols=False
    )
    case.synth = draw_synthesizer(draw, case)
    way = draw(st.sampled_from(["none", "column", "y"]), label="target")
    target = None
    if way == "column":
        target = draw(st.integers(0, n_columns - 1), label="place of the target")
        if kinds[target] == "span" or n_columns == 1:
            case.doubts.append("the target")
        case.synth.set_params(target=frame.columns[target])
    elif way == "y":
        case.labels, kind = draw_series(draw, case, n_rows, label="labels")
        if kind == "span":
            case.doubts.append("the labels")
    if frame.columns.is_unique:
        schema = draw_schema(draw, case, frame, kinds, target)
        case.synth.set_params(schema=schema)
    frame.index = pd.Index(np.zeros(n_rows), name="who")
    case.table = frame
    case.columns = {str(n): f"{d}" for n, d in zip(frame, frame.dtypes, strict=True)}
    return case


def is_ours(error: Exception) -> bool:
    """Whether an error was raised on purpose."""
    if isinstance(error, SkdpsynthError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    # What NumPy raises in C has our line last, too, but that does not raise.
    on_purpose = last.filename.startswith(OUR_CHECKS) and "raise" in (last.line or "")
    return isinstance(error, ValueError | TypeError) and on_purpose


def check_fit(case: Case) -> bool:
    synth = case.synth
    budget = getattr(synth, "budget", None)
    error = None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            synth.fit(case.table, case.labels)
        except (SkdpsynthError, ValueError, TypeError) as raised:
            if not is_ours(raised):
                raise
            error = raised
    if error is not None:
        assert case.doubts, f"refused without a doubt: {error!r}"
        assert SECRET not in carried(error)
        assert not synth.__sklearn_is_fitted__()
        assert budget is None or budget.spent == (0.0, 0.0)
        return False
    assert all(warning.category is DegradedResultWarning for warning in said), said
    assert SECRET not in "".join(str(warning.message) for warning in said)
    if budget is not None:
        assert budget.spent == (synth.epsilon, synth.delta)
    assert synth.epsilon_ <= synth.epsilon
    return True


def check_sample(case: Case) -> None:
    synth = case.synth
    balanced = "balanced" if hasattr(synth, "classes_") else None
    for n_samples, strategy in ((1, None), (20, None), (10, balanced)):
        fake = synth.sample(n_samples, sampling_strategy=strategy)
        assert len(fake) == n_samples
        dtypes = list(case.table.dtypes)
        assert fake.columns[: len(dtypes)].equals(case.table.columns)
        dtypes += [] if case.labels is None else [case.labels.dtype]
        assert fake.shape[1] == len(dtypes)
        for place, expected in enumerate(dtypes):
            check_dtype(fake.iloc[:, place], expected)
        found = synth.schema_.check(fake)["finding"].str.cat(sep="\n")
        assert not re.search(OUTSIDE, found, re.MULTILINE)


def check_file(case: Case) -> None:
    """What is saved samples like what was fitted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        try:
            case.synth.save(path)
        except SkdpsynthError:
            assert "the names" in case.doubts
            return
        again = type(case.synth).load(path)
    expected = case.synth.sample(5, random_state=0)
    pd.testing.assert_frame_equal(again.sample(5, random_state=0), expected)


def check_case(draw, max_rows: int) -> None:
    case = draw_case(draw, max_rows)
    note(f"{case.synth}\n{case.columns}\ndoubts: {case.doubts}")
    fitted = check_fit(case)
    rows = 10 ** (len(str(len(case.table))) - 1)
    event(f"{'fitted' if fitted else 'refused'}, {rows:,} rows or more")  # statistics
    if fitted:
        check_sample(case)
        check_file(case)


FUZZING = settings(
    deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@settings(FUZZING, max_examples=50, derandomize=True)
@given(data=st.data())
def test_fifty_tables(data):
    check_case(data.draw, max_rows=300)


@pytest.mark.nightly
@settings(FUZZING, max_examples=2000)
@given(data=st.data())
def test_two_thousand_tables(data):
    check_case(data.draw, max_rows=100_000)
