"""Whatever row is added to whatever source, no other row becomes another one.

`test_keys.py` asks this of single columns in memory; here the rows come from every
source that `fit` takes, through its readers and in blocks, and the row is at three
places. Keys, units, codes and classes of all other rows must stay, bit for bit.
"""

from collections import Counter

import pandas as pd
import pytest
from tables import SOURCES

from skdpsynth.privacy import Parts
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema
from skdpsynth.table import (
    declared_domain,
    encode_rows,
    numeric_values,
    open_table,
    read_csv,
    total_keys,
)

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


def as_source(name, rows, folder):
    """Give what the texts stand for; a file of them holds the very texts."""
    path = folder / "t.csv"
    pd.DataFrame(rows, columns=[*SCHEMA.columns]).to_csv(path, index=False)
    if name == "csv":
        return path
    table = read_csv(path, SCHEMA.columns)
    path.unlink()
    return SOURCES[name](table, folder)


def made_of_rows(source, rows, path):
    """Give all that the private side makes of every row, and the keys of all."""
    path.mkdir()
    table, layout = open_table(as_source(source, rows, path), schema=SCHEMA)
    columns = list(layout.feature_columns)
    domains = [declared_domain(column, SCHEMA) for column in columns]
    found = []
    labels = layout.label_column, SCHEMA.columns["y"].categories
    keys = total_keys(Parts.of(table), [*SCHEMA.columns])
    for frame in Parts.of(table).each():
        encoded = encode_rows(frame, columns, domains, *labels)
        parts = [[own.tobytes() for own in array] for array in encoded.arrays]
        for column in layout.columns:
            if column.kind not in ("categorical", "boolean"):
                exact, missing = numeric_values(frame[column.name], column)
                parts += [own.tobytes() for own in exact], missing.tolist()
        found += zip(*parts, strict=True)
    return found, [Counter({repr(key): own[key] for key in own}) for own in keys]


@pytest.mark.parametrize("source", SOURCES)
def test_a_further_row_changes_no_other(source, tmp_path, monkeypatch):
    """Read five rows at a time; the row is at the beginning, in the middle, or last.

    Each is at all three places of a file, and at one of them of what a file stands for.
    """
    block = "skdpsynth.privacy._parts._BLOCK_ENTRIES"
    monkeypatch.setattr(block, 5 * len(SCHEMA.columns))
    before, keys = made_of_rows(source, ROWS, tmp_path / "before")
    assert len(before) == len(ROWS)
    for number, extra in enumerate(EXTRA):
        places = 0, len(ROWS) // 2, len(ROWS)
        for place in places if source == "csv" else [places[number % 3]]:
            more = [*ROWS[:place], extra, *ROWS[place:]]
            found, counts = made_of_rows(source, more, tmp_path / f"{number}_{place}")
            assert found[:place] + found[place + 1 :] == before
            for own, others in zip(counts, keys, strict=True):
                assert (own - others).total() == 1
                assert others - own == Counter()
