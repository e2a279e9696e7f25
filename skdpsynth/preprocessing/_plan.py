"""Plans: how a class divides what it can pay, from public numbers alone.

The same functions serve `plan`, with guessed counts, and `fit`, with bought ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.preprocessing._classes import rounded
from skdpsynth.preprocessing._marginals import bins_for, coarse_share
from skdpsynth.preprocessing._purchase import CLASS_SHARE
from skdpsynth.privacy._calibration import gdp_mu, grid_noise_std
from skdpsynth.schema import Boolean, Categorical, Identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from skdpsynth.schema import TableSchema

__all__ = ["ClassPlan", "plan_marginals", "plan_table"]

_SIGNAL_FROM = 1.0


@dataclass(frozen=True)
class ClassPlan:
    """What one class pays for.

    Parameters
    ----------
    label : hashable
        The class; None for all rows.
    n_rows : float
        Rows the plan counts on.
    mu_marginals : float
        Gaussian-DP parameter of its marginals; 0 if it buys none.
    noise_std : float
        Noise of one count of the second round of the marginals.
    n_bins : int
        Bins of a numeric column in that round.
    n_teachers, n_iter : int
        Teachers, and steps they advise; 0 if the class does not train.
    n_queries : int
        Releases of one step.
    mu_step : float
        Gaussian-DP parameter of one step.
    step_noise_std : float
        Noise of one released number of a step: in clipping norms, or in votes.
    most_levels : int
        Categories of the column that has most.
    """

    label: Hashable
    n_rows: float
    mu_marginals: float
    noise_std: float
    n_bins: int
    n_teachers: int = 0
    n_iter: int = 0
    n_queries: int = 1
    mu_step: float = 0.0
    step_noise_std: float = 0.0
    most_levels: int = 0

    @property
    def signal_to_noise(self) -> float:
        """Expected count of a bin of the marginals over its noise."""
        if self.noise_std == 0:
            return math.inf
        return self.n_rows / (self.n_bins * self.noise_std)

    @property
    def _note_of_training(self) -> str:
        """What to expect of a class that starts from nothing."""
        if self.n_iter == 0:
            return "too small a budget for one step: nothing is learnt"
        if self.step_noise_std > self.n_teachers:
            return "too few rows for the budget: mostly noise"
        return ""

    @property
    def note(self) -> str:
        """What to expect, where it is little."""
        if self.mu_marginals == 0:
            return self._note_of_training
        if self.signal_to_noise < _SIGNAL_FROM:
            return "too few rows for the budget: mostly noise"
        if self.most_levels * self.noise_std > self.n_rows / _SIGNAL_FROM:
            return "too many categories for the budget: rare ones are mostly noise"
        return ""


def plan_marginals(
    label: Hashable, n_rows: float, n_numeric: int, n_levels: int, mu: float
) -> ClassPlan:
    """Plan the marginals of one class.

    Parameters
    ----------
    label : hashable
        The class.
    n_rows : float
        Its declared or noisy count.
    n_numeric, n_levels : int
        Numbers of numeric and of level columns.
    mu : float
        Gaussian-DP parameter that it may use for them.

    Returns
    -------
    ClassPlan
        Without training.
    """
    fine = math.sqrt(1.0 - coarse_share(n_numeric, n_levels))
    noise_std = grid_noise_std(mu * fine, math.sqrt(n_numeric + n_levels))
    n_bins = bins_for(n_rows, noise_std, coarse=False)
    return ClassPlan(label, n_rows, mu, noise_std, n_bins)


def plan_table(
    plan_classes: Callable[..., list[ClassPlan]],
    epsilon: float,
    delta: float,
    n_rows: int,
    schema: TableSchema,
    class_counts: Mapping[Hashable, int] | None,
) -> pd.DataFrame:
    """Plan every class from guessed counts.

    Parameters
    ----------
    plan_classes : callable
        The algorithm's ``_plan_classes``.
    epsilon, delta : float
        The whole budget.
    n_rows : int
        A guess of the number of rows.
    schema : TableSchema
        The columns.
    class_counts : mapping of class to int or None
        A guess of the rows per class.

    Returns
    -------
    DataFrame
        One row per class.

    Raises
    ------
    ValueError
        If a guess is out of range, or of an unknown class.
    InvalidSchemaError
        If there is no column to model.
    """
    _check_guess("n_rows", n_rows, least=1)
    target = schema.columns.get(schema.target) if schema.target is not None else None
    labels: tuple[Hashable, ...] = (None,)
    if isinstance(target, Categorical):
        labels = tuple(target.categories)
    elif isinstance(target, Boolean):
        labels = (False, True)
    elif class_counts:
        labels = tuple(class_counts)
    counts = np.full(len(labels), n_rows / len(labels))
    if class_counts is not None:
        if not isinstance(class_counts, Mapping):
            msg = (
                "class_counts must be a dict from class to count. Got "
                f"{type(class_counts).__name__} instead."
            )
            raise ValueError(msg)
        unknown = [label for label in class_counts if label not in labels]
        if unknown:
            msg = (
                f"class_counts names {unknown!r}, but the classes of the schema are "
                f"{list(labels)!r}."
            )
            raise ValueError(msg)
        for count in class_counts.values():
            _check_guess("Each of class_counts", count, least=0)
        counts = np.array([float(class_counts.get(label, 0)) for label in labels])
    features = [
        column
        for name, column in schema.columns.items()
        if name != schema.target and not isinstance(column, Identifier)
    ]
    if not features:
        msg = "The schema describes no column that could be modelled. Add columns."
        raise InvalidSchemaError(msg)
    n_levels = sum(isinstance(column, Categorical | Boolean) for column in features)
    cap = gdp_mu(epsilon, delta)
    known = schema.class_counts is not None or (target is None and schema.n_rows)
    mu = cap if known or cap == math.inf else cap * math.sqrt(1.0 - CLASS_SHARE)
    plans = plan_classes(
        labels, rounded(counts), len(features) - n_levels, n_levels, mu
    )
    most = max(len(c.categories) if isinstance(c, Categorical) else 0 for c in features)
    plans = [replace(plan, most_levels=most) for plan in plans]
    return pd.DataFrame(
        {
            "class": [plan.label for plan in plans],
            "rows": [int(plan.n_rows) for plan in plans],
            "bins": [plan.n_bins for plan in plans],
            "noise_std": [plan.noise_std for plan in plans],
            "signal_to_noise": [plan.signal_to_noise for plan in plans],
            "n_teachers": [plan.n_teachers for plan in plans],
            "n_iter": [plan.n_iter for plan in plans],
            "step_noise_std": [plan.step_noise_std for plan in plans],
            "note": [plan.note for plan in plans],
        }
    )


def _check_guess(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, Integral) or value < least:
        msg = f"{name} must be an int >= {least}. Got {value!r} instead."
        raise ValueError(msg)
