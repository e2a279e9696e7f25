"""Who finds the four columns that show a label: teachers, or noise on exact sums.

In a table of a class, the parity of four columns is 1 in all rows, or more often than
by chance; the others are noise. Of all sets of four columns one is to be named. (a)
Teachers on disjoint parts of the rows vote for the set whose parity is largest in their
own rows, and the noisy argmax of the votes is taken, as in PATE. (b) The teachers of
PATE-GAN, which weigh the products of every four columns, vote which of 2,000 rows of
independent columns are real; a student learns the noisy votes, and its largest weight
names a set. (c) The exponential mechanism chooses by the sums over all rows. (d) All
sums are released with Gaussian noise, which is also the first step of a discriminator
with a weight for each set that is trained by noisy clipped gradients. Printed is the
least epsilon of a grid, for that one choice, at which the right set is named in 95 of
100 draws. Run ``python benchmarks/choosers.py``.
"""

from __future__ import annotations

import argparse
import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from _common import DELTA, print_columns
from scipy.optimize import brentq

from skdpsynth.privacy import gdp_epsilon

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EPSILONS = np.geomspace(1e-4, 10.0, 51)
TEACHERS = (25, 50, 100, 200, 400, 800)
N_NOISES = 20  # draws of noise of each table
N_GENERATED = 2000
RIGHT = 0.95


def sums_by_teacher(signs: Floats, n_teachers: int) -> tuple[Floats, int]:
    """Give the sums of all sets of four columns, (n_teachers, n_sets).

    Also the place of the first four columns among the sets.
    """
    n_columns = signs.shape[1]
    pairs = [*combinations(range(n_columns), 2)]
    place = {pair: k for k, pair in enumerate(pairs)}
    first, second = np.array(
        [(place[own[:2]], place[own[2:]]) for own in combinations(range(n_columns), 4)]
    ).T
    found = np.empty((n_teachers, len(first)))
    for own, rows in zip(found, np.array_split(signs, n_teachers), strict=True):
        products = np.stack([rows[:, i] * rows[:, j] for i, j in pairs], axis=1)
        own[:] = (products.T @ products)[first, second]
    return found, 0  # the sets are in order


def mu_of(epsilon: float) -> float:
    """Give the Gaussian-DP parameter of an epsilon at the delta of the benchmarks."""
    return float(brentq(lambda mu: gdp_epsilon(mu, DELTA) - epsilon, 1e-7, 100.0))


def by_votes(votes: Floats, epsilon: float, rng: np.random.Generator) -> int:
    """Name a set by the noisy argmax of the votes: a row moves two of them by 1."""
    noise = rng.normal(0.0, math.sqrt(2.0) / mu_of(epsilon), len(votes))
    return int((votes + noise).argmax())


def student_votes(
    sums: Floats, n_rows: int, n_columns: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Give the votes for generated rows, and the products of their sets of columns.

    `sums` are those of the teachers, (n_teachers, n_sets), of `n_rows` together.
    """
    signs = rng.choice([-1.0, 1.0], (N_GENERATED, n_columns))
    sets = np.array([*combinations(range(n_columns), 4)])
    products = signs[:, sets].prod(axis=2)
    weights = sums / (n_rows / len(sums)) - products.mean(axis=0)
    scores = products @ weights.T
    return (scores > np.median(scores, axis=0)).sum(axis=1) * 1.0, products


def by_student(
    voted: tuple[Floats, Floats], epsilon: float, rng: np.random.Generator
) -> int:
    """Name the largest weight of a student: a row moves each count of votes by 1."""
    counts, products = voted
    counts = counts + rng.normal(
        0.0, math.sqrt(len(counts)) / mu_of(epsilon), len(counts)
    )
    # A logistic student's first step.
    return int(np.abs((counts - counts.mean()) @ products).argmax())


def by_exponential_mechanism(
    sums: Floats, epsilon: float, rng: np.random.Generator
) -> int:
    """Name a set in proportion to ``exp(epsilon |sum| / 2)``: a row moves each by 1."""
    return int((np.abs(sums) + rng.gumbel(0.0, 2.0 / epsilon, len(sums))).argmax())


def by_all_sums(sums: Floats, epsilon: float, rng: np.random.Generator) -> int:
    """Name the largest of all noisy sums, which are released too."""
    noise = rng.normal(0.0, math.sqrt(len(sums)) / mu_of(epsilon), len(sums))
    return int(np.abs(sums + noise).argmax())


def least_epsilon(
    choose: Callable[..., int],
    scores: list[Floats],
    right: int,
    rng: np.random.Generator,
) -> float:
    """Give the least epsilon of the grid from which on the right set is named."""
    found = math.inf
    for epsilon in EPSILONS[::-1]:
        named = [choose(own, epsilon, rng) for own in scores for _ in range(N_NOISES)]
        if np.mean(np.array(named) == right) < RIGHT:
            break
        found = float(epsilon)
    return found


def run(n_rows: int, n_columns: int, parity: float, n_tables: int) -> list[str]:
    """Give a line of the table."""
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(n_tables):
        signs = rng.choice([-1.0, 1.0], (n_rows, n_columns))
        wanted = np.where(rng.random(n_rows) < (1 + parity) / 2, 1.0, -1.0)
        signs[:, 3] = signs[:, :3].prod(axis=1) * wanted
        tables.append(signs)
    best = {"votes": (math.inf, 0), "student": (math.inf, 0)}
    for n_teachers in TEACHERS:
        votes, students = [], []
        for signs in tables:
            sums, right = sums_by_teacher(signs, n_teachers)
            named = np.abs(sums).argmax(axis=1)
            votes.append(np.bincount(named, minlength=sums.shape[1]).astype(float))
            students.append(student_votes(sums, n_rows, n_columns, rng))
        of_votes = least_epsilon(by_votes, votes, right, rng), n_teachers
        of_student = least_epsilon(by_student, students, right, rng), n_teachers
        best["votes"] = min(best["votes"], of_votes)
        best["student"] = min(best["student"], of_student)
    whole = [sums_by_teacher(signs, 1)[0][0] for signs in tables]
    others = [
        least_epsilon(choose, whole, 0, rng)
        for choose in (by_exponential_mechanism, by_all_sums)
    ]
    sets = math.comb(n_columns, 4)
    of_teachers = [
        f"{epsilon:.2g} ({number} teachers)" if epsilon < math.inf else "never"
        for epsilon, number in best.values()
    ]
    texts = [f"{epsilon:.2g}" for epsilon in others]
    return [str(n_columns), f"{sets:,}", f"{parity:g}", *of_teachers, *texts]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=17_500, help="rows of the class")
    add("--columns", nargs="+", type=int, default=[10, 16, 24])
    add("--parities", nargs="+", type=float, default=[1.0, 0.5, 0.2])
    add("--tables", type=int, default=5, help="tables of each kind")
    options = parser.parse_args()
    head = ["columns", "sets", "parity", "votes", "student", "exponential", "all sums"]
    lines = [head]
    lines += [
        run(options.rows, n_columns, parity, options.tables)
        for n_columns in options.columns
        for parity in options.parities
    ]
    print_columns(lines)


if __name__ == "__main__":
    main()
