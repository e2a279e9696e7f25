"""What every generator can do, whatever its form: mixture or factors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Generator(Protocol):
    """The generators of all classes: public, made of releases alone."""

    def draw(self, class_codes: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Draw the ranks of rows of given classes, (n_rows, n_columns), in [0, 1]."""

    def within(self, spans: Sequence[Mapping[int, Floats]]) -> tuple[Generator, Floats]:
        """Restrict the ranks of some columns, class by class, to spans (n, 2).

        Of each class the share of rows that are left is given too. Rows outside may be
        left, and are then part of the share.
        """

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
