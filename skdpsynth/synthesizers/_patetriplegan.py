"""PATE-TripleGAN: generators, discriminators, and a classifier of unlabelled rows."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from skdpsynth.measure import (
    Allocation,
    Outline,
    TableModel,
    Training,
    add_unlabelled,
)
from skdpsynth.privacy import (
    UNLABELLED,
    PrivacyAccountant,
    Reservation,
    secret_generator,
)
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.synthesizers import _dpcgan, _pategan
from skdpsynth.synthesizers._base import (
    TRAINING_SHARE,
    ClassRun,
    Init,
    Widths,
    without_those_of_0_2,
)
from skdpsynth.synthesizers._evidence import fit_evidence
from skdpsynth.synthesizers._initial import InitialModel
from skdpsynth.table import Metadata, TableRows
from skdpsynth.training import (
    N_GENERATED,
    N_KNOWN,
    SAMPLE_ROWS,
    Classifier,
    ClippedSums,
    RealMeans,
    UnlabelledBranch,
    move_means,
    pseudo_label_rows,
    rejected,
    resolve_device,
    train_generator,
)

Encoded = NDArray[np.float32]  # private rows of a class, as its player sees them

CLASSIFIER_STEPS = 4  # from naive Bayes, which is near: each costs budget
_SIGNAL = 0.1  # nominal norm of a mean gradient of the classifier, in clipping norms


def sampling_rate(n_rows: float) -> float:
    """Return the probability of a row to be in a step, by a planned or noisy count."""
    return min(1.0, SAMPLE_ROWS / max(n_rows, 1.0))


class VotePlayer(_pategan.VotePlayer):
    """A student discriminator that learns of labelled rows by noisy votes."""

    alpha = 0.0
    _unlabelled: torch.Tensor | None = None

    def __init__(
        self, settings: PATETripleGANSynthesizer, run: ClassRun, rows: Encoded
    ) -> None:
        super().__init__(settings, run, rows)
        self._sums = ClippedSums(self.student.network, settings.max_grad_norm)
        self.n_parameters = sum(p.numel() for p in self.student.network.parameters())

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        scale, features = self.student.scale, self.generator.features
        return self._sums.of_private(rows, lambda x: scale * features(x), rejected)

    def beside(self, aim: torch.Tensor) -> torch.Tensor:
        """Return the mean features of labelled rows, less unlabelled ones by alpha."""
        if self._unlabelled is None:
            return aim
        # The student's weights are 0, where a gradient is half the features.
        means = self._unlabelled.to(aim) / (0.5 * self.student.scale)
        return (aim - self.alpha * means) / (1.0 - self.alpha)

    def play(self, unlabelled: torch.Tensor | None) -> None:
        """Train teachers, release labels by vote, train both networks."""
        self.add_labels()  # lines 4-5, 10-12
        self._unlabelled = unlabelled
        if unlabelled is not None:
            self.student.add_gradient(self.alpha * unlabelled)  # line 15
        self.learn()  # lines 16-17, 21-23


class StepPlayer:
    """A discriminator that learns of labelled rows by DP-SGD."""

    alpha = 0.0

    def __init__(
        self, settings: PATETripleGANSynthesizer, run: ClassRun, rows: Encoded
    ) -> None:
        self.generator, self._settings = run.generator, settings
        self._discriminator = _dpcgan.make_discriminator(settings, run, rows)
        self._real = RealMeans()
        self.n_parameters = self._discriminator.n_parameters

    def clipped_sum(self, rows: torch.Tensor) -> torch.Tensor:
        """Sum the clipped gradients of unlabelled rows, whose target is "fake"."""
        return self._discriminator.clipped_sum(rows, self.generator.features)

    def play(self, unlabelled: torch.Tensor | None) -> None:
        """Release a step on labelled rows; train the generator, which it follows."""
        features, n_steps = self.generator.features, self._settings._generator_steps
        self._discriminator.release(features)  # lines 10-12
        if unlabelled is not None:
            self._discriminator.add(unlabelled, self.alpha)  # lines 13-15
        if self._settings._scratch:  # lines 16-23
            for _ in range(n_steps):
                train_generator(self.generator, self._discriminator, N_GENERATED)
        else:
            generated = self.generator.rows(self.generator.draw(N_KNOWN))
            self._real.add(*self._discriminator.told(generated, features))
            move_means(self.generator, self._real, n_steps)


Player = VotePlayer | StepPlayer


@without_those_of_0_2
@dataclass(eq=False, repr=False)
class PATETripleGANSynthesizer(_pategan.VotingGAN):
    """PATE-TripleGAN for tables of which some rows have no label.

    Three players: a classifier gives unlabelled rows a label, a discriminator of every
    class tells labelled rows from the generator's and from those, and the generator
    learns from the discriminator alone. Rows whose target is missing are unlabelled.
    The generator starts from the measurements of `MarginalSynthesizer`, of unlabelled
    rows as well, which are a mixture of the classes.

    Parameters
    ----------
    epsilon, delta : shared
    target : column name, optional
        The label column, or a float column, which is a measurement. Without
        labels there is one class and no unlabelled row.
    schema, budget : shared
    desensitization : {"hybrid", "dpsgd"}, default="hybrid"
        How discriminators learn from labelled rows: by noisy votes of teachers on the
        generator's rows, or by DP-SGD. Unlabelled rows come in by DP-SGD always.
    init : shared
    unlabelled_weight : float, default=0.05
        Weight of unlabelled rows among what a discriminator takes for fake, in [0, 1).
    n_teachers : int or "auto", default="auto"
        "hybrid": teachers of each class, never more than half its planned rows. "auto":
        one for 4 rows of the noisy count, at most 2048.
    n_iter : shared
    batch_size : int, default=512
        "hybrid": generated rows that the teachers vote on in a round, at least 1.
    max_grad_norm : float, default=0.5
        Clipping norm of a row's gradient. Positive.
    n_teacher_steps : int, default=4
        "hybrid", with ``init="random"``: steps of the teachers per round, at least 1.
    n_student_steps : int, default=30
        With ``init="random"``: steps of the discriminator per round ("hybrid"), on the
        labels of the last eight, and with noise of the generator, at least 1.
    hidden_dims, device, random_state : shared

    Attributes
    ----------
    epsilon_ : float
        Certified epsilon, at most `epsilon`, of rows with and without a label.
    delta_, schema_, classes_, measurements_, generator_, n_teachers_, n_iter_ : shared
    n_features_in_, feature_names_in_ : shared

    See Also
    --------
    PATEGANSynthesizer : Votes, and no use of unlabelled rows.
    DPCGANSynthesizer : DP-SGD, and no use of unlabelled rows.
    MarginalSynthesizer : The same measurements, without the three players.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row, labelled or not. Labelled rows are charged for the measurements of
    their class, with the guarantee of `MarginalSynthesizer`; for their part in the
    classifier, one clipped noisy sum per step; and for noisy votes of one bit, of which
    a row touches one, charged as one block, or clipped noisy sums ("dpsgd"). No vote is
    on a private row. Where some class has tables of two columns, unlabelled rows are
    charged for their number and, if that is enough, for the same measurements as a
    class; where some class trains, for counts of pseudo-labels and one clipped noisy
    sum per round: the classifier is frozen and its weights are released, and their
    target is the constant "fake", so a row is in a sum as its own term only. A row is
    labelled or it is not, and either kind has the whole budget; a person with rows of
    both kinds is charged twice. All is reserved without regard to whether there are
    unlabelled rows. The noise of gradients is floating-point Gaussian noise from the
    operating system's entropy; all other noise is discrete.

    **What the paper does, and why it is not private.** It shows the discriminator
    unlabelled rows with the teachers' majority on them (``r_c``) and labels by a
    classifier, both without noise. One labelled row can flip every label and every
    term of a sum whose noise covers one: 128 terms move it by up to 256 clipping
    norms. Of each of five runs the best checkpoint is scored. Here r_c is 0, as in
    Triple-GAN ([2]_), the classifier learns by DP-SGD, and every vote is charged.

    Symbols of the paper: S_l rows with and S_d rows without a label, k ``n_teachers``,
    n_g ``batch_size``, n_s ``n_student_steps``, R ``max_grad_norm``, alpha
    ``unlabelled_weight``, mu_0 what (epsilon, delta) allow, rounds until then
    ``n_iter``, r_g the noisy votes, S the discriminator, alpha_p 0.1. The budget and
    these decide sigma_0 and sigma_2. There is no threshold test (T_e, sigma_1).

    The classifier, a softmax regression on what the measured marginals say of a row,
    learns before the other two, on labelled rows (R_c) of classes that train, and on
    rows drawn from the marginals (R_p).

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

    desensitization: Literal["hybrid", "dpsgd"] = "hybrid"
    init: Init = "measured"
    unlabelled_weight: float = 0.05
    n_teachers: int | Literal["auto"] = "auto"
    n_iter: int | Literal["auto"] = "auto"
    batch_size: int = 512
    max_grad_norm: float = 0.5
    n_teacher_steps: int = 4
    n_student_steps: int = 30
    hidden_dims: Widths = ((256, 256), (64,))
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None

    _tables_first = True  # of rows without a label only tables are measured

    @property
    def _block(self) -> Literal["votes"] | None:  # type: ignore[override]
        return "votes" if self.desensitization == "hybrid" else None

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        noisy = epsilon < math.inf
        return {
            "desensitization": "hybrid",  # section 4: votes and clipped gradients
            # Not stated: as PATE-GAN.
            "hidden_dims": ((256, 256), (64,)),
            # Section 5.3.2: 50 to 100. More outweigh the noise, which here covers what
            # the paper does not charge; fewer have more rows to learn from.
            "n_teachers": 300 if noisy else 10,
            "max_grad_norm": 1.0,  # section 5.3: 1 to 5, of the classifier
            "n_teacher_steps": 5,  # section 5.3: n_k
            # Section 5.1: 128. Each is one bit; without noise more cost nothing.
            "batch_size": 64 if noisy else 1024,
            # Section 5.1: 500 to 2000. The noise of a vote grows with its root.
            "n_iter": math.ceil(min(2000, 20 * epsilon)),
            # Section 5.3: n_s is 5 or 10. With few rounds there are more steps in each.
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
        # What labelled rows are charged is reserved before anything is trained.
        reserved = self._reserve_loops(plans, accountant)
        of_classifier = self._reserve_classifier(plans, accountant)
        # Rows without a label are measured with what the loop leaves of their budget.
        share = 1.0 - TRAINING_SHARE if reserved else 1.0
        metadata, self._plans = add_unlabelled(
            rows, metadata, plans, accountant, share=share
        )
        initial = self._initialise(rows, metadata, self._plans, accountant, seed)
        public = torch.Generator().manual_seed(seed)
        make = VotePlayer if self.desensitization == "hybrid" else StepPlayer
        players: dict[int, Player] = {}
        for run in self._runs(initial, plans, reserved, public):
            encoded = initial.encode(rows.of_class(run.position), run.position)
            players[run.position] = make(self, run, encoded)
        n_rounds, branch = max(plan.n_iter for plan in plans), None
        # Without a class there are no pairs. Whether a row lacks a label is private.
        if players and metadata.classes.labels:
            given = rows, plans, accountant, of_classifier
            branch = self._unlabelled(*given, initial, players, public)
            for c, player in players.items():
                player.alpha = branch.weights[c]
        with self._progress(plans) as progress:
            for step in range(n_rounds):  # Algorithm 2, line 3
                playing = {c: p for c, p in players.items() if step < plans[c].n_iter}
                released: dict[int, torch.Tensor] = {}
                if branch is not None:  # lines 7-9, with r_c = 0, and 14-15
                    sums = {c: player.clipped_sum for c, player in playing.items()}
                    released = branch.release(sums)
                for c, player in playing.items():
                    player.play(released.get(c))  # lines 4-5, 10-12, 16-17, 21-23
                    progress.update()
        for c, player in players.items():
            initial.keep(c, player.generator.result())
        return self._collect(initial, plans)

    def _reserve_classifier(
        self, plans: list[Allocation], accountant: PrivacyAccountant
    ) -> list[Reservation | None]:
        """Reserve a clipped sum of each class's rows per step of the classifier."""
        return [
            accountant.reserve_sampled_gaussian(
                "classifier's gradients",
                mu=plan.training.mu_classifier / math.sqrt(CLASSIFIER_STEPS),
                sampling_rate=sampling_rate(plan.n_rows),
                count=CLASSIFIER_STEPS,
                scope=plan.label,
            )
            if plan.training and plan.training.mu_classifier
            else None  # generated rows stand for it
            for plan in plans
        ]

    def _unlabelled(
        self,
        rows: TableRows,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        of_classifier: list[Reservation | None],
        initial: InitialModel,
        players: dict[int, Player],
        public: torch.Generator,
    ) -> UnlabelledBranch:
        """Train the classifier, label the other rows by it, and reserve their sums."""
        evidence, prior = (
            fit_evidence(initial.model),
            initial.model.metadata.classes.prior,
        )
        sizes = [sampling_rate(p.n_rows) * max(p.n_rows, 1.0) for p in plans]
        # Lines 18-20, once: with a frozen C a term of line 14 is of one row.
        classes, drawn = range(len(evidence.odds)), None
        if evidence.informed:
            drawn = [evidence.draw(c, N_GENERATED, public) for c in classes]
        classifier = Classifier(
            evidence.initial_weights,
            [evidence.features(rows.of_class(c)) for c in classes],
            drawn,
            of_classifier,
            sizes,
            rng=secret_generator(),
        )
        for _ in range(CLASSIFIER_STEPS):
            classifier.train_step()
        # Rows without a label are charged, whether or not there are any: first for the
        # numbers of them that have each class as pseudo-label, C(d).
        left = self._left(accountant, UNLABELLED)
        of_counts = accountant.reserve_gaussian(
            "unlabelled rows of each class",
            mu=left * math.sqrt(TRAINING_SHARE / 2),
            sensitivity=1.0,
            scope=UNLABELLED,
            answer=False,
        )
        unlabelled = rows.of_class(-1)
        seen = evidence.features(unlabelled)
        labels = pseudo_label_rows(classifier.weights, seen, prior)
        counts = noisy_counts(labels, len(prior), of_counts)
        # Then for a sum of their gradients per round, with all that is left.
        left = self._left(accountant, UNLABELLED)
        n_rounds = max(plan.n_iter for plan in plans)
        of_gradients = accountant.reserve_sampled_gaussian(
            "unlabelled rows' gradients",
            mu=left / math.sqrt(n_rounds),
            sampling_rate=sampling_rate(float(np.maximum(counts, 0).sum())),
            count=n_rounds,
            scope=UNLABELLED,
        )
        return UnlabelledBranch(
            {c: initial.encode(unlabelled[labels == c], c) for c in players},
            weight=self.unlabelled_weight,
            counts={c: float(counts[c]) for c in players},
            n_parameters={c: player.n_parameters for c, player in players.items()},
            max_grad_norm=self.max_grad_norm,
            reservation=of_gradients,
            rng=secret_generator(),
            device=resolve_device(self.device),
        )

    def _reserve(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        """Reserve what a discriminator learns of labelled rows: votes, or DP-SGD."""
        asked = training, scope, accountant
        if self.desensitization == "hybrid":
            return super()._reserve(*asked)
        return _dpcgan.reserve_steps(*asked, self._tail_delta)

    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        if self.desensitization == "hybrid":
            return super()._plan_training(n_iter, n_rows, mu)
        return _dpcgan.plan_steps(n_iter, n_rows, mu)

    def _mu_classifier(self, table: Outline, n_rows: float, mu: float) -> float:
        """Return what a class spends on the classifier: half of what its loop takes.

        0 where the noise would be above the signal; generated rows then stand for it.
        """
        n_classes = len(table.labels)
        said = 2 * table.n_columns if self._scratch else n_classes
        most = mu * math.sqrt(TRAINING_SHARE / 2)
        noise = math.sqrt(CLASSIFIER_STEPS * n_classes * (1 + said))
        least = noise / (_SIGNAL * max(n_rows, 1.0))
        return most if mu == math.inf or least <= most else 0.0
