"""Fit many times in two worlds, in parallel and resumably."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from tqdm import tqdm

from skdpsynth.base import BaseSynthesizer
from skdpsynth.utils import RunFolder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from skdpsynth.audit._scores import CanaryScores

_README = "Scores of finished runs of skdpsynth.audit.audit_generator, one file each.\n"
_WORLDS = ("absent", "present")


def fresh(make: Any) -> Any:  # noqa: ANN401 - anybody's object
    """Give a clone, a deep copy, or what the callable returns: an unfitted object."""
    if isinstance(make, BaseSynthesizer):
        made = clone(make).set_params(budget=None)
    elif isinstance(make, BaseEstimator):
        made = clone(make)
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


def describe(made: Any) -> list[str]:  # noqa: ANN401 - anybody's object
    """Give class and a digest of the configuration, alike in every process.

    Raises ValueError where no digest can be relied on. Where the object draws other
    values whenever it is made, or holds a frozenset of texts, equal objects look
    different, and no finished run is found.
    """
    name = f"{type(made).__module__}.{type(made).__qualname__}"
    has_parameters = hasattr(made, "get_params")
    # Else the attributes alone: the class may stand where no pickle finds it.
    parts = made.get_params(deep=False) if has_parameters else object.__getstate__(made)
    digest = other = ""
    with suppress(Exception):  # anybody's object may raise anything
        digest, other = joblib.hash(parts), joblib.hash(copy.deepcopy(parts))
    if not digest or digest != other:
        raise ValueError(
            "Expected parameters or attributes that can be pickled, to tell the runs "
            f"in `folder` from those of another configuration of {name}. Got something "
            "that has no pickle, or one that changes with every copy. Give the object "
            "a get_params of plain values, or audit it without `folder`."
        )
    return [name, str(digest)]


def run_worlds(
    make: object,
    worlds: tuple[pd.DataFrame, pd.DataFrame],
    scores: CanaryScores,
    *,
    folder: str | os.PathLike[str] | None,
    description: object,
    n_runs: int,
    n_samples: int,
    n_jobs: int | None,
    verbose: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit, sample and score in both worlds: two arrays of shape (n_runs, n_scores).

    `description` is whatever two runs must have in common to be compared.
    """
    kept = None if folder is None else RunFolder(folder, _README)
    digest = joblib.hash(description)

    def place(world: int, run: int) -> tuple[str, list[Any]]:
        return f"{_WORLDS[world]}-{run:05d}", [digest, world, run]

    found = {
        (world, run): kept and kept.read(*place(world, run))
        for run in range(n_runs)
        for world in (0, 1)
    }
    missing = [key for key, value in found.items() if value is None]
    tasks: Iterable[Callable[..., Any]] = (
        joblib.delayed(_one_run)(make, worlds[world], scores, n_samples, world, run)
        for world, run in missing
    )
    done = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks)
    for world, run, row in tqdm(done, total=len(missing), disable=not verbose):
        if kept is not None:
            kept.write(*place(world, run), row.tolist())
        found[world, run] = row
    runs = range(n_runs)
    return np.array([found[0, r] for r in runs]), np.array([found[1, r] for r in runs])


def _one_run(
    make: object,
    table: pd.DataFrame,
    scores: CanaryScores,
    n_samples: int,
    world: int,
    run: int,
) -> tuple[int, int, NDArray[np.float64]]:
    """Fit once; what a fit warns of is no finding, and would be told 400 times."""
    with warnings.catch_warnings(action="ignore"):
        made = fresh(make)
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
    return world, run, scores(sample)
