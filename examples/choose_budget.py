"""How large an epsilon? First the plan, then a rehearsal on a public table.

Run ``python examples/choose_budget.py``; ``--quick`` takes fewer rows. Nothing is spent
on the private table. The rehearsal's plot is examples/output/choose_budget.png; its
footer warns of private statistics, since no plot can know that these rows are public.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library reads it

import pandas as pd

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.evaluation import compare_synthesizers
from skdpsynth.schema import Categorical, TableSchema

TARGET = "income"
# The labels are public. Undeclared, they would be measured, and rare ones missed.
PUBLIC = TableSchema({TARGET: Categorical(["<=50K", ">50K"])}, target=TARGET)
OUTPUT = Path(__file__).parent / "output"
QUICK = "--quick" in sys.argv
EPSILONS = (0.3, 3.0) if QUICK else (0.1, 0.3, 1.0, 3.0, 10.0)
CLASSIFIERS = ["LogisticRegression", "RandomForestClassifier"][: 1 if QUICK else 2]


def main() -> None:
    """Plan, rehearse, and draw."""
    # The test part of Adult stands for an older census, whose rows are public.
    private, public = load_adult(split=True)

    print(
        "What each epsilon allows on the private table, by dtypes and guessed counts:\n"
    )
    print(plans(private.dtypes, {"<=50K": 25_000, ">50K": 8_000}).to_string())

    n_rows = 2_000 if QUICK else len(public)
    public = public.sample(n_rows, random_state=0)
    half = n_rows // 2
    result = compare_synthesizers(
        [MarginalSynthesizer(schema=PUBLIC), IndependentSynthesizer(schema=PUBLIC)],
        public[:half],
        public[half:],
        TARGET,
        epsilons=EPSILONS,
        n_repeats=1 if QUICK else 3,
        n_samples=1_000 if QUICK else 10_000,
        n_jobs=1 if QUICK else 2,
        classifiers=CLASSIFIERS,
        fidelity=False,
    )
    print(f"\nThe rehearsal, on {half:,} public rows (more rows score better):\n")
    columns = ["synthesizer", "epsilon", "auroc", "auprc", "fit_s"]
    print(result.summary()[columns].round(3).to_string(index=False))

    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / "choose_budget.png"
    result.plot_tradeoff().figure.savefig(path, dpi=120)
    print(f"\nwrote {path.name}; the choice is yours, and depends on no private row")


def plans(dtypes: pd.Series, class_counts: dict[str, int]) -> pd.DataFrame:
    """Concatenate the plans of all epsilons; they read no row."""
    made = {}
    for epsilon in EPSILONS:
        synthesizer = MarginalSynthesizer(epsilon=epsilon, schema=PUBLIC)
        made[epsilon] = synthesizer.plan(dtypes=dtypes, class_counts=class_counts)
    columns = ["class", "rows", "tables", "dependence", "note"]
    return pd.concat(made, names=["epsilon"])[columns].droplevel(1).round(2)


if __name__ == "__main__":
    main()
