"""What a comparison found, in tables, plots and one HTML page."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from skdpsynth.evaluation._marginals import marginal, plain_columns, strongest_pairs
from skdpsynth.evaluation._runs import ALL, METRICS, REAL
from skdpsynth.exceptions import TiedScoresWarning
from skdpsynth.metrics import averaged, synthetic_ranking_agreement

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from skdpsynth.evaluation._marginals import Marginal, Pair, PlainColumn
    from skdpsynth.evaluation._runs import Metric, RunRecord, Task

    Samples = Mapping[tuple[str, float], Sequence[PlainColumn]]

RUN = ["synthesizer", "epsilon", "repeat"]  # identifies a run
_COSTS = dict.fromkeys(["epsilon_spent", "delta", "fit_s", "sample_s"], "mean")
_COSTS["peak_mb"] = "max"  # the first run in a process loads libraries too
# What the curator may see of a run and others may not: time and memory follow the
# number of rows (of sampling too: it is measured in the process that holds them), and
# errors and warnings their values.
_CURATOR_ONLY = ["fit_s", "sample_s", "score_s", "peak_mb", "warned", "error"]
# Metrics of whole tables in the order of the summary; the last two are not distances.
_TABLE_METRICS = {
    # That of rmse is that of r2, as both follow the squared error.
    "AC": ("sra_auroc", "sra_auprc", "sra_r2"),
    "fidelity": (
        *("feature_ranking", "ks", "tv", "missing", "pairs"),
        *("two_sample_linear", "two_sample_forest"),
    ),
}


class ComparisonResult:
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
    real_pairs : list of Pair, default=()
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

    def __init__(
        self,
        scores: pd.DataFrame,
        runs: pd.DataFrame,
        samples: Samples,
        real_marginals: Sequence[Marginal],
        target: str,
        *,
        real_pairs: Sequence[Pair] = (),
        contains_private_statistics: bool = True,
    ) -> None:
        self.scores = scores
        self.runs = runs
        self.target = target
        self.contains_private_statistics = contains_private_statistics
        self._samples = dict(samples)
        self._real_marginals = list(real_marginals)
        self._real_pairs = list(real_pairs)
        for table in (scores, runs):
            table.attrs["contains_private_statistics"] = contains_private_statistics

    def __repr__(self) -> str:
        names = list(dict.fromkeys(self.runs["synthesizer"]))
        private = self.contains_private_statistics
        return f"ComparisonResult({names}, contains_private_statistics={private})"

    def summary(self) -> pd.DataFrame:
        """Average over the repeats.

        Returns
        -------
        DataFrame
            One row for each synthesizer and epsilon, the reference first. `auroc` and
            `auprc` (of regressors `r2` and `rmse`) are means over classifiers and
            repeats, tested on real rows (Setting B, for the reference A), `auroc_sd`
            and `auprc_sd` the standard deviations of the repeats, `rank` the place by
            `auroc`, or `r2`, at this epsilon, 1 the best; then Setting C; the ranking
            agreements `sra_auroc` and `sra_auprc`, or `sra_r2`, and `feature_ranking`
            (1 is best; those of the reference are what as many real rows get); the
            fidelity metrics, distances (0 is best) and `two_sample_*`
            (0.5 is best); means of what the runs cost, of `peak_mb` the maximum;
            `n_runs` and `n_failed`. What was not computed has no column, or NaN.
        """
        groups = self.runs.groupby(RUN[:2], sort=False, dropna=False)
        table = pd.DataFrame([self._summary_row(n, e, runs) for (n, e), runs in groups])
        first = self._metrics[0]
        if first in table:
            # The epsilon of the reference is NaN, and so is its rank.
            place = table.groupby("epsilon")[first].rank(ascending=False)
            table.insert(table.columns.get_loc(first), "rank", place)
        table = table.dropna(axis="columns", how="all")
        table.attrs["contains_private_statistics"] = self.contains_private_statistics
        return table

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
        keys = set(runs[RUN].itertuples(index=False, name=None))
        of_kept = pd.MultiIndex.from_frame(self.scores[RUN]).isin(sorted(keys))
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

    def plot_tradeoff(
        self,
        ax: Axes | None = None,
        *,
        metric: Metric | None = None,
        setting: Literal["B", "C"] = "B",
    ) -> Axes:
        """Plot a score against epsilon.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None makes a new figure.
        metric : {"auroc", "auprc", "r2", "rmse"} or None, default=None
            Mean over the classifiers or regressors. None takes "auroc", or "r2" where
            the target is a number.
        setting : {"B", "C"}, default="B"
            Setting of the synthesizers; the line of real rows is A beside B, else C.

        Returns
        -------
        Axes
            A line for each synthesizer, with a band of one standard deviation of the
            repeats on either side; a dashed line for real rows, and a dotted one for
            the independent baseline, the first `IndependentSynthesizer`, if any.

        Raises
        ------
        ValueError
            If no run has such scores.
        """
        from skdpsynth.evaluation import _plots

        return _plots.draw_tradeoff(self, ax, metric or self._metrics[0], setting)

    def plot_classifiers(
        self,
        ax: Axes | None = None,
        *,
        metric: Metric | None = None,
        setting: Literal["B", "C"] = "B",
        epsilon: float | None = None,
    ) -> Axes:
        """Plot the score of each classifier.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None makes a new figure.
        metric : {"auroc", "auprc", "r2", "rmse"} or None, default=None
            Mean over the repeats. None takes "auroc", or "r2" where the target is a
            number.
        setting : {"B", "C"}, default="B"
            Setting of the synthesizers; the marks of real rows are A beside B, else C.
        epsilon : float or None, default=None
            Runs of this epsilon, and those without noise. None takes the smallest.

        Returns
        -------
        Axes
            A line for each classifier with a mark for each synthesizer.

        Raises
        ------
        ValueError
            If no run has such scores.
        """
        from skdpsynth.evaluation import _plots

        metric = metric or self._metrics[0]
        return _plots.draw_classifiers(self, ax, metric, setting, epsilon)

    def plot_marginals(
        self,
        axes: Axes | Sequence[Axes] | NDArray[Any] | None = None,
        *,
        columns: Sequence[str] | None = None,
        epsilon: float | None = None,
    ) -> NDArray[Any]:
        """Plot the shares of the values of columns, real and synthetic.

        Parameters
        ----------
        axes : array of Axes or None, default=None
            Where to draw, one for each column. None makes a new figure.
        columns : sequence of str or None, default=None
            Names of columns. None takes the target and the first seven others.
        epsilon : float or None, default=None
            Runs of this epsilon, and those without noise. None takes the smallest.

        Returns
        -------
        ndarray of Axes
            One for each column: real test rows as a grey area or bars, and up to 1,000
            rows of the first run of each synthesizer.

        Raises
        ------
        ValueError
            If no run has samples, a column is not there, or the axes are too few.
        """
        from skdpsynth.evaluation import _plots

        return _plots.draw_marginals(self, axes, columns, epsilon)

    def plot_pairs(
        self, axes: NDArray[Any] | None = None, *, epsilon: float | None = None
    ) -> NDArray[Any]:
        """Plot the 2-way marginals of pairs of columns, real beside synthetic.

        Parameters
        ----------
        axes : array of Axes of shape (n_pairs, n_tables) or None, default=None
            Where to draw. None makes a new figure.
        epsilon : float or None, default=None
            Runs of this epsilon, and those without noise. None takes the smallest.

        Returns
        -------
        ndarray of Axes of shape (n_pairs, n_tables)
            A row for each of the four pairs, or fewer, that depend on each other most
            by Cramer's V, among the target and the first 40 other columns. Real test
            rows choose them and come first; where they may not be shown, synthetic ones
            choose. Then up to 1,000 rows of the first run of each synthesizer. The
            darker a cell, the more rows it has; numbers are cut at eighths of the rows
            that choose.

        Raises
        ------
        ValueError
            If no run has samples, or the axes are too few.
        """
        from skdpsynth.evaluation import _plots

        return _plots.draw_pairs(self, axes, epsilon)

    def to_html(self, path: str | os.PathLike[str], private: bool = True) -> None:
        """Write one self-contained page: tables, plots, claims and how to read them.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.
        private : bool, default=True
            False writes `public_part` only.
        """
        from skdpsynth.evaluation import _html

        _html.write(self if private else self.public_part(), path)

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

    @property
    def _metrics(self) -> list[Metric]:
        """The metrics of the classifiers or regressors, the one that ranks first."""
        found = set(self.scores["metric"])
        return [name for name in METRICS if name in found] or list(METRICS)[:2]

    def _summary_row(
        self, name: str, epsilon: float, runs: pd.DataFrame
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"synthesizer": name, "epsilon": epsilon}
        real = "A" if name == REAL else "B"
        for setting, ending in ((real, ""), ("C", "_C")):
            for metric in self._metrics:
                repeats = self.repeats(name, epsilon, setting, metric)
                row[f"{metric}{ending}"] = repeats.mean()
                row[f"{metric}{ending}_sd"] = repeats.std()
        for setting, names in _TABLE_METRICS.items():
            for of_table in names:
                row[of_table] = self.repeats(name, epsilon, setting, of_table).mean()
        costs = {name: how for name, how in _COSTS.items() if name in runs}
        row |= runs.agg(costs).to_dict()
        row["n_runs"] = len(runs)
        if "error" in runs:
            row["n_failed"] = int((runs["error"] != "").sum())
        return row

    def repeats(
        self, synthesizer: str, epsilon: float, setting: str, metric: str
    ) -> pd.Series:
        """Average a score over the classifiers, for each repeat.

        Parameters
        ----------
        synthesizer : str
            Its name, or "real data".
        epsilon : float
            Its epsilon; NaN for the reference.
        setting, metric : str
            As in ``scores``.

        Returns
        -------
        Series of shape (n_repeats_that_have_it,)
            Values by repeat. "HistGradientBoosting" is left out unless it is alone.
        """
        found = self.scores
        found = found[(found["setting"] == setting) & (found["metric"] == metric)]
        found = found[found["synthesizer"] == synthesizer]
        found = found[found["epsilon"].isin([epsilon])]  # NaN is in a list with NaN
        found = found[found["classifier"].isin(averaged(found["classifier"]))]
        return found.groupby("repeat")["value"].mean()


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
