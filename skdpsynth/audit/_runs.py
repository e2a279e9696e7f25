"""Fit many times in two worlds, in parallel and resumably."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import tempfile
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from tqdm import tqdm

from skdpsynth.base import BaseSynthesizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from skdpsynth.audit._scores import CanaryScores

__all__ = ["RunFolder", "describe", "fresh", "run_worlds"]

_SETTINGS = "settings.json"
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


def fresh(make: Any) -> Any:  # noqa: ANN401 - anybody's object
    """Give an unfitted object of the kind that is audited.

    Parameters
    ----------
    make : object with fit and sample, or callable without arguments
        What was given to the audit.

    Returns
    -------
    object
        A clone, a deep copy, or what the callable returns.

    Raises
    ------
    TypeError
        If there is no `fit` and `sample`.
    """
    if isinstance(make, BaseSynthesizer):
        made = clone(make).set_params(budget=None)
    elif isinstance(make, BaseEstimator):
        made = clone(make)
    elif hasattr(make, "fit") and not isinstance(make, type):
        made = copy.deepcopy(make)
    else:
        made = make() if callable(make) else make
    if not (hasattr(made, "fit") and hasattr(made, "sample")):
        msg = (
            "Expected an object with fit(table) and sample(n_rows), or a callable that "
            f"makes one. Got {type(made).__name__} instead."
        )
        raise TypeError(msg)
    return made


class RunFolder:
    """Scores of finished runs, one small file each.

    Parameters
    ----------
    path : path-like or None
        The folder; None keeps nothing.
    description : object
        Whatever two runs must have in common to be compared.

    Raises
    ------
    ValueError
        If the folder holds runs of another audit.

    Notes
    -----
    A file is written beside its place and moved there, so that none is half written.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, description: object
    ) -> None:
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        self._path.mkdir(parents=True, exist_ok=True)
        settings = {"audit": joblib.hash(description)}
        place = self._path / _SETTINGS
        if not place.exists():
            _write(place, settings)
        elif json.loads(place.read_text(encoding="utf-8")) != settings:
            msg = (
                f"{self._path} holds runs of another audit: estimator, table, canary "
                "or number of rows differ. Give each audit a folder of its own."
            )
            raise ValueError(msg)

    def load(self, world: int, run: int) -> NDArray[np.float64] | None:
        """Give the scores of a run, or None if it is still to do."""
        place = None if self._path is None else self._path / _name(world, run)
        if place is None or not place.exists():
            return None
        return np.array(json.loads(place.read_text(encoding="utf-8")))

    def save(self, world: int, run: int, scores: NDArray[np.float64]) -> None:
        """Keep the scores of a run."""
        if self._path is not None:
            _write(self._path / _name(world, run), scores.tolist())


def _write(place: Path, content: object) -> None:
    handle, beside = tempfile.mkstemp(dir=place.parent, suffix=".part")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file)
    Path(beside).replace(place)


def _name(world: int, run: int) -> str:
    return f"{('absent', 'present')[world]}-{run:05d}.json"


def describe(made: object) -> list[str]:
    """Describe an object by its class and parameters, alike in every process.

    Parameters
    ----------
    made : object with fit and sample
        Before any fit.

    Returns
    -------
    list of str
        The class, and a digest of every parameter; of every attribute where there is
        no `get_params`.

    Notes
    -----
    Generators count by their kind, whatever their state: it is chance. Not told apart
    is what differs only in the code of a class or a named function, or in something
    that has no pickle and whose text does not show it. Where the object draws other
    values whenever it is made, or holds a frozenset of texts, whose order differs
    between processes, equal objects look different, and their folder is refused.
    """
    kind = type(made)
    if hasattr(made, "get_params"):
        parts = made.get_params(deep=False)
    else:
        parts = getattr(made, "__dict__", {"": made})
    digests = sorted((str(name), _digest(value)) for name, value in parts.items())
    return [f"{kind.__module__}.{kind.__qualname__}"] + [f"{n}={d}" for n, d in digests]


def _digest(value: object, depth: int = 5) -> str:
    """Hash a value; what has no pickle by its parts, and by its text in the end."""
    if not isinstance(value, _GENERATORS):
        with suppress(Exception):  # anybody's object may raise anything
            digest = str(joblib.hash(value))
            if digest == joblib.hash(copy.deepcopy(value)):  # else an address is in it
                return digest
        with suppress(ValueError):  # a function may close over nothing yet
            if depth and (inside := _inside(value)):
                return str(joblib.hash([_digest(part, depth - 1) for part in inside]))
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _inside(value: object) -> list[object]:
    """Give what makes up a function or a container without a pickle."""
    if isinstance(value, FunctionType):  # a lambda, or a function within another
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        name = f"{value.__module__}.{value.__qualname__}"
        return [name, value.__code__, value.__defaults__, value.__kwdefaults__, *cells]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, *value.co_consts]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, dict):
        return [*value, *value.values()]
    return list(value) if isinstance(value, list | tuple) else []


def run_worlds(
    make: object,
    worlds: tuple[pd.DataFrame, pd.DataFrame],
    scores: CanaryScores,
    folder: RunFolder,
    *,
    n_runs: int,
    n_samples: int,
    n_jobs: int | None,
    verbose: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit, sample and score `n_runs` times in each world.

    Parameters
    ----------
    make : object with fit and sample, or callable without arguments
        What is audited.
    worlds : tuple of two DataFrames
        Without and with the canary.
    scores : CanaryScores
        What is looked at.
    folder : RunFolder
        Where finished runs are.
    n_runs, n_samples : int
        Runs in each world, and rows drawn in each run.
    n_jobs : int or None
        Processes, as joblib takes them.
    verbose : int
        Shows progress from 1 on.

    Returns
    -------
    tuple of two ndarrays of shape (n_runs, n_scores), float64
        Without and with the canary.
    """
    found = {
        (world, run): folder.load(world, run)
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
        folder.save(world, run, row)
        found[world, run] = row
    absent, present = (
        np.array([found[world, run] for run in range(n_runs)]) for world in (0, 1)
    )
    return absent, present


def _one_run(
    make: object,
    table: pd.DataFrame,
    scores: CanaryScores,
    n_samples: int,
    world: int,
    run: int,
) -> tuple[int, int, NDArray[np.float64]]:
    """Fit once; what a fit warns of is no finding, and would be told 400 times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = fresh(make)
        made.fit(table.copy())
        sample = made.sample(n_samples)
    if not isinstance(sample, pd.DataFrame):
        sample = pd.DataFrame(np.asarray(sample), columns=list(table))
    if len(sample) != n_samples or set(sample) != set(table):
        msg = (
            f"Expected sample({n_samples}) to give as many rows with the columns "
            f"{list(table)}. Got {len(sample)} rows with the columns {list(sample)}. "
            "Wrap the object so that it does: by its number of rows a sample would "
            "show in which world it is."
        )
        raise ValueError(msg)
    return world, run, scores(sample)
