"""From ranks back to a table: dtypes, identifiers, and the way through a file."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import TableModel
from skdpsynth.schema import Categorical, TableSchema


def fitted(frame: pd.DataFrame, schema=None, target=None) -> TableModel:
    synthesizer = IndependentSynthesizer(math.inf, schema=schema, target=target)
    return synthesizer.fit(frame)._model


def decoded(model: TableModel, n_rows: int = 40) -> pd.DataFrame:
    """Turn random ranks of random classes into a table."""
    rng = np.random.default_rng(0)
    class_codes = rng.integers(0, len(model.marginals), n_rows)
    ranks = rng.random((n_rows, len(model.metadata.columns)))
    columns = [own for own in model.columns(ranks, class_codes) if own is not None]
    return pd.concat(columns, axis=1)


def test_a_model_survives_its_state():
    n_rows = 60
    frame = pd.DataFrame(
        {
            "a": np.linspace(-2, 2, n_rows),
            "b": np.where(np.arange(n_rows) % 4, np.arange(n_rows), 0),
            "c": pd.Categorical(["u", "v", None] * 20),
            "d": pd.date_range("1969-12-01", periods=n_rows, tz="UTC"),
            "e": [True, False] * 30,
            "t": ["p", "q", "q"] * 20,
        }
    )
    model = fitted(frame, target="t")
    document, arrays = model.to_state()
    again = TableModel.from_state(json.loads(json.dumps(document)), arrays)
    table = decoded(model)
    pd.testing.assert_frame_equal(table, decoded(again))
    assert table.dtypes.drop("c").equals(frame.dtypes.drop("c"))
    assert table["c"].cat.categories.tolist() == ["u", "v"]


def test_scores_of_rows_follow_their_class():
    frame = pd.DataFrame({"a": np.r_[np.zeros(50) + 1.5, np.zeros(50) + 6.0]})
    frame["t"] = ["p"] * 50 + ["q"] * 50
    model = fitted(frame, target="t")
    domain = model.metadata.domains[0]
    units = domain.to_unit(np.array([[1.5], [6.0]])).astype(np.float32)
    codes = np.zeros((2, 1), dtype=np.uint8)
    scores = [model.score_rows(units, codes, c)[:, 0] for c in (0, 1)]
    assert scores[0].dtype == np.float32
    assert abs(scores[0][0]) < 1
    assert abs(scores[1][1]) < 1
    assert scores[0][1] > 2
    assert scores[1][0] < -2


def test_a_dtype_without_missing_values_gets_none_though_declared():
    """Noise in a missing count must not end in an error of `sample`."""
    frame = pd.DataFrame({"k": [0, 1, 2] * 500, "y": [0, 1] * 750})
    schema = TableSchema({"k": Categorical([0, 1, 2], nullable=True)})
    table = IndependentSynthesizer(schema=schema).fit(frame).sample(2000)
    assert table["k"].dtype == np.int64
