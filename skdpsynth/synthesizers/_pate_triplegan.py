"""PATE-TripleGAN: generator, classifier and discriminator; some rows have no label."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from skdpsynth.nn import resolve_device
from skdpsynth.preprocessing import CLASSIFIER_SHARE, TRIPLE_SHARES
from skdpsynth.synthesizers import _dpcgan_plan, _pategan_plan
from skdpsynth.synthesizers._class_gan import ClassGAN, Init
from skdpsynth.synthesizers._pate_triplegan_classifier import (
    Evidence,
    pseudo_labels,
    train_classifier,
)
from skdpsynth.synthesizers._pate_triplegan_plan import (
    CLASSIFIER_STEPS,
    TriplePlan,
    TripleSettings,
    plan_class,
    reserve_classifier,
    reserve_pseudo_labels,
    sampling_rate,
)
from skdpsynth.synthesizers._pate_triplegan_players import make_branch, make_players
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from skdpsynth.nn import UnlabelledBranch
    from skdpsynth.preprocessing import ClassPlan, TableFacts, TableModel, TableRows
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._class_gan import WholeTable
    from skdpsynth.synthesizers._pate_triplegan_players import Player


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
        facts: TableFacts,
        plans: list[ClassPlan],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        device = resolve_device(self.device)
        public = torch.Generator().manual_seed(seed)
        settings, scopes = TripleSettings.of(self), facts.classes.scopes
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
            rows, facts, plans, accountant, n_factors=n_factors, seed=seed
        )
        n_rounds = max(plan.n_iter for plan in triples)
        players = make_players(settings, rows, start, triples, reserved, public, device)
        branch = None
        # Without a class there are no pairs. Whether a row lacks a label is private.
        if players and facts.classes.levels:
            evidence = Evidence(start.model)
            sizes = [sampling_rate(p.n_rows) * max(p.n_rows, 1.0) for p in triples]
            weights = train_classifier(
                evidence, rows, of_classifier, sizes, CLASSIFIER_STEPS, public
            )  # lines 18-20
            unlabelled, prior = rows.of_class(-1), facts.classes.prior
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
                    player.look()
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
            return _pategan_plan.reserve_labels(
                plan, scope, accountant, "gaussian", self._tail_delta
            )
        return _dpcgan_plan.reserve_steps(plan, scope, accountant, self._tail_delta)

    def _plan_class(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> ClassPlan:
        return plan_class(
            label, n_rows, mu, whole, TripleSettings.of(self), self._tail_delta
        )
