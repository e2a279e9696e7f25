"""What the columns of a synthetic table know of each other, beside real rows.

Run ``python benchmarks/dependence.py``; what is in benchmarks/results is skipped.
"""

from __future__ import annotations

import argparse
import math
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from _common import (
    DELTA,
    EPSILON,
    FLOOR,
    REAL,
    RESULTS,
    SYNTHESIZERS,
    code_state,
    error_text,
    fit_and_sample,
    make_synthesizer,
    mean_and_spread,
    print_columns,
    print_states,
    run_missing,
    split_rows,
)

from skdpsynth.datasets import load_adult
from skdpsynth.schema import Categorical, Continuous, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from skdpsynth.base import BaseSynthesizer

DATA = Path(__file__).parents[2] / "shared" / "data"
KEYS = ["part", "table", "synthesizer", "epsilon", "seed"]
JOINT = ["tv1", "tv2", "tv3", "c2st"]
LEARNT = {"target": ["auroc", "auprc"], "no target": ["spearman", "r2"]}
SCORES = [*JOINT, *LEARNT["target"], *LEARNT["no target"]]
COSTS = ["certified_epsilon", "fit_s", "peak_gb", "sample_s"]
COLUMNS = [*KEYS, *SCORES, *COSTS, "error", "code"]
Key = tuple[str, str, str, float, int]

NOT_PRIVATE = ("GAN", REAL)
_ADULT_BOUNDS = {
    "age": Continuous(17, 90, integer=True),
    "fnlwgt": Continuous(0, 1_500_000, integer=True),
    "education-num": Continuous(1, 16, integer=True),
    "capital-gain": Continuous(0, 99_999, integer=True),
    "capital-loss": Continuous(0, 5_000, integer=True),
    "hours-per-week": Continuous(1, 99, integer=True),
}
_DIAMOND_BOUNDS = {
    "carat": Continuous(0, 6),
    "depth": Continuous(40, 80),
    "table": Continuous(40, 100),
    "price": Continuous(0, 20_000, integer=True),
    "x": Continuous(0, 60),
    "y": Continuous(0, 60),
    "z": Continuous(0, 60),
}


@dataclass(frozen=True)
class Table:
    """A table, what is public of it, and what is learnt from its columns.

    Parameters
    ----------
    load : callable
        Map from the folder of the data to the train and the test part.
    bounds : dict of str to Continuous
        The columns of numbers.
    target : str or None
        What the synthesizers take for the label.
    pos_label : str or None
        The label that is predicted against all others.
    """

    load: Callable[[Path], tuple[pd.DataFrame, pd.DataFrame]]
    bounds: dict[str, Continuous]
    target: str | None
    pos_label: str | None = None

    def schema(self, parts: tuple[pd.DataFrame, pd.DataFrame]) -> TableSchema:
        """Declare bounds and levels.

        The levels are printed on the publisher's page of the table. Here they are read
        off both parts, which has the same result and is shorter.
        """
        whole = pd.concat(parts)
        levels = {
            name: Categorical(
                sorted(whole[name].dropna().unique()),
                nullable=bool(whole[name].isna().any()),
            )
            for name in whole.columns
            if name not in self.bounds
        }
        return TableSchema(self.bounds | levels, target=self.target)


def _adult(data: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return load_adult(split=True)


def _diamonds(data: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return split_rows(pd.read_parquet(data / "diamonds.parquet"), "cut", seed=0)


TABLES = {
    "adult": Table(_adult, _ADULT_BOUNDS, "income"),
    "diamonds": Table(_diamonds, _DIAMOND_BOUNDS, "cut", pos_label="Ideal"),
    "diamonds, no target": Table(_diamonds, _DIAMOND_BOUNDS, None),
}


def run(key: Key, *, data: Path) -> dict[str, object]:
    """Do one run; what fails gives a row with its error.

    Parameters
    ----------
    key : tuple of (str, str, str, float, int)
        Part ("test" or "validation"), table, synthesizer, epsilon and seed.
    data : Path
        Folder of the tables.

    Returns
    -------
    dict
        One row of the file of results.
    """
    part, name, synthesizer, epsilon, seed = key
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    try:
        table = TABLES[name]
        parts = table.load(data)
        schema = table.schema(parts)
        train, test = parts
        if part == "validation":
            train, test = split_rows(train, table.target or "cut", seed=1)
        rows = train
        if synthesizer != REAL:
            model = make(synthesizer, epsilon, table.target, schema, seed)
            rows, costs = fit_and_sample(model, train, len(train), None)
            row |= costs
            row["certified_epsilon"] = getattr(model, "epsilon_", math.inf)
        row |= measure(table, rows, test)
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    return row


def make(
    name: str, epsilon: float, target: str | None, schema: TableSchema, seed: int
) -> BaseSynthesizer:
    """Make a synthesizer; the one that is not private has no budget to be told."""
    return make_synthesizer(
        name,
        epsilon=epsilon,
        delta=DELTA,
        target=target,
        schema=schema,
        random_state=seed,
    )


def measure(table: Table, rows: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Score rows beside real test rows."""
    found = joint_scores(test, rows)
    if table.target is None:
        found["spearman"] = float(rows["carat"].corr(rows["x"], method="spearman"))
        found["r2"] = explained_share(rows, test, "price")
    else:
        found |= learnt_scores(table, rows, test)
    return found


def joint_scores(test: pd.DataFrame, rows: pd.DataFrame) -> dict[str, float]:
    """Compute the distances of one to three columns, and of the whole row."""
    from skdpsynth.metrics import marginal_fidelity

    found = {f"tv{k}": marginal_fidelity(test, rows, k=k).mean() for k in (1, 2, 3)}
    found["c2st"] = two_sample_area(test, rows)
    return {name: float(value) for name, value in found.items()}


def learnt_scores(
    table: Table, rows: pd.DataFrame, test: pd.DataFrame
) -> dict[str, float]:
    """Score boosting that learns the target from rows."""
    from skdpsynth.metrics import tstr_scores

    scores = tstr_scores(
        rows,
        test,
        target=table.target,
        classifiers="HistGradientBoosting",
        pos_label=table.pos_label,
    )
    return {name: float(scores.loc["mean", name]) for name in ("auroc", "auprc")}


def two_sample_area(test: pd.DataFrame, rows: pd.DataFrame) -> float:
    """Compute how well boosting separates as many real rows from synthetic ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    from skdpsynth.metrics import shuffled

    n_rows = min(len(test), len(rows))
    tables = shuffled(test, "real"), shuffled(rows, "synthetic")
    X = pd.concat(_for_trees(*(table.head(n_rows) for table in tables)))
    y = np.repeat([0, 1], n_rows)
    folds = StratifiedKFold(3)  # of rows that are shuffled already
    model = HistGradientBoostingClassifier(random_state=0)
    return float(cross_val_score(model, X, y, scoring="roc_auc", cv=folds).mean())


def explained_share(rows: pd.DataFrame, test: pd.DataFrame, of: str) -> float:
    """Compute the R^2 on real rows of a column that is learnt from synthetic ones."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0)
    X, X_test = _for_trees(rows.drop(columns=of), test.drop(columns=of))
    return float(model.fit(X, rows[of]).score(X_test, test[of]))


def _for_trees(*tables: pd.DataFrame) -> list[pd.DataFrame]:
    """Give all tables one set of categories: boosting splits these natively."""
    both = pd.concat(tables, keys=range(len(tables)))
    texts = both.select_dtypes(exclude="number").columns
    both = both.astype(dict.fromkeys(texts, "category"))
    return [both.loc[number] for number in range(len(tables))]


def print_summary(rows: pd.DataFrame, part: str, epsilon: float) -> None:
    """Print mean and standard deviation over the seeds, by table."""
    print(f"\n{part} part, epsilon {epsilon:g}, delta {DELTA:g}, bounds and levels")
    print("declared; mean +- standard deviation over the seeds")
    for name, of_table in rows.groupby("table", sort=False):
        target = TABLES[name].target
        learnt = LEARNT["no target" if target is None else "target"]
        lines = [(name, "seeds", *JOINT, *learnt, "fit s")]
        for synthesizer, group in of_table.groupby("synthesizer", sort=False):
            scores = [mean_and_spread(group[score]) for score in [*JOINT, *learnt]]
            seconds = "-" if synthesizer == REAL else f"{group['fit_s'].mean():.1f}"
            lines.append((synthesizer, str(len(group)), *scores, seconds))
        print()
        print_columns(lines)
        for error in of_table["error"].dropna().unique():
            print(f"failed: {error}")
    print_states(rows)


def main() -> None:
    """Run what is not in the file of results yet, and print the summary."""
    options = _options()
    if options.fresh:
        options.csv.unlink(missing_ok=True)
    part = "validation" if options.validation else "test"
    wanted = [
        (part, table, name, math.inf if name in NOT_PRIVATE else options.epsilon, seed)
        for seed in range(options.seeds)
        for table in options.tables
        for name in options.synthesizers
        if seed == 0 or name != REAL  # all real rows, which no seed changes
    ]
    task = partial(run, data=options.data)
    rows = run_missing(task, wanted, options.csv, KEYS, COLUMNS, options.jobs)
    print_summary(rows, part, options.epsilon)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [REAL, *SYNTHESIZERS]
    add("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    add("--synthesizers", nargs="+", choices=names, default=[REAL, FLOOR, "marginals"])
    add("--epsilon", type=float, default=EPSILON, help="total budget")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--fresh", action="store_true", help="forget the results in the file")
    add("--validation", action="store_true", help="score on a split of the train part")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "dependence.csv", help="file of results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
