"""The page of the reproduction: what the papers state, and what was measured.

All figures of the papers are at delta 1e-5; the PATE-TripleGAN paper states no delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, starmap
from typing import TYPE_CHECKING

from _common import FLOOR, REAL, markdown_line, write_parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

__all__ = ["COLUMNS", "PARTS", "PUBLISHED", "TITLES", "Line", "key_of", "write"]

# The columns of the page that are run, by their names in the command.
COLUMNS = {
    "without-noise": "as published, without noise",
    "sound": "as published, sound accounting",
    "default": "default",
    "baseline": "independent baseline",
    "real": "real rows",
}
PUBLISHED = ", as published"  # after the name of a synthesizer
SCORES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "auroc_4": "AUROC, 4 classifiers",
    "auprc_4": "AUPRC, 4 classifiers",
    "auroc_lr": "AUROC, logistic regression",
    "auroc_mlp": "AUROC, network",
    "accuracy": "accuracy, convolutional network",
}
TITLES = {
    "cervical": "Cervical cancer",
    "thyroid": "Thyroid",
    "adult": "Adult",
    "kaggle": "Kaggle Credit",
    "epileptic": "Epileptic seizure",
    "isolet": "ISOLET vowels",
    "mnist": "MNIST",
    "mnist-images": "MNIST",
    "fashion-images": "Fashion-MNIST",
    "mnist-80": "MNIST, 80 % labelled",
    "fashion-80": "Fashion-MNIST, 80 % labelled",
}


@dataclass(frozen=True)
class Line:
    """One figure of a paper.

    Parameters
    ----------
    synthesizer : str
        The paper's algorithm, by its name in `SYNTHESIZERS`.
    table : str
        Key of `TITLES`.
    score : str
        Key of `SCORES`.
    epsilon : float
        The paper's.
    paper : float or None
        The figure; None where no paper has the table.
    where : str
        Its table in the paper.
    without_noise, real : float or None
        What the paper states for its network without noise and for real rows.
    """

    synthesizer: str
    table: str
    score: str
    epsilon: float
    paper: float | None = None
    where: str = ""
    without_noise: float | None = None
    real: float | None = None


_PATE_GAN = (
    ("cervical", "auroc", 1.0, 0.9108, "Table 2", 0.9268, 0.9354),
    ("cervical", "auprc", 1.0, 0.5460, "Table 2", 0.5994, 0.6314),
    ("epileptic", "auroc", 1.0, 0.7681, "Table 2", 0.9173, 0.9809),
    ("epileptic", "auprc", 1.0, 0.6512, "Table 2", 0.8133, 0.9511),
    ("epileptic", "auroc", 10.0, 0.8718, "Table 8", 0.9173, 0.9809),
    ("epileptic", "auprc", 10.0, 0.7662, "Table 8", 0.8133, 0.9511),
    ("kaggle", "auroc", 1.0, 0.8737, "Table 1", 0.8866, 0.9438),
    ("kaggle", "auprc", 1.0, 0.3351, "Table 1", 0.3453, 0.7020),
    ("isolet", "auroc", 1.0, 0.6399, "Table 2", 0.8171, 0.9671),
    ("isolet", "auprc", 1.0, 0.2953, "Table 2", 0.5561, 0.8758),
    ("isolet", "auroc", 10.0, 0.7688, "Table 7", 0.8171, 0.9671),
    ("isolet", "auprc", 10.0, 0.4734, "Table 7", 0.5561, 0.8758),
)
# Real rows are the means of the four in Table 6; without noise, Table 7.
_G_PATE = (
    ("kaggle", "auroc_4", 1.0, 0.9072, "Table 1", 0.9324, 0.9646),
    ("kaggle", "auprc_4", 1.0, 0.4392, "Table 5", None, 0.7054),
    ("mnist-images", "accuracy", 1.0, 0.5880, "Table 1", 0.9653, None),
    ("mnist-images", "accuracy", 10.0, 0.8092, "Table 1", 0.9653, None),
    ("fashion-images", "accuracy", 1.0, 0.5812, "Table 1", 0.8032, None),
    ("fashion-images", "accuracy", 10.0, 0.6934, "Table 1", 0.8032, None),
)
_DP_CGAN = (
    ("thyroid", "auroc", 3.7, 0.9746, "Table 2", None, 0.9858),
    ("mnist", "auroc_lr", 9.6, 0.8642, "Table 1", 0.9110, 0.9217),
    ("mnist", "auroc_mlp", 9.6, 0.8858, "Table 1", 0.9106, 0.9760),
)
_PATE_TRIPLEGAN = (
    ("mnist-80", "accuracy", 10.0, 0.6073, "Table 1"),
    ("fashion-80", "accuracy", 10.0, 0.5421, "Table 1"),
)
_STATED = {
    "PATE-GAN": _PATE_GAN,
    "G-PATE": _G_PATE,
    "DP-CGAN": _DP_CGAN,
    "PATE-TripleGAN": _PATE_TRIPLEGAN,
}
# The lines of the page, by the name of its part.
PARTS: dict[str, list[Line]] = {
    name: [Line(name, *stated) for stated in lines] for name, lines in _STATED.items()
}
PARTS["Adult"] = [
    Line(name, "adult", score, 1.0) for name in _STATED for score in ("auroc", "auprc")
]


def key_of(line: Line, column: str) -> tuple[str, str, float]:
    """Name the run behind a cell: table, synthesizer and epsilon."""
    published = line.synthesizer + PUBLISHED
    synthesizer, epsilon = {
        "without-noise": (published, math.inf),
        "sound": (published, line.epsilon),
        "default": (line.synthesizer, line.epsilon),
        "baseline": (FLOOR, line.epsilon),
        "real": (REAL, math.inf),
    }[column]
    return line.table, synthesizer, epsilon


def write(page: Path, rows: pd.DataFrame) -> None:
    """Put all tables into the page."""
    tables = {name: part_table(lines, rows) for name, lines in PARTS.items()}
    write_parts(page, tables | {"fits": fits_table(rows)})


def part_table(lines: Sequence[Line], rows: pd.DataFrame) -> str:
    """Write one table of the page, a line for each figure of the papers."""
    head = ["synthesizer", "table", "score", "epsilon", "paper", *COLUMNS.values()]
    text = [markdown_line(head), markdown_line(["---"] * len(head))]
    for line in lines:
        stated = {"without-noise": line.without_noise, "real": line.real}
        cells = [
            cell(_runs(rows, *key_of(line, column)), line.score, stated.get(column))
            for column in COLUMNS
        ]
        paper = "-" if line.paper is None else f"{line.paper:.3f}, {line.where}"
        first = [line.synthesizer, TITLES[line.table], SCORES[line.score]]
        text.append(markdown_line([*first, f"{line.epsilon:g}", paper, *cells]))
    return "\n".join(text)


def cell(runs: pd.DataFrame, score: str, stated: float | None = None) -> str:
    """Write the mean over the runs, or that there is none, and what the paper states.

    Parameters
    ----------
    runs : DataFrame
        Rows of the file of results, one for each seed.
    score : str
        Key of `SCORES`.
    stated : float or None
        The paper's figure of the same kind.
    """
    values = runs[score].dropna().astype(float)
    if runs.empty:
        text = "not run"
    elif values.empty:
        text = "failed"
    elif len(values) == 1:
        text = f"{values.iloc[0]:.3f}"
    else:
        text = f"{values.mean():.3f} ± {values.std():.3f}"
    return text if stated is None else f"{text} ({stated:.3f})"


def fits_table(rows: pd.DataFrame) -> str:
    """Write what the runs were: their number, budget, steps, time and memory."""
    head = ["table", "synthesizer", "epsilon", "certified", "runs", "steps"]
    head += ["fit, s", "peak, GB"]
    text = [markdown_line(head), markdown_line(["---"] * len(head))]
    errors = []
    lines = chain.from_iterable(PARTS.values())
    keys = dict.fromkeys(key_of(line, column) for line in lines for column in COLUMNS)
    for table, synthesizer, epsilon in keys:
        runs = _runs(rows, table, synthesizer, epsilon)
        failed = runs["error"].dropna()
        if len(failed):
            errors.append(f"- {table}, {synthesizer}, {epsilon:g}: {failed.iloc[0]}")
        done = runs[runs["error"].isna()]
        if done.empty:
            continue
        cells = ["-"] * 5
        if synthesizer != REAL:
            certified = done["certified_epsilon"].max()
            cells = list(starmap(_number, ((epsilon, "g"), (certified, ".4g"))))
            cells += [_number(done["steps"].max(), ".0f")]
            cells += [_number(done["fit_s"].mean(), ".0f")]
            cells += [_number(done["peak_gb"].max(), ".2f")]
        cells.insert(2, str(len(done)))
        text.append(markdown_line([table, synthesizer, *cells]))
    if errors:
        text += ["", "Runs that failed:", "", *errors]
    return "\n".join(text)


def _runs(
    rows: pd.DataFrame, table: str, synthesizer: str, epsilon: float
) -> pd.DataFrame:
    own = (rows["table"] == table) & (rows["synthesizer"] == synthesizer)
    return rows[own & (rows["epsilon"] == epsilon)]


def _number(value: float, form: str) -> str:
    if math.isnan(value):  # of a run whose costs were lost
        return "-"
    return "no noise" if math.isinf(value) else f"{value:{form}}"
