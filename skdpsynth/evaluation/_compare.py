"""Fit several synthesizers several times, and score what they sample."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from tqdm.auto import tqdm

from skdpsynth.evaluation._plots import strongest_pairs
from skdpsynth.evaluation._results import ComparisonResult
from skdpsynth.evaluation._runs import ALL, REAL, RUN, KeptRuns, Run, Task, make
from skdpsynth.exceptions import (
    DegradedResultWarning,
    InvalidTableError,
    TiedScoresWarning,
)
from skdpsynth.metrics import (
    CLASSIFIERS,
    LEAST_ROWS,
    REGRESSORS,
    Classifiers,
    averaged,
    check_tables,
    column_fidelity,
    is_measurement,
    named_by_class,
    positive_label,
    resolve_classifiers,
    synthetic_ranking_agreement,
    tstr_scores,
)
from skdpsynth.utils import check_range, without
from skdpsynth.utils.containers import from_arrow


@without(since="0.3", removed_in="0.5", verbose="Set TQDM_DISABLE=1 for no bar.")
def compare_synthesizers(
    synthesizers: Mapping[str, BaseEstimator] | Sequence[BaseEstimator],
    train: pd.DataFrame,
    test: pd.DataFrame,
    target: str,
    epsilons: Sequence[float] = (1.0,),
    n_repeats: int = 3,
    n_samples: int = 10_000,
    settings: str = "ABC",
    n_jobs: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    classifiers: Classifiers = None,
    pos_label: object = None,
    sampling_strategy: str | Mapping[Hashable, float] | None = None,
    fidelity: bool = True,
    random_state: int = 0,
) -> ComparisonResult:
    """Fit synthesizers to a table, sample, and score what they sample.

    Every synthesizer is fitted `n_repeats` times at every epsilon. Each fit spends its
    own (epsilon, delta). What is computed from real rows is not private, and neither is
    a choice that is made by it: see Notes.

    Parameters
    ----------
    synthesizers : dict of str to synthesizer, or list of synthesizer
        Unfitted, with their parameters. A list takes the names from the classes.
    train : DataFrame or Arrow table
        Private table to fit to, of pandas, polars or whatever else speaks Arrow.
    test : DataFrame or Arrow table
        Real table with the same columns, of other rows. At least two labels, or two
        values of a measurement.
    target : str
        Name of the column to predict, a label or a measurement, as in
        `skdpsynth.metrics.tstr_scores`. A synthesizer without a target is given it.
    epsilons : sequence of float, default=(1.0,)
        Budgets to fit with, positive. A synthesizer without the parameter `epsilon`
        runs once in each repeat, at infinite epsilon.
    n_repeats : int, default=3
        Fits of each synthesizer at each epsilon, at least 1.
    n_samples : int, default=10000
        Synthetic rows of each fit, at least 2 (10 with `fidelity`), and real rows of
        the reference at most.
    settings : str, default="ABC"
        Which of the settings of the PATE-GAN paper (`skdpsynth.metrics.tstr_scores`
        cites it): A (learn from real rows, test on real rows; the reference), B
        (synthetic, real) and C (synthetic, synthetic; the reference too).
    n_jobs : int or None, default=None
        Runs at the same time, as in joblib, in whatever backend is set there.
    folder : path-like or None, default=None
        Where to keep what finished runs scored, from which a comparison that failed or
        was interrupted goes on: statistics of real rows. It keeps no synthetic rows, so
        plots of pairs show the runs of this call.
    classifiers : dict of str to classifier, list, or None, default=None
        As in `skdpsynth.metrics.tstr_scores`, but None means the twelve and
        "HistGradientBoosting", which is in no mean and no agreement, and leads the
        summary.
    pos_label : object, default=None
        As in `skdpsynth.metrics.tstr_scores`.
    sampling_strategy : {"balanced"}, dict or None, default=None
        Class shares or counts of the synthetic rows, as in ``sample``; None for a
        measurement. Counts are those of the reference too, as far as `train` has so
        many rows of a class; without counts its rows are drawn from all of `train`.
    fidelity : bool, default=True
        Whether to compare pairs of columns and whole rows too.
    random_state : int, default=0
        At least 0. Seeds what is public: initial weights, sampling and the real rows of
        the reference. Noise is always fresh; `folder` keeps the first numbers.

    Returns
    -------
    ComparisonResult
        Scores, costs, plots and report.

    Raises
    ------
    InvalidTableError
        Before the first fit: if `train` and `test` have other columns or kinds of
        columns, one is empty, has an infinite value or lacks labels, or the settings or
        `fidelity` need more labels or rows.
    MissingDependencyError
        If the twelve are asked for and the module xgboost is not installed.
    TypeError
        If a synthesizer is not an estimator or alone, or a table is none.
    ValueError
        If another parameter is out of range.

    Warns
    -----
    DegradedResultWarning
        If runs failed. Each is a row of ``runs`` with its error.

    See Also
    --------
    skdpsynth.evaluation.quality_report : Scores one synthetic table.
    skdpsynth.PrivacyBudget : Limits what the fits of a comparison spend together.

    Notes
    -----
    Which synthesizer, epsilon or seed scores best on real rows depends on these rows,
    and no epsilon of a fit covers that. Choose on a public table of the same kind, or
    state the sum of the budgets of all candidates and score them without real rows.

    Setting C is scored without real rows, also without their number: a fifth of the
    synthetic rows is held out. Distances of the fidelity metrics are to `test`. The
    reference, which A and `fidelity` ask for, is scored in Setting C too: the ranking
    agreement of its own A and C says what to expect of a synthesizer. A worker process
    that is killed ends the comparison.

    Examples
    --------
    >>> from skdpsynth import IndependentSynthesizer
    >>> from skdpsynth.datasets import load_cervical_cancer
    >>> from skdpsynth.evaluation import compare_synthesizers
    >>> table = load_cervical_cancer()
    >>> result = compare_synthesizers(
    ...     [IndependentSynthesizer()], table[::2], table[1::2], "Biopsy",
    ...     n_repeats=2, n_samples=400, classifiers=["GaussianNB"], fidelity=False,
    ... )
    >>> result.summary()["synthesizer"].tolist()
    ['real data', 'IndependentSynthesizer']
    """
    train, test = from_arrow(train), from_arrow(test)
    checked = check_tables(target, train=train, test=test)["test"]
    measured = is_measurement(checked[target], pos_label)
    pos_label = positive_label(checked[target], pos_label)  # in all tables the same
    if classifiers is None and not measured:
        classifiers = list(CLASSIFIERS)
    resolve_classifiers(classifiers, REGRESSORS if measured else CLASSIFIERS)
    _check_numbers(epsilons, n_repeats, n_samples, settings, random_state)
    task = Task(
        target=target,
        n_samples=int(n_samples),
        settings="".join(sorted(set(settings))),
        classifiers=classifiers,
        pos_label=pos_label,
        sampling_strategy=sampling_strategy,
        fidelity=fidelity,
    )
    _check_strategy(sampling_strategy, task.n_samples, measured)
    named = _named(synthesizers, target)
    _rehearse(task, train, test, DummyRegressor() if measured else DummyClassifier())
    runs = _planned(named, task, epsilons, n_repeats, random_state)
    kept = None if folder is None else KeptRuns(folder, task, train, test)
    if kept is not None:
        runs = [kept.read(run) for run in runs]
    left = [i for i, run in enumerate(runs) if not run.row]
    calls = (delayed(make)(i, runs[i], task, train, test) for i in left)
    done = len(runs) - len(left)
    # One run a batch, handed over at once, so that none is held back by another.
    options: dict[str, Any] = {"n_jobs": n_jobs, "batch_size": 1}
    options["return_as"] = "generator_unordered"
    bar = tqdm(total=len(runs), initial=done, disable=None, unit="run")
    # Threads that score at the same time leave filters of warnings behind.
    with warnings.catch_warnings(), bar:
        for i, made in Parallel(**options)(calls):
            if kept is not None:
                kept.write(runs[i], made)
            runs[i] = made
            bar.update()
    failed = [run.name for run in runs if run.row["error"]]
    if failed:
        names = ", ".join(sorted({*failed}))
        warnings.warn(
            f"{len(failed)} of {len(runs)} runs failed ({names}). The column 'error' "
            "of the result's `runs` says why.",
            DegradedResultWarning,
            stacklevel=2,
        )
    rows = [
        [run.name, run.epsilon, run.repeat, *score]
        for run in runs
        for score in run.scores
    ]
    columns = [*RUN, "setting", "classifier", "metric", "value"]
    rows += _agreements(pd.DataFrame(rows, columns=columns))
    sampled = (run for run in runs if run.sample is not None)
    return ComparisonResult(
        pd.DataFrame(rows, columns=columns),
        pd.DataFrame([run.row for run in runs]),
        {(run.name, run.epsilon): run.sample for run in sampled},
        target,
        real_pairs=strongest_pairs(checked, target),
    )


def _check_numbers(
    epsilons: Sequence[float],
    n_repeats: int,
    n_samples: int,
    settings: str,
    random_state: int,
) -> None:
    """Check the parameters that no later step checks."""
    listed = np.ndim(epsilons) == 1 and len(epsilons) > 0
    positive = listed and all(isinstance(e, Real) and e > 0 for e in epsilons)
    expected = "a list of positive numbers, at least one"
    check_range("epsilons", epsilons, positive, expected)
    for name, value, low in (
        ("n_repeats", n_repeats, 1),
        ("n_samples", n_samples, 2),
        ("random_state", random_state, 0),
    ):
        whole = isinstance(value, Integral) and value >= low
        check_range(name, value, whole, f"an integer of at least {low}")
    letters = bool(settings) and set(settings) <= set("ABC")
    check_range("settings", settings, letters, "letters out of 'ABC'")


def _check_strategy(
    strategy: str | Mapping[Hashable, float] | None, n_samples: int, measured: bool
) -> None:
    """Check what can be checked before a fit says which classes there are."""
    if measured:
        expected = "None for a target that is a number and has no classes"
        check_range("sampling_strategy", strategy, strategy is None, expected)
    if strategy is None or (isinstance(strategy, str) and strategy == "balanced"):
        return
    values = list(strategy.values()) if isinstance(strategy, Mapping) else [math.nan]
    total = sum(values)
    fits = (abs(total - 1) <= 1e-9 or total == n_samples) and min(values) >= 0
    expected = (
        "None, 'balanced' or a dict from class to share (their sum is 1) or to count "
        f"(n_samples, {n_samples})"
    )
    check_range("sampling_strategy", strategy, fits, expected)


def _rehearse(
    task: Task, train: pd.DataFrame, test: pd.DataFrame, dummy: BaseEstimator
) -> None:
    """Refuse what no run could score before a fit spends anything."""
    rows = train.iloc[: task.n_samples]
    column_fidelity(test, rows)
    if set(task.settings) & set("AB"):
        options: dict[str, Any] = {"target": task.target, "pos_label": task.pos_label}
        with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
            # The first rows may have one label, unlike those of the runs.
            tstr_scores(rows, test, classifiers={"nothing": dummy}, **options)
    n_rows = min(len(rows), len(test))
    if task.fidelity and n_rows < LEAST_ROWS:
        raise InvalidTableError(
            f"Expected at least {LEAST_ROWS} rows in 'train', in 'test' and in "
            f"n_samples for the fidelity metrics, but got {n_rows}. Give more "
            "rows, or leave them out by fidelity=False."
        )


def _named(
    synthesizers: Mapping[str, BaseEstimator] | Sequence[BaseEstimator], target: str
) -> dict[str, BaseEstimator]:
    """Return copies of the synthesizers by name, each with the target."""
    if isinstance(synthesizers, Mapping):
        named = {str(name): value for name, value in synthesizers.items()}
    elif hasattr(synthesizers, "fit"):
        raise TypeError(
            "synthesizers must be a list or a dict of synthesizers. Got one alone: "
            f"put {synthesizers!r:.100} into a list."
        )
    else:
        named = named_by_class(synthesizers)
    if not named or {REAL, ""} & named.keys() or len(named) < len(synthesizers):
        raise ValueError(
            "synthesizers must hold at least one synthesizer, each with a name of its "
            f"own other than {REAL!r}, which the reference has. Got {list(named)} "
            "instead."
        )
    methods = "fit", "sample", "get_params"
    for name, made in named.items():
        if isinstance(made, type) or not all(hasattr(made, m) for m in methods):
            raise TypeError(
                "synthesizers must hold unfitted synthesizers, such as "
                f"GPATESynthesizer(). Got {made!r:.100} under the name {name!r} "
                "instead."
            )
        known = made.get_params(deep=False)
        stated = getattr(known.get("schema"), "target", None)
        named[name] = copy = clone(made)
        if "target" in known and known["target"] is None and stated is None:
            copy.set_params(target=target)
    return named


def _planned(
    named: Mapping[str, BaseEstimator],
    task: Task,
    epsilons: Sequence[float],
    n_repeats: int,
    random_state: int,
) -> list[Run]:
    """List the runs, one repeat after the other."""
    runs = []
    for repeat in range(n_repeats):
        sequence = np.random.SeedSequence([random_state, repeat])
        seed = int(sequence.generate_state(1, np.uint32)[0] >> 1)
        if "A" in task.settings or task.fidelity:
            runs.append(Run(REAL, None, math.nan, repeat, seed))
        for name, synthesizer in named.items():
            known = synthesizer.get_params(deep=False).keys()
            for epsilon in dict.fromkeys(
                epsilons if "epsilon" in known else [math.inf]
            ):
                wanted = {"epsilon": epsilon, "random_state": seed}
                changes = {key: wanted[key] for key in wanted.keys() & known}
                copy = clone(synthesizer).set_params(**changes)
                runs.append(Run(name, copy, float(epsilon), repeat, seed))
    return runs


def _agreements(scores: pd.DataFrame) -> list[list[Any]]:
    """Compare Setting C of each run with Setting A of the same repeat."""
    rows = []
    scores = scores[scores["setting"].isin(["A", "C"])]
    scores = scores[scores["classifier"].isin(averaged(scores["classifier"]))]
    in_a, in_c = (scores[scores["setting"] == setting] for setting in "AC")
    in_a = dict(iter(in_a.groupby(["metric", "repeat"])))
    # The reference, whose epsilon is NaN, is compared with itself.
    runs = in_c.groupby(["metric", *RUN], sort=False, dropna=False)
    for (metric, name, epsilon, repeat), part in runs:
        real = in_a.get((metric, repeat), ())
        if len(real) < 2:
            continue
        pair = (table.set_index("classifier")["value"] for table in (real, part))
        with warnings.catch_warnings(action="ignore", category=TiedScoresWarning):
            # A tied pair agrees with nothing; the guide says so.
            value = synthetic_ranking_agreement(*pair)
        rows.append([name, epsilon, repeat, "AC", ALL, f"sra_{metric}", value])
    return rows
