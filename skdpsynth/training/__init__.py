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

from skdpsynth.training._discriminator import (
    Discriminator as Discriminator,
    Student as Student,
    ascend_student as ascend_student,
    train_generator as train_generator,
)
from skdpsynth.training._dp_sgd import ClippedSums as ClippedSums
from skdpsynth.training._factors import FactorTrainer as FactorTrainer
from skdpsynth.training._generator import (
    N_KNOWN as N_KNOWN,
    Trainer as Trainer,
    clear_products as clear_products,
    n_products as n_products,
    on_device as on_device,
    one_thread as one_thread,
    resolve_device as resolve_device,
)
from skdpsynth.training._mixture import (
    BinScores as BinScores,
    MixtureTrainer as MixtureTrainer,
)
from skdpsynth.training._network import NetworkTrainer as NetworkTrainer
from skdpsynth.training._teachers import (
    N_GENERATED as N_GENERATED,
    SAMPLE_ROWS as SAMPLE_ROWS,
    LinearTeachers as LinearTeachers,
    RealMeans as RealMeans,
    TeacherEnsemble as TeacherEnsemble,
    Told as Told,
    ballots_of as ballots_of,
    decode_answers as decode_answers,
    move_means as move_means,
    random_projections as random_projections,
    told_by_labels as told_by_labels,
    told_by_sum as told_by_sum,
)
from skdpsynth.training._unlabelled import (
    Classifier as Classifier,
    UnlabelledBranch as UnlabelledBranch,
    pseudo_label_rows as pseudo_label_rows,
    rejected as rejected,
)
