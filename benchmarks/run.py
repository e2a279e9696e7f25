"""Run a benchmark: fit the tables of a configuration, and score the synthetic rows.

``python benchmarks/run.py NAME`` does the runs of `configs.py` that the file
benchmarks/results/NAME.csv has not yet, and prints a summary in Markdown. Tune with
``--validation``, which scores on a part of the training rows; figures are published
from test rows, which must not influence a choice. ``--quick`` is to see that it works:
few rows, one seed, and a file of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import tempfile
import time
import traceback
import warnings
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _common import (
    DATA,
    DELTA,
    REAL,
    RESULTS,
    SYNTHESIZERS,
    code_state,
    fit_and_sample,
    make_synthesizer,
    mean_and_spread,
    print_columns,
    print_states,
    read_rows,
    run_missing,
)
from configs import CONFIGS, PUBLISHED, STATED, Config, columns_of

from skdpsynth.exceptions import DegradedResultWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

KEYS = ["part", "table", "synthesizer", "epsilon", "seed"]
COSTS = ["certified_epsilon", "steps", "fit_s", "peak_gb", "sample_s", "score_s"]
TEXTS = ["worst_column", "by_classifier", "warning", "error", "date", "code"]
NOT_PRIVATE = ("GAN", REAL)
SLOW_S = 600  # what takes longer to fit, or fails, has one seed
Key = tuple[str, str, str, float, int]


def run(key: Key, *, name: str, data: Path, quick: bool) -> dict[str, object]:
    """Do one run of a configuration; what fails gives a row with its error."""
    part, table_name, synthesizer, epsilon, seed = key
    config = CONFIGS[name]
    table = config.tables[table_name]
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    row["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    try:
        train, test = table.load(data, seed)
        schema = table.declared(train, test)
        if part == "validation":
            train, test = table.validation(train)
        n_samples, counts = table.n_samples or len(train), table.class_counts
        if quick:
            train, test = table.few(train), table.few(test)
            n_samples, counts = len(train), None
        if synthesizer == REAL:
            rows = train if quick else table.real_rows(train, seed)
        else:
            model = make_synthesizer(
                synthesizer,
                epsilon=epsilon,
                delta=DELTA,
                target=table.target,
                schema=schema,
                random_state=seed,
                **config.given(table_name, synthesizer, epsilon),
                **({"n_iter": 2} if quick and synthesizer.endswith(PUBLISHED) else {}),
            )
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", DegradedResultWarning)
                rows, costs = fit_and_sample(model, train, n_samples, counts)
            row["warning"] = " ".join(str(w.message)[:200] for w in said)
            row |= costs | {"certified_epsilon": getattr(model, "epsilon_", math.inf)}
            row["steps"] = int(np.max(getattr(model, "n_iter_", 0)))
        start = time.perf_counter()
        row |= config.score(table, rows, (train, test), seed)
        row["score_s"] = time.perf_counter() - start
    except Exception as error:
        traceback.print_exc()
        row["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return row


def wanted(config: Config, options: argparse.Namespace) -> list[Key]:
    """List the runs: all combinations, or those of the configuration that are asked."""
    part = "validation" if options.validation else config.part
    choices = [
        (table, name, math.inf if name in NOT_PRIVATE else epsilon)
        for table in options.tables
        for epsilon in options.epsilon
        for name in options.synthesizers
    ]
    if config.only:
        choices = [choice for choice in config.only if choice in set(choices)]
    # All real rows of these, which no seed changes.
    whole = {
        k for k, table in config.tables.items() if table.fixed and not table.n_samples
    }
    return [
        (part, *choice, seed)
        for seed in range(options.seeds)
        for choice in dict.fromkeys(choices)
        if not (seed and choice[1] == REAL and choice[0] in whole)
    ]


def summary(config: Config, rows: pd.DataFrame) -> Iterator[list[str]]:
    """Write means and standard deviations over the seeds, a line for each choice."""
    scores = [score for score in config.scores if rows[score].notna().any()]
    yield [*KEYS[1:4], "seeds", *scores, *("steps", "certified", "fit s", "peak GB")]
    for (table, name, epsilon), own in rows.groupby(KEYS[1:4], sort=False):
        cells = [mean_and_spread(own[score]) for score in scores]
        if config.start not in ("", name):
            beside = (rows["table"] == table) & (rows["epsilon"] == epsilon)
            start = rows[beside & (rows["synthesizer"] == config.start)]
            cells = [difference(own[score], start[score]) for score in scores]
        costs = [(own["steps"].max(), ".0f"), (own["certified_epsilon"].max(), ".4g")]
        costs += [(own["fit_s"].mean(), ".0f"), (own["peak_gb"].max(), ".2f")]
        cells += ["-" if value != value else f"{value:{form}}" for value, form in costs]
        yield [table, name, f"{epsilon:g}", str(len(own)), *cells]


def difference(values: pd.Series, start: pd.Series) -> str:
    """Write a difference of means and its standard error, in bold from two errors on.

    A single run has no standard error.
    """
    found = values.mean() - start.mean()
    text = f"{found:+.3f}".replace("-", "\N{MINUS SIGN}")
    if min(len(values), len(start)) < 2:
        return text
    error = math.sqrt(values.var() / len(values) + start.var() / len(start))
    text = f"{text} ± {error:.3f}"
    return f"**{text}**" if abs(found) >= 2 * error else text


def beside_papers(rows: pd.DataFrame) -> Iterator[list[str]]:
    """Write the figures of the papers beside the runs, in brackets what they state."""
    runs = dict(list(rows.groupby(KEYS[1:4])))
    for line in STATED.itertuples():
        columns = columns_of(line)
        if line.Index == 0:
            yield [*STATED.columns[:5], *columns]
        cells = []
        for column, choice in columns.items():
            text = "not run"
            if choice in runs:
                text = mean_and_spread(runs[choice][line.score])
            stated = {"real rows": line.real, next(iter(columns)): line.without_noise}
            cells.append(f"{text} ({stated[column]})" if stated.get(column) else text)
        paper = f"{line.paper}, {line.where}" if line.paper else "-"
        yield [*map(str, line[1:5]), paper, *cells]


def main() -> None:
    """Run what is not in the file of results yet, and print the summary."""
    options = _options()
    config = CONFIGS[options.name]
    if options.fresh:
        options.csv.unlink(missing_ok=True)
    columns = [*KEYS, *config.scores, *COSTS, *TEXTS]
    task = partial(run, name=options.name, data=options.data, quick=options.quick)
    keys = wanted(config, options)
    for seed in range(options.seeds):
        done = read_rows(options.csv, columns)
        bad = done[(done["fit_s"] > SLOW_S) | done["error"].notna()]
        once = {*bad[KEYS[:-1]].itertuples(index=False, name=None)} if seed else set()
        own = [key for key in keys if key[-1] == seed and key[:-1] not in once]
        run_missing(task, own, options.csv, KEYS, columns, options.jobs)
    done = read_rows(options.csv, columns)
    mask = [key in set(keys) for key in done[KEYS].itertuples(index=False, name=None)]
    rows = done[mask]
    print(f"\nDelta {DELTA:g}; means ± standard deviations over the seeds\n")
    print_columns([*summary(config, rows[rows["error"].isna()])])
    if options.name == "reproduction":
        print()
        print_columns([*beside_papers(rows[rows["error"].isna()])])
    for error in rows["error"].dropna().unique():
        print(f"failed: {error}")
    print_states(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("name", choices=CONFIGS, help="of the configuration, and of the file")
    known = [REAL, *SYNTHESIZERS, *(name + PUBLISHED for name in SYNTHESIZERS)]
    add("--tables", nargs="+", help="some of its tables")
    add("--synthesizers", nargs="+", choices=known, help="others than its own")
    add("--epsilon", nargs="+", type=float, help="total budgets; inf: no noise")
    add("--seeds", type=int, help="number of seeds")
    add("--jobs", type=int, help="runs at the same time; 0: in this process")
    add("--validation", action="store_true", help="score on a split of the train part")
    add("--fresh", action="store_true", help="forget the results in the file")
    add("--quick", action="store_true", help="few rows, one seed, in this process")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, help="file of results")
    options = parser.parse_args()
    config, quick = CONFIGS[options.name], options.quick
    # Tables that need a module which is not installed are left out.
    absent = {
        name: table.needs
        for name, table in config.tables.items()
        if table.needs and importlib.util.find_spec(table.needs) is None
    }
    asked = options.tables or [*config.tables]
    for name in {*asked} - {*config.tables}:
        parser.error(f"no table {name!r}; there are {', '.join(config.tables)}")
    for name in asked:
        if name in absent:
            print(
                f"Left out: {name}. Install its module by `pip install {absent[name]}`."
            )
    options.tables = [name for name in asked if name not in absent]
    options.synthesizers = options.synthesizers or config.synthesizers
    options.epsilon = options.epsilon or config.epsilons
    options.seeds = options.seeds or (1 if quick else config.seeds)
    options.jobs = (0 if quick else 2) if options.jobs is None else options.jobs
    folder = Path(tempfile.gettempdir()) / "skdpsynth-quick" if quick else RESULTS
    options.csv = options.csv or folder / f"{options.name}.csv"
    return options


if __name__ == "__main__":
    main()
