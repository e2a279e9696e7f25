"""What the audits of this folder attack: small synthesizers and small tables."""

import pytest
import tables
from _instances import PLAIN, PRIVATE
from sklearn.base import clone

from skdpsynth.schema import TableSchema

# So much that the loops run on `small_table`.
AUDITED = {
    name: type(s)(10.0) if s in PLAIN.values() else clone(s).set_params(epsilon=10.0)
    for name, s in PRIVATE.items()
}
del AUDITED["pairwise rich"]
AUDITED["pategan laplace"].set_params(batch_size=64, n_teachers=5)  # so that votes move


@pytest.fixture(params=AUDITED)
def audited(request):
    """Every synthesizer by default, and each way of training once."""
    return AUDITED[request.param]


@pytest.fixture
def public_schema():
    """Everything about `small_table` but its rows."""
    return TableSchema(tables.COLUMNS, target="y", class_counts={"u": 90, "v": 60})


@pytest.fixture
def small_table():
    """150 rows of two classes; numbers, missing ones and a category."""
    return tables.small_table()


@pytest.fixture
def canary():
    """An extreme row of the schema."""
    return {"a": 8.0, "b": -6.0, "c": "r", "y": "u"}


@pytest.fixture
def case(small_table, canary, public_schema):
    """Table, canary and schema: what most audits of a ledger are of."""
    return small_table, canary, public_schema
