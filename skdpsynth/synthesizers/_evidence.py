"""The classifier of PATE-TripleGAN: softmax regression on log odds of each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from skdpsynth.measure import RARE, TableModel, choose_bins
from skdpsynth.synthesizers._initial import CELLS
from skdpsynth.table import PrivateRows
from skdpsynth.utils import in_chunks
from skdpsynth.utils.arrays import Floats, Ints

_MOST = 3.0  # log odds that one column can give


@dataclass(frozen=True)
class Evidence:
    """Log odds of every class given each column of a row: naive Bayes; all public.

    Where all classes have the same released marginals, they say nothing, and the
    features of a row are its scores and their squares.
    """

    model: TableModel
    starts: Ints  # of the bins of each column, and the end of the last one
    encode: Callable[[PrivateRows], NDArray[np.integer]]  # rows to bins
    shares: Floats  # (n_classes, D), of every bin in its column
    odds: Floats  # (n_classes, D)

    @property
    def informed(self) -> bool:
        """Whether the marginals of the classes differ."""
        return bool(np.any(self.odds != 0))

    @property
    def n_features(self) -> int:
        """Of a row, with a constant at the end."""
        return 1 + (len(self.odds) if self.informed else 2 * (len(self.starts) - 1))

    @property
    def initial_weights(self) -> Floats:
        """Weights of the naive Bayes classifier, of shape (n_classes, n_features)."""
        weights = np.zeros((len(self.odds), self.n_features))
        if self.informed:
            weights[:, :-1] = np.sqrt(len(self.starts) - 1) * np.eye(len(self.odds))
        return weights

    def features(self, rows: PrivateRows) -> Floats:
        """Return the features of rows, about 1 in size; private if the rows are."""
        features = np.ones((len(rows.class_codes), self.n_features))
        for part in in_chunks(len(features)):
            some = rows[part]
            if self.informed:
                features[part, :-1] = self._summed(self.encode(some))
            else:
                scores = self.model.score_rows(some, 0).astype(np.float64)
                both = np.hstack([scores, scores**2 - 1.0])
                features[part, :-1] = both / np.sqrt(both.shape[1])
        return features

    def draw(self, position: int, n_rows: int, generator: torch.Generator) -> Floats:
        """Return the features of rows drawn from the marginals of a class."""
        cells = []
        for first, last in pairwise(self.starts):
            ends = np.cumsum(self.shares[position, first:last])
            ranks = torch.rand(n_rows, generator=generator, dtype=torch.float64)
            places = np.searchsorted(ends, ranks.numpy() * ends[-1], side="right")
            cells.append(np.minimum(places, len(ends) - 1))
        return np.hstack([self._summed(np.stack(cells, axis=1)), np.ones((n_rows, 1))])

    def _summed(self, cells: NDArray[np.integer]) -> Floats:
        """Add up the log odds of all columns, over the root of their number."""
        places = self.starts[:-1] + cells
        return self.odds.T[places].sum(axis=1) / np.sqrt(cells.shape[1])


def fit_evidence(model: TableModel) -> Evidence:
    """Fit naive Bayes to released marginals."""
    prior = np.full(len(model.marginals), 1.0 / len(model.marginals))
    bins, marginals = choose_bins(model.metadata.domains, model.marginals, prior, CELLS)
    shares = np.stack([bins.shares(bins.ranks(of_class)) for of_class in marginals])
    even = 1.0 / np.repeat(bins.sizes, bins.sizes)
    # A share of the mass is spread evenly, so that none is 0.
    logs = np.log((1.0 - RARE) * shares + RARE * even)
    odds = np.clip(logs - logs.mean(axis=0), -_MOST, _MOST)
    return Evidence(model, bins.starts, bins.encode, shares, odds)
