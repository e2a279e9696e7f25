"""Pipelines, cross-validation and searches: what they score, and what they spend."""

import math
from dataclasses import fields

import joblib
import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN
from imblearn.pipeline import make_pipeline
from imblearn.utils._tags import InputTags, SamplerTags, Tags
from imblearn.utils.estimator_checks import estimator_checks_generator
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Continuous, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")

N = 300


def rows(n_rows: int = N, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Make two classes, two standard deviations apart in both columns."""
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.arange(n_rows) % 2)
    features = rng.normal(size=(n_rows, 2)) + 2 * code[:, None]
    return pd.DataFrame(features, columns=["u", "v"]), pd.Series(code, name="y")


X, Y = rows()
# Complete: by noise alone one column in 10^6 has missing values, which are refused.
WIDE = Continuous(-5, 8, nullable=False)
SCHEMA = TableSchema({"u": WIDE, "v": WIDE})
SMOOTHING, EPSILON = "gaussiannb__var_smoothing", "independentsynthesizer__epsilon"


def pipeline(budget: PrivacyBudget | None = None, **options):
    """Make a pipeline of the cheapest synthesizer, at epsilon 1."""
    synth = IndependentSynthesizer(schema=SCHEMA, budget=budget)
    return make_pipeline(synth, GaussianNB(), **options)


def test_a_score_is_train_on_synthetic_test_on_real():
    """With frozen noise, every fold scores as a computation by hand without sklearn."""
    synthesizer = GPATESynthesizer(epsilon=5.0, n_iter=2, random_state=0)
    folds = np.random.default_rng(0).integers(3, size=N)
    model = make_pipeline(synthesizer, LogisticRegression())
    with insecure_randomness(0):
        scores = cross_val_score(
            model, X, Y, cv=PredefinedSplit(folds), scoring="roc_auc"
        )
    expected = []
    with insecure_randomness(0):
        for fold in range(3):
            kept = folds != fold
            fitted = clone(synthesizer).set_params(target="y").fit(X[kept].assign(y=Y))
            # As many rows as the noisy counts say, which are public in the schema.
            fake = fitted.sample(sum(fitted.schema_.class_counts.values()))
            judge = LogisticRegression().fit(fake[["u", "v"]], fake["y"])
            output = judge.decision_function(X[~kept])
            expected.append(roc_auc_score(Y[~kept], output))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    assert scores.min() > 0.8


@pytest.mark.parametrize("synthesizer", PLAIN.values(), ids=PLAIN)
def test_every_synthesizer_stands_before_a_classifier(synthesizer):
    """A line between the classes finds 92 % of the labels of 300 rows of another draw.

    Below 85 % it would lie 0.8 standard deviations off. 150 rows a class and the noise
    of epsilon 8 move it by 0.1: a false alarm is rarer than 1e-6.
    """
    synthesizer = clone(synthesizer).set_params(schema=SCHEMA)
    budget = PrivacyBudget(8.0, 1e-4)
    private = "epsilon" in synthesizer.get_params()
    if private:
        synthesizer.set_params(epsilon=8.0, budget=budget)
    model = make_pipeline(synthesizer, LogisticRegression()).fit(X, Y)
    assert model.score(*rows(seed=1)) > 0.85
    assert budget.charges["epsilon"].tolist() == [8.0] * private
    assert getattr(model[0], "n_iter_", 2) == 2


def test_a_fit_is_charged_before_its_noise_and_refused_before_it_starts():
    """Three of five folds are paid for; the fourth draws nothing."""
    budget = PrivacyBudget(3.5, 1e-3)
    spent = []  # when noise is drawn
    with observe_releases(lambda _: spent.append(budget.spent[0])):
        with pytest.raises(BudgetExceededError, match=r"epsilon = 0\.5 left of 3\.5"):
            cross_val_score(pipeline(budget), X, Y, error_score="raise")
        drawn = len(spent)
        with pytest.raises(BudgetExceededError):
            pipeline(budget).fit(X, Y)
    assert len(spent) == drawn
    assert spent == sorted(spent)
    assert set(spent) == {1.0, 2.0, 3.0}
    assert budget.spent == (3.0, pytest.approx(3e-5))


def test_a_search_pays_for_every_candidate_in_every_fold_and_for_the_refit():
    budget = PrivacyBudget(100.0, 1e-3)
    grid = {EPSILON: [4.0, 16.0]}
    search = GridSearchCV(pipeline(budget), grid, cv=3, error_score="raise").fit(X, Y)
    best = search.best_params_[EPSILON]
    assert budget.charges["epsilon"].tolist() == [4.0] * 3 + [16.0] * 3 + [best]
    assert search.best_estimator_[0].budget is budget


def test_a_search_tells_whether_a_loop_is_worth_its_budget():
    """None, or those of "auto", which are in the last fit."""
    synth = clone(PLAIN["DPCGANSynthesizer"]).set_params(epsilon=20.0, schema=SCHEMA)
    grid = {"dpcgansynthesizer__n_iter": [0, "auto"]}
    asked = make_pipeline(synth, GaussianNB()), grid
    search = GridSearchCV(*asked, cv=2, refit=lambda results: 1).fit(X, Y)
    assert search.cv_results_["mean_test_score"].min() > 0.8
    assert search.best_estimator_[0].n_iter_ == 10


def test_candidates_that_share_a_table_pay_for_it_once(tmp_path):
    """imblearn's cache: one release for each fold, however many classifiers see it."""
    budget = PrivacyBudget(2.0, 1e-3)
    model = pipeline(budget, memory=str(tmp_path))
    grid, settings = {SMOOTHING: [1e-9, 1e-3, 0.1]}, {"error_score": "raise"}
    search = GridSearchCV(model, grid, cv=KFold(2), refit=False, **settings).fit(X, Y)
    assert len(search.cv_results_["params"]) == 3
    assert len(budget.charges) == 2
    # What docs/sklearn.md warns of: the cache holds real rows.
    texts = [path.read_text() for path in tmp_path.rglob("metadata.json")]
    assert any(f"{X['u'].iloc[-1]:.6f}" in text for text in texts)


@pytest.fixture
def workers(request):
    """Threads, or two processes of joblib that end with the test."""
    with joblib.parallel_config(backend=request.param):
        yield
    if request.param == "loky":
        get_reusable_executor().shutdown(wait=True)


@pytest.mark.parametrize(
    "workers",
    ["threading", pytest.param("loky", marks=pytest.mark.nightly)],
    indirect=True,
)
def test_the_budget_holds_in_threads_and_other_processes(workers):
    """Twenty fits, some at a time, on a budget of five."""
    budget = PrivacyBudget(5.0, 1e-3)
    folds = ShuffleSplit(20, random_state=0)
    with pytest.warns(FitFailedWarning, match="15 fits failed out of a total of 20"):
        scores = cross_val_score(pipeline(budget), X, Y, cv=folds, n_jobs=2)
    assert np.isfinite(scores).sum() == 5
    assert len(budget.charges) == 5
    with pytest.raises(BudgetExceededError, match="epsilon = 0 left of 5"):
        cross_val_score(pipeline(budget), X, Y, n_jobs=2, error_score="raise")
    assert budget.spent == (5.0, pytest.approx(5e-5))


# Checks that ask for something else than a synthesizer is; one that passes is an error.
REASONS = {
    "check_samplers_fit": "shares of classes are chosen when rows are drawn: no fit has"
    " a sampling_strategy_",
    "check_samplers_pandas_sparse": "sparse columns are refused, with the remedy",
    "check_target_type": "a target of floats is a measurement",
    "check_samplers_one_label": "its label is a float; one class is no error either",
    "check_samplers_multiclass_ova": "labels are one column: zeros and ones in several"
    " may be several labels of a row",
}


class Sampler(IndependentSynthesizer):
    """A synthesizer that says in imbalanced-learn's words what it takes."""

    def __sklearn_tags__(self):
        own = super().__sklearn_tags__()
        taken = {
            f.name: getattr(own.input_tags, f.name) for f in fields(own.input_tags)
        }
        taken |= {"dataframe": True, "string": True}
        return Tags(
            estimator_type=None,
            target_tags=own.target_tags,
            input_tags=InputTags(**taken),
            sampler_tags=SamplerTags(),
        )


# Without noise: some checks compare two fits, or have 30 rows.
CHECKS = [
    pytest.param(check, marks=marks, id=check.func.__name__)
    for _, check in estimator_checks_generator(Sampler())
    for reason in [REASONS.get(check.func.__name__)]
    for marks in [() if reason is None else pytest.mark.xfail(reason=reason)]
]


@pytest.mark.parametrize("check", CHECKS)
def test_imblearn(check):
    check(Sampler(epsilon=math.inf, random_state=0))
