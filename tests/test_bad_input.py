"""Bad input: structure is refused before any budget, values degrade the result.

Never a traceback from inside torch or numpy, never a spent budget with nothing to
show. Parameters are in `test_bad_parameters.py`.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES, PLAIN, PLAIN_PRIVATE
from scipy import sparse
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import (
    DegradedResultWarning,
    InvalidSchemaError,
    InvalidTableError,
)
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Identifier,
    TableSchema,
)

pytestmark = pytest.mark.usefixtures("short_fits")

SECRET = 4321.0625  # a value that no message may hold

# Tables are read by what all have in common, so that two fit all of the odd ones; the
# others fit the oddest.
TWO = {name: PLAIN[name] for name in ("IndependentSynthesizer", "GPATESynthesizer")}
OTHER_WAYS = [way for way in INSTANCES.values() if way not in TWO.values()]
OTHER_WAYS += [clone(s).set_params(epsilon=math.inf) for s in PLAIN_PRIVATE.values()]


def table(n_rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "u": rng.normal(size=n_rows),
            "v": rng.normal(size=n_rows),
            "s": rng.choice(["p", "q"], n_rows),
            "y": np.arange(n_rows) % 2,
        }
    )


def with_column(values, n_rows: int = 40) -> pd.DataFrame:
    return table(n_rows).assign(u=values)


def objects(*values) -> pd.Series:
    return pd.Series(list(values) * (40 // len(values)), dtype=object)


# What is refused, and in which words, is in `table/test_table.py`: here is when.
TABLES = {
    "no rows": (table(0), "0 sample"),
    "only the target": (table()[["y"]], "0 feature"),
    "no target": (table().drop(columns="y"), "not a column"),
    "duplicate names": (table().rename(columns={"v": "u"}), "distinct"),
    "infinity": (with_column(np.r_[SECRET, np.inf, np.zeros(38)]), "'u'.*infinite"),
    "sparse matrix": (sparse.csr_matrix(np.eye(40)), "[Ss]parse"),
    "complex": (with_column(np.full(40, SECRET + 1j)), "Complex"),
    "numbers among strings": (with_column(objects(SECRET, "a")), "'u'.*object"),
    "infinite target": (table().assign(y=np.r_[SECRET, np.inf, 0:38.0]), "infinite"),
    "a dict": ({"u": [1, 2], "y": [0, 1]}, "DataFrame|array"),
    "a string": ("table.csv", "which is not there"),
    "nothing": (None, "2-d"),
}


@pytest.mark.parametrize("synthesizer", TWO.values(), ids=TWO)
@pytest.mark.parametrize("case", TABLES)
def test_structure_is_refused_before_any_budget(synthesizer, case, untouched):
    bad, message = TABLES[case]
    synth = clone(synthesizer).set_params(target="y", budget=untouched)
    with pytest.raises(InvalidTableError, match=message) as caught:
        synth.fit(bad)
    assert "4321" not in str(caught.value)
    assert not synth.__sklearn_is_fitted__()


def test_target_without_a_name(untouched):
    frame = table().rename(columns={"y": np.nan})
    with pytest.raises(InvalidTableError, match="must have a name"):
        IndependentSynthesizer(target=np.nan, budget=untouched).fit(frame)


SCHEMAS = {
    "absent column": TableSchema({"w": Boolean()}),
    "wrong kind": TableSchema({"s": Continuous(0, 1)}),
    "numbers for strings": TableSchema({"s": Categorical([1, 2])}),
    "nothing but identifiers": TableSchema(
        {"u": Identifier(), "v": Identifier(), "s": Identifier()}
    ),
}


@pytest.mark.parametrize("synthesizer", TWO.values(), ids=TWO)
@pytest.mark.parametrize("case", SCHEMAS)
def test_schema_is_refused_before_any_budget(synthesizer, case, untouched):
    settings = {"target": "y", "schema": SCHEMAS[case], "budget": untouched}
    synth = clone(synthesizer).set_params(**settings)
    with pytest.raises(InvalidSchemaError):
        synth.fit(table())


def missing(dtype: str) -> pd.Series:
    return pd.Series([None] * 40, dtype=dtype)


VALUES = {
    "30 x 5": table(30).assign(w=1.5),
    "2 rows": table(2),
    "2 rows of one value": table(2).assign(u=0.0, v=1.0, s="p", y=1),
    "one class": table().assign(y=1),
    "one class of strings": table().assign(y="only"),
    "no label": table().assign(y=missing("object")),
    "nearly no label": table().assign(y=["a"] + [None] * 39),
    "a class each": table().assign(y=range(40)),
    "constant": table().assign(
        u=5.0, v=0.0, s="p", i=7, b=True, d=pd.Timestamp("2020-05-01"), t=-1e-9
    ),
    "all missing": table().assign(
        u=np.nan,
        s=missing("object"),
        c=missing("category"),
        i=missing("Int64"),
        b=missing("boolean"),
        d=missing("datetime64[us]"),
        t=missing("timedelta64[us]"),
        f=missing("Float32"),
    ),
    "huge and tiny": table().assign(
        u=1e300,
        v=-1e-300,
        i=np.int64(2**62),
        m=np.iinfo(np.int64).min,
        w=np.uint64(2**64 - 1),
        d=pd.Timestamp("1700-01-01"),
        e=pd.Timestamp("2200-01-01"),
    ),
    "all different": table().assign(s=[f"{row}" for row in range(40)]),
    "empty strings": table().assign(s=""),
    "infinite categories": table().assign(
        c=pd.Categorical([np.inf, -np.inf, 1.0, 2.0] * 10),
        d=pd.Categorical([np.inf] * 40),
    ),
    "infinite labels": table().assign(y=pd.Categorical([np.inf, 1.0] * 20)),
    "one column": table()[["u", "y"]],
    "one category column": table()[["s", "y"]],
}
ODDEST = ["2 rows of one value", "no label", "constant", "all missing", "huge and tiny"]


@pytest.mark.parametrize(
    ("way", "case"),
    [(way, case) for way in TWO.values() for case in VALUES]
    + [(way, case) for way in OTHER_WAYS for case in ODDEST],
    ids=lambda value: str(value)[:60],
)
def test_values_degrade_the_result(way, case):
    """The budget is spent, and there is a table to show for it."""
    frame = VALUES[case]
    synth = clone(way).set_params(target="y").fit(frame)
    fake = synth.sample(30)
    assert fake.columns.tolist() == frame.columns.tolist()
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            assert isinstance(fake[name].dtype, pd.CategoricalDtype)
        else:
            assert fake[name].dtype == frame[name].dtype
    numbers = fake.select_dtypes("floating").to_numpy(dtype=float, na_value=np.nan)
    assert not np.isinf(numbers).any()
    asked = getattr(way, "epsilon", math.inf)
    assert synth.epsilon_ <= asked
    if asked < math.inf:
        assert synth.epsilon_ >= 0.98 * asked
    report = synth.privacy_report()
    assert all(entry.used == entry.releases for entry in report.entries)
    assert len(synth.sample(5, sampling_strategy="balanced")) == 5


@pytest.mark.parametrize(
    ("synthesizer", "delta"),
    [(synthesizer, 1e-5) for synthesizer in PLAIN_PRIVATE.values()]
    + [(synthesizer, delta) for synthesizer in TWO.values() for delta in (1e-12, 0.5)],
    ids=str,
)
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 1e6])
def test_extreme_budgets(synthesizer, epsilon, delta):
    """What is certified never exceeds what was asked."""
    settings = {"epsilon": epsilon, "delta": delta, "target": "y"}
    synth = clone(synthesizer).set_params(**settings)
    synth.fit(table()[["u", "y"]])
    assert synth.epsilon_ <= epsilon
    assert len(synth.sample(10)) == 10


@pytest.mark.parametrize("synthesizer", TWO.values(), ids=TWO)
def test_values_outside_the_schema(synthesizer):
    """They are clipped, or read as other categories: never an error."""
    schema = TableSchema(
        {
            "u": Continuous(100, 200),
            "v": Continuous(0, 0),
            "s": Categorical(["r", "t"]),
            "y": Categorical([5, 6]),
        },
        target="y",
    )
    fake = clone(synthesizer).set_params(schema=schema).fit(table()).sample(60)
    assert fake["u"].between(100, 200).all()
    assert (fake["v"] == 0).all()
    assert set(fake["s"]) <= {"r", "t"}
    assert set(fake["y"]) == {5, 6}


def test_all_missing_columns_come_back_missing():
    """With enough rows to see it; wrong with probability below 1e-6."""
    nothing = pd.Series([None] * 4000, dtype=object)
    frame = pd.DataFrame({"a": nothing.astype(float), "b": nothing, "c": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fake = IndependentSynthesizer().fit(frame).sample(500)
    assert fake["a"].isna().mean() > 0.9
    assert fake["b"].isna().all()


@pytest.mark.parametrize("synthesizer", TWO.values(), ids=TWO)
def test_no_label_could_be_released(synthesizer):
    """Every label once: none passes the threshold (delta is 1e-6 of that)."""
    frame = pd.DataFrame({"u": np.linspace(0, 1, 500)})
    frame["y"] = [f"label {row}" for row in range(500)]
    synth = clone(synthesizer).set_params(target="y")
    with pytest.warns(DegradedResultWarning, match="no label was frequent enough"):
        synth.fit(frame)
    assert len(synth.classes_) == 0
    assert synth.sample(10)["y"].isna().all()


def test_no_category_could_be_released():
    frame = pd.DataFrame({"u": np.linspace(0, 1, 500)})
    frame["s"] = [f"secret {row}" for row in range(500)]
    synth = IndependentSynthesizer()
    with pytest.warns(DegradedResultWarning, match=r"no category of 's'") as caught:
        synth.fit(frame)
    assert "secret" not in str(caught[0].message)
    assert synth.sample(10)["s"].isna().all()
    assert "s" not in synth.schema_.columns


@pytest.mark.parametrize("synthesizer", PLAIN_PRIVATE.values(), ids=PLAIN_PRIVATE)
def test_plan_says_so_in_advance(synthesizer):
    """Too few rows, or too many categories: the note is there before any data."""
    columns = {"u": Continuous(0, 1), "s": Categorical(["p", "q"]), "y": Boolean()}
    schema = TableSchema(columns, target="y")
    many = {**columns, "s": Categorical([f"{level}" for level in range(5000)])}
    synth = type(synthesizer)()
    assert synth.plan(10**6, schema=schema)["note"].tolist() == ["", ""]
    few = synth.plan(30, schema=schema)["note"]
    assert few.str.contains("too few rows").all()
    poor = synth.plan(30_000, schema=TableSchema(many, target="y"))["note"]
    assert poor.str.contains("too many categories").all()
    small = synth.set_params(epsilon=1e-6).plan(10**5, schema=schema)["note"]
    assert small.str.contains("too few rows").all()
