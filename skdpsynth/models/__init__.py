"""How generators are fitted to measurements and trained. Torch, and no private row.

The mixture (`Fit`, `MixtureTrainer`), factors (`FactorTrainer`) and the network of the
papers (`NetworkTrainer`). A `Trainer` moves a generator while it is trained by an
adversary.
"""

from skdpsynth.models._factors import FactorTrainer
from skdpsynth.models._generator import (
    Adam,
    AdamSteps,
    Features,
    Products,
    Trainer,
    one_thread,
    resolve_device,
)
from skdpsynth.models._mixture import (
    Components,
    Fit,
    Heads,
    ReleasedClass,
    Together,
    TripleLoss,
)
from skdpsynth.models._mixture_trainer import BinScores, MixtureTrainer
from skdpsynth.models._network import NetworkTrainer

__all__ = [
    "Adam",
    "AdamSteps",
    "BinScores",
    "Components",
    "FactorTrainer",
    "Features",
    "Fit",
    "Heads",
    "MixtureTrainer",
    "NetworkTrainer",
    "Products",
    "ReleasedClass",
    "Together",
    "Trainer",
    "TripleLoss",
    "one_thread",
    "resolve_device",
]
