"""Differentially private synthetic tables with a scikit-learn interface.

The public names are loaded on first use, so that ``import skdpsynth`` imports
neither torch nor pandas nor any privacy library.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skdpsynth.linked import Link, LinkedSchema, LinkedSynthesizer
    from skdpsynth.measure import Measurements, combine_measurements
    from skdpsynth.persistence import load
    from skdpsynth.privacy import PrivacyBudget
    from skdpsynth.saved import inspect
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers import (
        DPCGANSynthesizer,
        DPGANSynthesizer,
        GANSynthesizer,
        GPATESynthesizer,
        IndependentSynthesizer,
        MarginalSynthesizer,
        PATEGANSynthesizer,
        PATETripleGANSynthesizer,
    )

__all__ = [
    "DPCGANSynthesizer",
    "DPGANSynthesizer",
    "GANSynthesizer",
    "GPATESynthesizer",
    "IndependentSynthesizer",
    "Link",
    "LinkedSchema",
    "LinkedSynthesizer",
    "MarginalSynthesizer",
    "Measurements",
    "PATEGANSynthesizer",
    "PATETripleGANSynthesizer",
    "PrivacyBudget",
    "TableSchema",
    "__version__",
    "combine_measurements",
    "inspect",
    "load",
]

__version__ = "0.2.2"

# Stages and planned numbers of a fit, for who follows it; nothing that is private.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Where each lazy name lives; the block above says the same to type checkers.
_LAZY_NAMES = {
    name: "skdpsynth.synthesizers" for name in __all__ if name.endswith("Synthesizer")
} | {
    **dict.fromkeys(["Link", "LinkedSchema", "LinkedSynthesizer"], "skdpsynth.linked"),
    "Measurements": "skdpsynth.measure",
    "PrivacyBudget": "skdpsynth.privacy",
    "combine_measurements": "skdpsynth.measure",
    "TableSchema": "skdpsynth.schema",
    "inspect": "skdpsynth.saved",
    "load": "skdpsynth.persistence",
}

# Old names of classes, which warn.
_RENAMED = {"PairwiseSynthesizer": "MarginalSynthesizer"}


def __getattr__(name: str) -> object:
    """Import a public name the first time it is asked for (PEP 562)."""
    if name in _RENAMED:
        from skdpsynth.utils import warn_deprecated

        new = _RENAMED[name]
        remedy = f"Use {new}, which is the same class."
        warn_deprecated(name, since="0.3", removed_in="0.5", remedy=remedy)
        name = new
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names too, so that completion finds them."""
    return sorted({*globals(), *__all__})
