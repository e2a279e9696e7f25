"""The page of the everyday tables: all figures, and what was asked for beside them.

It states what the file of results holds; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from _common import FLOOR, REAL, write_parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

EPSILONS = (1.0, 5.0)
NAMES = ("marginals", "G-PATE", FLOOR)
SCORES = ["auroc", "r2", "r2_boosting", "shapes", "trends", "on_grid", "least_on_grid"]
# Table, score, epsilon, and what it is to be at least: None for that of epsilon 1.
BARS: list[tuple[str, str, float, float | None]] = [
    ("fair", "auroc", 5.0, None),
    ("computers", "r2_boosting", 5.0, 0.6),
    ("computers", "r2", 5.0, 0.6),
    ("diamonds", "r2_boosting", 5.0, 0.9),
    ("diamonds", "r2", 5.0, 0.9),
    *(("diabetes", score, 5.0, 0.0) for score in ("r2_boosting", "r2")),
    *(
        (table, score, 5.0, None)
        for table in ("fair", "adult", "diamonds", "breast cancer")
        for score in ("shapes", "trends")
    ),
    ("adult, bounds declared", "shapes", 1.0, 0.93),
    ("adult, bounds declared", "trends", 1.0, 0.88),
    *(("receipts", "least_on_grid", epsilon, 1.0) for epsilon in EPSILONS),
]


def page_table(tables: Sequence[str], rows: pd.DataFrame) -> str:
    """Write the table of the page: mean and standard deviation over the seeds."""
    head = ["table", "synthesizer", "epsilon", "seeds", "AUROC", "R², five"]
    head += ["R², boosting", "shapes", "trends", "on the grid"]
    lines = [head, ["---"] * len(head)]
    for name in tables:
        for label in (REAL, *NAMES):
            own = rows[(rows["table"] == name) & (rows["synthesizer"] == label)]
            for epsilon, group in own.groupby("epsilon"):
                given = "-" if label == REAL else f"{epsilon:g}"
                scores = [_cell(group[score]) for score in SCORES[:5]]
                grid = f"{group['on_grid'].mean():.3f}"
                grid = "-" if grid == "nan" or label == REAL else grid
                lines.append([name, label, given, str(len(group)), *scores, grid])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bars_table(rows: pd.DataFrame) -> str:
    """Write what is asked for, what was reached, and whether that is enough."""
    lines = [["asked", "synthesizer", "reached", "met"], ["---"] * 4]
    means = rows.groupby(["table", "synthesizer", "epsilon"])[SCORES].mean()
    for name in NAMES[:2]:
        for table, score, epsilon, least in BARS:
            if (table, name, epsilon) not in means.index:
                continue
            found = means.loc[(table, name, epsilon), score]
            bound = least
            words = f"{table}: {score} at epsilon {epsilon:g} at least {bound}"
            if least is None:
                if (table, name, 1.0) not in means.index:
                    continue
                bound = means.loc[(table, name, 1.0), score]
                words = f"{table}: {score} at epsilon {epsilon:g} not below epsilon 1"
            reached = f"{found:.3f}" + (f" from {bound:.3f}" if least is None else "")
            met = "yes" if round(found - bound, 9) >= 0 else "no"
            lines.append([words, name, reached, met])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(values: pd.Series) -> str:
    present = values.dropna()
    if present.empty:
        return "-"
    spread = f" ± {present.std():.3f}" if len(present) > 1 else ""
    return f"{present.mean():.3f}{spread}"


def write(page: Path, tables: Sequence[str], rows: pd.DataFrame) -> None:
    """Put the tables into the page, each between its two marks."""
    rows = rows[rows["error"].isna()]
    written = {"tables": page_table(tables, rows), "bars": bars_table(rows)}
    write_parts(page, written)
