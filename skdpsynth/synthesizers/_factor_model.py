"""What the synthesizers with a factor generator share: sampling and the saved file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skdpsynth.base import BaseSynthesizer
from skdpsynth.nn._generator import FactorGenerator

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FactorSynthesizer"]

_PARAMETERS = ("loadings", "location", "log_scale")


class FactorSynthesizer(BaseSynthesizer):
    """Base of the synthesizers whose generator is a `FactorGenerator`.

    A subclass sets ``generator_`` and ``n_iter_`` in ``_fit``, and ``n_teachers_`` if
    it has teachers.
    """

    generator_: FactorGenerator
    n_iter_: int

    def _scores(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.generator_.scores(members, rng)

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays: dict[str, NDArray[Any]] = {
            f"generator.{c}.{name}": value
            for c, parameters in enumerate(self.generator_.parameters)
            for name, value in parameters.items()
        }
        if hasattr(self, "n_teachers_"):
            arrays["n_teachers"] = self.n_teachers_
        n_classes = len(self.generator_.parameters)
        return {"n_classes": n_classes, "n_iter_": self.n_iter_}, arrays

    def _restore_generator(
        self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        self.generator_ = FactorGenerator(
            [
                {name: arrays[f"generator.{c}.{name}"] for name in _PARAMETERS}
                for c in range(document["n_classes"])
            ]
        )
        self.n_iter_ = int(document["n_iter_"])
        if "n_teachers" in arrays:
            self.n_teachers_ = arrays["n_teachers"]
