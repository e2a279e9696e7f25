"""Rows without a label: a fit that has them, beside one of the labelled rows alone.

Run ``python benchmarks/unlabelled.py``; what is in benchmarks/results is skipped. Both
fits have the same labelled rows, and the same noise in releases of the same name.
"""

from __future__ import annotations

import argparse
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from _common import RESULTS, code_state, fit_and_sample, run_missing, split_rows
from _tables import DATA, DELTA, TABLES, PaperTable

from skdpsynth.schema import Categorical, TableSchema

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from skdpsynth.privacy.testing import Release

KEYS = ["part", "table", "labelled", "rows", "seed"]
SCORES = ["auroc", "auprc", "distance"]
COLUMNS = [*KEYS, *SCORES, "by_classifier", "fit_s", "code"]
SHARES = (0.1, 0.3)
LABELS = {"Class": [0, 1], "income": ["<=50K", ">50K"], "class": [1, 2, 3]}
NAMES = ("kaggle", "adult", "thyroid")


def main() -> None:
    """Run what is missing, and print the differences."""
    options = _options()
    part = "validation" if options.validation else "test"
    wanted = [
        (part, table, share, rows, seed)
        for seed in range(options.seeds)
        for table in options.tables
        for share in options.shares
        for rows in options.rows
    ]
    task = partial(run, data=options.data)
    rows = run_missing(task, wanted, options.csv, KEYS, COLUMNS, options.jobs)
    print_differences(rows)


def run(key: tuple[str, str, float, str, int], *, data: Path) -> dict[str, object]:
    """Fit, sample and score once.

    Parameters
    ----------
    key : tuple of (str, str, float, str, int)
        Part ("test" or "validation"), table, share of the labels that are kept, rows
        of the fit ("all" or "labelled"), and seed.
    data : Path
        Folder of the tables.

    Returns
    -------
    dict
        One row of the file of results.
    """
    from skdpsynth import PATETripleGANSynthesizer
    from skdpsynth.metrics import tstr_scores
    from skdpsynth.privacy.testing import insecure_randomness, observe_releases

    part, name, share, kind, seed = key
    table = TABLES[name]
    train, test = table.load(data, 0)
    if part == "validation":
        train, test = split_rows(train, table.target, seed=1)
    train = with_labels(train, table.target, share, seed)
    if kind == "labelled":
        train = train.dropna(subset=table.target)
    model = PATETripleGANSynthesizer(
        epsilon=table.epsilon,
        delta=DELTA,
        target=table.target,
        schema=with_declared_labels(table),
        random_state=seed,
    )
    with insecure_randomness(seed), observe_releases(partial(same_noise, seed)):
        drawn, costs = fit_and_sample(model, train, table.n_samples, table.class_counts)
    scores = tstr_scores(drawn, test, target=table.target, classifiers=panel())
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    row["auroc"], row["auprc"] = map(float, scores.loc["mean"])
    row["distance"] = distance_of_classes(test, drawn, table.target)
    row["by_classifier"] = " ".join(
        f"{name}={pair.auroc:.4f}/{pair.auprc:.4f}"
        for name, pair in scores.drop(index="mean").iterrows()
    )
    return row | {"fit_s": costs["fit_s"]}


def distance_of_classes(test: pd.DataFrame, drawn: pd.DataFrame, target: str) -> float:
    """Give the mean distance of pairs of features within a class, all classes alike."""
    from skdpsynth.metrics import marginal_fidelity

    found = []
    for label, real in test.groupby(target):
        both = (
            own.drop(columns=target) for own in (real, drawn[drawn[target] == label])
        )
        found.append(marginal_fidelity(*both, k=2).mean())
    return float(np.mean(found))


def with_declared_labels(table: PaperTable) -> TableSchema:
    """Declare which labels there are: of few rows with one, none would be found."""
    columns = {} if table.schema is None else dict(table.schema.columns)
    return TableSchema(columns | {table.target: Categorical(LABELS[table.target])})


def with_labels(
    table: pd.DataFrame, target: str, share: float, seed: int
) -> pd.DataFrame:
    """Take labels away, completely at random; the dtype can then be missing."""
    rng = np.random.default_rng(seed)
    labels = table[target]
    if pd.api.types.is_integer_dtype(labels):
        labels = labels.astype("Int8")
    return table.assign(**{target: labels.mask(rng.random(len(table)) >= share)})


def same_noise(seed: int, release: Release) -> np.ndarray | None:
    """Give a release the noise that its name, its payer and its shape say."""
    line = release.reservation
    if release.exact.dtype != np.int64 or release.keys is not None:
        return None
    words = f"{line.name.split(',')[0]} {line.scope}"
    rng = np.random.default_rng([seed, zlib.crc32(words.encode())])
    noise = rng.normal(0.0, line.noise_std * release.unit, release.exact.shape)
    return release.exact + np.rint(noise).astype(np.int64)


def panel() -> list[BaseEstimator]:
    """Make four classifiers: a line, trees that average, and two kinds of boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from xgboost import XGBClassifier

    return [
        LogisticRegression(max_iter=1000, random_state=0),
        RandomForestClassifier(random_state=0),
        HistGradientBoostingClassifier(random_state=0),
        XGBClassifier(random_state=0, n_jobs=1),
    ]


def print_differences(rows: pd.DataFrame) -> None:
    """Print both fits, and their difference over the seeds, paired."""
    by = ["table", "labelled"]
    for cell, own in rows.groupby(by, sort=False):
        line = [f"{cell[0]:8} {cell[1]:.0%}"]
        for score in SCORES:
            pairs = own.pivot_table(index="seed", columns="rows", values=score)
            line += [f"{score}"]
            for kind in pairs:
                line.append(f"{kind} {with_error(pairs[kind])}")
            if {"all", "labelled"} <= set(pairs):
                gain = (pairs["all"] - pairs["labelled"]).dropna()
                line.append(f"difference {with_error(gain)}")
        print("  ".join(line))


def with_error(values: pd.Series) -> str:
    """Write the mean over the seeds, and its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} +- {error:.4f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seeds", type=int, default=5, help="number of seeds")
    add("--jobs", type=int, default=1, help="runs at the same time")
    add("--tables", nargs="+", choices=NAMES, default=NAMES)
    add("--shares", nargs="+", type=float, default=SHARES)
    add("--rows", nargs="+", choices=("all", "labelled"), default=("all", "labelled"))
    add("--validation", action="store_true", help="score on a split of the train part")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "unlabelled.csv")
    return parser.parse_args()


if __name__ == "__main__":
    main()
