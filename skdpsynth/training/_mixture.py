"""The mixture of one class while it is trained by an adversary."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skdpsynth.measure import RARE
from skdpsynth.model import Adam, Components, Mixture, ReleasedClass, slopes_of_loss
from skdpsynth.training._generator import (
    MOST_PRODUCTS,
    Draws,
    Score,
    Trainer,
    products,
)
from skdpsynth.utils.arrays import Bools, Floats, Ints

# Where a probability is next to 0 or 1; without a limit steps that diverge end in NaN.
_MOST_LOGIT = 30.0
_MOST_SCORES = 4  # of a column, as long as steps can show all their products
_MOST_SCORE = 4.0  # of a bin: those of rare ones would hide those of all others
# Length of a step towards the measured tables at first; it falls to 0. At .005 and .1
# these were .010 off, at .02 .008 (2,000 rows, four fits).
_HELD_RATE = 0.02


@dataclass(frozen=True)
class BinScores:
    """Bins as numbers, whose products are what discriminators see of a row: public.

    A feature is the product of scores of two columns. Where its mean is another in real
    rows than in generated ones, they depend on each other in another way.
    """

    starts: Ints  # (n_columns + 1,), as of `Heads`
    table: Floats  # (D, n_scores), of every bin; 0 outside the column of the score
    columns: Ints  # (n_scores,), of the scores
    products: Ints  # (2, n_features), scores that are multiplied

    @classmethod
    def fit(
        cls,
        mixture: Mixture,
        starts: Ints,
        measured: Bools,
        most: float = MOST_PRODUCTS,
    ) -> BinScores:
        """Fit scores of bins to an initial mixture (correspondence analysis).

        Those of a column say most about the other columns in its rows, so the order of
        categories has no meaning. There their means are 0 and their variances 1, but
        for bins so rare that their scores are cut off. Every pair of columns has a
        feature, by their first scores; of too many pairs those that depend most on each
        other. Pairs that were not `measured`, (n_columns, n_columns), have products of
        up to 4 scores each, if features are then not more than `most`.
        """
        n_columns, scores = len(starts) - 1, _scores_of_bins(mixture, starts)
        few = n_columns * (n_columns - 1) <= 2 * min(most, MOST_PRODUCTS)
        for n_scores in range(_MOST_SCORES if few else 1, 0, -1):
            parts = [part[:, :n_scores] for part in scores]
            column = np.repeat(np.arange(n_columns), [part.shape[1] for part in parts])
            leads = np.diff(column, prepend=-1) > 0
            first, second = np.triu_indices(len(column), 1)
            wanted = leads[first] & leads[second]
            wanted |= ~measured[column[first], column[second]]
            wanted &= column[first] < column[second]
            first, second = first[wanted], second[wanted]
            # With two scores of Kaggle Credit (849 products, not 435) lost pairs were
            # won back by .45 of their distance, not .15.
            if len(first) <= min(most, 2 * MOST_PRODUCTS):
                break
        table = np.hstack(parts)
        means = mixture.probabilities @ table
        dependence = (mixture.weights[:, None] * means).T @ means
        order = np.argsort(-np.abs(dependence[first, second]), kind="stable")
        if n_scores == 1:
            order = order[:MOST_PRODUCTS]
        chosen = np.stack([first, second])[:, order]
        used, places = np.unique(chosen, return_inverse=True)
        products = places.reshape(chosen.shape)
        return cls(starts, table[:, used], column[used], products)

    def encode(self, bins: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the scores of rows of bins; private if the rows are."""
        places = (bins + self.starts[:-1])[:, self.columns]
        return self.table[places, np.arange(len(self.columns))].astype(np.float32)


def _scores_of_bins(mixture: Mixture, starts: Ints) -> list[Floats]:
    """Return some scores of every column, (n_bins, n_scores); 0 of others' bins."""
    probabilities = mixture.probabilities.astype(np.float64)
    shares = mixture.weights @ probabilities
    weighted = probabilities * np.sqrt(mixture.weights)[:, None]
    roots = np.sqrt(np.maximum(shares, RARE))  # with rarer units slopes are unstable
    joint = weighted.T @ weighted - np.outer(shares, shares)
    joint /= np.outer(roots, roots)
    of_columns = []
    for start, end in pairwise(starts.tolist()):
        n_scores = min(_MOST_SCORES, max(end - start - 1, 1))
        of_columns.append(np.zeros((starts[-1], n_scores)))
        if end - start == 1:
            continue
        others = joint[start:end].copy()
        others[:, start:end] = 0.0
        share, root = shares[start:end] / shares[start:end].sum(), roots[start:end]
        mean = share / root
        centred = np.eye(end - start) - np.outer(mean, mean) / (mean @ mean)
        # Where others depend on nothing, the scores that vary most.
        shared = others @ others.T + 1e-9 * np.diag(mean / root)
        vectors = np.linalg.eigh(centred @ shared @ centred)[1]
        scores = vectors[:, : -1 - n_scores : -1] / root[:, None]
        scores -= share @ scores
        scores /= np.maximum(np.sqrt(share @ scores**2), 1e-9)
        of_columns[-1][start:end] = np.clip(scores, -_MOST_SCORE, _MOST_SCORE)
    return of_columns


class MixtureTrainer(Trainer):
    """The mixture of one class while it is trained by an adversary.

    What was measured of the class, `released`, stays in the loss. Features are products
    of the scores of two columns. All of it is public. Generated rows are bins;
    gradients pass through them as if they were their expectation given the code
    (straight through), and to the weights of the codes by the score function. The heads
    of `components` and `released` hold tensors of the device.
    """

    def __init__(
        self,
        components: Components,
        ranks: Floats,
        scores: BinScores,
        released: ReleasedClass,
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        self._table = torch.from_numpy(scores.table).float().to(self._device)
        self._starts, ends = torch.from_numpy(
            np.array([scores.starts[:-1], scores.starts[1:]])
        ).to(self._device)
        self._last = ends - 1
        self._columns = torch.arange(len(ends), device=self._device)
        self._of_scores = torch.from_numpy(scores.columns).to(self._device)
        self._places = torch.arange(len(scores.columns), device=self._device)
        self._start, self._ranks, self._released = components, ranks, released
        self._heads, take = components.heads, components.heads.arrays.take
        self.parameters = {
            "log_weights": take(components.log_weights),
            "parameters": take(components.parameters),
        }
        self._home = take(components.home)
        self._made: tuple[Tensor, Tensor, Tensor] | None = None
        self._adam = Adam()
        self.n_columns = len(ends)
        self._pairs = torch.from_numpy(scores.products).to(self._device)
        self.n_features = self._pairs.shape[1]

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        weights = self.parameters["log_weights"].softmax(0).cpu()
        codes = torch.multinomial(
            weights, n_rows, replacement=True, generator=self._generator
        )
        uniforms = torch.rand((n_rows, self.n_columns), generator=self._generator)
        return Draws(codes.to(self._device), uniforms.to(self._device))

    def rows(self, draws: Draws) -> Tensor:
        """Generate bins by inversion, the columns behind each other on one line."""
        given = self._bins()[2].detach()[draws.codes]
        ends = given.double().cumsum(1)
        places = draws.noise.double() + self._columns
        bins = torch.searchsorted(ends, places, right=True)
        bins = bins.clamp_(self._starts, self._last)
        return self._table[bins[:, self._of_scores], self._places]

    def features(self, rows: Tensor) -> Tensor:
        """Return products of the scores of two columns."""
        return products(rows, self._pairs)

    def mean_features(self, draws: Draws) -> Tensor:
        """Compute the mean features exactly: given its code, a row's bins are free."""
        return self._mean_features().detach()

    def gradient_of_means(self, draws: Draws, along: Tensor) -> Tensor:
        """Differentiate the exact mean features."""
        given = self._bins()[:2]
        with torch.enable_grad():
            mean = self._mean_features() @ along
            parts = torch.autograd.grad(mean, given, retain_graph=True)
        return torch.cat([part.flatten() for part in parts])

    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by the trained parameters."""
        log_weights, parameters, probabilities = self._bins()
        rows = self.rows(draws)
        with torch.enable_grad():
            means = (probabilities @ self._table)[draws.codes]
            scores = score(rows + (means - means.detach()))
            # The score function of the codes, less a baseline.
            beyond = scores.detach() - scores.detach().mean()
            by_code = log_weights.log_softmax(0)[draws.codes]
            mean = (scores + beyond * by_code).mean()
            given = log_weights, parameters
            slopes = torch.autograd.grad(mean, given, retain_graph=True)
        return torch.cat([part.flatten() for part in slopes])

    def _mean_features(self) -> Tensor:
        log_weights, _, probabilities = self._bins()
        of_codes = products(probabilities @ self._table, self._pairs)
        return (log_weights.softmax(0) @ of_codes).double()

    def _move(self, direction: Tensor, rate: float) -> None:
        """Take one step, and after every second one a step on what was released.

        With a tenth as many the 2-way distance of Adult was .036, not .034.
        """
        moved = self._flat() + rate * direction
        self._set(moved.clamp(-_MOST_LOGIT, _MOST_LOGIT))
        if self._step % 2:
            self._hold()

    def present(self) -> Mixture:
        """Return the mixture as it is."""
        give = self._heads.arrays.give
        parts: Any = {name: give(part) for name, part in self.parameters.items()}
        return self._start._replace(**parts).mixture(self._ranks)

    def _hold(self) -> None:
        """Take one step towards the released tables."""
        rate = _HELD_RATE * (1.0 - self._step / self._n_steps)
        log_weights, parameters = self.parameters.values()
        start = parameters, log_weights[None], self._home, self._start.n_together
        slopes = slopes_of_loss([self._released], self._heads, *start)
        (step,) = self._adam([torch.cat([x.flatten() for x in reversed(slopes)])])
        self._set(self._flat() - rate * step)

    def _bins(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is trained, and the probabilities of bins, until it changes."""
        if self._made is None:
            log_weights, parameters = (
                value.detach().requires_grad_() for value in self.parameters.values()
            )
            with torch.enable_grad():
                probabilities = self._heads(parameters, self._home)
            self._made = log_weights, parameters, probabilities
        return self._made

    def _set(self, flat: Tensor) -> None:
        super()._set(flat)
        self.parameters = {k: part.clone() for k, part in self.parameters.items()}
        self._made = None
