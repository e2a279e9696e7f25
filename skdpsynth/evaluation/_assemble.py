"""From the records of single runs to the result of a comparison."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pandas as pd

from skdpsynth.evaluation._marginals import marginal, plain_columns, strongest_pairs
from skdpsynth.evaluation._results import RUN, ComparisonResult
from skdpsynth.evaluation._runs import ALL
from skdpsynth.exceptions import TiedScoresWarning
from skdpsynth.metrics import synthetic_ranking_agreement
from skdpsynth.metrics._classifiers import averaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skdpsynth.evaluation._runs import RunRecord, Task

_SCORES = [*RUN, "setting", "classifier", "metric", "value"]


def assemble(
    records: Sequence[RunRecord], *, test: pd.DataFrame, task: Task
) -> ComparisonResult:
    """Put the records of all runs together, with the ranking agreements of A and C."""
    rows = [
        [*(record.facts[name] for name in RUN), *score]
        for record in records
        for score in record.scores
    ]
    rows += _agreements(pd.DataFrame(rows, columns=_SCORES))
    scores = pd.DataFrame(rows, columns=_SCORES)
    runs = pd.DataFrame([record.facts for record in records])
    sampled = [record for record in records if record.sample]
    samples = {(r.facts["synthesizer"], r.facts["epsilon"]): r.sample for r in sampled}
    columns = plain_columns(test)
    real = [marginal(column) for column in columns]
    pairs = strongest_pairs(columns, task.target)
    return ComparisonResult(scores, runs, samples, real, task.target, real_pairs=pairs)


def _agreements(scores: pd.DataFrame) -> list[list[Any]]:
    """Compare Setting C of each run with Setting A of the same repeat."""
    rows = []
    scores = scores[scores["setting"].isin(["A", "C"])]
    scores = scores[scores["classifier"].isin(averaged(scores["classifier"]))]
    for (metric, repeat), group in scores.groupby(["metric", "repeat"], sort=False):
        series = group.set_index("classifier")["value"]
        real = series[(group["setting"] == "A").to_numpy()]
        if len(real) < 2:
            continue
        in_c = group[group["setting"] == "C"]
        # The reference, whose epsilon is NaN, is compared with itself.
        parts = in_c.groupby(["synthesizer", "epsilon"], dropna=False)
        for (name, epsilon), part in parts:
            with warnings.catch_warnings(action="ignore", category=TiedScoresWarning):
                # A tied pair agrees with nothing; the guide says so.
                own = part.set_index("classifier")["value"]
                value = synthetic_ranking_agreement(real, own)
            rows.append([name, epsilon, repeat, "AC", ALL, f"sra_{metric}", value])
    return rows
