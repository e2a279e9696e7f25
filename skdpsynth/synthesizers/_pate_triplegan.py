"""PATE-TripleGAN: generator, classifier and discriminator; some rows have no label."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import torch
from tqdm.auto import tqdm

from skdpsynth.measure import (
    CLASSIFIER_SHARE,
    SMALL_SHARE,
    TRIPLE_SHARES,
    Training,
    and_unlabelled,
)
from skdpsynth.models import Adam, NetworkTrainer, resolve_device
from skdpsynth.privacy import (
    UNLABELLED,
    noisy_counts,
    noisy_votes,
    secret_generator,
    telling,
)
from skdpsynth.synthesizers import _dpcgan, _pategan
from skdpsynth.synthesizers._base import ClassGAN, Init
from skdpsynth.synthesizers._dpcgan import StepSettings, training_share
from skdpsynth.synthesizers._evidence import Evidence, train_classifier
from skdpsynth.synthesizers._pategan import (
    NETWORK_DECAY,
    TEACHER_BATCH,
    TEACHER_DECAY,
    teacher_rows,
)
from skdpsynth.training import (
    N_GENERATED,
    BranchedDiscriminator,
    BranchedStudentDiscriminator,
    BranchedStudentNetwork,
    GeneratorAscent,
    LabelBuffer,
    NetworkAscent,
    RecentLabels,
    RowFeatures,
    TeacherEnsemble,
    UnlabelledBranch,
    View,
    label_slope,
    pseudo_label_rows,
    train_generator,
)
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure import Allocation, Form, TableModel
    from skdpsynth.models import Trainer
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._base import WholeTable
    from skdpsynth.synthesizers._initial import InitialModel
    from skdpsynth.table import Metadata, PrivateRows, TableRows


CLASSIFIER_STEPS = 4
_CLEAR = 3.0  # the share of training is the least whose signal is so far above noise
_AUTO_FACTORS = 4  # of a generator that learns from votes
_COHERENCE = 0.25  # nominal norm of the mean gradient, in clipping norms
_SAMPLE_ROWS = 2.0**18  # more of them say nothing that noise would hide


def sampling_rate(n_rows: float) -> float:
    """Give the probability of a row to be in a step, from a planned or noisy count."""
    return min(1.0, _SAMPLE_ROWS / max(n_rows, 1.0))


def classifier_mu(n_rows: float, n_weights: int, mu: float) -> float:
    """Give what a class that has `mu` in all spends on the classifier.

    No more than a signal well above the noise of a step takes. 0 where the noise would
    be above the signal; generated rows then stand for the class.
    """
    most = mu * math.sqrt(CLASSIFIER_SHARE)
    if mu == math.inf:
        return most
    least = math.sqrt(CLASSIFIER_STEPS * n_weights) / (_COHERENCE * max(n_rows, 1.0))
    return min(_CLEAR * least, most) if least <= most else 0.0


def _one_place(rows: PrivateRows) -> NDArray[np.int64]:
    """Give rows one code, to be counted by it."""
    return np.zeros(len(rows), dtype=np.int64)


_POOL = 512  # generated rows that teachers draw minibatches from


class Player(Protocol):
    """What the loop asks of a discriminator and its generator."""

    alpha: float

    @property
    def n_parameters(self) -> int:
        """Length of the discriminator's gradient."""

    def begin_round(self) -> None:
        """Begin a round: fix what the discriminator sees of a row."""

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""

    def learn(self, unlabelled: torch.Tensor | None) -> None:
        """Train the discriminator; `unlabelled` is a released mean gradient."""

    def generate(self) -> None:
        """Train the generator against the discriminator."""

    def result(self) -> Any:  # noqa: ANN401 - each form has its own
        """Give the trained generator."""


class VotePlayer:
    """A student discriminator that learns of labelled rows by noisy votes.

    Only teachers get the private rows; the reservation is of all votes.
    """

    def __init__(
        self,
        settings: PATETripleGANSynthesizer,
        rows: NDArray[np.float32],
        generator: Trainer,
        training: Training,
        n_rows: float,
        reservation: Reservation,
        public: torch.Generator,
        device: torch.device,
    ) -> None:
        self._settings, self._generator = settings, generator
        self._training = training
        self._reservation = reservation
        self._network = isinstance(generator, NetworkTrainer)
        self.begin_round()
        self._teachers = TeacherEnsemble(
            rows,
            training.n_teachers,
            n_features=self._view.n_features,
            hidden_dims=tuple(settings.hidden_dims),
            learning_rate=settings.teacher_learning_rate,
            weight_decay=NETWORK_DECAY if self._network else TEACHER_DECAY,
            batch_size=TEACHER_BATCH,
            rng=secret_generator(),
            generator=public,
            device=device,
        )
        # How sharply a label follows what a teacher's rows are worth.
        worth = teacher_rows(n_rows, training.n_teachers, settings.n_teacher_steps)
        slope = label_slope(training.n_teachers, training.noise_std, "gaussian")
        self._slope = slope * math.sqrt(worth)
        clip, self.alpha = settings.max_grad_norm, 0.0
        self._discriminator: Any
        self._buffer: Any
        self._ascent: Any
        if self._network:  # the student's layers are as wide as the generator's
            self._discriminator = BranchedStudentNetwork(
                generator,
                tuple(settings.generator_hidden_dims),
                generator=public,
                device=device,
                max_grad_norm=clip,
            )
            self._buffer = RecentLabels()
            self._ascent = NetworkAscent(generator)
        else:
            self._discriminator = BranchedStudentDiscriminator(
                generator, max_grad_norm=clip
            )
            self._buffer, self._ascent = LabelBuffer(), GeneratorAscent(generator)

    @property
    def n_parameters(self) -> int:
        """Length of the discriminator's gradient."""
        if self._network:
            return int(self._discriminator.n_parameters)
        return self._view.n_features

    def begin_round(self) -> None:
        """Begin a round: fix what the discriminator sees of a row."""
        of = RowFeatures.of if self._network else View.of
        self._view: View | RowFeatures = of(self._generator)

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        return self._discriminator.clipped_sum(rows, self._view)

    def learn(self, unlabelled: torch.Tensor | None) -> None:
        """Train teachers, release labels by vote, train the discriminator."""
        settings, generator, view = self._settings, self._generator, self._view
        pool = generator.rows(generator.draw(_POOL))
        for _ in range(settings.n_teacher_steps):
            self._teachers.train_step(pool, view.features)  # lines 4-5
        generated = generator.rows(generator.draw(self._training.n_queries))  # line 10
        opinions = self._teachers.logits(generated, view.features)
        if self._network:
            opinions -= opinions.median(dim=1, keepdim=True).values
        ballots = (opinions > 0).cpu().numpy()
        votes = ballots.sum(axis=0, dtype=np.int64)
        with telling(by_teacher=lambda: ballots):
            labels = noisy_votes(
                votes, self._training.n_teachers, self._reservation
            )  # lines 11-12
        self._buffer.add(view, generated, torch.from_numpy(labels), pool, self._slope)
        if unlabelled is not None:
            self._discriminator.alpha = self.alpha
            own = torch.empty(0) if self._network else generator.moments()
            self._discriminator.add_unlabelled(unlabelled, view, own)  # line 15
        self._discriminator.train(
            self._buffer,
            settings.n_student_steps,
            min(settings.discriminator_learning_rate, 1.0),
        )  # lines 16-17

    def generate(self) -> None:
        """Train the generator against the discriminator."""
        for _ in range(self._settings.n_generator_steps):
            self._ascent.step(self._discriminator)

    def result(self) -> Any:  # noqa: ANN401 - each form has its own
        """Give the trained generator."""
        return self._generator.result() if self._network else self._generator.present()


class StepPlayer:
    """A discriminator that learns of labelled rows by DP-SGD."""

    def __init__(
        self,
        settings: PATETripleGANSynthesizer,
        rows: NDArray[np.float32],
        generator: Trainer,
        training: Training,
        n_rows: float,
        reservation: Reservation,
        public: torch.Generator,
        device: torch.device,
    ) -> None:
        self._settings, self._generator = settings, generator
        self._discriminator = BranchedDiscriminator(
            rows,
            n_features=generator.n_features,
            hidden_dims=tuple(settings.hidden_dims),
            loss="logistic",
            learning_rate=settings.discriminator_learning_rate,
            weight_bound=math.inf,
            max_grad_norm=settings.max_grad_norm,
            expected_batch_size=training.sampling_rate * max(n_rows, 1.0),
            reservation=reservation,
            rng=secret_generator(),
            generator=public,
            device=device,
        )
        self._features = generator.features()
        self._adam = Adam()
        self.alpha = 0.0

    @property
    def n_parameters(self) -> int:
        """Length of the discriminator's gradient."""
        return self._discriminator.n_parameters

    def begin_round(self) -> None:
        """Begin a round: fix what the discriminator sees of a row."""
        self._features = self._generator.features()
        self._discriminator.renew()

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        return self._discriminator.clipped_sum(rows, self._features)

    def learn(self, unlabelled: torch.Tensor | None) -> None:
        """Take a step: DP-SGD on labelled rows, exact on generated ones."""
        generated = self._generator.rows(self._generator.draw(N_GENERATED))  # line 10
        self._discriminator.release(self._features)  # lines 11-12
        if unlabelled is not None:
            self._discriminator.alpha = self.alpha
            self._discriminator.add(unlabelled)  # lines 13-15
        self._discriminator.follow(generated, self._features)  # lines 16-17

    def generate(self) -> None:
        """Train the generator against the discriminator, which follows it."""
        train_generator(
            self._generator,
            self._discriminator,
            self._features,
            self._adam,
            self._settings.n_generator_steps,
        )

    def result(self) -> Any:  # noqa: ANN401 - each form has its own
        """Give the trained generator."""
        return self._generator.result()


class PATETripleGANSynthesizer(ClassGAN):
    """PATE-TripleGAN for tables of which some rows have no label.

    Three players: a classifier gives unlabelled rows a label, a discriminator of every
    class tells labelled rows from the generator's and from those, and the generator
    learns from the discriminator alone. Rows whose target is missing are unlabelled.
    By default the generator is fitted to the measurements of `MarginalSynthesizer`, to
    those of unlabelled rows as a mixture of the classes, and the players train it only
    where `n_iter`, `noise_multiplier` or `init` asks for that.

    Parameters
    ----------
    epsilon : float, default=1.0
        Total epsilon of a fit, in (0, inf]. Infinite means without noise.
    delta : float, default=1e-5
        Total delta of a fit, in (0, 1).
    target : column name, optional
        The label column, or a float column, which is a measurement. Without
        labels there is one class and no unlabelled row.
    schema : TableSchema, optional
        What is public about the table; what it leaves out is measured.
    budget : PrivacyBudget, optional
        A budget shared by several fits; it is charged ``(epsilon, delta)``.
    desensitization : {"hybrid", "dpsgd"}, default="hybrid"
        How discriminators learn from labelled rows: by noisy votes of teachers on the
        generator's rows, or by DP-SGD. Unlabelled rows come in by DP-SGD always.
    init : {"measured", "marginals", "random"}, default="measured"
        Initial model. "measured": fitted to all that the budget allows to measure, as
        in `MarginalSynthesizer` (marginals of one, two and three columns, or second
        moments). "marginals": fitted to marginals of one column alone. "random":
        untrained, as in the paper; only metadata is measured.
    unlabelled_weight : float, default=0.05
        Weight of unlabelled rows among what a discriminator takes for fake, in [0, 1).
    n_teachers : int or "auto", default="auto"
        "hybrid": teachers of each class, never more than half its planned rows. "auto":
        one for 4 rows of the noisy count, at most 2048.
    n_iter : int or "auto", default="auto"
        Rounds. "auto": none with ``init="measured"``, whose measurements then have the
        whole budget; otherwise as many as keep the signal of a round above its noise.
        With ``init="marginals"`` a class whose budget does not allow a few runs none
        and keeps it for its marginals.
    batch_size : int, default=512
        "hybrid": generated rows that the teachers vote on in a round, at least 1.
    noise_multiplier : float, optional
        Noise of a vote in votes, or of a step in clipping norms; positive. It fixes
        the number of rounds, so it excludes `n_iter`.
    max_grad_norm : float, default=0.5
        Clipping norm of a row's gradient. Positive.
    latent_dim : int or "auto", default="auto"
        Directions in a row whose products with its scores are the features of
        discriminators, at least 1; of a generator of factors also their number. "auto":
        4 for "hybrid", and as many as the budget of a class allows, up to 8, for
        "dpsgd".
    generator_hidden_dims : tuple of int, default=()
        With ``init="random"``: widths of the hidden layers of the paper's generator, a
        network of `latent_dim` normal numbers. It needs `n_iter`, thousands as a rule.
    hidden_dims : tuple of int, default=()
        Widths of the hidden layers of teachers ("hybrid") or discriminators ("dpsgd").
    learning_rate : float, default=0.05
        Step of the generator (Adam), positive; it falls linearly to 0.
    n_teacher_steps : int, default=4
        "hybrid": steps of the teachers per round, at least 1.
    n_student_steps : int, default=30
        "hybrid": steps of the discriminator per round on all labels so far (of a
        network: on those of the last eight rounds), at least 1.
    n_generator_steps : int, default=50
        Steps of the generator per round, at least 1.
    teacher_learning_rate : float, default=0.05
        "hybrid": step of the teachers, positive.
    discriminator_learning_rate : float, default=1.0
        Step of the discriminator, positive; at most 1 for "hybrid".
    device : str or torch.device, default="auto"
        Where the generator is fitted and networks are trained; "auto" takes a GPU if
        there is one.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights, latent draws and `sample`, never noise, the teachers'
        parts or samples of private rows: two fits differ.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    epsilon_ : float
        Certified epsilon, at most `epsilon`, of rows with and without a label.
    delta_ : float
        Delta of the guarantee.
    schema_ : TableSchema
        What was declared and what was measured.
    classes_ : ndarray of shape (n_classes,)
        The labels; only with a target that has classes.
    measurements_ : Measurements
        All noisy tables that were released; public. Empty where
        `generator_hidden_dims` trains a network, of which no table is measured.
    generator_ : MixtureGenerator or FactorGenerator
        The generators of all classes; public.
    n_teachers_ : ndarray of shape (n_classes,), int
        Teachers of each class, 0 where none voted.
    n_iter_ : int
        Rounds: those of the class with most; 0 where none were run.
    n_features_in_ : int
        Number of columns without the target.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where all are strings.

    See Also
    --------
    PATEGANSynthesizer : Votes, and no use of unlabelled rows.
    DPCGANSynthesizer : DP-SGD, and no use of unlabelled rows.
    MarginalSynthesizer : The same measurements, without the three players.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row, labelled or not. Labelled rows are charged for the measurements of
    their class, with the guarantee of `MarginalSynthesizer` (E tables of two columns,
    and as well E of three or of finer cells, have L2 sensitivity ``sqrt(E)`` together);
    for their part in the classifier, one clipped noisy sum per step; and for noisy
    votes of one bit, of which a row touches one, charged as one block, or clipped noisy
    sums ("dpsgd"). No vote is on a private row. Unlabelled rows are charged for a count
    and one clipped noisy sum per round: the classifier is frozen and its weights are
    released, and their target is the constant "fake", so a row is in a sum as its own
    term only. Where no class trains and some have tables of two columns, unlabelled
    rows are charged instead for their number and, if that is enough, for the same
    measurements as a class. A row is labelled or it is not, and either kind has the
    whole budget; a person with rows of both kinds is charged twice. All is reserved
    without regard to whether there are unlabelled rows. The noise of gradients is
    floating-point Gaussian noise from the operating system's entropy; all other noise
    is discrete.

    **What the paper does, and why it is not private.** It shows the discriminator
    unlabelled rows with the teachers' majority on them (``r_c``) and labels by a
    classifier, both without noise. One labelled row can flip every label and every
    term of a sum whose noise covers one: 128 terms move it by up to 256 clipping
    norms. The threshold test of votes is not charged, and of each of five runs the
    best checkpoint is scored. Here r_c is 0, as in Triple-GAN ([2]_), the classifier
    learns by DP-SGD, and votes are on generated rows and charged each.

    Symbols of the paper: S_l rows with and S_d rows without a label, k ``n_teachers``,
    n_g ``batch_size``, n_s ``n_student_steps``, R ``max_grad_norm``, sigma_0 and
    sigma_2 ``noise_multiplier``, alpha ``unlabelled_weight``, mu_0 what (epsilon,
    delta) allow, rounds until then ``n_iter``, r_g the noisy votes, S the
    discriminator, alpha_p 0.1. The threshold test (T_e, sigma_1) is left out: of two
    answers one always leads, and asking costs as much.

    The classifier is a softmax regression on the log odds of each class that the
    measured marginals give a row, and starts as naive Bayes (with ``init="random"``: on
    scores and their squares, starting at 0). It learns before the other two, on
    labelled rows (R_c) of classes that train, each at its own cost and noise, and on
    rows drawn from the marginals (R_p). Where few unlabelled rows have a class as
    pseudo-label, they weigh less.

    References
    ----------
    .. [1] Jiang, Ni, Zhang (2024). "PATE-TripleGAN: Privacy-Preserving Image Synthesis
       with Gaussian Differential Privacy". :arxiv:`2404.12730`
    .. [2] Li, Xu, Zhu, Zhang (2017). "Triple Generative Adversarial Nets". NeurIPS
       2017. :arxiv:`1703.02291`

    Examples
    --------
    >>> from skdpsynth import PATETripleGANSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> table = load_thyroid()
    >>> table["class"] = table["class"].astype("Int64")
    >>> table.loc[table.index % 5 == 0, "class"] = None  # no label
    >>> synth = PATETripleGANSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(table).sample(5).shape
    (5, 22)
    """

    _most_training_share = TRIPLE_SHARES[-1] + CLASSIFIER_SHARE
    _tables_first = True  # of rows without a label only tables are measured

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "desensitization": [StrOptions({"hybrid", "dpsgd"})],
        "unlabelled_weight": [Interval(Real, 0, 1, closed="left")],
    }

    @property
    def _network_needs(self) -> dict[str, bool]:
        enough = self.desensitization == "hybrid" or len(self.hidden_dims) > 0
        return {**super()._network_needs, "hidden_dims": enough}

    @property
    def _block(self) -> Literal["votes"] | None:  # type: ignore[override]
        return "votes" if self.desensitization == "hybrid" else None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        target: Hashable = None,
        schema: TableSchema | None = None,
        budget: PrivacyBudget | None = None,
        desensitization: Literal["hybrid", "dpsgd"] = "hybrid",
        init: Init = "measured",
        unlabelled_weight: float = 0.05,
        n_teachers: int | Literal["auto"] = "auto",
        n_iter: int | Literal["auto"] = "auto",
        batch_size: int = 512,
        noise_multiplier: float | None = None,
        max_grad_norm: float = 0.5,
        latent_dim: int | Literal["auto"] = "auto",
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.05,
        n_teacher_steps: int = 4,
        n_student_steps: int = 30,
        n_generator_steps: int = 50,
        teacher_learning_rate: float = 0.05,
        discriminator_learning_rate: float = 1.0,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.budget = budget
        self.desensitization = desensitization
        self.init = init
        self.unlabelled_weight = unlabelled_weight
        self.n_teachers = n_teachers
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.latent_dim = latent_dim
        self.generator_hidden_dims = generator_hidden_dims
        self.hidden_dims = hidden_dims
        self.learning_rate = learning_rate
        self.n_teacher_steps = n_teacher_steps
        self.n_student_steps = n_student_steps
        self.n_generator_steps = n_generator_steps
        self.teacher_learning_rate = teacher_learning_rate
        self.discriminator_learning_rate = discriminator_learning_rate
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, epsilon: float = 1.0, **parameters: Any) -> Self:  # noqa: ANN401
        """Give PATE-TripleGAN with the networks, votes and values of its paper.

        Each value stands in the code beside its place in the paper; where it differs,
        the reason does. Accounting is that of the class.

        Parameters
        ----------
        epsilon : float, default=1.0
            Total epsilon of a fit, in (0, inf].
        **parameters : object
            Any other parameters of the constructor, instead of the paper's.

        Returns
        -------
        PATETripleGANSynthesizer
            Not fitted.
        """
        noisy = epsilon < math.inf
        paper = {
            "desensitization": "hybrid",  # section 4: votes and clipped gradients
            # Not stated: as PATE-GAN.
            "generator_hidden_dims": (256, 256),
            "hidden_dims": (64,),
            "latent_dim": 64,
            # Section 5.3.2: 50 to 100. More outweigh the noise, which here covers what
            # the paper does not charge; fewer have more rows to learn from.
            "n_teachers": 300 if noisy else 10,
            "max_grad_norm": 1.0,  # section 5.3: 1 to 5, of the classifier
            "n_teacher_steps": 5,  # section 5.3: n_k
            # Section 5.1: 128. Each is one bit; without noise more cost nothing.
            "batch_size": 64 if noisy else 1024,
            # Section 5.1: 500 to 2000. The noise of a vote grows with its root.
            "n_iter": math.ceil(min(2000, 20 * epsilon)),
            # Section 5.3: n_s is 5 or 10; Algorithm 2: one step of the generator. With
            # few rounds there are more steps in each.
            "n_student_steps": 40 if noisy else 8,
            "n_generator_steps": 50 if noisy else 1,
            # Section 5.1: 1e-4. Teachers here take plain steps; the generator's are of
            # 2e-3, since they are fewer.
            "teacher_learning_rate": 0.1,
            "learning_rate": 0.1,
        }
        return cls._published(paper, {"epsilon": epsilon, **parameters})

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        device = resolve_device(self.device)
        public = torch.Generator().manual_seed(seed)
        scopes = metadata.classes.scopes
        trained = {c: plan.training for c, plan in enumerate(plans) if plan.training}
        # What labelled rows are charged is reserved before anything is trained.
        reserved = {
            c: self._reserve(training, scopes[c], accountant)
            for c, training in trained.items()
        }
        # The classifier releases a sum of a class's rows, clipped to 1, per step. A
        # class without a reservation is represented by generated rows.
        of_classifier = [
            accountant.reserve_sampled_gaussian(
                "classifier's gradients",
                mu=plan.training.mu_classifier / math.sqrt(CLASSIFIER_STEPS),
                sampling_rate=sampling_rate(plan.n_rows),
                count=CLASSIFIER_STEPS,
                scope=scope,
            )
            if plan.training and plan.training.mu_classifier
            else None
            for plan, scope in zip(plans, scopes, strict=True)
        ]
        n_factors = max((own.n_factors for own in trained.values()), default=1)
        measured, plans_of_all = metadata, plans
        # Rows without a label are charged, whether or not there are any: here for what
        # is measured of them, or below for the loop. Whether labels may be missing is
        # in the dtype, which is public.
        # Without a class every row is charged for the plans, which leave nothing.
        target, of_pairs = metadata.layout.label_column, any(p.pairs.mu for p in plans)
        may_lack = target is not None and target.can_be_missing
        if may_lack and metadata.classes.labels and of_pairs and not trained:
            left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
            of_size = accountant.reserve_gaussian(
                "rows without a label",
                mu=left * math.sqrt(SMALL_SHARE),
                sensitivity=1.0,
                scope=UNLABELLED,
            )
            places = rows.parts_of_class(-1).map(_one_place)
            (n_rows,) = noisy_counts(places, 1, of_size).tolist()
            left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
            known = metadata, plans, n_rows, of_size.noise_std
            measured, plans_of_all = and_unlabelled(*known, left)
        initial = self._initialise(
            rows, measured, plans_of_all, accountant, n_factors=n_factors, seed=seed
        )
        players = self._players(rows, initial, plans, reserved, public, device)
        branch = None
        # Without a class there are no pairs. Whether a row lacks a label is private.
        if players and metadata.classes.labels:
            evidence = Evidence(initial.model)
            sizes = [sampling_rate(p.n_rows) * max(p.n_rows, 1.0) for p in plans]
            # Lines 18-20, once: with a frozen C a term of line 14 is of one row.
            weights = train_classifier(
                evidence, rows, of_classifier, sizes, CLASSIFIER_STEPS, public
            )
            # Rows without a label are charged, whether or not there are any: first for
            # the numbers of them that have each class as pseudo-label, C(d).
            left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
            of_counts = accountant.reserve_gaussian(
                "unlabelled rows of each class",
                mu=left * math.sqrt(CLASSIFIER_SHARE),
                sensitivity=1.0,
                scope=UNLABELLED,
            )
            unlabelled, prior = rows.of_class(-1), metadata.classes.prior
            labels = pseudo_label_rows(weights, evidence.features(unlabelled), prior)
            counts = noisy_counts(labels, len(prior), of_counts)
            # Then for a sum of their gradients per round, with all that is left.
            n_rounds = max(training.n_iter for training in trained.values())
            left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
            of_gradients = accountant.reserve_sampled_gaussian(
                "unlabelled rows' gradients",
                mu=left / math.sqrt(n_rounds),
                sampling_rate=sampling_rate(float(np.maximum(counts, 0).sum())),
                count=n_rounds,
                scope=UNLABELLED,
            )
            branch = UnlabelledBranch(
                {c: initial.encode(unlabelled[labels == c], c) for c in players},
                weight=self.unlabelled_weight,
                counts={c: float(counts[c]) for c in players},
                n_parameters={c: player.n_parameters for c, player in players.items()},
                max_grad_norm=self.max_grad_norm,
                reservation=of_gradients,
                rng=secret_generator(),
                device=device,
            )
            for c, player in players.items():
                player.alpha = branch.weights[c]
        self._play(players, branch, trained)
        for c, player in players.items():
            initial.keep(c, player.result())
        self._collect(initial, plans)
        self.n_teachers_ = np.array([plan.n_teachers for plan in plans])
        return initial.model

    def _players(
        self,
        rows: TableRows,
        initial: InitialModel,
        plans: list[Allocation],
        reserved: Mapping[int, Reservation],
        public: torch.Generator,
        device: torch.device,
    ) -> dict[int, Player]:
        """Make the players of all classes that train, by position of the class."""
        players: dict[int, Player] = {}
        votes = self.desensitization == "hybrid"
        for c, reservation in reserved.items():
            training = plans[c].training
            assert training is not None
            generator = initial.trainer(
                c,
                n_factors=training.n_factors,
                n_steps=training.n_iter * self.n_generator_steps,
                learning_rate=self.learning_rate,
                generator=public,
                device=device,
                dtype=torch.float32 if votes else torch.float64,
            )
            players[c] = (VotePlayer if votes else StepPlayer)(
                self,
                initial.encode(rows.of_class(c), c),
                generator,
                training,
                plans[c].n_rows,
                reservation,
                public,
                device,
            )
        return players

    def _play(
        self,
        players: Mapping[int, Player],
        branch: UnlabelledBranch | None,
        trained: Mapping[int, Training],
    ) -> None:
        """Train discriminators and generators (Algorithm 2)."""
        n_rounds = max((own.n_iter for own in trained.values()), default=0)
        with tqdm(
            total=n_rounds, disable=not self.verbose, desc="PATE-TripleGAN"
        ) as progress:
            for step in range(n_rounds):  # line 3
                playing = {c: p for c, p in players.items() if step < trained[c].n_iter}
                for player in playing.values():
                    player.begin_round()
                released: dict[int, torch.Tensor] = {}
                if branch is not None:  # lines 7-9, with r_c = 0, and 14-15
                    released = branch.release(
                        {c: player.clipped_sum for c, player in playing.items()}
                    )
                for c, player in playing.items():
                    player.learn(released.get(c))  # lines 4-5, 10-12, 16-17
                    player.generate()  # lines 21-23
                progress.update()

    def _reserve(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        """Reserve what a discriminator learns of labelled rows: votes, or DP-SGD."""
        if self.desensitization == "hybrid":
            return accountant.reserve_votes(
                "labels by vote",
                mu=training.mu_step / math.sqrt(training.n_queries),
                n_teachers=training.n_teachers,
                count=training.n_iter * training.n_queries,
                scope=scope,
                noise="gaussian",
                tail_delta=self._tail_delta,
            )
        return accountant.reserve_sampled_gaussian(
            "discriminator's gradients",
            mu=training.mu_step,
            sampling_rate=training.sampling_rate,
            count=training.n_iter * training.n_queries,
            scope=scope,
            tail_delta=self._tail_delta,
        )

    def _mu_classifier(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> float:
        if label is None:  # there is nothing to classify
            return 0.0
        n_columns = whole.n_continuous + whole.n_discrete
        scratch = whole.form == "random"
        n_features = 1 + (2 * n_columns if scratch else whole.n_classes)
        return classifier_mu(n_rows, whole.n_classes * n_features, mu)

    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        if self.desensitization == "dpsgd":
            return training_share(n_rows, n_columns, mu, self._steps)
        most = TRIPLE_SHARES[-1]
        if self.noise_multiplier is not None or mu == math.inf:
            return most
        for share in TRIPLE_SHARES:
            # With so much less the signal would still be above the noise.
            less = mu * math.sqrt(share) / _CLEAR
            if self._discriminator(n_rows, n_columns, less, "auto"):
                return share
        return most

    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> Training | None:
        return self._discriminator(n_rows, n_columns, mu, self.n_iter)

    def _discriminator(
        self, n_rows: float, n_columns: int, mu: float, n_iter: int | Literal["auto"]
    ) -> Training | None:
        """Allocate the discriminator of one class; None if it does not train."""
        optional = self.init != "random"
        if self.desensitization == "dpsgd":
            return _dpcgan.plan_training(
                n_rows,
                n_columns,
                mu,
                self._steps._replace(n_iter=n_iter),
                tail_delta=self._tail_delta,
                optional=optional,
            )
        return _pategan.plan_training(
            n_rows,
            n_columns,
            mu,
            tail_delta=self._tail_delta,
            noise="gaussian",
            optional=optional,
            n_factors=_AUTO_FACTORS if self.latent_dim == "auto" else self.latent_dim,
            n_labels=self.batch_size,
            n_teacher_steps=self.n_teacher_steps,
            n_teachers=self.n_teachers,
            n_iter=n_iter,
            noise_multiplier=self.noise_multiplier,
        )

    @property
    def _steps(self) -> StepSettings:
        """What the plan of DP-SGD reads."""
        return StepSettings(self.latent_dim, self.n_iter, self.noise_multiplier)
