"""Replay our releases with dp-recorder's "Re:cord-play" (:arxiv:`2602.17454`).

Run ``python examples/recordplay.py`` with dp-recorder installed, which is not on PyPI
(https://github.com/ObliviousAI/dp-recorder); without it the script says so. It records
a fit, replays it on the table with one more row, and lets dp-recorder compare the exact
statistics with their sensitivities. `skdpsynth.audit.replay` checks more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library reads it

import numpy as np
import pandas as pd

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.privacy.testing import (
    Release,
    coupled_rows,
    insecure_randomness,
    observe_releases,
)
from skdpsynth.schema import Categorical, Continuous, TableSchema

if TYPE_CHECKING:
    from skdpsynth.base import BaseSynthesizer

NUMBER = Continuous(-6, 6, scale="linear", decimals="any")
SCHEMA = TableSchema(
    {"a": NUMBER, "b": NUMBER, "y": Categorical(["u", "v"])}, target="y"
)


def replayed(synthesizer: BaseSynthesizer, tables: list[pd.DataFrame]) -> int:
    """Record a fit on the first table, replay it on the second; count releases."""
    from dp_recorder.auditing import audit_primitives as recorder

    @recorder.audit_spec("release", "told", "sensitivity", distance)
    def primitive(told: dict, sensitivity: float, line: tuple) -> np.ndarray:
        return told["release"].noisy

    def answer(release: Release) -> np.ndarray:
        line = release.reservation
        told = {"release": release}  # a dict is compared as it is
        return primitive(told, line.sensitivity, (release.what, line.noise_std))

    auditor = recorder.Auditor()
    for world, table in enumerate(tables):
        if world:
            auditor.set_replay()
        with auditor, insecure_randomness(0), coupled_rows(), observe_releases(answer):
            synthesizer.fit(table)
    auditor.validate_records()  # AssertionError if one exceeds its sensitivity
    return len(auditor.log)


def distance(ours: dict, theirs: dict) -> float:
    """Give the L2 norm by which a release moves, in units of its sensitivity."""
    first, second = ours["release"], theirs["release"]
    difference = (first.exact - second.exact) / first.unit
    norms = np.linalg.norm(difference.reshape(first.n_releases, -1), axis=1)
    return float(norms.max())


def main() -> None:
    """Replay three synthesizers with one more row, in the first place."""
    try:
        import dp_recorder  # noqa: F401
    except ImportError as error:
        print(
            f"dp-recorder is not installed ({error}), so there is nothing to run. "
            "Install it from github.com/ObliviousAI/dp-recorder."
        )
        return
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    table["y"] = np.where(table["a"] + rng.normal(size=60) > 0, "u", "v")
    row = pd.DataFrame({"a": [-6.0], "b": [6.0], "y": ["u"]})
    more = pd.concat([row, table], ignore_index=True)
    for cls in (IndependentSynthesizer, MarginalSynthesizer, GPATESynthesizer):
        synthesizer = cls(50.0, schema=SCHEMA, random_state=0)
        n_releases = replayed(synthesizer, [table, more])
        print(f"{cls.__name__}: {n_releases} releases, none moves too far")


if __name__ == "__main__":
    main()
