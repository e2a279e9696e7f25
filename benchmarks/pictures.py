"""The pictures of docs/measured.md, docs/large_tables.md and docs/images.md.

Run ``python benchmarks/pictures.py measured``, ``large-tables`` or ``images``. The
first two draw results of `run.py dependence`, and of `speed.py --parts parquet --name
large_tables`.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from _common import DATA, DELTA, RESULTS, make_synthesizer
from _tables import IMAGES, PIXELS

OUTPUT = Path(__file__).parents[1] / "docs" / "images"
PANELS = {
    "tv2": "distance of 2-way marginals\n(0 is perfect)",
    "c2st": "C2ST: synthetic or real?\n(0.5 is perfect)",
    "auroc": "gradient boosting, AUROC\n(1 is perfect)",
}
TABLES = {"adult": ("Adult", "black", "o"), "diamonds": ("Diamonds", "0.55", "s")}
LINES = {  # synthesizer and table: what to call it, its colour and its dashes
    ("marginals", "parquet"): ("MarginalSynthesizer, Parquet, 2 threads", "black", "-"),
    ("marginals", "dask"): ("MarginalSynthesizer, Dask, 2 workers", "black", ":"),
    ("independent", "parquet"): ("IndependentSynthesizer, Parquet", "0.6", "-"),
}


def measured() -> None:
    """Draw three scores of two tables over epsilon."""
    import matplotlib.pyplot as plt

    runs = pd.read_csv(RESULTS / "dependence.csv").query("part == 'test'")
    real = runs[runs["synthesizer"] == "real data"].groupby("table")
    real = real.mean(numeric_only=True)
    runs = runs[runs["table"].isin(TABLES) & (runs["synthesizer"] != "real data")]
    epsilons = sorted(runs["epsilon"].unique())
    figure, axes = plt.subplots(1, len(PANELS), figsize=(11, 3.6), layout="constrained")
    for ax, (score, title) in zip(axes, PANELS.items(), strict=True):
        for table, (name, colour, marker) in TABLES.items():
            style = {"color": colour, "marker": marker, "markersize": 4}
            for synthesizer, dashes in (("marginals", "-"), ("independent", ":")):
                here = (runs["table"] == table) & (runs["synthesizer"] == synthesizer)
                found = runs[here].groupby("epsilon")[score].agg(["mean", "std"])
                places = [epsilons.index(epsilon) for epsilon in found.index]
                label = f"{name}, {synthesizer}"
                style |= {"linestyle": dashes, "label": label}
                ax.errorbar(places, found["mean"], found["std"], **style)
            given = {"color": colour, "linestyle": "--", "linewidth": 1}
            ax.axhline(real.loc[table, score], label=f"{name}, real rows", **given)
        ticks = [f"{e:g}" if e < math.inf else "no noise" for e in epsilons]
        ax.set_xticks(range(len(epsilons)), ticks)
        ax.set_xlabel("epsilon")
        ax.set_title(title, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    place = {"loc": "outside lower center", "ncols": 3, "frameon": False}
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=9, **place)
    figure.savefig(OUTPUT / "measured.png", dpi=110)


def large_tables() -> None:
    """Draw seconds, and memory of the process that fits, over rows."""
    import matplotlib.pyplot as plt

    runs = pd.read_csv(RESULTS / "large_tables.csv")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for (name, table), (label, colour, dashes) in LINES.items():
        own = runs[(runs["synthesizer"] == name) & (runs["table"] == table)]
        own = own.groupby("rows")[["wall_s", "peak_gb"]].median()
        style = {"color": colour, "ls": dashes, "marker": "o", "ms": 4}
        axes[0].loglog(own.index, own["wall_s"], label=label, **style)
        axes[1].semilogx(own.index, own["peak_gb"], **style)
    axes[0].set_title("seconds of a fit", fontsize=10)
    axes[1].set_title("gigabytes at most, without the workers", fontsize=10)
    axes[1].set_ylim(0, 1.5)
    for ax in axes:
        ax.set_xlabel("rows of 15 columns")
        ax.grid(color="0.9")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(OUTPUT / "large-tables.png", dpi=150)


def images() -> None:
    """Fit MNIST and Fashion-MNIST, and draw the first images of every class."""
    for name, table in IMAGES.items():
        train, _ = table.load(DATA, 0)
        drawn = {"real": table.real_rows(train, 0)}
        for epsilon in (1, 10):
            given = {"epsilon": epsilon, "delta": DELTA, "schema": table.schema}
            model = make_synthesizer("G-PATE", random_state=0, **given).fit(train)
            drawn[f"g-pate-{epsilon}"] = model.sample(table.n_samples)
        stem = name.replace("fashion-", "fashion-mnist-").removesuffix("-images")
        for kind, rows in drawn.items():
            draw(rows, OUTPUT / f"{stem}-{kind}.png")


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Write the first images of every class, a line each, as they were sampled."""
    from matplotlib import image

    lines = [
        np.hstack(list(own[PIXELS].to_numpy().reshape(-1, 28, 28)))
        for _, own in rows.groupby("label").head(12).groupby("label")
    ]
    image.imsave(path, np.vstack(lines), cmap="gray", vmin=0, vmax=255)


if __name__ == "__main__":
    mpl.use("Agg")
    {"measured": measured, "large-tables": large_tables, "images": images}[
        sys.argv[1]
    ]()
