"""G-PATE: a generator advised by teachers through private sums of their gradients."""

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
    GRID,
    PrivacyAccountant,
    Reservation,
    telling,
)
from skdpsynth.privacy.statistics import gaussian_sum, gnmax
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
    LinearTeachers,
    RealMeans,
    TeacherEnsemble,
    ballots_of,
    decode_answers,
    move_means,
    random_projections,
    told_by_sum,
)

_TEACHER_STEPS = 2  # per round


@without_those_of_0_2
@dataclass(eq=False, repr=False)
class GPATESynthesizer(ClassGAN):
    """G-PATE for tables.

    Teacher discriminators see disjoint parts of the private rows. They advise one
    student generator, which never sees a row: only the noisy sum of their gradients is
    released. Each class has its own ensemble, and a generator that starts from the
    measurements of `MarginalSynthesizer`.

    Parameters
    ----------
    epsilon, delta, target, schema, budget, init : shared
    n_teachers, n_iter : shared
    batch_size : int, default=32
        Synthetic rows per step of the generator, at least 1.
    max_grad_norm : float, default=0.1
        Clipping norm of a teacher's vector; with ``init="random"`` the bound of each
        projected coordinate. Positive.
    projection_dim : int, default=5
        With ``init="random"``: dimensions a gradient is projected to, at least 1.
    n_bins : int, default=10
        With ``init="random"``: bins per coordinate, at least 2.
    hidden_dims, device, random_state : shared

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_, measurements_, generator_, n_teachers_ : shared
    n_iter_, n_features_in_, feature_names_in_ : shared

    See Also
    --------
    MarginalSynthesizer : The same measurements, without teachers.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. A row is assigned to one teacher of its class by its own secret
    draw, and can change that teacher's vector from any clipped vector to any other, so
    the sum has L2 sensitivity 2C, whatever the number of synthetic rows or columns
    ([1]_, Algorithm 1 calls its aggregator for every one of these rows; here the whole
    batch is one release). With ``init="random"`` teachers vote, as in the paper, and
    every one of the m*k answers of a step is charged (Lemma 3 counts k of them), each
    with sensitivity ``sqrt(2)``. No cost depends on the data. Classes are disjoint and
    compose in parallel. Noise is discrete Gaussian. Measurements, labels, counts,
    ranges, decimals and categories have the guarantee of `MarginalSynthesizer` and come
    out of the same budget.

    Symbols of the paper: N ``n_iter``, n ``n_teachers``, m ``batch_size``, k
    ``projection_dim``, B ``n_bins``, c ``max_grad_norm``. The budget and
    the number of steps decide sigma_2.

    The generator is that of `MarginalSynthesizer`. Measured tables stay in its loss
    while it trains. Instead of projecting gradients by a random matrix, teachers send
    them by the features of a row, which are few: products of two columns. The generator
    moves as far as all sums so far say that real rows differ from its own. The paper's
    threshold test is left out: votes on ten bins rarely have a majority. Rows without a
    released label take no part in training.

    References
    ----------
    .. [1] Long, Wang, Yang, Kailkhura, Zhang, Gunter, Li (2021). "G-PATE: Scalable
       Differentially Private Data Generator via Private Aggregation of Teacher
       Discriminators". NeurIPS 2021. :arxiv:`1906.09338`

    Examples
    --------
    >>> from skdpsynth import GPATESynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = GPATESynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    init: Init = "measured"
    n_teachers: int | Literal["auto"] = "auto"
    n_iter: int | Literal["auto"] = "auto"
    batch_size: int = 32
    max_grad_norm: float = 0.1
    projection_dim: int = 5
    n_bins: int = 10
    hidden_dims: Widths = ((256, 256), ())
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        noisy = epsilon < math.inf
        return {
            # Section 6.1, Kaggle Credit: the networks of PATE-GAN, layers of d, d/2 and
            # d for d columns, and one layer of a teacher. Bins are hundreds: widths are
            # fixed.
            "hidden_dims": ((256, 256), (128,)),
            "projection_dim": 5,  # section 6.1, Kaggle Credit
            "n_bins": 10,  # Table 4: the best
            # Appendix A.5 (2019): 2100 for 284,807 rows. With noise as many as there
            # are rows for; without it few, which have more rows to learn from.
            "n_teachers": "auto" if noisy else 10,
            # A.5: 32 and 1e-4. Every row is a query; without noise more cost nothing.
            # Gradients are in units of a bin's deviation here, not of a scaled number.
            "batch_size": 32 if noisy else 256,
            "max_grad_norm": 0.1,
            # Not stated. The noise of a vote grows with the root of the steps: at
            # epsilon 1 these have the noise of A.5, 600 votes.
            "n_iter": math.ceil(min(8000, 60 * epsilon)),
        }

    def _train(self, run: ClassRun, rows: NDArray[np.float32]) -> Iterator[None]:
        teachers, real = make_teachers(self, run, rows), RealMeans()
        for _ in range(run.training.n_iter):  # line 1
            if isinstance(teachers, TeacherEnsemble):
                self._votes(run, teachers)
            else:
                self._sum(run, teachers, real)
            yield

    def _reserve(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        """Reserve a sum of the teachers' vectors per step, or all answers by vote.

        A sum has sensitivity 2C. An answer has ``sqrt(2)``: a vote moves from one bin
        to another.
        """
        name, sensitivity = "sums of teachers' gradients", 2.0 * GRID
        if self._scratch:
            name, sensitivity = "answers by vote", math.sqrt(2)
        return accountant.reserve_gaussian(
            name,
            mu=training.mu_step / math.sqrt(training.n_queries),
            sensitivity=sensitivity,
            count=training.n_iter * training.n_queries,
            scope=scope,
            answer=False,
        )

    def _sum(self, run: ClassRun, teachers: LinearTeachers, real: RealMeans) -> None:
        """Release the sum of the teachers' vectors, and move as it says."""
        generator, training, clip = run.generator, run.training, self.max_grad_norm
        means = generator.mean_features(generator.draw(N_KNOWN))  # of fakes: lines 2-4
        teachers.learn(means)  # lines 5-8
        generated = generator.rows(generator.draw(self.batch_size))
        vectors = teachers.mean_gradients(generated)
        released = gaussian_sum(vectors, clip, run.reservation)  # lines 9-13
        # Not in the paper: teachers of generated rows, to compare with.
        beside, of_rows = teachers.rehearse(run.public)
        beside.learn(means)
        told = told_by_sum(
            torch.from_numpy(released / training.n_teachers),
            training.n_teachers,
            training.noise_std * clip / training.n_teachers,
            torch.from_numpy(beside.mean_gradients(generated)).double(),
            clip,
        )
        real.add(told, of_rows)
        move_means(generator, real, self._generator_steps)

    def _votes(self, run: ClassRun, teachers: TeacherEnsemble) -> None:
        """Release votes on projected gradients (Algorithm 2), and step."""
        generator: Any = run.generator  # a network, whose columns have scales
        # Lines 2-4: fakes to learn from; those that are judged are others.
        pool = generator.rows(generator.draw(N_GENERATED))
        for _ in range(_TEACHER_STEPS):
            teachers.train_step(pool, generator.features)  # lines 5-8
        draws = generator.draw(self.batch_size)
        generated = generator.rows(draws)
        n_projected = run.training.n_queries // len(generated)
        projections = random_projections(len(generated), n_projected, generator)
        # Gradients and answers are in units of the generator's scale of a column.
        scales = generator.scales
        clip, n_bins, directed = self.max_grad_norm, self.n_bins, projections * scales
        asked = teachers, generated, generator.features, directed, clip, n_bins
        votes = sum(ballots.sum(dim=0) for ballots in ballots_of(*asked))
        assert isinstance(votes, torch.Tensor)
        with telling(by_teacher=lambda: torch.cat([*ballots_of(*asked)]).cpu().numpy()):
            answers = gnmax(votes.cpu().numpy(), run.reservation)
        directions = decode_answers(answers, projections, n_bins) / scales
        generator.ascend(
            generator.gradient(draws, lambda rows: (rows * directions).sum(dim=1))
        )

    @property
    def _network_rate(self) -> float:  # type: ignore[override]
        # By noisy votes ten times the paper's 1e-3 (A.5), since noise leaves few steps.
        return (10.0 if self.epsilon < math.inf else 1.0) * super()._network_rate

    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        n_votes = self.batch_size * self.projection_dim if self._scratch else 1
        # Squared mu of a step at noise 1: a sum has sensitivity 2, an answer sqrt(2).
        unit_cost = 2.0 * n_votes if self._scratch else 4.0
        return Training(
            n_iter,
            mu_step=mu / math.sqrt(n_iter),
            noise_std=math.sqrt(unit_cost * n_iter) / mu,
            n_queries=n_votes,
            n_teachers=teachers_of(self.n_teachers, n_rows),
        )
