"""All steps on a real table: fit G-PATE to Adult, sample, score, plot.

Run ``make demo``. It prints the privacy report and the scores of twelve classifiers,
and writes a synthetic table and a picture to examples/output.
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

from skdpsynth import GPATESynthesizer, IndependentSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.metrics import tstr_scores

if TYPE_CHECKING:
    from skdpsynth.base import BaseSynthesizer

TARGET = "income"
N_ROWS = 5_000
OUTPUT = Path(__file__).parent / "output"


def main() -> None:
    """Fit, sample, report, score and draw."""
    start = time.perf_counter()
    train, test = load_adult(split=True)
    print(f"Adult: {len(train):,} private rows, {train.shape[1]} columns\n")

    print("G-PATE, epsilon = 1, delta = 1e-5, no schema: all metadata is measured")
    synthesizer = GPATESynthesizer(
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
        "G-PATE": fake,
        "independent": fitted(baseline, train).sample(N_ROWS),
        "real rows": train.sample(N_ROWS, random_state=0),
    }
    print(f"\nTrained on {N_ROWS:,} rows, tested on {len(test):,} real ones:\n")
    scores = {
        name: tstr_scores(table, test, target=TARGET, n_jobs=2)
        for name, table in tables.items()
    }
    with pd.option_context("display.width", 120):
        print(pd.concat(scores, axis=1).round(3).to_string())
    print("(Scores are computed from real rows: they are private statistics.)\n")

    OUTPUT.mkdir(exist_ok=True)
    fake.to_csv(OUTPUT / "adult_synthetic.csv", index=False)
    draw_figure(train, fake, TARGET, OUTPUT / "adult.png")
    for name in ("adult_synthetic.csv", "adult.png"):
        print(f"wrote examples/output/{name}")
    print(f"done in {time.perf_counter() - start:.0f} s")


def fitted(synthesizer: BaseSynthesizer, train: pd.DataFrame) -> BaseSynthesizer:
    """Fit and say how long it took."""
    start = time.perf_counter()
    synthesizer.fit(train)
    print(f"fit in {time.perf_counter() - start:.1f} s")
    return synthesizer


if __name__ == "__main__":
    main()
