"""Choose a rule on some runs, and count its errors on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth.audit._bounds import epsilon_bounds, mu_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Name of the score that is a linear function of all others, learnt while choosing.
COMBINED = "all scores combined"

_FOLDS = 5


@dataclass(frozen=True, eq=False)  # it holds arrays
class Verdict:
    """The rule that was chosen, and its errors on the runs that did not choose it."""

    score: str
    threshold: float
    above: bool
    false_alarms: int
    misses: int
    absent: Floats
    present: Floats


def attack(
    absent: Floats, present: Floats, names: Sequence[str], *, delta: float, alpha: float
) -> Verdict:
    """Choose score, threshold and direction on the first half; judge on the second.

    `absent` and `present` are of shape (n_runs, n_scores), one row per run.
    """
    n_chosen = len(absent) // 2
    chosen, judged = slice(0, n_chosen), slice(n_chosen, None)
    first = np.vstack([absent[chosen], present[chosen]])
    world = np.repeat([0, 1], n_chosen)
    columns, later = first, [absent[judged], present[judged]]
    labels = list(names)
    if n_chosen >= _FOLDS:
        # A score that has learnt these runs would look too good on them.
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
        # Shrinkage lets it learn from fewer runs than scores.
        model = make_pipeline(
            StandardScaler(),
            LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        )
        guesses = cross_val_predict(
            model, first, world, cv=folds, method="decision_function"
        )
        model.fit(first, world)
        columns = np.column_stack([first, guesses])
        later = [np.column_stack([s, model.decision_function(s)]) for s in later]
        labels.append(COMBINED)
    score, threshold, above = _best_rule(
        columns[:n_chosen], columns[n_chosen:], delta=delta, alpha=alpha
    )
    ours, theirs = (part[:, score] for part in later)
    alarms, hits = (
        (side >= threshold) if above else (side <= threshold) for side in (ours, theirs)
    )
    return Verdict(
        score=labels[score],
        threshold=threshold,
        above=above,
        false_alarms=int(alarms.sum()),
        misses=int((~hits).sum()),
        absent=ours,
        present=theirs,
    )


def _best_rule(
    absent: Floats, present: Floats, *, delta: float, alpha: float
) -> tuple[int, float, bool]:
    """Find score, threshold and direction with the largest bound of epsilon.

    Where several have the same, as where none proves anything, the bound of mu
    decides: it also tells apart attacks that are weak.
    """
    n_runs = len(absent)
    best, found = (-np.inf, -np.inf), (0, 0.0, True)
    for score in range(absent.shape[1]):
        for above in (True, False):
            sign = 1.0 if above else -1.0
            ours, theirs = (np.sort(sign * s[:, score]) for s in (absent, present))
            thresholds = np.unique(np.concatenate([ours, theirs]))
            alarms = n_runs - np.searchsorted(ours, thresholds, side="left")
            misses = np.searchsorted(theirs, thresholds, side="left")
            bounds = np.stack(
                [
                    epsilon_bounds(alarms, misses, n_runs, delta, alpha),
                    mu_bounds(alarms, misses, n_runs, alpha),
                ]
            )
            at = int(np.lexsort(bounds[::-1])[-1])
            if tuple(bounds[:, at]) > best:
                best = (float(bounds[0, at]), float(bounds[1, at]))
                # Half way to the next run on the other side: as many errors, and
                # more room for the runs that judge.
                between = thresholds[at] / 2 + thresholds[max(at - 1, 0)] / 2
                found = (score, sign * float(between), above)
    return found
