"""One class's discriminator and generator, in the two forms of PATE-TripleGAN.

In a round a player looks, says what unlabelled rows mean to it, learns, and moves its
generator. The loop is in `_pate_triplegan.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from skdpsynth.nn import (
    FAKES,
    Adam,
    BranchedDiscriminator,
    BranchedStudentDiscriminator,
    GeneratorAscent,
    LabelBuffer,
    TeacherEnsemble,
    UnlabelledBranch,
    View,
    label_slope,
    train_generator,
)
from skdpsynth.privacy import noisy_votes, secret_generator, telling
from skdpsynth.synthesizers._pate_triplegan_plan import reserve_branch
from skdpsynth.synthesizers._pategan_plan import (
    TEACHER_BATCH,
    TEACHER_DECAY,
    teacher_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from skdpsynth.nn import Trainer
    from skdpsynth.preprocessing import TableRows
    from skdpsynth.privacy import PrivacyAccountant, Reservation
    from skdpsynth.synthesizers._pate_triplegan_plan import TriplePlan, TripleSettings
    from skdpsynth.synthesizers._start import Start

_POOL = 512  # fakes that teachers draw theirs from


class Player(Protocol):
    """What the loop asks of a discriminator and its generator."""

    alpha: float

    @property
    def n_parameters(self) -> int:
        """Length of the discriminator's gradient."""

    def look(self) -> None:
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
        settings: TripleSettings,
        rows: NDArray[np.float32],
        generator: Trainer,
        plan: TriplePlan,
        reservation: Reservation,
        public: torch.Generator,
        device: torch.device,
    ) -> None:
        self._settings, self._generator, self._plan = settings, generator, plan
        self._reservation = reservation
        self.look()
        self._teachers = TeacherEnsemble(
            rows,
            plan.n_teachers,
            n_features=self._view.n_features,
            hidden_dims=tuple(settings.hidden_dims),
            learning_rate=settings.teacher_learning_rate,
            weight_decay=TEACHER_DECAY,
            batch_size=TEACHER_BATCH,
            rng=secret_generator(),
            generator=public,
            device=device,
        )
        # How sharply a label follows what a teacher's rows are worth.
        worth = teacher_rows(plan.n_rows, plan.n_teachers, settings.n_teacher_steps)
        slope = label_slope(plan.n_teachers, plan.step_noise_std, "gaussian")
        self._slope = slope * math.sqrt(worth)
        self._discriminator = BranchedStudentDiscriminator(
            generator.n_columns, device, max_grad_norm=settings.max_grad_norm
        )
        self._ascent = GeneratorAscent(generator)
        self._buffer = LabelBuffer()
        self.alpha = 0.0

    @property
    def n_parameters(self) -> int:
        """Length of the discriminator's gradient."""
        return self._view.n_features

    def look(self) -> None:
        """Begin a round: fix what the discriminator sees of a row."""
        self._view = View.of(self._generator)

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        return self._discriminator.clipped_sum(rows, self._view)

    def learn(self, unlabelled: torch.Tensor | None) -> None:
        """Train teachers, buy labels of generated rows, and train the generator."""
        settings, generator, view = self._settings, self._generator, self._view
        pool = generator.rows(generator.draw(_POOL))
        for _ in range(settings.n_teacher_steps):
            self._teachers.train_step(pool, view.features)  # lines 4-5
        fakes = generator.rows(generator.draw(self._plan.n_queries))  # line 10
        opinions = self._teachers.logits(fakes, view.features)
        ballots = (opinions > 0).cpu().numpy()
        votes = ballots.sum(axis=0, dtype=np.int64)
        with telling(by_teacher=lambda: ballots):
            labels = noisy_votes(
                votes, self._plan.n_teachers, self._reservation
            )  # lines 11-12
        self._buffer.add(view, fakes, torch.from_numpy(labels), pool, self._slope)
        if unlabelled is not None:
            self._discriminator.alpha = self.alpha
            self._discriminator.hear(unlabelled, view, generator.moments())  # line 15
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
        return self._generator.present()


class StepPlayer:
    """A discriminator that learns of labelled rows by DP-SGD."""

    def __init__(
        self,
        settings: TripleSettings,
        rows: NDArray[np.float32],
        generator: Trainer,
        plan: TriplePlan,
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
            expected_batch_size=plan.sampling_rate * max(plan.n_rows, 1.0),
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

    def look(self) -> None:
        """Begin a round: fix what the discriminator sees of a row."""
        self._features = self._generator.features()
        self._discriminator.renew()

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        return self._discriminator.clipped_sum(rows, self._features)

    def learn(self, unlabelled: torch.Tensor | None) -> None:
        """Take one step of DP-SGD on labelled rows, and an exact one on fakes."""
        fakes = self._generator.rows(self._generator.draw(FAKES))  # line 10
        self._discriminator.release(self._features)  # lines 11-12
        if unlabelled is not None:
            self._discriminator.alpha = self.alpha
            self._discriminator.add(unlabelled)  # lines 13-15
        self._discriminator.follow(fakes, self._features)  # lines 16-17

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


def make_players(
    settings: TripleSettings,
    rows: TableRows,
    start: Start,
    plans: list[TriplePlan],
    reserved: Mapping[int, Reservation],
    public: torch.Generator,
    device: torch.device,
) -> dict[int, Player]:
    """Make the players of all classes that train, by position of the class."""
    players: dict[int, Player] = {}
    votes = settings.desensitization == "hybrid"
    for c, reservation in reserved.items():
        generator = start.trainer(
            c,
            n_factors=plans[c].n_factors,
            n_steps=plans[c].n_iter * settings.n_generator_steps,
            learning_rate=settings.learning_rate,
            generator=public,
            device=device,
            dtype=torch.float32 if votes else torch.float64,
        )
        encoded = start.encode(rows.of_class(c), c)
        players[c] = (VotePlayer if votes else StepPlayer)(
            settings, encoded, generator, plans[c], reservation, public, device
        )
    return players


def make_branch(
    settings: TripleSettings,
    pseudo_labelled: Mapping[int, NDArray[np.float32]],
    counts: NDArray[np.int64],
    n_rounds: int,
    players: Mapping[int, Player],
    accountant: PrivacyAccountant,
    device: torch.device,
) -> UnlabelledBranch:
    """Make what shows the discriminators pairs (d, C(d)), and set their alpha.

    `pseudo_labelled` are the private unlabelled rows of each class by their
    pseudo-labels, `counts` their noisy numbers. One release per round, with all that
    unlabelled rows have left.
    """
    n_rows = float(np.maximum(counts, 0).sum())
    branch = UnlabelledBranch(
        dict(pseudo_labelled),
        weight=settings.unlabelled_weight,
        counts={c: float(counts[c]) for c in players},
        n_parameters={c: player.n_parameters for c, player in players.items()},
        max_grad_norm=settings.max_grad_norm,
        reservation=reserve_branch(n_rounds, n_rows, accountant),
        rng=secret_generator(),
        device=device,
    )
    for c, player in players.items():
        player.alpha = branch.weights[c]
    return branch
