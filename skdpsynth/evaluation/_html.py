"""The report of a comparison: one page that needs nothing else.

Texts of users, such as names, come into it by tables alone, which escape them.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth.evaluation._plots import PRIVATE_FOOTER, PUBLIC_FOOTER
from skdpsynth.evaluation._runs import ALL, REAL, REFERENCE, package_version
from skdpsynth.metrics import averaged
from skdpsynth.privacy import claim

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from skdpsynth.evaluation._plots import Plots

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
# How to read the summary, by the beginning of the name of a column.
_COLUMNS = {
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
    "two_sample": "AUC of a classifier two-sample test (C2ST) of synthetic and real "
    "rows, 0.5 is best",
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
    yield _section("Summary", _table(_with_spread(summary)), _legend(summary))
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
