"""The picture of docs/privacy.md: what epsilon and delta limit.

Run ``python examples/guarantee_picture.py``; it writes docs/images/guarantee.png. Both
panels are closed forms: nothing is fitted.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

POINTS = {"textcoords": "offset points", "fontsize": 9}
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "guarantee.png"
DELTA = 1e-5
MU = 0.268  # of a Gaussian release: epsilon 1 at this delta (Balle and Wang 2018)


def main() -> None:
    """Draw a noisy count with and without a row, and the bet."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    count = np.linspace(985.0, 1016.0, 400)
    for exact, line, label in (
        (1000, "-", "without it"),
        (1001, "--", "with your row"),
    ):
        density = norm.pdf(count, exact, 1.0 / MU)
        left.plot(count, density, "black", linestyle=line, label=label)
    left.set_xlabel("noisy number of rows")
    left.set_ylabel("probability density")
    left.set_yticks([])
    left.set_title("One release at epsilon 1", fontsize=10)
    left.legend(frameon=False)

    epsilon = np.geomspace(0.05, 12.0, 200)
    right.semilogx(epsilon, 100 * won(epsilon), "black")
    for at in (0.1, 1.0, 3.0, 10.0):
        right.plot(at, 100 * won(at), "ko")
        digits = 1 if at < 10.0 else 3
        upper = np.ceil(100 * won(at) * 10**digits) / 10**digits  # as reports print it
        text = f"{upper:.{digits}f} %"
        right.annotate(text, (at, 100 * won(at)), (-3, 5), ha="right", **POINTS)
    right.axhline(50.0, color="0.6", linestyle=":")
    right.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    right.set_xlabel("epsilon")
    right.set_ylabel("bets won at most, %")
    right.set_ylim(45.0, 107.0)
    right.set_title("Was your row in the table? (50 % is guessing)", fontsize=10)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGE, dpi=110)
    print("wrote docs/images/guarantee.png")


def won(epsilon: float | np.ndarray) -> float | np.ndarray:
    """Give the most that a bet at even odds is won."""
    return (np.exp(epsilon) + DELTA) / (1.0 + np.exp(epsilon))


if __name__ == "__main__":
    main()
