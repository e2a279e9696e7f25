"""Whatever row is added to whatever source, no other row becomes another one.

`test_keys.py` asks this of single columns in memory; here the rows come from every
source that `fit` takes, through its readers and in blocks, and the row is at three
places. Keys, units, codes and classes of all other rows must stay, bit for bit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tables import SOURCES

from skdpsynth.privacy import Parts
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema
from skdpsynth.table import (
    declared_domain,
    encode_rows,
    numeric_values,
    open_table,
)
from skdpsynth.table._layout import factorize  # keys, before any release

BIG = 2**53
SCHEMA = TableSchema(
    {
        "id": Categorical([BIG, BIG + 1, 3], nullable=True),
        "n": Continuous(0, 2**60, integer=True, nullable=True),
        "x": Continuous(-1e3, 1e6, nullable=True),
        "s": Categorical(["tea", "e\u0301", "\u00e9"], nullable=True),
        "b": Boolean(nullable=True),
        "t": Datetime("1990-01-01", "2030-01-01", nullable=True),
        "z": Datetime("1990-01-01T00Z", "2030-01-01T00Z", nullable=True),
        "y": Categorical([0, 1]),
    },
    target="y",
)
TYPES = pa.schema(
    [
        *(("id", pa.int64()), ("n", pa.int64()), ("x", pa.float64())),
        *(("s", pa.string()), ("b", pa.bool_()), ("t", pa.timestamp("us"))),
        *(("z", pa.timestamp("us", "UTC")), ("y", pa.int64())),
    ]
)
# As texts, which a CSV file holds; the others have what they stand for.
ROWS = [
    [str(BIG), str(BIG + 1), "0.1", "tea", "true", "2020-01-01", "2020-01-01T00Z", "1"],
    [str(BIG + 1), "7", "-0.0", "e\u0301", "false", "2001-02-03T04:05:06", "", "0"],
    ["3", str(BIG + 3), "12345.678", "\u00e9", "", "", "2011-01-01T00:00:01Z", "1"],
] * 4
EXTRA = [
    [""] * 8,
    ["NA", "0.5", "1e3", "NULL", "TRUE", "0001-01-01", "9999-12-31T00Z", "NA"],
    ["1e3", "3.0", "1e300", "tea\0jones", "False", "9999-12-31", "0001-01-01T00Z", "1"],
    [str(-(2**63)), str(2**63 - 1), "nan", "x" * 9_000, "", "1677-01-01", "", "9"],
    ["0", " 3 ", "-1e-300", '"tea"\n,', "true", "", "1990-01-01T00:00+14:00", "0"],
]


def typed(rows):
    """Give rows of texts as Arrow's typed scalars, one by one."""
    columns = []
    for cells, field in zip(zip(*rows, strict=True), TYPES, strict=True):
        missing = ("", "NA", "NULL")
        texts = [None if cell in missing else cell.strip() for cell in cells]
        made = []
        for text in texts:
            if text is None:
                made.append(None)
            elif pa.types.is_boolean(field.type):
                made.append(text.lower() == "true")
            elif pa.types.is_integer(field.type):
                whole = text.lstrip("-").isdigit()
                made.append(int(text) if whole else round(float(text)))
            elif pa.types.is_floating(field.type):
                made.append(float(text))
            elif pa.types.is_timestamp(field.type):
                moment = np.datetime64(text[:10], "us") + np.timedelta64(len(text), "s")
                made.append(moment.astype(int).item())
            else:
                made.append(text)
        columns.append(pa.array(made, field.type))
    return pa.table(columns, schema=TYPES)


def of_texts(rows, folder):
    """Write the very texts: those that stand for the same are read alike."""
    pd.DataFrame(rows, columns=TYPES.names).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def masked(rows, _):
    kinds = {"id": "Int64", "n": "Int64", "x": "Float64", "b": "boolean", "y": "Int64"}
    table = typed(rows)
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    for name, kind in kinds.items():
        frame[name] = pd.array(table[name].to_pylist(), dtype=kind)
    return frame


def by_arrow(make):
    """Make a source of rows of texts that Arrow holds as what they stand for."""
    return lambda rows, folder: make(
        typed(rows).to_pandas(types_mapper=pd.ArrowDtype), folder
    )


OF_ROWS = {name: by_arrow(make) for name, make in SOURCES.items()}
OF_ROWS |= {"csv": of_texts, "nullable": masked}
for _name in ("numpy", "objects"):  # the same as "arrow"
    del OF_ROWS[_name]


def made_of_rows(source, rows, path):
    """Give all that the private side makes of every row."""
    path.mkdir()
    table, layout = open_table(OF_ROWS[source](rows, path), schema=SCHEMA)
    columns = list(layout.feature_columns)
    domains = [declared_domain(column, SCHEMA) for column in columns]
    found = []
    labels = layout.label_column, SCHEMA.columns["y"].categories
    for frame in Parts.of(table).each():
        encoded = encode_rows(frame, columns, domains, *labels)
        parts = [[own.tobytes() for own in array] for array in encoded.arrays]
        for column in layout.columns:
            codes, levels = factorize(frame[column.name])
            parts.append([None if code < 0 else repr(levels[code]) for code in codes])
            if column.kind not in ("categorical", "boolean"):
                exact, missing = numeric_values(frame[column.name], column)
                parts += [own.tobytes() for own in exact], missing.tolist()
        found += zip(*parts, strict=True)
    return found


@pytest.mark.parametrize("source", OF_ROWS)
def test_a_further_row_changes_no_other(source, tmp_path, monkeypatch):
    """Read five rows at a time; the row is at the beginning, in the middle, or last."""
    block = "skdpsynth.table._sources._BLOCK_ENTRIES"
    monkeypatch.setattr(block, 5 * len(TYPES.names))
    before = made_of_rows(source, ROWS, tmp_path / "before")
    assert len(before) == len(ROWS)
    for number, extra in enumerate(EXTRA):
        for place in (0, len(ROWS) // 2, len(ROWS)):
            more = [*ROWS[:place], extra, *ROWS[place:]]
            found = made_of_rows(source, more, tmp_path / f"{number}_{place}")
            assert found[:place] + found[place + 1 :] == before
