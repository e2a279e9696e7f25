"""The tables of a comparison's page, and how to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from skdpsynth.evaluation._runs import ALL, REAL, REFERENCE
from skdpsynth.metrics import averaged
from skdpsynth.privacy import claim
from skdpsynth.utils import Block, Grid, Heading, Items

_IN_C = (
    "like all that end in _C: learnt from four fifths of the table itself, tested on "
    "the other fifth"
)
# The tables of the summary, and what is in them: by how the names of columns begin.
_PARTS = {
    "What leads": {
        "boosting": "auroc and auprc, or r2 and rmse, of gradient boosting that learnt "
        "from the table, tested on real rows",
        "two_way": "mean distance of 2-way marginals to those of real rows, 0 is best",
        "c2st": "AUC of gradient boosting that separates the table from real rows, 0.5 "
        "is best",
        "broken": "share of rows that break a relation between two columns of real "
        "rows; what real data has is what other real rows get",
    },
    "All classifiers": {
        "rank": "by auroc, or r2, at this epsilon, 1 is best",
        "auroc": "area under the ROC curve, mean of classifiers and repeats, and "
        "standard deviation of the repeats",
        "auprc": "the same of average precision",
        "r2": "share of the variance that is explained, mean of regressors and "
        "repeats, and standard deviation of the repeats; 1 is best, 0 is what the mean "
        "gets",
        "rmse": "root of the mean squared error, in the unit of the target",
        "auroc_C": _IN_C,
        "r2_C": _IN_C,
        "sra_": "share of pairs of classifiers in the same order as on real rows; what "
        "real data has is what as many real rows get",
    },
    "Likeness": {
        "feature_ranking": "share of pairs of features in the same order as in real "
        "rows",
        "ks": "Kolmogorov-Smirnov distance to real rows, mean of the numbers, 0 is "
        "best",
        "tv": "total variation distance to real rows, mean of the categories, 0 is "
        "best",
        "missing": "difference of the shares of missing values, 0 is best",
        "pairs": "difference of the dependence of two columns, mean of pairs, 0 is "
        "best",
        "two_sample": "as c2st, of a linear model and of a forest",
    },
    "Costs": {
        "": "means; epsilon_spent is what one fit guarantees, with delta, and peak_mb "
        "the highest resident memory of the process while it fitted and sampled, minus "
        "that before",
    },
}
# How numbers are written, by column; three decimals elsewhere.
_FORMATS = {"epsilon": ".4g", "rank": "g", "peak_mb": ".0f"}
_BOUNDS = ("epsilon_spent", "epsilon spent by one fit", "delta")  # rounded up


def claim_tables(runs: pd.DataFrame) -> Iterator[Block]:
    """Write what was spent, by each synthesizer and together."""
    runs = runs[runs["synthesizer"] != REAL]
    finite = runs[np.isfinite(runs["epsilon_spent"])]
    epsilon, delta = (claim(finite[name].sum()) for name in ("epsilon_spent", "delta"))
    text = (
        "What the fits guarantee when one row is added to the private table or removed "
        f"from it. Every fit spends its own: all {len(finite)} fits together are "
        f"({epsilon}, {delta})-differentially private."
    )
    if n := int(np.isinf(runs["epsilon_spent"]).sum()):
        text += f" {n} more fits have no guarantee (epsilon is infinite)."
    if n := int(runs["epsilon_spent"].isna().sum()):
        text += (
            f" {n} more fits failed or make no claim; what they spent is not known "
            "here."
        )
    yield text
    groups = runs.groupby(["synthesizer", "class", "epsilon"], sort=False)
    table = groups[["epsilon_spent", "delta"]].max().reset_index()
    table.insert(3, "fits", groups.size().to_numpy())
    yield grid(table.rename(columns={"epsilon_spent": "epsilon spent by one fit"}))


def summary_tables(summary: pd.DataFrame) -> Iterator[Block]:
    """Lay the summary out as tables that are no wider than a page, and explain them.

    A mean and its standard deviation share a cell.
    """
    texts = {name: _texts(name, summary[name]) for name in summary}
    for name in [name for name in texts if f"{name}_sd" in texts]:
        texts[name] = [
            mean if sd == "-" else f"{mean} \N{PLUS-MINUS SIGN} {sd}"
            for mean, sd in zip(texts[name], texts.pop(f"{name}_sd"), strict=True)
        ]
    names = [name for name in ("synthesizer", "epsilon") if name in texts]
    key = {name: texts.pop(name) for name in names}
    for title, meanings in _PARTS.items():
        names = [name for name in texts if name.startswith(tuple(meanings))]
        columns = key | {name: texts.pop(name) for name in names}
        if names:
            yield Heading(title, 3)
            yield Grid([*columns], list(zip(*columns.values(), strict=True)))
            yield Items(
                [
                    f"{start}: {meaning}" if start else meaning
                    for start, meaning in meanings.items()
                    if any(name.startswith(start) for name in names)
                ]
            )


def scores_of(scores: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Select the scores of classifiers in a setting, and those of real rows beside."""
    scores = scores[scores["classifier"] != ALL]
    real = scores["synthesizer"] == REAL
    return scores[scores["setting"] == np.where(real, REFERENCE[setting], setting)]


def classifier_tables(scores: pd.DataFrame, metrics: Iterable[str]) -> Iterator[Block]:
    """Tabulate the scores of the classifiers in one setting."""
    runs = zip(scores["synthesizer"], scores["epsilon"], strict=True)
    names = [n if np.isnan(e) else f"{n}, epsilon {e:g}" for n, e in runs]
    table = scores.assign(run=names).pivot_table(
        index=["metric", "classifier"], columns="run", values="value", sort=False
    )
    for metric in metrics:
        rows = table.loc[metric].copy()
        rows.loc["mean"] = rows.loc[averaged(rows.index)].mean()
        yield Heading(metric, 3)
        yield grid(rows.reset_index())


def epsilons_of(several: Iterable[float]) -> list[float]:
    """Return the finite epsilons in order, or the infinite one if it is alone."""
    present = sorted(set(several))
    return [e for e in present if np.isfinite(e)] or present[:1]


def grid(table: pd.DataFrame) -> Grid:
    columns = [_texts(name, table[name]) for name in table]
    return Grid([*map(str, table)], list(zip(*columns, strict=True)))


def _texts(name: str, column: pd.Series) -> list[str]:
    """Write every value of a column rounded, and what is missing as a dash."""
    if name in _BOUNDS:
        return ["-" if pd.isna(value) else claim(value) for value in column]
    form = _FORMATS.get(name, ".3f")
    return [
        "-" if pd.isna(v) else f"{v:{form}}" if isinstance(v, float) else str(v)
        for v in column
    ]
