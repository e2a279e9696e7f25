"""What the audits of this folder attack: small synthesizers and small tables."""

import pytest
from _instances import PLAIN, PRIVATE
from sklearn.base import clone
from tables import COLUMNS, small_table

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
def case():
    """A table, an extreme row, and what is public: what most audits of a ledger get."""
    schema = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})
    return small_table(), {"a": 8.0, "b": -6.0, "c": "r", "y": "u"}, schema
