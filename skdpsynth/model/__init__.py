"""Models of measurements: what a saved file holds, and rows are drawn from.

A generator draws ranks: mixtures of independent columns (`Mixture`,
`MixtureGenerator`), changed where a column nearly determines another (`Followers`); or
normal scores of a few factors (`FactorGenerator`). The measured marginals turn ranks
into values (`decode_columns`). `Fit` fits mixtures to measured tables; `models` trains
all of them further. Nothing here needs torch.
"""

from skdpsynth.model._decoder import check_categories, decode_cells, decode_columns
from skdpsynth.model._factors import (
    MOST_LOADING,
    FactorGenerator,
    factors_above_noise,
)
from skdpsynth.model._fit import (
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
from skdpsynth.model._generator import Generator, MixtureGenerator
from skdpsynth.model._mixture import Mixture
from skdpsynth.model._relations import Followers

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
    "check_categories",
    "decode_cells",
    "decode_columns",
    "factors_above_noise",
    "slopes_of_loss",
]
