"""What holds private rows, and is not to leave the memory of a fit."""

from __future__ import annotations

from typing import NoReturn


class HoldsPrivateRows:
    """Base of what cannot be pickled, copied or saved: a TypeError says so."""

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "What holds private rows cannot be pickled, copied or saved. Keep what was "
            "released instead."
        )
