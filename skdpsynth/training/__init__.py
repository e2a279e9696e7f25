"""What sees private rows while a generator is trained, and releases with noise alone.

Teachers on disjoint rows (`TeacherEnsemble`), discriminators by DP-SGD
(`Discriminator`), students of noisy votes (`Student`), and what learns of rows without
a label (`Classifier`, `UnlabelledBranch`). A class that holds private rows says so by
its base, `HoldsPrivateRows`.
"""

from skdpsynth.training._discriminator import (
    N_GENERATED,
    Discriminator,
    share_above_noise,
    train_generator,
)
from skdpsynth.training._dp_sgd import ClippedSums
from skdpsynth.training._student import (
    Student,
    ascend_student,
    learnt_difference,
    move_means,
    vote_slope,
)
from skdpsynth.training._teachers import (
    TeacherEnsemble,
    ballots_of,
    decode_answers,
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
    "Classifier",
    "ClippedSums",
    "Discriminator",
    "Student",
    "TeacherEnsemble",
    "UnlabelledBranch",
    "ascend_student",
    "ballots_of",
    "decode_answers",
    "learnt_difference",
    "mean_gradients",
    "move_means",
    "pseudo_label_rows",
    "random_projections",
    "rejected",
    "share_above_noise",
    "train_generator",
    "vote_slope",
]
