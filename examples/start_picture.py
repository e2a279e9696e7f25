"""The picture of the start page: pairs of columns of Adult, real and synthetic.

Run ``python examples/start_picture.py``; ``--quick`` takes fewer rows. It writes
docs/images/adult-pairs.png, or what ``OUTPUT`` says. The four pairs stand for two
numbers, a number with a category, a number with many categories, and two categories.
They are drawn from one fit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library reads it

import matplotlib as mpl
import pandas as pd

from skdpsynth import MarginalSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.schema import Categorical, TableSchema

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUICK = "--quick" in sys.argv
OUTPUT = Path(__file__).parents[1] / "docs" / "images"
PAIRS = [
    ("age", "hours-per-week"),
    ("age", "marital-status"),
    ("education-num", "occupation"),
    ("relationship", "marital-status"),
]
CUTS = {"age": range(15, 96, 5), "hours-per-week": range(0, 101, 5)}


def main() -> None:
    """Fit, sample and draw."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    train, test = load_adult(split=True)
    train = train[:3_000] if QUICK else train
    public = TableSchema({"income": Categorical(["<=50K", ">50K"])}, target="income")
    synthesizer = MarginalSynthesizer(epsilon=1.0, schema=public, random_state=0)
    fake = synthesizer.fit(train).sample(len(test))

    figure, axes = plt.subplots(2, 4, figsize=(12, 6), layout="constrained")
    for column, pair in zip(axes.T, PAIRS, strict=True):
        real, synthetic = (joint_shares(table, *pair) for table in (test, fake))
        synthetic = synthetic.reindex_like(real).fillna(0.0)
        # The square root makes rare cells visible beside frequent ones.
        scale = mpl.colors.PowerNorm(0.5, 0.0, real.to_numpy().max())
        for ax, shares in zip(column, (real, synthetic), strict=True):
            ax.imshow(shares, cmap="Greys", norm=scale, aspect="auto")
            label_axes(ax, shares)
        column[0].set_xticks([])
        column[1].set_xlabel(pair[0])
        column[0].set_title(pair[1], fontsize=10)
    axes[0, 0].set_ylabel("real rows", fontsize=12)
    axes[1, 0].set_ylabel("synthetic rows", fontsize=12)
    footer = "contains private statistics: drawn from real rows too"
    figure.supxlabel(footer, fontsize=9, color="0.35")
    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / "adult-pairs.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"wrote {path.name}")


def joint_shares(table: pd.DataFrame, across: str, down: str) -> pd.DataFrame:
    """Give the shares of rows in the cells of two columns; numbers grow upwards."""
    keys = [
        pd.cut(table[name], CUTS[name], right=False, labels=list(CUTS[name])[:-1])
        if name in CUTS
        else table[name]
        for name in (down, across)
    ]
    shares = pd.crosstab(*keys, normalize=True)
    return shares[::-1] if down in CUTS else shares


def label_axes(ax: Axes, shares: pd.DataFrame) -> None:
    """Label every category, and every other cut of a number."""
    for axis, labels in ((ax.xaxis, shares.columns), (ax.yaxis, shares.index)):
        step = 1 if isinstance(labels[0], str) else 2
        axis.set_ticks(range(0, len(labels), step), labels[::step])
    ax.tick_params(labelsize=7, length=2)
    ax.tick_params(axis="x", rotation=90)


if __name__ == "__main__":
    main()
