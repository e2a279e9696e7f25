"""DPGAN: a Wasserstein GAN whose critic learns by DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from skdpsynth.synthesizers._base import Init, Widths, without_those_of_0_2
from skdpsynth.synthesizers._dpcgan import AdversarialSynthesizer

if TYPE_CHECKING:
    import numpy as np
    import torch


@without_those_of_0_2
@dataclass(eq=False, repr=False)
class DPGANSynthesizer(AdversarialSynthesizer):
    """DPGAN for tables: the baseline of several papers.

    A Wasserstein GAN with clipped weights, whose critic learns by DP-SGD. Every class
    has a generator and a critic. The generator starts from the measurements of
    `MarginalSynthesizer`.

    Parameters
    ----------
    epsilon, delta, target, schema, budget, init, n_iter, batch_size : shared
    n_discriminator_steps : shared
    max_grad_norm : float, default=1.0
        Clipping norm of a row's gradient, real or fake. Positive.
    weight_clip : float, default=0.1
        With ``init="random"``: weights of the critic are clipped to this size after
        every step. Positive.
    learning_rate, hidden_dims, device, random_state : shared

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
    other noise is discrete Gaussian. Measurements, labels, counts, ranges, decimals and
    categories have the guarantee of `MarginalSynthesizer` and come out of the same
    budget.

    Symbols of the paper ([1]_, Algorithm 1): c_g ``max_grad_norm``, c_p
    ``weight_clip``, m ``batch_size``, n_d ``n_discriminator_steps``, n_g ``n_iter``,
    alpha_d and alpha_g ``learning_rate`` times the class's own. The budget and these
    decide sigma_n.

    The paper derives c_g, the bound on a gradient, from other bounds, and adds noise to
    the mean over real and generated rows together. Here every row's gradient is clipped
    to c_g, and generated rows need no noise.

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

    init: Init = "measured"
    n_iter: int | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"
    n_discriminator_steps: int = 1
    max_grad_norm: float = 1.0
    weight_clip: float = 0.1
    learning_rate: float = 1.0
    hidden_dims: Widths = ((128, 256, 512), (64, 64))
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None

    _loss = "wasserstein"

    # Algorithm 1 of the Wasserstein GAN: RMSProp with 5e-5. Steps of Adam of 1e-3 here.
    _share_of_rate = 0.25

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        del epsilon
        return {
            # Widths of the baseline "DP-GAN" of the G-PATE paper (its Appendix E).
            "hidden_dims": ((128, 256, 512), (64, 64)),
            # m and n_d of Algorithm 1 of the Wasserstein GAN, and of Appendix E.
            "batch_size": 64,
            "n_discriminator_steps": 5,
            "weight_clip": 0.01,  # Algorithm 1 of the Wasserstein GAN: c
            "max_grad_norm": 1.0,  # Algorithm 1: c_g, by c_p; here rows are clipped
            "n_iter": 2000,  # n_g; not stated
        }
