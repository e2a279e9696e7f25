"""Whether a description can be about a column, by its dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    family,
)
from skdpsynth.schema._dtypes import column_kind, is_object, type_of_objects

if TYPE_CHECKING:
    from collections.abc import Hashable

    from skdpsynth.schema._dtypes import Kind

# The type that categories must have to be values of a column of some kind.
_FAMILY_OF = {
    "categorical": "str",
    "boolean": "bool",
    "integer": "number",
    "continuous": "number",
    "datetime": "Timestamp",
}
# Which kinds of column a description may stand for.
_KINDS_OF: dict[type[Column], set[str]] = {
    Continuous: {"continuous", "integer", "timedelta"},
    Categorical: {*_FAMILY_OF},
    Boolean: {"boolean"},
    Datetime: {"datetime"},
    Identifier: {*_FAMILY_OF, "timedelta"},
}


def check_dtype(
    described: Column,
    name: Hashable,
    dtype: Any,  # noqa: ANN401 - no stubs
    kind: Kind,
    can_be_missing: bool,
) -> None:
    """Refuse a description that cannot be about a column, whatever its values."""
    if kind not in _KINDS_OF[type(described)]:
        hint = ""
        if isinstance(described, Boolean):
            hint = " For whole numbers 0 and 1 use Categorical([0, 1])."
        raise InvalidSchemaError(
            f"The schema describes column {name!r} as {type(described).__name__}, but"
            f" its dtype {dtype} is {kind}. Convert the column or correct the"
            f" schema.{hint}"
        )
    if isinstance(described, Categorical) and described.categories:
        _check_levels(described, name, dtype, kind)
    elif isinstance(described, Categorical) and not can_be_missing:
        raise InvalidSchemaError(
            f"The schema gives column {name!r} no categories, but its dtype {dtype}"
            " has no missing value either. Name its categories."
        )


def _check_levels(
    described: Categorical,
    name: Hashable,
    dtype: Any,  # noqa: ANN401 - no stubs
    kind: Kind,
) -> None:
    """Refuse categories that are no values of the column's dtype."""
    given = family(described.categories[0])
    expected, inner = _FAMILY_OF[kind], dtype
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories is None:  # "category" of a plan: nothing to compare
            return
        inner = dtype.categories.dtype
        expected = _FAMILY_OF[column_kind(None, pd.Series(dtype=inner))[0]]
    # Objects may be strings or booleans: their dtype does not tell.
    if is_object(inner) and given == "bool":
        expected = "bool"
    if given != expected:
        raise InvalidSchemaError(
            f"The schema gives column {name!r} categories of type {given}, but its"
            f" dtype {dtype} holds values of type {expected}. Convert the column or"
            " correct the categories."
        )
    if kind == "integer":
        limits = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
        for level in described.categories:
            if level != int(level) or not limits.min <= level <= limits.max:
                raise InvalidSchemaError(
                    f"The category {level!r} of column {name!r} is no value of its"
                    f" dtype {dtype}. Convert the column or correct the category."
                )


def check_objects(described: Column, name: Hashable, series: pd.Series) -> None:
    """Refuse objects of another type than the schema says.

    Like every error, this one is for the curator, and not covered by the guarantee.
    """
    if not is_object(series.dtype):
        return
    given = None
    if isinstance(described, Boolean):
        given = "bool"
    elif isinstance(described, Categorical) and described.categories:
        given = family(described.categories[0])
    if given is not None and type_of_objects(series) not in (given, "nothing"):
        raise InvalidSchemaError(
            f"The schema gives column {name!r} values of type {given}, but its dtype"
            " object holds values of another type. Convert the column or correct the"
            " schema."
        )
