"""Black-box audit: do synthetic rows show whether one row was in the table.

Two worlds, with the row and without it; many fits in each. Synthetic rows are scored,
a rule is chosen on some runs, and its errors are counted on others.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth.audit._bounds import (
    detectable_epsilon,
    epsilon_bounds,
    epsilon_lower_bound,
    mu_bounds,
    mu_lower_bound,
)
from skdpsynth.audit._worlds import canary_rows
from skdpsynth.base import BaseSynthesizer
from skdpsynth.privacy import claim as claim_text, gdp_epsilon
from skdpsynth.utils import check_range, warn_deprecated, without
from skdpsynth.utils.arrays import Floats
from skdpsynth.utils.dtypes import as_moments, kind_of_dtype, same_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scores = dict[str, float]  # of a run, by name

#: Name of the score that is a linear function of all others, learnt while choosing.
COMBINED = "all scores combined"

# Of the kernel of the density, and half of a cell around the canary, as a share of a
# number column's range.
_WIDTH = 0.1


@dataclass(frozen=True, eq=False)  # it holds arrays
class GeneratorAudit:
    """Result of `audit_generator`: a lower bound of epsilon, never an upper one.

    Parameters
    ----------
    claim, delta : float
        The epsilon and delta that were claimed.
    confidence : float
        Probability of at least which `lower_bound` and `mu_lower_bound` are below the
        truth, both at once.
    lower_bound : float
        Lower bound of epsilon at `delta`, from Clopper-Pearson bounds of both errors.
    mu_lower_bound : float
        Lower bound of the Gaussian-DP parameter; of use where the claim is a Gaussian
        curve, and none of steps on samples, one-bit votes or Laplace noise.
    power : float
        Epsilon of the smallest leak that would have been rejected 8 times in 10; inf
        if there were too few runs to reject any.
    n_judged : int
        Runs in each world that were judged.
    false_alarms, misses : int
        Judged runs without the canary in which the attack reported it, and with the
        canary in which it did not.
    score : str
        The score by which the attack decides.
    threshold : float
        From where on it calls the canary present.
    above : bool
        Whether "from there on" means upwards.
    absent, present : ndarray of shape (n_judged,), float64
        The score in the judged runs without the canary, and with it.

    See Also
    --------
    audit_generator : Makes one.
    """

    claim: float
    delta: float
    confidence: float
    lower_bound: float
    mu_lower_bound: float
    power: float
    n_judged: int
    false_alarms: int
    misses: int
    score: str
    threshold: float
    above: bool
    absent: Floats
    present: Floats

    @property
    def violated(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.lower_bound > self.claim

    @property
    def gdp_lower_bound(self) -> float:
        """Epsilon at `delta` of a Gaussian curve with `mu_lower_bound`."""
        if self.delta == 0:  # no Gaussian curve has a finite epsilon there
            return math.inf if self.mu_lower_bound > 0 else 0.0
        return gdp_epsilon(self.mu_lower_bound, self.delta)

    def __str__(self) -> str:
        claimed = (
            f"epsilon = {claim_text(self.claim)} at delta = {claim_text(self.delta)}"
        )
        found = "contradicts" if self.violated else "found no violation of"
        power = "no leak could have been rejected with so few runs; run more."
        if self.power < math.inf:
            power = (
                f"would have rejected epsilon >= {self.power:.3g} (a leak that its "
                "scores show as randomized response, 8 times in 10)."
            )
        text = (
            f"The audit {found} {claimed}. With {100 * self.confidence:.6g}% "
            f"confidence epsilon is above {self.lower_bound:.3g}, which is a lower "
            "bound of the leak and says nothing of how large it is.\n"
            f"Power: {power}\n"
            f"Attack: {self.score!r} {'>=' if self.above else '<='} "
            f"{self.threshold:.4g}; of {self.n_judged} judged runs in each world "
            f"{self.false_alarms} false alarms and {self.misses} misses.\n"
            f"Were the claim a Gaussian curve: mu above {self.mu_lower_bound:.3g}, "
            f"epsilon above {self.gdp_lower_bound:.3g}."
        )
        if self.violated:
            return text
        return f"{text}\nThis proves nothing: another attack may find more."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores of both worlds; until 0.5."""
        remedy = "Draw `absent` and `present`, for example by plt.hist()."
        what = "GeneratorAudit.plot()"
        warn_deprecated(what, since="0.3", removed_in="0.5", remedy=remedy)
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        ax.hist([self.absent, self.present], label=["absent", "present"])
        return ax


@without(
    since="0.3",
    removed_in="0.5",
    folder="Leave it out: an audit is made in one go.",
    verbose="Leave it out.",
)
def audit_generator(
    estimator: Any,
    table: pd.DataFrame,
    canary: Mapping[str, object] | pd.DataFrame,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_runs: int = 200,
    n_samples: int = 1_000,
    alpha: float = 0.05,
    n_jobs: int | None = None,
) -> GeneratorAudit:
    """Attack synthetic rows: was one known row, the canary, in the training table.

    The attacker knows all other rows and gets the same number of synthetic rows in
    both worlds. The attack is chosen on one half of the runs and judged on the other.

    Parameters
    ----------
    estimator : object with ``fit(table)`` and ``sample(n_rows)``, or callable
        What is audited: cloned or copied for every run, or a callable without
        arguments that makes a new one. A `random_state` stays as it is: the attacker
        knows it. A shared `budget` of a synthesizer of ours is left aside.
    table : DataFrame
        The table without the canary. A worst case has few rows, far from the canary.
        Make it up: what an audit prints is computed from its rows and is not private.
    canary : mapping from column to value, or DataFrame of one row
        The row that is added at the end in one of the worlds. With a `privacy_unit`
        all rows of one unit, which the table lacks; scores are about the first one.
    epsilon, delta : float, optional
        The claim, at least 0 and in [0, 1); by default the estimator's parameters of
        these names.
    n_runs : int, default=200
        Fits in each world, at least 4.
    n_samples : int, default=1000
        Rows drawn after each fit, at least 1.
    alpha : float, default=0.05
        Probability that the lower bound is above the truth, in (0, 1).
    n_jobs : int, optional
        Fits at a time, as joblib counts them.

    Returns
    -------
    GeneratorAudit
        The lower bound, its confidence and its power.

    Raises
    ------
    TypeError
        If there is no `fit` and `sample`, or a sample is no table.
    ValueError
        If a parameter is out of range, no claim is known, the canary does not fit the
        table, or a sample has other rows or columns.

    See Also
    --------
    audit_mechanism : White box; finds more, and sooner.

    Notes
    -----
    Scores are distances to the canary, counts near it and densities there, in all
    columns and in each, and a linear function of all scores that is learnt on the
    first half. Half the error probability goes to each error rate (Clopper and
    Pearson, exact). No audit of generated rows can show that a claim holds: code that
    trains on real rows without any noise has passed such audits.

    References
    ----------
    Annamalai, Ganev, De Cristofaro (2024), "What do you want from theory alone?",
    USENIX Security (https://arxiv.org/abs/2405.10994).

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth import IndependentSynthesizer
    >>> from skdpsynth.audit import audit_generator
    >>> from skdpsynth.schema import Continuous, TableSchema
    >>> schema = TableSchema({"x": Continuous(-10, 10)}, n_rows=2)
    >>> synth = IndependentSynthesizer(epsilon=1.0, delta=1e-5, schema=schema)
    >>> table = pd.DataFrame({"x": [-9.0, -8.0]})
    >>> audit = audit_generator(synth, table, {"x": 9.0}, n_runs=20, n_samples=100)
    >>> audit.violated
    False
    """
    made = _fresh(estimator)
    claims: dict[str, float] = {}
    for name, given in (("epsilon", epsilon), ("delta", delta)):
        value = getattr(made, name, None) if given is None else given
        if value is None:
            raise ValueError(
                f"{type(made).__name__} has no parameter {name!r}, so the claim is "
                f"unknown. Give audit_generator the {name} that is claimed."
            )
        claims[name] = float(value)
    claim, delta = claims["epsilon"], claims["delta"]
    schema = getattr(made, "schema", None)
    check_range("epsilon", claim, claim >= 0, "at least 0")
    check_range("delta", delta, 0 <= delta < 1, "in [0, 1)")
    check_range("alpha", alpha, 0 < alpha < 1, "in (0, 1)")
    for name, value, least in (("n_runs", n_runs, 4), ("n_samples", n_samples, 1)):
        whole = isinstance(value, Integral)
        check_range(name, value, whole and value >= least, f"an int >= {least}")
    rows = canary_rows(table, canary, schema)
    both = pd.concat([table, rows], ignore_index=True)
    # Units are not in synthetic rows: they have numbers of their own.
    unit = getattr(schema, "privacy_unit", None)
    seen = [name for name in table if not same_name(name, unit)]
    score = partial(score_rows, canary=rows[seen], ranges=ranges_of(both[seen]))
    runs = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_one_run)(estimator, world, score, n_samples)
        for world in (table, both) * n_runs
    )
    worlds = pd.DataFrame(runs[::2]), pd.DataFrame(runs[1::2])
    return attack(*worlds, claim=claim, delta=delta, alpha=alpha)


# --- Runs ---------------------------------------------------------------------------


def _fresh(make: Any) -> Any:
    """Return a clone, a deep copy, or what the callable returns: an unfitted object."""
    if isinstance(make, BaseEstimator):
        made = clone(make)
        if isinstance(made, BaseSynthesizer):
            made.set_params(budget=None)
    elif hasattr(make, "fit") and not isinstance(make, type):
        made = copy.deepcopy(make)
    else:
        made = make() if callable(make) else make
    if not (hasattr(made, "fit") and hasattr(made, "sample")):
        raise TypeError(
            "Expected an object with fit(table) and sample(n_rows), or a callable that "
            f"makes one. Got {type(made).__name__} instead."
        )
    return made


def _one_run(
    make: object,
    table: pd.DataFrame,
    score: Callable[[pd.DataFrame], Scores],
    n_samples: int,
) -> Scores:
    """Fit once; what a fit warns of is no finding, and would be shown 400 times."""
    with warnings.catch_warnings(action="ignore"):
        made = _fresh(make)
        made.fit(table.copy())
        sample = made.sample(n_samples)
    if not isinstance(sample, pd.DataFrame):
        rows = np.asarray(sample)
        if rows.ndim != 2 or rows.shape[1] != table.shape[1]:
            raise TypeError(
                f"Expected sample({n_samples}) to give a DataFrame with the columns "
                f"{list(table)}. Got {type(sample).__name__} of shape {rows.shape} "
                "instead. Wrap the object so that it does."
            )
        sample = pd.DataFrame(rows, columns=list(table))
    if len(sample) != n_samples or set(sample) != set(table):
        raise ValueError(
            f"Expected sample({n_samples}) to give as many rows with the columns "
            f"{list(table)}. Got {len(sample)} rows with the columns {list(sample)}. "
            "Wrap the object so that it does: by its number of rows a sample would "
            "show in which world it is."
        )
    return score(sample)


# --- Scores -------------------------------------------------------------------------


def ranges_of(table: pd.DataFrame) -> dict[Hashable, float]:
    """Return the width of the finite values of each number column; 1 if it is none."""
    ranges = {}
    for name, column in table.items():
        kind, _ = kind_of_dtype(column.dtype) or ("", True)
        if kind in ("continuous", "integer", "datetime"):
            values = _as_floats(column)
            values = values[np.isfinite(values)]
            width = float(np.ptp(values)) if len(values) else 0.0
            ranges[name] = width if 0 < width < np.inf else 1.0
    return ranges


def score_rows(
    sample: pd.DataFrame, canary: pd.DataFrame, ranges: Mapping[Hashable, float]
) -> Scores:
    """Return finite numbers in which a synthetic table could show the canary."""
    # Rows differ from it by a share of a number column's range, in others by 0 or 1. A
    # cell has rows that differ by at most its width everywhere; densities are Gaussian.
    signed = {
        name: _differences(sample[name], canary[name].iloc[0], ranges.get(name))
        for name in canary
    }
    apart = np.abs(np.column_stack([*signed.values()]))
    distances = np.minimum(apart, 1.0).mean(axis=1)
    shares = np.maximum((apart <= _WIDTH).mean(axis=0), 1 / len(apart))
    scores = {
        "smallest distance": distances.min(),
        "mean distance": distances.mean(),
        "distance of the nearest 5%": np.quantile(distances, 0.05),
        "count in the cell": (apart <= _WIDTH).all(axis=1).mean(),
        "density": np.exp(-((apart / _WIDTH) ** 2).sum(axis=1) / 2).mean(),
        "marginal density": np.log(shares).sum(),
    }
    for name, difference in signed.items():
        scores[f"count near: {name}"] = (np.abs(difference) <= _WIDTH).mean()
        if name in ranges:
            scores[f"smallest difference: {name}"] = np.abs(difference).min()
            scores[f"mean difference: {name}"] = difference.mean()
            scores[f"spread: {name}"] = difference.std()
    return {name: float(np.nan_to_num(score)) for name, score in scores.items()}


def _differences(column: pd.Series, value: Any, width: float | None) -> Floats:
    """Return how far each value is from the canary's."""
    missing = column.isna().to_numpy()
    if pd.isna(value):
        return np.where(missing, 0.0, 1.0)
    if width is None:
        same = (column.astype(object) == value).fillna(value=False)
        return np.where(same.to_numpy(dtype=bool), 0.0, 1.0)
    values = (_as_floats(column) - _as_floats(pd.Series([value]))[0]) / width
    return np.where(missing, 1.0, np.clip(np.nan_to_num(values), -1e6, 1e6))


def _as_floats(column: pd.Series) -> Floats:
    """Convert numbers and times; missing values become NaN."""
    column = as_moments(column)
    if pd.api.types.is_datetime64_any_dtype(column):
        seconds = column.dt.tz_localize(None) if column.dt.tz else column
        return (seconds - pd.Timestamp(0)).dt.total_seconds().to_numpy(np.float64)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


# --- The attack ---------------------------------------------------------------------


def attack(
    absent: pd.DataFrame,
    present: pd.DataFrame,
    *,
    claim: float,
    delta: float,
    alpha: float,
) -> GeneratorAudit:
    """Choose score, threshold and direction on half the runs; judge on the others.

    The tables have a row for every run, and a column for every score.
    """
    half, labels = len(absent) // 2, [*absent]
    sides = absent.to_numpy(), present.to_numpy()
    chosen = np.vstack([side[:half] for side in sides])
    judged = np.vstack([side[half:] for side in sides])
    # On the runs that it has learnt from a score is too good.
    folds = StratifiedKFold(shuffle=True, random_state=0)
    if half >= folds.n_splits:
        world = np.repeat([0, 1], half)
        # Shrinkage lets it learn from fewer runs than scores.
        model = make_pipeline(
            StandardScaler(),
            LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        )
        guesses = cross_val_predict(
            model, chosen, world, cv=folds, method="decision_function"
        )
        model.fit(chosen, world)
        judged = np.column_stack([judged, model.decision_function(judged)])
        chosen = np.column_stack([chosen, guesses])
        labels.append(COMBINED)
    score, threshold, above = _best_rule(
        chosen[:half], chosen[half:], delta=delta, alpha=alpha
    )
    ours, theirs = np.split(judged[:, score], 2)
    alarms, hits = (
        (side >= threshold) if above else (side <= threshold) for side in (ours, theirs)
    )
    errors = int(alarms.sum()), int((~hits).sum())
    n_judged = len(ours)
    return GeneratorAudit(
        claim,
        delta,
        1 - alpha,
        epsilon_lower_bound(*errors, n_judged, delta=delta, alpha=alpha),
        mu_lower_bound(*errors, n_judged, alpha=alpha),
        detectable_epsilon(claim, n_judged, delta=delta, alpha=alpha),
        n_judged,
        *(*errors, labels[score], threshold, above, ours, theirs),
    )


def _best_rule(
    absent: Floats, present: Floats, *, delta: float, alpha: float
) -> tuple[int, float, bool]:
    """Return score, threshold and direction with the largest bound of epsilon."""
    # Where several have the same, that of mu decides: it also ranks weak attacks.
    n_runs = len(absent)
    best, rule = (-np.inf, -np.inf), (0, 0.0, True)
    for score, above in product(range(absent.shape[1]), (True, False)):
        sign = 1.0 if above else -1.0
        ours, theirs = (np.sort(sign * s[:, score]) for s in (absent, present))
        thresholds = np.unique(np.concatenate([ours, theirs]))
        alarms = n_runs - np.searchsorted(ours, thresholds, side="left")
        misses = np.searchsorted(theirs, thresholds, side="left")
        bounds = epsilon_bounds(alarms, misses, n_runs, delta, alpha)
        of_mu = mu_bounds(alarms, misses, n_runs, alpha)
        at = int(np.lexsort([of_mu, bounds])[-1])
        if (bounds[at], of_mu[at]) > best:
            best = (float(bounds[at]), float(of_mu[at]))
            # Half way to the next run on the other side: as many errors, and
            # more room for the runs that judge.
            between = thresholds[at] / 2 + thresholds[max(at - 1, 0)] / 2
            rule = (score, sign * float(between), above)
    return rule
