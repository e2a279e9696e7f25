"""The one place that imports private parts of scikit-learn.

Its template for third-party estimators uses parameter validation that is still
private. When a release moves these names, only this file changes.
"""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions

__all__ = ["HasMethods", "Interval", "Options", "StrOptions", "fit_context"]
