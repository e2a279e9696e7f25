"""Black-box audit: can synthetic rows tell whether one row was in the table."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import pandas as pd

from skdpsynth.audit._attack import attack
from skdpsynth.audit._bounds import (
    detectable_epsilon,
    epsilon_lower_bound,
    mu_lower_bound,
)
from skdpsynth.audit._results import POWER, GeneratorAudit
from skdpsynth.audit._runs import describe, fresh, run_worlds
from skdpsynth.audit._scores import CanaryScores, canary_row
from skdpsynth.exceptions import check_range

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def audit_generator(
    estimator: Any,  # noqa: ANN401 - anybody's object with fit and sample
    table: pd.DataFrame,
    canary: Mapping[str, object] | pd.DataFrame,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_runs: int = 200,
    n_samples: int = 1_000,
    alpha: float = 0.05,
    n_jobs: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> GeneratorAudit:
    """Attack synthetic rows: was one known row, the canary, in the training table.

    The attacker knows all other rows and sees the same number of synthetic rows in
    both worlds. What to look at is chosen on one half of the runs, and judged on the
    other.

    Parameters
    ----------
    estimator : object with ``fit(table)`` and ``sample(n_rows)``, or callable
        What is audited: cloned or copied for every run, or a callable without
        arguments that makes a new one. A `random_state` stays as it is: the attacker
        knows it. A shared `budget` of a synthesizer of ours is left aside.
    table : DataFrame
        The table without the canary. A worst case has few rows, far from the canary.
        Make it up: what an audit tells is computed from its rows and is not private.
    canary : mapping from column to value, or DataFrame of one row
        The row that is added at the end in one of the worlds.
    epsilon : float, optional
        The claim, at least 0; by default the estimator's parameter of that name.
    delta : float, optional
        The delta of the claim, in [0, 1); by default the estimator's parameter.
    n_runs : int, default=200
        Fits in each world, at least 4.
    n_samples : int, default=1000
        Rows drawn after each fit, at least 1.
    alpha : float, default=0.05
        Probability that the lower bound is above the truth, in (0, 1).
    n_jobs : int, optional
        Fits at a time, as joblib counts them.
    folder : path-like, optional
        Keeps the scores of finished runs, one file each; the same audit goes on from
        there. They are of this code: take a new folder when the code has changed.
    verbose : int, default=0
        Shows progress from 1 on.

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
        table, the folder cannot tell this audit from another, or a sample has other
        rows or columns.

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
    made = fresh(estimator)
    claim = _claim(made, "epsilon", epsilon)
    delta = _claim(made, "delta", delta)
    check_range("epsilon", claim, claim >= 0, "at least 0")
    check_range("delta", delta, 0 <= delta < 1, "in [0, 1)")
    check_range("alpha", alpha, 0 < alpha < 1, "in (0, 1)")
    for name, value, least in (("n_runs", n_runs, 4), ("n_samples", n_samples, 1)):
        whole = isinstance(value, Integral)
        check_range(name, value, whole and value >= least, f"an int >= {least}")
    row = canary_row(table, canary)
    worlds = (table, pd.concat([table, row], ignore_index=True))
    description = [] if folder is None else [describe(made), table, row, n_samples]
    scores = CanaryScores(table, row)
    absent, present = run_worlds(
        estimator,
        worlds,
        scores,
        folder=folder,
        description=description,
        n_runs=n_runs,
        n_samples=n_samples,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    verdict = attack(absent, present, scores.names, delta=delta, alpha=alpha)
    errors = (verdict.false_alarms, verdict.misses, len(verdict.absent))
    return GeneratorAudit(
        claim=claim,
        delta=delta,
        confidence=1 - alpha,
        lower_bound=epsilon_lower_bound(*errors, delta=delta, alpha=alpha),
        mu_lower_bound=mu_lower_bound(*errors, alpha=alpha),
        power=detectable_epsilon(
            claim, errors[2], delta=delta, alpha=alpha, power=POWER
        ),
        n_judged=errors[2],
        **vars(verdict),
    )


def _claim(made: object, name: str, given: float | None) -> float:
    """Take what was given, or the estimator's own parameter."""
    value = getattr(made, name, None) if given is None else given
    if value is None:
        raise ValueError(
            f"{type(made).__name__} has no parameter {name!r}, so the claim is "
            f"unknown. Give audit_generator the {name} that is claimed."
        )
    return float(value)
