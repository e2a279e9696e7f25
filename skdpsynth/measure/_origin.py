"""What measurements need to be fitted again: as JSON, and checked when it is read.

It is all public. A file proves nothing: neither that its measurements are private, nor
that they are of any table. What is checked is that the parts fit together.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure._marginals import Round
from skdpsynth.measure._relations import FinerBins, Relation, Relations
from skdpsynth.measure._tables import (
    ColumnBins,
    PairTables,
    SecondMoments,
    TableBins,
    TripleTables,
)
from skdpsynth.privacy import CentredCounts, unit_words
from skdpsynth.utils import require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.measure._measurements import Measured
    from skdpsynth.privacy import PrivacyReport
    from skdpsynth.schema import TableSchema

    Array = NDArray[Any]

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(ColumnBins, TableBins, PairTables, TripleTables, SecondMoments),
        *(FinerBins, Relation, Relations, Round, CentredCounts),
    )
}
_DTYPES = {np.dtype(name).str for name in ("float64", "float32", "int64", "bool")}
PARTS = (
    "rounds",
    "edges",
    "bins",
    "pairs",
    "triples",
    "moments",
    "relations",
    "together",
)


@dataclass(frozen=True)
class Origin:
    """What a fit to measurements needs beside the tables, and who claims what of them.

    Parameters
    ----------
    measured : Measured
        The measurements; of finer cells of relations what follows from them.
    schema : TableSchema
        What was declared and measured of the table, but numbers of rows.
    report : PrivacyReport
        The claim of who made them.
    """

    measured: Measured
    schema: TableSchema
    report: PrivacyReport

    def __post_init__(self) -> None:
        unit, most = self.schema.privacy_unit, self.schema.max_rows_per_unit
        whose = unit_words(unit, most or 1).items()
        require(whose <= vars(self.report).items(), "a claim of another unit")

    @classmethod
    def of(
        cls, measured: Measured, schema: TableSchema, report: PrivacyReport
    ) -> Origin:
        """Put together what a fit has in the end."""
        public = replace(schema, n_rows=None, class_counts=None)
        return cls(measured, public, report)

    def to_json(self) -> dict[str, Any]:
        """Give the form that a file holds."""
        table, arrays = self.measured.model.to_state()
        classes = self.measured.model.metadata.classes
        return {
            "schema": self.schema.to_dict(),
            "report": self.report.to_dict(),
            "table": table | {"noise_std": classes.noise_std},
            "arrays": {name: _encoded(array) for name, array in arrays.items()},
            "noise_stds": list(self.measured.noise_stds),
            "parts": {name: _encoded(getattr(self.measured, name)) for name in PARTS},
        }


def _encoded(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": value.dtype.str, "shape": value.shape, "data": data}
    if type(value).__name__ in _KINDS:
        names = (
            [item.name for item in fields(value)]
            if is_dataclass(value)
            else value._fields
        )
        parts = {name: _encoded(getattr(value, name)) for name in names}
        return {"kind": type(value).__name__, "parts": parts}
    if isinstance(value, dict):
        return {"pairs": [[key, _encoded(own)] for key, own in value.items()]}
    if isinstance(value, list):
        return [*map(_encoded, value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(float(value))}
    return value.item() if isinstance(value, np.generic) else value


def decoded(data: Any) -> Any:  # noqa: ANN401 - JSON
    """Return what `_encoded` wrote; a ValueError and the like where it is damaged."""
    if isinstance(data, list):
        return [*map(decoded, data)]
    if not isinstance(data, dict):
        return data
    if "pairs" in data:
        return {key: decoded(own) for key, own in data["pairs"]}
    if "number" in data:
        return float(data["number"])
    if "kind" in data:
        parts = {name: decoded(own) for name, own in data["parts"].items()}
        return _KINDS[data["kind"]](**parts)
    require(data["dtype"] in _DTYPES, "an array of another type")
    found = np.frombuffer(base64.b64decode(data["data"]), dtype=data["dtype"])
    return found.reshape(data["shape"]).copy()
