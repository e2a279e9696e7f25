"""The classifier of PATE-TripleGAN: softmax regression on log odds of each column."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from skdpsynth.measure import RARE, TableModel
from skdpsynth.synthesizers._initial import CELLS
from skdpsynth.table import MISSING, MarginalTransform, NumericDomain, PrivateRows
from skdpsynth.utils import in_chunks

_MOST = 3.0  # log odds that one column can give


class Evidence:
    """Log odds of every class given each column of a row: naive Bayes; all public.

    Where all classes have the same released marginals, they say nothing, and the
    features of a row are its scores and their squares.
    """

    def __init__(self, model: TableModel) -> None:
        self._model = model
        self._masses = [
            np.stack([_masses(by_class[j]) for by_class in model.marginals])
            for j in range(len(model.metadata.domains))
        ]
        self._tables = []
        for masses in self._masses:
            even = 1.0 / masses.shape[1]
            # A share of the mass is spread evenly, so that none is 0.
            logs = np.log((1.0 - RARE) * masses + RARE * even)
            self._tables.append(np.clip(logs - logs.mean(axis=0), -_MOST, _MOST))
        self.informed = any(np.any(table != 0) for table in self._tables)
        self.n_classes = len(model.marginals)
        # Of a row, with a constant at the end.
        said = self.n_classes if self.informed else 2 * len(self._tables)
        self.n_features = said + 1

    @property
    def initial_weights(self) -> NDArray[np.float64]:
        """Weights of the naive Bayes classifier, of shape (n_classes, n_features)."""
        weights = np.zeros((self.n_classes, self.n_features))
        if self.informed:
            weights[:, :-1] = np.sqrt(len(self._tables)) * np.eye(self.n_classes)
        return weights

    def features(self, rows: PrivateRows) -> NDArray[np.float64]:
        """Return the features of rows, about 1 in size; private if the rows are."""
        features = np.ones((len(rows.class_codes), self.n_features))
        for part in in_chunks(len(features)):
            uniforms, category_codes = rows.uniforms[part], rows.category_codes[part]
            if self.informed:
                cells = [
                    self._cells(j, uniforms, category_codes)
                    for j in range(uniforms.shape[1])
                ]
                features[part, :-1] = self._summed(cells)
            else:
                scores = self._model.score_rows(uniforms, category_codes, 0)
                scores = scores.astype(np.float64)
                both = np.hstack([scores, scores**2 - 1.0])
                features[part, :-1] = both / np.sqrt(both.shape[1])
        return features

    def draw(
        self, position: int, n_rows: int, generator: torch.Generator
    ) -> NDArray[np.float64]:
        """Return the features of rows drawn from the marginals of a class."""
        cells = []
        for masses in self._masses:
            ends = np.cumsum(masses[position])
            ranks = torch.rand(n_rows, generator=generator, dtype=torch.float64)
            places = np.searchsorted(ends, ranks.numpy() * ends[-1], side="right")
            cells.append(np.minimum(places, len(ends) - 1))
        return np.hstack([self._summed(cells), np.ones((n_rows, 1))])

    def _summed(self, cells: list[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Add up the log odds of all columns, over the root of their number."""
        total = np.zeros((self.n_classes, len(cells[0])))
        for table, places in zip(self._tables, cells, strict=True):
            total += table[:, places]
        return (total / np.sqrt(len(cells))).T

    def _cells(
        self,
        j: int,
        uniforms: NDArray[np.floating],
        category_codes: NDArray[np.integer],
    ) -> NDArray[np.int64]:
        """Return the cell of every row in one column."""
        if not isinstance(self._model.metadata.domains[j], NumericDomain):
            return category_codes[:, j].astype(np.int64)
        cells = np.minimum((uniforms[:, j] * CELLS).astype(np.int64), CELLS - 1)
        cells = np.where(category_codes[:, j] > 0, CELLS, cells)
        return np.where(category_codes[:, j] == MISSING, CELLS + 1, cells)


def _masses(column: MarginalTransform) -> NDArray[np.float64]:
    """Return the probability of every cell; zero, missing and such values have one."""
    present = 1.0 - column.missing
    if not isinstance(column.domain, NumericDomain):
        masses = np.zeros(len(column.domain.categories) + 2)
        masses[column.points.astype(np.int64)] = present * np.diff(column.cumulative)
        masses[-1] = column.missing
        return masses
    masses = np.zeros(CELLS + 2)
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    masses[:CELLS] = np.diff(np.interp(edges, column.points, column.cumulative))
    for own, below, up_to in column.jumps():
        cell = min(int(own.position * CELLS), CELLS - 1)
        masses[cell] = max(masses[cell] - (up_to - below), 0.0)
        masses[CELLS] += up_to - below
    masses[:-1] *= present
    masses[-1] = column.missing
    return masses
