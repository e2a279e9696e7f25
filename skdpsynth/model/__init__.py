"""Models of measurements: what a saved file holds, and rows are drawn from.

`fit_mixture` and `fit_factors` fit to what was measured; `training` trains further. A
generator draws ranks: mixtures of independent columns (`MixtureGenerator`), changed
where a column nearly determines another (`Followers`); or normal scores of a few
factors (`FactorGenerator`). The measured marginals turn ranks into values
(`decode_columns`). Nothing here needs torch.
"""

from skdpsynth.model._decoder import (
    check_categories as check_categories,
    decode_cells as decode_cells,
    decode_columns as decode_columns,
    series_of as series_of,
)
from skdpsynth.model._factors import (
    LEAST_FACTORS as LEAST_FACTORS,
    MOST_LOADING as MOST_LOADING,
    FactorGenerator as FactorGenerator,
    factors_above_noise as factors_above_noise,
    fit_factors as fit_factors,
)
from skdpsynth.model._fit import (
    NUMPY as NUMPY,
    Adam as Adam,
    Arrays as Arrays,
    Components as Components,
    Heads as Heads,
    ReleasedClass as ReleasedClass,
    fit_mixture as fit_mixture,
    make_generator as make_generator,
    slopes_of_loss as slopes_of_loss,
)
from skdpsynth.model._mixture import (
    Followers as Followers,
    Mixture as Mixture,
    MixtureGenerator as MixtureGenerator,
)
