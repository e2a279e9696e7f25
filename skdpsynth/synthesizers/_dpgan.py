"""DPGAN: a Wasserstein GAN whose critic learns by DP-SGD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skdpsynth.synthesizers._base import POSITIVE, Init
from skdpsynth.synthesizers._dpcgan import AdversarialSynthesizer

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    import torch

    from skdpsynth.privacy import PrivacyBudget
    from skdpsynth.schema import TableSchema


class DPGANSynthesizer(AdversarialSynthesizer):
    """DPGAN for tables: the baseline of several papers.

    A Wasserstein GAN with clipped weights, whose critic learns by DP-SGD. Every class
    has a generator and a critic. By default the generator is fitted to the measurements
    of `MarginalSynthesizer`, and critics train it only where `n_iter`,
    `noise_multiplier` or `init` asks for that.

    Parameters
    ----------
    epsilon, delta, target, schema, budget, init, n_iter, noise_multiplier : shared
    max_grad_norm : float, default=1.0
        Clipping norm of a row's gradient, real or fake. Positive.
    weight_clip : float, default=0.1
        Weights of the critic are clipped to this size after every step. Positive.
    batch_size, n_discriminator_steps, n_generator_steps, latent_dim : shared
    generator_hidden_dims, hidden_dims : shared
    learning_rate : float, default=0.1
        Step of the generator (Adam), positive; it falls linearly to 0.
    discriminator_learning_rate, device, random_state, verbose : shared

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_, measurements_, generator_, n_iter_ : shared
    n_features_in_, feature_names_in_ : shared

    See Also
    --------
    DPCGANSynthesizer : The conditional GAN trained in the same way.
    MarginalSynthesizer : The same measurements, without a critic.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row, by the argument of `DPCGANSynthesizer`: the sum of the clipped
    gradients of a Poisson sample has L2 sensitivity C, the gradient of the synthetic
    rows is exact, the divisor is public, and classes compose in parallel. The noise of
    gradients is floating-point Gaussian noise from the operating system's entropy; all
    other noise is discrete Gaussian. The measurements
    are those of `MarginalSynthesizer`, with its guarantee: E tables of two columns, and
    as well E of three or of finer cells, have L2 sensitivity ``sqrt(E)`` together.
    They, labels, counts, ranges, decimals and categories come out of the same budget.

    Symbols of the paper ([1]_, Algorithm 1): sigma_n ``noise_multiplier``, c_g
    ``max_grad_norm``, c_p ``weight_clip``, m ``batch_size``, n_d
    ``n_discriminator_steps``, n_g ``n_iter``, alpha_d ``discriminator_learning_rate``,
    alpha_g ``learning_rate``.

    The paper derives c_g, the bound on a gradient, from the clipped weights and from a
    bound on the data and on the derivatives of the network, and adds noise to the mean
    over real and generated rows together. Here every row's gradient is clipped to c_g,
    so that the bound holds whatever the network, and generated rows need no noise.
    Steps of the critic are plain, since RMSProp scales noise up to full steps.

    References
    ----------
    .. [1] Xie, Lin, Wang, Wang, Zhou (2018). "Differentially Private Generative
       Adversarial Network". :arxiv:`1802.06739`

    Examples
    --------
    >>> from skdpsynth import DPGANSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = DPGANSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdversarialSynthesizer._parameter_constraints,
        "weight_clip": POSITIVE,
    }
    _loss = "wasserstein"

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
        max_grad_norm: float = 1.0,
        weight_clip: float = 0.1,
        batch_size: int | Literal["auto"] = "auto",
        n_discriminator_steps: int = 1,
        n_generator_steps: int = 40,
        latent_dim: int | Literal["auto"] = "auto",
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.1,
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
        self.weight_clip = weight_clip
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

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        del epsilon
        return {
            # Widths of the baseline "DP-GAN" of the G-PATE paper (its Appendix E).
            "generator_hidden_dims": (128, 256, 512),
            "hidden_dims": (64, 64),
            "latent_dim": 64,  # not stated
            # m and n_d of Algorithm 1 of the Wasserstein GAN, and of Appendix E.
            "batch_size": 64,
            "n_discriminator_steps": 5,
            "n_generator_steps": 1,
            "weight_clip": 0.01,  # Algorithm 1 of the Wasserstein GAN: c
            "max_grad_norm": 1.0,  # Algorithm 1: c_g, by c_p; here rows are clipped
            "n_iter": 2000,  # n_g; not stated
            # Algorithm 1 of the Wasserstein GAN: RMSProp with 5e-5. Steps of Adam of
            # 1e-3 here.
            "discriminator_learning_rate": 0.25,
            "learning_rate": 0.05,
        }

    @property
    def _weight_bound(self) -> float:  # type: ignore[override]
        return self.weight_clip
