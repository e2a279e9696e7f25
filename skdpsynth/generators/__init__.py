"""Generators: what a saved file holds, and rows are drawn from. Without torch.

Mixtures of independent columns (`Mixture`, `MixtureGenerator`), changed where a column
nearly determines another (`Followers`) and to measured parities (`Tilts`); and normal
scores of a few factors (`FactorGenerator`). `models` fits and trains them. A generator
draws ranks, which the measured marginals turn into values.
"""

from skdpsynth.generators._factors import (
    BOUNDS,
    FactorGenerator,
    factors_above_noise,
)
from skdpsynth.generators._generator import Generator
from skdpsynth.generators._mixture import Mixture, MixtureGenerator
from skdpsynth.generators._relations import Followers
from skdpsynth.generators._tilts import Tilts

__all__ = [
    "BOUNDS",
    "FactorGenerator",
    "Followers",
    "Generator",
    "Mixture",
    "MixtureGenerator",
    "Tilts",
    "factors_above_noise",
]
