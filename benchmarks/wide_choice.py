"""What is measured of a wide table, and who chooses its tables of two columns.

Not all tables of two columns of a wide table can be measured. A fit can choose by
scores: the distance of every table to that of independent columns, released with noise.
Here adversaries choose instead, at the same budget.

First table: of the distance to independent columns that the 40 best tables have, the
share that those 40 have which were named. *Scores*: as above. *Votes*: each teacher, on
its own part of the rows, votes for 40 tables; the noisy counts decide. *Student*:
teachers vote which of 2,000 generated rows are real, as in PATE-GAN; a student learns
their noisy labels, and its largest weights name tables. *DP-SGD*: the largest weights
of a discriminator that is trained by noisy clipped gradients. Number of teachers and of
steps are those that find most, in hindsight. Discriminators are logistic, in the
products of the signs of two columns: one weight per table.

Second table: fits whose tables of two columns were chosen in each of these ways, or by
exact distances, which is not private. Each way names as many tables as the scores do
and is charged as much. "All": every table of two columns, in bins as for 300 of them,
and nothing is spent on a choice. "Second moments": no table, but the covariances of all
columns. Scores are on a split of the training rows.
Run ``python benchmarks/wide_choice.py``; what is in benchmarks/results is skipped.
"""

from __future__ import annotations

import argparse
import math
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pandas as pd
from _common import (
    DELTA,
    RESULTS,
    code_state,
    mean_and_spread,
    print_columns,
    print_states,
    run_missing,
    split_rows,
)
from _tables import DATA
from _tables import TABLES as PAPER_TABLES
from scipy.optimize import brentq
from scipy.special import expit

from skdpsynth.privacy import gdp_epsilon
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

KEYS = ["table", "epsilon", "way", "seed"]
SCORES = ["tv2", "tv3", "c2st", "auroc", "auprc"]
COLUMNS = [*KEYS, *SCORES, "n_tables", "code"]
# Name in the papers' tables, and the step from one column that is used to the next.
TABLES = {"kaggle": 1, "epileptic": 4, "isolet": 10}
BINS = 8
N_NAMED = 40
SHARE = 0.1 * 0.75  # of the squared mu of a fit: what its choice of pairs has
N_GENERATED = 2000
TEACHERS = (5, 10, 25, 50, 100, 250)
STEPS = (1, 3, 10, 30)
MOMENTS = "second moments"
WAYS = ("scores", "exact distances", "votes", "student", "DP-SGD", "all", MOMENTS)
# Of "kaggle" 300 of the 406 tables are measured at any of these epsilons.
FITTED = ("epileptic", "isolet")


def mu_of(epsilon: float) -> float:
    """Give the Gaussian-DP parameter of an epsilon at the delta of the benchmarks."""
    return float(brentq(lambda mu: gdp_epsilon(mu, DELTA) - epsilon, 1e-7, 100.0))


def load(name: str, data: Path) -> tuple[pd.DataFrame, str]:
    """Read the training rows of a table: some of its columns, and its label."""
    table = PAPER_TABLES[name]
    train, _ = table.load(data, 0)
    features = train.columns.drop(table.target)[:: TABLES[name]]
    return train[[*features, table.target]].reset_index(drop=True), table.target


def binned(numbers: pd.DataFrame) -> Ints:
    """Cut every column at its quantiles."""
    ranks = numbers.rank(pct=True, method="average").to_numpy()
    return np.minimum((BINS * ranks).astype(np.int64), BINS - 1)


class Pairs:
    """All pairs of columns of a table, and what independent columns would have.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        Bins from 0.
    classes : ndarray of shape (n_rows,), optional
        Columns are independent within each class; by default there is one.
    """

    def __init__(self, codes: Ints, classes: Ints | None = None) -> None:
        self.codes, self.n_columns = codes, codes.shape[1]
        self.classes = np.zeros(len(codes), np.int64) if classes is None else classes
        self.first, self.second = np.triu_indices(self.n_columns, 1)
        self.n_bins = int(codes.max()) + 1
        # Of the classes, and of the bins of every column in each.
        self.prior = np.bincount(self.classes) / len(codes)
        self.shares = np.array(
            [
                self._one_hot(codes[self.classes == c]).mean(axis=0)
                for c in range(len(self.prior))
            ]
        )

    def __len__(self) -> int:
        return len(self.first)

    def _one_hot(self, codes: Ints) -> Floats:
        return (codes[:, :, None] == np.arange(self.n_bins)).reshape(
            len(codes), -1
        ) * 1.0

    def distances(self, codes: Ints) -> Floats:
        """Give the L1 distance of each table of some rows to that by chance, in rows.

        Less the mean distance of as many rows of independent columns.
        """
        seen = self._one_hot(codes)
        expected = len(codes) * (self.shares.T * self.prior) @ self.shares
        apart = np.abs(seen.T @ seen - expected) - np.sqrt(2 / math.pi * expected)
        shape = self.n_columns, self.n_bins, self.n_columns, self.n_bins
        return apart.reshape(shape).sum(axis=(1, 3))[self.first, self.second]

    def features(self, codes: Ints) -> Floats:
        """Give the products of the signs of two columns, (n_rows, n_pairs)."""
        signs = np.where(codes < self.n_bins // 2, -1.0, 1.0)
        return signs[:, self.first] * signs[:, self.second]

    def generated(self, rng: np.random.Generator) -> Ints:
        """Draw rows of independent columns."""
        counts = rng.multinomial(N_GENERATED, self.prior)
        drawn = [
            np.stack([rng.choice(own, n) for own in self.codes[self.classes == c].T])
            for c, n in enumerate(counts)
        ]
        return np.concatenate(drawn, axis=1).T


def by_scores(pairs: Pairs, mu: float, rng: np.random.Generator) -> Floats:
    """Release the distances of all tables: a row moves each by 1."""
    exact = pairs.distances(pairs.codes)
    return exact + rng.normal(0.0, math.sqrt(len(pairs)) / mu, len(pairs))


def by_votes(
    pairs: Pairs, mu: float, rng: np.random.Generator, *, n_teachers: int, n_votes: int
) -> Floats:
    """Count teachers' votes: a row moves as many as one teacher has, twice."""
    parts = np.array_split(rng.permutation(pairs.codes), n_teachers)
    counts = np.zeros(len(pairs))
    for part in parts:
        counts[np.argsort(-pairs.distances(part))[:n_votes]] += 1.0
    return counts + rng.normal(0.0, math.sqrt(2.0 * n_votes) / mu, len(pairs))


def by_student(
    pairs: Pairs, mu: float, rng: np.random.Generator, *, n_teachers: int
) -> Floats:
    """Give the weights of a student of noisy votes: a row moves each count by 1."""
    generated = pairs.features(pairs.generated(rng))
    counts = np.zeros(N_GENERATED)
    for part in np.array_split(rng.permutation(pairs.codes), n_teachers):
        weights = pairs.features(part).mean(axis=0) - generated.mean(axis=0)
        scores = generated @ weights
        counts += scores > np.median(scores)
    counts += rng.normal(0.0, math.sqrt(N_GENERATED) / mu, N_GENERATED)
    labels = counts - counts.mean()
    return np.abs(labels @ generated)  # a logistic student's first step


def by_dp_sgd(
    pairs: Pairs, mu: float, rng: np.random.Generator, *, n_steps: int
) -> Floats:
    """Give the weights of a discriminator trained on all rows, with noise.

    All rows have equally long features, so their gradients are clipped at that length.
    """
    real, generated = pairs.features(pairs.codes), pairs.generated(rng)
    fake = pairs.features(generated)
    weights, norm = np.zeros(len(pairs)), math.sqrt(len(pairs))
    for _ in range(n_steps):
        step = (1.0 - expit(real @ weights)) @ real
        step += rng.normal(0.0, norm * math.sqrt(n_steps) / mu, len(pairs))
        step /= len(real)
        step -= expit(fake @ weights) @ fake / len(fake)
        weights += step / math.sqrt(n_steps)
    return np.abs(weights)


def attempts(
    way: str, pairs: Pairs, mu: float, rng: np.random.Generator, number: int
) -> Iterator[Floats]:
    """Give the scores of every number of teachers or steps that a chooser may have."""
    if way == "exact distances":
        yield pairs.distances(pairs.codes)
    elif way == "scores":
        yield by_scores(pairs, mu, rng)
    elif way == "DP-SGD":
        yield from (by_dp_sgd(pairs, mu, rng, n_steps=own) for own in STEPS)
    elif way == "student":
        yield from (by_student(pairs, mu, rng, n_teachers=own) for own in TEACHERS)
    else:
        for own in TEACHERS:
            yield by_votes(pairs, mu, rng, n_teachers=own, n_votes=number)


def named(
    way: str, pairs: Pairs, mu: float, rng: np.random.Generator, number: int
) -> tuple[Ints, float]:
    """Name pairs, with the number of teachers or steps that finds most, in hindsight.

    Also gives their share of the distance that the best as many have.
    """
    exact = np.maximum(pairs.distances(pairs.codes), 0.0)
    found = [np.argsort(-own)[:number] for own in attempts(way, pairs, mu, rng, number)]
    best = max(found, key=lambda own: float(exact[own].sum()))
    return best, float(exact[best].sum() / np.sort(exact)[-number:].sum())


def shares_named(codes: Ints, mu: float, rng: np.random.Generator) -> dict[str, float]:
    """Give, of each chooser, the share of the best tables' distance that it found."""
    pairs = Pairs(codes)
    ways = ("scores", "votes", "student", "DP-SGD")
    found = {way: named(way, pairs, mu, rng, N_NAMED)[1] for way in ways}
    exact = np.maximum(pairs.distances(codes), 0.0)
    by_chance = exact.mean() * N_NAMED / np.sort(exact)[-N_NAMED:].sum()
    return found | {"by chance": float(by_chance)}


def print_shares(epsilons: list[float], n_seeds: int, data: Path) -> None:
    """Print what choosers find in each table, of its most frequent class."""
    lines: list[list[str]] = []
    for name in TABLES:
        table, target = load(name, data)
        own = table[table[target] == table[target].mode()[0]]
        codes = binned(own.drop(columns=target))
        for epsilon in epsilons:
            mu = mu_of(epsilon) * math.sqrt(SHARE)
            found = pd.DataFrame(
                [
                    shares_named(codes, mu, np.random.default_rng(seed))
                    for seed in range(n_seeds)
                ]
            )
            lines = lines or [["table", "rows", "columns", "epsilon", *found.columns]]
            facts = [name, f"{len(codes):,}", f"{codes.shape[1]}", f"{epsilon:g}"]
            lines.append(
                [*facts, *map(mean_and_spread, found.to_dict("series").values())]
            )
    print_columns(lines)


def chosen_by(
    way: str, choose: Callable[..., Ints], train: pd.DataFrame, target: str, seed: int
) -> Callable[..., Ints]:
    """Give a function that names as many pairs as the fit's own, but in another way.

    The fit's own choice is charged too, so that all ways leave as much for the tables.
    """
    codes = binned(train.drop(columns=target))
    labels = train[target].astype("category").cat.codes.to_numpy(np.int64)

    def instead(rows: Any, *given: Any, mu: float, **options: Any) -> Ints:  # noqa: ANN401
        number = len(choose(rows, *given, mu=mu, **options))
        # The rows of one class, or of all that have tables.
        n_rows = sum(len(part) for part in rows.each())
        alone = np.flatnonzero(np.bincount(labels) == n_rows)
        own = alone if len(alone) == 1 else np.unique(labels)
        of_these = np.isin(labels, own)
        classes = np.searchsorted(own, labels[of_these])
        pairs = Pairs(codes[of_these], classes)
        best, _ = named(way, pairs, mu, np.random.default_rng(seed), number)
        return np.stack([pairs.first, pairs.second], axis=1)[np.sort(best)]

    return instead


def run(key: tuple[str, float, str, int], *, data: Path) -> dict[str, object]:
    """Fit, with the tables of two columns chosen in one way."""
    from dependence import two_sample_area

    from skdpsynth import MarginalSynthesizer
    from skdpsynth.measure import _allocation, _measurements, _tables
    from skdpsynth.metrics import marginal_fidelity, tstr_scores
    from skdpsynth.synthesizers import _marginal

    name, epsilon, way, seed = key
    table, target = load(name, data)
    bounds = {
        column: Continuous(math.floor(values.min()), math.ceil(values.max()))
        for column, values in table.drop(columns=target).items()
    }
    label = {target: Categorical(sorted(table[target].unique()))}
    train, test = split_rows(table, target, seed=1)
    model = MarginalSynthesizer(
        epsilon=epsilon,
        delta=DELTA,
        schema=TableSchema(bounds | label, target=target),
        random_state=seed,
    )
    form = "moments" if way == MOMENTS else "pairs"
    changes: list[tuple[object, str, object]] = [
        (_marginal, "measured_form", lambda *_: form)
    ]
    if way == "all":
        changes += [(own, "CHOICE_SHARE", 1e-9) for own in (_tables, _allocation)]
        changes += [
            (
                _measurements,
                "choose_pairs",
                lambda _, bins, *__, **___: _tables.every_pair(bins),
            )
        ]
    elif way not in ("scores", MOMENTS):
        instead = chosen_by(way, _measurements.choose_pairs, train, target, seed)
        changes += [(_measurements, "choose_pairs", instead)]
    with insecure_randomness(seed), ExitStack() as stack:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        model.fit(train)
    rows = model.sample(len(train), random_state=seed)
    learnt = tstr_scores(
        rows, test, target=target, classifiers="HistGradientBoosting", pos_label=1
    )
    scores = {
        "tv2": marginal_fidelity(test, rows, k=2).mean(),
        "tv3": marginal_fidelity(test, rows, k=3).mean(),
        "c2st": two_sample_area(test, rows),
        **learnt.loc["mean", ["auroc", "auprc"]],
    }
    # Of relations finer cells and ranks are measured too.
    tables = {
        own.columns
        for own in model.measurements_
        if own.order == 2
        and all(part.kind != "rank" for bins in own.bins for part in bins)
    }
    row = dict(zip(KEYS, key, strict=True), code=code_state(), n_tables=len(tables))
    return row | {score: float(value) for score, value in scores.items()}


def print_fits(rows: pd.DataFrame) -> None:
    """Print means over the seeds."""
    lines = [(*KEYS[:-1], "tables", *SCORES)]
    for key, own in rows.groupby(KEYS[:-1], sort=False):
        scores = [mean_and_spread(own[score]) for score in SCORES]
        lines.append((*map(str, key), f"{own['n_tables'].mean():.0f}", *scores))
    print_columns(lines)
    print_states(rows)


def main() -> None:
    """Print both tables; fits that are in the file of results are not run again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="fits at the same time")
    add("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "wide_choice.csv")
    options = parser.parse_args()
    print_shares(options.epsilons, options.seeds, options.data)
    wanted = [
        (table, epsilon, way, seed)
        for seed in range(options.seeds)
        for table in FITTED
        for epsilon in options.epsilons
        for way in WAYS
    ]
    task = partial(run, data=options.data)
    rows = run_missing(task, wanted, options.csv, KEYS, COLUMNS, options.jobs)
    print()
    print_fits(rows)


if __name__ == "__main__":
    main()
