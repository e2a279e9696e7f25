"""What a comparison found: tables, plots and one HTML page."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.evaluation._html import write
from skdpsynth.evaluation._marginals import Marginal, plain_columns, strongest_pairs
from skdpsynth.evaluation._plots import Plots
from skdpsynth.evaluation._runs import ALL, REAL
from skdpsynth.exceptions import TiedScoresWarning
from skdpsynth.metrics import averaged, synthetic_ranking_agreement

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from skdpsynth.evaluation._runs import RunRecord, Task

_RUN = ["synthesizer", "epsilon", "repeat"]  # identifies a run
_SCORES = [*_RUN, "setting", "classifier", "metric", "value"]
# What the curator may see of a run and others may not: time and memory follow the
# number of rows (of sampling too: it is measured in the process that holds them), and
# errors and warnings their values.
_CURATOR_ONLY = ["fit_s", "sample_s", "score_s", "peak_mb", "warned", "error"]


class ComparisonResult(Plots):
    """What `compare_synthesizers` found.

    Parameters
    ----------
    scores, runs : DataFrame
        See Attributes.
    samples : dict of (name, epsilon) to list of PlainColumn
        Some synthetic rows of each synthesizer, for plots.
    real_marginals : list of Marginal
        Shares of the real columns; empty if none may be shown.
    target : str
        The column to predict.
    real_pairs : list of Marginal, default=()
        Shares of pairs of real columns; empty if none may be shown.
    contains_private_statistics : bool, default=True
        See Attributes.

    Attributes
    ----------
    scores : DataFrame
        One row for each `synthesizer`, `epsilon`, `repeat`, `setting`, `classifier` and
        `metric`, with its `value`. Settings "A", "B" and "C" have the metrics "auroc"
        and "auprc" of each classifier, or "r2" and "rmse" of each regressor. "AC"
        compares A with C ("sra_auroc" and so on), and "fidelity" the table with real
        rows; there the classifier is "all". The synthesizer "real data" is the
        reference, with epsilon NaN and the Settings A and C.
    runs : DataFrame
        One row for each `synthesizer`, `epsilon` and `repeat`: `class`,
        `epsilon_spent` and `delta` (what the fit guarantees), `fit_s`, `sample_s` and
        `score_s` (seconds), `peak_mb` (highest resident memory of the process while it
        fitted and sampled, minus that before, in megabytes; the first run in a process
        loads libraries too), `warned` and `error` (texts, empty if all went well).
    target : str
        The column to predict.
    contains_private_statistics : bool
        True if anything here was computed from real rows beside the fits themselves.
        Then no epsilon covers it.

    See Also
    --------
    compare_synthesizers : Makes it.

    Notes
    -----
    A plot on axes that the caller gives writes its footer on their figure.

    Examples
    --------
    >>> from skdpsynth import IndependentSynthesizer
    >>> from skdpsynth.datasets import load_cervical_cancer
    >>> from skdpsynth.evaluation import compare_synthesizers
    >>> table = load_cervical_cancer()
    >>> result = compare_synthesizers(
    ...     {"baseline": IndependentSynthesizer()}, table[::2], table[1::2], "Biopsy",
    ...     n_repeats=1, n_samples=400, classifiers=["GaussianNB"], fidelity=False,
    ... )
    >>> sorted(result.public_part().scores["setting"].unique())
    ['C']
    """

    def public_part(self) -> ComparisonResult:
        """Keep only what the guarantees of the fits cover.

        Returns
        -------
        ComparisonResult
            Setting C, plots of synthetic rows and what was spent, of the runs with a
            finite epsilon. Left out is what was computed from real rows (Settings A and
            B, ranking agreement, fidelity, marginals and pairs of real columns), runs
            without a guarantee or with an error, and what only the curator of the table
            may see: time and memory, errors and warnings. It is covered by the sum of
            the budgets in ``runs``, and not by less, however few rows are shown. That a
            run is left out tells those who expect it that it failed: no budget covers
            this.
        """
        runs = self.runs
        kept = np.isfinite(runs["epsilon_spent"]) & (runs["synthesizer"] != REAL)
        if "error" in runs:
            kept &= runs["error"] == ""
        runs = runs[kept].drop(columns=_CURATOR_ONLY, errors="ignore")
        keys = set(runs[_RUN].itertuples(index=False, name=None))
        of_kept = pd.MultiIndex.from_frame(self.scores[_RUN]).isin(sorted(keys))
        within = of_kept & (self.scores["setting"] == "C")
        samples = {of: s for of, s in self._samples.items() if (*of, 0) in keys}
        return ComparisonResult(
            self.scores[within].reset_index(drop=True),
            runs.reset_index(drop=True),
            samples,
            real_marginals=[],
            target=self.target,
            contains_private_statistics=False,
        )

    def to_html(self, path: str | os.PathLike[str], private: bool = True) -> None:
        """Write one self-contained page: tables, plots, claims and how to read them.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.
        private : bool, default=True
            False writes `public_part` only.
        """
        write(self if private else self.public_part(), path)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write ``scores`` as CSV.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.
        """
        self.scores.to_csv(path, index=False)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write ``scores`` as Parquet.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.
        """
        self.scores.to_parquet(path, index=False)


def assemble(
    records: Sequence[RunRecord], *, test: pd.DataFrame, task: Task
) -> ComparisonResult:
    """Put the records of all runs together, with the ranking agreements of A and C."""
    rows = [
        [*(record.row[name] for name in _RUN), *score]
        for record in records
        for score in record.scores
    ]
    rows += _agreements(pd.DataFrame(rows, columns=_SCORES))
    scores = pd.DataFrame(rows, columns=_SCORES)
    runs = pd.DataFrame([record.row for record in records])
    sampled = [record for record in records if record.sample]
    samples = {(r.row["synthesizer"], r.row["epsilon"]): r.sample for r in sampled}
    columns = plain_columns(test)
    real = [Marginal.of(column) for column in columns]
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
