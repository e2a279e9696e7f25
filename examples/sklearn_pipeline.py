"""A synthesizer in a pipeline: cross-validation that pays, and a budget that ends.

Run ``python examples/sklearn_pipeline.py``; ``--quick`` takes fewer rows. The
classifier learns from synthetic rows only, and is tested on real ones that no fit saw.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library reads it

import numpy as np
from imblearn.pipeline import make_pipeline
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpsynth import GPATESynthesizer, PrivacyBudget
from skdpsynth.datasets import load_adult
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.schema import Categorical, TableSchema

QUICK = "--quick" in sys.argv
N_FOLDS = 3


def main() -> None:
    """Cross-validate, release one table, and be refused another."""
    train, _ = load_adult(split=True)
    X = train.sample(4_000, random_state=0) if QUICK else train
    y = X.pop("income")

    # Room for the folds and for one more fit. With `path=` it outlives this program.
    budget = PrivacyBudget(epsilon=N_FOLDS + 1, delta=1e-4)
    public = TableSchema({"income": Categorical(["<=50K", ">50K"])})
    synthesizer = GPATESynthesizer(epsilon=1.0, schema=public, budget=budget)
    pipeline = make_pipeline(synthesizer, encoder(), LogisticRegression(max_iter=500))

    # A fold for every row by its own secret draw: folds by position or by class would
    # move other rows when one is added, and the charges would not cover that.
    folds = PredefinedSplit(np.random.default_rng().integers(N_FOLDS, size=len(X)))
    scores = cross_val_score(
        pipeline,
        X,
        y,
        cv=folds,
        scoring="roc_auc",
        n_jobs=1 if QUICK else 2,
        error_score="raise",  # by default a refused fit is a NaN
    )
    print(f"AUROC of each fold: {scores.round(3)} (private: computed from real rows)\n")
    print(budget.charges.to_string(), "\n")

    X_synthetic, y_synthetic = synthesizer.fit_resample(X, y)
    print(
        f"released: {len(X_synthetic):,} synthetic rows, {y_synthetic.nunique()} labels"
    )
    try:
        synthesizer.fit(X, y)
    except BudgetExceededError as error:
        print(f"refused, before it started: {error}")


def encoder() -> object:
    """Encode categories and scale numbers, as any classifier needs it."""
    text = make_column_selector(dtype_exclude="number")
    numbers = make_column_selector(dtype_include="number")
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), text),
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
    )


if __name__ == "__main__":
    main()
