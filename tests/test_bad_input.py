"""Bad input: structure is refused before any budget, values degrade the result.

Never a traceback from inside torch or numpy, never a spent budget with nothing to
show. Which tables are refused is in `table/test_table.py`, and at what cost in
`table/test_extremes.py`.
"""

import math
import re

import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES, PLAIN, PLAIN_PRIVATE
from sklearn.base import clone
from tables import small_table

from skdpsynth import GPATESynthesizer, IndependentSynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")


def table(n_rows: int = 40) -> pd.DataFrame:
    return small_table(n_rows).fillna({"b": 0.5})


CONSTANTS = {"a": 5.0, "b": 0.0, "c": "p", "i": 7, "flag": True, "t": -1e-9}
DTYPES = ["object", "category", "Int64", "boolean", "datetime64[us]"]
DTYPES += ["timedelta64[us]", "Float32"]
MISSING = {dtype: pd.Series([None] * 40, dtype=dtype) for dtype in DTYPES}
HUGE = {"i": np.int64(2**62), "m": np.iinfo(np.int64).min, "w": np.uint64(2**64 - 1)}
FAR = {"d": pd.Timestamp("1700-01-01"), "e": pd.Timestamp("2200-01-01")}
# Tables that all ways of training fit, and those that one does for all.
ODDEST = {
    "2 rows of one value": table(2).assign(a=0.0, b=1.0, c="p", y=1),
    "no label": table().assign(y=MISSING["object"]),
    "constant": table().assign(**CONSTANTS, d=pd.Timestamp("2020-05-01")),
    "all missing": table().assign(a=np.nan, **MISSING),
    "huge and tiny": table().assign(a=1e300, b=-1e-300, **HUGE, **FAR),
}
OTHERS = {
    "one class of strings": table().assign(y="only"),
    "nearly no label": table().assign(y=["a"] + [None] * 39),
    "a class each": table().assign(y=range(40)),
    "all different": table().assign(c=[f"{row}" for row in range(40)]),
    "empty strings": table().assign(c=""),
    "infinite categories": table().assign(
        c=pd.Categorical([np.inf, -np.inf, 1.0, 2.0] * 10),
        d=pd.Categorical([np.inf] * 40),
    ),
    "infinite labels": table().assign(y=pd.Categorical([np.inf, 1.0] * 20)),
    "one category column": table()[["c", "y"]],
}
# The rest releases in one of these ways.
KINDS = "MarginalSynthesizer", "GPATESynthesizer", "DPCGANSynthesizer"
WITHOUT_NOISE = {
    f"{name}, no noise": clone(PLAIN_PRIVATE[name]).set_params(epsilon=math.inf)
    for name in (*KINDS, "PATETripleGANSynthesizer")
}
WAYS = INSTANCES | WITHOUT_NOISE


@pytest.mark.parametrize(
    ("way", "case"),
    [(way, case) for way in ("independent", "gpate") for case in OTHERS]
    + [(way, case) for way in WAYS for case in ODDEST],
)
def test_values_degrade_the_result(way, case):
    """The budget is spent, and there is a table to show for it."""
    frame = (ODDEST | OTHERS)[case]
    synth = clone(WAYS[way]).set_params(target="y").fit(frame)
    fake = synth.sample(30)
    assert fake.columns.tolist() == frame.columns.tolist()
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            assert isinstance(fake[name].dtype, pd.CategoricalDtype)
        else:
            assert fake[name].dtype == frame[name].dtype
    numbers = fake.select_dtypes("floating").to_numpy(dtype=float, na_value=np.nan)
    assert not np.isinf(numbers).any()
    asked = getattr(synth, "epsilon", math.inf)
    assert synth.epsilon_ == asked == math.inf or 0.98 <= synth.epsilon_ / asked <= 1
    report = synth.privacy_report()
    assert all(entry.used == entry.releases for entry in report.entries)
    assert len(synth.sample(5, sampling_strategy="balanced")) == 5


@pytest.mark.parametrize("name", PLAIN_PRIVATE)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-9, 1e-12), (1e-9, 0.5), (1e-3, 1e-5), (1e6, 1e-5)]
)
def test_extreme_budgets(name, epsilon, delta):
    """What is certified never exceeds what was asked."""
    settings = {"epsilon": epsilon, "delta": delta, "target": "y"}
    synth = clone(PLAIN[name]).set_params(**settings).fit(table()[["a", "y"]])
    assert synth.epsilon_ <= epsilon
    assert len(synth.sample(10)) == 10


def test_no_label_and_no_category_could_be_released():
    """Every one once: none passes the threshold (delta is 1e-6 of that)."""
    frame = pd.DataFrame({"u": np.linspace(0, 1, 500)})
    frame["s"] = [f"secret {row}" for row in range(500)]
    synth = IndependentSynthesizer()
    with pytest.warns(DegradedResultWarning, match=r"no category of 's'") as caught:
        synth.fit(frame)
    assert "secret" not in str(caught[0].message)
    assert synth.sample(10)["s"].isna().all()
    assert "s" not in synth.schema_.columns
    synth = GPATESynthesizer(target="s")
    with pytest.warns(DegradedResultWarning, match="no label was frequent enough"):
        synth.fit(frame)
    assert len(synth.classes_) == 0
    assert synth.sample(10)["s"].isna().all()


@pytest.mark.parametrize("name", PLAIN_PRIVATE)
def test_plan_says_so_in_advance(name):
    """Too few rows, or too many categories: the note is there before any data."""
    columns = {"u": Continuous(0, 1), "s": Categorical(["p", "q"]), "y": Boolean()}
    many = columns | {"s": Categorical([f"{level}" for level in range(5000)])}
    schema, larger = (TableSchema(own, target="y") for own in (columns, many))
    synth = clone(PLAIN[name])
    synth.set_params(delta=1e-7)
    assert synth.plan(10**6, schema=schema)["note"].tolist() == ["", ""]
    few = synth.plan(30, schema=schema)["note"]
    assert few.str.contains("too few rows").all()
    poor = synth.plan(30_000, schema=larger)["note"]
    assert poor.str.contains("too many categories").all()


ALL = [type(synthesizer) for synthesizer in PLAIN.values()]
TABLE = pd.DataFrame({"u": np.linspace(0, 1, 40), "y": np.arange(40) % 2})
COUNTS = [0, 2.5, "all"]
SIZES = [0.0, -1.0, math.nan]
LAYERS = [(8,), ((8,), (0,)), ((3.5,), ()), ((8,),) * 3, 7, "auto"]


class Unexpected:
    """No parameter takes one."""

    def __repr__(self):
        return "<unexpected>"


# Each is wrong for every synthesizer that has the parameter.
BAD = {
    "epsilon": [0, -1.0, math.nan, "1", None, 1e300, 1e-10],
    "delta": [0, 1, math.nan, 1e-13],
    "target": [["y"]],
    "schema": [{"u": Boolean()}],
    "budget": [3.0],
    "random_state": ["seed", -1],
    "noise": ["uniform"],
    "desensitization": ["none"],
    "init": ["zeros"],
    "unlabelled_weight": [-0.1, 1.0, math.nan],
    "use_unlabelled": ["yes", 2],
    "hidden_dims": LAYERS,
    "n_iter": [-1, 2.5, "all"],
    "batch_size": COUNTS,
    "projection_dim": [0],
    "n_bins": [1],
    "order": [0, 4, 2.5, "pairs"],
    "design": ["site.json", []],
    "device": ["abacus", 0.5],
}
BAD |= dict.fromkeys(["learning_rate", "max_grad_norm", "weight_clip"], SIZES)
STEPS = ["n_teachers", "n_teacher_steps", "n_student_steps", "n_discriminator_steps"]
BAD |= dict.fromkeys(STEPS, COUNTS)


def cases():
    """Every synthesizer, with each bad value of the parameters that it has."""
    for synthesizer in ALL:
        names = synthesizer().get_params().keys()
        for name in sorted(names):  # KeyError: a parameter has no bad value here
            for value in (*BAD[name], Unexpected()):
                yield synthesizer, {name: value}


@pytest.mark.parametrize(("synthesizer", "bad"), list(cases()), ids=str)
def test_parameters_are_refused_before_any_budget(synthesizer, bad, untouched):
    """By their names; nothing private, as a class of scikit-learn's, is named."""
    synth = synthesizer(target="y")
    if "budget" in synth.get_params():
        synth.set_params(budget=untouched)
    synth.set_params(**bad)
    with pytest.raises((ValueError, TypeError), match="|".join(bad)) as caught:
        synth.fit(TABLE)
    assert not re.search(r"\b_[a-zA-Z]|\._\w|__\w", str(caught.value))
    if not {"target", "random_state"} & set(bad):
        schema = TableSchema({"u": Continuous(0, 1)})
        with pytest.raises((ValueError, TypeError), match="|".join(bad)):
            synth.plan(100, schema=schema)
    # The error is about a parameter, so nothing was set but the parameters.
    assert not synth.__sklearn_is_fitted__()
