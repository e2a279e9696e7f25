"""From ranks back to a table: dtypes, identifiers, and the way through a file."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import InvalidTableError
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


def test_columns_of_missing_values_stay_missing():
    n_rows = 4000
    frame = pd.DataFrame(
        {
            "real": np.full(n_rows, np.nan),
            "date": pd.DatetimeIndex([None] * n_rows),
            "whole": pd.array([None] * n_rows, dtype="Int64"),
            "text": pd.Series([None] * n_rows, dtype=object),
            "other": np.arange(n_rows) % 7.0,
        }
    )
    shares = IndependentSynthesizer(epsilon=1.0).fit(frame).sample(2000).isna().mean()
    assert (shares[:4] > 0.9).all()
    assert shares["other"] == 0


def test_names_that_do_not_compare(tmp_path):
    """np.int64(7) == ("a", 1) is an array, and pd.NA == 7 neither true nor false."""
    names = [("a", 1), np.int64(7), None, pd.NA]
    frame = pd.DataFrame({place: np.arange(300) % 3 for place in range(4)})
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    synth = IndependentSynthesizer(math.inf, target=np.int64(7)).fit(frame)
    assert synth.n_features_in_ == 3
    assert all(got is name for got, name in zip(synth.sample(2), names, strict=True))
    synth.fit(frame.iloc[:, :3]).save(tmp_path / "saved")
    again = IndependentSynthesizer.load(tmp_path / "saved")
    assert again.sample(2).columns.tolist() == names[:3]
    with pytest.raises(InvalidTableError, match=r"target of the schema is \('a', 1\)"):
        IndependentSynthesizer(
            target=np.int64(7), schema=TableSchema({}, target=("a", 1))
        ).fit(frame)


def test_a_file_does_not_change_the_type_of_the_names(tmp_path):
    """A file holds np.int64(7) as 7: with 0 these are two types before, one after."""
    frame = pd.DataFrame({0: np.arange(300) % 3, 1: np.arange(300) % 7})
    frame.columns = pd.Index([0, np.int64(7)], dtype=object)
    synth = IndependentSynthesizer(math.inf, random_state=0).fit(frame)
    synth.save(tmp_path / "saved")
    again = IndependentSynthesizer.load(tmp_path / "saved")
    before, after = (each.sample(2, random_state=0) for each in (synth, again))
    pd.testing.assert_frame_equal(after, before)
    assert before.columns.tolist() == [0, 7]
