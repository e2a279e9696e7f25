"""Draw the pictures of docs/evaluation.md and docs/metrics.md: Adult, two synthesizers.

Run ``python examples/evaluation_pictures.py``; it takes about two minutes on two cores,
and writes to docs/images. Adult is public, so the pictures are too.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.evaluation import compare_synthesizers, quality_report

IMAGES = Path(__file__).parents[1] / "docs" / "images"
N_ROWS = 5_000


def main() -> None:
    """Compare, score one table, and draw."""
    train, test = load_adult(split=True)
    result = compare_synthesizers(
        {
            "marginals": MarginalSynthesizer(),
            "independent": IndependentSynthesizer(),
        },
        train,
        test,
        "income",
        epsilons=(0.3, 1.0, 3.0),
        n_repeats=2,
        n_samples=N_ROWS,
        n_jobs=2,
    )
    save("evaluation-tradeoff", result.plot_tradeoff())
    save("evaluation-classifiers", result.plot_classifiers(epsilon=1.0))
    save("evaluation-pairs", result.plot_pairs(epsilon=1.0).flat[0])
    synth = MarginalSynthesizer(1.0, target="income", random_state=0).fit(train)
    report = quality_report(test, synth.sample(N_ROWS), target="income")
    save("quality-pairs", report.plot())


def save(name: str, ax: plt.Axes) -> None:
    """Write the figure that an axis is in."""
    ax.figure.savefig(IMAGES / f"{name}.png", dpi=100)
    plt.close(ax.figure)
    print(f"wrote docs/images/{name}.png")


if __name__ == "__main__":
    main()
