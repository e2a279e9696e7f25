"""DP-CGAN: a conditional GAN whose discriminator learns by DP-SGD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from skdpsynth.synthesizers._adversarial import AdversarialSynthesizer

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    import torch

    from skdpsynth.privacy import PrivacyBudget
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._class_gan import Init


class DPCGANSynthesizer(AdversarialSynthesizer):
    """DP-CGAN for tables.

    A conditional GAN: every class has a generator and a discriminator. The
    discriminator learns by DP-SGD: the gradient of every real row is clipped, and
    their sum is noised. Generators learn from discriminators alone. By default they are
    fitted to the measurements of `MarginalSynthesizer`, and discriminators train them
    only where `n_iter`, `noise_multiplier` or `init` asks for that.

    Parameters
    ----------
    epsilon : float, default=1.0
        Total epsilon of a fit, in (0, inf]. Infinite means without noise.
    delta : float, default=1e-5
        Total delta of a fit, in (0, 1).
    target : column name, optional
        The label column, or a float column, which is a measurement.
    schema : TableSchema, optional
        Public facts about the table; what it leaves out is measured.
    budget : PrivacyBudget, optional
        A budget shared by several fits; it is charged ``(epsilon, delta)``.
    init : {"measured", "marginals", "random"}, default="measured"
        Initial model. "measured": fitted to all that the budget allows to measure, as
        in `MarginalSynthesizer` (marginals of one, two and three columns, or second
        moments). "marginals": fitted to marginals of one column alone. "random":
        untrained, as in the paper; nothing is measured.
    n_iter : int or "auto", default="auto"
        Rounds: `n_discriminator_steps` steps of the discriminator, then
        `n_generator_steps` of the generator. "auto": none with ``init="measured"``,
        whose measurements then have the whole budget; otherwise as many as keep the
        signal of a step above its noise, up to 12. With ``init="marginals"`` a class
        whose budget allows fewer than 3 runs none and keeps it for its marginals.
    noise_multiplier : float, optional
        Noise of a step in clipping norms, positive. It fixes the number of rounds, so
        it excludes `n_iter`.
    max_grad_norm : float, default=0.5
        Clipping norm of a row's gradient, real or fake. Positive.
    batch_size : int or "auto", default="auto"
        Expected rows of a class's Poisson sample, at least 1; classes with fewer rows
        are taken whole. An int is a floor: where the noise of a step would be below 3
        clipping norms, samples are larger instead. "auto": 2**18, without claiming
        that sampling amplifies privacy, so that smaller classes are accounted exactly.
    n_discriminator_steps : int, default=1
        Steps of the discriminator per round, at least 1; each is charged.
    n_generator_steps : int, default=40
        Steps of the generator per round, at least 1; they cost no privacy.
    latent_dim : int or "auto", default="auto"
        Directions in a row whose products with its scores are the features of
        discriminators, at least 1; of a generator of factors also their number. "auto":
        as many as the budget of a class allows, up to 8; of second moments, as many as
        are above their noise.
    generator_hidden_dims : tuple of int, default=()
        With ``init="random"``: widths of the hidden layers of the paper's generator, a
        network of `latent_dim` normal numbers. It needs `n_iter`, thousands as a rule,
        and `hidden_dims`.
    hidden_dims : tuple of int, default=()
        Widths of the discriminator's hidden layers. Without any it is linear.
    learning_rate : float, default=0.03
        Step of the generator (Adam), positive; it falls linearly to 0.
    discriminator_learning_rate : float, default=1.0
        Step of the discriminator (plain descent, or Adam with hidden layers), positive.
    device : str or torch.device, default="auto"
        Where networks are trained; "auto" takes a GPU if there is one.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights, latent draws and `sample`, never noise or the
        samples of real rows: two fits differ.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    epsilon_ : float
        Certified epsilon, at most `epsilon`.
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
    n_iter_ : int
        Rounds: those of the class with most; 0 where none were run.
    n_features_in_ : int
        Number of columns without the target.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where all are strings.

    See Also
    --------
    DPGANSynthesizer : The Wasserstein GAN trained in the same way.
    GANSynthesizer : The same GAN without privacy.
    MarginalSynthesizer : The same measurements, without a discriminator.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. A row enters the discriminator of its class through one term of
    a sum, its own gradient clipped to the norm C, if its own secret draw puts it in
    the sample of a step. So the sum has L2 sensitivity C, and a step is the sampled
    Gaussian mechanism. Synthetic rows are clipped alike, without noise: they depend on
    earlier releases and on public numbers, for their label is the class. The sum is
    divided by a public constant (sampling rate times planned count), and a sample
    without rows is released like any other. Classes are disjoint, have rates of their
    own and compose in parallel. Gradients come from Opacus, and their noise is
    floating-point Gaussian noise from the operating system's entropy; all other noise
    is discrete Gaussian. The measurements
    are those of `MarginalSynthesizer`, with its guarantee: E tables of two columns, and
    as well E of three, have L2 sensitivity ``sqrt(E)`` together. They, labels, counts,
    ranges, decimals and categories come out of the same budget.

    Symbols of the paper ([2]_, Algorithm 1): sigma ``noise_multiplier``, C
    ``max_grad_norm``, B ``batch_size``, m = B (each row is clipped alone), eta
    ``discriminator_learning_rate``, iterations ``n_iter``.

    What the papers do and this class does not, since it is not differentially private
    as accounted there: fakes with the labels of the real batch (``L^t = Y^t``), which
    shows labels without noise; clipping means of several rows (m < B), which doubles
    the sensitivity; shuffled batches of fixed size, accounted as Poisson samples; a
    divisor that is the size of the batch; ranges and class shares taken from the data.

    The generator is a mixture: a latent code, and given the code a distribution over
    the bins of each column. It is fitted to the measured tables, which stay in its loss
    while it trains. With ``init="marginals"`` or ``"random"``, and where second moments
    are measured instead of tables, it is normal factors. The discriminator's features
    are the products of each score of a row with directions in the row. Between two
    releases the gradient of the real rows stays what was released, and that of the
    synthetic rows follows the generator. A class whose budget allows neither tables nor
    training takes the dependence of the largest class that has some, unless it is a
    hundred times rarer.

    References
    ----------
    .. [1] Torkzadehmahani, Kairouz, Paten (2019). "DP-CGAN: Differentially Private
       Synthetic Data and Label Generation". CVPR Workshops. :arxiv:`2001.09700`
    .. [2] Silva Carvalho. "Privacy-Preserving Publication of Sensitive Data using
       Differentially Private GANs". Simon Fraser University.

    Examples
    --------
    >>> from skdpsynth import DPCGANSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = DPCGANSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    _loss = "logistic"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        target: Hashable = None,
        schema: TableSchema | None = None,
        budget: PrivacyBudget | None = None,
        init: Init = "measured",
        n_iter: int | Literal["auto"] = "auto",
        noise_multiplier: float | None = None,
        max_grad_norm: float = 0.5,
        batch_size: int | Literal["auto"] = "auto",
        n_discriminator_steps: int = 1,
        n_generator_steps: int = 40,
        latent_dim: int | Literal["auto"] = "auto",
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.03,
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
        self.init = init
        self.n_iter = n_iter
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.n_discriminator_steps = n_discriminator_steps
        self.n_generator_steps = n_generator_steps
        self.latent_dim = latent_dim
        self.generator_hidden_dims = generator_hidden_dims
        self.hidden_dims = hidden_dims
        self.learning_rate = learning_rate
        self.discriminator_learning_rate = discriminator_learning_rate
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
