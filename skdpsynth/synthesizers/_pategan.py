"""PATE-GAN: a generator against a student that teachers' noisy votes have taught."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch

from skdpsynth.measure import Training
from skdpsynth.privacy import noisy_votes, telling, vote_noise_std
from skdpsynth.synthesizers._base import (
    GENERATOR_STEPS,
    RATE,
    ClassGAN,
    Init,
    Widths,
    progress_of,
    teachers_of,
)
from skdpsynth.training import (
    N_GENERATED,
    RealMeans,
    Student,
    ascend_student,
    make_teachers,
    move_means,
    resolve_device,
    told_by_labels,
)
from skdpsynth.utils import without
from skdpsynth.utils.sklearn_compat import StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from skdpsynth.measure import Allocation, TableModel
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.table import Metadata, TableRows
    from skdpsynth.training import Trainer


# Length of a step of a network; with half of it and no noise the distance of pairs of
# columns of 3,000 linked rows was .71, not .48.
_NETWORK_RATE = 2e-3


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


def plan_votes(
    settings: Any,  # noqa: ANN401
    n_iter: int,
    n_rows: float,
    mu: float,
    noise: Literal["gaussian", "laplace"],
) -> Training:
    """Allocate the votes of one class; `settings` is the synthesizer."""
    count = n_iter * settings.batch_size
    return Training(
        n_iter,
        mu_step=mu / math.sqrt(n_iter),
        noise_std=vote_noise_std(mu, count, noise, settings._tail_delta),
        n_queries=settings.batch_size,
        n_teachers=teachers_of(settings.n_teachers, n_rows),
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
    ) -> None:
        self._settings, self.generator = settings, generator
        self._training, self._reservation = training, reservation
        scratch = settings.init == "random"
        of_student, of_teachers = settings.hidden_dims if scratch else ((), ())
        self._scratch = scratch
        self._n_rows, self._public = n_rows, public
        self.features, self._real = generator.features(), RealMeans()
        self._teachers = make_teachers(
            rows, training.n_teachers, generator, tuple(of_teachers), public, device
        )  # lines 2-3
        # Its layers are as wide as the generator's.
        self.student = Student(
            generator.n_features, tuple(of_student), generator=public, device=device
        )

    def add_labels(self) -> None:
        """Train the teachers, and release labels of generated rows by their votes."""
        generator, features = self.generator, self.features
        pool = generator.rows(generator.draw(N_GENERATED))
        for _ in range(self._settings.n_teacher_steps):
            self._teachers.train_step(pool, features)  # lines 5-9
        draws = generator.draw(self._training.n_queries)
        generated = generator.rows(draws)  # lines 11-14
        opinions = self._teachers.logits(generated, features)
        if self._scratch:  # a teacher calls half of the rows real
            opinions -= opinions.median(dim=1, keepdim=True).values
        ballots = (opinions > 0).cpu().numpy()
        votes = ballots.sum(axis=0, dtype=np.int64)
        n_teachers = self._training.n_teachers
        with telling(by_teacher=lambda: ballots):
            labels = noisy_votes(votes, n_teachers, self._reservation)  # line 15
        told = torch.from_numpy(labels).to(generated.device)
        seen = features(generated)
        if self._scratch:
            self.student.add(seen, told)
            return
        beside = generator, pool, self._n_rows, self._settings.n_teacher_steps
        rehearsed, means = self._teachers.rehearse(*beside, self._public)
        read = told_by_labels(
            told.double(),
            seen.double(),
            n_teachers,
            self._training.noise_std,
            rehearsed.logits(generated, features).double(),
        )
        self._real.add(read, means)

    def learn(self) -> None:
        """Train the student on released labels, and the generator against it.

        A generator that starts from measurements has a linear student, which is solved,
        and moves as far as the labels say.
        """
        n_steps = generator_steps(self._settings)
        if self._scratch:
            self.student.train(self._settings.n_student_steps)  # lines 19-20
            ascend_student(self.generator, self.student, n_steps)  # lines 21-23
        else:
            move_means(self.generator, self._real, n_steps, self.beside)

    def beside(self, aim: torch.Tensor) -> torch.Tensor:
        """Return the mean features of real rows, with what else was released."""
        return aim


def generator_steps(settings: Any) -> int:  # noqa: ANN401
    """Return the steps of the generator per round."""
    if settings.init != "random":
        return GENERATOR_STEPS
    # With noise there are fewer rounds: as many steps in each as the student takes.
    return int(settings.n_student_steps) if settings.epsilon < math.inf else 1


def generator_rate(settings: Any) -> float:  # noqa: ANN401
    """Return the length of a step of the generator."""
    return _NETWORK_RATE if settings.init == "random" else RATE


class PATEGANSynthesizer(ClassGAN):
    """PATE-GAN for tables.

    Teacher discriminators see disjoint parts of the private rows and vote on generated
    rows: real or fake. A student discriminator learns from the noisy majorities, and
    the generator from the student; neither sees a row. Each class has its own teachers,
    and a generator that starts from the measurements of `MarginalSynthesizer`.

    Parameters
    ----------
    epsilon, delta, target, schema, budget : shared
    noise : {"gaussian", "laplace"}, default="gaussian"
        Law of the discrete noise on a number of votes; the paper's is "laplace".
    init : shared
    n_teachers : int or "auto", default="auto"
        Teachers of each class, never more than half its planned rows. "auto": one for
        4 rows of the noisy count, at most 2048.
    n_iter : shared
    batch_size : int, default=512
        Labels released per round and class, at least 1.
    n_teacher_steps : int, default=2
        Steps of the teachers per round, at least 1.
    n_student_steps : int, default=30
        With ``init="random"``, since a linear one is solved: steps of the student
        discriminator per round, and with noise of the generator, at least 1.
    hidden_dims, device, random_state : shared

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
    and compose in parallel. Noise is discrete. Measurements, labels, counts, ranges,
    decimals and categories have the guarantee of `MarginalSynthesizer` and come out of
    the same budget.

    The paper stops when an epsilon computed from the votes is reached, and publishes
    it. That epsilon is a function of the private votes, as is the time of stopping, so
    no theorem covers either; the bound is also used outside its range of validity, and
    its noise parameter is a scale in Equation 4 and an inverse scale in Algorithm 1.
    Here cost never depends on the data. Bounds and class shares, which the paper takes
    from the data, are declared or measured.

    Symbols of the paper: k ``n_teachers``, n ``batch_size``, n_T ``n_teacher_steps``,
    n_S ``n_student_steps``, 1 / lambda (of Algorithm 1) the noise of a vote.

    In the paper a label teaches once; here those of the last eight rounds teach a
    network. The generator is that of `MarginalSynthesizer`. Measured tables stay in its
    loss while it trains. Teachers and student see products of two columns of a row, and
    are linear in them. Teachers of generated rows, which are public, show what votes
    would be if real rows were such rows; the student is the least squares of all labels
    so far that differ from this. The generator moves as far as it says, less the noise
    in it (James, Stein). Rows without a released label take no part in training.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "noise": [StrOptions({"gaussian", "laplace"})],
    }

    @without(
        since="0.3",
        removed_in="0.5",
        noise_multiplier="Set n_iter: the budget then gives the noise.",
        n_generator_steps="It is fixed; leave it out.",
        latent_dim="It is fixed; leave it out.",
        generator_hidden_dims="Set hidden_dims=(generator's widths, teachers' widths).",
        learning_rate="It is fixed; leave it out.",
        student_learning_rate="It is fixed; leave it out.",
        teacher_learning_rate="It is fixed; leave it out.",
        verbose="Long training shows a progress bar; leave it out.",
    )
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
        n_teacher_steps: int = 2,
        n_student_steps: int = 30,
        hidden_dims: Widths = ((256, 256), (64,)),
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
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
        self.n_teacher_steps = n_teacher_steps
        self.n_student_steps = n_student_steps
        self.hidden_dims = hidden_dims
        self.device = device
        self.random_state = random_state

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        noisy = epsilon < math.inf
        return {
            "noise": "laplace",  # Equation 4
            # Appendix: depth 3 of generator and student, layers of d, d/2 and d, and
            # depth 1 of teachers. Bins are hundreds, so widths are fixed.
            "hidden_dims": ((256, 256), (64,)),
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
        }

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        device, public = resolve_device(self.device), torch.Generator()
        public.manual_seed(seed)
        scopes, beside = metadata.classes.scopes, (self.noise, self._tail_delta)
        trained = {c: plan.training for c, plan in enumerate(plans) if plan.training}
        # The whole run is reserved before anything is trained.
        reserved = {
            c: reserve_labels(training, scopes[c], accountant, *beside)
            for c, training in trained.items()
        }
        initial = self._initialise(rows, metadata, plans, accountant, seed)
        with progress_of(plans, "PATE-GAN") as progress:
            for c, training in trained.items():
                generator = initial.trainer(
                    c,
                    n_steps=training.n_iter * generator_steps(self),
                    learning_rate=generator_rate(self),
                    generator=public,
                    device=device,
                )
                encoded = initial.encode(rows.of_class(c), c)
                asked = training, plans[c].n_rows, reserved[c], public, device
                player = VotePlayer(self, encoded, generator, *asked)
                for _ in range(training.n_iter):  # Algorithm 1
                    player.add_labels()
                    player.learn()
                    progress.update()
                initial.keep(c, generator.result())
        self._collect(initial, plans)
        self.n_teachers_ = np.array([plan.n_teachers for plan in plans])
        return initial.model

    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        return plan_votes(self, n_iter, n_rows, mu, self.noise)
