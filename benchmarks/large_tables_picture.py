"""The picture of `docs/large_tables.md`, from what `benchmarks/speed.py` measured.

Run ``python benchmarks/speed.py --parts parquet --name large_tables``, then ``python
benchmarks/large_tables_picture.py``. It makes no fit, and writes
docs/images/large-tables.png.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pandas as pd

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs" / "images"
LINES = {  # synthesizer and table: what to call it, its colour and its dashes
    ("marginals", "parquet"): ("MarginalSynthesizer, Parquet, 2 threads", "black", "-"),
    ("marginals", "dask"): ("MarginalSynthesizer, Dask, 2 workers", "black", ":"),
    ("independent", "parquet"): ("IndependentSynthesizer, Parquet", "0.6", "-"),
}


def main() -> None:
    """Draw seconds, and memory of the process that fits, over rows."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runs = pd.read_csv(ROOT / "benchmarks" / "results" / "large_tables.csv")
    cases = pd.DataFrame([json.loads(case) for case in runs["case"]])
    runs = runs.assign(**cases[["synthesizer", "table", "rows"]])
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


if __name__ == "__main__":
    main()
