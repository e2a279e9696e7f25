"""Models of measurements: what a saved file holds, and rows are drawn from.

`fit_mixture` and `fit_factors` fit to what was measured; `training` trains further. A
generator draws ranks: mixtures of independent columns (`MixtureGenerator`), changed
where a column nearly determines another (`Followers`); or normal scores of a few
factors (`FactorGenerator`). The measured marginals turn ranks into values
(`decode_columns`). Nothing here needs torch.
"""

from skdpsynth.model._decoder import check_categories, decode_cells, decode_columns
from skdpsynth.model._factors import (
    LEAST_FACTORS,
    MOST_LOADING,
    FactorGenerator,
    factors_above_noise,
    fit_factors,
)
from skdpsynth.model._fit import (
    NUMPY,
    AdamSteps,
    Arrays,
    Components,
    Heads,
    ReleasedClass,
    fit_mixture,
    slopes_of_loss,
)
from skdpsynth.model._mixture import Followers, Mixture, MixtureGenerator

__all__ = [
    "LEAST_FACTORS",
    "MOST_LOADING",
    "NUMPY",
    "AdamSteps",
    "Arrays",
    "Components",
    "FactorGenerator",
    "Followers",
    "Heads",
    "Mixture",
    "MixtureGenerator",
    "ReleasedClass",
    "check_categories",
    "decode_cells",
    "decode_columns",
    "factors_above_noise",
    "fit_factors",
    "fit_mixture",
    "slopes_of_loss",
]
