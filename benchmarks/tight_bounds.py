"""How much of the claimed mu an attack on the releases themselves shows.

What is in results/tight_bounds.csv is skipped. docs/audit.md has the shares it prints.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _common import DELTA, EPSILON, use_one_thread

import skdpsynth
from skdpsynth.audit import curve_lower_bound, guessing_lower_bound
from skdpsynth.audit._ledger import copied
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy.testing import Release, observe_releases
from skdpsynth.schema import Boolean, Categorical, TableSchema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.base import BaseSynthesizer

ALPHA = 0.05
N_DRAWS, N_FITS = 200_000, 4_000
REPETITIONS = 3
_PARTS = 100  # of the draws, which are all in memory otherwise
_WAYS = ["by_one_point", "by_the_curve"]
_RESULTS = Path(__file__).parent / "results" / "tight_bounds.csv"

_X, _Y = {"x": Boolean()}, {"y": Categorical(["u", "v"])}
_DECLARED = TableSchema(_X | _Y, target="y", class_counts={"u": 2, "v": 2})
_PAIR = TableSchema(_X | {"z": Boolean()}, n_rows=3_000)  # wrongly: so it is measured
TABLE = pd.DataFrame({"x": [False, True, True], "y": ["u", "v", "v"], "z": [True] * 3})
CANARY = {"x": True, "y": "u", "z": False}
ROWS = pd.DataFrame({"x": [False] * 299, "z": [True] * 299})


@dataclass(frozen=True)
class Case:
    """A fit, and the release that is attacked; all of them where none is named."""

    synthesizer: str
    columns: str
    schema: TableSchema
    release: str | None
    delta: float = DELTA
    epsilon: float = EPSILON
    table: pd.DataFrame = field(default_factory=TABLE.copy)

    @property
    def n_runs(self) -> int:
        """Draws of the release, or fits."""
        return N_DRAWS if self.release else N_FITS

    def make(self) -> BaseSynthesizer:
        """Make the unfitted synthesizer."""
        kind = getattr(skdpsynth, self.synthesizer)
        return kind(epsilon=self.epsilon, delta=self.delta, schema=self.schema)

    def worlds(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Give the table without the canary and with it."""
        own = self.table[list(self.columns)]
        row = pd.DataFrame([CANARY])[list(self.columns)]
        return own, pd.concat([own, row], ignore_index=True)


_OF_CLASS = Case("IndependentSynthesizer", "xy", _DECLARED, "marginals")
_OF_X = Case("IndependentSynthesizer", "x", TableSchema(_X), None, epsilon=10.0)
_OF_PAIR = Case("MarginalSynthesizer", "xz", _PAIR, "1 table of 2 columns, 9 cells")
_BOTH = TableSchema(_X | {"z": Boolean()})
CASES = {
    "marginals of a class": _OF_CLASS,
    "the same": replace(_OF_CLASS, delta=1e-2),
    "pair table": _OF_PAIR,
    "whole fit of 4 rows": _OF_X,
    "whole fit of 300 rows, with a pair table": replace(
        _OF_PAIR, schema=_BOTH, release=None, epsilon=10.0, table=ROWS
    ),
}


class _AllReleasedError(Exception):
    """The rest of a fit is computed from what it has released."""


def releases_of(case: Case, table: pd.DataFrame, most: int = 0) -> list[Release]:
    """Fit once, and give what was released; stop after the last of so many."""
    seen: list[Release] = []

    def see(release: Release) -> None:
        seen.append(release)
        if len(seen) == most:
            raise _AllReleasedError

    with observe_releases(see), suppress(_AllReleasedError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows are mostly noise
        case.make().fit(table)
    return seen


def pairs_of(case: Case) -> list[tuple[Release, Release]]:
    """Return the releases of both worlds."""
    without, present = (releases_of(case, table) for table in case.worlds())
    return list(zip(without, present, strict=True))


def moved(case: Case) -> list[tuple[Release, Release]]:
    """Return the releases of both worlds that the canary moves."""
    return [(a, b) for a, b in pairs_of(case) if not np.array_equal(a.exact, b.exact)]


def attack_release(
    case: Case, coins: NDArray[np.int64], noise: float = 1.0
) -> NDArray[np.float64]:
    """Draw one release of a fit again and again, by its own line of the ledger."""
    ((absent, present),) = (p for p in moved(case) if p[0].what[0] == case.release)
    line = copied(absent.reservation)
    scores = []
    for coin in np.array_split(coins, _PARTS):
        values = np.stack([absent.exact, present.exact])[coin]
        values = values + noise * release_gaussian(0 * values, line, len(coin))
        scores.append(_towards(values, absent, present).reshape(len(coin), -1))
    return np.concatenate(scores).sum(axis=1)


def _towards(values: NDArray[Any], absent: Release, present: Release) -> NDArray[Any]:
    """Return on which side of the middle values lie, and how far."""
    middle = (absent.exact + present.exact) / 2
    return (values - middle) * (present.exact - absent.exact)


def attack_fit(case: Case, coins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Fit again and again; score by the likelihood ratio of all releases.

    Fits stop after the last release. None may depend on an earlier one, so that the
    exact values of both worlds are known.
    """
    worlds, pairs, scores = case.worlds(), pairs_of(case), np.zeros(len(coins))
    for i, coin in enumerate(coins):
        seen = releases_of(case, worlds[coin], len(pairs))
        for own, pair in zip(seen, pairs, strict=True):
            if not np.array_equal(own.exact, pair[coin].exact):
                raise RuntimeError("A release depends on an earlier one.")
            ratio = _towards(own.noisy, *pair).sum()
            scores[i] += ratio / own.reservation.noise_std**2
    return scores


def bounds_of(
    scores: NDArray[np.float64], coins: NDArray[np.int64]
) -> tuple[float, float]:
    """Bound mu by guesses at the middle, one point of the curve, and by the curve."""
    n_wrong = int(((scores > 0) != coins).sum())
    sides = scores[coins == 0], scores[coins == 1]
    one_point = guessing_lower_bound(n_wrong, len(coins), alpha=ALPHA)
    return one_point, curve_lower_bound(*sides, alpha=ALPHA)


def row_of(name: str, repetition: int) -> dict[str, object]:
    """Attack once, and put the result into one line."""
    case, start = CASES[name], time.perf_counter()
    coins = np.random.default_rng().integers(2, size=case.n_runs)
    scores = (attack_release if case.release else attack_fit)(case, coins)
    bounds = bounds_of(scores, coins)
    lines = [own.reservation for own, _ in moved(case)]
    claim = PrivacyAccountant(case.epsilon, case.delta).mu_cap
    charged = [r.mu for r in lines if r.name == case.release] or [claim]
    return {
        "what": name,
        "repetition": repetition,
        "epsilon": case.epsilon,
        "delta": case.delta,
        "mu_of_the_fit": claim,
        "mu": math.hypot(*charged),
        **dict(zip(_WAYS, bounds, strict=True)),
        "confidence": 1 - ALPHA,
        "runs": case.n_runs,
        "seconds": time.perf_counter() - start,
        "date": f"{pd.Timestamp.now('UTC'):%Y-%m-%d}",
        "version": skdpsynth.__version__,
    }


def summary(done: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of the claimed mu that are shown: median and range."""
    shares = done[["what"]].join(done[_WAYS].div(done["mu"], axis=0))
    return shares.groupby("what", sort=False).agg(["median", "min", "max"]).round(3)


def main() -> None:
    """Run what is not in the file of results yet, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="start anew")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    if options.fresh:
        _RESULTS.unlink(missing_ok=True)
    use_one_thread()
    done = pd.read_csv(_RESULTS) if _RESULTS.exists() else pd.DataFrame()
    known = set(zip(done.get("what", []), done.get("repetition", []), strict=True))
    for name, repetition in itertools.product(options.only, range(REPETITIONS)):
        if (name, repetition) not in known:
            line = row_of(name, repetition)
            print(line, flush=True)
            header = not _RESULTS.exists()
            pd.DataFrame([line]).to_csv(_RESULTS, mode="a", header=header, index=False)
    print(summary(pd.read_csv(_RESULTS)).to_string())


if __name__ == "__main__":
    main()
