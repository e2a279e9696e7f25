"""Lower bounds of epsilon on a worst-case pair of tables, for every synthesizer.

Run ``python benchmarks/audit.py``; what is in benchmarks/results/audit.csv is skipped.
Then it prints the table of docs/audit.md.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from _common import (
    DELTA,
    EPSILON,
    PUBLISHED,
    RESULTS,
    SYNTHESIZERS,
    make_synthesizer,
    print_columns,
    run_missing,
)

import skdpsynth
from skdpsynth.audit import GeneratorAudit, audit_generator
from skdpsynth.schema import Categorical, Continuous, TableSchema

if TYPE_CHECKING:
    from skdpsynth.base import BaseSynthesizer

N_RUNS, N_SAMPLES = 200, 300
N_RUNS_WITHOUT_NOISE = 80  # to see what the attack can do
FOUND = ["lower_bound", "mu_lower_bound", "gdp_lower_bound", "confidence", "power"]
FOUND += ["false_alarms", "misses", "score"]
COLUMNS = ["synthesizer", "runs", "claim", "delta", *FOUND[:-1], "judged", "score"]
COLUMNS += ["without_noise", "seconds", "date", "version"]


def _schema(columns: str, n_rows: int, **others: Categorical) -> TableSchema:
    column = Continuous(-10, 10, scale="linear", decimals="any")
    return TableSchema({**dict.fromkeys(columns, column), **others}, n_rows=n_rows)


# Two rows in one corner of the domain, and the canary in the opposite one.
TABLE = pd.DataFrame({"a": [-8.2, -8.9], "b": [-8.5, -8.1], "c": [-8.7, -8.4]})
CANARY = dict.fromkeys("abc", 9.5)
# Rows are counted in each class, so tables are measured only where there are rows.
UNLABELLED = "PATE-TripleGAN, rows without a label"
MIXED = pd.concat([TABLE[["a", "b"]]] * 500, ignore_index=True)
MIXED["y"] = [("p", "q", None, None)[i % 4] for i in range(len(MIXED))]
_LABEL = Categorical(["p", "q"], nullable=True)

# Measured are 2 columns of so many declared rows, and loops run by default: from 600.
_DEFAULT = {"schema": _schema("ab", 700)}
# `as_published` but for one teacher and fewer and smaller steps.
_PAPER = {"n_iter": 10, "batch_size": 1, "hidden_dims": ((16,), (16,))}
_VOTES = {**_PAPER, "n_teachers": 1, "n_iter": 3, "batch_size": 8, "n_student_steps": 5}
# What is before a comma is a name of `SYNTHESIZERS`, or it is "marginals". Declared are
# more rows than there are: by them it is decided what is measured.
CASES: dict[str, dict[str, Any]] = {
    "independent": {},
    "second moments": {"schema": _schema("ab", 300)},
    "table of 2 columns": {"schema": _schema("ab", 3000)},
    "table of 3 columns": {"schema": _schema("abc", 3000)},
    UNLABELLED: {"schema": _schema("ab", len(MIXED), y=_LABEL), "target": "y"},
    "G-PATE": _DEFAULT,
    "G-PATE, networks": {**_PAPER, "n_teachers": 1, "batch_size": 4},
    "PATE-GAN": _DEFAULT,
    "PATE-GAN, Laplace": {**_DEFAULT, "noise": "laplace"},
    "PATE-GAN, networks": _VOTES,
    "DP-CGAN": _DEFAULT,
    "DP-CGAN, sampled": {**_DEFAULT, "batch_size": 1},
    "DP-CGAN, networks": {**_PAPER, "n_iter": 100},
    "DPGAN": _DEFAULT,
    "DPGAN, networks": _PAPER,
    "PATE-TripleGAN": _DEFAULT,
    "PATE-TripleGAN, DP-SGD": {**_DEFAULT, "desensitization": "dpsgd"},
    "PATE-TripleGAN, networks": _VOTES,
}


def synthesizer(name: str, epsilon: float = EPSILON) -> BaseSynthesizer:
    """Make the unfitted synthesizer of a case."""
    plain, _, variant = name.partition(", ")
    kind = plain if plain in SYNTHESIZERS else "marginals"
    given = {"epsilon": epsilon, "delta": DELTA, "schema": _schema("ab", 2)}
    given |= {"random_state": 0, **CASES[name]}
    return make_synthesizer(kind + PUBLISHED * (variant == "networks"), **given)


def audit(name: str, n_runs: int, epsilon: float = EPSILON) -> GeneratorAudit:
    """Audit one case."""
    made = synthesizer(name, epsilon)
    columns = list(made.schema.columns)
    table = MIXED if name == UNLABELLED else TABLE
    return audit_generator(
        made,
        table[columns],
        {column: CANARY.get(column) for column in columns},
        epsilon=EPSILON,  # the claim, also where there is no noise
        n_runs=n_runs,
        n_samples=max(N_SAMPLES, 5 * len(table)),  # some of the canary's cell
    )


def run(key: tuple[str], n_runs: int) -> dict[str, object]:
    """Put the result of a case, and that of the same fit without noise, into a row."""
    start = time.perf_counter()
    found = audit(key[0], n_runs)
    seconds = time.perf_counter() - start
    silent = audit(key[0], N_RUNS_WITHOUT_NOISE, float("inf"))
    row: dict[str, object] = {name: getattr(found, name) for name in FOUND}
    row |= {"synthesizer": key[0], "runs": 2 * n_runs, "judged": found.n_judged}
    row |= {"claim": found.claim, "delta": found.delta, "seconds": seconds}
    row["date"] = f"{pd.Timestamp.now('UTC'):%Y-%m-%d}"
    return row | {"without_noise": silent.lower_bound, "version": skdpsynth.__version__}


def main() -> None:
    """Run what is not in the file of results yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="start anew")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--runs", type=int, default=N_RUNS, help="fits with the canary")
    parser.add_argument("--csv", type=Path, default=RESULTS / "audit.csv")
    options = parser.parse_args()
    if options.fresh:
        options.csv.unlink(missing_ok=True)
    wanted = [(name,) for name in options.only]
    task = partial(run, n_runs=options.runs)
    done = run_missing(task, wanted, options.csv, COLUMNS[:1], COLUMNS, jobs=1)
    shown = ["synthesizer", "claim", "lower_bound", "mu_lower_bound", "power"]
    shown += ["false_alarms", "misses", "judged", "without_noise", "seconds"]
    cells = done[shown].map(lambda v: v if isinstance(v, str) else f"{v:.4g}")
    print_columns([[name.replace("_", " ") for name in shown], *cells.to_numpy()])


if __name__ == "__main__":
    main()
