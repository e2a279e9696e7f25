"""Synthetic columns in the containers that the user's table and labels came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray


def features_like(table: pd.DataFrame, X: object) -> pd.DataFrame | NDArray[Any]:
    """Return synthetic features in the container of `X`: of a list, as an array."""
    if isinstance(X, pd.DataFrame):
        return table
    return _array(table, getattr(X, "dtype", None))


def labels_like(labels: pd.Series, y: Any) -> Any:  # noqa: ANN401 - any container
    """Return synthetic labels in container and dtype of `y`: of a list, as an array."""
    dtype = getattr(y, "dtype", None)
    if isinstance(y, pd.Series):
        return labels.rename(y.name)
    if isinstance(y, pd.Index):
        listed = isinstance(dtype, pd.CategoricalDtype)  # has categories of its own
        dtype = labels.dtype if listed else dtype
        return pd.Index(labels, dtype=dtype).rename(y.name)
    if type(y) is pd.arrays.NumpyExtensionArray:  # a string array is a subclass
        return pd.arrays.NumpyExtensionArray(_array(labels, y.dtype.numpy_dtype))
    if isinstance(y, pd.api.extensions.ExtensionArray):
        return labels.array
    return _array(labels, dtype)


def _array(values: pd.Series | pd.DataFrame, dtype: Any) -> NDArray[Any]:  # noqa: ANN401
    """Make an array of a dtype; of text, the width is what the values need."""
    if not isinstance(dtype, np.dtype):
        return values.to_numpy()
    if dtype.kind == "U":
        return values.to_numpy(dtype=object).astype(np.str_)
    return values.to_numpy(dtype=dtype)
