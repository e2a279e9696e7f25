"""Columns that are computed from others: the values of any expression."""

from fractions import Fraction

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.schema import Derived, TableSchema
from skdpsynth.table import (
    Classes,
    Metadata,
    NumericDomain,
    modelled_columns,
    open_table,
)

CENTS = NumericDomain(-9_999, 9_999, False, True, True, decimals=2)
WHOLE = NumericDomain(-9, 9, False, True, True)
DOMAINS = {"a": CENTS, "b c": WHOLE, "d": NumericDomain(-9, 9, False, False, True)}
LEAVES = st.sampled_from(["a", "`b c`", "d", "2", "0.5"])
BOTH = "({0[0]} {0[1]} {0[2]})".format
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda own: st.tuples(own, st.sampled_from("+-*/"), own).map(BOTH),
    max_leaves=5,
)


@settings(deadline=None, database=None, max_examples=100)
@given(EXPRESSIONS, st.sampled_from(["Int64", "float64"]), st.integers(0, 2**32 - 1))
def test_each_row_is_what_exact_arithmetic_makes_of_it(text, dtype, seed):
    """But for halves of whole numbers, which floats may be on either side of."""
    names = [name for name in DOMAINS if name in text]
    if not names:
        return
    schema = TableSchema({}, rules=[Derived("t", text)])
    frame = pd.DataFrame(0.0, [0, 1], [*DOMAINS]).assign(t=pd.array([0, 1], dtype))
    _, layout = open_table(frame, schema=schema)
    assert [column.name for column in modelled_columns(layout, schema)] == [*DOMAINS]
    classes = Classes((), np.ones(1))
    metadata = Metadata.of(layout, tuple(DOMAINS.values()), classes, schema)
    rng, cells = np.random.default_rng(seed), {}
    for name, domain in DOMAINS.items():
        cells[name] = domain.from_unit(rng.random(20)), rng.random(20) < 0.1
    metadata.rules.keep(cells)
    column, _ = metadata.drawn["t"]
    found = column.to_series(*cells["t"])
    code = text.replace("`b c`", "b").replace("0.5", "half").replace("2", "two")
    for n, own in enumerate(found):
        row = {name[0]: Fraction(repr(float(cells[name][0][n]))) for name in DOMAINS}
        row |= {"half": Fraction(1, 2), "two": Fraction(2)}
        try:
            exact = eval(code, {}, row)
        except ZeroDivisionError:
            exact = None
        if any(cells[name][1][n] for name in names):
            exact = None
        assert pd.isna(own) == (exact is None)
        if exact is not None and dtype == "Int64":
            assert abs(int(own) - exact) <= Fraction(1, 2) + Fraction(1, 10**9)
        elif exact is not None:
            assert abs(Fraction(float(own)) - exact) <= 1e-9 * max(1, abs(exact))
