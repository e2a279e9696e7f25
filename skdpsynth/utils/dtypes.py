"""What a dtype is, of NumPy, pandas or Arrow, and plain values of cells and names."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Hashable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.utils.arrays import Bools, Floats

Dtype = Any  # of NumPy, pandas or Arrow, which share no class

Kind = Literal[
    "continuous", "integer", "boolean", "categorical", "datetime", "timedelta"
]

# By the character that NumPy has for a dtype, or pandas for its own.
_KINDS: dict[str, Kind] = {
    "f": "continuous",
    "i": "integer",
    "u": "integer",
    "b": "boolean",
    "O": "categorical",
    "M": "datetime",
    "m": "timedelta",
}
_OWN_DTYPES = pd.CategoricalDtype | pd.StringDtype | pd.DatetimeTZDtype
_REMEDIES = {
    pd.PeriodDtype: "convert it by .dt.to_timestamp()",
    pd.IntervalDtype: "convert it by astype(str), or keep the two ends as columns",
    pd.SparseDtype: "convert it by .sparse.to_dense()",
}
# By the name of the question in `pyarrow.types`.
_REMEDIES_OF_ARROW = {
    "is_dictionary": "cast it to the type of its values",
    "is_decimal": "cast it to float64",
    "is_date": "cast it to date32 or to a timestamp",
    "is_time": "cast it to text or to a number",
    "is_interval": "cast it to a number",
    "is_null": "leave it out, or cast it to the type that its values would have",
    "is_nested": "put what it holds into columns of their own",
}
# What converts a column of objects, by the types that it holds; others become texts.
_CONVERSIONS: dict[tuple[type, ...], str] = {
    (date, datetime, pd.Timestamp): "pd.to_datetime({})",
    (timedelta, pd.Timedelta): "pd.to_timedelta({})",
    (time,): "pd.to_timedelta({}.map(str, na_action='ignore'))",
    (Decimal,): "{}.astype(float)",
    (bytes,): "{}.str.decode('utf-8')",
    (int, float, np.int64, np.float64): "{}.convert_dtypes()",
    (list, tuple): "pd.DataFrame([*{}]), whose columns take its place",
    (dict,): "pd.json_normalize({}), whose columns take its place",
}
# One name, and in brackets a unit and a zone: libraries parse, and compile, far more.
_PLAIN_DTYPE = re.compile(
    r"[<>|=]?[A-Za-z]\w{0,29}(\[\w{1,12}(, (tz=)?[\w+\-/:]{1,64})?\])?"
)
#: Whole numbers below it are floats.
EXACT = float(sys.float_info.radix**sys.float_info.mant_dig)
#: Texts such as "13:45", "1:23:45" and "1 days 02:03:04", and what converts them.
CLOCK = r"([-+]?\d+ days?,? )?[-+]?\d+:\d\d(:\d\d(\.\d+)?)?"
OF_CLOCKS = 'pd.to_timedelta(...), after appending ":00" to what is like "13:45"'
#: Public units of numbers, in which no other word of a cell is shown.
_UNIT = (
    "(?:[nuµμmcdhkMGT]?(?:Pa|Hz|Wh|eV|Nm|mol|bar|cal|eq|IU|[gmlLtshdAVWJNU])|°[CF]?|K|%"
    "|in|ft|yd|mi|oz|lbs?|mph|kn|psi|dB|bpm|rpm|pp[mb]|px|pcs|mm ?Hg|min|hrs?|minutes"
    "|hours|days|weeks|months|years|yrs|Jahre|Tage|Stunden|Stk|ans|jours)[²³23]?"
)
UNITS = f"{_UNIT}(?:/{_UNIT})*"


def kind_of_dtype(dtype: Dtype) -> tuple[Kind, bool] | None:
    """Return the kind of a dtype and whether it has a missing value; or None."""
    # Whether objects are booleans is a question about values.
    if isinstance(dtype, pd.ArrowDtype):
        # To pandas what Arrow nests, and decimals, are objects.
        known = "O" if pa.types.is_date64(dtype.pyarrow_dtype) else dtype.kind
        known = {"U": "O", "O": ""}.get(known, known)
    elif isinstance(dtype, np.dtype | _OWN_DTYPES) or hasattr(dtype, "numpy_dtype"):
        known = dtype.kind
    else:
        return None
    kind = _KINDS.get(known)
    can_be_missing = not isinstance(dtype, np.dtype) or known not in "iub"
    return None if kind is None else (kind, can_be_missing)


def known_kind(name: Hashable, dtype: Dtype) -> tuple[Kind, bool]:
    """Return what `kind_of_dtype` says of a column; InvalidTableError if nothing."""
    if (found := kind_of_dtype(dtype)) is None:
        raise unsupported(name, dtype)
    return found


def unsupported(name: Hashable, dtype: Dtype) -> InvalidTableError:
    """Return the error about a column of a dtype that is not modelled."""
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        asked = _REMEDIES_OF_ARROW.items()
        remedies = (remedy for ask, remedy in asked if getattr(pa.types, ask)(kind))
        remedy = next(remedies, "cast it to numbers, text, booleans or timestamps")
        what = f"the Arrow type {kind}"
    elif isinstance(dtype, np.dtype) and dtype.kind == "c":
        return InvalidTableError(
            f"Complex data not supported: column {name!r} has dtype {dtype}. Split it"
            " into a real and an imaginary column."
        )
    else:
        general = "convert it to numbers, strings, booleans or datetime64"
        remedy, what = _REMEDIES.get(type(dtype), general), f"dtype {dtype}"
        if isinstance(dtype, np.dtype) and dtype.kind == "S":
            remedy = "bytes are decoded by astype(str)"
    return InvalidTableError(
        f"Column {name!r} has {what}, which is not supported; {remedy}."
    )


def conversion_of(name: Hashable, types: set[type]) -> str:
    """Return what converts a column of objects of some types."""
    known = (way for kinds, way in _CONVERSIONS.items() if types <= set(kinds))
    return next(known, "{}.astype('string')").format(f"table[{name!r}]")


def encode_dtype(dtype: Dtype) -> dict[str, Any]:
    """Return a JSON-safe form of a dtype, without categories."""
    if isinstance(dtype, np.dtype):
        return {"numpy": dtype.str}
    if isinstance(dtype, pd.CategoricalDtype):
        inner = encode_dtype(dtype.categories.dtype)
        return {"category": inner, "ordered": bool(dtype.ordered)}
    if isinstance(dtype, pd.StringDtype):
        # Two string dtypes share each storage: one with NaN and one with pd.NA.
        return {"string": dtype.storage, "nan": dtype.na_value is not pd.NA}
    if isinstance(dtype, pd.ArrowDtype):
        return {"arrow": str(dtype.pyarrow_dtype)}
    return {"pandas": str(dtype)}


def decode_dtype(data: Mapping[str, Any]) -> Dtype:
    """Undo `encode_dtype`; the names in a file may be a stranger's."""
    for library in {"numpy", "string", "arrow", "pandas"} & set(data):
        known = _PLAIN_DTYPE.fullmatch(data[library])
        if not known or "dateutil" in data[library]:  # a zone in a file on this disk
            raise ValueError("a dtype of another kind")
    if "numpy" in data:
        return np.dtype(data["numpy"])
    if "category" in data:
        return without_categories(decode_dtype(data["category"]), data["ordered"])
    if "string" in data:
        own = {"na_value": np.nan} if data["nan"] else {}
        return pd.StringDtype(data["string"], **own)
    if "arrow" in data:
        if data["arrow"] == "string":  # "string[pyarrow]" names the other dtype
            return pd.ArrowDtype(pa.string())
        return pd.api.types.pandas_dtype(f"{data['arrow']}[pyarrow]")
    return pd.api.types.pandas_dtype(data["pandas"])


def without_categories(inner: Dtype, ordered: bool) -> pd.CategoricalDtype:
    """Return a category dtype of no category yet, whose values have a dtype."""
    return pd.CategoricalDtype(pd.Index([], dtype=inner), ordered=ordered)


def zone_of(dtype: Dtype) -> Any:  # noqa: ANN401 - no stubs
    """Return the time zone of a dtype, None where it has none."""
    return getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None)


def is_date(dtype: Dtype) -> bool:
    """Return whether a dtype is Arrow's of whole days, which polars calls Date."""
    of_arrow = isinstance(dtype, pd.ArrowDtype)
    return of_arrow and bool(pa.types.is_date32(dtype.pyarrow_dtype))


def is_object(dtype: Dtype) -> bool:
    """Return whether a dtype is NumPy's object, not one of pandas' string dtypes."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def float_info(dtype: Dtype) -> np.finfo[Any]:
    """Return how exact numbers of a dtype are; those that are no floats as doubles."""
    storage: Any = getattr(dtype, "numpy_dtype", dtype)
    return np.finfo(storage if storage.kind == "f" else np.float64)


def type_of_objects(values: Any) -> str | None:  # noqa: ANN401 - no stubs
    """Return of which type objects are throughout: private, so only for an error."""
    types = {"string": "str", "boolean": "bool", "empty": "nothing"}
    return types.get(pd.api.types.infer_dtype(values, skipna=True))


def is_missing(series: pd.Series) -> Bools:
    """Return where values are missing; also at a NaN that its dtype has as a number."""
    missing: Bools = series.isna().to_numpy(dtype=bool, copy=True)
    if kind_of_dtype(series.dtype) == ("continuous", True):  # pandas' and Arrow's own
        missing |= np.isnan(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return missing


def as_moments(series: pd.Series) -> pd.Series:
    """Return Arrow's dates as points in time; any other column as it is."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if not is_date(dtype):
        return series
    return series.astype(dtype).astype(pd.ArrowDtype(pa.timestamp("s")))


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


def is_finite(value: object) -> bool:
    """Return False for infinite numbers, which no schema names as a category."""
    return not isinstance(value, float) or math.isfinite(value)


def decimals_of(values: Floats, exact: float, most: int) -> NDArray[np.uint8]:
    """Return the decimals that each number is written with; ``most + 1`` if more.

    `exact` is the machine epsilon of the dtype that held the numbers. A number so large
    that its dtype rounds a tenth of a unit counts only where it is exact.
    """
    found = np.full(values.shape, most + 1, dtype=np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in reversed(range(most + 1)):
            scaled = values * 10.0**decimals
            off, rounding = np.abs(scaled - np.rint(scaled)), exact * np.abs(scaled)
            found[(off <= rounding) & ((rounding < 0.1) | (off == 0))] = decimals
    return found


def same_name(first: Hashable, second: Hashable) -> bool:
    """Return whether two column names are one for a dict; any hashable may be a name.

    By hash first: a NaN is unequal to itself, and NA is neither equal nor unequal.
    """
    return {first} == {second}
