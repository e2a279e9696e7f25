"""Scores equal a computation by hand, and poor tables score as a guess."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    average_precision_score,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from skdpsynth.datasets import load_adult, load_thyroid
from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics import (
    default_classifiers,
    is_measurement,
    setting_scores,
    split_rows,
    synthetic_only_scores,
    tstr_scores,
)

FAST = ["LogisticRegression", "GaussianNB", "DecisionTreeClassifier"]
FIVE = [
    *("Ridge", "KNeighborsRegressor", "RandomForestRegressor"),
    *("GradientBoostingRegressor", "HistGradientBoostingRegressor"),
]


@pytest.fixture(scope="module")
def adult() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give 400 rows of either part of Adult, some numbers missing."""
    parts, rng = load_adult(split=True), np.random.default_rng(0)
    parts = (part.head(400) for part in parts)
    return tuple(p.assign(age=p["age"].where(rng.random(400) > 0.1)) for p in parts)


@pytest.fixture(scope="module")
def thyroid() -> tuple[pd.DataFrame, pd.DataFrame]:
    train, test = load_thyroid(split=True)
    return train.head(900), test.head(900)


def blobs(n_rows: int = 80, gap: float = 2.0, seed: int = 0) -> pd.DataFrame:
    """Make two classes that lie `gap` standard deviations apart."""
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.arange(n_rows) % 2)
    x = rng.normal(size=(n_rows, 2)) + gap * code[:, None]
    return pd.DataFrame(x, columns=["u", "v"]).assign(y=code)


def prices(n_rows: int = 120, seed: int = 0, noise: float = 1.0) -> pd.DataFrame:
    """Make prices that two numbers and a category decide."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    u, v = rng.normal(size=(2, n_rows))
    price = 100 + 4 * u - v + 3 * kind + noise * rng.normal(size=n_rows)
    kinds = np.array(["p", "q", "r"])[kind]
    return pd.DataFrame({"u": u, "v": v, "kind": kinds, "price": price})


def by_hand(train, test, target, model):
    """Fit the stated encoding, out of scikit-learn's own parts, and a model to it.

    The second table is that of the features to predict with.
    """
    both = pd.concat([train, test]).drop(columns=target)
    text = [c for c in both if both[c].dtype.kind not in "iuf"]
    both[text] = both[text].astype(object).fillna("?")
    kinds = [list(both[c].unique()) for c in text]
    one_hot = OneHotEncoder(categories=kinds, sparse_output=False)
    median = SimpleImputer(strategy="median")
    encode = make_column_transformer((one_hot, text), remainder=median)
    pipeline = make_pipeline(encode, StandardScaler(), model)
    return pipeline.fit(both[: len(train)], train[target]), both[len(train) :]


def test_binary_scores_equal_a_pipeline_by_hand(adult):
    train, test = adult
    model = LinearSVC(random_state=0)
    pipeline, features = by_hand(train, test, "income", model)
    output = pipeline.decision_function(features)
    truth = test["income"] == ">50K"
    options = {"target": "income", "classifiers": {"mine": model}}
    scores = tstr_scores(train[train.columns[::-1]], test, **options)
    again = tstr_scores(train[train.columns[::-1]], test, **options, n_jobs=2)
    pd.testing.assert_frame_equal(again, scores)
    # The solvers stop at a tolerance; the order of columns moves the last digits.
    auroc, auprc = scores.loc["mine"]
    assert auroc == pytest.approx(roc_auc_score(truth, output), abs=2e-4)
    assert auprc == pytest.approx(average_precision_score(truth, output), abs=1e-3)
    flipped = tstr_scores(train, test, **options, pos_label="<=50K").loc["mine"]
    expected = average_precision_score(~truth, -output)
    assert flipped["auroc"] == pytest.approx(auroc)
    assert flipped["auprc"] == pytest.approx(expected, abs=1e-3)


def test_multiclass_scores_are_the_mean_over_labels(thyroid):
    train, test = thyroid
    model = LogisticRegression(max_iter=500)
    pipeline, features = by_hand(train, test, "class", model)
    output = pipeline.predict_proba(features)
    areas = [
        [metric(test["class"] == i + 1, output[:, i]) for i in range(3)]
        for metric in (roc_auc_score, average_precision_score)
    ]
    options = {"target": "class", "classifiers": {"mine": model}}
    found = tstr_scores(train, test, **options).loc["mine"]
    np.testing.assert_allclose(found, np.mean(areas, axis=1), rtol=0, atol=1e-4)
    found = tstr_scores(train, test, **options, pos_label=2).loc["mine"]
    np.testing.assert_allclose(found, np.array(areas)[:, 1], rtol=0, atol=1e-4)


def test_the_twelve_reach_the_known_optimum():
    """Two Gaussians 2 * sqrt(2) deviations apart: the best AUROC is Phi(2) = 0.977.

    The best rule that gives 0 or 1 only has Phi(sqrt(2)) = 0.921, and so about a tree.
    All seeds are fixed, so this cannot fail by chance.
    """
    scores = tstr_scores(blobs(300, seed=1), blobs(600, seed=2), target="y")
    assert {*default_classifiers(), "mean"} <= {*scores.index}
    each = scores["auroc"][[*default_classifiers()]]
    coarse = ["DecisionTreeClassifier", "BernoulliNB"]
    assert each.drop(coarse).between(0.937, 0.985).all()
    assert each[coarse].between(0.841, 0.94).all()
    assert scores["auroc"]["mean"] == pytest.approx(each.mean())
    assert scores.attrs["contains_private_statistics"] is True


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_scores_as_a_guess(label):
    test = blobs(40).iloc[:-5]
    with pytest.warns(DegradedResultWarning, match="one label only") as caught:
        scores = tstr_scores(blobs().assign(y=label), test, target="y")
    assert [warning.filename for warning in caught] == [__file__]
    assert (scores["auroc"] == 0.5).all()
    np.testing.assert_allclose(scores["auprc"], test["y"].mean())


def test_classifier_of_the_panel_that_cannot_be_fitted_scores_as_a_guess():
    """LinearDiscriminantAnalysis refuses as many rows as labels, and KNN few rows."""
    table = pd.DataFrame({"u": [0.0, 1.0], "y": [0, 1]})
    names = ["LinearDiscriminantAnalysis", "DecisionTreeClassifier"]
    message = r"nothing LinearDiscriminantAnalysis can be fitted to \(ValueError\)"
    with pytest.warns(DegradedResultWarning, match=message):
        scores = tstr_scores(table, blobs()[["u", "y"]], target="y", classifiers=names)
    assert scores.loc[names[0]].tolist() == [0.5, 0.5]
    assert scores.loc[names[1], "auroc"] > 0.7
    # One's own classifier is one's own business.
    own = {"mine": default_classifiers()[names[0]]}
    with pytest.raises(ValueError, match="number of samples"):
        tstr_scores(table, table, target="y", classifiers=own)
    few, test = prices(3), prices(seed=1)
    with pytest.warns(DegradedResultWarning, match="nothing KNeighborsRegressor can"):
        scores = tstr_scores(few, test, target="price", classifiers=FIVE[1])
    guess = np.full(len(test), few["price"].mean())
    assert scores.loc[FIVE[1], "r2"] == pytest.approx(r2_score(test["price"], guess))


def test_label_that_is_not_in_the_synthetic_table(thyroid):
    """It scores as a guess, and the other two as they do alone."""
    train, test = thyroid
    tables = train[train["class"] != 2], test
    options = {"target": "class", "classifiers": ["GaussianNB"]}
    with pytest.warns(DegradedResultWarning, match="no row of 1 of the 3 labels"):
        scores = tstr_scores(*tables, **options)
    parts = [tstr_scores(*tables, **options, pos_label=label) for label in (1, 3)]
    guess = [0.5, (test["class"] == 2).mean()]
    np.testing.assert_allclose(scores, (parts[0] + parts[1] + guess) / 3)


THREE_TABLES = {
    "labels": (blobs(90, seed=1), blobs(30, seed=2), blobs(41, gap=1, seed=3)),
    "numbers": (prices(), prices(40, 1), prices(80, 2, noise=4.0)),
}


@pytest.mark.parametrize("kind", THREE_TABLES)
def test_settings_are_the_three_pairs_of_tables(kind):
    """Until 0.5; Setting C alone is that where as many rows are held out."""
    train, test, synthetic = THREE_TABLES[kind]
    names = {"labels": ("y", FAST, "auroc"), "numbers": ("price", FIVE[:2], "r2")}[kind]
    options = {"target": names[0], "classifiers": names[1]}
    with pytest.warns(FutureWarning, match="Use tstr_scores"):
        scores = setting_scores(train, test, synthetic, **options)
    assert scores.columns.names == ["setting", "metric"]
    assert scores.columns[0] == ("A", names[2])
    assert scores.attrs["contains_private_statistics"] is True
    for name, table in {"A": train, "B": synthetic}.items():
        expected = tstr_scores(table, test, **options)
        pd.testing.assert_frame_equal(scores[name], expected, check_names=False)
    share = len(test) / (len(train) + len(test))
    alone = synthetic_only_scores(synthetic, held_out=share, **options)
    pd.testing.assert_frame_equal(scores["C"], alone, check_names=False)
    assert alone.attrs["contains_private_statistics"] is False
    with pytest.raises(InvalidTableError, match="at least two rows"):
        synthetic_only_scores(synthetic[:1], **options)
    with pytest.raises(InvalidTableError, match="'synthetic', but there is one"):
        synthetic_only_scores(synthetic.assign(**{names[0]: 0}), **options)


def test_setting_c_holds_out_a_share_of_every_label():
    """41 rows have 21 and 20 of the labels, so the kept part has 16 and 15."""
    synthetic = blobs(41, seed=3)
    parts = split_rows(synthetic, "y", 10, "held out")
    assert sorted(parts[0]["y"].value_counts()) == [15, 16]
    assert sorted(pd.concat(parts).index) == list(range(41))
    options = {"target": "y", "classifiers": FAST}
    found = synthetic_only_scores(synthetic, held_out=0.25, **options)
    pd.testing.assert_frame_equal(found, tstr_scores(*parts, **options))


def test_scores_equal_a_pipeline_by_hand():
    train, test, model = prices(), prices(90, seed=1), KNeighborsRegressor(3)
    pipeline, features = by_hand(train, test, "price", model)
    output = pipeline.predict(features)
    for dtype in ("float64", "Float64", "double[pyarrow]"):
        tables = (own.astype({"price": dtype}) for own in (train, test))
        scores = tstr_scores(*tables, target="price", classifiers={"mine": model})
        r2, rmse = scores.loc["mine", ["r2", "rmse"]]
        assert r2 == pytest.approx(r2_score(test["price"], output))
        assert rmse == pytest.approx(root_mean_squared_error(test["price"], output))


def test_the_five_explain_what_there_is_to_explain():
    """The variance is 16 + 1 + 6 and that of the noise 1: at best r2 is 0.958."""
    scores = tstr_scores(prices(600), prices(600, seed=1), target="price")
    assert scores.index.tolist() == [*FIVE, "mean"]
    assert scores["r2"].between(0.85, 0.97).all()
    assert scores.loc["Ridge", "r2"] == pytest.approx(0.958, abs=0.01)
    assert scores.loc["Ridge", "rmse"] == pytest.approx(1.0, abs=0.1)


COLUMNS = {
    "fractions": ([0.0, 0.5], True),
    "fractions of Arrow": (pd.array([0.0, 0.5], dtype="double[pyarrow]"), True),
    "floats of labels": (np.arange(20.0), False),
    "more floats": (np.arange(21.0), True),
    "labels": (np.arange(20), False),
    "whole numbers": (np.arange(21), True),
    "booleans": ([False, True], False),
    "times": (pd.to_datetime(["2020", "2021"], format="%Y"), True),
    "durations": (pd.to_timedelta([1, 2], "h"), True),
    "categories": (pd.Categorical(np.arange(30)), False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_fractions_or_many_numbers_are_a_measurement(name):
    values, measured = COLUMNS[name]
    column = pd.Series(values, name="y")
    assert is_measurement(column) is measured
    if measured:
        with pytest.raises(ValueError, match=r"'pos_label'.* target 'y' holds numbers"):
            is_measurement(column, pos_label=0)


POOR = InvalidTableError
UNSORTABLE = blobs().assign(y=[0, "secret"] * 40)
LABELS = {"synthetic": blobs(), "test": blobs(), "target": "y", "classifiers": FAST}
NUMBERS = {"synthetic": prices(), "test": prices(seed=1), "target": "price"}
NUMBERS["classifiers"] = [Ridge()]


@pytest.mark.parametrize(
    ("options", "changes", "error", "message"),
    [
        (LABELS, {"test": blobs().assign(y=1)}, POOR, "at least two labels"),
        (LABELS, {"test": blobs().assign(y=1.5)}, POOR, "two labels or values"),
        (LABELS, {"test": UNSORTABLE}, POOR, "labels of one type"),
        (LABELS, {"pos_label": "1"}, ValueError, "'pos_label' parameter must be"),
        (NUMBERS, {"classifiers": FAST[1:2]}, ValueError, "'Ridge'.*own regressors"),
        (NUMBERS, {"classifiers": [LogisticRegression()]}, ValueError, "continuous"),
        (NUMBERS, {"pos_label": 1}, ValueError, "'pos_label'"),
        (NUMBERS, {"test": prices().assign(price=2.5)}, POOR, "at least two"),
        (NUMBERS, {"test": prices().assign(price=np.inf)}, POOR, "finite values"),
        (NUMBERS, {"synthetic": prices().assign(price="x")}, POOR, "of one kind"),
    ],
)
def test_what_cannot_be_scored_is_refused(options, changes, error, message):
    with pytest.raises(error, match=message) as caught:
        tstr_scores(**options | changes)
    assert "secret" not in str(caught.value)


def test_texts_that_differ_in_every_row_are_left_out():
    """With a warning that names the column, and no value of it."""
    rng = np.random.default_rng(0)
    drawn = {"x": rng.random(350), "y": rng.integers(0, 2, 350)}
    plain = [pd.DataFrame(drawn)[:160], pd.DataFrame(drawn)[160:]]
    with_ids = [own.assign(who=[f"P{k}" for k in range(len(own))]) for own in plain]
    options = {"target": "y", "classifiers": ["GaussianNB"]}
    with pytest.warns(DegradedResultWarning, match=r"another text: \['who'\]") as seen:
        scores = tstr_scores(*with_ids, **options)
    assert "P1" not in str(seen[0].message)
    pd.testing.assert_frame_equal(scores, tstr_scores(*plain, **options))
    tstr_scores(*(own[:20] for own in with_ids), **options)  # too few to tell
    tstr_scores(with_ids[0], with_ids[1].assign(who="P1"), **options)


def test_rare_categories_are_one():
    """Those beyond the 100 most frequent of the table to train on; ties by name."""
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.01, (2, 3_000)), 400)
    train, test = (
        pd.DataFrame({"code": [f"c{k}" for k in own], "y": own + noise > 70})
        for own, noise in zip(codes, rng.normal(0, 40, codes.shape), strict=True)
    )
    frequent = train["code"].value_counts()
    order = sorted(frequent.index, key=lambda name: (-frequent[name], name))
    assert len(order) > 150
    merged = [
        own.assign(code=own["code"].where(own["code"].isin(order[:100]), "rest"))
        for own in (train, test)
    ]
    options = {"target": "y", "classifiers": ["BernoulliNB"]}
    scores = tstr_scores(train, test, **options)
    pd.testing.assert_frame_equal(tstr_scores(*merged, **options), scores)
    assert scores.loc["mean", "auroc"] > 0.7


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({True: 9, False: 3}, True),
        ({0: 3, 1: 9}, 1),
        ({0.0: 3, 1.0: 9}, 1.0),
        ({1: 3, 2: 9}, 1),
        ({"no": 9, "yes": 3}, "yes"),
        ({"ja": 3, "nein": 9}, "ja"),
        ({"no": 6, "yes": 6}, "yes"),
        ({"a": 3, "b": 3, "c": 6}, None),
    ],
)
def test_the_label_that_is_scored_is_the_one_to_be_found(counts, expected):
    """Whichever the synthetic table has more of; the scores are those of naming it."""
    y = pd.Series([label for label, n in counts.items() for _ in range(n)])
    rows = pd.DataFrame({"x": np.arange(len(y)) % 4, "y": y})
    how = {"target": "y", "classifiers": ["GaussianNB"]}
    found = tstr_scores(rows.groupby("y").head(3), rows, **how)
    assert found.attrs["pos_label"] == expected
    named = tstr_scores(rows.groupby("y").head(3), rows, **how, pos_label=expected)
    pd.testing.assert_frame_equal(found, named)
