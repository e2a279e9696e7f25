"""What is taken of scikit-learn's private names, and a seed from a `random_state`."""

from __future__ import annotations

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    HasMethods,
    Interval as Interval,
    Options as Options,
    StrOptions as StrOptions,
)

fit_context = _fit_context


class InstanceOf(HasMethods):
    """A class of ours, which an error names without the file that it is in."""

    def __init__(self, of: type) -> None:
        super().__init__("__init__")
        self._of = of

    def is_satisfied_by(self, val: object) -> bool:
        """Return whether a value is one."""
        return isinstance(val, self._of)

    def __str__(self) -> str:
        return f"a {self._of.__name__}"


def public_seed(random_state: int | np.random.RandomState | None) -> int:
    """Turn a `random_state` into a seed >= 0; no global generator is read."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if random_state is np.random:
        msg = "random_state must be an int, a RandomState or None, not a module."
        raise ValueError(msg)
    return int(check_random_state(random_state).randint(2**31 - 1))
