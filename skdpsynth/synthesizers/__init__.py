"""One published algorithm per file, and the reference points beside them.

They are imported when they are asked for: the loops need torch and Opacus, which take
seconds, and plans and samples of the others do without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skdpsynth.synthesizers._dpcgan import DPCGANSynthesizer
    from skdpsynth.synthesizers._dpgan import DPGANSynthesizer
    from skdpsynth.synthesizers._gan import GANSynthesizer
    from skdpsynth.synthesizers._gpate import GPATESynthesizer
    from skdpsynth.synthesizers._independent import IndependentSynthesizer
    from skdpsynth.synthesizers._marginal import (
        GeneratedSynthesizer,
        MarginalSynthesizer,
    )
    from skdpsynth.synthesizers._pategan import PATEGANSynthesizer
    from skdpsynth.synthesizers._patetriplegan import PATETripleGANSynthesizer

__all__ = [
    "DPCGANSynthesizer",
    "DPGANSynthesizer",
    "GANSynthesizer",
    "GPATESynthesizer",
    "GeneratedSynthesizer",
    "IndependentSynthesizer",
    "MarginalSynthesizer",
    "PATEGANSynthesizer",
    "PATETripleGANSynthesizer",
]


def __getattr__(name: str) -> object:
    """Import a class the first time it is asked for (PEP 562)."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    file = name.removesuffix("Synthesizer").lower()
    file = "marginal" if file == "generated" else file  # its base
    loaded: object = getattr(importlib.import_module(f"{__name__}._{file}"), name)
    globals()[name] = loaded
    return loaded
