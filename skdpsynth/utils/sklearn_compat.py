"""The one place that imports private parts of scikit-learn.

Its template for third-party estimators uses parameter validation that is still
private. When a release moves these names, only this file changes.
"""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions

__all__ = ["InstanceOf", "Interval", "Options", "StrOptions", "fit_context"]


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
