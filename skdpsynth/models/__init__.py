"""How generators are trained by an adversary. Torch, and no private row.

The mixture (`MixtureTrainer`), factors (`FactorTrainer`) and the network of the papers
(`NetworkTrainer`). A `Trainer` moves a generator while it is trained.
"""

from skdpsynth.models._factors import FactorTrainer
from skdpsynth.models._generator import (
    Adam,
    Features,
    Trainer,
    clear_products,
    n_products,
    on_device,
    resolve_device,
)
from skdpsynth.models._mixture_trainer import BinScores, MixtureTrainer
from skdpsynth.models._network import MOMENTUM, NetworkTrainer

__all__ = [
    "MOMENTUM",
    "Adam",
    "BinScores",
    "FactorTrainer",
    "Features",
    "MixtureTrainer",
    "NetworkTrainer",
    "Trainer",
    "clear_products",
    "n_products",
    "on_device",
    "resolve_device",
]
