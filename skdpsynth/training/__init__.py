"""The loops of the algorithms: generators while they are trained, and what judges them.

A `Trainer` moves a generator and never sees a private row: the mixture
(`MixtureTrainer`), factors (`FactorTrainer`) or the network of the papers
(`NetworkTrainer`). What judges generated rows sees private ones, and releases with
noise alone: teachers on disjoint rows (`LinearTeachers`,
`TeacherEnsemble`), discriminators by DP-SGD
(`Discriminator`), and what learns of rows without a label (`Classifier`,
`UnlabelledBranch`). A class that holds private rows says so by its base,
`HoldsPrivateRows`. Students (`Student`, `RealMeans`) learn from what was released.
"""

from skdpsynth.training._discriminator import Discriminator, train_generator
from skdpsynth.training._dp_sgd import ClippedSums
from skdpsynth.training._factors import FactorTrainer
from skdpsynth.training._generator import (
    N_KNOWN,
    Adam,
    Trainer,
    clear_products,
    n_products,
    on_device,
    one_thread,
    resolve_device,
)
from skdpsynth.training._means import (
    RealMeans,
    Told,
    move_means,
    told_by_labels,
    told_by_sum,
)
from skdpsynth.training._mixture import BinScores, MixtureTrainer
from skdpsynth.training._network import NetworkTrainer
from skdpsynth.training._student import Student, ascend_student
from skdpsynth.training._teachers import (
    N_GENERATED,
    SAMPLE_ROWS,
    LinearTeachers,
    TeacherEnsemble,
    ballots_of,
    decode_answers,
    random_projections,
)
from skdpsynth.training._unlabelled import (
    Classifier,
    UnlabelledBranch,
    pseudo_label_rows,
    rejected,
)

__all__ = [
    "N_GENERATED",
    "N_KNOWN",
    "SAMPLE_ROWS",
    "Adam",
    "BinScores",
    "Classifier",
    "ClippedSums",
    "Discriminator",
    "FactorTrainer",
    "LinearTeachers",
    "MixtureTrainer",
    "NetworkTrainer",
    "RealMeans",
    "Student",
    "TeacherEnsemble",
    "Told",
    "Trainer",
    "UnlabelledBranch",
    "ascend_student",
    "ballots_of",
    "clear_products",
    "decode_answers",
    "move_means",
    "n_products",
    "on_device",
    "one_thread",
    "pseudo_label_rows",
    "random_projections",
    "rejected",
    "resolve_device",
    "told_by_labels",
    "told_by_sum",
    "train_generator",
]
