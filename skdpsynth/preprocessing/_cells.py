"""From the text of a cell to a typed value: each cell alone, and exactly.

A reader of text files delivers cells. What a cell becomes follows from its own text and
from what a schema states of its column, so no other row has a say in it: no values
choose a dtype, and no number passes through a type that would round it. The arrays that
come out are typed, and from there on a cell is treated as one of a typed source.

Arrow's parsers are given cells of plain forms only, which they read as the functions
for one cell do. All others go through these functions, each distinct text once.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from skdpsynth.schema._columns import family

if TYPE_CHECKING:
    from collections.abc import Callable

# What stands for a missing value in every column: the texts of `pandas.read_csv`.
MISSING_TEXTS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
    *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
_TRUTHS = ("false", "true")
_HOLDS = {"continuous": "number", "boolean": "bool", "datetime": "Timestamp"}

# Plain forms, for Arrow. They have no number that overflows, which its versions treat
# differently, and no sign or base that one parser alone knows.
_PLAIN_WHOLE = r"^-?[0-9]{1,18}$"
_PLAIN_NUMBER = r"^-?[0-9]{1,20}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,2})?$"
_PLAIN_TIME = (
    r"^[1-2][0-9]{3}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}"
    r"(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"
)
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})$"

# What a number is: as a float literal in ASCII. Python's own parsers take more.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"([0-9]{4})(?:([-/.])([0-9]{2})(?:\2([0-9]{2}))?)?", re.ASCII)


def is_value(name: str) -> bool:
    """Tell whether the name of a column is a number or a time, as values are."""
    text = name.strip()
    return bool(_NUMBER.fullmatch(text) or re.match(_PLAIN_TIME, text))


def typed_cells(
    cells: Any,  # noqa: ANN401 - no stubs
    column: Any,  # noqa: ANN401 - a Column, or what a template states of one
    *,
    rounded: bool = True,
) -> pd.Series:
    """Read the cells of a column as what a schema says of it.

    Parameters
    ----------
    cells : Array or ChunkedArray of pyarrow, of texts
        Null where a cell is missing.
    column : Column
        Public. Numbers become float64, whole ones Int64, truth values boolean, times
        datetime64[us], and all else is text.
    rounded : bool, default=True
        Whether a fraction is rounded, half to even, in a column of whole numbers; if
        not, it makes floats of the column.

    Returns
    -------
    Series

    Raises
    ------
    ValueError
        If a cell is of another kind. Its words hold the cell.
    """
    levels = getattr(column, "categories", ())
    holds = family(levels[0]) if levels else _HOLDS.get(column.tag)
    if holds == "bool":
        return _masked(_truths(_trimmed(cells)), pd.arrays.BooleanArray, False)
    if holds == "Timestamp":
        zone = getattr(getattr(column, "low", *levels[:1]), "tzinfo", None)
        return _moments(_trimmed(cells), zone)
    if holds != "number":
        return _texts(cells)
    trimmed = _trimmed(cells)
    whole = getattr(column, "integer", all(level % 1 == 0 for level in levels))
    if whole and (rounded or not _has_fraction(trimmed)):
        return _masked(_whole_numbers(trimmed), pd.arrays.IntegerArray, 0)
    numbers = _parsed(trimmed, _PLAIN_NUMBER, pa.float64(), _number)
    return pd.Series(numbers.to_numpy(zero_copy_only=False))


# --- One cell ---------------------------------------------------------------------


def _number(text: str) -> float:
    """Read a number, correctly rounded to a double."""
    if not (_NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        raise ValueError("no number")
    return float(text)


def _whole_number(text: str) -> int:
    """Read a number, rounded half to even, exactly; 64 bits must hold it."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    try:
        number = Decimal(text)
    except InvalidOperation as error:  # an exponent of twenty digits
        raise ValueError("a number beyond 64 bits") from error
    if not number:
        return 0
    if number.adjusted() > 18:  # before an exponent is written out
        raise ValueError("a number beyond 64 bits")
    whole = int(number.to_integral_value(ROUND_HALF_EVEN))
    if not -(2**63) <= whole < 2**63:
        raise ValueError("a number beyond 64 bits")
    return whole


def _moment(text: str) -> datetime:
    """Read a time in the forms of ISO 8601; a date may lack its day and month."""
    found = _DATE.match(text)
    if found:
        year, _, month, day = found.groups()
        rest = text[found.end() :]
        if month is None and rest[:1].isdigit():  # the form without separators
            return datetime.fromisoformat(text)
        text = f"{year}-{month or '01'}-{day or '01'}{rest}"
    return datetime.fromisoformat(text)


def _naive(text: str) -> datetime:
    moment = _moment(text)
    if moment.tzinfo is not None:
        raise ValueError("a time with a zone")
    return moment


def _aware(text: str) -> datetime:
    """Read a time; one without a zone is in UTC."""
    moment = _moment(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


# --- Columns of cells -------------------------------------------------------------


def _trimmed(cells: Any) -> Any:  # noqa: ANN401 - no stubs
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    return pc.ascii_trim_whitespace(cells)


def _parsed(
    cells: Any,  # noqa: ANN401 - no stubs
    plain: str,
    kind: Any,  # noqa: ANN401 - no stubs
    one: Callable[[str], Any],
) -> Any:  # noqa: ANN401
    """Let Arrow parse the cells of a plain form, and `one` each other text."""
    others = pc.invert(pc.match_substring_regex(cells, plain))
    if not pc.any(others).as_py():
        return cells.cast(kind)
    others = pc.fill_null(others, False)
    odd = cells.filter(others).dictionary_encode()
    values = pa.array(map(one, odd.dictionary.to_pylist()), kind)
    parsed = pc.if_else(others, None, cells).cast(kind)
    return pc.replace_with_mask(parsed, others, values.take(odd.indices))


def _whole_numbers(cells: Any) -> Any:  # noqa: ANN401 - no stubs
    if not pc.all(pc.match_substring_regex(cells, _PLAIN_WHOLE)).as_py():
        # Whole numbers beside missing ones are often written with a zero behind.
        cells = pc.replace_substring_regex(cells, r"^(-?[0-9]+)\.0*$", r"\1")
    return _parsed(cells, _PLAIN_WHOLE, pa.int64(), _whole_number)


def _has_fraction(cells: Any) -> bool:  # noqa: ANN401 - no stubs
    others = pc.invert(pc.match_substring_regex(cells, _PLAIN_WHOLE))
    return any(
        not _NUMBER.fullmatch(text) or float(text) % 1 != 0
        for text in cells.filter(others).unique().to_pylist()
    )


def _truths(cells: Any) -> Any:  # noqa: ANN401 - no stubs
    kind = cells.type
    places = pc.index_in(pc.ascii_lower(cells), value_set=pa.array(_TRUTHS, kind))
    if places.null_count > cells.null_count:
        raise ValueError("neither true nor false")
    return places.cast(pa.bool_())


def _moments(cells: Any, zone: Any) -> pd.Series:  # noqa: ANN401 - no stubs
    if zone is None:
        parsed = _parsed(cells, f"{_PLAIN_TIME}$", pa.timestamp("us"), _naive)
        return pd.Series(parsed.to_numpy(zero_copy_only=False))
    # Arrow knows a zone behind a time of day only, and takes no other time beside it.
    form = _PLAIN_TIME.removesuffix("?") + _ZONE
    parsed = _parsed(cells, form, pa.timestamp("us", "UTC"), _aware)
    moments = pd.DatetimeIndex(
        parsed.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    )
    return pd.Series(moments.tz_localize("UTC").tz_convert(zone))


def _texts(cells: Any) -> pd.Series:  # noqa: ANN401 - no stubs
    """Give texts as pandas reads them: objects before its version 3."""
    dtype = pd.Series(dtype=str).dtype
    if isinstance(dtype, pd.StringDtype):
        return pd.Series(dtype.__from_arrow__(cells))
    return cells.to_pandas().astype(object)


def _masked(values: Any, kind: Any, fill: Any) -> pd.Series:  # noqa: ANN401 - no stubs
    """Give an array of Arrow as one of pandas with a mask."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    filled = values.fill_null(fill).to_numpy(zero_copy_only=False)
    return pd.Series(kind(np.array(filled), np.array(missing)))
