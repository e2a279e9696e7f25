"""PATE-TripleGAN: generator, classifier and discriminator; some rows have no label."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import torch
from tqdm.auto import tqdm

from skdpsynth.measure import (
    CLASSIFIER_SHARE,
    PSEUDO_LABELS_SHARE,
    TRIPLE_SHARES,
    ClassPlan,
)
from skdpsynth.models import Adam, resolve_device
from skdpsynth.privacy import (
    UNLABELLED,
    noisy_counts,
    noisy_votes,
    secret_generator,
    telling,
)
from skdpsynth.synthesizers import _dpcgan, _pategan
from skdpsynth.synthesizers._base import ClassGAN, Init
from skdpsynth.synthesizers._dpcgan import StepSettings
from skdpsynth.synthesizers._pategan import TEACHER_BATCH, TEACHER_DECAY, teacher_rows
from skdpsynth.table import MISSING, ZERO, NumericDomain
from skdpsynth.training import (
    N_GENERATED,
    BranchedDiscriminator,
    BranchedStudentDiscriminator,
    Classifier,
    GeneratorAscent,
    LabelBuffer,
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

    from skdpsynth.measure import TableModel
    from skdpsynth.models import Trainer
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._base import Start, WholeTable
    from skdpsynth.table import MarginalTransform, Metadata, PrivateRows, TableRows


_CELLS = 128  # of a numeric column
_BLUR = 0.02  # share of a column's mass that is spread evenly, so that none is 0
_MOST = 3.0  # log odds that one column can give
_CHUNK = 100_000
_GENERATED = 512  # rows of each class that the classifier learns from
_PAIRS_WEIGHT = 0.1  # the paper's alpha_p
_CLIP = 1.0
_LEARNING_RATE = 1.0


class Evidence:
    """Log odds of every class given each column of a row: naive Bayes; all public.

    Where all classes have the same released marginals, they say nothing, and the
    features of a row are its scores and their squares. `features` looks at each row
    alone.
    """

    def __init__(self, model: TableModel) -> None:
        self._model = model
        self._masses = [
            np.stack([_masses(by_class[j]) for by_class in model.marginals])
            for j in range(len(model.metadata.domains))
        ]
        self._tables = []
        for masses in self._masses:
            even = 1.0 / masses.shape[1]
            logs = np.log((1.0 - _BLUR) * masses + _BLUR * even)
            self._tables.append(np.clip(logs - logs.mean(axis=0), -_MOST, _MOST))
        self.informed = any(np.any(table != 0) for table in self._tables)
        self.n_classes = len(model.marginals)
        # Of a row, with a constant at the end.
        said = self.n_classes if self.informed else 2 * len(self._tables)
        self.n_features = said + 1

    @property
    def initial_weights(self) -> NDArray[np.float64]:
        """Weights of the naive Bayes classifier, of shape (n_classes, n_features)."""
        weights = np.zeros((self.n_classes, self.n_features))
        if self.informed:
            weights[:, :-1] = np.sqrt(len(self._tables)) * np.eye(self.n_classes)
        return weights

    def features(self, rows: PrivateRows) -> NDArray[np.float64]:
        """Give the features of rows, about 1 in size whatever the number of columns.

        They are of shape (n_rows, n_features), and private if the rows are.
        """
        features = np.ones((len(rows.class_codes), self.n_features))
        for start in range(0, len(features), _CHUNK):
            part = slice(start, start + _CHUNK)
            units, category_codes = rows.units[part], rows.category_codes[part]
            if self.informed:
                cells = [
                    self._cells(j, units, category_codes) for j in range(units.shape[1])
                ]
                features[part, :-1] = self._summed(cells)
            else:
                scores = self._model.score_rows(units, category_codes, 0)
                scores = scores.astype(np.float64)
                both = np.hstack([scores, scores**2 - 1.0])
                features[part, :-1] = both / np.sqrt(both.shape[1])
        return features

    def draw(
        self, position: int, n_rows: int, generator: torch.Generator
    ) -> NDArray[np.float64]:
        """Give the features of rows drawn from the marginals of a class.

        Only where the classes differ.
        """
        cells = []
        for masses in self._masses:
            ends = np.cumsum(masses[position])
            ranks = torch.rand(n_rows, generator=generator, dtype=torch.float64)
            places = np.searchsorted(ends, ranks.numpy() * ends[-1], side="right")
            cells.append(np.minimum(places, len(ends) - 1))
        return np.hstack([self._summed(cells), np.ones((n_rows, 1))])

    def _summed(self, cells: list[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Add up the log odds of all columns, over the root of their number."""
        total = np.zeros((self.n_classes, len(cells[0])))
        for table, places in zip(self._tables, cells, strict=True):
            total += table[:, places]
        return (total / np.sqrt(len(cells))).T

    def _cells(
        self, j: int, units: NDArray[np.floating], category_codes: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Give the cell of every row in one column."""
        if not isinstance(self._model.metadata.domains[j], NumericDomain):
            return category_codes[:, j].astype(np.int64)
        cells = np.minimum((units[:, j] * _CELLS).astype(np.int64), _CELLS - 1)
        cells = np.where(category_codes[:, j] == ZERO, _CELLS, cells)
        return np.where(category_codes[:, j] == MISSING, _CELLS + 1, cells)


def train_classifier(
    evidence: Evidence,
    rows: TableRows,
    reservations: list[Reservation | None],
    expected_batch_sizes: list[float],
    n_steps: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Train the classifier, and give its weights (n_classes, n_features): public.

    They are those of a softmax regression in which every class weighs the same. Rows of
    no class take no part.
    """
    classes, generated = range(evidence.n_classes), None
    if evidence.informed:
        generated = [evidence.draw(c, _GENERATED, generator) for c in classes]
    classifier = Classifier(
        evidence.initial_weights,
        [evidence.features(rows.of_class(c)) for c in classes],
        generated,
        reservations,
        expected_batch_sizes,
        max_grad_norm=_CLIP,
        learning_rate=_LEARNING_RATE,
        pairs_weight=_PAIRS_WEIGHT,
        rng=secret_generator(),
    )
    for _ in range(n_steps):
        classifier.train_step()
    return classifier.weights


def pseudo_labels(
    evidence: Evidence,
    weights: torch.Tensor,
    prior: NDArray[np.float64],
    unlabelled: PrivateRows,
    reservation: Reservation,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Label rows of no class by the frozen classifier: pairs (d, C(d)).

    Gives the pseudo-label of each row, which is private, and the noisy numbers of the
    rows of each class; only rows of no class pay for those.
    """
    labels = pseudo_label_rows(weights, evidence.features(unlabelled), prior)
    return labels, noisy_counts(labels, len(prior), reservation)


def _masses(column: MarginalTransform) -> NDArray[np.float64]:
    """Give the probability of every cell: numbers, then zero and missing values.

    Of levels: every level, then what is no level, and missing values.
    """
    present = 1.0 - column.missing
    if not isinstance(column.domain, NumericDomain):
        masses = np.zeros(len(column.domain.categories) + 2)
        masses[column.points.astype(np.int64)] = present * np.diff(column.cumulative)
        masses[-1] = column.missing
        return masses
    masses = np.zeros(_CELLS + 2)
    edges = np.linspace(0.0, 1.0, _CELLS + 1)
    masses[:_CELLS] = np.diff(np.interp(edges, column.points, column.cumulative))
    doubled = np.flatnonzero(np.diff(column.points) == 0)
    if len(doubled):  # the jump at an exact zero
        first = doubled[0]
        zero = column.cumulative[first + 1] - column.cumulative[first]
        cell = min(int(column.points[first] * _CELLS), _CELLS - 1)
        masses[cell] = max(masses[cell] - zero, 0.0)
        masses[_CELLS] = zero
    masses[:-1] *= present
    masses[-1] = column.missing
    return masses


CLASSIFIER_STEPS = 4
_CLEAR = 3.0  # the share of training is the least whose signal is so far above noise
_AUTO_FACTORS = 4  # of a generator that learns from votes
_COHERENCE = 0.25  # nominal norm of the mean gradient, in clipping norms
_SAMPLE_ROWS = 2.0**18  # more of them say nothing that noise would hide


@dataclass(frozen=True)
class TripleSettings:
    """The parameters of a `PATETripleGANSynthesizer` that plans and players read."""

    desensitization: Literal["hybrid", "dpsgd"]
    init: Literal["measured", "marginals", "random"]
    unlabelled_weight: float
    n_teachers: int | Literal["auto"]
    n_iter: int | Literal["auto"]
    batch_size: int
    noise_multiplier: float | None
    max_grad_norm: float
    latent_dim: int | Literal["auto"]
    hidden_dims: Sequence[int]
    learning_rate: float
    n_teacher_steps: int
    n_student_steps: int
    n_generator_steps: int
    teacher_learning_rate: float
    discriminator_learning_rate: float

    @classmethod
    def of(cls, synthesizer: object) -> Self:
        """Read them off a synthesizer."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: getattr(synthesizer, name) for name in names})

    @property
    def of_steps(self) -> StepSettings:
        """Those that a plan of DP-SGD reads."""
        return StepSettings(self.latent_dim, self.n_iter, self.noise_multiplier)


@dataclass(frozen=True)
class TriplePlan(ClassPlan):
    """What one class pays for, with its part in the classifier.

    `mu_classifier` is of all steps together; 0 if the class takes no part.
    """

    mu_classifier: float = 0.0
    n_factors: int = 1


def sampling_rate(n_rows: float) -> float:
    """Give the probability of a row to be in a step, from a planned or noisy count."""
    return min(1.0, _SAMPLE_ROWS / max(n_rows, 1.0))


def classifier_mu(n_rows: float, n_weights: int, mu: float) -> float:
    """Say what a class that has `mu` in all pays for the classifier.

    No more than a signal well above the noise of a step takes. 0 where the noise would
    be above the signal; generated rows then stand for the class.
    """
    most = mu * math.sqrt(CLASSIFIER_SHARE)
    if mu == math.inf:
        return most
    least = math.sqrt(CLASSIFIER_STEPS * n_weights) / (_COHERENCE * max(n_rows, 1.0))
    return min(_CLEAR * least, most) if least <= most else 0.0


def plan_class(
    label: Hashable,
    n_rows: float,
    mu: float,
    whole: WholeTable,
    settings: TripleSettings,
    tail_delta: float,
) -> TriplePlan:
    """Plan one class, which can pay `mu` in all, in (0, inf], and tails beside.

    A class whose discriminator does not train has all for its start.
    """
    asked = settings.n_iter != "auto" or settings.noise_multiplier is not None
    if settings.init not in ("marginals", "random") and not asked:
        return TriplePlan(**vars(whole.plan_start(label, n_rows, mu)))
    n_columns, started = whole.n_continuous + whole.n_discrete, whole.form != "random"
    # Without a label there is nothing to classify.
    n_labels = 0 if label is None else whole.n_classes
    n_features = 1 + (n_labels if started else 2 * n_columns)
    spent = classifier_mu(n_rows, n_labels * n_features, mu) if n_labels else 0.0
    left = mu if mu == math.inf else math.sqrt(mu**2 - spent**2)
    share = 1.0
    if started:
        share = _training_share(settings, n_rows, n_columns, left, tail_delta)
    trained = _plan_training(
        settings, n_rows, n_columns, left * math.sqrt(share), tail_delta
    )
    if not trained:
        spent, left, share = 0.0, mu, 0.0
    base = ClassPlan(label, n_rows, 0.0, 0.0, 1)
    if started:
        if mu < math.inf:
            left *= math.sqrt(1.0 - share)
        base = whole.plan_start(label, n_rows, left)
        if trained and settings.n_iter == "auto" and not whole.starts(base):
            spent, trained = 0.0, {}
            base = whole.plan_start(label, n_rows, mu)
    own = {field.name: getattr(base, field.name) for field in fields(base)}
    return TriplePlan(**(own | trained), mu_classifier=spent)


def _training_share(
    settings: TripleSettings,
    n_rows: float,
    n_columns: int,
    mu: float,
    tail_delta: float,
) -> float:
    """Give the share of its squared mu that a class may train with."""
    if settings.desensitization == "dpsgd":
        return _dpcgan.training_share(n_rows, n_columns, mu, settings.of_steps)
    most = TRIPLE_SHARES[-1]
    if settings.noise_multiplier is not None or mu == math.inf:
        return most
    as_it_pays = replace(settings, n_iter="auto")
    for share in TRIPLE_SHARES:
        # With so much less the signal would still be above the noise.
        less = mu * math.sqrt(share) / _CLEAR
        if _plan_training(as_it_pays, n_rows, n_columns, less, tail_delta):
            return share
    return most


def _plan_training(
    settings: TripleSettings,
    n_rows: float,
    n_columns: int,
    mu: float,
    tail_delta: float,
) -> dict[str, Any]:
    """Plan the discriminator of one class; empty if it does not train."""
    optional, wanted = settings.init != "random", settings.latent_dim
    if settings.desensitization == "dpsgd":
        n_factors = _dpcgan.n_factors(n_rows, n_columns, mu, wanted)
        trained = _dpcgan.plan_training(
            n_rows,
            n_columns,
            mu,
            settings.of_steps,
            tail_delta=tail_delta,
            optional=optional,
        )
    else:
        n_factors = _AUTO_FACTORS if wanted == "auto" else wanted
        trained = _pategan.plan_training(
            n_rows,
            n_columns,
            mu,
            tail_delta=tail_delta,
            noise="gaussian",
            optional=optional,
            n_factors=n_factors,
            n_labels=settings.batch_size,
            n_teacher_steps=settings.n_teacher_steps,
            n_teachers=settings.n_teachers,
            n_iter=settings.n_iter,
            noise_multiplier=settings.noise_multiplier,
        )
    return trained and trained | {"n_factors": n_factors}


def reserve_classifier(
    plan: TriplePlan, scope: Hashable, accountant: PrivacyAccountant
) -> Reservation | None:
    """Set aside one noisy sum of a class's rows per step; None if it takes no part.

    Sensitivity: the clipping norm.
    """
    if plan.mu_classifier == 0:
        return None
    return accountant.reserve_sampled_gaussian(
        "classifier's gradients",
        mu=plan.mu_classifier / math.sqrt(CLASSIFIER_STEPS),
        sampling_rate=sampling_rate(plan.n_rows),
        count=CLASSIFIER_STEPS,
        scope=scope,
    )


def reserve_pseudo_labels(accountant: PrivacyAccountant) -> Reservation:
    """Set aside the numbers of unlabelled rows with each class as pseudo-label.

    Unlabelled rows pay, whether or not there are any.
    """
    left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
    return accountant.reserve_gaussian(
        "unlabelled rows of each class",
        mu=left * math.sqrt(PSEUDO_LABELS_SHARE),
        sensitivity=1.0,
        scope=UNLABELLED,
    )


def reserve_branch(
    n_rounds: int, n_rows: float, accountant: PrivacyAccountant
) -> Reservation:
    """Set aside a noisy sum per round, with all that unlabelled rows have left."""
    left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
    return accountant.reserve_sampled_gaussian(
        "unlabelled rows' gradients",
        mu=left / math.sqrt(n_rounds),
        sampling_rate=sampling_rate(n_rows),
        count=n_rounds,
        scope=UNLABELLED,
    )


_POOL = 512  # fakes that teachers draw theirs from


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
        self.begin_round()
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

    def begin_round(self) -> None:
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
        generated = generator.rows(generator.draw(self._plan.n_queries))  # line 10
        opinions = self._teachers.logits(generated, view.features)
        ballots = (opinions > 0).cpu().numpy()
        votes = ballots.sum(axis=0, dtype=np.int64)
        with telling(by_teacher=lambda: ballots):
            labels = noisy_votes(
                votes, self._plan.n_teachers, self._reservation
            )  # lines 11-12
        self._buffer.add(view, generated, torch.from_numpy(labels), pool, self._slope)
        if unlabelled is not None:
            self._discriminator.alpha = self.alpha
            self._discriminator.add_unlabelled(
                unlabelled, view, generator.moments()
            )  # line 15
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

    def begin_round(self) -> None:
        """Begin a round: fix what the discriminator sees of a row."""
        self._features = self._generator.features()
        self._discriminator.renew()

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        return self._discriminator.clipped_sum(rows, self._features)

    def learn(self, unlabelled: torch.Tensor | None) -> None:
        """Take one step of DP-SGD on labelled rows, and an exact one on fakes."""
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


class PATETripleGANSynthesizer(ClassGAN):
    """PATE-TripleGAN for tables of which some rows have no label.

    Three players: a classifier gives unlabelled rows a label, a discriminator of every
    class tells labelled rows from the generator's and from those, and the generator
    learns from the discriminator alone. Rows whose target is missing are unlabelled.
    By default the generator is fitted to the measurements of `MarginalSynthesizer`, and
    the players train it only where `n_iter`, `noise_multiplier` or `init` asks for
    that.

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
        Public facts about the table; what it leaves out is measured.
    budget : PrivacyBudget, optional
        A budget shared by several fits; it is charged ``(epsilon, delta)``.
    desensitization : {"hybrid", "dpsgd"}, default="hybrid"
        How discriminators learn from labelled rows: by noisy votes of teachers on the
        generator's rows, or by DP-SGD. Unlabelled rows come in by DP-SGD always.
    init : {"measured", "marginals", "random"}, default="measured"
        Initial model. "measured": fitted to all that the budget allows to measure, as
        in `MarginalSynthesizer` (marginals of one, two and three columns, or second
        moments). "marginals": fitted to marginals of one column alone. "random":
        untrained, as in the paper; nothing is measured.
    unlabelled_weight : float, default=0.05
        Weight of unlabelled rows among a discriminator's fakes, in [0, 1).
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
        "hybrid": steps of the discriminator on all labels so far per round, at least 1.
    n_generator_steps : int, default=50
        Steps of the generator per round, at least 1.
    teacher_learning_rate : float, default=0.05
        "hybrid": step of the teachers, positive.
    discriminator_learning_rate : float, default=1.0
        Step of the discriminator, positive; at most 1 for "hybrid".
    device : str or torch.device, default="auto"
        Where networks are trained; "auto" takes a GPU if there is one.
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
        The declared and the measured facts.
    classes_ : ndarray of shape (n_classes,)
        The labels; only with a target that has classes.
    measurements_ : Measurements
        All noisy tables that were released; public. Not set where
        `generator_hidden_dims` trains a network, which measures none.
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
    and as well E of three, have L2 sensitivity ``sqrt(E)`` together); for their part in
    the classifier, one clipped noisy sum per step; and for noisy votes of one bit,
    of which a row touches one, charged as one block, or clipped noisy sums ("dpsgd").
    No vote is on a private row. Unlabelled rows are charged for a count and one clipped
    noisy sum per round: the classifier is frozen and its weights are released, and
    their target is the constant "fake", so a row is in a sum as its own term only. A
    row is labelled or it is not, and either kind has the whole budget; a person with
    rows of both kinds is charged twice. All is reserved without regard to whether there
    are unlabelled rows. The noise of gradients is floating-point Gaussian noise from
    the operating system's entropy; all other noise is discrete.

    **What the paper does, and why it is not private.** It shows the discriminator
    unlabelled rows with the teachers' majority on them (``r_c``) and labels by a
    classifier, both without noise. One labelled row can flip every label and every
    term of a sum whose noise covers one: 128 terms move it by up to 256 clipping
    norms. The threshold test of votes is not charged, and the best of several runs
    is picked by its scores. Here r_c is 0, as in Triple-GAN ([2]_), the classifier
    learns by DP-SGD, and votes are on generated rows and charged each.

    Symbols of the paper: S_l rows with and S_d rows without a label, k ``n_teachers``,
    n_g ``batch_size``, n_s ``n_student_steps``, R ``max_grad_norm``, sigma_0 and
    sigma_2 ``noise_multiplier``, alpha ``unlabelled_weight``, mu_0 what (epsilon,
    delta) allow, rounds until then ``n_iter``, r_g the noisy votes, S the
    discriminator, alpha_p 0.1. The threshold test (T_e, sigma_1) is left out: of two
    answers one always leads, and asking costs as much.

    The classifier is a softmax regression on the log odds of each class that the
    measured marginals give a row. It starts as naive Bayes and learns before the other
    two, on labelled rows (R_c) of classes that train, each at its own cost and noise,
    and on rows drawn from the marginals (R_p). Where few unlabelled rows have a class
    as pseudo-label, they weigh less.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "desensitization": [StrOptions({"hybrid", "dpsgd"})],
        "unlabelled_weight": [Interval(Real, 0, 1, closed="left")],
    }

    @property
    def _network_needs(self) -> dict[str, bool]:
        seen = self.desensitization == "hybrid" or len(self.hidden_dims) > 0
        return {**super()._network_needs, "hidden_dims": seen}

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

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[ClassPlan],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        device = resolve_device(self.device)
        public = torch.Generator().manual_seed(seed)
        settings, scopes = TripleSettings.of(self), metadata.classes.scopes
        triples = [plan for plan in plans if isinstance(plan, TriplePlan)]
        # What labelled rows pay is reserved before anything is trained.
        reserved = {
            c: self._reserve(plan, scopes[c], accountant)
            for c, plan in enumerate(triples)
            if plan.n_iter
        }
        of_classifier = [
            reserve_classifier(plan, scope, accountant)
            for plan, scope in zip(triples, scopes, strict=True)
        ]
        n_factors = max(plan.n_factors for plan in triples)
        start = self._initial(
            rows, metadata, plans, accountant, n_factors=n_factors, seed=seed
        )
        n_rounds = max(plan.n_iter for plan in triples)
        players = make_players(settings, rows, start, triples, reserved, public, device)
        branch = None
        # Without a class there are no pairs. Whether a row lacks a label is private.
        if players and metadata.classes.labels:
            evidence = Evidence(start.model)
            sizes = [sampling_rate(p.n_rows) * max(p.n_rows, 1.0) for p in triples]
            weights = train_classifier(
                evidence, rows, of_classifier, sizes, CLASSIFIER_STEPS, public
            )  # lines 18-20
            unlabelled, prior = rows.of_class(-1), metadata.classes.prior
            labels, counts = pseudo_labels(
                evidence, weights, prior, unlabelled, reserve_pseudo_labels(accountant)
            )
            pseudo_labelled = {
                c: start.encode(unlabelled[labels == c], c) for c in players
            }
            branch = make_branch(
                settings, pseudo_labelled, counts, n_rounds, players, accountant, device
            )
        self._play(players, branch, triples)
        for c, player in players.items():
            start.keep(c, player.result())
        self._collect(start, plans)
        self.n_teachers_ = np.array([plan.n_teachers for plan in triples])
        return start.model

    def _play(
        self,
        players: Mapping[int, Player],
        branch: UnlabelledBranch | None,
        plans: list[TriplePlan],
    ) -> None:
        """Train discriminators and generators (Algorithm 2)."""
        n_rounds = max(plan.n_iter for plan in plans)
        with tqdm(
            total=n_rounds, disable=not self.verbose, desc="PATE-TripleGAN"
        ) as progress:
            for step in range(n_rounds):  # line 6
                playing = {c: p for c, p in players.items() if step < plans[c].n_iter}
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
        self, plan: TriplePlan, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        if self.desensitization == "hybrid":
            return _pategan.reserve_labels(
                plan, scope, accountant, "gaussian", self._tail_delta
            )
        return _dpcgan.reserve_steps(plan, scope, accountant, self._tail_delta)

    def _plan_class(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> ClassPlan:
        return plan_class(
            label, n_rows, mu, whole, TripleSettings.of(self), self._tail_delta
        )
