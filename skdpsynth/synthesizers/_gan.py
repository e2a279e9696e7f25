"""A conditional GAN without privacy: the upper bound of the private ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from skdpsynth.synthesizers._base import Init, Widths, without_those_of_0_2
from skdpsynth.synthesizers._dpcgan import AdversarialSynthesizer

if TYPE_CHECKING:
    import numpy as np
    import torch


@without_those_of_0_2
@dataclass(eq=False, repr=False)
class GANSynthesizer(AdversarialSynthesizer):
    """A conditional GAN. It is not private.

    The reference point of `DPCGANSynthesizer`: the same generators and
    discriminators, without clipping or noise.

    Parameters
    ----------
    target, schema, init : shared
    n_iter : int or "auto", default="auto"
        Rounds, at least 0. "auto": 10 with ``init="measured"``, and with "random" as
        many as `as_published` has.
    batch_size : int or "auto", default="auto"
        Expected rows of a class's sample, at least 1. "auto": 2**18.
    n_discriminator_steps : int, default=1
        Steps of the discriminator per round, at least 1.
    learning_rate, hidden_dims, device : shared
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights, latent draws and `sample`.

    Attributes
    ----------
    epsilon_ : float
        Always infinite.
    delta_ : float
        Of no meaning: there is no guarantee.
    schema_, classes_ : shared
    measurements_ : Measurements
        All tables that were counted, without noise. Empty with ``init="random"``, where
        no table is measured.
    generator_ : MixtureGenerator or FactorGenerator
        The generators of all classes.
    n_iter_, n_features_in_, feature_names_in_ : shared

    See Also
    --------
    DPCGANSynthesizer : The private one.

    Notes
    -----
    **Privacy guarantee.** None: `epsilon_` is infinite, and the report says so. Do not
    publish what it makes of private rows.

    Labels, ranges, decimals, categories and tables are measured by the code of the
    other synthesizers, at infinite epsilon.

    References
    ----------
    .. [1] Mirza, Osindero (2014). "Conditional Generative Adversarial Nets".
       :arxiv:`1411.1784`

    Examples
    --------
    >>> from skdpsynth import GANSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = GANSynthesizer(target="class", n_iter=3, random_state=0)
    >>> synth.fit(load_thyroid()).epsilon_
    inf
    """

    init: Init = "measured"
    n_iter: int | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"
    n_discriminator_steps: int = 1
    learning_rate: float = 1.0
    hidden_dims: Widths = ((256, 256), (128, 128))
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None

    # What the private ones take as parameters.
    epsilon: float = field(default=math.inf, init=False)
    delta: float = field(default=1e-5, init=False)
    budget: None = field(default=None, init=False)
    max_grad_norm = 1e6

    @classmethod
    def as_published(cls, **parameters: Any) -> Self:  # type: ignore[override]  # noqa: ANN401
        """Return the conditional GAN with networks and values after its paper.

        Each value stands in the code beside its place in the paper; where it differs,
        the reason does.

        Parameters
        ----------
        **parameters : object
            Any other parameters of the constructor, instead of the paper's.

        Returns
        -------
        GANSynthesizer
            Not fitted.
        """
        return cls(**{"init": "random", **cls._paper(math.inf), **parameters})

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        del epsilon
        return {
            # Section 4.1. Generator: 200 units for z and 1000 for y, then 1200.
            # Discriminator: maxout layers of 240 units with 5 pieces for x, 50 with 5
            # for y, and 240 with 4 for both. Narrower here, without maxout and dropout.
            "hidden_dims": ((256, 256), (128, 128)),
            "batch_size": 100,  # section 4.1
            # One: k in Algorithm 1 of Goodfellow et al. (2014).
            "n_discriminator_steps": 1,
            # Section 4.1: up to the best likelihood of validation rows; fixed here.
            "n_iter": 4000,
            # Section 4.1: plain descent with momentum; Adam here, as in later GANs.
            "learning_rate": 1.0,
        }
