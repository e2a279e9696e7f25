"""What the synthesizers share whose rows are drawn from a generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skdpsynth.base import BaseSynthesizer
from skdpsynth.generators import FactorGenerator, MixtureGenerator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.generators import Generator
    from skdpsynth.sampling import DrawRanks

_FORMS: dict[str, Any] = {"factors": FactorGenerator, "mixture": MixtureGenerator}


class GeneratedSynthesizer(BaseSynthesizer):
    """Base of the synthesizers whose columns depend on each other by `generator_`."""

    generator_: Generator
    n_iter_: int

    def _ranks(
        self, class_codes: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.generator_.draw(class_codes, rng)

    def _within(
        self, spans: Sequence[Mapping[int, NDArray[np.float64]]]
    ) -> tuple[DrawRanks, NDArray[np.float64]]:
        generator, shares = self.generator_.within(spans)
        return generator.draw, shares

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
        self.generator_ = _FORMS[document["form"]].from_state(document, arrays, *size)
        if "n_iter_" in document:
            self.n_iter_ = int(document["n_iter_"])
        if "n_teachers" in arrays:
            self.n_teachers_ = arrays["n_teachers"]
