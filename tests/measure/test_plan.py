"""What `plan` shows is what a fit of such a table does, declared or measured."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import DegradedResultWarning, SkdpsynthError
from skdpsynth.privacy import GRID
from skdpsynth.schema import Boolean, Categorical, Continuous, Identifier, TableSchema

N_ROWS = 6000
UNIT = Continuous(0, 50)
COUNTS = {"m": 4000, "n": 2000}


def make_table(label="text"):
    """Make a table whose label is "text", "integer" or "boolean"."""
    number = np.arange(N_ROWS)
    first = number < 4000
    labels = {"text": np.where(first, "m", "n"), "integer": 1 - first, "boolean": first}
    columns = {
        "a": 50 * number / N_ROWS,
        "b": np.pi * (number % 7),
        "s": np.where(number % 2, "odd", "even"),
        "t": np.where(number % 3, "x", "y"),
        "id": number.astype(str),
    }
    return pd.DataFrame(columns | {"y": labels[label]})


LEVELS = {"s": Categorical(["odd", "even"]), "t": Categorical(["x", "y"])}
# The schemas leave out a category, numbers, all but two columns, or all.
SCHEMAS = {
    "all": {"a": UNIT, "b": UNIT, "s": LEVELS["s"]},
    "one measured": {"a": UNIT, "b": UNIT, "t": LEVELS["t"]},
    "numbers measured": LEVELS,
    "two given": {"a": UNIT, "id": Identifier()},
    "nothing": {},
}


@pytest.mark.parametrize(
    ("name", "label"),
    [*product(SCHEMAS, ["text"]), ("nothing", "integer"), ("nothing", "boolean")],
)
def test_the_plan_subtracts_what_is_bought(name, label):
    """The noise of a fit follows from what it spent; the plan knew it before.

    But for levels that are measured: they may be many, and the plan is for that. Both
    columns turn out to have two, which need half the squared sensitivity.
    """
    columns, table = SCHEMAS[name], make_table(label)
    table = table.drop(columns=["id"] * ("id" not in columns))
    counts = table["y"].value_counts().to_dict()
    schema = TableSchema(columns) if columns else None
    synth = IndependentSynthesizer(schema=schema, target="y")
    plan = synth.plan(N_ROWS, dtypes=table.dtypes, class_counts=counts)
    report = synth.fit(table).privacy_report()
    paid = [entry for entry in report.entries if entry.name == "marginals"]
    fitted = np.array(sorted(entry.noise_std / GRID for entry in paid))
    ratio = (np.array(sorted(plan["noise_std"])) / fitted) ** 2
    n_unknown = sum(name not in columns for name in ("s", "t"))
    spread = np.array([entry.sensitivity / GRID for entry in paid]) ** 2
    # Counts are measured with noise, a plan rounds them to two digits, and bins of a
    # column with few values fall together.
    assert (ratio >= 0.999 + n_unknown / 2.2 / spread.max()).all()
    # A plan has remainders of numbers of which nobody said how they are written.
    assert (ratio <= 1.04 + n_unknown / 1.8 / spread.min()).all()
    again = synth.plan(N_ROWS, class_counts=counts)
    pd.testing.assert_frame_equal(again, plan, check_exact=False, check_like=True)


def test_a_target_that_nobody_describes_needs_labels():
    """One label is above the threshold, the other is not; a fit of another is none."""
    table = make_table().drop(columns="id")
    synth = IndependentSynthesizer(schema=TableSchema({"a": UNIT}), target="t")
    synth.fit(table).set_params(target="y")
    with pytest.raises(SkdpsynthError, match="needs to know the classes"):
        synth.plan(1000, dtypes=table.dtypes)
    plan = synth.plan(dtypes=table.dtypes, class_counts={"p": 900, "q": 12})
    assert plan["class"].tolist() == ["p", "q"]
    assert plan["rows"].tolist() == [900, 12]
    notes = plan["note"].str.contains("too few rows for its label to be found")
    assert notes.tolist() == [False, True]


def test_declared_counts_win():
    schema = TableSchema(LABELLED.columns, target="y", class_counts=COUNTS)
    synth = IndependentSynthesizer(schema=schema)
    assert synth.plan()["rows"].tolist() == synth.plan(6000)["rows"].tolist()
    assert synth.plan()["rows"].tolist() == [4000, 2000]
    with pytest.raises(ValueError, match="add up to 6000, but n_rows is 7000"):
        synth.plan(7000)
    with pytest.raises(ValueError, match="differ from those"):
        synth.plan(class_counts={"m": 3000, "n": 3000})
    with pytest.raises(ValueError, match="the schema declares 500"):
        IndependentSynthesizer(schema=TableSchema({"a": UNIT}, n_rows=500)).plan(9)


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ({"y": Categorical(["only"])}, "one class only"),
        ({"b": Continuous(1, 1)}, "1 of 2 columns can hold one value only"),
        ({"b": Categorical(["same"])}, "1 of 2 columns can hold one value only"),
    ],
)
def test_what_cannot_vary_is_said_in_advance(columns, note):
    described = {"a": UNIT, "b": UNIT, "y": Boolean(), **columns}
    synth = IndependentSynthesizer(schema=TableSchema(described, target="y"))
    assert synth.plan(100_000)["note"].str.contains(note).all()


def test_categories_that_cannot_be_found_are_said_in_advance():
    """The threshold is in the plan: a category with fewer rows is not found."""
    synth = IndependentSynthesizer()
    plan = synth.plan(1_000_000, dtypes={"s": "str", "u": "float64"})
    threshold = plan["category_threshold"][0]
    assert 50 < threshold < 500
    few = synth.plan(40, dtypes={"s": "str", "u": "float64"})
    assert "too few rows for any undeclared category" in few["note"][0]
    n_found = 0
    for rows, found in ((1, False), (3 * threshold, True)):
        table = pd.DataFrame({"s": ["often"] * 4000 + ["key"] * rows})
        synth = IndependentSynthesizer().fit(table.assign(u=0.5))
        n_found += ("key" in synth.schema_.columns["s"].categories) == found
    # A tenth of delta at most lies above the threshold, which is 5 deviations.
    assert n_found == 2


@pytest.mark.parametrize("target", [None, "s"])
def test_a_lost_order_warns(target):
    """Categories and labels are data, and so is their order, unless it is declared."""
    levels = ["low", "medium", "high"]
    ordered = pd.Categorical(levels * 1000, levels, ordered=True)
    frame = pd.DataFrame({"u": np.linspace(0, 9, 3000), "s": ordered})
    schema = TableSchema({"s": Categorical(levels, ordered=True)})
    stated = IndependentSynthesizer(schema=schema, target=target).fit(frame)
    assert stated.sample(9)["s"].cat.categories.tolist() == levels
    synth = IndependentSynthesizer(target=target)
    with pytest.warns(DegradedResultWarning, match=r"order of the categories of 's'"):
        synth.fit(frame)
    fake = synth.sample(9)["s"]
    assert fake.cat.ordered
    assert fake.cat.categories.tolist() == sorted(levels)


def test_a_refit_with_the_schema_of_a_fit_pays_for_what_no_schema_says():
    """Also where the number of rows was declared, and the counts were measured."""
    table = make_table("integer").drop(columns="id")
    labels = Categorical([0, 1], nullable=True)
    for declared in (None, TableSchema({"y": labels}, target="y", n_rows=N_ROWS)):
        first = IndependentSynthesizer(schema=declared, target="y").fit(table)
        again = IndependentSynthesizer(schema=first.schema_).fit(table)
        names = {entry.name for entry in again.privacy_report().entries}
        assert names <= {"frequent values", "coarse marginals", "marginals"}
        counts = first.schema_.class_counts
        assert counts[0] == pytest.approx(4000, abs=200)
        if declared is not None:
            assert sum(counts.values()) == first.schema_.n_rows == N_ROWS


LABELLED = TableSchema({"a": UNIT, "y": Categorical(["m", "n"])}, target="y")
GUESSES = {"m": 60, "n": 40}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"schema": {"a": 1}}, "schema must be a TableSchema. Got dict"),
        ({"dtypes": {"a": "nosuch", "y": "str"}}, "none that pandas knows"),
        ({"dtypes": pd.Series(["str"] * 3, ["a", "a", "y"])}, "more than once"),
        ({"dtypes": {"a": "float64", "y": "float64"}}, "is a number and has no"),
        ({"dtypes": {"a": "float64", "y": "timedelta64[s]"}}, "classes must be"),
        ({"dtypes": {"a": "float64", "y": "int64"}}, "must name labels as"),
        ({"dtypes": {"a": "complex128", "y": "str"}}, "not supported"),
        ({"dtypes": {"a": "float64"}}, "'y' is not in dtypes"),
        ({"dtypes": {"s": "str", "y": "str"}}, "columns that the table lacks"),
        ({"dtypes": pd.DataFrame({"a": [1.0]})}, "dtypes must be df.dtypes"),
        ({"class_counts": {"m": 60, "n": 50}}, "add up to 110, but n_rows is 100"),
        ({"class_counts": {"m": 60, "z": 40}}, "must name every class once"),
        ({"class_counts": {"m": True, "n": 99}}, "must be an int >= 0. Got True"),
    ],
)
def test_a_plan_refuses_what_cannot_be(parameters, words):
    described = LABELLED if "class_counts" in parameters else TableSchema({"a": UNIT})
    given = {"schema": described, "class_counts": GUESSES} | parameters
    synth = IndependentSynthesizer(target="y")
    with pytest.raises(ValueError, match=words):
        synth.plan(100, **given)


def test_declared_classes_may_be_empty_and_labels_missing():
    synth = IndependentSynthesizer(schema=LABELLED)
    plan = synth.plan(class_counts={"m": 5000, "n": 0})
    assert plan["label_threshold"].tolist() == [0, 0]
    assert not plan["note"].str.contains("to be found").any()
    columns = {"a": UNIT, "y": Categorical(["m", "n"], nullable=True)}
    synth = IndependentSynthesizer(schema=TableSchema(columns, target="y"))
    plan = synth.plan(100, class_counts={"m": 60, "n": 30})
    assert plan["rows"].tolist() == [60, 30]
