"""Generators, what trains them, and what sees private rows meanwhile. Torch is here.

Models: the mixture (`Fit`, `Mixture`), factors (`factors_above_noise`,
`FactorGenerator`) and the network of the papers. Training: teachers
(`TeacherEnsemble`), discriminators by DP-SGD (`Discriminator`), students of votes
(`StudentDiscriminator`) and the trainers that move a generator. A class that holds
private rows says so by its base, `HoldsPrivateRows`.
"""

from skdpsynth.nn._adam import Adam
from skdpsynth.nn._branch import (
    BranchedDiscriminator,
    BranchedStudentDiscriminator,
    UnlabelledBranch,
)
from skdpsynth.nn._classifier import Classifier, pseudo_label_rows
from skdpsynth.nn._device import resolve_device
from skdpsynth.nn._discriminator import FAKES, Discriminator, train_generator
from skdpsynth.nn._factors import FactorGenerator, FactorTrainer
from skdpsynth.nn._fitting import Components, Fit, Heads, ReleasedClass
from skdpsynth.nn._generator import Features, Generator, Trainer, teacher_gradients
from skdpsynth.nn._mixture import Mixture, MixtureGenerator
from skdpsynth.nn._mixture_trainer import BinScores, MixtureTrainer
from skdpsynth.nn._moments import factors_above_noise
from skdpsynth.nn._network_trainer import NetworkTrainer
from skdpsynth.nn._student import (
    GeneratorAscent,
    LabelBuffer,
    StudentDiscriminator,
    View,
    label_slope,
    noise_of_moments,
    view_size,
)
from skdpsynth.nn._teachers import TeacherEnsemble
from skdpsynth.nn._triples import TripleLoss
from skdpsynth.nn._votes import (
    decode_answers,
    projected_ballots,
    projected_votes,
    random_projections,
)

__all__ = [
    "FAKES",
    "Adam",
    "BinScores",
    "BranchedDiscriminator",
    "BranchedStudentDiscriminator",
    "Classifier",
    "Components",
    "Discriminator",
    "FactorGenerator",
    "FactorTrainer",
    "Features",
    "Fit",
    "Generator",
    "GeneratorAscent",
    "Heads",
    "LabelBuffer",
    "Mixture",
    "MixtureGenerator",
    "MixtureTrainer",
    "NetworkTrainer",
    "ReleasedClass",
    "StudentDiscriminator",
    "TeacherEnsemble",
    "Trainer",
    "TripleLoss",
    "UnlabelledBranch",
    "View",
    "decode_answers",
    "factors_above_noise",
    "label_slope",
    "noise_of_moments",
    "projected_ballots",
    "projected_votes",
    "pseudo_label_rows",
    "random_projections",
    "resolve_device",
    "teacher_gradients",
    "train_generator",
    "view_size",
]
