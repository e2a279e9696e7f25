"""The plots of a comparison, on axes that the caller may give."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth.evaluation._marginals import Marginal, PlainColumn, strongest_pairs
from skdpsynth.evaluation._runs import LEADING, METRICS, REAL, REFERENCE
from skdpsynth.exceptions import check_range
from skdpsynth.metrics import CategoryCells, averaged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from skdpsynth.evaluation._marginals import Side
    from skdpsynth.evaluation._runs import Metric

    Samples = Mapping[tuple[str, float], Sequence[PlainColumn]]
    Shares = NDArray[np.float64]
    Styles = dict[str, dict[str, Any]]

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


class Found:
    """The tables of a `ComparisonResult`, which says what they hold."""

    def __init__(
        self,
        scores: pd.DataFrame,
        runs: pd.DataFrame,
        samples: Samples,
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


PRIVATE_FOOTER = (
    "Contains private statistics: computed from real rows, covered by no epsilon"
)
PUBLIC_FOOTER = "Computed from synthetic rows only"
_SETTINGS = {
    "B": "learnt from synthetic rows, tested on real rows",
    "C": "learnt from synthetic rows, tested on synthetic rows",
}
_REAL_ROWS = {"B": "real rows", "C": "real rows in Setting C"}
_BASELINE_CLASS = "IndependentSynthesizer"
_REAL_FILL = "0.8"
# Distinct without colour too: by line and mark, and colours get lighter in order.
_LINES = ["-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1))]
_MARKS = ["o", "s", "^", "D", "v", "P", "X", "*"]
_SMALL = 8
_MOST_BANDS = 4  # lines from which bands would hide each other
_MOST_LINES = 7  # more greys and dashes are hard to distinguish


class Plots(Found):
    """The plots of a `ComparisonResult`."""

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
        metric = metric or self._metrics[0]
        _check_choice(metric, setting)
        whose = self._leading or "mean" if classifier is None else classifier
        one = None if whose == "mean" else whose
        curves = {n: self._curve(n, setting, metric, one) for n in self._names}
        curves = {name: curve for name, curve in curves.items() if curve}
        if not curves:
            raise ValueError(_nothing(f"scores {metric!r} in Setting {setting}"))
        own, styles = ax is None, self._styles()
        ax = _new_grid(1, 1, (6.4, 4.4))[0, 0] if ax is None else ax
        positions = _positions({e for curve in curves.values() for e in curve})
        of_class = self.runs["class"] == _BASELINE_CLASS
        baseline = next(iter(self.runs.loc[of_class, "synthesizer"]), "")
        lines = [name for name in curves if name != baseline]
        means = {n: [mean for mean, _ in curves[n].values()] for n in lines}
        sign = -1 if metric == "rmse" else 1
        # A line that lacks epsilons is behind those that have all.
        best = sorted(lines, key=lambda n: (len(means[n]), sign * np.mean(means[n])))
        best = best[-_MOST_LINES:]
        others = [name for name in lines if name not in best]
        for number, name in enumerate(others):
            along = [positions[e] for e in curves[name]]
            label = "" if number else f"others: {len(others)}"
            ax.plot(along, means[name], ".-", color="0.8", lw=1, label=label)
        lines = [name for name in lines if name in best]
        # Where all share one place, side by side.
        one_place = len(positions) - (math.inf in positions) <= 1
        banded = len(lines) < _MOST_BANDS  # more would hide each other
        apart = 0.05 if one_place else 0.0 if banded else 0.02
        for number, name in enumerate(lines):
            shift = apart * (number - (len(lines) - 1) / 2)
            places = np.array([positions[e] + shift for e in curves[name]])
            how = drawable(name), styles[name]
            _draw_curve(ax, curves[name], places, *how, banded=banded)
        if baseline in curves:
            # A line through its points, or across where there is one.
            ending = "" if "baseline" in baseline.lower() else " (baseline)"
            line: dict[str, Any] = {"color": "0.45", "linestyle": ":", "linewidth": 2}
            line["label"] = drawable(baseline) + ending
            heights = [mean for mean, _ in curves[baseline].values()]
            if len(heights) == 1:
                ax.axhline(heights[0], **line)
            else:
                ax.plot([positions[e] for e in curves[baseline]], heights, **line)
        real = self.repeats(REAL, math.nan, REFERENCE[setting], metric, one)
        if len(real):
            label = _REAL_ROWS[setting]
            ax.axhline(real.mean(), color="black", linestyle="--", label=label)
        ticks = [f"{e:g}" if e < math.inf else "no noise" for e in positions]
        ax.set_xticks(list(positions.values()), ticks)
        ax.set_xmargin(0.12)
        ax.set_xlabel("epsilon")
        panel = "regressors" if metric in ("r2", "rmse") else "classifiers"
        of = f"mean of {panel}" if one is None else one
        ax.set_ylabel(f"{METRICS[metric]}, {'boosting' if one in LEADING else of}")
        ax.set_title(_SETTINGS[setting], fontsize=10)
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
        metric = metric or self._metrics[0]
        _check_choice(metric, setting)
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
        own = ax is None
        size = (6.4, 1.7 + 0.3 * len(order))
        ax = _new_grid(1, 1, size)[0, 0] if ax is None else ax
        heights = np.arange(len(order))
        if len(real):
            bar: dict[str, Any] = {"color": "black", "marker": "|", "linewidth": 2}
            ax.scatter(real[order], heights, s=190, label=_REAL_ROWS[setting], **bar)
        styles = {n: style for n, style in self._styles().items() if n in table}
        for (name, style), shift in zip(styles.items(), _shifts(styles), strict=True):
            mark = {k: style[k] for k in ("color", "marker")}
            x = table.loc[order, name]
            ax.plot(x, heights + shift, linestyle="", label=drawable(name), **mark)
        ax.set_yticks(heights, [drawable(name) for name in order], fontsize=_SMALL + 1)
        ax.set_ylim(-0.7, len(order) - 0.3)
        ax.grid(axis="y", color="0.9")
        ax.set_axisbelow(True)
        ax.set_xlabel(f"{METRICS[metric]}, mean of repeats")
        title = f"epsilon = {at:g}: " if at < math.inf else ""
        ax.set_title(title + _SETTINGS[setting], fontsize=10)
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
        given = np.ravel(np.asarray(_new_row(len(columns)) if own else axes))
        if len(given) < len(columns):
            msg = f"axes must hold {len(columns)} Axes. Got {len(given)} instead."
            raise ValueError(msg)
        styles = {n: style for n, style in self._styles().items() if n in samples}
        for ax, name in zip(given, columns, strict=False):
            real = [m for m in self._real_marginals if m.sides[0].name == name]
            _draw_marginal(ax, name, next(iter(real), None), samples, styles)
        entries: dict[str, Any] = {
            drawable(name): mpl.lines.Line2D([], [], **style)
            for name, style in styles.items()
        }
        if self._real_marginals:
            entries = {"real rows": mpl.patches.Patch(color=_REAL_FILL), **entries}
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
        samples = self._samples_at(epsilon)
        pairs = self._real_pairs or strongest_pairs(_pooled(samples), self.target)
        titles = [*(["real rows"] if self._real_pairs else []), *samples]
        shape = len(pairs), len(titles)
        size = (2.3 + 1.9 * shape[1], 0.8 + 2.5 * shape[0])
        given = _new_grid(*shape, size) if axes is None else np.atleast_2d(axes)
        if given.ndim != 2 or (np.array(given.shape) < shape).any():
            msg = f"axes must have the shape {shape}. Got {given.shape} instead."
            raise ValueError(msg)
        given = given[: shape[0], : shape[1]]
        for row, pair in zip(given, pairs, strict=True):
            parts = [pair.shares_of(sample) for sample in samples.values()]
            _draw_pair(row, pair, [pair.shares, *parts] if self._real_pairs else parts)
        for ax, title in zip(given[0], titles, strict=True):
            ax.set_title(drawable(title, 20), fontsize=10)
        self._add_footer(given[0, 0].figure)
        return given

    def _curve(
        self, name: str, setting: str, metric: str, classifier: str | None
    ) -> dict[float, tuple[float, float]]:
        """Give mean and standard deviation of the repeats at each epsilon, in order."""
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
        """Give the samples at one epsilon, and those without noise; at least one."""
        if not self._samples:
            raise ValueError(_nothing("samples"))
        chosen = _epsilon({e for _, e in self._samples}, epsilon)
        return {
            name: sample
            for (name, e), sample in self._samples.items()
            if e in (chosen, math.inf)
        }

    def _styles(self) -> Styles:
        """Give every synthesizer a colour, a line and a mark, in all plots the same."""
        n_colours = max(len(self._names), 2)
        colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, n_colours))
        return {
            name: {
                "color": mpl.colors.to_hex(colours[i]),
                "linestyle": _LINES[i % len(_LINES)],
                "marker": _MARKS[i % len(_MARKS)],
            }
            for i, name in enumerate(self._names)
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
        options: dict[str, Any] = {"fontsize": _SMALL, "frameon": False}
        if own:
            options |= {"loc": "outside upper center", "ncols": 3}
        (figure if own else axes[0]).legend(entries.values(), entries, **options)
        self._add_footer(figure)

    def _add_footer(self, figure: Figure | SubFigure) -> None:
        """Write the footer once, where the figure has room."""
        private = self.contains_private_statistics
        text = PRIVATE_FOOTER if private else PUBLIC_FOOTER
        if text in [artist.get_text() for artist in figure.texts]:
            return
        if figure.get_supxlabel():
            size = _SMALL - 1
            figure.text(0.99, 0.005, text, ha="right", fontsize=size, color="0.35")
        else:
            figure.supxlabel(text, fontsize=_SMALL, color="0.35")


def _draw_curve(
    ax: Axes,
    curve: dict[float, tuple[float, float]],
    x: NDArray[np.float64],
    label: str,
    style: dict[str, Any],
    *,
    banded: bool,
) -> None:
    """Draw a line with its band, and single points, or all, with a bar."""
    mean, spread = np.array(list(curve.values())).T
    finite = np.isfinite(list(curve))
    ax.plot(x, mean, label=label, **style)
    if banded and finite.sum() > 1:
        low, high = (mean - spread)[finite], (mean + spread)[finite]
        ax.fill_between(x[finite], low, high, color=style["color"], alpha=0.15, lw=0)
        x, mean, spread = x[~finite], mean[~finite], spread[~finite]
    ax.errorbar(x, mean, spread, fmt="none", ecolor=style["color"], capsize=3)


def _draw_marginal(
    ax: Axes,
    name: str,
    real: Marginal | None,
    samples: Mapping[str, Sequence[PlainColumn]],
    styles: Styles,
) -> None:
    """Draw the shares of one column; without real rows the synthetic ones choose."""
    if real is not None and real.shares_of(next(iter(samples.values()))) is None:
        real = None
    chosen = real or next(Marginal.of(c) for c in _pooled(samples) if c.name == name)
    (side,) = chosen.sides
    found = {of: chosen.shares_of(sample) for of, sample in samples.items()}
    parts = {of: part for of, part in found.items() if part is not None}
    if isinstance(side.cells, CategoryCells):
        _draw_categories(ax, side.labels(), real, parts, styles)
    else:
        edges = [side.ends[0], *side.cells.edges, side.ends[1]]
        if real is not None:
            ax.stairs(real.shares[:-1], edges, fill=True, color=_REAL_FILL)
        for of, part in parts.items():
            style = {k: styles[of][k] for k in ("color", "linestyle")}
            ax.stairs(part[:-1], edges, linewidth=1.3, **style)
        ax.set_ylabel("share of rows", fontsize=_SMALL - 1)
        ax.locator_params(axis="x", nbins=5)
        if side.kind == "time":
            ax.xaxis_date()
            ax.tick_params(axis="x", rotation=30)
    ax.set_title(drawable(name), fontsize=10)
    ax.tick_params(labelsize=_SMALL - 1)


def _draw_categories(
    ax: Axes,
    labels: list[str],
    real: Marginal | None,
    parts: dict[str, Shares],
    styles: Styles,
) -> None:
    """Draw the shares of categories: bars for real rows, marks for the others."""
    bars = np.zeros(len(labels)) if real is None else real.shares
    used = np.flatnonzero(np.max([bars, *parts.values()], axis=0) > 0)[::-1]
    heights = np.arange(len(used))
    if real is not None:
        ax.barh(heights, bars[used], 0.8, color=_REAL_FILL)
    for (name, part), shift in zip(parts.items(), _shifts(parts), strict=True):
        style = {k: styles[name][k] for k in ("color", "marker")}
        ax.plot(part[used], heights + shift, linestyle="", markersize=4.5, **style)
    ax.set_xlabel("share of rows", fontsize=_SMALL - 1)
    ax.set_ylim(-0.8, len(used) - 0.2)
    ax.set_yticks(heights, [drawable(labels[i], 16) for i in used])
    ax.set_xlim(left=0)


def _draw_pair(row: NDArray[Any], pair: Marginal, parts: list[Shares | None]) -> None:
    """Draw one pair of all tables, on one scale of grey."""
    known = [part for part in parts if part is not None]
    used = np.max([pair.shares, *known], axis=0) > 0
    rows, columns = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    upright, flat = pair.sides
    labels = _labels(upright, rows), _labels(flat, columns)
    # The longer labels stand on the left, where they are written once.
    turned = max(map(len, labels[1])) > max(map(len, labels[0]))
    if turned:
        upright, flat, labels = flat, upright, labels[::-1]
    # A root, so that rare cells are visible beside frequent ones.
    scale = mpl.colors.PowerNorm(0.5, 0.0, max(part.max() for part in known))
    rotation = 90 if sum(map(len, labels[1])) > 24 else 0
    for ax, part in zip(row, parts, strict=True):
        ax.set_xticks(range(len(labels[1])), labels[1], rotation=rotation)
        ax.set_yticks(range(len(labels[0])), labels[0] if ax is row[0] else [])
        ax.tick_params(labelsize=_SMALL - 1, length=2)
        ax.set_xlabel(drawable(flat.name, 20), fontsize=_SMALL)
        if part is None:
            ax.text(0.5, 0.5, "of another kind", ha="center", transform=ax.transAxes)
            continue
        shown = part[np.ix_(rows, columns)]
        shown = shown.T if turned else shown
        image = ax.imshow(shown, cmap="Greys", norm=scale, aspect="auto")
        if upright.kind != "category":
            ax.invert_yaxis()  # numbers grow upwards, frequent categories come first
    row[0].set_ylabel(drawable(upright.name, 20), fontsize=_SMALL)
    bar = row[0].figure.colorbar(image, ax=list(row), fraction=0.03, pad=0.01)
    bar.set_label("share of rows", fontsize=_SMALL)
    bar.ax.tick_params(labelsize=_SMALL - 1)


def _labels(side: Side, used: NDArray[np.intp]) -> list[str]:
    """Name the cells that have a row in any table."""
    names = side.labels()
    return [drawable(names[i], 16) for i in used]


def _pooled(samples: Mapping[str, Sequence[PlainColumn]]) -> list[PlainColumn]:
    """Put the rows of all samples together; kinds are those of the first."""
    first = next(iter(samples.values()))
    items: dict[tuple[str, str], list[Any]] = {(c.name, c.kind): [] for c in first}
    for column in chain.from_iterable(samples.values()):
        if (column.name, column.kind) in items:
            items[column.name, column.kind] += column.items
    return [PlainColumn(*of, values) for of, values in items.items()]


def _positions(epsilons: set[float]) -> dict[float, float]:
    """Place epsilons on a logarithmic axis, and the infinite one behind the last."""
    positions = {e: math.log10(e) for e in sorted(epsilons) if e < math.inf}
    if math.inf in epsilons:
        x = list(positions.values()) or [0.0]
        gap = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else 0.5
        positions[math.inf] = x[-1] + gap
    return positions


def _shifts(several: Collection[str]) -> NDArray[np.float64]:
    """Move marks apart that would hide each other; the first is on top."""
    return 0.09 * ((len(several) - 1) / 2 - np.arange(len(several), dtype=np.float64))


def _epsilon(available: set[float], epsilon: float | None) -> float:
    """Choose the epsilon of a plot: the one asked for, or the smallest."""
    known = epsilon is None or epsilon in available
    check_range("epsilon", epsilon, known, f"one of {sorted(available)}")
    return min(available, default=math.inf) if epsilon is None else epsilon


def _check_choice(metric: str, setting: str) -> None:
    check_range("metric", metric, metric in METRICS, f"one of {list(METRICS)}")
    check_range("setting", setting, setting in _SETTINGS, f"one of {list(_SETTINGS)}")


def _nothing(what: str) -> str:
    return (
        f"Expected at least one run with {what}, but there is none. Plot something "
        "else, or compare again so that there is; the column 'error' of `runs` says "
        "what failed."
    )


def drawable(name: str, width: int = 32) -> str:
    """Make a name fit to be drawn: neither mathematics, nor hidden, nor too long."""
    name = " ".join(str(name).split())
    name = name if len(name) <= width else f"{name[: width - 3]}..."
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def _new_grid(n_rows: int, n_columns: int, size: tuple[float, float]) -> NDArray[Any]:
    return plt.subplots(
        n_rows, n_columns, figsize=size, layout="constrained", squeeze=False
    )[1]


def _new_row(n_axes: int) -> NDArray[Any]:
    """Make a figure with as many axes as asked for, at most three in a row."""
    n_columns = min(n_axes, 3)
    n_rows = -(-n_axes // n_columns)
    size = (3.2 * n_columns + 0.4, 2.5 * n_rows + 0.8)
    axes = _new_grid(n_rows, n_columns, size).ravel()
    for ax in axes[n_axes:]:
        ax.remove()
    return axes[:n_axes]
