"""What dtypes say about columns, and values as plain scalars.

Dtypes are public: the guarantee is for neighbouring tables with the same dtypes.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

Kind = Literal[
    "continuous", "integer", "boolean", "categorical", "datetime", "timedelta"
]
ObjectType = Literal["str", "bool", "nothing"]

# By character code of a NumPy dtype: the kind, and whether it has a missing value.
_NUMPY_KINDS: dict[str, tuple[Kind, bool]] = {
    "f": ("continuous", True),
    "i": ("integer", False),
    "u": ("integer", False),
    "b": ("boolean", False),
    "O": ("categorical", True),
    "M": ("datetime", True),
    "m": ("timedelta", True),
}
_PANDAS_KINDS: dict[Kind, tuple[type, ...]] = {
    "categorical": (pd.CategoricalDtype, pd.StringDtype),
    "boolean": (pd.BooleanDtype,),
    "datetime": (pd.DatetimeTZDtype,),
    "integer": tuple(
        getattr(pd, f"{sign}Int{bits}Dtype")
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    ),
    "continuous": (pd.Float32Dtype, pd.Float64Dtype),
}
# By the name of the question in `pyarrow.types`.
_ARROW_KINDS: dict[str, Kind] = {
    "is_integer": "integer",
    "is_floating": "continuous",
    "is_boolean": "boolean",
    "is_string": "categorical",
    "is_large_string": "categorical",
    "is_timestamp": "datetime",
    "is_date32": "datetime",
    "is_duration": "timedelta",
}
_REMEDIES = {
    pd.PeriodDtype: "convert it by .dt.to_timestamp()",
    pd.IntervalDtype: "convert it by astype(str), or keep the two ends as columns",
    pd.SparseDtype: "convert it by .sparse.to_dense()",
}


def kind_of_dtype(dtype: Any) -> tuple[Kind, bool] | None:  # noqa: ANN401 - no stubs
    """Return the kind of a dtype and whether it has a missing value; None for others.

    Objects count as categorical: whether they are booleans is a question about values.
    """
    if isinstance(dtype, np.dtype):
        return _NUMPY_KINDS.get(dtype.kind)
    for kind, dtypes in _PANDAS_KINDS.items():
        if isinstance(dtype, dtypes):
            return kind, True
    if isinstance(dtype, pd.ArrowDtype):
        from pyarrow import types

        for question, kind in _ARROW_KINDS.items():
            if getattr(types, question)(dtype.pyarrow_dtype):
                return kind, True
    return None


def is_date(dtype: Any) -> bool:  # noqa: ANN401 - no stubs
    """Return whether a dtype is Arrow's of whole days, which polars calls Date."""
    if not isinstance(dtype, pd.ArrowDtype):
        return False
    from pyarrow import types

    return bool(types.is_date32(dtype.pyarrow_dtype))


def as_moments(series: pd.Series) -> pd.Series:
    """Return Arrow's dates as points in time; any other column as it is."""
    if isinstance(series.dtype, pd.CategoricalDtype) and is_date(
        series.cat.categories.dtype
    ):
        series = series.astype(series.cat.categories.dtype)
    if not is_date(series.dtype):
        return series
    import pyarrow as pa

    return series.astype(pd.ArrowDtype(pa.timestamp("s")))


def is_missing(series: pd.Series) -> NDArray[np.bool_]:
    """Return where values are missing; also at a NaN that its dtype has as a number."""
    missing: NDArray[np.bool_] = series.isna().to_numpy(dtype=bool, copy=True)
    if kind_of_dtype(series.dtype) == ("continuous", True):  # pandas' and Arrow's own
        missing |= np.isnan(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return missing


def float_info(dtype: Any) -> np.finfo[Any]:  # noqa: ANN401 - no stubs
    """Return how exact numbers of a dtype are; those that are no floats as doubles."""
    storage = getattr(dtype, "numpy_dtype", dtype)
    return np.finfo(storage if storage.kind == "f" else np.float64)


def type_of_objects(values: Any) -> ObjectType | None:  # noqa: ANN401 - no stubs
    """Return of which type object values are throughout; private as they are.

    It may decide an error, which only the curator sees, and nothing else.
    """
    types: dict[str, ObjectType]
    types = {"string": "str", "boolean": "bool", "empty": "nothing"}
    return types.get(pd.api.types.infer_dtype(values, skipna=True))


def is_object(dtype: Any) -> bool:  # noqa: ANN401 - no stubs
    """Return whether a dtype is NumPy's object, not one of pandas' string dtypes."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def column_kind(name: Hashable, series: pd.Series) -> tuple[Kind, bool]:
    """Return what `kind_of_dtype` says of a column; InvalidTableError if unsupported.

    Of values only objects are read, to refuse mixed ones.
    """
    dtype = series.dtype
    found = known_kind(name, dtype)
    if is_object(dtype) and type_of_objects(series) is None:
        # scikit-learn's check looks for "argument must be", "string" and "number".
        raise InvalidTableError(
            f"Column {name!r} has dtype object, but neither strings alone nor booleans "
            "alone. Every column of the argument must be one of strings, of booleans, "
            "or have a dtype of numbers or times; convert it first, for example by "
            "astype(str), convert_dtypes(), pd.to_numeric or pd.to_datetime."
        )
    if isinstance(dtype, pd.CategoricalDtype):
        categories = dtype.categories
        inner = kind_of_dtype(categories.dtype)
        mixed = is_object(categories.dtype) and type_of_objects(categories) is None
        if inner is None or inner[0] == "timedelta" or mixed:
            raise InvalidTableError(
                f"Column {name!r} is a category column whose categories are neither"
                " strings, booleans, numbers nor points in time throughout. Rename"
                " them first, for example by .cat.rename_categories(str)."
            )
    return found


def known_kind(name: Hashable, dtype: Any) -> tuple[Kind, bool]:  # noqa: ANN401
    """Return what `kind_of_dtype` says of a column; InvalidTableError if nothing."""
    found = kind_of_dtype(dtype)
    if found is not None:
        return found
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise InvalidTableError(
            f"Complex data not supported: column {name!r} has dtype {dtype}. Split it"
            " into a real and an imaginary column."
        )
    general = "convert it to numbers, strings, booleans or datetime64"
    remedy = _REMEDIES.get(type(dtype), general)
    if isinstance(dtype, np.dtype) and dtype.kind == "S":
        remedy = "bytes are decoded by astype(str)"
    raise InvalidTableError(
        f"Column {name!r} has dtype {dtype}, which is not supported; {remedy}."
    )


_TOLD = 0.1  # of a unit


def plain(value: Any) -> Any:  # noqa: ANN401 - any object may be a column name
    """Return the exact built-in scalar or Timestamp that a value equals.

    What a subclass adds, and the sign of a zero, stay behind: they could tell of a row.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    # The methods of the base classes: a subclass may have others.
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, datetime | np.datetime64):
        return value if kind is pd.Timestamp else pd.Timestamp(value)
    if issubclass(kind, np.generic):
        value = np.generic.item(value)
        kind = type(value)
    if issubclass(kind, int) and kind is not bool:
        return int.__int__(value)
    return float.__float__(value) + 0.0 if issubclass(kind, float) else value


def decimals_of(
    values: NDArray[np.float64], exact: float, most: int
) -> NDArray[np.uint8]:
    """Give the decimals with which each number is written; ``most + 1`` if it has more.

    `exact` is the machine epsilon of the dtype that held the numbers. A number so large
    that its dtype rounds a tenth of a unit counts only where it is exact.
    """
    found = np.full(values.shape, most + 1, dtype=np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in reversed(range(most + 1)):
            scaled = values * 10.0**decimals
            off, rounding = np.abs(scaled - np.rint(scaled)), exact * np.abs(scaled)
            found[(off <= rounding) & ((rounding < _TOLD) | (off == 0))] = decimals
    return found


def is_finite(value: object) -> bool:
    """Return False for infinite numbers, which no schema names as a category."""
    return not isinstance(value, float) or math.isfinite(value)
