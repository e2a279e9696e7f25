"""PATE-GAN: a generator against a student that teachers' noisy votes have taught."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from skdpsynth.measure import PATEGAN_SHARES, Training
from skdpsynth.models import NetworkTrainer, resolve_device
from skdpsynth.privacy import (
    likely_vote_noise_std,
    noisy_votes,
    secret_generator,
    telling,
    vote_noise_std,
    votes_mu,
)
from skdpsynth.synthesizers._base import (
    AT_LEAST_ONE,
    NETWORK_DECAY,
    TEACHER_BATCH,
    ClassGAN,
    Init,
    at_most_half,
    most_that_fits,
)
from skdpsynth.training import (
    N_GENERATED,
    GeneratorAscent,
    LabelBuffer,
    NetworkAscent,
    RecentLabels,
    RowFeatures,
    StudentDiscriminator,
    StudentNetwork,
    TeacherEnsemble,
    View,
    label_slope,
    noise_of_moments,
    view_size,
)
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure import Allocation, Form, TableModel
    from skdpsynth.models import Trainer
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.table import Metadata, TableRows


_TEACHER_DECAY = 0.3  # share of its weights that a teacher forgets at a step
# More teachers outweigh the noise of a vote, but see fewer rows each.
_MAX_TEACHERS, _ROWS_PER_TEACHER = 2048, 4
# Few rounds, since the noise of a vote grows with their root; more without marginals.
_ROUNDS, _ROUNDS_FROM_SCRATCH = 8, 24
_ROUNDS_LIMIT = 10**4  # whose votes can still be accounted for exactly
# A factor that moves this share of the columns must be above the noise.
_SHARED = 0.05


def teacher_rows(n_rows: float, n_teachers: int, n_teacher_steps: int) -> float:
    """Return the real rows that a teacher's opinion is worth, from public numbers.

    Fewer than it has: minibatches hold some twice, and generated rows vary too.
    """
    part = max(n_rows / n_teachers, 1.0)
    remembered = min(n_teacher_steps, (2.0 - _TEACHER_DECAY) / _TEACHER_DECAY)
    return 1.0 / (1.0 / part + 2.0 / (TEACHER_BATCH * remembered))


def plan_training(
    settings: Any,  # noqa: ANN401
    n_rows: float,
    n_columns: int,
    mu: float,
    *,
    noise: Literal["gaussian", "laplace"],
    n_factors: int,
    n_iter: int | Literal["auto"],
) -> Training | None:
    """Allocate the votes of one class; None if it has none.

    `settings` is the synthesizer. Where a class starts from marginals, votes only add
    dependence: they are `optional`.
    """
    n_labels, tail_delta = settings.batch_size, settings._tail_delta
    optional, n_teachers = settings.init != "random", settings.n_teachers
    if n_columns < (2 if optional else 1):
        return None
    if n_teachers == "auto":
        n_teachers = int(np.clip(n_rows / _ROWS_PER_TEACHER, 1, _MAX_TEACHERS))
    n_teachers = at_most_half(n_teachers, n_rows)
    if n_iter != "auto":
        rounds = n_iter
    elif settings.noise_multiplier is not None and mu < math.inf:
        std = settings.noise_multiplier
        rounds = most_that_fits(
            lambda n: (
                n <= _ROUNDS_LIMIT
                and votes_mu(std, n * n_labels, noise, tail_delta) <= mu
            ),
            _ROUNDS_LIMIT,
        )
    else:
        rounds = _ROUNDS if optional else _ROUNDS_FROM_SCRATCH
        blur = noise_of_moments(
            rounds * n_labels,
            view_size(n_columns, n_factors, only_pairs=optional),
            n_columns,
            slope=label_slope(
                n_teachers, likely_vote_noise_std(mu, rounds * n_labels, noise), noise
            )
            * math.sqrt(teacher_rows(n_rows, n_teachers, settings.n_teacher_steps)),
        )
        if optional and mu < math.inf and blur > _SHARED * n_columns:
            rounds = 0
    if rounds == 0:
        return None
    return Training(
        int(rounds),
        mu_step=mu / math.sqrt(rounds),
        noise_std=vote_noise_std(mu, rounds * n_labels, noise, tail_delta),
        n_queries=n_labels,
        n_teachers=n_teachers,
        n_factors=n_factors,
    )


def reserve_labels(
    training: Training,
    scope: Hashable,
    accountant: PrivacyAccountant,
    noise: Literal["gaussian", "laplace"],
    tail_delta: float,
) -> Reservation:
    """Reserve a noisy vote for every label of every round (`noisy_votes`)."""
    return accountant.reserve_votes(
        "labels by vote",
        mu=training.mu_step / math.sqrt(training.n_queries),
        n_teachers=training.n_teachers,
        count=training.n_iter * training.n_queries,
        scope=scope,
        noise=noise,
        tail_delta=tail_delta,
    )


class VotePlayer:
    """A student discriminator that learns of real rows by noisy votes of teachers.

    Only teachers get the private rows; the reservation is of all votes. `n_rows` is the
    planned number of rows, and `settings` is the synthesizer.
    """

    def __init__(
        self,
        settings: Any,  # noqa: ANN401
        rows: NDArray[np.float32],
        generator: Trainer,
        training: Training,
        n_rows: float,
        reservation: Reservation,
        public: torch.Generator,
        device: torch.device,
        *,
        noise: Literal["gaussian", "laplace"] = "gaussian",
    ) -> None:
        self._settings, self._generator = settings, generator
        self._training, self._reservation = training, reservation
        self._network = isinstance(generator, NetworkTrainer)
        self.begin_round()
        self._teachers = TeacherEnsemble(
            rows,
            training.n_teachers,
            n_features=self._view.n_features,
            hidden_dims=tuple(settings.hidden_dims),
            learning_rate=settings.teacher_learning_rate,
            weight_decay=NETWORK_DECAY if self._network else _TEACHER_DECAY,
            batch_size=TEACHER_BATCH,
            rng=secret_generator(),
            generator=public,
            device=device,
        )  # lines 2-3
        # How sharply a label follows what a teacher's rows are worth.
        worth = teacher_rows(n_rows, training.n_teachers, settings.n_teacher_steps)
        slope = label_slope(training.n_teachers, training.noise_std, noise)
        self._slope = slope * math.sqrt(worth)
        self._discriminator: Any
        self._buffer: Any
        self._ascent: Any
        if self._network:
            self._discriminator = self._student_network(public, device)
            self._buffer, self._ascent = RecentLabels(), NetworkAscent(generator)
        else:
            self._discriminator = self._student()
            self._buffer, self._ascent = LabelBuffer(), GeneratorAscent(generator)

    def _student(self) -> StudentDiscriminator:
        return StudentDiscriminator(self._generator)

    def _student_network(
        self, public: torch.Generator, device: torch.device
    ) -> StudentNetwork:
        """Make a network whose layers are as wide as the generator's."""
        widths = tuple(self._settings.generator_hidden_dims)
        return StudentNetwork(self._generator, widths, generator=public, device=device)

    def begin_round(self) -> None:
        """Begin a round: fix what teachers and student see of a row."""
        of = RowFeatures.of if self._network else View.of
        self._view: View | RowFeatures = of(self._generator)

    def add_labels(self) -> None:
        """Train the teachers, and release labels of generated rows by their votes."""
        generator, view = self._generator, self._view
        pool = generator.rows(generator.draw(N_GENERATED))
        for _ in range(self._settings.n_teacher_steps):
            self._teachers.train_step(pool, view.features)  # lines 5-9
        draws = generator.draw(self._training.n_queries)
        generated = generator.rows(draws)  # lines 11-14
        opinions = self._teachers.logits(generated, view.features)
        if self._network:
            opinions -= opinions.median(dim=1, keepdim=True).values
        ballots = (opinions > 0).cpu().numpy()
        votes = ballots.sum(axis=0, dtype=np.int64)
        n_teachers = self._training.n_teachers
        with telling(by_teacher=lambda: ballots):
            labels = noisy_votes(votes, n_teachers, self._reservation)  # line 15
        self._buffer.add(view, generated, torch.from_numpy(labels), pool, self._slope)

    def train_student(self, rate: float) -> None:
        """Train the student on released labels."""
        steps = self._settings.n_student_steps
        self._discriminator.train(self._buffer, steps, rate)  # lines 19-20

    def generate(self) -> None:
        """Train the generator against the student."""
        for _ in range(self._settings.n_generator_steps):
            self._ascent.step(self._discriminator)  # lines 21-23

    def result(self) -> Any:  # noqa: ANN401 - each form has its own
        """Return the trained generator."""
        return self._generator.result() if self._network else self._generator.present()


class PATEGANSynthesizer(ClassGAN):
    """PATE-GAN for tables.

    Teacher discriminators see disjoint parts of the private rows and vote on generated
    rows: real or fake. A student discriminator learns from the noisy majorities, and
    the generator from the student; neither sees a row. Each class has its own teachers.
    By default the generator is fitted to the measurements of `MarginalSynthesizer`, and
    votes train it only where `n_iter`, `noise_multiplier` or `init` asks for that.

    Parameters
    ----------
    epsilon, delta, target, schema, budget : shared
    noise : {"gaussian", "laplace"}, default="gaussian"
        Law of the discrete noise on a number of votes; the paper's is "laplace".
    init : shared
    n_teachers : int or "auto", default="auto"
        Teachers of each class, never more than half its planned rows. "auto": one for
        4 rows of the noisy count, at most 2048.
    n_iter : int or "auto", default="auto"
        Rounds of labels. "auto": none with ``init="measured"``, whose measurements then
        have the whole budget; 8 with "marginals", but none in a class where strong
        dependence would not be above the noise, which keeps its budget for its
        marginals; 24 with "random".
    batch_size : int, default=512
        Labels released per round and class, at least 1.
    noise_multiplier : float, optional
        Noise of a vote, in votes (the sensitivity is 1); positive. It fixes the
        number of rounds, so it excludes `n_iter`.
    n_teacher_steps : int, default=2
        Steps of the teachers per round, at least 1.
    n_student_steps : int, default=30
        Steps of the student discriminator per round, at least 1.
    n_generator_steps : shared
    latent_dim : int, default=4
        Directions in a row whose products with its scores are the features of
        discriminators, at least 1; of a generator of factors also their number.
    generator_hidden_dims, hidden_dims : shared
    learning_rate : float, default=0.05
        Step of the generator, positive.
    student_learning_rate : float, default=1.0
        Step of the student, in (0, 1], as a share of the longest stable one; of a
        network, of a step of Adam of 0.004.
    teacher_learning_rate : float, default=0.05
        Step of the teachers, positive.
    device, random_state, verbose : shared

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_, measurements_, generator_, n_teachers_ : shared
    n_iter_, n_features_in_, feature_names_in_ : shared

    See Also
    --------
    GPATESynthesizer : Teachers tell more than a vote: a sum of gradients.
    MarginalSynthesizer : The same measurements, without votes.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. A row is assigned to one teacher of its class by its own secret
    draw, so it changes every number of votes by at most 1. Every label is a release of
    one bit, ``votes + noise > n_teachers / 2``. Their number is fixed, all are reserved
    before training, and they are charged as one block: by its exact privacy profile
    against the worst questions, whatever the teachers said before. Classes are disjoint
    and compose in parallel. Noise is discrete. The measurements
    are those of `MarginalSynthesizer`, with its guarantee: E tables of two columns, and
    as well E of three or of finer cells, have L2 sensitivity ``sqrt(E)`` together.
    They, labels, counts, ranges, decimals and categories come out of the same budget.

    The paper stops when an epsilon computed from the votes is reached, and publishes
    it. That epsilon is a function of the private votes, as is the time of stopping, so
    no theorem covers either; the bound is also used outside its range of validity, and
    its noise parameter is a scale in Equation 4 and an inverse scale in Algorithm 1.
    Here cost never depends on the data. Bounds and class shares, which the paper takes
    from the data, are declared or measured.

    Symbols of the paper: k ``n_teachers``, n ``batch_size``, n_T ``n_teacher_steps``,
    n_S ``n_student_steps``, 1 / lambda (of Algorithm 1) the noise of a vote.

    In the paper a label teaches once. Here all labels are kept and replayed in every
    round (by a network: those of the last eight). What makes old labels true still is
    the student's form: it compares mean products of columns that it believes of private
    rows with those of the generator at the time of the vote, which are public. The
    generator is a mixture: a latent code, and given the code a distribution over the
    bins of each column, fitted to the measured tables, which stay in its loss. With
    ``init="marginals"`` or ``"random"``, and where second moments are measured instead
    of tables, it is normal factors. Rows without a released label take no part in
    training.

    References
    ----------
    .. [1] Jordon, Yoon, van der Schaar (2019). "PATE-GAN: Generating Synthetic Data
       with Differential Privacy Guarantees". ICLR 2019.
       https://openreview.net/forum?id=S1zk9iRqF7

    Examples
    --------
    >>> from skdpsynth import PATEGANSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = PATEGANSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    _block = "votes"
    latent_dim: int

    _most_training_share = PATEGAN_SHARES["measured"]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "noise": [StrOptions({"gaussian", "laplace"})],
        "latent_dim": AT_LEAST_ONE,
        "student_learning_rate": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        target: Hashable = None,
        schema: TableSchema | None = None,
        budget: PrivacyBudget | None = None,
        noise: Literal["gaussian", "laplace"] = "gaussian",
        init: Init = "measured",
        n_teachers: int | Literal["auto"] = "auto",
        n_iter: int | Literal["auto"] = "auto",
        batch_size: int = 512,
        noise_multiplier: float | None = None,
        n_teacher_steps: int = 2,
        n_student_steps: int = 30,
        n_generator_steps: int = 50,
        latent_dim: int = 4,
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.05,
        student_learning_rate: float = 1.0,
        teacher_learning_rate: float = 0.05,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.budget = budget
        self.noise = noise
        self.init = init
        self.n_teachers = n_teachers
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.noise_multiplier = noise_multiplier
        self.n_teacher_steps = n_teacher_steps
        self.n_student_steps = n_student_steps
        self.n_generator_steps = n_generator_steps
        self.latent_dim = latent_dim
        self.generator_hidden_dims = generator_hidden_dims
        self.hidden_dims = hidden_dims
        self.learning_rate = learning_rate
        self.student_learning_rate = student_learning_rate
        self.teacher_learning_rate = teacher_learning_rate
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        noisy = epsilon < math.inf
        return {
            "noise": "laplace",  # Equation 4
            # Appendix: depth 3 of generator and student, layers of d, d/2 and d, and
            # depth 1 of teachers. Bins are hundreds, so widths are fixed.
            "generator_hidden_dims": (256, 256),
            "hidden_dims": (64,),
            "latent_dim": 64,  # section 4.1: d uniform numbers; here normal ones
            # Section 5.5: N/10 to N/10000, chosen by cross-validation, which is not
            # charged. More outweigh the noise; fewer have more rows to learn from.
            "n_teachers": 300 if noisy else 10,
            "n_teacher_steps": 5,  # appendix: n_T; AUROC on Adult is less with one
            # Appendix: 64 labels. Each is one bit; without noise more cost nothing.
            "batch_size": 64 if noisy else 1024,
            # Until epsilon is spent (Algorithm 1); here a number known in advance. The
            # noise of a vote grows with its root.
            "n_iter": math.ceil(min(4000, 20 * epsilon)),
            # Appendix: n_S = 5; Algorithm 1: one step of the generator. With few rounds
            # there are more steps in each.
            "n_student_steps": 40 if noisy else 8,
            "n_generator_steps": 50 if noisy else 1,
            # Adam with 1e-4 (appendix). Teachers here take plain steps; the generator's
            # are of 2e-3, since they are fewer.
            "teacher_learning_rate": 0.1,
            "learning_rate": 0.1,
        }

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
        # The whole run is reserved before anything is trained.
        beside = self.noise, self._tail_delta
        reserved = {
            c: reserve_labels(training, scopes[c], accountant, *beside)
            for c, training in trained.items()
        }
        initial = self._initialise(
            rows, metadata, plans, accountant, n_factors=self.latent_dim, seed=seed
        )
        total = sum(plan.n_iter for plan in plans)
        with tqdm(total=total, disable=not self.verbose, desc="PATE-GAN") as progress:
            for c, training in trained.items():
                generator = initial.trainer(
                    c,
                    n_factors=self.latent_dim,
                    n_steps=training.n_iter * self.n_generator_steps,
                    learning_rate=self.learning_rate,
                    generator=public,
                    device=device,
                )
                asked = plans[c].n_rows, reserved[c], public, progress
                encoded = initial.encode(rows.of_class(c), c)
                initial.keep(c, self._train(encoded, generator, training, *asked))
        self._collect(initial, plans)
        self.n_teachers_ = np.array([plan.n_teachers for plan in plans])
        return initial.model

    def _train(
        self,
        rows: NDArray[np.float32],
        generator: Trainer,
        training: Training,
        n_rows: float,
        reservation: Reservation,
        public: torch.Generator,
        progress: tqdm[Any],
    ) -> Any:  # noqa: ANN401 - each form has its own
        """Train the generator of one class (Algorithm 1), and return it."""
        asked = training, n_rows, reservation, public, resolve_device(self.device)
        player = VotePlayer(self, rows, generator, *asked, noise=self.noise)
        for _ in range(training.n_iter):
            player.begin_round()
            player.add_labels()
            player.train_student(self.student_learning_rate)
            player.generate()
            progress.update()
        return player.result()

    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        return PATEGAN_SHARES["marginals" if form == "marginals" else "measured"]

    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> Training | None:
        votes: dict[str, Any] = {"noise": self.noise, "n_factors": self.latent_dim}
        return plan_training(self, n_rows, n_columns, mu, **votes, n_iter=self.n_iter)
