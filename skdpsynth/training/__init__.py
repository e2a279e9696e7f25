"""What sees private rows while a generator is trained, and releases with noise alone.

Teachers on disjoint rows (`TeacherEnsemble`), discriminators by DP-SGD
(`Discriminator`), students of noisy votes (`Student`), and what learns of rows without
a label (`Classifier`, `UnlabelledBranch`). A class that holds private rows says so by
its base, `HoldsPrivateRows`.
"""

from skdpsynth.training._discriminator import (
    Discriminator,
    train_generator,
)
from skdpsynth.training._dp_sgd import ClippedSums
from skdpsynth.training._means import (
    RealMeans,
    Told,
    generated_means,
    move_means,
    told_by_labels,
    told_by_sum,
)
from skdpsynth.training._student import Student, ascend_student
from skdpsynth.training._teachers import (
    N_GENERATED,
    N_KNOWN,
    SAMPLE_ROWS,
    TeacherEnsemble,
    ballots_of,
    decode_answers,
    make_teachers,
    mean_gradients,
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
    "Classifier",
    "ClippedSums",
    "Discriminator",
    "RealMeans",
    "Student",
    "TeacherEnsemble",
    "Told",
    "UnlabelledBranch",
    "ascend_student",
    "ballots_of",
    "decode_answers",
    "generated_means",
    "make_teachers",
    "mean_gradients",
    "move_means",
    "pseudo_label_rows",
    "random_projections",
    "rejected",
    "told_by_labels",
    "told_by_sum",
    "train_generator",
]
