"""What adversarial steps add to measurements, and what the papers' parameters do.

Two parts. Shares: `MarginalSynthesizer`, and the classes of the papers, which measure
the same and then train, for the same total budget. Votes: the parameters of G-PATE's
aggregator. What networks learn that start from nothing is measured by published.py.
All is scored on a split of the training rows. Run ``python benchmarks/training.py``;
what is in benchmarks/results is skipped. The tables of docs/training.md are written.
"""

from __future__ import annotations

import argparse
import math
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from _common import (
    DELTA,
    RESULTS,
    code_state,
    error_text,
    fit_and_sample,
    markdown_line,
    run_missing,
    split_rows,
    write_parts,
)
from _tables import TABLES as PAPER_TABLES
from dependence import DATA, Table, measure
from dependence import TABLES as DENSE

import skdpsynth

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
KEYS = ["table", "setting", "epsilon", "seed"]
SCORES = ["tv2", "tv3", "c2st", "auroc", "auprc"]
COLUMNS = [*KEYS, *SCORES, "trained", "fit_s", "peak_gb", "sample_s", "error", "code"]
Key = tuple[str, str, float, int]

EPSILONS = (1.0, 3.0)
SHARED = ("adult", "diamonds", "kaggle", "epileptic")
START = "MarginalSynthesizer"
# Adversarial steps that start from what was measured, with their share of the budget;
# as many as in comparisons before.
TRAINED = {
    START: ("Marginal", {}),
    "G-PATE": ("GPATE", {"n_iter": 2}),
    "DP-CGAN": ("DPCGAN", {"n_iter": 2}),
    "PATE-GAN": ("PATEGAN", {"n_iter": 20}),
    "PATE-TripleGAN": ("PATETripleGAN", {"n_iter": 8}),
}
# Of the published aggregator: factors instead of a network, which learn in 40 steps.
_FACTORS = {"init": "marginals", "aggregator": "confident_gnmax", "n_iter": 20}
ABLATIONS = {
    "as it is": {},
    "100 teachers": {"n_teachers": 100},
    "1,000 teachers": {"n_teachers": 1000},
    "projection_dim 2": {"projection_dim": 2},
    "projection_dim 10": {"projection_dim": 10},
    "n_bins 5": {"n_bins": 5},
    "n_bins 20": {"n_bins": 20},
    "max_grad_norm 0.001": {"max_grad_norm": 0.001},
    "max_grad_norm 0.1": {"max_grad_norm": 0.1},
    "no votes: one clipped sum": {"aggregator": "gaussian_sum"},
}
SETTINGS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "shares": TRAINED,
    "votes": {
        f"votes, {name}": ("GPATE", _FACTORS | changed)
        for name, changed in ABLATIONS.items()
    },
}


def load(name: str, data: Path) -> tuple[Any, pd.DataFrame, pd.DataFrame, Any]:
    """Give a table's description, its train and validation part, and its schema."""
    if name in DENSE:
        table = DENSE[name]
        parts = table.load(data)
        train, validation = split_rows(parts[0], table.target, seed=1)
        return table, train, validation, table.schema(parts)
    paper = PAPER_TABLES[name]
    train = paper.load(data, 0)[0]
    train, validation = split_rows(train, paper.target, seed=1)
    table = Table(lambda folder: paper.load(folder, 0), {}, paper.target)
    return table, train, validation, paper.schema


def run(key: Key, *, data: Path) -> dict[str, object]:
    """Do one run; what fails gives a row with its error."""
    name, setting, epsilon, seed = key
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    try:
        table, train, validation, schema = load(name, data)
        every = {k: v for part in SETTINGS.values() for k, v in part.items()}
        kind, given = every[setting]
        cls = getattr(skdpsynth, f"{kind}Synthesizer")
        model = cls(
            epsilon=epsilon,
            delta=DELTA,
            target=table.target,
            schema=schema,
            random_state=seed,
            **given,
        )
        rows, costs = fit_and_sample(model, train, len(train), None)
        row |= costs | measure(table, rows, validation)
        row["trained"] = getattr(model, "n_iter_", 0)
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    return row


def wanted(parts: list[str], tables: list[str], n_seeds: int) -> list[Key]:
    """List the runs: shares with `n_seeds` seeds, votes with one."""
    keys: list[Key] = []
    if "votes" in parts:
        keys += [("adult", name, 10.0, 0) for name in SETTINGS["votes"]]
    if "shares" in parts:
        keys += [
            (table, name, epsilon, seed)
            for seed in range(n_seeds)
            for table in tables
            for epsilon in EPSILONS
            for name in TRAINED
        ]
    return keys


def tables_of(rows: pd.DataFrame) -> dict[str, str]:
    """Write the tables of the page, by the name of the part."""
    found: dict[str, str] = {}
    for part, settings in SETTINGS.items():
        head = ["table", "epsilon", "setting", "steps", *SCORES]
        lines = [markdown_line(head), markdown_line(["---"] * len(head))]
        own = rows[rows["setting"].isin(list(settings))]
        for table in SHARED:
            for epsilon in sorted(own["epsilon"].unique()):
                here = own[(own["table"] == table) & (own["epsilon"] == epsilon)]
                start = here[here["setting"] == START]
                if part == "shares" and start.empty:
                    continue
                for setting in settings:
                    group = here[here["setting"] == setting]
                    if group.empty:
                        continue
                    trained = start if part == "shares" and setting != START else None
                    cells = [_cell(group[score], score, trained) for score in SCORES]
                    steps = f"{group['trained'].max():.0f}"
                    lines.append(
                        markdown_line([table, f"{epsilon:g}", setting, steps, *cells])
                    )
        found[part] = "\n".join(lines)
    return found


def write(page: Path, rows: pd.DataFrame) -> None:
    """Put the tables into the page, each between its two marks."""
    write_parts(page, tables_of(rows[rows["error"].isna()]))


def _cell(values: pd.Series, score: str, start: pd.DataFrame | None) -> str:
    """Give the mean, or the difference from the start and its standard error.

    Bold where the difference is two standard errors or more. A mean of several seeds
    has their standard deviation; one seed has neither.
    """
    if start is None:
        spread = f" ± {values.std():.3f}" if len(values) > 1 else ""
        return f"{values.mean():.3f}{spread}"
    of_start = start[score]
    found = values.mean() - of_start.mean()
    text = f"{found:+.3f}".replace("-", "\N{MINUS SIGN}")
    if min(len(values), len(of_start)) < 2:
        return text
    error = math.sqrt(values.var() / len(values) + of_start.var() / len(of_start))
    text = f"{text} ± {error:.3f}"
    return f"**{text}**" if abs(found) >= 2 * error else text


def main() -> None:
    """Run what is not in the file of results yet, and write the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--parts", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    add("--tables", nargs="+", choices=SHARED, default=list(SHARED))
    add("--seeds", type=int, default=5, help="seeds of the first part")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "training.csv", help="file of results")
    add("--page", type=Path, default=PAGE, help="page with the tables")
    options = parser.parse_args()
    keys = wanted(options.parts, options.tables, options.seeds)
    task = partial(run, data=options.data)
    run_missing(task, keys, options.csv, KEYS, COLUMNS, options.jobs)
    write(options.page, pd.read_csv(options.csv))


if __name__ == "__main__":
    main()
