"""A synthesizer in a pipeline: cross-validation with a shared budget.

Run ``python examples/sklearn_pipeline.py``; ``--quick`` takes fewer rows. The
classifier is trained on synthetic rows only, and tested on held-out real rows.
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

from skdpsynth import MarginalSynthesizer, PrivacyBudget
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

    # Enough for the folds and one more fit. With `path=` it would outlive this program.
    budget = PrivacyBudget(epsilon=N_FOLDS + 1, delta=1e-4)
    public = TableSchema({"income": Categorical(["<=50K", ">50K"])})
    synthesizer = MarginalSynthesizer(epsilon=1.0, schema=public, budget=budget)
    pipeline = make_pipeline(synthesizer, encoder(), LogisticRegression(max_iter=500))

    # Every row is assigned to a fold independently, in secret: with folds by position
    # or by class, adding a row would move others, which the charges would not cover.
    folds = PredefinedSplit(np.random.default_rng().integers(N_FOLDS, size=len(X)))
    scores = cross_val_score(
        pipeline,
        X,
        y,
        cv=folds,
        scoring="roc_auc",
        n_jobs=1 if QUICK else 2,
        error_score="raise",  # by default a refused fit gives NaN
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
