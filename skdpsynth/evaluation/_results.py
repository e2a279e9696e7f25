"""What a comparison gives: tables of scores, plots, and a page of both."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from skdpsynth.evaluation import _plots
from skdpsynth.evaluation._marginals import Marginal, PlainColumn, strongest_pairs
from skdpsynth.evaluation._runs import (
    ALL,
    LEADING,
    METRICS,
    REAL,
    REFERENCE,
    Metric,
    package_version,
)
from skdpsynth.exceptions import check_range
from skdpsynth.metrics import averaged
from skdpsynth.privacy import claim
from skdpsynth.utils import Block, Document, Grid, Heading, Items

RUN = ["synthesizer", "epsilon", "repeat"]  # identifies a run
# What the curator may see of a run and others may not: time and memory follow the
# number of rows (of sampling too: it is measured in the process that holds them), and
# errors and warnings their values.
_CURATOR_ONLY = ["fit_s", "sample_s", "score_s", "peak_mb", "warned", "error"]
_COSTS = dict.fromkeys(["epsilon_spent", "delta", "fit_s", "sample_s"], "mean")
_COSTS["peak_mb"] = "max"  # the first run in a process loads libraries too
# Metrics of whole tables in the order of the summary.
_TABLE_METRICS = {
    # That of rmse is that of r2, as both follow the squared error.
    "AC": ("sra_auroc", "sra_auprc", "sra_r2"),
    "fidelity": (
        *("two_way", "c2st", "broken", "feature_ranking", "ks", "tv", "missing"),
        *("pairs", "two_sample_linear", "two_sample_forest"),
    ),
}
_LEAD = ("two_way", "c2st")


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

    def __init__(
        self,
        scores: pd.DataFrame,
        runs: pd.DataFrame,
        samples: Mapping[tuple[str, float], Sequence[PlainColumn]],
        real_marginals: Sequence[Marginal],
        target: str,
        *,
        real_pairs: Sequence[Marginal] = (),
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
        return f"{type(self).__name__}({names}, contains_private_statistics={private})"

    def summary(self) -> pd.DataFrame:
        """Average over the repeats.

        Returns
        -------
        DataFrame
            One row for each synthesizer and epsilon, the reference first. What leads:
            `boosting_auroc` and `boosting_auprc` (of numbers `boosting_r2` and
            `boosting_rmse`) of gradient boosting, if it was scored; `two_way`, the mean
            distance of 2-way marginals (0 is best); `c2st`, the AUC of boosting that
            separates synthetic from real rows (0.5 is best). Then `auroc` and
            `auprc` (of regressors `r2` and `rmse`) are means over classifiers and
            repeats, tested on real rows (Setting B, for the reference A), `auroc_sd`
            and `auprc_sd` the standard deviations of the repeats, `rank` the place by
            `auroc`, or `r2`, at this epsilon, 1 the best; then Setting C; the ranking
            agreements `sra_auroc` and `sra_auprc`, or `sra_r2`, and `feature_ranking`
            (1 is best; those of the reference are what as many real rows get); the
            fidelity metrics: distances (0 is best), `broken`, the share of rows that
            break a relation between two columns, and `two_sample_*` (0.5 is best);
            means of what the runs cost, of `peak_mb` the maximum; `n_runs` and
            `n_failed`. What was not computed has no column, or NaN.
        """
        groups = self.runs.groupby(["synthesizer", "epsilon"], sort=False, dropna=False)
        table = pd.DataFrame([self._summary_row(n, e, runs) for (n, e), runs in groups])
        first = self._metrics[0]
        if first in table:
            # The epsilon of the reference is NaN, and so is its rank.
            place = table.groupby("epsilon")[first].rank(ascending=False)
            table.insert(table.columns.get_loc(first), "rank", place)
        table = table.dropna(axis="columns", how="all")
        led = [n for n in table if n.startswith("boosting_") or n in _LEAD]
        names = [n for n in ("synthesizer", "epsilon", *led) if n in table]
        table = table[[*names, *(n for n in table if n not in names)]]
        table.attrs["contains_private_statistics"] = self.contains_private_statistics
        return table

    def _summary_row(
        self, name: str, epsilon: float, runs: pd.DataFrame
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"synthesizer": name, "epsilon": epsilon}
        real = "A" if name == REAL else "B"
        for metric in self._metrics:
            repeats = self.repeats(name, epsilon, real, metric, self._leading)
            row[f"boosting_{metric}"] = repeats.mean()
            row[f"boosting_{metric}_sd"] = repeats.std()
        for setting, ending in ((real, ""), ("C", "_C")):
            for metric in self._metrics:
                repeats = self.repeats(name, epsilon, setting, metric)
                row[f"{metric}{ending}"] = repeats.mean()
                row[f"{metric}{ending}_sd"] = repeats.std()
        for setting, names in _TABLE_METRICS.items():
            for of_table in names:
                row[of_table] = self.repeats(name, epsilon, setting, of_table).mean()
        costs = {name: how for name, how in _COSTS.items() if name in runs}
        row |= runs.agg(costs).to_dict() | {"n_runs": len(runs)}
        if "error" in runs:
            row["n_failed"] = int((runs["error"] != "").sum())
        return row

    def repeats(
        self,
        synthesizer: str,
        epsilon: float,
        setting: str,
        metric: str,
        classifier: str | None = None,
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
        classifier : str or None, default=None
            One of them alone, or all.

        Returns
        -------
        Series of shape (n_repeats_that_have_it,)
            Values by repeat. Of all, "HistGradientBoosting" is left out unless it is
            alone.
        """
        found = self.scores
        found = found[(found["setting"] == setting) & (found["metric"] == metric)]
        found = found[found["synthesizer"] == synthesizer]
        same = found["epsilon"] == epsilon
        found = found[found["epsilon"].isna() if math.isnan(epsilon) else same]
        kept = averaged(found["classifier"]) if classifier is None else [classifier]
        found = found[found["classifier"].isin(kept)]
        return found.groupby("repeat")["value"].mean()

    @property
    def _metrics(self) -> list[Metric]:
        """The metrics of the classifiers or regressors, the one that ranks first."""
        found = set(self.scores["metric"])
        return [name for name in METRICS if name in found] or list(METRICS)[:2]

    @property
    def _leading(self) -> str:
        """The classifier whose scores lead; empty if it was not scored."""
        scored = set(self.scores["classifier"])
        return next((name for name in LEADING if name in scored), "")

    @property
    def _names(self) -> list[str]:
        """The synthesizers in the order given."""
        return [n for n in dict.fromkeys(self.runs["synthesizer"]) if n != REAL]

    def plot_tradeoff(
        self,
        ax: Axes | None = None,
        *,
        metric: Metric | None = None,
        setting: Literal["B", "C"] = "B",
        classifier: str | None = None,
    ) -> Axes:
        """Plot a score against epsilon.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None makes a new figure.
        metric : {"auroc", "auprc", "r2", "rmse"} or None, default=None
            None takes "auroc", or "r2" where the target is a number.
        setting : {"B", "C"}, default="B"
            Setting of the synthesizers; the line of real rows is A beside B, else C.
        classifier : str or None, default=None
            Whose score: one of the classifiers or regressors, or "mean". None takes
            gradient boosting if it was scored, else the mean.

        Returns
        -------
        Axes
            A line for each synthesizer, with a band, or with four lines or more with
            bars, of one standard deviation of the repeats on either side; of more than
            seven the seven best in the mean over all epsilons, and thin grey lines for
            the others. A dashed line for real rows, and a dotted one for the
            independent baseline, the first `IndependentSynthesizer`, if any.

        Raises
        ------
        ValueError
            If no run has such scores.
        """
        metric = self._checked(metric, setting)
        whose = self._leading or "mean" if classifier is None else classifier
        one = None if whose == "mean" else whose
        curves = {n: self._curve(n, setting, metric, one) for n in self._names}
        curves = {name: curve for name, curve in curves.items() if curve}
        if not curves:
            raise ValueError(_nothing(f"scores {metric!r} in Setting {setting}"))
        own, styles = ax is None, _plots.styles_of(self._names)
        ax = _plots.new_grid(1, 1, (6.4, 4.4))[0, 0] if ax is None else ax
        of_class = self.runs["class"] == _BASELINE_CLASS
        baseline = next(iter(self.runs.loc[of_class, "synthesizer"]), "")
        _plots.draw_curves(ax, curves, styles, baseline, largest=metric != "rmse")
        real = self.repeats(REAL, math.nan, REFERENCE[setting], metric, one)
        if len(real):
            label = _plots.REAL_ROWS[setting]
            ax.axhline(real.mean(), color="black", linestyle="--", label=label)
        panel = "regressors" if metric in ("r2", "rmse") else "classifiers"
        of = f"mean of {panel}" if one is None else one
        ax.set_ylabel(f"{METRICS[metric]}, {'boosting' if one in LEADING else of}")
        ax.set_title(_plots.SETTINGS[setting], fontsize=_plots.TITLE)
        self._finish([ax], own)
        return ax

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
        metric = self._checked(metric, setting)
        scores = self.scores[self.scores["metric"] == metric]
        chosen = scores[(scores["setting"] == setting) & scores["epsilon"].notna()]
        at = _epsilon(set(chosen["epsilon"]), epsilon)
        chosen = chosen[chosen["epsilon"].isin([at, math.inf])]
        if chosen.empty:
            raise ValueError(_nothing(f"scores {metric!r} in Setting {setting}"))
        table = chosen.pivot_table(
            index="classifier", columns="synthesizer", values="value", sort=False
        )
        real = scores[scores["synthesizer"] == REAL]
        real = real[real["setting"] == REFERENCE[setting]]
        real = real.groupby("classifier")["value"].mean()
        order = (real if len(real) else table.mean(axis=1)).sort_values().index
        own, size = ax is None, (6.4, 1.7 + 0.3 * len(order))
        ax = _plots.new_grid(1, 1, size)[0, 0] if ax is None else ax
        styles = _plots.styles_of(self._names)
        _plots.draw_marks(ax, table.loc[order], real.reindex(order), styles, setting)
        ax.set_xlabel(f"{METRICS[metric]}, mean of repeats")
        title = f"epsilon = {at:g}: " if at < math.inf else ""
        ax.set_title(title + _plots.SETTINGS[setting], fontsize=_plots.TITLE)
        self._finish([ax], own)
        return ax

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
        samples = self._samples_at(epsilon)
        names = [column.name for column in next(iter(samples.values()))]
        if columns is None:
            others = [name for name in names if name != self.target]
            columns = [name for name in names if name == self.target] + others[:7]
        unknown = [name for name in columns if name not in names]
        if unknown or not len(columns):
            msg = f"columns must be some of {names}. Got {unknown or 'none'} instead."
            raise ValueError(msg)
        own = axes is None
        given = np.ravel(np.asarray(_plots.new_row(len(columns)) if own else axes))
        if len(given) < len(columns):
            msg = f"axes must hold {len(columns)} Axes. Got {len(given)} instead."
            raise ValueError(msg)
        styles = _plots.styles_of(self._names)
        styles = {name: styles[name] for name in styles if name in samples}
        for ax, name in zip(given, columns, strict=False):
            real = [m for m in self._real_marginals if m.sides[0].name == name]
            _plots.draw_marginal(ax, name, next(iter(real), None), samples, styles)
        entries: dict[str, Any] = {
            _plots.drawable(name): mpl.lines.Line2D([], [], **style)
            for name, style in styles.items()
        }
        if self._real_marginals:
            entries = {
                "real rows": mpl.patches.Patch(color=_plots.REAL_FILL),
                **entries,
            }
        self._finish(list(given[: len(columns)]), own, entries)
        return given[: len(columns)]

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
            by Cramer's V, among the target and the first 30 other columns. Real test
            rows choose them and come first; where they may not be shown, synthetic ones
            choose. Then up to 1,000 rows of the first run of each synthesizer. The
            darker a cell, the more rows it has; numbers are cut at eighths of the rows
            that choose.

        Raises
        ------
        ValueError
            If no run has samples, or the axes are too few.
        """
        samples = self._samples_at(epsilon)
        pairs = self._real_pairs or strongest_pairs(_plots.pooled(samples), self.target)
        titles = [*(["real rows"] if self._real_pairs else []), *samples]
        shape = len(pairs), len(titles)
        size = (2.3 + 1.9 * shape[1], 0.8 + 2.5 * shape[0])
        given = _plots.new_grid(*shape, size) if axes is None else np.atleast_2d(axes)
        if given.ndim != 2 or (np.array(given.shape) < shape).any():
            msg = f"axes must have the shape {shape}. Got {given.shape} instead."
            raise ValueError(msg)
        given = given[: shape[0], : shape[1]]
        for row, pair in zip(given, pairs, strict=True):
            parts = [pair.shares_of(sample) for sample in samples.values()]
            _plots.draw_pair(
                row, pair, [pair.shares, *parts] if self._real_pairs else parts
            )
        for ax, title in zip(given[0], titles, strict=True):
            ax.set_title(_plots.drawable(title, 20), fontsize=_plots.TITLE)
        _plots.add_footer(given[0, 0].figure, self.contains_private_statistics)
        return given

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

    def to_html(self, path: str | os.PathLike[str], private: bool = True) -> None:
        """Write one self-contained page: tables, plots, claims and how to read them.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.
        private : bool, default=True
            False writes `public_part` only.
        """
        shown = self if private else self.public_part()
        meta = {"contains_private_statistics": shown.contains_private_statistics}
        Document(_page(shown), meta).to_html(path)

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

    def _checked(self, metric: Metric | None, setting: str) -> Metric:
        """Return the metric to plot; refuse one, or a setting, that is not known."""
        metric = metric or self._metrics[0]
        check_range("metric", metric, metric in METRICS, f"one of {[*METRICS]}")
        expected = f"one of {[*_plots.SETTINGS]}"
        check_range("setting", setting, setting in _plots.SETTINGS, expected)
        return metric

    def _curve(
        self, name: str, setting: str, metric: str, classifier: str | None
    ) -> dict[float, tuple[float, float]]:
        """Return mean and deviation of the repeats at each epsilon, in order."""
        epsilons = self.runs.loc[self.runs["synthesizer"] == name, "epsilon"]
        found = {
            e: self.repeats(name, e, setting, metric, classifier)
            for e in sorted({*epsilons})
        }
        return {
            e: (repeats.mean(), repeats.std() if len(repeats) > 1 else 0.0)
            for e, repeats in found.items()
            if len(repeats)
        }

    def _samples_at(self, epsilon: float | None) -> dict[str, Sequence[PlainColumn]]:
        """Return the samples at one epsilon, and those without noise; at least one."""
        if not self._samples:
            raise ValueError(_nothing("samples"))
        chosen = _epsilon({e for _, e in self._samples}, epsilon)
        return {
            name: sample
            for (name, e), sample in self._samples.items()
            if e in (chosen, math.inf)
        }

    def _finish(
        self, axes: Sequence[Axes], own: bool, entries: dict[str, Any] | None = None
    ) -> None:
        """Add legend and footer; the legend of our own figure is above the axes."""
        figure = axes[0].figure
        for ax in axes:
            ax.spines[["top", "right"]].set_visible(False)
        if entries is None:
            handles, labels = axes[0].get_legend_handles_labels()
            entries = dict(zip(labels, handles, strict=True))
        options: dict[str, Any] = {"fontsize": _plots.SMALL, "frameon": False}
        if own:
            options |= {"loc": "outside upper center", "ncols": 3}
        (figure if own else axes[0]).legend(entries.values(), entries, **options)
        _plots.add_footer(figure, self.contains_private_statistics)


_BASELINE_CLASS = "IndependentSynthesizer"


def _epsilon(available: set[float], epsilon: float | None) -> float:
    """Choose the epsilon of a plot: the one asked for, or the smallest."""
    known = epsilon is None or epsilon in available
    check_range("epsilon", epsilon, known, f"one of {sorted(available)}")
    return min(available, default=math.inf) if epsilon is None else epsilon


def _nothing(what: str) -> str:
    return (
        f"Expected at least one run with {what}, but there is none. Plot something "
        "else, or compare again so that there is; the column 'error' of `runs` says "
        "what failed."
    )


_MEANING = {
    True: "Keep this page with the private table. A synthesizer, an epsilon or a seed "
    "that is chosen by it is a choice that no epsilon covers.",
    False: "What was computed from real rows is left out, and so is every run without "
    "a guarantee. The claims below add up: this page as a whole is covered by their "
    "sum.",
}
_IN_C = (
    "like all that end in _C: learnt from four fifths of the table itself, tested on "
    "the other fifth"
)
# The tables of the summary, by how the names of their columns begin; last what is
# left.
_PARTS = {
    "What leads": ("boosting_", *_LEAD, "broken"),
    "All classifiers": ("rank", "auroc", "auprc", "r2", "rmse", "sra_"),
    "Likeness": ("feature_ranking", "ks", "tv", "missing", "pairs", "two_sample"),
    "Costs": (),
}
# How to read the summary, by the beginning of the name of a column.
_COLUMNS = {
    "boosting": "auroc and auprc, or r2 and rmse, of gradient boosting that learnt "
    "from the table, tested on real rows",
    "two_way": "mean distance of 2-way marginals to those of real rows, 0 is best",
    "c2st": "AUC of gradient boosting that separates the table from real rows, 0.5 is "
    "best",
    "rank": "by auroc, or r2, at this epsilon, 1 is best",
    "auroc": "area under the ROC curve, mean of classifiers and repeats, and standard "
    "deviation of the repeats",
    "auprc": "the same of average precision",
    "r2": "share of the variance that is explained, mean of regressors and repeats, "
    "and standard deviation of the repeats; 1 is best, 0 is what the mean gets",
    "rmse": "root of the mean squared error, in the unit of the target",
    "auroc_C": _IN_C,
    "r2_C": _IN_C,
    "sra_": "share of pairs of classifiers in the same order as on real rows; what "
    "real data has is what as many real rows get",
    "feature_ranking": "share of pairs of features in the same order as in real rows",
    "ks": "Kolmogorov-Smirnov distance to real rows, mean of the numbers, 0 is best",
    "tv": "total variation distance to real rows, mean of the categories, 0 is best",
    "missing": "difference of the shares of missing values, 0 is best",
    "pairs": "difference of the dependence of two columns, mean of pairs, 0 is best",
    "broken": "share of rows that break a relation between two columns of real rows; "
    "what real data has is what other real rows get",
    "two_sample": "the same of a linear model and of a forest",
    "epsilon_spent": "what one fit guarantees, with delta",
    "peak_mb": "highest resident memory of the process while it fitted and sampled, "
    "minus that before",
}
# How numbers are written, by column; three decimals elsewhere.
_FORMATS = {"epsilon": ".4g", "rank": "g", "peak_mb": ".0f"}
_BOUNDS = ("epsilon_spent", "epsilon spent by one fit", "delta")  # rounded up
_CLAIMS = (
    "What the fits guarantee when one row is added to the private table or removed "
    "from it. Every fit spends its own: all {n} fits together are ({epsilon}, "
    "{delta})-differentially private."
)
_NOT_PRIVATE = "{n} more fits have no guarantee (epsilon is infinite)."
_UNKNOWN = "{n} more fits failed or make no claim; what they spent is not known here."
_DEVIATIONS = (
    "The band, or the bar, is one standard deviation of the repeats on either side."
)
# Of both plots of samples: its title, how to read it, and what a picture shows.
_DRAWN = (
    (
        "Columns",
        (
            "Up to 1,000 rows of the first run of each synthesizer, and all real test "
            "rows (grey) where they may be shown."
        ),
        "shares of the values of columns",
    ),
    (
        "Pairs of columns",
        (
            "Those that depend on each other most: in real test rows, which come first,"
            " where they may be shown, and else in the synthetic rows. The darker a "
            "cell, the more rows it has; a number stands where its cell begins. Two "
            "columns are independent where every row of cells has the same pattern."
        ),
        "2-way marginals of pairs of columns",
    ),
)


def _page(result: ComparisonResult) -> Iterator[Block]:
    """Lay a result out: claims, tables and plots, and how to read them."""
    private = result.contains_private_statistics
    yield Heading("Comparison of synthesizers", 1)
    yield f"{_plots.FOOTERS[private]}. {_MEANING[private]}"
    yield Heading("Claims")
    yield from _claims(result.runs[result.runs["synthesizer"] != REAL])
    yield Heading("Summary")
    yield from _summary(result.summary())
    in_b = bool((result.scores["setting"] == "B").any())
    setting: Literal["B", "C"] = "B" if in_b else "C"
    scored = result.scores[result.scores["setting"] == setting]
    if (scored["synthesizer"] != REAL).any():
        yield Heading("Score against epsilon")
        yield _DEVIATIONS
        for metric in result._metrics:
            ax = result.plot_tradeoff(metric=metric, setting=setting)
            says = f"{metric} of each synthesizer against epsilon"
            yield _plots.picture(ax, says)
        yield Heading("Classifiers")
        yield from _classifiers(result, setting)
    for plot, (title, reading, says) in zip(
        (result.plot_marginals, result.plot_pairs), _DRAWN, strict=True
    ):
        epsilons = _epsilons(epsilon for _, epsilon in result._samples)
        if epsilons:
            yield Heading(title)
            yield reading
        for epsilon in epsilons:
            yield Heading(f"epsilon {epsilon:g}", 3)
            ax = plot(epsilon=epsilon).flat[0]
            yield _plots.picture(ax, f"{says} at epsilon {epsilon:g}")
    yield Heading("Runs")
    yield "Every fit and sample, and what it took, where that may be shown."
    yield _grid(result.runs)
    yield f"Written by skdpsynth {package_version()}."
    yield f"{_plots.FOOTERS[private]}. contains_private_statistics = {private}"


def _claims(runs: pd.DataFrame) -> Iterator[Block]:
    """Write what was spent, by each synthesizer and together."""
    finite = runs[np.isfinite(runs["epsilon_spent"])]
    total = finite[["epsilon_spent", "delta"]].sum()
    epsilon, delta = (claim(float(total[name])) for name in total.index)
    text = _CLAIMS.format(n=len(finite), epsilon=epsilon, delta=delta)
    others = {
        _NOT_PRIVATE: int(np.isinf(runs["epsilon_spent"]).sum()),
        _UNKNOWN: int(runs["epsilon_spent"].isna().sum()),
    }
    yield text + "".join(f" {more.format(n=n)}" for more, n in others.items() if n)
    groups = runs.groupby(["synthesizer", "class", "epsilon"], sort=False)
    table = groups[["epsilon_spent", "delta"]].max().reset_index()
    table.insert(3, "fits", groups.size().to_numpy())
    yield _grid(table.rename(columns={"epsilon_spent": "epsilon spent by one fit"}))


def _summary(summary: pd.DataFrame) -> Iterator[Block]:
    """Lay the summary out as tables that are no wider than a page, and say what it is.

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
    for title, begins in _PARTS.items():
        names = [name for name in texts if name.startswith(begins) or not begins]
        columns = key | {name: texts.pop(name) for name in names}
        if names:
            yield Heading(title, 3)
            yield Grid([*columns], list(zip(*columns.values(), strict=True)))
    shown = {
        start: meaning
        for start, meaning in _COLUMNS.items()
        if any(name.startswith(start) for name in summary.columns)
    }
    yield Items([f"{start}: {meaning}" for start, meaning in shown.items()])


def _classifiers(
    result: ComparisonResult, setting: Literal["B", "C"]
) -> Iterator[Block]:
    """Draw and tabulate the classifiers at every finite epsilon."""
    scores = result.scores[result.scores["classifier"] != ALL]
    reference = scores["synthesizer"] == REAL
    shown = np.where(reference, REFERENCE[setting], setting)
    scores = scores[scores["setting"] == shown]
    for epsilon in _epsilons(scores["epsilon"].dropna()):
        ax = result.plot_classifiers(setting=setting, epsilon=epsilon)
        says = f"{result._metrics[0]} of each classifier at epsilon {epsilon:g}"
        yield _plots.picture(ax, says)
    runs = zip(scores["synthesizer"], scores["epsilon"], strict=True)
    names = [n if np.isnan(e) else f"{n}, epsilon {e:g}" for n, e in runs]
    table = scores.assign(run=names).pivot_table(
        index=["metric", "classifier"], columns="run", values="value", sort=False
    )
    for metric in result._metrics:
        rows = table.loc[metric].copy()
        rows.loc["mean"] = rows.loc[averaged(rows.index)].mean()
        yield Heading(metric, 3)
        yield _grid(rows.reset_index())


def _epsilons(several: Iterable[float]) -> list[float]:
    """Return the finite epsilons in order, or the infinite one if it is alone."""
    present = sorted(set(several))
    return [e for e in present if np.isfinite(e)] or present[:1]


def _grid(table: pd.DataFrame) -> Grid:
    columns = [_texts(name, table[name]) for name in table]
    return Grid([*map(str, table)], list(zip(*columns, strict=True)))


def _texts(name: str, column: pd.Series) -> list[str]:
    """Write every value of a column rounded, and what is missing as a dash."""
    texts = []
    for value in column:
        if isinstance(value, float) and not np.isnan(value):
            form = f"{value:{_FORMATS.get(name, '.3f')}}"
            texts.append(claim(value) if name in _BOUNDS else form)
        else:
            texts.append("-" if pd.isna(value) else str(value))
    return texts
