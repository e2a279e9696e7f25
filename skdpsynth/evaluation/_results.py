"""What a comparison gives: tables of scores, plots, and a page of both."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from skdpsynth.evaluation import _plots
from skdpsynth.evaluation._page import (
    claim_tables,
    classifier_tables,
    epsilons_of,
    grid,
    scores_of,
    summary_tables,
)
from skdpsynth.evaluation._plots import Marginal, PlainColumn, strongest_pairs
from skdpsynth.evaluation._runs import (
    LEADING,
    METRICS,
    REAL,
    REFERENCE,
    Metric,
    package_version,
)
from skdpsynth.exceptions import check_range
from skdpsynth.metrics import averaged
from skdpsynth.utils import Block, Document, Heading

RUN = ["synthesizer", "epsilon", "repeat"]  # identifies a run
# What the curator may see of a run and others may not: time and memory follow the
# number of rows (of sampling too: it is measured in the process that holds them), and
# errors and warnings their values.
_CURATOR_ONLY = ["fit_s", "sample_s", "score_s", "peak_mb", "warned", "error"]
_COSTS = dict.fromkeys(["epsilon_spent", "delta", "fit_s", "sample_s"], "mean")
_COSTS["peak_mb"] = "max"  # the first run in a process loads libraries too
# Metrics of whole tables in the order of the summary.
_LEAD = ["two_way", "c2st"]
# That of rmse is that of r2, as both follow the squared error.
_AGREEMENTS = ["sra_auroc", "sra_auprc", "sra_r2"]
_FIDELITY = [
    *("broken", "feature_ranking", "ks", "tv", "missing", "pairs"),
    *("two_sample_linear", "two_sample_forest"),
]


@dataclass(eq=False)
class ComparisonResult:
    """What `compare_synthesizers` found.

    Parameters
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
    samples : dict of (name, epsilon) to list of PlainColumn
        Some synthetic rows of each synthesizer, for plots.
    real_marginals : list of Marginal
        Shares of the real columns; empty if none may be shown.
    target : str
        The column to predict.
    real_pairs : list of Marginal, default=()
        Shares of pairs of real columns; empty if none may be shown.
    contains_private_statistics : bool, default=True
        Whether anything here was computed from real rows beside the fits themselves.
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

    scores: pd.DataFrame
    runs: pd.DataFrame
    samples: Mapping[tuple[str, float], Sequence[PlainColumn]]
    real_marginals: Sequence[Marginal]
    target: str
    _: KW_ONLY
    real_pairs: Sequence[Marginal] = ()
    contains_private_statistics: bool = True

    def __post_init__(self) -> None:
        for table in (self.scores, self.runs):
            self._marked(table)

    def _marked(self, table: pd.DataFrame) -> pd.DataFrame:
        table.attrs["contains_private_statistics"] = self.contains_private_statistics
        return table

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
        return self._marked(table.dropna(axis="columns", how="all"))

    def _summary_row(
        self, name: str, epsilon: float, runs: pd.DataFrame
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"synthesizer": name, "epsilon": epsilon}
        real = "A" if name == REAL else "B"
        for setting, column, metrics, classifier in (
            (real, "boosting_{}", self._metrics, self._leading),
            ("fidelity", "{}", _LEAD, None),
            (real, "{}", self._metrics, None),
            ("C", "{}_C", self._metrics, None),
            ("AC", "{}", _AGREEMENTS, None),
            ("fidelity", "{}", _FIDELITY, None),
        ):
            for metric in metrics:
                repeats = self.repeats(name, epsilon, setting, metric, classifier)
                row[column.format(metric)] = repeats.mean()
                if metric in METRICS:
                    row[column.format(metric) + "_sd"] = repeats.std()
        costs = {cost: how for cost, how in _COSTS.items() if cost in runs}
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
        means = self._means(setting, metric, classifier)
        means = means[means["synthesizer"] == synthesizer]
        missing = math.isnan(epsilon)
        same = means["epsilon"].isna() if missing else means["epsilon"] == epsilon
        return means[same].set_index("repeat")["value"]

    def _means(self, setting: str, metric: str, classifier: str | None) -> pd.DataFrame:
        """Return the mean over the classifiers, or the score of one, of every run."""
        scores = self.scores
        scores = scores[(scores["setting"] == setting) & (scores["metric"] == metric)]
        kept = averaged(scores["classifier"]) if classifier is None else [classifier]
        scores = scores[scores["classifier"].isin(kept)]
        return scores.groupby(RUN, dropna=False)["value"].mean().reset_index()

    @property
    def _metrics(self) -> list[Metric]:
        """The metrics of the classifiers or regressors, the one that ranks first."""
        scored = set(self.scores["metric"])
        return [name for name in METRICS if name in scored] or list(METRICS)[:2]

    @property
    def _leading(self) -> str:
        """The classifier whose scores lead; empty if it was not scored."""
        scored = set(self.scores["classifier"])
        return next((name for name in LEADING if name in scored), "")

    @property
    def _styles(self) -> _plots.Styles:
        """How the synthesizers are drawn, in the order given."""
        names = dict.fromkeys(self.runs["synthesizer"])
        return _plots.styles_of([name for name in names if name != REAL])

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
            A line for each synthesizer, with bars of one standard deviation of the
            repeats on either side; of more than seven the seven best in the mean over
            all epsilons, and thin grey lines for the others. A dashed line for real
            rows, and a dotted one for the independent baseline, the first
            `IndependentSynthesizer`, if any.

        Raises
        ------
        ValueError
            If no run has such scores.
        """
        metric = self._checked(metric, setting)
        whose = self._leading or "mean" if classifier is None else classifier
        one = None if whose == "mean" else whose
        means, styles = self._means(setting, metric, one), self._styles
        # The reference has no epsilon, and so no curve.
        points = means.groupby(["synthesizer", "epsilon"])["value"].agg(["mean", "std"])
        curves = {n: points.loc[n].fillna(0.0) for n in styles if n in points.index}
        if not curves:
            raise ValueError(_nothing(f"scores {metric!r} in Setting {setting}"))
        given, ax = ax, ax or _plots.new_grid(1, 1, (6.4, 4.4))[0, 0]
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
        _plots.finish([ax], given is None, self.contains_private_statistics)
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
        size = 6.4, 1.7 + 0.3 * len(order)
        given, ax = ax, ax or _plots.new_grid(1, 1, size)[0, 0]
        _plots.draw_marks(
            ax, table.loc[order], real.reindex(order), self._styles, setting
        )
        ax.set_xlabel(f"{METRICS[metric]}, mean of repeats")
        title = f"epsilon = {at:g}: " if at < math.inf else ""
        ax.set_title(title + _plots.SETTINGS[setting], fontsize=_plots.TITLE)
        _plots.finish([ax], given is None, self.contains_private_statistics)
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
        given = given[: len(columns)]
        styles = {n: style for n, style in self._styles.items() if n in samples}
        real = {marginal.sides[0].name: marginal for marginal in self.real_marginals}
        for ax, name in zip(given, columns, strict=True):
            _plots.draw_marginal(ax, name, real.get(name), samples, styles)
        entries: dict[str, Any] = {
            _plots.drawable(name): mpl.lines.Line2D([], [], **style)
            for name, style in styles.items()
        }
        if real:
            grey = mpl.patches.Patch(color=_plots.REAL_FILL)
            entries = {"real rows": grey, **entries}
        _plots.finish(list(given), own, self.contains_private_statistics, entries)
        return given

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
        samples, pairs = self._samples_at(epsilon), self.real_pairs
        titles = ["real rows", *samples] if pairs else list(samples)
        chosen = pairs or strongest_pairs(_plots.pooled(samples), self.target)
        shape = len(chosen), len(titles)
        size = (2.3 + 1.9 * shape[1], 0.8 + 2.5 * shape[0])
        given = _plots.new_grid(*shape, size) if axes is None else np.atleast_2d(axes)
        if given.ndim != 2 or (np.array(given.shape) < shape).any():
            msg = f"axes must have the shape {shape}. Got {given.shape} instead."
            raise ValueError(msg)
        given = given[: shape[0], : shape[1]]
        for row, pair in zip(given, chosen, strict=True):
            parts = [pair.shares_of(sample) for sample in samples.values()]
            _plots.draw_pair(row, pair, [pair.shares, *parts] if pairs else parts)
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
        samples = {of: s for of, s in self.samples.items() if (*of, 0) in keys}
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
        Document(shown._page(), meta).to_html(path)

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

    def _page(self) -> Iterator[Block]:
        """Lay a result out: claims, tables and plots, and how to read them."""
        private = self.contains_private_statistics
        yield Heading("Comparison of synthesizers", 1)
        yield f"{_plots.FOOTERS[private]}. {_MEANING[private]}"
        yield Heading("Claims")
        yield from claim_tables(self.runs)
        yield Heading("Summary")
        yield from summary_tables(self.summary())
        in_b = bool((self.scores["setting"] == "B").any())
        setting: Literal["B", "C"] = "B" if in_b else "C"
        scores = scores_of(self.scores, setting)
        if (scores["synthesizer"] != REAL).any():
            yield Heading("Score against epsilon")
            yield "A bar is one standard deviation of the repeats on either side."
            for metric in self._metrics:
                ax = self.plot_tradeoff(metric=metric, setting=setting)
                says = f"{metric} of each synthesizer against epsilon"
                yield _plots.picture(ax, says)
            yield Heading("Classifiers")
            for epsilon in epsilons_of(scores["epsilon"].dropna()):
                ax = self.plot_classifiers(setting=setting, epsilon=epsilon)
                says = f"{self._metrics[0]} of each classifier at epsilon {epsilon:g}"
                yield _plots.picture(ax, says)
            yield from classifier_tables(scores, self._metrics)
        epsilons = epsilons_of(epsilon for _, epsilon in self.samples)
        for plot, title, reading, what in (
            (self.plot_marginals, "Columns", _COLUMNS, "values of columns"),
            (self.plot_pairs, "Pairs of columns", _PAIRS, "values of pairs of columns"),
        ):
            if epsilons:
                yield Heading(title)
                yield reading
            for epsilon in epsilons:
                yield Heading(f"epsilon {epsilon:g}", 3)
                says = f"shares of the {what} at epsilon {epsilon:g}"
                yield _plots.picture(plot(epsilon=epsilon).flat[0], says)
        yield Heading("Runs")
        yield "Every fit and sample, and what it took, where that may be shown."
        yield grid(self.runs)
        yield f"Written by skdpsynth {package_version()}."
        yield f"{_plots.FOOTERS[private]}. contains_private_statistics = {private}"

    def _checked(self, metric: Metric | None, setting: str) -> Metric:
        """Return the metric to plot; refuse one, or a setting, that is not known."""
        metric = metric or self._metrics[0]
        check_range("metric", metric, metric in METRICS, f"one of {[*METRICS]}")
        expected = f"one of {[*_plots.SETTINGS]}"
        check_range("setting", setting, setting in _plots.SETTINGS, expected)
        return metric

    def _samples_at(self, epsilon: float | None) -> dict[str, Sequence[PlainColumn]]:
        """Return the samples at one epsilon, and those without noise; at least one."""
        if not self.samples:
            raise ValueError(_nothing("samples"))
        at = _epsilon({e for _, e in self.samples}, epsilon), math.inf
        return {name: rows for (name, e), rows in self.samples.items() if e in at}


_BASELINE_CLASS = "IndependentSynthesizer"
# How to read the page, and the plots of samples.
_MEANING = {
    True: "Keep this page with the private table. A synthesizer, an epsilon or a seed "
    "that is chosen by it is a choice that no epsilon covers.",
    False: "What was computed from real rows is left out, and so is every run without "
    "a guarantee. The claims below add up: this page as a whole is covered by their "
    "sum.",
}
_COLUMNS = (
    "Up to 1,000 rows of the first run of each synthesizer, and all real test rows "
    "(grey) where they may be shown."
)
_PAIRS = (
    "Those that depend on each other most: in real test rows, which come first, where "
    "they may be shown, and else in the synthetic rows. The darker a cell, the more "
    "rows it has; a number stands where its cell begins. Two columns are independent "
    "where every row of cells has the same pattern."
)


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
