"""The panel is the one of the PATE-GAN paper."""

from __future__ import annotations

import sys

import pytest
from sklearn.naive_bayes import GaussianNB

from skdpsynth.exceptions import MissingDependencyError
from skdpsynth.metrics import default_classifiers
from skdpsynth.metrics._classifiers import resolve_classifiers

# What differs from the defaults of the library, random_state=0 apart.
STATED = {
    "LogisticRegression": {"max_iter": 500},
    "RandomForestClassifier": {},
    "GaussianNB": {},
    "BernoulliNB": {},
    "LinearSVC": {},
    "DecisionTreeClassifier": {},
    "LinearDiscriminantAnalysis": {},
    "AdaBoostClassifier": {},
    "BaggingClassifier": {},
    "GradientBoostingClassifier": {},
    "MLPClassifier": {
        "hidden_layer_sizes": (18, 18, 18),
        "activation": "tanh",
        "max_iter": 60,
    },
    "XGBClassifier": {"n_jobs": 1},
}


def test_twelve_with_stated_parameters() -> None:
    panel = default_classifiers()
    assert list(panel) == list(STATED)
    for name, classifier in panel.items():
        assert type(classifier).__name__ == name
        params, defaults = classifier.get_params(), type(classifier)().get_params()
        expected = defaults | STATED[name]
        if "random_state" in defaults:
            expected["random_state"] = 0
        # XGBoost's `missing` is NaN, which is not equal to itself.
        assert repr(sorted(params.items())) == repr(sorted(expected.items()))
    assert panel["RandomForestClassifier"].n_estimators == 100


def test_missing_xgboost_names_both_distributions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match=r"`xgboost`.*`xgboost-cpu`"):
        default_classifiers()
    assert list(resolve_classifiers(["GaussianNB", "LinearSVC"])) == [
        "GaussianNB",
        "LinearSVC",
    ]


def test_names_and_own_classifiers() -> None:
    assert list(resolve_classifiers("GaussianNB")) == ["GaussianNB"]
    own = GaussianNB(var_smoothing=0.1)
    assert resolve_classifiers({"mine": own}) == {"mine": own}


@pytest.mark.parametrize(
    ("classifiers", "message"),
    [
        (["GaussianNB", "XGBoostRegressor"], r"Got \['XGBoostRegressor'\] instead"),
        ([], "at least one"),
        ({"mean": GaussianNB()}, "row of means"),
    ],
)
def test_other_panels_are_refused(classifiers: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_classifiers(classifiers)
