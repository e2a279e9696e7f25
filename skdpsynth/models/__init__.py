"""Generators, each with its fit to measurements. Torch is here, and no private row.

The mixture (`Fit`, `Mixture`, `MixtureTrainer`), factors (`factors_above_noise`,
`FactorGenerator`, `FactorTrainer`) and the network of the papers (`NetworkTrainer`). A
`Trainer` moves a generator while it is trained by an adversary.
"""

from skdpsynth.models._factors import (
    FactorGenerator,
    FactorTrainer,
    factors_above_noise,
)
from skdpsynth.models._generator import (
    Adam,
    AdamSteps,
    Features,
    Generator,
    Products,
    Trainer,
    resolve_device,
)
from skdpsynth.models._mixture import (
    Components,
    Fit,
    Heads,
    Mixture,
    MixtureGenerator,
    ReleasedClass,
    Together,
    TripleLoss,
)
from skdpsynth.models._mixture_trainer import BinScores, MixtureTrainer
from skdpsynth.models._network import NetworkTrainer
from skdpsynth.models._relations import Followers
from skdpsynth.models._tilts import Tilts

__all__ = [
    "Adam",
    "AdamSteps",
    "BinScores",
    "Components",
    "FactorGenerator",
    "FactorTrainer",
    "Features",
    "Fit",
    "Followers",
    "Generator",
    "Heads",
    "Mixture",
    "MixtureGenerator",
    "MixtureTrainer",
    "NetworkTrainer",
    "Products",
    "ReleasedClass",
    "Tilts",
    "Together",
    "Trainer",
    "TripleLoss",
    "factors_above_noise",
    "resolve_device",
]
