"""Whatever row is added to whatever table, no other row becomes another one.

Each example is a table of some columns and a row at any place in it. Both tables go the
whole private way, from the check to the encoded rows, in domains that are read off the
smaller one. Every other row must keep its codes, unit and class, bit for bit.
`table/test_keys.py` asks the same of single columns and says why.
"""

import os
from typing import NamedTuple

import numpy as np
import pandas as pd
from _columns import draw_column
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skdpsynth.exceptions import SkdpsynthError
from skdpsynth.privacy import Parts
from skdpsynth.table import (
    CategoryDomain,
    NumericDomain,
    encode_rows,
    numeric_values,
    open_table,
    total_keys,
)

FUZZING = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
N_TABLES = int(os.environ.get("SKDPSYNTH_FUZZED_ROWS", "60"))


class Neighbours(NamedTuple):
    """A table, and where the row is that its neighbour lacks."""

    table: pd.DataFrame
    place: int

    def __repr__(self):  # pandas cannot print every float16, nor a pipe every text
        return ascii(f"{dict(self.table.dtypes)}, row {self.place}")


@st.composite
def neighbours(draw):
    """Columns of any dtype; `table/test_keys.py` has odd texts."""
    n_rows = draw(st.integers(3, 30))
    made = {}
    for position in range(draw(st.integers(1, 4))):
        # Arrow 17 ends the process where pandas 2 takes values out of some.
        doubtful = draw(st.integers(0, 9)) == 9 and pd.__version__ >= "3"
        label = f"c{position}"
        series, _ = draw_column(draw, n_rows, label=label, doubtful=doubtful)
        made[label] = series.reset_index(drop=True)
    return Neighbours(pd.DataFrame(made), draw(st.integers(0, n_rows - 1)))


def keys_of(frame, name):
    (counts,) = total_keys(Parts.of(frame), [name])
    return sorted({*counts} - {None})


def domains_of(frame, layout):
    """Categories are half of the keys; ranges are public."""
    domains = []
    for column in layout.columns:
        domain = NumericDomain(-1e3, 1e6, log=True, integer=False, nullable=True)
        if column.kind in ("categorical", "boolean"):
            known = keys_of(frame, column.name)[::2]
            domain = CategoryDomain(tuple(known), nullable=True)
        domains.append(domain)
    return domains


def shown(frame, layout, domains, labels):
    """Return the bytes of all that is made of every row."""
    columns = list(layout.columns)
    rows = encode_rows(frame, columns, domains, columns[0], labels)
    codes = [rows.class_codes, *rows.category_codes.T.astype(np.int64)]
    parts = [*codes, *rows.uniforms.T]
    for column in layout.columns:
        if column.kind not in ("categorical", "boolean"):
            parts += numeric_values(frame[column.name], column)
    return [[np.asarray(v[i]).tobytes() for v in parts] for i in range(len(frame))]


def crashes(dtype):
    """Pandas 2 ends the process at the year 9999 in zones with summer time."""
    inner = dtype.categories.dtype if hasattr(dtype, "categories") else dtype
    return pd.__version__ < "3" and isinstance(inner, pd.DatetimeTZDtype)


def check(table, place):
    if any(crashes(dtype) for dtype in table.dtypes):
        return False
    try:  # pandas cannot take rows out of every dtype
        smaller = table.drop(index=place).reset_index(drop=True)
    except (TypeError, ValueError, NotImplementedError):
        return False
    try:  # what we refuse, we refuse by an error of ours
        first, layout = open_table(smaller)
        second, same = open_table(table)
    except SkdpsynthError:
        return False
    assert same == layout  # the dtypes are equal, and so is all that follows
    domains = domains_of(first, layout)
    known = domains, keys_of(first, layout.columns[0].name)
    expected, found = shown(first, layout, *known), shown(second, same, *known)
    assert found[:place] + found[place + 1 :] == expected
    return True


def test_no_other_row_is_affected():
    """`SKDPSYNTH_FUZZED_ROWS=10000` asks for more tables; few of them are refused."""
    accepted = []

    @settings(FUZZING, max_examples=N_TABLES)
    @given(case=neighbours())
    def tables(case):
        accepted.append(check(*case))

    tables()
    assert np.mean(accepted) > 0.5
