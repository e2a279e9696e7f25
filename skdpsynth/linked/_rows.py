"""One table whose units have rows in order, as two tables: units, and their rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from skdpsynth.linked._schema import LinkedSchema, of_rows_alone
from skdpsynth.privacy import Parts
from skdpsynth.schema import TableSchema, decode_value, encode_value
from skdpsynth.table import open_table
from skdpsynth.utils.arrays import Ints
from skdpsynth.utils.dtypes import is_missing


class Rows(NamedTuple):
    """The form of a table that is parted into those of `LinkedSchema.of_rows`."""

    schema: TableSchema
    columns: Sequence[Hashable]  # in order
    container: str

    @classmethod
    def parted(cls, X: object, schema: TableSchema) -> tuple[Rows, dict[str, Any]]:
        """Read a table; rows without a unit are left out, in silence."""
        rows, layout = open_table(X, schema=of_rows_alone(schema))
        frame = pd.concat([*rows.each()]) if isinstance(rows, Parts) else rows
        frame = frame[~is_missing(frame[schema.privacy_unit])]
        of_units = [schema.privacy_unit, *schema.per_unit]
        tables = frame[of_units], frame.drop(columns=[*schema.per_unit])
        names = LinkedSchema.of_rows(schema).tables
        columns = [column.name for column in layout.columns]
        form = cls(schema, columns, layout.container)
        return form, dict(zip(names, tables, strict=True))

    def joined(
        self, units: pd.DataFrame, rows: pd.DataFrame, place: Ints
    ) -> pd.DataFrame:
        """Undo `parted` for drawn tables; `place` has the unit of each row."""
        whose = units[[*self.schema.per_unit]].take(place).set_axis(rows.index)
        return pd.concat([rows, whose], axis=1)[[*self.columns]]

    def to_state(self) -> dict[str, Any]:
        """Return what a file keeps."""
        names = [encode_value(name) for name in self.columns]
        schema = self.schema.to_dict()
        return {"schema": schema, "columns": names, "container": self.container}

    @classmethod
    def from_state(cls, data: Mapping[str, Any]) -> Rows:
        """Undo `to_state`."""
        names = [decode_value(name) for name in data["columns"]]
        return cls(TableSchema.from_dict(data["schema"]), names, data["container"])
