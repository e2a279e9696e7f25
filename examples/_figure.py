"""The picture of the demo: real and synthetic rows side by side."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

_NUMERIC = ["age", "hours-per-week"]
_CATEGORIES = ["marital-status", "occupation"]
_REAL, _FAKE = "0.62", "#d1495b"
_CLASS_COLOURS = ["#00798c", "#edae49"]
_N_BINS = 8  # of a numeric column, where its dependence is measured


def draw_figure(
    real: pd.DataFrame, fake: pd.DataFrame, target: str, path: Path
) -> None:
    """Draw four marginals, and the dependence between columns within each class.

    Parameters
    ----------
    real : DataFrame
        Private rows, at least as many as `fake` has.
    fake : DataFrame
        Synthetic rows with the same columns.
    target : str
        The label column.
    path : Path
        Where the PNG goes.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}
    with plt.rc_context(style):
        figure = plt.figure(figsize=(11, 6.6), layout="constrained")
        grid = figure.add_gridspec(2, 3)
        for i, name in enumerate(_NUMERIC):
            _draw_numbers(figure.add_subplot(grid[0, i]), real[name], fake[name])
        for i, name in enumerate(_CATEGORIES):
            _draw_categories(figure.add_subplot(grid[1, i]), real[name], fake[name])
        figure.axes[0].legend(frameon=False)
        sample = real.sample(len(fake), random_state=0)
        _draw_dependence(figure.add_subplot(grid[:, 2]), sample, fake, target)
        figure.suptitle("Adult, real and synthetic rows at epsilon = 1, delta = 1e-5")
        footer = "contains private statistics: drawn from real rows too"
        figure.supxlabel(footer, fontsize=9, color="0.35")
        figure.savefig(path, dpi=120)
        plt.close(figure)


def _draw_numbers(ax: Axes, real: pd.Series, fake: pd.Series) -> None:
    width = np.ceil((real.max() - real.min()) / 30)  # whole numbers in every bin
    bins = np.arange(real.min(), real.max() + width + 1, width) - 0.5
    share = [np.full(len(values), 1 / len(values)) for values in (real, fake)]
    ax.hist(real, bins, weights=share[0], color=_REAL, label="real")
    ax.hist(
        fake.clip(bins[0], bins[-1]),
        bins,
        weights=share[1],
        histtype="step",
        color=_FAKE,
        linewidth=1.6,
        label="synthetic",
    )
    ax.set(title=real.name, ylabel="share of rows")


def _draw_categories(ax: Axes, real: pd.Series, fake: pd.Series) -> None:
    shares = pd.DataFrame(
        {
            "real": real.fillna("(missing)").value_counts(normalize=True),
            "synthetic": fake.fillna("(missing)").value_counts(normalize=True),
        }
    ).fillna(0.0)
    shares = shares.sort_values("real")
    at = np.arange(len(shares))
    ax.barh(at + 0.2, shares["real"], 0.4, color=_REAL)
    ax.barh(at - 0.2, shares["synthetic"], 0.4, color=_FAKE)
    ax.set_yticks(at, shares.index)
    ax.tick_params(axis="y", labelsize=7.5, length=0)
    ax.set(title=real.name, xlabel="share of rows")


def _draw_dependence(
    ax: Axes, real: pd.DataFrame, fake: pd.DataFrame, target: str
) -> None:
    """Plot Cramer's V of each pair of columns, real against synthetic."""
    ax.axline((0, 0), slope=1, color="0.75", linewidth=1)
    strongest: dict[tuple[str, str], tuple[float, float]] = {}
    for label, colour in zip(
        sorted(real[target].unique()), _CLASS_COLOURS, strict=True
    ):
        own, theirs = (
            table[table[target] == label].drop(columns=target) for table in (real, fake)
        )
        own_codes, fake_codes = _codes(own, own), _codes(theirs, own)
        pairs = list(combinations(own.columns, 2))
        x = [_cramers_v(own_codes[a], own_codes[b]) for a, b in pairs]
        y = [_cramers_v(fake_codes[a], fake_codes[b]) for a, b in pairs]
        strongest |= {pairs[i]: (x[i], y[i]) for i in np.argsort(x)[-2:]}
        ax.scatter(x, y, 16, color=colour, alpha=0.8, linewidth=0, label=label)
    for pair, point in strongest.items():
        ax.annotate(
            " / ".join(pair),
            point,
            xytext=(0, 6),
            textcoords="offset points",
            ha="right",
            fontsize=7,
        )
    ax.legend(title=f"within {target}", frameon=False, loc="upper left")
    ax.set(
        title="dependence of each pair of columns",
        xlabel="Cramer's V in real rows",
        ylabel="Cramer's V in synthetic rows",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
    )


def _codes(table: pd.DataFrame, reference: pd.DataFrame) -> dict[str, np.ndarray]:
    """Give every column as integers; numbers by quantiles of the reference."""
    codes = {}
    for name in table.columns:
        if pd.api.types.is_numeric_dtype(table[name]):
            inner = np.linspace(0, 1, _N_BINS + 1)[1:-1]
            cuts = np.unique(reference[name].quantile(inner))
            codes[name] = np.searchsorted(cuts, table[name], side="right")
        else:
            codes[name] = pd.factorize(table[name], use_na_sentinel=False)[0]
    return codes


def _cramers_v(a: np.ndarray, b: np.ndarray) -> float:
    """Compute Cramer's V, corrected for the bias of a small sample."""
    counts = pd.crosstab(a, b).to_numpy()
    n_rows, (r, k) = counts.sum(), counts.shape
    if min(r, k) < 2:
        return 0.0
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / n_rows
    phi2 = ((counts - expected) ** 2 / expected).sum() / n_rows
    phi2 = max(0.0, phi2 - (r - 1) * (k - 1) / (n_rows - 1))
    sides = [s - (s - 1) ** 2 / (n_rows - 1) for s in (r, k)]
    return float(np.sqrt(phi2 / (min(sides) - 1)))
