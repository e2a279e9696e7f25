"""All steps on a real table: fit to Adult, sample, score, plot.

Run ``make demo``. It prints the privacy report and scores, and writes a synthetic
table, its model card and a picture to examples/output.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

# Before any library reads it: two processes of one thread each score fastest.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pandas as pd
from _figure import draw_figure
from sklearn.ensemble import HistGradientBoostingClassifier

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.metrics import (
    default_classifiers,
    marginal_fidelity,
    tstr_scores,
    two_sample_scores,
)

if TYPE_CHECKING:
    from skdpsynth.base import BaseSynthesizer

TARGET, BOOSTING = "income", "HistGradientBoosting"
N_ROWS = 5_000
OUTPUT = Path(__file__).parent / "output"


def main() -> None:
    """Fit, sample, report, score and draw."""
    start = time.perf_counter()
    train, test = load_adult(split=True)
    print(f"Adult: {len(train):,} private rows, {train.shape[1]} columns\n")

    print("Marginals, epsilon = 1, delta = 1e-5, no schema: all metadata is measured")
    synthesizer = MarginalSynthesizer(
        epsilon=1.0, delta=1e-5, target=TARGET, random_state=0
    )
    fake = fitted(synthesizer, train).sample(N_ROWS)
    print(f"\n{synthesizer.privacy_report()}\n")

    # A second fit costs (1, 1e-5) once more. It is here to compare, not to publish.
    baseline = IndependentSynthesizer(
        epsilon=1.0, delta=1e-5, target=TARGET, random_state=0
    )
    print("The independent baseline: noisy marginals per class, at the same epsilon")
    tables = {
        "marginals": fake,
        "independent": fitted(baseline, train).sample(N_ROWS),
        "real rows": train.sample(N_ROWS, random_state=0),
    }
    print(f"\nThree tables of {N_ROWS:,} rows beside {len(test):,} other real ones:\n")
    panel = {name: scored(table, test) for name, table in tables.items()}
    headline = {
        name: {
            "boosting auroc": panel[name].loc[BOOSTING, "auroc"],
            "boosting auprc": panel[name].loc[BOOSTING, "auprc"],
            "2-way distance": marginal_fidelity(test, table).mean(),
            "C2ST": separation(test, table),
        }
        for name, table in tables.items()
    }
    print(pd.DataFrame(headline).T.round(3).to_string())
    print(
        "\nBoosting learns from a table and is tested on real rows (1 is best). 2-way"
        "\ndistance: of the shares of pairs of values (0 is best). C2ST: how well a"
        "\nclassifier separates a table from real rows (0.5 is best).\n"
    )
    print("All classifiers of the PATE-GAN paper, and their median:\n")
    with pd.option_context("display.width", 120):
        print(pd.concat(panel, axis=1).round(3).to_string())
    print(
        "\nTheir mean is that of the papers. One that fails moves it, as GaussianNB"
        "\ndoes on real rows, whose columns depend on each other; but not the median."
        "\n(Scores are computed from real rows: they are private statistics.)\n"
    )

    OUTPUT.mkdir(exist_ok=True)
    fake.to_csv(OUTPUT / "adult_synthetic.csv", index=False)
    draw_figure(train, fake, TARGET, OUTPUT / "adult.png")
    synthesizer.model_card().to_html(OUTPUT / "adult_card.html")
    for name in ("adult_synthetic.csv", "adult_card.html", "adult.png"):
        print(f"wrote examples/output/{name}")
    print(f"done in {time.perf_counter() - start:.0f} s")


def scored(table: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Train all classifiers on a table, test them on real rows; add their median."""
    twelve = list(default_classifiers())
    scores = tstr_scores(
        table, test, target=TARGET, classifiers=[*twelve, BOOSTING], n_jobs=2
    )
    scores.loc["median"] = scores.loc[twelve].median()
    return scores


def separation(test: pd.DataFrame, table: pd.DataFrame) -> float:
    """Compute how well boosting separates a table from real rows."""
    judge = {BOOSTING: HistGradientBoostingClassifier(random_state=0)}
    return float(two_sample_scores(test, table, classifiers=judge).iloc[0])


def fitted(synthesizer: BaseSynthesizer, train: pd.DataFrame) -> BaseSynthesizer:
    """Fit and say how long it took."""
    start = time.perf_counter()
    synthesizer.fit(train)
    print(f"fit in {time.perf_counter() - start:.1f} s")
    return synthesizer


if __name__ == "__main__":
    main()
