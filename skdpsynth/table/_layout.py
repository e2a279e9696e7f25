"""The structure of a table: names, dtypes and kinds, without any of its values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.schema import Continuous, column_kind, decode_value, encode_value

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from skdpsynth.schema import Kind, TableSchema


# One name, and in brackets a unit and a zone: libraries parse, and compile, far more.
_PLAIN_DTYPE = re.compile(
    r"[<>|=]?[A-Za-z]\w{0,29}(\[\w{1,12}(, (tz=)?[\w+\-/:]{1,64})?\])?"
)


@dataclass(frozen=True)
class ColumnLayout:
    """The structure of one column; synthetic values come back in `dtype`.

    A category dtype holds none of its categories here, since they are data.
    """

    name: Hashable
    dtype: Any
    kind: Kind
    can_be_missing: bool

    @classmethod
    def of(cls, name: Hashable, series: pd.Series) -> ColumnLayout:
        """Read the layout off a column; raise InvalidTableError if unsupported."""
        kind, can_be_missing = column_kind(name, series)
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            empty = pd.Index([], dtype=dtype.categories.dtype)
            dtype = pd.CategoricalDtype(empty, ordered=dtype.ordered)
        return cls(name, dtype, kind, can_be_missing)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        name, dtype = encode_value(self.name), _encode_dtype(self.dtype)
        return {**vars(self), "name": name, "dtype": dtype}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ColumnLayout:
        """Rebuild the layout that `to_dict` wrote."""
        name, dtype = decode_value(data["name"]), _decode_dtype(data["dtype"])
        return cls(name, dtype, data["kind"], data["can_be_missing"])


@dataclass(frozen=True)
class TableLayout:
    """The structure of a table, in training order, and the form it was given in."""

    columns: tuple[ColumnLayout, ...]
    target: Hashable = None
    from_array: bool = False  # X was an array or a list
    y_given: bool = False  # the target came as `y`; it is then the last column
    measured: bool = False  # the target is a number, modelled as any column is

    @classmethod
    def of(
        cls,
        columns: tuple[ColumnLayout, ...],
        target: Hashable,
        schema: TableSchema | None,
        **form: bool,
    ) -> TableLayout:
        """Lay out a table; floats are numbers, and what a schema calls Continuous."""
        described = {} if schema is None else schema.columns
        kinds = {column.name: column.kind for column in columns}
        kind, given = kinds.get(target), described.get(target)
        measured = kind == "continuous" and given is None
        if isinstance(given, Continuous):
            measured = kind in ("continuous", "integer")
        return cls(columns, target, measured=measured, **form)

    @property
    def feature_columns(self) -> tuple[ColumnLayout, ...]:
        """All columns but the target."""
        target = self.target_column
        return tuple(column for column in self.columns if column is not target)

    @property
    def label_column(self) -> ColumnLayout | None:
        """The target if its values are classes, or None."""
        return None if self.measured else self.target_column

    @property
    def target_column(self) -> ColumnLayout | None:
        """The target, or None."""
        if self.target is None:
            return None
        # Found by hash: names of different types need not be comparable.
        return {column.name: column for column in self.columns}[self.target]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        columns = [column.to_dict() for column in self.columns]
        return {**vars(self), "columns": columns, "target": encode_value(self.target)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableLayout:
        """Rebuild the layout that `to_dict` wrote."""
        columns = tuple(ColumnLayout.from_dict(column) for column in data["columns"])
        target = decode_value(data["target"])
        forms = {name: data[name] for name in ("from_array", "y_given", "measured")}
        return cls(columns, target, **forms)


def _encode_dtype(dtype: Any) -> dict[str, Any]:  # noqa: ANN401 - no stubs
    if isinstance(dtype, np.dtype):
        return {"numpy": dtype.str}
    if isinstance(dtype, pd.CategoricalDtype):
        inner = _encode_dtype(dtype.categories.dtype)
        return {"category": inner, "ordered": bool(dtype.ordered)}
    if isinstance(dtype, pd.StringDtype):
        # Two string dtypes share each storage: one with NaN and one with pd.NA.
        return {"string": dtype.storage, "nan": dtype.na_value is not pd.NA}
    if isinstance(dtype, pd.ArrowDtype):
        return {"arrow": str(dtype.pyarrow_dtype)}
    return {"pandas": str(dtype)}


def _decode_dtype(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - no stubs
    """Undo `_encode_dtype`; the names in a file may be a stranger's."""
    for library in {"numpy", "string", "arrow", "pandas"} & set(data):
        if not _PLAIN_DTYPE.fullmatch(data[library]):
            raise ValueError("a dtype of another kind")
    if "numpy" in data:
        return np.dtype(data["numpy"])
    if "category" in data:
        empty = pd.Index([], dtype=_decode_dtype(data["category"]))
        return pd.CategoricalDtype(empty, ordered=data["ordered"])
    if "string" in data:
        if data["nan"]:
            return pd.StringDtype(data["string"], na_value=np.nan)
        return pd.StringDtype(data["string"])
    if "arrow" in data:
        if data["arrow"] == "string":  # "string[pyarrow]" names the other dtype
            import pyarrow as pa

            return pd.ArrowDtype(pa.string())
        return pd.api.types.pandas_dtype(f"{data['arrow']}[pyarrow]")
    return pd.api.types.pandas_dtype(data["pandas"])
