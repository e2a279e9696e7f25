"""Dependence that only three columns together show: a label that is their parity.

Run ``python examples/three_columns.py``; ``--quick`` takes fewer rows. The label is
independent of any two columns, so a generator fitted to 2-way marginals (``order=2``)
predicts it by chance only. One fitted to 3-way marginals too (``order=3``, the default)
predicts it. The table is made up. The picture is examples/output/three_columns.png.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library reads it

import matplotlib as mpl
import numpy as np
import pandas as pd

from skdpsynth import MarginalSynthesizer
from skdpsynth.metrics import tstr_scores

OUTPUT = Path(__file__).parent / "output"
QUICK = "--quick" in sys.argv
N_ROWS, N_COLUMNS = (8_000, 3) if QUICK else (50_000, 10)
SHOWN = 2_000


def main() -> None:
    """Fit with both orders, score on fresh rows, and plot the samples."""
    train, test = make_table(N_ROWS, 0), make_table(10_000, 1)
    tables = {"real rows": train}
    settings = {"epsilon": 10.0, "delta": 1e-5, "target": "label", "random_state": 0}
    for order in (2, 3):
        synthesizer = MarginalSynthesizer(order=order, **settings).fit(train)
        tables[f"order={order}"] = synthesizer.sample(N_ROWS)

    print("AUROC on real rows of gradient boosting trained on")
    for name, table in tables.items():
        scores = tstr_scores(
            table, test, target="label", classifiers="HistGradientBoosting"
        )
        print(f"  {name:<10} {scores.loc['mean', 'auroc']:.3f}")

    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / "three_columns.png"
    draw(tables, path)
    print(f"wrote {path.name}")


def make_table(n_rows: int, seed: int) -> pd.DataFrame:
    """Draw normal columns; the label is odd where 1 or 3 of the first are positive."""
    columns = [f"x{i + 1}" for i in range(N_COLUMNS)]
    values = np.random.default_rng(seed).standard_normal((n_rows, N_COLUMNS))
    table = pd.DataFrame(values, columns=columns)
    odd = (table[["x1", "x2", "x3"]] > 0).sum(axis=1) % 2 == 1
    return table.assign(label=np.where(odd, "odd", "even"))


def draw(tables: dict[str, pd.DataFrame], path: Path) -> None:
    """Draw x1 and x2 of rows whose x3 is positive: the label is a chessboard."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(tables), figsize=(11, 3.2), sharex=True, sharey=True
    )
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        rows = table[table["x3"] > 0][:SHOWN]
        for label, colour, mark in (("odd", "#00798c", "o"), ("even", "#edae49", "^")):
            own = rows[rows["label"] == label]
            ax.scatter(own["x1"], own["x2"], s=5, c=colour, marker=mark, label=label)
        ax.axhline(0, color="0.4", linewidth=0.6)
        ax.axvline(0, color="0.4", linewidth=0.6)
        ax.set(title=name, xlabel="x1", xlim=(-3, 3), ylim=(-3, 3))
    axes[0].set_ylabel("x2, where x3 > 0")
    axes[0].legend(frameon=True, loc="upper left", markerscale=2, fontsize=8)
    figure.suptitle("The label is the parity of three columns; epsilon = 10")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
