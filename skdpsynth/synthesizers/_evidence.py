"""The classifier of PATE-TripleGAN: softmax regression on log odds of each column."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from skdpsynth.measure import RARE, TableModel, choose_bins
from skdpsynth.synthesizers._initial import CELLS
from skdpsynth.table import PrivateRows
from skdpsynth.utils import in_chunks
from skdpsynth.utils.arrays import Floats

_MOST = 3.0  # log odds that one column can give


class Evidence:
    """Log odds of every class given each column of a row: naive Bayes; all public.

    Where all classes have the same released marginals, they say nothing, and the
    features of a row are its scores and their squares.
    """

    def __init__(self, model: TableModel) -> None:
        self._model = model
        self.n_classes, domains = len(model.marginals), model.metadata.domains
        prior = np.full(self.n_classes, 1.0 / self.n_classes)
        self._bins, marginals = choose_bins(domains, model.marginals, prior, CELLS)
        ranks = [self._bins.ranks(of_class) for of_class in marginals]
        self._shares = np.stack([self._bins.shares(own) for own in ranks])
        even = 1.0 / np.repeat(self._bins.sizes, self._bins.sizes)
        # A share of the mass is spread evenly, so that none is 0.
        logs = np.log((1.0 - RARE) * self._shares + RARE * even)
        self._odds = np.clip(logs - logs.mean(axis=0), -_MOST, _MOST)
        self.informed = bool(np.any(self._odds != 0))
        # Of a row, with a constant at the end.
        said = self.n_classes if self.informed else 2 * len(domains)
        self.n_features = said + 1

    @property
    def initial_weights(self) -> Floats:
        """Weights of the naive Bayes classifier, of shape (n_classes, n_features)."""
        weights = np.zeros((self.n_classes, self.n_features))
        if self.informed:
            weights[:, :-1] = np.sqrt(len(self._bins.columns)) * np.eye(self.n_classes)
        return weights

    def features(self, rows: PrivateRows) -> Floats:
        """Return the features of rows, about 1 in size; private if the rows are."""
        features = np.ones((len(rows.class_codes), self.n_features))
        for part in in_chunks(len(features)):
            own = rows[part]
            if self.informed:
                features[part, :-1] = self._summed(self._bins.encode(own))
            else:
                scores = self._model.score_rows(own, 0).astype(np.float64)
                both = np.hstack([scores, scores**2 - 1.0])
                features[part, :-1] = both / np.sqrt(both.shape[1])
        return features

    def draw(self, position: int, n_rows: int, generator: torch.Generator) -> Floats:
        """Return the features of rows drawn from the marginals of a class."""
        cells = []
        for first, last in pairwise(self._bins.starts):
            ends = np.cumsum(self._shares[position, first:last])
            ranks = torch.rand(n_rows, generator=generator, dtype=torch.float64)
            places = np.searchsorted(ends, ranks.numpy() * ends[-1], side="right")
            cells.append(np.minimum(places, len(ends) - 1))
        return np.hstack([self._summed(np.stack(cells, axis=1)), np.ones((n_rows, 1))])

    def _summed(self, cells: NDArray[np.integer]) -> Floats:
        """Add up the log odds of all columns, over the root of their number."""
        places = self._bins.starts[:-1] + cells
        return self._odds.T[places].sum(axis=1) / np.sqrt(cells.shape[1])
