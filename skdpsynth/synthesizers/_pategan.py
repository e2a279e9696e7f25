"""PATE-GAN: a generator against a student that teachers' noisy votes have taught."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from skdpsynth.measure import Training
from skdpsynth.privacy import (
    PrivacyAccountant,
    Reservation,
    telling,
    vote_noise_std,
)
from skdpsynth.privacy.statistics import noisy_votes
from skdpsynth.synthesizers._base import (
    ClassGAN,
    ClassRun,
    Init,
    Widths,
    make_teachers,
    teachers_of,
    without_those_of_0_2,
)
from skdpsynth.training import (
    N_GENERATED,
    N_KNOWN,
    RealMeans,
    Student,
    TeacherEnsemble,
    ascend_student,
    move_means,
    told_by_labels,
)


class VotePlayer:
    """A student discriminator that learns of real rows by noisy votes of teachers.

    Only teachers get the private `rows`; the reservation is of all votes.
    """

    def __init__(
        self, settings: VotingGAN, run: ClassRun, rows: NDArray[np.float32]
    ) -> None:
        self._settings, self._run, self.generator = settings, run, run.generator
        self._real = RealMeans()
        self._teachers = make_teachers(settings, run, rows)  # lines 2-3
        # Its layers are as wide as the generator's.
        self.student = Student(
            self.generator.n_features,
            settings._widths[0],
            generator=run.public,
            device=run.device,
        )

    def add_labels(self) -> None:
        """Train the teachers, and release labels of generated rows by their votes."""
        generator, training = self.generator, self._run.training
        teachers = self._teachers
        generated = generator.rows(generator.draw(training.n_queries))  # lines 11-14
        if isinstance(teachers, TeacherEnsemble):
            pool = generator.rows(generator.draw(N_GENERATED))
            for _ in range(self._settings.n_teacher_steps):
                teachers.train_step(pool, generator.features)  # lines 5-9
            opinions = teachers.logits(generated, generator.features)
            # A teacher calls half of the rows real.
            opinions -= opinions.median(dim=1, keepdim=True).values
        else:
            means = generator.mean_features(generator.draw(N_KNOWN))
            teachers.learn(means)  # lines 5-9
            opinions = teachers.logits(generated)
        ballots = (opinions > 0).cpu().numpy()
        votes = ballots.sum(axis=0, dtype=np.int64)
        with telling(by_teacher=lambda: ballots):  # line 15
            labels = noisy_votes(votes, training.n_teachers, self._run.reservation)
        told = torch.from_numpy(labels).to(generated.device)
        seen = generator.features(generated)
        if isinstance(teachers, TeacherEnsemble):
            self.student.add(seen, told)
            return
        beside, of_rows = teachers.rehearse(self._run.public)
        beside.learn(means)
        # A Laplace law is stated by its scale b, and deviates by sqrt(2) b.
        laplace = self._settings.noise == "laplace"
        read = told_by_labels(
            told.double(),
            seen.double(),
            training.n_teachers,
            training.noise_std * (math.sqrt(2.0) if laplace else 1.0),
            beside.logits(generated).double(),
        )
        self._real.add(read, of_rows)

    def learn(self) -> None:
        """Train the student on released labels, and the generator against it.

        A generator that starts from measurements has a linear student, which is solved,
        and moves as far as the labels say.
        """
        n_steps = self._settings._generator_steps
        if self._settings._scratch:
            self.student.train(self._settings.n_student_steps)  # lines 19-20
            ascend_student(self.generator, self.student, n_steps)  # lines 21-23
        else:
            move_means(self.generator, self._real, n_steps, self.beside)

    def beside(self, aim: torch.Tensor) -> torch.Tensor:
        """Return the mean features of real rows, with what else was released."""
        return aim


class VotingGAN(ClassGAN):
    """Base of the synthesizers with students of noisy votes, one bit for each label."""

    # With half of it and no noise the distance of pairs of columns of 3,000 linked rows
    # was .71, not .48.
    _network_rate = 2e-3

    noise: Literal["gaussian", "laplace"] = "gaussian"
    n_teachers: int | Literal["auto"]
    batch_size: int
    n_teacher_steps: int
    n_student_steps: int

    @property
    def _generator_steps(self) -> int:
        # With noise there are fewer rounds: as many steps in each as the student takes.
        many = self._scratch and self.epsilon < math.inf
        return int(self.n_student_steps) if many else super()._generator_steps

    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        count = n_iter * self.batch_size
        return Training(
            n_iter,
            mu_step=mu / math.sqrt(n_iter),
            noise_std=vote_noise_std(mu, count, self.noise, self._tail_delta),
            n_queries=self.batch_size,
            n_teachers=teachers_of(self.n_teachers, n_rows),
        )

    def _reserve(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        """Reserve a noisy vote for every label of every round (`noisy_votes`)."""
        return accountant.reserve_votes(
            "labels by vote",
            mu=training.mu_step / math.sqrt(training.n_queries),
            n_teachers=training.n_teachers,
            count=training.n_iter * training.n_queries,
            scope=scope,
            noise=self.noise,
            tail_delta=self._tail_delta,
        )


@without_those_of_0_2
@dataclass(eq=False, repr=False)
class PATEGANSynthesizer(VotingGAN):
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
    init, n_teachers, n_iter : shared
    batch_size : int, default=512
        Labels released per round and class, at least 1.
    n_teacher_steps : int, default=2
        With ``init="random"``: steps of the teachers per round, at least 1. Linear ones
        take one, by all their rows.
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
    no theorem covers either. Here cost never depends on the data. Bounds and class
    shares, which the paper takes from the data, are declared or measured.

    Symbols of the paper: k ``n_teachers``, n ``batch_size``, n_T ``n_teacher_steps``,
    n_S ``n_student_steps``, 1 / lambda (of Algorithm 1) the noise of a vote.

    In the paper a label teaches once; here those of the last eight rounds teach a
    network. The generator is that of `MarginalSynthesizer`. Measured tables stay in its
    loss while it trains. Teachers and student see products of two columns of a row, and
    are linear in them; the generator moves as far as all labels so far say. Rows
    without a released label take no part in training.

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

    noise: Literal["gaussian", "laplace"] = "gaussian"
    init: Init = "measured"
    n_teachers: int | Literal["auto"] = "auto"
    n_iter: int | Literal["auto"] = "auto"
    batch_size: int = 512
    n_teacher_steps: int = 2
    n_student_steps: int = 30
    hidden_dims: Widths = ((256, 256), (64,))
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None

    _block = "votes"

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

    def _train(self, run: ClassRun, rows: NDArray[np.float32]) -> Iterator[None]:
        player = VotePlayer(self, run, rows)  # lines 2-3
        for _ in range(run.training.n_iter):  # line 4
            player.add_labels()  # lines 5-18
            player.learn()  # lines 19-23
            yield
