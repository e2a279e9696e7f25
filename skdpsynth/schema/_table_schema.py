"""`TableSchema`: the columns of a table, its target and its public counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema._columns import (
    EXACT,
    MOST_BOUGHT,
    SECONDS_OF,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Unit,
    blank_hint,
    column_from_dict,
    column_to_dict,
)
from skdpsynth.schema._dtypes import (
    column_kind,
    is_missing,
    is_object,
    known_kind,
    type_of_objects,
)
from skdpsynth.schema._values import decimals_of, decode_value, encode_value, plain


@dataclass(frozen=True, repr=False)
class TableSchema:
    """The public facts about a table.

    Columns that are left out are learned from the table, at a price in budget.

    Parameters
    ----------
    columns : mapping of column name to column
        `Continuous`, `Categorical`, `Boolean`, `Datetime` or `Identifier` objects.
    target : column name or None, default=None
        The label column: a categorical or boolean one of `columns`, or a column that
        they leave out, whose labels are then learned.
    n_rows : int or None, default=None
        Number of rows if it is public, positive.
    class_counts : mapping of class to int, or None, default=None
        Rows per class if they are public: one count >= 0 for each category of the
        target. They add up to `n_rows` if both are given; to at most `n_rows` if the
        target is nullable.

    Raises
    ------
    InvalidSchemaError
        If the facts contradict each other.

    See Also
    --------
    Continuous, Categorical, Boolean, Datetime, Identifier : The kinds of columns.

    Examples
    --------
    >>> from skdpsynth.schema import Boolean, Continuous, TableSchema
    >>> TableSchema({"age": Continuous(17, 90), "sick": Boolean()}, target="sick")
    TableSchema(
        {
            'age': Continuous(17, 90),
            'sick': Boolean(),
        },
        target='sick',
    )
    """

    columns: Mapping[Hashable, Column]
    _: KW_ONLY
    target: Hashable = None
    n_rows: int | None = None
    class_counts: Mapping[Hashable, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InvalidSchemaError(
                "The 'columns' of TableSchema must be a mapping from column name to"
                f" column. Got an object of type {type(self.columns).__name__}."
            )
        for name, column in self.columns.items():
            if not isinstance(column, Column):
                raise InvalidSchemaError(
                    f"Column {name!r} of TableSchema must be a Continuous, Categorical,"
                    f" Boolean, Datetime or Identifier. Got {column!r} instead."
                )
        object.__setattr__(self, "columns", dict(self.columns))
        if self.n_rows is not None:
            n_rows = plain(self.n_rows)
            if type(n_rows) is not int or n_rows <= 0:
                raise InvalidSchemaError(
                    "The 'n_rows' of TableSchema must be a positive int or None."
                    f" Got {n_rows!r} instead."
                )
            object.__setattr__(self, "n_rows", n_rows)
        if self.target is not None:
            self._check_target()
        if self.class_counts is not None:
            object.__setattr__(self, "class_counts", self._checked_class_counts())

    def _check_target(self) -> None:
        blank = blank_hint(self.target)
        if blank:
            raise InvalidSchemaError(
                f"The 'target' of TableSchema must be a column name.{blank}"
            )
        column = self.columns.get(self.target)
        if not (column is None or isinstance(column, Categorical | Boolean)):
            raise InvalidSchemaError(
                f"The target column {self.target!r} must be Categorical or Boolean."
                f" Got {column!r} instead; use target=None if it is a measurement."
            )

    def _checked_class_counts(self) -> dict[Hashable, int]:
        if self.target is None:
            raise InvalidSchemaError(
                "The 'class_counts' of TableSchema need a target. Name it by target=."
            )
        if self.target not in self.columns:
            raise InvalidSchemaError(
                "The 'class_counts' of TableSchema need a description of the target"
                f" {self.target!r}. Add it to the columns."
            )
        column = self.columns[self.target]
        levels = column.categories if isinstance(column, Categorical) else (False, True)
        if not isinstance(self.class_counts, Mapping):
            raise InvalidSchemaError(
                "The 'class_counts' of TableSchema must be a mapping from class to"
                f" count. Got an object of type {type(self.class_counts).__name__}."
            )
        given = {plain(key): plain(n) for key, n in self.class_counts.items()}
        if set(given) != set(levels):
            raise InvalidSchemaError(
                "The keys of 'class_counts' must be the categories of the target"
                f" {self.target!r}: expected {list(levels)!r}, got {list(given)!r}."
            )
        for key, count in given.items():
            if type(count) is not int or count < 0:
                raise InvalidSchemaError(
                    f"The count of class {key!r} in 'class_counts' must be an int >= 0."
                    f" Got {count!r} instead."
                )
        total = sum(given.values())
        nullable = isinstance(column, Categorical | Boolean) and column.nullable
        if self.n_rows is not None and (
            total > self.n_rows or (total < self.n_rows and not nullable)
        ):
            raise InvalidSchemaError(
                f"The 'class_counts' of TableSchema add up to {total}, but 'n_rows' is"
                f" {self.n_rows}. Correct one, or give only one of the two."
            )
        return given

    def __repr__(self) -> str:
        options = [
            f"{name}={getattr(self, name)!r}"
            for name in ("target", "n_rows", "class_counts")
            if getattr(self, name) is not None
        ]
        return _code({k: repr(v) for k, v in self.columns.items()}, options)

    @staticmethod
    def template(df: pd.DataFrame) -> str:
        """Return schema code for a private table, with blanks to fill.

        Parameters
        ----------
        df : DataFrame
            Only its column names and dtypes are read, never a value. The categories
            of a category column are values.

        Returns
        -------
        code : str
            Python code with ``...`` where a public fact is to be filled in. A
            column whose line is deleted is learned at a price in budget.

        Raises
        ------
        InvalidTableError
            If `df` is not a DataFrame or a dtype cannot be modelled.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdpsynth.schema import TableSchema
        >>> print(TableSchema.template(pd.DataFrame({"age": [31, 47]})))
        schema = TableSchema(
            {
                'age': Continuous(..., ..., integer=True),
            },
            target=...,
        )
        """
        _check_frame(df)
        lines = {name: _blank_column(name, dtype) for name, dtype in df.dtypes.items()}
        return f"schema = {_code(lines, ['target=...'])}"

    @classmethod
    def from_dataframe(
        cls, public_df: pd.DataFrame, *, target: Hashable = None
    ) -> TableSchema:
        """Read the schema off a table that is public.

        .. warning::
            Bounds, categories and missing values are copied exactly. Never pass the
            private table, nor a part of it: the guarantee of a synthesizer would not
            cover what the schema tells. Use `template` there.

        Parameters
        ----------
        public_df : DataFrame
            A public table with the columns of the private one, for example last
            year's published file.
        target : column name or None, default=None
            The label column; it becomes categorical whatever its dtype.

        Returns
        -------
        schema : TableSchema
            One column for each of the table. `n_rows` and `class_counts` are left
            None: those of another table say nothing.

        Raises
        ------
        InvalidTableError
            If a dtype cannot be modelled, a value is infinite, or the target is
            absent or a float column.
        """
        _check_frame(public_df)
        if target is not None and target not in public_df.columns:
            raise InvalidTableError(
                f"The target {target!r} is not a column of the table."
            )
        table = public_df.items()
        columns = {k: _described(k, v, is_target={k} == {target}) for k, v in table}
        return cls(columns, target=target)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form of the schema.

        Returns
        -------
        data : dict
            Holds dict, list, str, int, float, bool and None only.
        """
        counts = self.class_counts
        return {
            "columns": [
                [encode_value(k), column_to_dict(c)] for k, c in self.columns.items()
            ],
            "target": encode_value(self.target),
            "n_rows": self.n_rows,
            "class_counts": None
            if counts is None
            else [[encode_value(key), count] for key, count in counts.items()],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableSchema:
        """Rebuild the schema that `to_dict` wrote.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned, possibly after a trip through JSON.

        Returns
        -------
        schema : TableSchema
            Equal to the original.

        Raises
        ------
        InvalidSchemaError
            If `data` has another form.
        """
        try:
            counts = data["class_counts"]
            return cls(
                {
                    decode_value(name): column_from_dict(column)
                    for name, column in data["columns"]
                },
                target=decode_value(data["target"]),
                n_rows=data["n_rows"],
                class_counts=None
                if counts is None
                else {decode_value(key): count for key, count in counts},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidSchemaError(
                "Expected a dictionary written by TableSchema.to_dict, but parts of it"
                " are absent or of another type."
            ) from error


def _check_frame(df: object) -> None:
    if not isinstance(df, pd.DataFrame):
        raise InvalidTableError(f"Expected a DataFrame. Got {type(df).__name__}.")
    if not df.columns.is_unique or isinstance(df.columns, pd.MultiIndex):
        raise InvalidTableError(
            "Expected distinct column names on one level; rename the columns."
        )


def _code(columns: Mapping[Hashable, str], options: Iterable[str]) -> str:
    lines = ["TableSchema(", "    {"]
    lines += [f"        {name!r}: {column}," for name, column in columns.items()]
    lines += ["    },", *(f"    {option}," for option in options), ")"]
    return "\n".join(lines)


def _blank_column(name: Hashable, dtype: Any) -> str:  # noqa: ANN401 - no stubs
    """Return the code of a column, from its dtype alone."""
    kind, can_be_missing = known_kind(name, dtype)
    parts = {"categorical": ["[...]"], "boolean": []}.get(kind, ["...", "..."])
    if kind == "integer":
        parts.append("integer=True")
    if kind == "categorical" and getattr(dtype, "ordered", False):
        parts.append("ordered=True")
    if can_be_missing:
        parts.append("nullable=...")
    names = {"categorical": "Categorical", "boolean": "Boolean", "datetime": "Datetime"}
    return f"{names.get(kind, 'Continuous')}({', '.join(parts)})"


def _common_unit(present: pd.Series) -> Unit | None:
    """Return the coarsest unit of which all points in time are whole multiples."""
    # An index: before pandas 3 a column of Arrow loses its zone along with its clock.
    clock = pd.DatetimeIndex(present).tz_localize(None)
    for unit in SECONDS_OF if len(present) else ():
        if (clock == clock.floor(unit)).all():
            return cast("Unit", unit)
    return None


def _common_decimals(present: pd.Series, *bounds: float) -> int | Literal["any"]:
    """Return the fewest decimals that all numbers have; "any" for more than 4."""
    storage = getattr(present.dtype, "numpy_dtype", present.dtype)
    exact = float(np.finfo(storage if storage.kind == "f" else np.float64).eps)
    values = present.to_numpy(dtype=np.float64)
    found = decimals_of(values, exact, MOST_BOUGHT).max(initial=0)
    large = max(abs(float(bound)) for bound in bounds) * 10.0**found >= EXACT
    return "any" if found > MOST_BOUGHT or large else int(found)


def _described(name: Hashable, series: pd.Series, *, is_target: bool) -> Column:
    """Describe a column of a public table exactly."""
    kind, _ = column_kind(name, series)
    if is_object(series.dtype) and type_of_objects(series) == "bool":
        kind = "boolean"  # the table is public, and so are its values
    present = series[~is_missing(series)]
    nullable = len(present) < len(series)
    if is_target and kind in ("continuous", "timedelta"):
        raise InvalidTableError(
            f"The target {name!r} has dtype {series.dtype}, but classes must be"
            " strings, integers or booleans. Cast it, or use target=None if it is a"
            " measurement."
        )
    if kind == "boolean":
        return Boolean(nullable=nullable)
    if kind == "categorical" or is_target:
        if isinstance(series.dtype, pd.CategoricalDtype):
            levels, ordered = series.cat.categories.tolist(), series.cat.ordered
        else:
            levels, ordered = sorted({plain(level) for level in present}), False
        nullable = nullable or not levels
        return Categorical(levels, ordered=ordered, nullable=nullable)
    if kind == "timedelta":
        present = present.dt.total_seconds()
    if kind == "datetime":
        # A column without values gets a bound all the same: nothing will be clipped.
        bounds = (present.min(), present.max()) if len(present) else ("1970", "1970")
        return Datetime(*bounds, nullable=nullable, unit=_common_unit(present))
    low, high = (present.min(), present.max()) if len(present) else (0, 0)
    try:
        decimals = None if kind == "integer" else _common_decimals(present, low, high)
        return Continuous(
            plain(low),
            plain(high),
            integer=kind == "integer",
            nullable=nullable,
            decimals=decimals,
        )
    except InvalidSchemaError as error:
        raise InvalidTableError(
            f"Column {name!r} holds an infinite value; replace it."
        ) from error
