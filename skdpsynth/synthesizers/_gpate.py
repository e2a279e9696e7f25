"""G-PATE: a generator advised by teachers through private sums of their gradients."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from skdpsynth.measure import GPATE_SHARES, Training
from skdpsynth.models import resolve_device
from skdpsynth.privacy import (
    GRID,
    confident_gnmax,
    gaussian_sum,
    secret_generator,
    telling,
)
from skdpsynth.synthesizers._base import (
    AT_LEAST_ONE,
    AUTO_FACTORS,
    COHERENCE,
    NETWORK_DECAY,
    STEPS_LIMIT,
    TEACHER_BATCH,
    ClassGAN,
    Init,
    at_most_half,
)
from skdpsynth.training import (
    N_GENERATED,
    TeacherEnsemble,
    ballots_of,
    decode_answers,
    projected_votes,
    random_projections,
    teacher_gradients,
)
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from skdpsynth.measure import Allocation, Form, TableModel
    from skdpsynth.models import Features, Trainer
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._initial import InitialModel
    from skdpsynth.table import Metadata, TableRows


_TEST_NOISE = 1500 / 600  # the paper's noise of the threshold test, to an answer's
_VOTE_NOISE = 600 / 2100  # the paper's noise of an answer, per teacher
# More teachers outweigh the noise of a sum, but see fewer rows each.
_MAX_TEACHERS, _ROWS_PER_TEACHER = 4096, 8
# A class that affords fewer leaves its budget to the marginals; more add little.
_MIN_STEPS, _MAX_STEPS = 4, 40
_WEIGHT_DECAY = 0.8  # of weights at a step: logistic teachers learn anew


class GPATESynthesizer(ClassGAN):
    """G-PATE for tables.

    Teacher discriminators see disjoint parts of the private rows. They advise one
    student generator, which never sees a row: only the noisy sum of their gradients
    is released. Each class has its own ensemble. By default the generator is fitted to
    the measurements of `MarginalSynthesizer`, and teachers train it only where
    `n_iter`, `noise_multiplier` or `init` asks for that.

    Parameters
    ----------
    epsilon, delta, target, schema, budget : shared
    aggregator : {"gaussian_sum", "confident_gnmax"}, default="gaussian_sum"
        How teachers' gradients are released: as one clipped noisy sum, or coordinate
        by coordinate by noisy votes as in the paper.
    init : shared
    n_teachers : int or "auto", default="auto"
        Teachers of each class, never more than half its planned rows. "auto": one for
        8 rows of the noisy count, at most 4096.
    n_iter : int or "auto", default="auto"
        Steps of the generator. "auto": none with ``init="measured"``, whose
        measurements then have the whole budget; otherwise as many as keep the signal
        of a step above its noise, up to 40. With ``init="marginals"`` a class whose
        budget allows fewer than 4 takes none and keeps it for its marginals; with
        ``init="random"`` it takes at least one.
    noise_multiplier : float, optional
        Noise of a release over its L2 sensitivity, at most; positive. It fixes the
        number of steps, so it excludes `n_iter`: as many as the budget of a class
        allows, at most a million. They spend all of it, so what is left over after
        whole steps lowers the noise. On votes the discrete noise has a variance higher
        by 4, and of at least 9.
    max_grad_norm : float, default=0.01
        Clipping norm of a teacher's vector; for "confident_gnmax" the bound of each
        projected coordinate. Positive.
    batch_size : int, default=32
        Synthetic rows per step of the generator, at least 1.
    latent_dim : int or "auto", default="auto"
        Directions in a row whose products with its scores are the features of teachers,
        at least 1; of a generator of factors also their number. "auto": 4, or as many
        factors as the second moments show above their noise.
    generator_hidden_dims : tuple of int, default=()
        With ``init="random"``: widths of the hidden layers of the paper's generator, a
        network of `latent_dim` normal numbers. It needs `n_iter`, thousands as a rule,
        and ``aggregator="confident_gnmax"``.
    hidden_dims : shared
    learning_rate : float, default=0.3
        Step of the generator, positive. With ``init="measured"`` and "gaussian_sum",
        steps that are planned with more noise than signal are shorter.
    n_teacher_steps : int, default=2
        Steps of the teachers per step of the generator, at least 1.
    teacher_learning_rate : float, default=0.5
        Step of the teachers, positive.
    projection_dim : int, default=5
        "confident_gnmax": dimensions a gradient is projected to, at least 1.
    n_bins : int, default=10
        "confident_gnmax": bins per coordinate, at least 2.
    threshold : float, default=0.5
        "confident_gnmax": share of the teachers that must agree, in [0, 1].
    device, random_state, verbose : shared

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_, measurements_, generator_, n_teachers_ : shared
    n_iter_ : int
        Steps of the generator: those of the class with most; 0 where none were run.
    n_features_in_, feature_names_in_ : shared

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
    batch is one release). With "confident_gnmax" every one of the m*k threshold tests
    and answers of a step is charged (Lemma 3 counts k of them), the test with
    sensitivity 1 and the answer with ``sqrt(2)``, whether or not it is answered. No
    cost depends on the data. Classes are disjoint and compose in parallel. Noise is
    discrete Gaussian. The measurements
    are those of `MarginalSynthesizer`, with its guarantee: E tables of two columns, and
    as well E of three or of finer cells, have L2 sensitivity ``sqrt(E)`` together.
    They, labels, counts, ranges, decimals and categories come out of the same budget.

    Symbols of the paper: N ``n_iter``, n ``n_teachers``, m ``batch_size``, k
    ``projection_dim``, B ``n_bins``, c ``max_grad_norm``, T ``threshold`` times
    n_teachers, sigma_2 ``noise_multiplier * sqrt(2)``, sigma_1 2.5 times that.

    The generator is a mixture: a latent code, and given the code a distribution over
    the bins of each column. It is fitted to the measured tables, which stay in its loss
    while it trains. With ``init="marginals"`` or ``"random"``, and where second moments
    are measured instead of tables, it is normal factors. Where the paper projects
    gradients by a random matrix, "gaussian_sum" projects them on moves of the
    generator, which are public. Rows without a released label take no part in training.

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

    _most_training_share = GPATE_SHARES["measured"]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "aggregator": [StrOptions({"gaussian_sum", "confident_gnmax"})],
        "projection_dim": AT_LEAST_ONE,
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "threshold": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        target: Hashable = None,
        schema: TableSchema | None = None,
        budget: PrivacyBudget | None = None,
        aggregator: Literal["gaussian_sum", "confident_gnmax"] = "gaussian_sum",
        init: Init = "measured",
        n_teachers: int | Literal["auto"] = "auto",
        n_iter: int | Literal["auto"] = "auto",
        noise_multiplier: float | None = None,
        max_grad_norm: float = 0.01,
        batch_size: int = 32,
        latent_dim: int | Literal["auto"] = "auto",
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.3,
        n_teacher_steps: int = 2,
        teacher_learning_rate: float = 0.5,
        projection_dim: int = 5,
        n_bins: int = 10,
        threshold: float = 0.5,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.budget = budget
        self.aggregator = aggregator
        self.init = init
        self.n_teachers = n_teachers
        self.n_iter = n_iter
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.latent_dim = latent_dim
        self.generator_hidden_dims = generator_hidden_dims
        self.hidden_dims = hidden_dims
        self.learning_rate = learning_rate
        self.n_teacher_steps = n_teacher_steps
        self.teacher_learning_rate = teacher_learning_rate
        self.projection_dim = projection_dim
        self.n_bins = n_bins
        self.threshold = threshold
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        noisy = epsilon < math.inf
        return {
            # Algorithm 2. "gaussian_sum", which tells more at the same budget, is ours.
            "aggregator": "confident_gnmax",
            # Section 6.1, Kaggle Credit: the networks of PATE-GAN, layers of d, d/2 and
            # d for d columns, and one layer of a teacher. Bins are hundreds: widths are
            # fixed.
            "generator_hidden_dims": (256, 256),
            "hidden_dims": (128,),
            "latent_dim": 64,  # not stated; more than there are columns in most tables
            "projection_dim": 5,  # section 6.1, Kaggle Credit
            "n_bins": 10,  # Table 4: the best
            # Appendix A.5 (2019): 2100 for 284,807 rows. With noise as many as there
            # are rows for; without it few, which have more rows to learn from.
            "n_teachers": "auto" if noisy else 10,
            # A.5: 32 and 1e-4. Every row is a query; without noise more cost nothing.
            # Gradients are in units of a bin's deviation here, not of a scaled number.
            "batch_size": 32 if noisy else 256,
            "max_grad_norm": 0.1,
            # A.5: 0.5. Votes on ten bins rarely have a majority, and what is not
            # answered teaches nothing.
            "threshold": 0.0,
            # Algorithm 1: one step; A.5: of Adam, with 1e-3. Here two, without Adam.
            "n_teacher_steps": 2,
            "teacher_learning_rate": 0.1,
            # Not stated. The noise of a vote grows with the root of the steps: at
            # epsilon 1 these have the noise of A.5, 600 votes.
            "n_iter": math.ceil(min(8000, 60 * epsilon)),
            # A.5: 1e-3. Here 5e-4, and 1e-2 with noise, since there are fewer steps.
            "learning_rate": 0.5 if noisy else 0.025,
        }

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        public = torch.Generator().manual_seed(seed)
        scopes = metadata.classes.scopes
        trained = {c: plan.training for c, plan in enumerate(plans) if plan.training}
        sums = self.aggregator == "gaussian_sum"
        # The whole run is reserved before anything is trained.
        reserved = {
            c: (self._reserve_sums if sums else self._reserve_votes)(
                training, scopes[c], accountant
            )
            for c, training in trained.items()
        }
        initial = self._initialise(
            rows, metadata, plans, accountant, n_factors=self._n_factors, seed=seed
        )
        total = sum(plan.n_iter for plan in plans)
        with tqdm(total=total, disable=not self.verbose, desc="G-PATE") as progress:
            self._train(initial, rows, trained, reserved, public, progress)
        self._collect(initial, plans)
        self.n_teachers_ = np.array([plan.n_teachers for plan in plans])
        return initial.model

    def _reserve_sums(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> tuple[Reservation, None]:
        """Reserve a sum of the teachers' vectors per step: sensitivity 2C."""
        sums = accountant.reserve_gaussian(
            "sums of teachers' gradients",
            mu=training.mu_step,
            sensitivity=2 * GRID,
            count=training.n_iter,
            scope=scope,
        )
        return sums, None

    def _reserve_votes(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> tuple[Reservation, Reservation]:
        """Reserve an answer and a test for every query of every step.

        An answer has sensitivity sqrt(2): a vote moves from one bin to another. A test
        has sensitivity 1: the largest count moves by one.
        """
        count, std = training.n_iter * training.n_queries, training.noise_std
        answers = accountant.reserve_gaussian(
            "answers by vote",
            mu=math.sqrt(2) / std if std else math.inf,
            sensitivity=math.sqrt(2),
            count=count,
            scope=scope,
        )
        tests = accountant.reserve_gaussian(
            "threshold tests",
            mu=1.0 / (std * _TEST_NOISE) if std else math.inf,
            sensitivity=1.0,
            count=count,
            scope=scope,
        )
        return answers, tests

    def _train(
        self,
        initial: InitialModel,
        rows: TableRows,
        trained: Mapping[int, Training],
        reserved: Mapping[int, tuple[Reservation, Reservation | None]],
        public: torch.Generator,
        progress: tqdm[Any],
    ) -> None:
        """Train every class for its steps (Algorithm 1)."""
        device, hidden_dims = resolve_device(self.device), tuple(self.hidden_dims)
        generators: dict[int, Trainer] = {}
        ensembles = {}
        for c, training in trained.items():
            generators[c] = initial.trainer(
                c,
                n_factors=self._n_factors,
                n_steps=training.n_iter,
                learning_rate=self.learning_rate,
                generator=public,
                device=device,
            )
            ensembles[c] = TeacherEnsemble(
                initial.encode(rows.of_class(c), c),
                training.n_teachers,
                n_features=generators[c].n_features,
                hidden_dims=hidden_dims,
                learning_rate=self.teacher_learning_rate,
                weight_decay=NETWORK_DECAY if hidden_dims else _WEIGHT_DECAY,
                batch_size=TEACHER_BATCH,
                rng=secret_generator(),
                generator=public,
                device=device,
            )
        n_steps = max((own.n_iter for own in trained.values()), default=0)
        for step in range(n_steps):  # line 1
            for c, teachers in ensembles.items():
                if step >= trained[c].n_iter:
                    continue
                generator = generators[c]
                features = generator.features()
                generated = generator.rows(generator.draw(N_GENERATED))  # lines 2-4
                for _ in range(self.n_teacher_steps):
                    teachers.train_step(generated, features)  # lines 5-8
                update = self._aggregate(
                    teachers, generator, features, trained[c], *reserved[c]
                )  # lines 9-12
                generator.ascend(update)  # line 13
                progress.update()
        for c, generator in generators.items():
            initial.keep(c, generator.result())

    def _aggregate(
        self,
        teachers: TeacherEnsemble,
        generator: Trainer,
        features: Features,
        training: Training,
        reservation: Reservation,
        test_reservation: Reservation | None,
    ) -> torch.Tensor:
        """Release the update of the teachers (Algorithm 2), as a step of unit size."""
        draws = generator.draw(self.batch_size)
        if test_reservation is None:
            vectors = teacher_gradients(teachers, generator, draws, features)
            released = gaussian_sum(vectors, self.max_grad_norm, reservation)
            mean = released / (training.n_teachers * self.max_grad_norm)
            unit = torch.from_numpy(mean * math.sqrt(len(mean)))
            if self.init not in ("marginals", "random"):
                # A step with more noise than signal is shorter: at full length two of
                # them undo second moments (Epileptic seizure, pairs: .16 to .21). What
                # starts without dependence learns from noisy steps too.
                noise = training.noise_std / training.n_teachers * math.sqrt(len(mean))
                unit /= max(noise / COHERENCE, 1.0) ** 2
            return generator.push(draws, features, unit)
        generated = generator.rows(draws)
        n_projected = training.n_queries // self.batch_size
        projections = random_projections(len(generated), n_projected, generator)
        # Gradients and answers are in units of the generator's scale of a column.
        scales = generator.scales
        clip, n_bins = self.max_grad_norm, self.n_bins
        asked = teachers, generated, features, projections * scales, clip, n_bins
        votes = projected_votes(*asked)
        with telling(by_teacher=lambda: torch.cat([*ballots_of(*asked)]).cpu().numpy()):
            answers = confident_gnmax(
                votes,
                self.threshold * training.n_teachers,
                test_reservation,
                reservation,
            )
        directions = decode_answers(answers, projections, self.n_bins) / scales
        return generator.pull_back(draws, directions)

    @property
    def _n_factors(self) -> int:
        return AUTO_FACTORS if self.latent_dim == "auto" else self.latent_dim

    @property
    def _network_needs(self) -> dict[str, bool]:
        votes = self.aggregator == "confident_gnmax"
        return {**super()._network_needs, "aggregator='confident_gnmax'": votes}

    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        return GPATE_SHARES["marginals" if form == "marginals" else "measured"]

    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> Training | None:
        optional, noise_multiplier = form != "random", self.noise_multiplier
        if n_columns < (2 if optional else 1):
            return None
        n_votes = None
        if self.aggregator == "confident_gnmax":
            most = math.inf if len(self.generator_hidden_dims) else n_columns
            n_votes = self.batch_size * int(min(self.projection_dim, most))
        n_iter, n_teachers = self.n_iter, self.n_teachers
        if n_teachers == "auto":
            n_teachers = int(np.clip(n_rows / _ROWS_PER_TEACHER, 1, _MAX_TEACHERS))
        n_teachers = at_most_half(n_teachers, n_rows)
        # Squared mu of a step at noise 1. Sum: sensitivity 2. Votes: every answer has
        # sensitivity sqrt(2), every test 1.
        unit_cost = 4.0
        if n_votes is not None:
            unit_cost = n_votes * (2.0 + _TEST_NOISE**-2)
        if n_iter == "auto" and mu == math.inf:
            n_iter = _MAX_STEPS
        elif n_iter == "auto":
            # The noise wanted in a step: given, the paper's, or that of signal 1.
            if noise_multiplier is not None:
                wanted = noise_multiplier * math.sqrt(
                    unit_cost if n_votes is None else 2.0
                )
            elif n_votes is not None:
                wanted = _VOTE_NOISE * n_teachers
            else:
                # A teacher's vector has so many entries.
                n_parameters = n_columns * (self._n_factors + (0 if optional else 2))
                wanted = COHERENCE * n_teachers / math.sqrt(n_parameters)
            limit = _MAX_STEPS if noise_multiplier is None else STEPS_LIMIT
            n_iter = int(min(mu**2 * wanted**2 / unit_cost, limit))
            if noise_multiplier is None and n_iter < (_MIN_STEPS if optional else 1):
                n_iter = 0 if optional else _MIN_STEPS
        if n_iter == 0:
            return None
        return Training(
            int(n_iter),
            mu_step=mu / math.sqrt(n_iter),
            noise_std=math.sqrt(unit_cost * n_iter) / mu,
            n_queries=n_votes or 1,
            n_teachers=n_teachers,
        )
