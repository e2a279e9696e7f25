"""The picture of `docs/measured.md`, from what `benchmarks/dependence.py` found.

Run ``python benchmarks/measured_picture.py``. It makes no fit, and writes
docs/images/measured.png or what ``OUTPUT`` says.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pandas as pd

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs" / "images"
ROWS = {  # of the picture, from above: synthesizer and epsilon, and what to call it
    ("real data", None): "real training rows",
    ("G-PATE", 10.0): "G-PATE, epsilon 10",
    ("DP-CGAN", 10.0): "DP-CGAN, epsilon 10",
    ("pairs", 10.0): "pairs, epsilon 10",
    ("pairs", 1.0): "pairs, epsilon 1",
    ("independent", 1.0): "floor, epsilon 1",
}
PANELS = {
    "tv2": "tables of two columns: off by\n(0 is best)",
    "c2st": "told apart from real rows\n(0.5 is best)",
    "auroc": "gradient boosting learns: AUROC\n(1 is best)",
}


def main() -> None:
    """Draw one dot for a run, and a larger one for the mean."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runs = pd.read_csv(ROOT / "benchmarks" / "results" / "dependence.csv")
    figure, axes = plt.subplots(
        1, len(PANELS), figsize=(11, 3.4), sharey=True, layout="constrained"
    )
    for ax, (score, title) in zip(axes, PANELS.items(), strict=True):
        for table, colour, marker in (
            ("adult", "black", "o"),
            ("diamonds", "0.55", "s"),
        ):
            for place, (name, epsilon) in enumerate(ROWS):
                of_row = runs[(runs["table"] == table) & (runs["synthesizer"] == name)]
                if epsilon:
                    of_row = of_row[of_row["epsilon"] == epsilon]
                height = place + (0.15 if table == "diamonds" else -0.15)
                found = of_row[score]
                ax.plot(found, [height] * len(found), marker, color=colour, ms=3)
                ax.plot(found.mean(), height, marker, color=colour, ms=8, mfc="none")
        ax.set_title(title, fontsize=10)
        ax.grid(axis="x", color="0.9")
    axes[0].set_yticks(range(len(ROWS)), list(ROWS.values()))
    axes[0].invert_yaxis()
    handles = [
        plt.Line2D([], [], color="black", marker="o", ls="", label="Adult"),
        plt.Line2D([], [], color="0.55", marker="s", ls="", label="Diamonds"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    OUTPUT.mkdir(exist_ok=True)
    figure.savefig(OUTPUT / "measured.png", dpi=110)
    plt.close(figure)
    print("wrote measured.png")


if __name__ == "__main__":
    main()
