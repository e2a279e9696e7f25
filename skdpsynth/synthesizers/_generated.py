"""What the synthesizers share whose rows are drawn from a generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.base import BaseSynthesizer
from skdpsynth.measure import Measurements, TableModel
from skdpsynth.model import (
    NUMPY,
    Arrays,
    FactorGenerator,
    MixtureGenerator,
    fit_factors,
    fit_mixture,
    make_generator,
)
from skdpsynth.sampling import DrawRanks, drawn_within
from skdpsynth.utils.arrays import Floats, Ints

_FORMS: dict[str, Any] = {"factors": FactorGenerator, "mixture": MixtureGenerator}


class GeneratedSynthesizer(BaseSynthesizer):
    """Base of the synthesizers whose columns depend on each other by `generator_`."""

    generator_: MixtureGenerator | FactorGenerator
    n_iter_: int

    def _fit_generator(
        self, measured: Measurements, seed: int, arrays: Arrays = NUMPY
    ) -> TableModel:
        """Fit `generator_` to measurements, keep both, and return the marginals.

        A mixture is fitted to tables of pairs, factors to second moments; with neither,
        columns are independent.
        """
        model = measured.model.labelled
        if measured.has_pairs.any():
            components = fit_mixture(measured, seed=seed, arrays=arrays)
            mixtures = components.mixtures(measured.ranks)
            self.generator_ = make_generator(mixtures, measured)
        else:
            planned = model.metadata.classes.planned
            self.generator_ = FactorGenerator.lent(fit_factors(measured), planned)
        self.measurements_ = measured
        return model

    def _ranks(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        return self.generator_.draw(class_codes, rng)

    def _within(
        self, spans: Sequence[Mapping[int, Floats]]
    ) -> tuple[DrawRanks, Floats]:
        if isinstance(self.generator_, MixtureGenerator):
            generator, shares = self.generator_.within(spans)
            return generator.draw, shares
        if self.generator_.loadings.any():  # all rows are drawn
            return self._ranks, np.ones(len(spans))
        lengths = [[np.diff(span).sum() for span in part.values()] for part in spans]

        def draw(class_codes: Ints, rng: np.random.Generator) -> Floats:
            ranks = self._ranks(class_codes, rng)
            for c, part in enumerate(spans):
                rows = np.flatnonzero(class_codes == c)
                for j, within in part.items():
                    ranks[rows, j] = drawn_within(ranks[rows, j], within)
            return ranks

        return draw, np.array([np.prod(of_class) for of_class in lengths])

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        document, arrays = self.generator_.to_state()
        if hasattr(self, "n_iter_"):
            document = {**document, "n_iter_": self.n_iter_}
        if hasattr(self, "n_teachers_"):
            arrays = {**arrays, "n_teachers": self.n_teachers_}
        return document, arrays

    def _restore_generator(
        self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        size = len(self._model.marginals), len(self._model.metadata.columns)
        if "form" not in document:  # of the independent baseline, up to 0.2
            self.generator_ = FactorGenerator(np.zeros((*size, 1)))
            return
        self.generator_ = _FORMS[document["form"]].from_state(document, arrays, *size)
        if "n_iter_" in document:
            self.n_iter_ = int(document["n_iter_"])
        if "n_teachers" in arrays:
            self.n_teachers_ = arrays["n_teachers"]
