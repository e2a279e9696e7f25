"""Generators: what a saved file holds, and rows are drawn from.

Mixtures of independent columns (`Mixture`, `MixtureGenerator`), changed where a column
nearly determines another (`Followers`); and normal scores of a few factors
(`FactorGenerator`). A generator draws ranks, which the measured marginals turn into
values. `Fit` fits mixtures to measured tables; `training` trains them further.
Nothing here needs torch.
"""

from skdpsynth.generators._factors import (
    MOST_LOADING,
    FactorGenerator,
    factors_above_noise,
)
from skdpsynth.generators._fit import (
    NUMPY,
    AdamSteps,
    Arrays,
    Components,
    Fit,
    Heads,
    ReleasedClass,
    Together,
    TripleLoss,
    slopes_of_loss,
)
from skdpsynth.generators._generator import Generator, MixtureGenerator
from skdpsynth.generators._mixture import Mixture
from skdpsynth.generators._relations import Followers

__all__ = [
    "MOST_LOADING",
    "NUMPY",
    "AdamSteps",
    "Arrays",
    "Components",
    "FactorGenerator",
    "Fit",
    "Followers",
    "Generator",
    "Heads",
    "Mixture",
    "MixtureGenerator",
    "ReleasedClass",
    "Together",
    "TripleLoss",
    "factors_above_noise",
    "slopes_of_loss",
]
