"""The panel is the one of the PATE-GAN paper."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth.exceptions import MissingDependencyError
from skdpsynth.metrics import default_classifiers, resolve_classifiers, tstr_scores

# What differs from the defaults of the library, random_state=0 apart.
STATED = {
    "LogisticRegression": {"max_iter": 500},
    "MLPClassifier": {
        "hidden_layer_sizes": (18, 18, 18),
        "activation": "tanh",
        "max_iter": 60,
    },
    "XGBClassifier": {"n_jobs": 1},
}
# In the order of Table 1 of the PATE-GAN paper.
TWELVE = [
    *("LogisticRegression", "RandomForestClassifier", "GaussianNB", "BernoulliNB"),
    *("LinearSVC", "DecisionTreeClassifier", "LinearDiscriminantAnalysis"),
    *("AdaBoostClassifier", "BaggingClassifier", "GradientBoostingClassifier"),
    *("MLPClassifier", "XGBClassifier"),
]


def test_twelve_with_stated_parameters():
    panel = default_classifiers()
    assert list(panel) == TWELVE
    for name, classifier in panel.items():
        assert type(classifier).__name__ == name
        params, defaults = classifier.get_params(), type(classifier)().get_params()
        expected = defaults | STATED.get(name, {})
        if "random_state" in defaults:
            expected["random_state"] = 0
        # XGBoost's `missing` is NaN, which is not equal to itself.
        assert repr(sorted(params.items())) == repr(sorted(expected.items()))
    assert panel["RandomForestClassifier"].n_estimators == 100


def test_missing_xgboost_names_both_distributions(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match=r"`xgboost`.*`xgboost-cpu`"):
        default_classifiers()
    two = ["GaussianNB", "LinearSVC"]
    assert list(resolve_classifiers(two)[0]) == two


def test_names_and_own_classifiers():
    panel, are_own = resolve_classifiers("GaussianNB")
    assert (list(panel), are_own) == (["GaussianNB"], False)
    own = {"mine": GaussianNB(var_smoothing=0.1)}
    assert resolve_classifiers(own) == (own, True)


def test_a_list_of_classifiers_has_the_names_of_their_classes():
    """One alone is a list too, also a forest, whose length cannot be asked for."""
    forest, pipeline = RandomForestClassifier(), make_pipeline(StandardScaler())
    own = [GaussianNB(), forest, GaussianNB(var_smoothing=0.1), pipeline, GaussianNB()]
    names = ["GaussianNB", "RandomForestClassifier", "GaussianNB 2", "Pipeline"]
    panel, are_own = resolve_classifiers(own)
    assert list(panel) == [*names, "GaussianNB 3"]
    assert all(a is b for a, b in zip(panel.values(), own, strict=True))
    assert are_own
    for alone in (forest, (forest,)):
        assert resolve_classifiers(alone) == ({"RandomForestClassifier": forest}, True)


@pytest.mark.parametrize(
    ("classifiers", "message"),
    [
        (["GaussianNB", "XGBoostRegressor"], r"Got \['XGBoostRegressor'\] instead"),
        ([GaussianNB(), "GaussianNB"], r"not both\. Got \[GaussianNB\(\)\] instead"),
        ([GaussianNB], r"GaussianNB'>\] instead"),
        ([3], r"Got \[3\] instead"),
        ([], "at least one"),
        ({"mean": GaussianNB()}, "row of means"),
    ],
)
def test_other_panels_are_refused(classifiers, message):
    with pytest.raises(ValueError, match=message):
        resolve_classifiers(classifiers)


def two_classes(seed: int, n_rows: int = 200) -> pd.DataFrame:
    """Make a label that follows from the sign of a product: no line separates it."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, n_rows))
    return pd.DataFrame({"u": u, "v": v, "y": np.where(u * v > 0, "same", "other")})


def test_histogram_boosting_is_beside_the_twelve_and_not_in_their_mean():
    """By its name; an own one of its class is one among others."""
    train, test = two_classes(0), two_classes(1)

    def scores(classifiers):
        return tstr_scores(train, test, target="y", classifiers=classifiers)

    two = scores(["GaussianNB", "LogisticRegression"])
    three = scores(["GaussianNB", "HistGradientBoosting", "LogisticRegression"])
    pd.testing.assert_frame_equal(three.drop(index="HistGradientBoosting"), two)
    among = scores([GaussianNB(), HistGradientBoostingClassifier(random_state=0)])
    assert among.loc["mean"].equals(among[:2].mean().rename("mean"))
    boosted = three.loc["HistGradientBoosting"]
    assert boosted.tolist() == among.iloc[1].tolist()
    assert scores("HistGradientBoosting").loc["mean"].tolist() == boosted.tolist()
    assert boosted["auroc"] > 0.9 > two.loc["mean", "auroc"]
