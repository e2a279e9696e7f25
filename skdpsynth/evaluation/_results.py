"""What a comparison gives: tables of scores, plots, and a page of both."""

from __future__ import annotations

import base64
import io
import warnings
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth.evaluation._marginals import Marginal, plain_columns, strongest_pairs
from skdpsynth.evaluation._plots import PRIVATE_FOOTER, PUBLIC_FOOTER, Plots
from skdpsynth.evaluation._runs import ALL, REAL, REFERENCE, package_version
from skdpsynth.exceptions import TiedScoresWarning
from skdpsynth.metrics import averaged, synthetic_ranking_agreement
from skdpsynth.privacy import claim

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from skdpsynth.evaluation._runs import RunRecord, Task


Setting: TypeAlias = Literal["B", "C"]

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="contains_private_statistics" content="$flag">
<title>Comparison of synthesizers</title>
<style>
body { font: 16px/1.5 sans-serif; color: #222; background: #fff; margin: 0 auto;
  max-width: 62rem; padding: 0 1rem 4rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.runs td:nth-last-child(-n+2) { text-align: left; white-space: pre-wrap;
  min-width: 18rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
img { display: block; max-width: 100%; height: auto; margin: 1rem 0; }
.note { border-left: 4px solid #222; background: #f0f0f0; padding: .5rem .8rem; }
footer { position: fixed; left: 0; right: 0; bottom: 0; background: #222; color: #fff;
  padding: .3rem 1rem; font-size: .8rem; text-align: center; }
</style>
</head>
<body>
<h1>Comparison of synthesizers</h1>
<p class="note"><strong>$footer.</strong> $meaning</p>
$sections
<p>Written by skdpsynth $version.</p>
<footer>$footer. contains_private_statistics = $flag</footer>
</body>
</html>
""")
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
    "What leads": ("boosting_", "two_way", "c2st", "broken"),
    "All classifiers": ("rank", "auroc", "auprc", "r2", "rmse", "sra_"),
    "Likeness": (*("feature_ranking", "ks", "tv", "missing", "pairs", "two_sample"),),
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
_READING = {
    "Score against epsilon": "The band, or the bar, is one standard deviation of the "
    "repeats on either side.",
    "Columns": "Up to 1,000 rows of the first run of each synthesizer, and all real "
    "test rows (grey) where they may be shown.",
    "Pairs of columns": "Those that depend on each other most: in real test rows, "
    "which come first, where they may be shown, and else in the synthetic rows. The "
    "darker a cell, the more rows it has; a number stands where its cell begins. Two "
    "columns are independent where every row of cells has the same pattern.",
    "Runs": "Every fit and sample, and what it took, where that may be shown.",
}


def write(result: Plots, path: str | os.PathLike[str]) -> None:
    """Write the page; an existing file is replaced."""
    private = result.contains_private_statistics
    page = _PAGE.substitute(
        flag=private,
        footer=PRIVATE_FOOTER if private else PUBLIC_FOOTER,
        meaning=_MEANING[private],
        sections="\n".join(_sections(result)),
        version=package_version(),
    )
    Path(path).write_text(page, encoding="utf-8")


def _sections(result: Plots) -> Iterator[str]:
    yield _section("Claims", _claims(result))
    summary = result.summary()
    yield _section("Summary", *_summarised(_with_spread(summary)), _legend(summary))
    tested_on_real = bool((result.scores["setting"] == "B").any())
    setting: Setting = "B" if tested_on_real else "C"
    scored = result.scores[result.scores["setting"] == setting]
    if (scored["synthesizer"] != REAL).any():
        curves = [
            _picture(
                result.plot_tradeoff(metric=metric, setting=setting),
                f"{metric} of each synthesizer against epsilon",
            )
            for metric in result._metrics
        ]
        yield _section("Score against epsilon", *curves)
        yield _section("Classifiers", *_classifiers(result, setting))
    if result._samples:
        says = "shares of the values of columns"
        yield _section("Columns", *_drawn(result, result.plot_marginals, says))
        says = "2-way marginals of pairs of columns"
        yield _section("Pairs of columns", *_drawn(result, result.plot_pairs, says))
    yield _section("Runs", _table(result.runs, of="runs"))


def _claims(result: Plots) -> str:
    """Say what was spent, by each synthesizer and together."""
    runs = result.runs[result.runs["synthesizer"] != REAL]
    finite = runs[np.isfinite(runs["epsilon_spent"])]
    total = finite[["epsilon_spent", "delta"]].sum()
    text = _CLAIMS.format(
        n=len(finite),
        epsilon=claim(float(total["epsilon_spent"])),
        delta=claim(float(total["delta"])),
    )
    others = {
        _NOT_PRIVATE: int(np.isinf(runs["epsilon_spent"]).sum()),
        _UNKNOWN: int(runs["epsilon_spent"].isna().sum()),
    }
    text += "".join(f" {more.format(n=n)}" for more, n in others.items() if n)
    groups = runs.groupby(["synthesizer", "class", "epsilon"], sort=False)
    table = groups[["epsilon_spent", "delta"]].max().reset_index()
    table.insert(3, "fits", groups.size().to_numpy())
    table = table.rename(columns={"epsilon_spent": "epsilon spent by one fit"})
    return f"<p>{text}</p>{_table(table)}"


def _classifiers(result: Plots, setting: Setting) -> Iterator[str]:
    """Draw and tabulate the classifiers at every finite epsilon."""
    scores = result.scores[result.scores["classifier"] != ALL]
    reference = scores["synthesizer"] == REAL
    shown = np.where(reference, REFERENCE[setting], setting)
    scores = scores[scores["setting"] == shown]
    for epsilon in _epsilons(scores["epsilon"]):
        ax = result.plot_classifiers(setting=setting, epsilon=epsilon)
        yield _picture(
            ax, f"{result._metrics[0]} of each classifier at epsilon {epsilon:g}"
        )
    runs = zip(scores["synthesizer"], scores["epsilon"], strict=True)
    names = [n if np.isnan(e) else f"{n}, epsilon {e:g}" for n, e in runs]
    table = scores.assign(run=names).pivot_table(
        index=["metric", "classifier"], columns="run", values="value", sort=False
    )
    for metric in result._metrics:
        rows = table.loc[metric].copy()
        rows.loc["mean"] = rows.loc[averaged(rows.index)].mean()
        yield f"<h3>{metric}</h3>" + _table(rows.reset_index())


def _drawn(
    result: Plots, plot: Callable[..., NDArray[Any]], says: str
) -> Iterator[str]:
    """Draw the samples at every finite epsilon."""
    for epsilon in _epsilons(pd.Series([e for _, e in result._samples])):
        ax, at = plot(epsilon=epsilon).flat[0], f"epsilon {epsilon:g}"
        yield f"<h3>{at}</h3>" + _picture(ax, f"{says} at {at}")


def _epsilons(column: pd.Series) -> list[float]:
    """Give the finite epsilons in order, or the infinite one if it is alone."""
    present = sorted(set(column.dropna()))
    return [e for e in present if np.isfinite(e)] or present[:1]


def _section(title: str, *parts: str) -> str:
    """Put a heading, how to read it and the parts together."""
    return "\n".join([f"<h2>{title}</h2>", f"<p>{_READING.get(title, '')}</p>", *parts])


def _picture(ax: Axes, says: str) -> str:
    """Put a figure into the page, and close it."""
    buffer = io.BytesIO()
    figure = cast("Figure", ax.figure)
    figure.savefig(buffer, format="png", dpi=150)
    plt.close(figure)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    # A narrow screen scrolls a wide figure, where its letters would be too small.
    width = f"min-width: {3 * figure.get_figwidth():.0f}rem"
    picture = f'<img alt="{says}" style="{width}" src="data:image/png;base64,{data}">'
    return f'<div class="wide">{picture}</div>'


def _with_spread(summary: pd.DataFrame) -> pd.DataFrame:
    """Write a mean and its standard deviation into one cell."""
    texts = _rounded(summary)
    for name in [name for name in texts if f"{name}_sd" in texts]:
        spread = texts.pop(f"{name}_sd")
        texts[name] = [
            mean if sd == "-" else f"{mean} \N{PLUS-MINUS SIGN} {sd}"
            for mean, sd in zip(texts[name], spread, strict=True)
        ]
    return texts


def _summarised(texts: pd.DataFrame) -> Iterator[str]:
    """Lay the summary out as tables that are no wider than the page."""
    key = ["synthesizer", "epsilon"]
    left = [name for name in texts if name not in key]
    for title, begins in _PARTS.items():
        own = [name for name in left if name.startswith(begins) or not begins]
        left = [name for name in left if name not in own]
        if own:
            yield f"<h3>{title}</h3>" + _table(texts[[*key, *own]])


def _legend(summary: pd.DataFrame) -> str:
    """Say what the columns of the summary are, as far as it has them."""
    lines = [
        f"<li><b>{start}</b>: {meaning}</li>"
        for start, meaning in _COLUMNS.items()
        if any(name.startswith(start) for name in summary.columns)
    ]
    return f"<ul>{''.join(lines)}</ul>"


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Write every value as a text, rounded; what is missing as a dash."""
    return pd.DataFrame(
        {name: [_written(name, v) for v in table[name]] for name in table.columns},
        dtype=object,
    )


def _written(name: str, value: object) -> str:
    if isinstance(value, float) and not np.isnan(value):
        if name in _BOUNDS:
            return claim(value)
        return f"{value:{_FORMATS.get(name, '.3f')}}"
    return "-" if pd.isna(value) else str(value)


def _table(table: pd.DataFrame, of: str = "") -> str:
    """Turn a table into HTML: every value is rounded, every text escaped."""
    texts = _rounded(table)
    with pd.option_context("display.max_colwidth", None):
        as_they_are = [str] * texts.shape[1]
        text = texts.to_html(index=False, border=0, classes=of, formatters=as_they_are)
    return f'<div class="wide">{text}</div>'


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
