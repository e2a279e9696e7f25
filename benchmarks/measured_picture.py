"""The picture and the table of `docs/measured.md`, from `benchmarks/dependence.py`.

Run ``python benchmarks/measured_picture.py``. It makes no fit, and writes
docs/images/measured.png and the table of docs/measured.md.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from _common import markdown_line, write_parts

ROOT = Path(__file__).parents[1]
OUTPUT, PAGE = ROOT / "docs" / "images", ROOT / "docs" / "measured.md"
PANELS = {
    "tv2": "distance of 2-way marginals\n(0 is perfect)",
    "c2st": "C2ST: synthetic or real?\n(0.5 is perfect)",
    "auroc": "gradient boosting, AUROC\n(1 is perfect)",
}
TABLES = {"adult": ("Adult", "black", "o"), "diamonds": ("Diamonds", "0.55", "s")}
LINES = {"marginals": "-", "independent": ":"}
NAMES = {
    "real data": "real training rows",
    "marginals": "`MarginalSynthesizer`",
    "independent": "`IndependentSynthesizer`",
}


def main() -> None:
    """Draw the picture, and write the table."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runs = pd.read_csv(ROOT / "benchmarks" / "results" / "dependence.csv")
    runs = runs[runs["table"].isin(TABLES)]
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
    write_parts(PAGE, {"dependence": table_of(runs)})
    print("wrote measured.png and measured.md")


def table_of(runs: pd.DataFrame) -> str:
    """Write the means over the seeds, and of C2ST the standard deviation too."""
    head = ["table", "epsilon", "2-way", "3-way", "C2ST", "gradient boosting", "seeds"]
    lines = [markdown_line(head), markdown_line(["---"] * len(head))]
    for table, (title, _, _) in TABLES.items():
        for synthesizer, name in NAMES.items():
            own = runs[(runs["table"] == table) & (runs["synthesizer"] == synthesizer)]
            for epsilon, of in own.groupby("epsilon"):
                mean, n_seeds = of.mean(numeric_only=True), len(of)
                spread = f" ± {of['c2st'].std():.3f}" if n_seeds > 1 else ""
                known = "-" if synthesizer == "real data" else f"{epsilon:g}"
                cells = [
                    f"{title}, {name}",
                    known if epsilon < math.inf or known == "-" else "no noise",
                    f"{mean['tv2']:.3f}",
                    f"{mean['tv3']:.3f}",
                    f"{mean['c2st']:.3f}{spread}",
                    f"{mean['auroc']:.3f} / {mean['auprc']:.3f}",
                    str(n_seeds),
                ]
                lines.append(markdown_line(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
