"""How much of the claimed mu an attack on the releases themselves shows.

Run ``python benchmarks/tight_bounds.py``; what is in
benchmarks/results/tight_bounds.csv is skipped. Then it writes the table in
docs/audit.md.
"""

from __future__ import annotations

import argparse
import datetime
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _common import DELTA, EPSILON, use_one_thread

import skdpsynth
from skdpsynth.audit import guessing_lower_bound
from skdpsynth.audit._mechanism import _line_like
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy.testing import Release, observe_releases
from skdpsynth.schema import Boolean, Categorical, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from skdpsynth.base import BaseSynthesizer

ALPHA = 0.05
# Of a sound mechanism whose claim is mu = 0.268, fewer than 1 in 1,000 bounds from so
# many guesses are below 0.9 of it; with half as many, from whole fits, 1 in 23.
N_GUESSES, N_FITS = 200_000, 100_000
REPETITIONS = 5
_PARTS = 100  # of the draws, which are all in memory otherwise
_HERE = Path(__file__).parent
_RESULTS = _HERE / "results" / "tight_bounds.csv"
_PAGE = _HERE.parent / "docs" / "audit.md"
_BEGIN = "<!-- benchmarks/tight_bounds.py writes from here -->"
_END = "<!-- tight bounds to here -->"

_X, _Y = {"x": Boolean()}, {"y": Categorical(["u", "v"])}
_DECLARED = TableSchema(_X | _Y, target="y", class_counts={"u": 2, "v": 2})
_PAIR = TableSchema(_X | {"z": Boolean()}, n_rows=3_000)  # wrongly: so it is measured
TABLE = pd.DataFrame({"x": [False, True, True], "y": ["u", "v", "v"], "z": [True] * 3})
CANARY = {"x": True, "y": "u", "z": False}


@dataclass(frozen=True)
class Case:
    """A fit, and the release that is attacked; all of them where none is named."""

    synthesizer: str
    columns: str
    schema: TableSchema
    release: str | None
    delta: float = DELTA
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def repetitions(self) -> int:
        """How often it is attacked."""
        return REPETITIONS if self.release else 1

    @property
    def n_guesses(self) -> int:
        """Draws of the release, or fits."""
        return N_GUESSES if self.release else N_FITS

    def make(self) -> BaseSynthesizer:
        """Make the unfitted synthesizer."""
        fixed = {"epsilon": EPSILON, "delta": self.delta, "schema": self.schema}
        cls = getattr(skdpsynth, self.synthesizer)
        made: BaseSynthesizer = cls(**fixed, **self.settings)
        return made

    def worlds(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Give the table without the canary and with it."""
        own = TABLE[list(self.columns)]
        row = pd.DataFrame([CANARY])[list(self.columns)]
        return own, pd.concat([own, row], ignore_index=True)


_TARGET = {"target": "y"}
CASES = {
    "marginals of a class": Case(
        "IndependentSynthesizer", "xy", _DECLARED, "marginals", settings=_TARGET
    ),
    "the same": Case(
        "IndependentSynthesizer", "xy", _DECLARED, "marginals", 1e-2, _TARGET
    ),
    "pair table": Case(
        "MarginalSynthesizer", "xz", _PAIR, "1 table of 2 columns, 9 cells"
    ),
    "whole fit, rows counted": Case(
        "IndependentSynthesizer", "x", TableSchema(_X), None
    ),
}


def releases_of(case: Case, table: pd.DataFrame) -> list[Release]:
    """Fit once, and give what was released."""
    seen: list[Release] = []
    with observe_releases(seen.append):
        case.make().fit(table)
    return seen


def moved(case: Case) -> list[tuple[Release, Release]]:
    """Give the releases of both worlds that the canary moves."""
    pairs = zip(*(releases_of(case, table) for table in case.worlds()), strict=True)
    return [(a, b) for a, b in pairs if not np.array_equal(a.exact, b.exact)]


def attack_release(case: Case) -> float:
    """Draw one release of a fit again and again, by its own line of the ledger."""
    ((absent, present),) = (p for p in moved(case) if p[0].what[0] == case.release)
    line = _line_like(absent.reservation, case.n_guesses)
    coins = np.random.default_rng().integers(2, size=case.n_guesses)
    n_wrong = 0
    for coin in np.split(coins, _PARTS):
        values = np.stack([absent.exact, present.exact])[coin]
        off = release_gaussian(values, line, len(coin)) - _middle(absent, present)
        n_wrong += int(((off @ (present.exact - absent.exact) > 0) != coin).sum())
    return guessing_lower_bound(n_wrong, case.n_guesses, alpha=ALPHA)


def _middle(absent: Release, present: Release) -> NDArray[np.float64]:
    return np.asarray((absent.exact + present.exact) / 2)


def attack_fit(case: Case) -> float:
    """Fit again and again; guess by the likelihood ratio of all releases.

    No release may depend on an earlier one, so that the exact values of both worlds
    are known.
    """
    worlds, pairs = case.worlds(), moved(case)
    coins = np.random.default_rng().integers(2, size=case.n_guesses)
    n_wrong = 0
    for coin in coins:
        ratio = 0.0
        for own, pair in zip(releases_of(case, worlds[coin]), pairs, strict=True):
            if not np.array_equal(own.exact, pair[coin].exact):
                raise RuntimeError("A release depends on an earlier one.")
            off = (own.noisy - _middle(*pair)) / own.reservation.noise_std**2
            ratio += float(off @ (pair[1].exact - pair[0].exact))
        n_wrong += (ratio > 0) != coin
    return guessing_lower_bound(n_wrong, case.n_guesses, alpha=ALPHA)


def row_of(name: str, repetition: int) -> dict[str, object]:
    """Attack once, and put the result into one line."""
    case, start = CASES[name], time.perf_counter()
    bound = attack_fit(case) if case.release is None else attack_release(case)
    lines = [own.reservation for own, _ in moved(case)]
    charged = [r.mu for r in lines if case.release in (None, r.name)]
    return {
        "what": name,
        "repetition": repetition,
        "epsilon": EPSILON,
        "delta": case.delta,
        "mu_of_the_fit": PrivacyAccountant(EPSILON, case.delta).mu_cap,
        "mu": math.hypot(*charged),
        "mu_lower_bound": bound,
        "confidence": 1 - ALPHA,
        "guesses": case.n_guesses,
        "seconds": time.perf_counter() - start,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "version": skdpsynth.__version__,
    }


def page_table(done: pd.DataFrame) -> str:
    """Write the table of the page."""
    heads = ["what", "delta", "mu of the fit", "mu charged", "lower bound of mu"]
    heads += ["over the mu charged", "repetitions", "seconds each"]
    rows = []
    for name, own in done.groupby("what", sort=False):
        bounds = own["mu_lower_bound"].sort_values().tolist()
        middle, first = bounds[len(bounds) // 2], own.iloc[0]
        spread = f" ({bounds[0]:.3f} to {bounds[-1]:.3f})" if len(own) > 1 else ""
        cells = [str(name), f"{first['delta']:g}", f"{first['mu_of_the_fit']:.3f}"]
        cells += [f"{first['mu']:.3f}", f"{middle:.3f}{spread}"]
        cells += [f"{middle / first['mu']:.2f}", f"{len(own)}"]
        rows.append([*cells, f"{own['seconds'].mean():.0f}"])
    lines = [
        "| " + " | ".join(cells) + " |"
        for cells in (heads, ["---"] * len(heads), *rows)
    ]
    dates = sorted(set(done["date"]))
    return "\n".join(
        [*lines, "", f"Runs of {' to '.join(dates[:1] + dates[1:][-1:])}."]
    )


def write_page(done: pd.DataFrame) -> None:
    """Replace the table in docs/audit.md."""
    text = _PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    text = f"{before}{_BEGIN}\n\n{page_table(done)}\n\n{_END}{after}"
    _PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Run what is not in the file of results yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="start anew")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    if options.fresh:
        _RESULTS.unlink(missing_ok=True)
    use_one_thread()
    done = pd.read_csv(_RESULTS) if _RESULTS.exists() else pd.DataFrame()
    known = set(zip(done.get("what", []), done.get("repetition", []), strict=True))
    for name in options.only:
        for repetition in range(CASES[name].repetitions):
            if (name, repetition) in known:
                continue
            line = row_of(name, repetition)
            print(line, flush=True)
            header = not _RESULTS.exists()
            pd.DataFrame([line]).to_csv(_RESULTS, mode="a", header=header, index=False)
    done = pd.read_csv(_RESULTS)
    write_page(pd.concat([done[done["what"] == name] for name in CASES]))


if __name__ == "__main__":
    main()
