"""The picture of `docs/measured.md`, from what `benchmarks/dependence.py` found.

Run ``python benchmarks/measured_picture.py``. It makes no fit, and writes
docs/images/measured.png or what ``OUTPUT`` names.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl
import pandas as pd

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs" / "images"
PANELS = {
    "tv2": "distance of 2-way marginals\n(0 is perfect)",
    "c2st": "C2ST: synthetic or real?\n(0.5 is perfect)",
    "auroc": "gradient boosting, AUROC\n(1 is perfect)",
}
TABLES = {"adult": ("Adult", "black", "o"), "diamonds": ("Diamonds", "0.55", "s")}
LINES = {"marginals": "-", "independent": ":"}


def main() -> None:
    """Draw a line over epsilon for each table and synthesizer, and real rows."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runs = pd.read_csv(ROOT / "benchmarks" / "results" / "dependence.csv")
    epsilons = sorted(runs.loc[runs["synthesizer"] != "real data", "epsilon"].unique())
    place = {epsilon: i for i, epsilon in enumerate(epsilons)}
    figure, axes = plt.subplots(1, len(PANELS), figsize=(11, 3.6), layout="constrained")
    for ax, (score, title) in zip(axes, PANELS.items(), strict=True):
        for table, (name, colour, marker) in TABLES.items():
            own = runs[runs["table"] == table]
            for synthesizer, style in LINES.items():
                found = own[own["synthesizer"] == synthesizer].groupby("epsilon")[score]
                ax.errorbar(
                    [place[epsilon] for epsilon in found.groups],
                    found.mean(),
                    found.std(),
                    color=colour,
                    marker=marker,
                    markersize=4,
                    linestyle=style,
                    label=f"{name}, {synthesizer}",
                )
            real = own.loc[own["synthesizer"] == "real data", score].mean()
            label = f"{name}, real rows"
            ax.axhline(real, color=colour, linestyle="--", linewidth=1, label=label)
        ticks = [f"{e:g}" if e < math.inf else "no noise" for e in epsilons]
        ax.set_xticks(range(len(epsilons)), ticks)
        ax.set_xlabel("epsilon")
        ax.set_title(title, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    OUTPUT.mkdir(exist_ok=True)
    figure.savefig(OUTPUT / "measured.png", dpi=110)
    plt.close(figure)
    print("wrote measured.png")


if __name__ == "__main__":
    main()
