"""What `run.py` runs, by name: tables, synthesizers, settings, budgets and scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import _scores
import pandas as pd
from _common import FLOOR, PUBLISHED, REAL, RESULTS
from _tables import DECLARED, EVERYDAY, IMAGES, NIST, PAPERS, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Choice = tuple[str, str, float]  # table, synthesizer, epsilon


@dataclass(frozen=True)
class Config:
    """One file of results, of all combinations of what is listed."""

    tables: Mapping[str, Table]
    # Names of `SYNTHESIZERS`, with `PUBLISHED` behind for the networks of their paper.
    synthesizers: tuple[str, ...]
    epsilons: tuple[float, ...]  # infinite: without noise
    score: Callable[..., dict[str, object]]  # one of `_scores.py`, and its columns
    scores: tuple[str, ...]
    seeds: int = 3
    part: str = "test"  # "validation": no test row is ever read
    # Parameters of a synthesizer, by table, synthesizer and epsilon.
    given: Callable[[str, str, float], dict[str, Any]] = lambda *_: {}
    start: str = ""  # from whose scores the summary has differences
    only: tuple[Choice, ...] = ()  # combinations that are run, if not all


_DEPENDENCE = ("tv1", "tv2", "tv3", "c2st", "c2st_column", "auroc", "auprc")
_SHARED = {"kaggle": PAPERS["kaggle"], "epileptic": PAPERS["epileptic"]}
_LEARNT = ("auroc", "r2", "r2_boosting", "shapes", "trends", "on_grid", "least_on_grid")
_PANELS = ("auroc", "auprc", "auroc_4", "auprc_4", "auroc_lr", "auroc_mlp", "accuracy")
_OF_PAPERS = ("PATE-GAN", "G-PATE", "DP-CGAN", "PATE-TripleGAN")
_AS_PUBLISHED = tuple(name + PUBLISHED for name in _OF_PAPERS)


def _pixels(table: str, name: str, epsilon: float) -> dict[str, Any]:
    """Replace values of `as_published` where there are 784 pixels.

    The usual rounds would take hours. With noise the two that vote have as many as
    elsewhere at epsilon 1, and G-PATE so many teachers that their hidden layers would
    have 18 GB of weights.
    """
    plain = name.removesuffix(PUBLISHED)
    if plain == name or not table.startswith(("mnist", "fashion")):
        return {}
    if epsilon < math.inf and plain == "G-PATE":
        return {"n_iter": 60, "hidden_dims": ((256, 256), ())}
    if epsilon < math.inf and plain == "PATE-TripleGAN":
        return {"n_iter": 20}
    if plain == "PATE-TripleGAN":
        return {"n_iter": 500}  # section 5.1: 500 to 2000
    return {"batch_size": 64, "n_iter": 1200}


# What the papers state, all at delta 1e-5; the PATE-TripleGAN paper states no delta.
# G-PATE: real rows are the means of the four in Table 6; without noise, Table 7.
STATED = pd.read_csv(RESULTS / "stated.csv", keep_default_na=False)


def columns_of(line: Any) -> dict[str, Choice]:  # noqa: ANN401
    """Return the runs beside a figure of a paper, by the name of their column."""
    published = line.synthesizer + PUBLISHED
    return {
        "as published, without noise": (line.table, published, math.inf),
        "as published, sound accounting": (line.table, published, line.epsilon),
        "default": (line.table, line.synthesizer, line.epsilon),
        "independent baseline": (line.table, FLOOR, line.epsilon),
        "real rows": (line.table, REAL, math.inf),
    }


_BESIDE = [columns_of(line).values() for line in STATED.itertuples()]

CONFIGS = {
    # 2-way and 3-way distances, C2ST of rows and of the worst column, boosting.
    "dependence": Config(
        tables=DECLARED | _SHARED,
        synthesizers=(REAL, FLOOR, "marginals"),
        epsilons=(1.0,),
        score=_scores.dependence,
        scores=_DEPENDENCE,
    ),
    # What the loops of default fits add to measurements, for the same total budget.
    "training": Config(
        tables={name: DECLARED[name] for name in ("adult", "diamonds")} | _SHARED,
        synthesizers=("marginals", *_OF_PAPERS),
        epsilons=(1.0, 3.0),
        score=_scores.dependence,
        scores=_DEPENDENCE,
        seeds=5,
        part="validation",
        start="marginals",
    ),
    # What the papers' networks learn without noise.
    "published": Config(
        tables={"adult": DECLARED["adult"]},
        synthesizers=_AS_PUBLISHED,
        epsilons=(math.inf,),
        score=_scores.dependence,
        scores=_DEPENDENCE,
        seeds=1,
    ),
    # Tables as a new user has them: nothing is declared but the target.
    "everyday": Config(
        tables=EVERYDAY,
        synthesizers=(REAL, "marginals", "G-PATE", FLOOR),
        epsilons=(1.0, 5.0),
        score=_scores.everyday,
        scores=_LEARNT,
    ),
    # The k-marginal score of NIST's Collaborative Research Cycle, 0 to 1000.
    "nist": Config(
        tables=NIST,
        synthesizers=("marginals", FLOOR),
        epsilons=(1.0, 10.0),
        score=_scores.nist,
        scores=("k_marginal",),
    ),
    # The figures of the papers: as published, without noise and with it; by default.
    "reproduction": Config(
        tables=PAPERS,
        synthesizers=(*_OF_PAPERS, *_AS_PUBLISHED, FLOOR, REAL),
        epsilons=tuple(sorted({*STATED["epsilon"], math.inf})),
        score=_scores.as_papers,
        scores=_PANELS,
        given=_pixels,
        only=tuple(dict.fromkeys(choice for line in _BESIDE for choice in line)),
    ),
    # MNIST and Fashion-MNIST as tables of 784 pixels and a label.
    "images": Config(
        tables=IMAGES,
        synthesizers=(REAL, "G-PATE", "DP-CGAN"),
        epsilons=(1.0, 10.0),
        score=_scores.as_papers,
        scores=("accuracy",),
    ),
}
