"""The discriminator of one class: DP-SGD on its rows, exact on generated ones."""

from __future__ import annotations

import copy
import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from skdpsynth.models import Adam, Products
from skdpsynth.privacy import HoldsPrivateRows, of_rows
from skdpsynth.training._clipping import clipped_layer_sums, padded, poisson_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.models import Features, Trainer
    from skdpsynth.privacy import Reservation


N_GENERATED = 512  # public rows of a step, or that minibatches are drawn from
_CHUNK_ENTRIES = 2**22  # of the per-example gradients of a chunk; bounds the memory
_MAX_CHUNK = 4096  # rows of a chunk, for the same reason
# Steps of Adam of networks: 40 times the papers' 1e-4, since they are fewer. They
# forget, and have less momentum (as in DCGAN), else two networks chase each other.
HIDDEN_RATE, MOMENTUM = 4e-3, 0.5
FORGOTTEN = 1e-3  # of weights, at a learning rate of 1
# Weight of the penalty on slopes at generated rows (Mescheder, Geiger, Nowozin 2018),
# for the same reason; and the most of it times the square of the largest feature, such
# as the bin of a column: in wide tables one column changes a row little.
_PENALTY, _WIDE_PENALTY = 0.1, 3.0
# Features, of more of which the first layer begins weaker: the steps of many features
# add up, and the generator would follow the layer's random slopes instead.
_WIDE = 600


class Discriminator(HoldsPrivateRows):
    """Distinguishes real rows of one class from generated ones, by DP-SGD.

    `rows` are private, float32 of shape (n_rows, n_columns), maybe none. The
    reservation covers one noisy sum per step, and `expected_batch_size` is its public
    divisor. `rng` is secret and draws the Poisson samples; `generator` is public and
    draws the initial weights. A loss is the cross-entropy of "real", or the difference
    of mean scores.

    *Privacy.* Between two releases the parameters are functions of released sums and
    public numbers. A row enters a sum as its own term alone: there is no normalisation
    over a batch, and rows pass in chunks of a fixed shape, filled up with rows of
    weight 0. What its place in a chunk does to a row's term is rounding in double
    precision, through smooth functions; `clipped_sums` leaves room for it.

    Features are divided by the root of their number, so that the gradient of a row has
    a norm about 1 whatever the number of columns. Of a linear discriminator Opacus
    computes a gradient per row; with hidden layers `clipped_layer_sums` gives the sum
    of the clipped ones at once. Noise and divisor are those of `ReservedOptimizer`.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        *,
        n_features: int,
        hidden_dims: Sequence[int],
        loss: Literal["logistic", "wasserstein"],
        learning_rate: float,
        weight_bound: float,
        max_grad_norm: float,
        expected_batch_size: float,
        reservation: Reservation,
        rng: np.random.Generator,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        # Opacus takes a second to import, and other algorithms do not need it.
        from opacus.grad_sample import GradSampleModule

        from skdpsynth.training._dp_sgd import ReservedOptimizer

        self._rows = torch.from_numpy(rows).to(device)  # turned to double by chunks
        self._scale = n_features**-0.5
        self._loss = loss
        self._bound = weight_bound
        self._clip = max_grad_norm
        self._rate = reservation.sampling_rate
        self._noise = reservation.noise_std * max_grad_norm / expected_batch_size
        self._rng, self._device = rng, device
        network = make_network(n_features, hidden_dims, generator).to(device)
        if hidden_dims:
            with torch.no_grad():
                next(network.parameters()).mul_(min(1.0, _WIDE / n_features))
        self._layers = [part for part in network if isinstance(part, nn.Linear)]
        self._network = GradSampleModule(network, loss_reduction="sum")
        self._params = list(self._network.parameters())
        self._learning_rate = learning_rate * (HIDDEN_RATE if hidden_dims else 1.0)
        self._optimizer = ReservedOptimizer(
            torch.optim.SGD(
                self._params,
                lr=self._learning_rate,
                weight_decay=FORGOTTEN / HIDDEN_RATE if hidden_dims else 0.0,
            ),
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected_batch_size,
            reservation=reservation,
        )
        self._directions = self._followed = [
            Adam(momentum=MOMENTUM) for _ in self._params
        ]
        most = _MAX_CHUNK
        if not hidden_dims:  # which has a gradient per row in memory
            n_weights = sum(p.numel() for p in self._params)
            most = min(most, _CHUNK_ENTRIES // (n_weights + n_features))
        # Most samples in one chunk, by what is public of their size.
        self._chunk = max(1, min(most, math.ceil(1.5 * expected_batch_size) + 16))
        self._start = self._released = [p.detach().clone() for p in self._params]

    def release(self, features: Features) -> None:
        """Release the noisy gradient of a sample of real rows: one step of DP-SGD."""
        self._start = [p.detach().clone() for p in self._params]
        # A stream per step: where one ends is a function of the number of rows.
        (rng,) = self._rng.spawn(1)
        own = of_rows(rng, self._rows)
        drawn = poisson_sample(len(self._rows), self._rate, own)
        chosen = self._rows[torch.from_numpy(drawn).to(self._device)]
        for start in range(0, len(chosen), self._chunk):
            chunk = chosen[start : start + self._chunk]
            if len(self._layers) > 1:
                self._optimizer.add(self._private_sums(chunk, features, real=True))
            else:
                self._backward(chunk, features, real=True)
                self._optimizer.accumulate()
        self._optimizer.release()
        self._directions = self._followed
        self._released = [p.grad.clone() for p in self._params]

    def renew(self) -> None:
        """Begin a round: a linear one, whose features have turned, learns anew."""
        if len(self._layers) == 1:
            nn.init.zeros_(self._params[0])

    def slow_down(self, share: float) -> None:
        """Take steps of a share of the learning rate from now on."""
        (group,) = self._optimizer.original_optimizer.param_groups
        group["lr"] = share * self._learning_rate

    def follow(self, generated: Tensor, features: Features) -> None:
        """Step from before the last release, with it and the gradient of public rows.

        It is post-processing, and may be taken again when these rows have changed.
        """
        with torch.no_grad():
            for p, start in zip(self._params, self._start, strict=True):
                p.copy_(start)
        sums = self._sums_of_generated(generated, features)
        for p, released, total in zip(self._params, self._released, sums, strict=True):
            p.grad = released + (total / len(generated)).to(p)
        if len(self._layers) == 1:
            self._discount_noise()
        else:
            if self._loss == "logistic":
                self._add_penalty(features(generated) * self._scale)
            self._followed = copy.deepcopy(self._directions)
            for p, direction in zip(self._params, self._followed, strict=True):
                p.grad = direction(p.grad)
        self._optimizer.original_optimizer.step()
        if self._bound < math.inf:
            with torch.no_grad():
                for p in self._params:
                    p.clamp_(-self._bound, self._bound)

    def _add_penalty(self, values: Tensor) -> None:
        """Add the penalty on slopes at generated rows, which are public."""
        parts = penalty_gradients(self._layers, values)
        weight = min(_PENALTY, _WIDE_PENALTY * float(values.square().max()))
        for p, part in zip(self._params, parts, strict=True):
            p.grad = p.grad + weight * part.to(p)

    def _sums_of_generated(self, generated: Tensor, features: Features) -> list[Tensor]:
        """Sum the clipped gradients of public rows, by matrix products."""
        if len(self._params) == 1 and isinstance(features, Products):
            slopes = generated.new_full((len(generated),), self._scale)
            if self._loss == "logistic":  # of log(1 + exp(score))
                slopes = slopes * torch.sigmoid(self.logits(generated, features))
            norms = slopes * features.norms(generated)
            weights = slopes * (self._clip / norms.clamp_min(self._clip))
            return [features.weighted_sum(generated, weights).unsqueeze(0)]
        values = features(generated) * self._scale
        return self._layer_sums(values, None, real=False)

    def _private_sums(
        self, rows: Tensor, features: Features, *, real: bool
    ) -> list[Tensor]:
        """Sum the clipped gradients of a chunk of private rows, in a fixed shape."""
        chunk, inside = padded(rows, self._chunk)
        with torch.no_grad():
            values = features(chunk) * self._scale
        return self._layer_sums(values, inside, real=real)

    def _layer_sums(
        self, values: Tensor, weights: Tensor | None, *, real: bool
    ) -> list[Tensor]:
        """Sum the clipped gradients of rows, of features `values`."""
        return clipped_gradients(
            self._layers,
            values,
            weights,
            loss=self._loss,
            real=real,
            max_grad_norm=self._clip,
        )

    def logits(self, rows: Tensor, features: Features) -> Tensor:
        """Score rows (n_rows, n_columns) by what was released."""
        if len(self._params) == 1 and isinstance(features, Products):
            (weight,) = self._params
            return features.scores(rows, self._scale * weight.detach()[0])
        values = features(rows) * self._scale
        return forward(self._layers, values)[-1][1].squeeze(-1)

    def objective(self, rows: Tensor, features: Features) -> Tensor:
        """Return what the generator wants to raise: log D of each row, or its score."""
        scores = self.logits(rows, features)
        return functional.logsigmoid(scores) if self._loss == "logistic" else scores

    def _discount_noise(self) -> None:
        """Shrink the step of a linear one by the share that is noise (James, Stein).

        So the generator stops where all that is left of the difference is noise.
        """
        (p,) = self._params
        noise = p.numel() * self._noise**2
        p.grad *= max(0.0, 1.0 - noise / max(float(p.grad.square().sum()), 1e-300))

    def _backward(self, rows: Tensor, features: Features, *, real: bool) -> None:
        """Compute the gradients of a chunk of private rows, in a fixed shape."""
        chunk, weights = padded(rows, self._chunk)
        with torch.no_grad():
            inputs = features(chunk) * self._scale
        with torch.enable_grad():
            # Torch's hooks warn where the input needs no gradient.
            scores = self._network(inputs.requires_grad_()).squeeze(-1)
            signed = scores if real else -scores
            if self._loss == "logistic":
                losses = -functional.logsigmoid(signed)
            else:
                losses = -signed
            (weights * losses).sum().backward()


def forward(layers: Sequence[nn.Linear], values: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return what goes into each layer, and what comes out of it."""
    found: list[tuple[Tensor, Tensor]] = []
    for layer in layers:
        if found:
            values = functional.silu(values)
        # Not called as modules: those record gradients per example.
        bias = None if layer.bias is None else layer.bias.detach().to(values)
        after = functional.linear(values, layer.weight.detach().to(values), bias)
        found.append((values, after))
        values = after
    return found


def clipped_gradients(
    layers: Sequence[nn.Linear],
    values: Tensor,
    weights: Tensor | None,
    *,
    loss: Literal["logistic", "wasserstein"],
    real: bool,
    max_grad_norm: float,
) -> list[Tensor]:
    """Sum the clipped gradients of rows in the precision of `values`, by parameter."""
    with torch.enable_grad():
        passed = forward(layers, values.requires_grad_())
        scores = passed[-1][1].squeeze(-1)
        signed = -scores if real else scores
        losses = functional.softplus(signed) if loss == "logistic" else signed
        total = losses.sum() if weights is None else (weights * losses).sum()
        slopes = torch.autograd.grad(total, [after for _, after in passed])
    inputs = [before.detach() for before, _ in passed]
    biased = [layer.bias is not None for layer in layers]
    return clipped_layer_sums(slopes, inputs, biased, max_grad_norm)


def penalty_gradients(layers: Sequence[nn.Linear], values: Tensor) -> list[Tensor]:
    """Differentiate half the mean squared length of the score's slopes at public rows.

    The second of the two regularisers of Mescheder, Geiger and Nowozin (2018).
    """
    with torch.enable_grad():
        values = values.detach().requires_grad_()
        parameters = [
            [p.detach().to(values).requires_grad_() for p in layer.parameters()]
            for layer in layers
        ]
        scores = values
        for depth, own in enumerate(parameters):
            scores = functional.silu(scores) if depth else scores
            scores = functional.linear(scores, *own)
        (slopes,) = torch.autograd.grad(scores.sum(), values, create_graph=True)
        penalty = 0.5 * slopes.square().sum(1).mean()
    return list(
        torch.autograd.grad(
            penalty, [p for own in parameters for p in own], materialize_grads=True
        )
    )


def train_generator(
    generator: Trainer,
    discriminator: Discriminator,
    features: Features,
    adam: Adam,
    n_steps: int,
    n_rows: int | None = None,
) -> None:
    """Train a generator against a discriminator that follows it: post-processing."""
    objective = partial(discriminator.objective, features=features)
    for _ in range(n_steps):
        draws = generator.draw(n_rows or N_GENERATED)
        discriminator.follow(generator.rows(draws), features)
        if n_rows is None:
            draws = generator.draw(N_GENERATED)
        generator.ascend(adam(generator.gradient(draws, objective)))


def make_network(
    n_features: int, hidden_dims: Sequence[int], generator: torch.Generator
) -> nn.Sequential:
    """Make the network; without hidden layers it starts at zero."""
    layers: list[nn.Module] = []
    for depth, (n_in, n_out) in enumerate(pairwise((n_features, *hidden_dims, 1))):
        # A bias of the score itself would say nothing about a direction.
        hidden = depth < len(hidden_dims)
        # Without torch's initial draws, which are global.
        layer = skip_init(nn.Linear, n_in, n_out, bias=hidden, dtype=torch.float64)
        # He's rule; features were divided by the root of their number.
        std = math.sqrt(2 / (n_in if depth else 1)) if hidden_dims else 0.0
        drawn = torch.randn(layer.weight.shape, generator=generator)
        with torch.no_grad():
            layer.weight.copy_(std * drawn)
            if hidden:
                layer.bias.zero_()
        layers += [layer, nn.SiLU()] if hidden else [layer]
    return nn.Sequential(*layers)
