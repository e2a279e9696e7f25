"""The papers' tables at the papers' epsilons: what they state, and what comes out here.

Figures of the papers whose tables are at hand, beside the algorithm as published
without noise and under the accounting of this package, its default, the independent
baseline and real rows. Run ``python benchmarks/reproduction.py``; what
benchmarks/results/reproduction.csv has is skipped, and the tables of
docs/reproduction.md are written, alone with ``--render-only``.
"""

from __future__ import annotations

import argparse
import time
import traceback
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import images
import numpy as np
from _common import (
    REAL,
    RESULTS,
    SYNTHESIZERS,
    code_state,
    error_text,
    fit_and_sample,
    make_synthesizer,
    read_rows,
    run_missing,
)
from _reproduction_page import COLUMNS, PARTS, PUBLISHED, TITLES, key_of, write
from _tables import DATA, DELTA, PaperTable, real_rows
from _tables import TABLES as PAPER_TABLES

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator

CSV = RESULTS / "reproduction.csv"
PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
KEYS = ["table", "synthesizer", "epsilon", "seed"]
SCORES = ["auroc", "auprc", "auroc_4", "auprc_4", "auroc_lr", "auroc_mlp", "accuracy"]
COSTS = ["certified_epsilon", "steps", "fit_s", "peak_gb", "sample_s", "score_s"]
FIELDS = [*KEYS, *SCORES, *COSTS, "by_classifier", "error", "date", "code"]
SLOW_S = 600  # a fit that takes longer has one seed
Key = tuple[str, str, float, int]


def _images(
    data: Path, seed: int, *, name: str, labelled: float = 1.0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read images, and take the labels of some of the training rows away."""
    train, test = images.load(data / name)
    if labelled < 1:
        rng = np.random.default_rng(seed)
        labels = train["label"].astype("Int8")
        train["label"] = labels.mask(rng.random(len(train)) >= labelled)
    return train, test


def _image_table(name: str, labelled: float = 1.0) -> PaperTable:
    return PaperTable(
        epsilon=10.0,
        target="label",
        load=partial(_images, name=name, labelled=labelled),
        n_samples=images.N_SAMPLES,
        schema=images.SCHEMA,
    )


IMAGES = {
    "mnist-images": _image_table("mnist"),
    "fashion-images": _image_table("fashion-mnist"),
    "mnist-80": _image_table("mnist", 0.8),
    "fashion-80": _image_table("fashion-mnist", 0.8),
}
TABLES = {name: (PAPER_TABLES | IMAGES)[name] for name in TITLES}


def four_classifiers() -> dict[str, BaseEstimator]:
    """Make the four of the G-PATE paper with the settings of its appendix E."""
    from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    l1 = {"l1_ratio": 1.0, "solver": "liblinear"}
    plain = LogisticRegression()
    return {
        "LogisticRegression": LogisticRegression(class_weight={0: 1, 1: 350}, **l1),
        "AdaBoostClassifier": AdaBoostClassifier(plain, n_estimators=200),
        "BaggingClassifier": BaggingClassifier(plain, n_estimators=100),
        "MLPClassifier": MLPClassifier((18, 18, 18), activation="tanh"),
    }


def score(
    name: str, rows: pd.DataFrame, test: pd.DataFrame, seed: int
) -> dict[str, object]:
    """Score rows as the papers that have the table do."""
    from skdpsynth.metrics import tstr_scores

    if name in IMAGES:
        return {"accuracy": images.accuracy(rows, test, seed)}
    table = TABLES[name]
    panel = None if table.panel is None else table.panel()
    scores = tstr_scores(rows, test, target=table.target, classifiers=panel)
    found: dict[str, object] = dict(scores.loc["mean"])
    found["by_classifier"] = " ".join(
        f"{label}={pair.auroc:.4f}/{pair.auprc:.4f}"
        for label, pair in scores.drop(index="mean").iterrows()
    )
    if name == "mnist":
        found["auroc_lr"] = scores.loc["LogisticRegression", "auroc"]
        found["auroc_mlp"] = scores.loc["MLPClassifier", "auroc"]
    if name == "kaggle":
        four = four_classifiers()
        for model in four.values():
            model.set_params(random_state=seed)
        scores = tstr_scores(rows, test, target=table.target, classifiers=four)
        found["auroc_4"], found["auprc_4"] = scores.loc["mean"]
    return found


def run(key: Key, *, data: Path) -> dict[str, object]:
    """Do one run; what fails gives a row with its error.

    Parameters
    ----------
    key : tuple of (str, str, float, int)
        Table, synthesizer (with `PUBLISHED` behind its name for the paper's networks,
        or "real data"), epsilon and seed.
    data : Path
        Folder of the tables.

    Returns
    -------
    dict
        One row of the file of results.
    """
    name, synthesizer, epsilon, seed = key
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    try:
        table = TABLES[name]
        train, test = table.load(data, seed)
        if synthesizer == REAL:
            rows = real_rows(table, train, seed)
        else:
            plain = synthesizer.removesuffix(PUBLISHED)
            published = plain != synthesizer
            pixels = published and (name in IMAGES or name == "mnist")
            model = make_synthesizer(
                plain,
                published=published,
                **(images.published(plain, epsilon) if pixels else {}),
                epsilon=epsilon,
                delta=DELTA,
                target=table.target,
                schema=table.schema,
                random_state=seed,
            )
            counts = table.class_counts
            rows, costs = fit_and_sample(model, train, table.n_samples, counts)
            row |= costs | {"certified_epsilon": model.epsilon_}
            row["steps"] = int(np.max(getattr(model, "n_iter_", 0)))
        del train
        start = time.perf_counter()
        row |= score(name, rows, test, seed)
        row["score_s"] = time.perf_counter() - start
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    row["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return row


def wanted(options: argparse.Namespace, seed: int, done: pd.DataFrame) -> list[Key]:
    """List the runs of a seed; those that failed or were slow have the first alone."""
    lines = [
        line
        for line in chain.from_iterable(PARTS.values())
        if line.table in options.tables and line.synthesizer in options.synthesizers
    ]
    keys = [key_of(line, column) for column in options.columns for line in lines]
    bad = done[(done["fit_s"] > SLOW_S) | done["error"].notna()]
    once = set(bad[KEYS[:-1]].itertuples(index=False, name=None)) if seed else set()
    return [(*key, seed) for key in dict.fromkeys(keys) if key not in once]


def main() -> None:
    """Run what is missing, and write the tables of the page."""
    options = _options()
    if not options.render_only:
        task = partial(run, data=options.data)
        for seed in range(options.seeds):
            keys = wanted(options, seed, read_rows(options.csv, FIELDS))
            run_missing(task, keys, options.csv, KEYS, FIELDS, options.jobs)
    write(options.page, read_rows(options.csv, FIELDS))
    print(f"wrote {options.page}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [name for name in SYNTHESIZERS if name in PARTS]
    add("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    add("--synthesizers", nargs="+", choices=names, default=names)
    add("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=1, help="runs at the same time")
    add("--render-only", action="store_true", help="only write the page")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=CSV, help="file of results")
    add("--page", type=Path, default=PAGE, help="page with the tables")
    return parser.parse_args()


if __name__ == "__main__":
    main()
