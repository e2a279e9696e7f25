"""Scores where the target is a number: those of scikit-learn on the same matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics import (
    feature_ranking_agreement,
    is_measurement,
    setting_scores,
    synthetic_only_scores,
    synthetic_ranking_agreement,
    tstr_scores,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FIVE = [
    "Ridge",
    "KNeighborsRegressor",
    "RandomForestRegressor",
    "GradientBoostingRegressor",
    "HistGradientBoostingRegressor",
]
FAST = ["Ridge", "KNeighborsRegressor"]


def prices(n_rows: int = 120, seed: int = 0, noise: float = 1.0) -> pd.DataFrame:
    """Make prices that two numbers and a category decide."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    u, v = rng.normal(size=(2, n_rows))
    price = 100 + 4 * u - v + 3 * kind + noise * rng.normal(size=n_rows)
    kinds = np.array(["p", "q", "r"])[kind]
    return pd.DataFrame({"u": u, "v": v, "kind": kinds, "price": price})


@pytest.mark.parametrize("model", [LinearRegression(), KNeighborsRegressor(3)])
def test_scores_equal_a_pipeline_by_hand(model: BaseEstimator) -> None:
    train, test = prices(), prices(90, seed=1)
    one_hot = OneHotEncoder(sparse_output=False)
    encode = make_column_transformer((one_hot, ["kind"]), remainder="passthrough")
    pipeline = make_pipeline(encode, StandardScaler(), model)
    pipeline.fit(train.drop(columns="price"), train["price"])
    output = pipeline.predict(test.drop(columns="price"))
    shuffled = train[train.columns[::-1]]
    scores = tstr_scores(shuffled, test, target="price", classifiers={"mine": model})
    assert scores.columns.tolist() == ["r2", "rmse"]
    assert scores.loc["mine", "r2"] == pytest.approx(r2_score(test["price"], output))
    error = root_mean_squared_error(test["price"], output)
    assert scores.loc["mine", "rmse"] == pytest.approx(error)
    assert scores.attrs["contains_private_statistics"] is True


def test_the_five_explain_what_there_is_to_explain() -> None:
    """The variance is 16 + 1 + 6 and that of the noise 1: at best r2 is 0.958."""
    scores = tstr_scores(prices(600), prices(600, seed=1), target="price")
    assert scores.index.tolist() == [*FIVE, "mean"]
    assert scores["r2"].between(0.85, 0.97).all()
    assert scores["rmse"].between(0.9, 2.0).all()
    best = scores.loc["Ridge"]
    assert best["r2"] == pytest.approx(0.958, abs=0.01)
    assert best["rmse"] == pytest.approx(1.0, abs=0.1)
    mean = scores.drop("mean").mean()
    pd.testing.assert_series_equal(scores.loc["mean"], mean, check_names=False)


COLUMNS = {
    "fractions": ([0.0, 0.5], True),
    "fractions of Arrow": (pd.array([0.0, 0.5], dtype="double[pyarrow]"), True),
    "floats of labels": (np.arange(20.0), False),
    "more floats": (np.arange(21.0), True),
    "labels": (np.arange(20), False),
    "whole numbers": (np.arange(21), True),
    "nullable": (pd.array(range(21), dtype="Int64"), True),
    "booleans": ([False, True], False),
    "texts": (np.arange(30).astype(str), False),
    "categories": (pd.Categorical(np.arange(30)), False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_fractions_or_many_numbers_are_a_measurement(name: str) -> None:
    values, measured = COLUMNS[name]
    column = pd.Series(values, name="y")
    assert is_measurement(column) is measured
    if measured:
        with pytest.raises(ValueError, match=r"'pos_label'.* target 'y' holds numbers"):
            is_measurement(column, pos_label=0)


def test_whole_and_nullable_numbers_score_as_floats() -> None:
    train, test = (t.round({"price": 0}) for t in (prices(), prices(seed=1)))
    expected = tstr_scores(train, test, target="price", classifiers=FAST)
    for dtype in ("int64", "Int64", "double[pyarrow]"):
        tables = (train.astype({"price": dtype}), test.astype({"price": dtype}))
        got = tstr_scores(*tables, target="price", classifiers=FAST)
        pd.testing.assert_frame_equal(got, expected)


def test_settings_are_the_three_pairs_of_tables() -> None:
    train, test, fake = prices(), prices(40, 1), prices(80, 2, noise=4.0)
    scores = setting_scores(train, test, fake, target="price", classifiers=FIVE)
    assert scores.columns.tolist()[:2] == [("A", "r2"), ("A", "rmse")]
    for name, table in {"A": train, "B": fake}.items():
        expected = tstr_scores(table, test, target="price", classifiers=FIVE)
        pd.testing.assert_frame_equal(scores[name], expected, check_names=False)
    alone = synthetic_only_scores(fake, target="price", held_out=40 / 160)
    pd.testing.assert_frame_equal(scores["C"], alone, check_names=False)
    # On the same rows a smaller error is a larger r2.
    orders = [scores["A"][metric] for metric in ("r2", "rmse")]
    assert synthetic_ranking_agreement(orders[0], -orders[1]) == 1


def test_the_ranking_of_features_is_that_of_correlations() -> None:
    """Of u, v and kind the correlations are about 0.8, 0.2 and 0.4."""
    real, other = prices(2000), prices(2000, seed=1)
    assert feature_ranking_agreement(real, other, target="price") == 1
    swapped = other.rename(columns={"u": "v", "v": "u"})
    assert feature_ranking_agreement(real, swapped, target="price") == 0.0


def test_what_cannot_be_learnt_is_the_mean() -> None:
    test = prices(seed=1)
    constant = prices().assign(u=0.0, v=0.0, kind="p")
    with pytest.warns(DegradedResultWarning, match="no feature that varies") as caught:
        scores = tstr_scores(constant, test.assign(kind="p"), target="price")
    assert [warning.filename for warning in caught] == [__file__]
    guess = np.full(len(test), constant["price"].mean())
    np.testing.assert_allclose(scores["r2"], r2_score(test["price"], guess), atol=1e-9)


def test_regressor_that_cannot_be_fitted_guesses() -> None:
    """Five neighbours are not among three rows; one's own is one's own business."""
    few, test = prices(3), prices(seed=1)
    with pytest.warns(DegradedResultWarning, match="nothing KNeighborsRegressor can"):
        scores = tstr_scores(few, test, target="price", classifiers=FAST)
    guess = np.full(len(test), few["price"].mean())
    found = scores.loc["KNeighborsRegressor", "r2"]
    assert found == pytest.approx(r2_score(test["price"], guess))
    with pytest.raises(ValueError, match="n_neighbors"):
        tstr_scores(few, test, target="price", classifiers=[KNeighborsRegressor()])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"classifiers": ["GaussianNB"]}, ValueError, r"'Ridge'.*own regressors"),
        ({"classifiers": [LogisticRegression()]}, ValueError, "continuous"),
        ({"pos_label": 1}, ValueError, "'pos_label'"),
        ({"test": prices().assign(price=2.5)}, InvalidTableError, "at least two"),
        ({"test": prices().assign(price=np.inf)}, InvalidTableError, "finite values"),
        ({"synthetic": prices().assign(price="x")}, InvalidTableError, "of one kind"),
        ({"synthetic": prices().assign(price=np.nan)}, InvalidTableError, "complete"),
    ],
)
def test_what_cannot_be_scored_is_refused(changes, error, message) -> None:
    options = {"synthetic": prices(), "test": prices(seed=1)}
    options |= {"target": "price", "classifiers": [Ridge()]} | changes
    with pytest.raises(error, match=message):
        tstr_scores(**options)
