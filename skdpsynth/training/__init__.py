"""What sees private rows while a generator is trained, and releases with noise alone.

Teachers on disjoint rows (`TeacherEnsemble`), discriminators by DP-SGD
(`Discriminator`), students of noisy votes (`StudentDiscriminator`), and what learns of
rows without a label (`Classifier`, `UnlabelledBranch`). A class that holds private rows
says so by its base, `HoldsPrivateRows`.
"""

from skdpsynth.training._discriminator import (
    N_GENERATED,
    Discriminator,
    train_generator,
)
from skdpsynth.training._student import (
    GeneratorAscent,
    LabelBuffer,
    StudentDiscriminator,
    View,
    label_slope,
    noise_of_moments,
    view_size,
)
from skdpsynth.training._student_network import (
    NetworkAscent,
    RecentLabels,
    RowFeatures,
    StudentNetwork,
)
from skdpsynth.training._teachers import (
    TeacherEnsemble,
    ballots_of,
    decode_answers,
    projected_votes,
    random_projections,
    teacher_gradients,
)
from skdpsynth.training._unlabelled import (
    BranchedDiscriminator,
    BranchedStudentDiscriminator,
    BranchedStudentNetwork,
    Classifier,
    UnlabelledBranch,
    pseudo_label_rows,
)

__all__ = [
    "N_GENERATED",
    "BranchedDiscriminator",
    "BranchedStudentDiscriminator",
    "BranchedStudentNetwork",
    "Classifier",
    "Discriminator",
    "GeneratorAscent",
    "LabelBuffer",
    "NetworkAscent",
    "RecentLabels",
    "RowFeatures",
    "StudentDiscriminator",
    "StudentNetwork",
    "TeacherEnsemble",
    "UnlabelledBranch",
    "View",
    "ballots_of",
    "decode_answers",
    "label_slope",
    "noise_of_moments",
    "projected_votes",
    "pseudo_label_rows",
    "random_projections",
    "teacher_gradients",
    "train_generator",
    "view_size",
]
