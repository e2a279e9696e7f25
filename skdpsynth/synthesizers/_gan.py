"""A conditional GAN without privacy: the upper bound of the private ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

from skdpsynth.synthesizers._dpcgan import AdversarialSynthesizer

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    import torch

    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._base import Init


class GANSynthesizer(AdversarialSynthesizer):
    """A conditional GAN. It is not private.

    The reference point of `DPCGANSynthesizer`: the same generators and
    discriminators, with more factors, and without clipping or noise.

    Parameters
    ----------
    target, schema : shared
    init : {"measured", "marginals", "random"}, default="measured"
        Initial model. "measured": fitted to the measurements of `MarginalSynthesizer`,
        without noise. "marginals": fitted to marginals of one column alone. "random":
        untrained, as in the paper; only metadata is measured.
    n_iter : int or "auto", default="auto"
        Rounds: `n_discriminator_steps` steps of the discriminator, then
        `n_generator_steps` of the generator. "auto": none with ``init="measured"``,
        otherwise 12.
    batch_size : int or "auto", default="auto"
        Expected rows of a class's sample, at least 1. "auto": 2**18.
    n_discriminator_steps : int, default=1
        Steps of the discriminator per round, at least 1.
    n_generator_steps : int, default=50
        Steps of the generator per round, at least 1.
    latent_dim : int or "auto", default=16
        Directions in a row whose products with its scores are the features of
        discriminators, at least 1; of a generator of factors also their number. "auto":
        8, or half the columns where these are fewer.
    generator_hidden_dims, hidden_dims : shared
    learning_rate : float, default=0.1
        Step of the generator (Adam), positive; it falls linearly to 0.
    discriminator_learning_rate, device : shared
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights, latent draws and `sample`.
    verbose : shared

    Attributes
    ----------
    epsilon_ : float
        Always infinite.
    delta_ : float
        Of no meaning: there is no guarantee.
    schema_, classes_ : shared
    measurements_ : Measurements
        All tables that were counted, without noise. Empty where
        `generator_hidden_dims` trains a network, of which no table is measured.
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

    _loss = "logistic"
    # What the private ones take as parameters.
    epsilon, delta, budget = math.inf, 1e-5, None
    noise_multiplier = None
    max_grad_norm = 1e6

    def __init__(
        self,
        target: Hashable = None,
        schema: TableSchema | None = None,
        init: Init = "measured",
        n_iter: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        n_discriminator_steps: int = 1,
        n_generator_steps: int = 50,
        latent_dim: int | Literal["auto"] = 16,
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.1,
        discriminator_learning_rate: float = 1.0,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.target = target
        self.schema = schema
        self.init = init
        self.n_iter = n_iter
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
        return cls._published(cls.epsilon, parameters)

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        del epsilon
        return {
            # Section 4.1. Generator: 200 units for z and 1000 for y, then 1200.
            # Discriminator: maxout layers of 240 units with 5 pieces for x, 50 with 5
            # for y, and 240 with 4 for both. Narrower here, without maxout and dropout.
            "generator_hidden_dims": (256, 256),
            "hidden_dims": (128, 128),
            "latent_dim": 100,  # section 4.1; uniform there, normal here
            "batch_size": 100,  # section 4.1
            # One and one: k = 1 in Algorithm 1 of Goodfellow et al. (2014).
            "n_discriminator_steps": 1,
            "n_generator_steps": 1,
            # Section 4.1: up to the best likelihood of validation rows; fixed here.
            "n_iter": 4000,
            # Section 4.1: plain descent with momentum; Adam here, as in later GANs.
            "discriminator_learning_rate": 1.0,
            "learning_rate": 0.05,
        }
