"""What the papers' networks learn without noise: `as_published`, epsilon infinite.

Adult: gradient boosting trained on synthetic rows and scored on real ones, and the
two-sample test (C2ST). MNIST, DP-CGAN: the share of generated digits that a network
trained on real ones reads as their label, and the accuracy on real digits of one that
was trained on generated ones. Scores are on the publisher's test rows, or with
``--validation`` on a split of the training rows. Run ``python
benchmarks/published.py``; what is in benchmarks/results/published.csv is skipped.
"""

from __future__ import annotations

import argparse
import math
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import images
from _common import (
    RESULTS,
    code_state,
    error_text,
    fit_and_sample,
    mean_and_spread,
    print_columns,
    print_states,
    run_missing,
    split_rows,
)
from dependence import DATA, TABLES, measure

import skdpsynth

if TYPE_CHECKING:
    import pandas as pd

KEYS = ["part", "table", "synthesizer", "seed"]
SCORES = ["auroc", "auprc", "c2st", "read", "accuracy"]
COLUMNS = [*KEYS, *SCORES, "rounds", "fit_s", "peak_gb", "sample_s", "error", "code"]
NAMES = {
    "adult": ("G-PATE", "PATE-GAN", "DP-CGAN", "PATE-TripleGAN"),
    "mnist": ("DP-CGAN",),
}
GIVEN = {"adult": {}, "mnist": images.published("DP-CGAN", math.inf)}
N_IMAGES = 30_000
Key = tuple[str, str, str, int]


def run(key: Key, *, data: Path) -> dict[str, object]:
    """Do one run; what fails gives a row with its error."""
    part, table, name, seed = key
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    try:
        kind = getattr(skdpsynth, f"{name.replace('-', '')}Synthesizer")
        given = {"epsilon": math.inf, "random_state": seed, **GIVEN[table]}
        if table == "adult":
            own = TABLES[table]
            parts = own.load(data)
            train, test = parts
            given |= {"schema": own.schema(parts), "target": own.target}
        else:
            train, test = images.load(data / table)
            given["schema"] = images.SCHEMA
        if part == "validation":
            train, test = split_rows(train, given["schema"].target, seed=1)
        model = kind.as_published(**given)
        n_rows = len(train) if table == "adult" else N_IMAGES
        rows, costs = fit_and_sample(model, train, n_rows, None)
        row |= costs | {"rounds": model.n_iter_}
        if table == "adult":
            found = measure(own, rows, test)
            row |= {score: found[score] for score in ("auroc", "auprc", "c2st")}
        else:
            row["read"] = images.accuracy(train, rows, seed)
            row["accuracy"] = images.accuracy(rows, test, seed)
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    return row


def print_summary(rows: pd.DataFrame) -> None:
    """Print mean and standard deviation over the seeds."""
    lines = [("part", "table", "synthesizer", "seeds", *SCORES, "rounds", "fit s")]
    for key, own in rows.groupby(KEYS[:-1], sort=False):
        scores = [
            mean_and_spread(own[score]) if own[score].notna().any() else "-"
            for score in SCORES
        ]
        costs = f"{own['rounds'].max():.0f}", f"{own['fit_s'].mean():.0f}"
        lines.append((*key, str(len(own)), *scores, *costs))
    print_columns(lines)
    for error in rows["error"].dropna().unique():
        print(f"failed: {error}")
    print_states(rows)


def main() -> None:
    """Run what is not in the file of results yet, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--tables", nargs="+", choices=NAMES, default=list(NAMES))
    add("--synthesizers", nargs="+", choices=NAMES["adult"], default=NAMES["adult"])
    add("--validation", action="store_true", help="score on a split of the train part")
    add("--seeds", type=int, default=1, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "published.csv", help="file of results")
    options = parser.parse_args()
    wanted = [
        ("validation" if options.validation else "test", table, name, seed)
        for seed in range(options.seeds)
        for table in options.tables
        for name in NAMES[table]
        if name in options.synthesizers
    ]
    task = partial(run, data=options.data)
    rows = run_missing(task, wanted, options.csv, KEYS, COLUMNS, options.jobs)
    print_summary(rows)


if __name__ == "__main__":
    main()
