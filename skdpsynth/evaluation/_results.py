"""What a comparison found: scores, costs, and pictures of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from skdpsynth.evaluation import _plots
from skdpsynth.evaluation._runs import (
    ALL,
    LEADING,
    METRICS,
    REAL,
    REFERENCE,
    RUN,
    Metric,
    package_version,
)
from skdpsynth.metrics import averaged
from skdpsynth.privacy import claim
from skdpsynth.utils import (
    Block,
    Document,
    Grid,
    Heading,
    Items,
    check_range,
    drawable,
    picture,
    warn_deprecated,
    without,
)

# What the curator may see of a run and others may not: time follows the number of rows
# (of sampling too: it is measured in the process that holds them), and errors and
# warnings their values.
_CURATOR_ONLY = ["fit_s", "sample_s", "score_s", "warned", "error"]
_COSTS = dict.fromkeys(["epsilon_spent", "delta", "fit_s", "sample_s"], "mean")
# The columns of the summary in their order, under the titles of its tables.
_SUMMARY = {
    "What leads": {
        "boosting_auroc boosting_auprc boosting_r2 boosting_rmse": "scores of gradient "
        "boosting that learnt from the table, tested on real rows",
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
        "auroc_C auprc_C r2_C rmse_C": "learnt from four fifths of the table itself, "
        "tested on the other fifth",
        # That of rmse is that of r2, as both follow the squared error.
        "sra_auroc sra_auprc sra_r2": "share of pairs of classifiers in the same order "
        "as on real rows; what real data has is what as many real rows get",
        "feature_ranking": "share of pairs of features in the same order as in real "
        "rows",
    },
    "Costs": {
        "epsilon_spent delta fit_s sample_s n_runs n_failed": "means; epsilon_spent is "
        "what one fit guarantees, with delta"
    },
}
# How numbers are written, by column; three decimals elsewhere.
_FORMATS = {"epsilon": ".4g", "rank": "g"}
_BOUNDS = ("epsilon_spent", "epsilon spent by one fit", "delta")  # rounded up


_BASELINE_CLASS = "IndependentSynthesizer"
_OLD = {"since": "0.3", "removed_in": "0.5"}
_SETTING_REMEDY = "Leave it out: Setting B is drawn, and C where there is no B."


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
        `score_s` (seconds), `warned` and `error` (texts, empty if all went well).
    samples : dict of (name, epsilon) to DataFrame
        Up to 1,000 rows of the first run of each synthesizer, for plots; none of runs
        that were read from a folder.
    target : str
        The column to predict.
    real_pairs : list of Pair, default=()
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
    """

    scores: pd.DataFrame
    runs: pd.DataFrame
    samples: Mapping[tuple[str, float], pd.DataFrame]
    target: str
    _: KW_ONLY
    real_pairs: Sequence[_plots.Pair] = ()
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
            separates synthetic from real rows (0.5 is best); `broken`, the share of
            rows that break a relation between two columns. Then `auroc` and
            `auprc` (of regressors `r2` and `rmse`) are means over classifiers and
            repeats, tested on real rows (Setting B, for the reference A), `auroc_sd`
            and `auprc_sd` the standard deviations of the repeats, `rank` the place by
            `auroc`, or `r2`, at this epsilon, 1 the best; then Setting C; the ranking
            agreements `sra_auroc` and `sra_auprc`, or `sra_r2`, and `feature_ranking`
            (1 is best; those of the reference are what as many real rows get); means
            of what the runs cost; `n_runs` and `n_failed`. What was not computed has no
            column, or NaN.
        """
        by, scores = ["synthesizer", "epsilon"], self.scores
        whose, real = scores["classifier"], scores["setting"].isin(["A", "B"])
        name = scores["metric"] + np.where(scores["setting"] == "C", "_C", "")
        of_all = whose.isin([ALL, *averaged({*whose} - {ALL})])
        leads = real & (whose == self._leading)
        boosted = scores[leads].assign(name="boosting_" + name)
        scores = pd.concat([scores[of_all].assign(name=name), boosted])
        repeats = scores.groupby([*by, "repeat", "name"], dropna=False)["value"].mean()
        over = repeats.groupby([*by, "name"], dropna=False)
        means, spreads = (t.unstack("name") for t in (over.mean(), over.std()))  # noqa: PD010
        of_tables = scores.loc[scores["classifier"] == ALL, "name"].unique()
        spreads = spreads.drop(columns=of_tables).add_suffix("_sd")
        groups = self.runs.groupby(by, sort=False, dropna=False)
        costs = {name: how for name, how in _COSTS.items() if name in self.runs}
        table = groups.agg(costs).join(means).join(spreads).assign(n_runs=groups.size())
        if "error" in self.runs:
            table["n_failed"] = groups["error"].agg(lambda errors: (errors != "").sum())
        if self._metrics[0] in table:
            # The epsilon of the reference is NaN, and so is its rank.
            ranked = table.groupby("epsilon")[self._metrics[0]]
            table["rank"] = ranked.rank(ascending=False)
        names = " ".join(names for part in _SUMMARY.values() for names in part).split()
        columns = [column for name in names for column in (name, f"{name}_sd")]
        table = table.reindex(columns=columns).dropna(axis="columns", how="all")
        return self._marked(table.reset_index())

    def repeats(
        self,
        synthesizer: str,
        epsilon: float,
        setting: str,
        metric: str,
        classifier: str | None = None,
    ) -> pd.Series:
        """Average a score over the classifiers, for each repeat; until 0.5."""
        remedy = "Use scores.query(...).groupby('repeat')['value'].mean()."
        warn_deprecated("ComparisonResult.repeats()", **_OLD, remedy=remedy)
        means = self._means(setting, metric, classifier)
        of_run = means["synthesizer"].eq(synthesizer) & means["epsilon"].isin([epsilon])
        return means[of_run].set_index("repeat")["value"]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - until 0.5
        if name not in ("to_csv", "to_parquet"):
            raise AttributeError(f"ComparisonResult has no attribute {name!r}.")
        what = f"ComparisonResult.{name}()"
        warn_deprecated(what, **_OLD, remedy=f"Use scores.{name}(path).")
        return partial(getattr(self.scores, name), index=False)

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
    def _setting(self) -> str:
        """The setting of the synthesizers that is drawn: B, or C without it."""
        return "B" if (self.scores["setting"] == "B").any() else "C"

    @property
    def _styles(self) -> _plots.Styles:
        """How the synthesizers are drawn, in the order given."""
        of_class = self.runs["class"] == _BASELINE_CLASS
        baseline = next(iter(self.runs.loc[of_class, "synthesizer"]), "")
        names = dict.fromkeys(self.runs["synthesizer"])
        return _plots.styles_of((name for name in names if name != REAL), baseline)

    @without(**_OLD, setting=_SETTING_REMEDY)
    def plot_tradeoff(
        self,
        ax: Axes | None = None,
        *,
        metric: Metric | None = None,
        classifier: str | None = None,
    ) -> Axes:
        """Plot a score against epsilon.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None makes a new figure.
        metric : {"auroc", "auprc", "r2", "rmse"} or None, default=None
            None takes "auroc", or "r2" where the target is a number.
        classifier : str or None, default=None
            Whose score: one of the classifiers or regressors, or "mean". None takes
            gradient boosting if it was scored, else the mean.

        Returns
        -------
        Axes
            A line for each synthesizer in Setting B, or C where there is no B, with
            bars of one standard deviation of the repeats on either side. A dashed line
            for real rows (Setting A beside B, else C), and a dotted one for the
            independent baseline, the first `IndependentSynthesizer`, if any.

        Raises
        ------
        ValueError
            If no run has such scores.
        """
        metric, setting = self._checked(metric), self._setting
        whose = self._leading or "mean" if classifier is None else classifier
        one = None if whose == "mean" else whose
        # The reference has no epsilon, and so no curve.
        means = self._means(setting, metric, one).dropna(subset="epsilon")
        if means.empty:
            raise ValueError(_nothing(f"scores {metric!r} in Setting {setting}"))
        points = means.groupby(["synthesizer", "epsilon"])["value"]
        points = points.agg(["mean", "std"]).fillna(0.0)
        given, ax = ax, ax or _plots.new_axes(1, 1, (6.4, 4.4))[0, 0]
        _plots.draw_curves(ax, points, self._styles)
        real = self._means(REFERENCE[setting], metric, one)
        real = real.loc[real["synthesizer"] == REAL, "value"]
        if len(real):
            label = _plots.REAL_ROWS[setting]
            ax.axhline(real.mean(), color="black", linestyle="--", label=label)
        panel = "regressors" if metric in ("r2", "rmse") else "classifiers"
        of = f"mean of {panel}" if one is None else one
        ax.set_ylabel(f"{METRICS[metric]}, {'boosting' if one in LEADING else of}")
        ax.set_title(_plots.SETTINGS[setting], fontsize=_plots.TITLE)
        _plots.finish(ax, given, self.contains_private_statistics)
        return ax

    @without(**_OLD, setting=_SETTING_REMEDY)
    def plot_classifiers(
        self,
        ax: Axes | None = None,
        *,
        metric: Metric | None = None,
        epsilon: float | None = None,
    ) -> Axes:
        """Plot the score of each classifier.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None makes a new figure.
        metric : str or None, default=None
            As in ``plot_tradeoff``; means over the repeats.
        epsilon : float or None, default=None
            Runs of this epsilon, and those without noise. None takes the smallest.

        Returns
        -------
        Axes
            A line for each classifier with a mark for each synthesizer, in the setting
            of ``plot_tradeoff``.

        Raises
        ------
        ValueError
            If no run has such scores.
        """
        metric, setting = self._checked(metric), self._setting
        scores = self.scores[self.scores["metric"] == metric]
        chosen = scores[(scores["setting"] == setting) & scores["epsilon"].notna()]
        at = _epsilon(chosen["epsilon"], epsilon)
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
        given, ax = ax, ax or _plots.new_axes(1, 1, size)[0, 0]
        _plots.draw_classifiers(
            ax, table.loc[order], real.reindex(order), self._styles, setting
        )
        ax.set_xlabel(f"{METRICS[metric]}, mean of repeats")
        title = f"epsilon = {at:g}: " if at < math.inf else ""
        ax.set_title(title + _plots.SETTINGS[setting], fontsize=_plots.TITLE)
        _plots.finish(ax, given, self.contains_private_statistics)
        return ax

    def _checked(self, metric: Metric | None) -> Metric:
        """Return the metric to plot; refuse one that is not known."""
        metric = metric or self._metrics[0]
        check_range("metric", metric, metric in METRICS, f"one of {[*METRICS]}")
        return metric

    def plot_marginals(
        self,
        axes: NDArray[Any] | None = None,
        *,
        columns: Sequence[str] | None = None,
        epsilon: float | None = None,
    ) -> NDArray[Any]:
        """Draw columns of the samples; until 0.5."""
        remedy = "Plot columns of `samples`, or plot_pairs()."
        warn_deprecated("ComparisonResult.plot_marginals()", **_OLD, remedy=remedy)
        drawn = self._samples_at(epsilon)
        names = [*(columns or next(iter(drawn.values())).columns[:8])]
        if axes is None:
            axes = _plots.new_axes(1, len(names), (3.2 * len(names), 3.0))
        for ax, name in zip(np.ravel(axes), names, strict=False):
            parts = [rows[name].dropna() for rows in drawn.values()]
            if pd.api.types.is_numeric_dtype(parts[0]):
                ax.hist(parts, label=[*drawn])
            else:
                shares = [part.value_counts(normalize=True) for part in parts]
                pd.concat(shares, axis=1).plot.bar(ax=ax, legend=False)
            ax.set_title(name)
        return np.ravel(axes)[: len(names)]

    @without(**_OLD, axes="Leave it out: it makes its figure.")
    def plot_pairs(self, *, epsilon: float | None = None) -> NDArray[Any]:
        """Plot the 2-way marginals of pairs of columns, real beside synthetic.

        Parameters
        ----------
        epsilon : float or None, default=None
            Runs of this epsilon, and those without noise. None takes the smallest.

        Returns
        -------
        ndarray of Axes of shape (n_pairs, n_tables)
            Of a new figure. A row for each of the four pairs, or fewer, that depend on
            each other most by Cramer's V, among the target and the first 32 other
            columns. Real test rows choose them and come first; where they may not be
            shown, synthetic ones choose. Then up to 1,000 rows of the first run of each
            synthesizer. The darker a cell, the more rows it has; numbers are cut at
            quantiles of the rows that choose.

        Raises
        ------
        ValueError
            If no run has samples.
        """
        samples, pairs = self._samples_at(epsilon), self.real_pairs
        titles = ["real rows", *samples] if pairs else list(samples)
        pooled = pd.concat(samples.values(), ignore_index=True)
        chosen = pairs or _plots.strongest_pairs(pooled, self.target)
        shape = len(chosen), len(titles)
        size = 2.3 + 1.9 * shape[1], 0.8 + 2.5 * shape[0]
        axes = _plots.new_axes(*shape, size)
        for row, pair in zip(axes, chosen, strict=True):
            parts = [pair.shares_of(sample) for sample in samples.values()]
            _plots.draw_pair(row, pair, [pair.shares, *parts] if pairs else parts)
        for ax, title in zip(axes[0], titles, strict=True):
            ax.set_title(drawable(title, 20), fontsize=_plots.TITLE)
        _plots.add_footer(axes[0, 0].figure, self.contains_private_statistics)
        return axes

    def _samples_at(self, epsilon: float | None) -> dict[str, pd.DataFrame]:
        """Return the samples at one epsilon, and those without noise; at least one."""
        if not self.samples:
            raise ValueError(_nothing("samples"))
        at = _epsilon((e for _, e in self.samples), epsilon), math.inf
        return {name: rows for (name, e), rows in self.samples.items() if e in at}

    def public_part(self) -> ComparisonResult:
        """Keep only what the guarantees of the fits cover.

        Returns
        -------
        ComparisonResult
            Setting C, plots of synthetic rows and what was spent, of the runs with a
            finite epsilon. Left out is what was computed from real rows (Settings A and
            B, ranking agreement, fidelity, pairs of real columns), runs without a
            guarantee or with an error, and what only the curator of the table may see:
            times, errors and warnings. It is covered by the sum of
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
            self.target,
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
        Document(shown._blocks(), meta).to_html(path)

    def _blocks(self) -> Iterator[Block]:
        """Lay a result out: claims, tables and plots, and how to read them."""
        private = self.contains_private_statistics
        yield Heading("Comparison of synthesizers", 1)
        yield f"{_plots.FOOTERS[private]}. {_MEANING[private]}"
        yield Heading("Claims")
        yield from _claim_tables(self.runs)
        yield Heading("Summary")
        yield from _summary_tables(self.summary())
        setting = self._setting
        scores = self.scores[self.scores["classifier"] != ALL]
        of_real = scores["synthesizer"] == REAL
        scores = scores[
            scores["setting"] == np.where(of_real, REFERENCE[setting], setting)
        ]
        if scores["epsilon"].notna().any():
            yield Heading("Score against epsilon")
            yield "A bar is one standard deviation of the repeats on either side."
            for metric in self._metrics:
                ax = self.plot_tradeoff(metric=metric)
                says = f"{metric} of each synthesizer against epsilon"
                yield picture(ax, says)
            yield Heading("Classifiers")
            for epsilon in _finite(scores["epsilon"].dropna()):
                ax = self.plot_classifiers(epsilon=epsilon)
                says = f"{self._metrics[0]} of each classifier at epsilon {epsilon:g}"
                yield picture(ax, says)
        epsilons = _finite(epsilon for _, epsilon in self.samples)
        if epsilons:
            yield Heading("Pairs of columns")
            yield _PAIRS
        for epsilon in epsilons:
            yield Heading(f"epsilon {epsilon:g}", 3)
            says = f"Pairs of columns at epsilon {epsilon:g}: shares of their values"
            yield picture(self.plot_pairs(epsilon=epsilon).flat[0], says)
        yield Heading("Runs")
        yield "Every fit and sample, and what it took, where that may be shown."
        yield grid(self.runs)
        yield f"Written by skdpsynth {package_version()}."
        yield f"{_plots.FOOTERS[private]}. contains_private_statistics = {private}"


# How to read the page, and the pairs of columns.
_MEANING = {
    True: "Keep this page with the private table. A synthesizer, an epsilon or a seed "
    "that is chosen by it is a choice that no epsilon covers.",
    False: "What was computed from real rows is left out, and so is every run without "
    "a guarantee. The claims below add up: this page as a whole is covered by their "
    "sum.",
}
_PAIRS = (
    "Up to 1,000 rows of the first run of each synthesizer; runs that were read from a "
    "folder have none. The pairs are those that depend on each other most: in real "
    "test rows, which come first, where they may be shown, and else in the synthetic "
    "rows. The darker a cell, the more rows it has; a number stands where its cell "
    "begins. Two columns are independent where every row of cells has the same pattern."
)


def _epsilon(available: Iterable[float], epsilon: float | None) -> float:
    """Choose the epsilon of a plot: the one asked for, or the smallest."""
    listed = sorted({*available})
    known = epsilon is None or epsilon in listed
    check_range("epsilon", epsilon, known, f"one of {listed}")
    return min(listed, default=math.inf) if epsilon is None else epsilon


def _finite(epsilons: Iterable[float]) -> list[float]:
    """Return the finite epsilons in order, or the infinite one if it is alone."""
    listed = sorted({*epsilons})
    return [epsilon for epsilon in listed if epsilon < math.inf] or listed


def _nothing(what: str) -> str:
    return (
        f"Expected at least one run with {what}, but there is none. Plot something "
        "else, or compare again so that there is (runs that are read from a folder "
        "have no samples); the column 'error' of `runs` says what failed."
    )


def _claim_tables(runs: pd.DataFrame) -> Iterator[Block]:
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


def _summary_tables(summary: pd.DataFrame) -> Iterator[Block]:
    """Lay the summary out as tables no wider than a page, and explain them."""
    texts = {name: _texts(name, summary[name]) for name in summary}
    for name in [name for name in texts if f"{name}_sd" in texts]:
        texts[name] = [
            mean if sd == "-" else f"{mean} \N{PLUS-MINUS SIGN} {sd}"
            for mean, sd in zip(texts[name], texts.pop(f"{name}_sd"), strict=True)
        ]
    key = {
        name: texts.pop(name) for name in ("synthesizer", "epsilon") if name in texts
    }
    for title, meanings in _SUMMARY.items():
        columns, items = dict(key), []
        for names, meaning in meanings.items():
            present = [name for name in names.split() if name in texts]
            columns |= {name: texts[name] for name in present}
            items += [f"{', '.join(present)}: {meaning}"] if present else []
        if items:
            yield Heading(title, 3)
            yield Grid([*columns], list(zip(*columns.values(), strict=True)))
            yield Items(items)


def grid(table: pd.DataFrame) -> Grid:
    """Write a table as texts."""
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
