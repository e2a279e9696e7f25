"""The public facts about a table: kinds, bounds, categories, class counts, rules.

A synthesizer looks at private rows only through noisy releases that cost budget.
What a `TableSchema` states is known without looking, so it is free. A fact that was
read off the private table itself is not public and must not be stated here.
"""

from skdpsynth.schema._columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
)
from skdpsynth.schema._rules import Determines, MissingTogether, Ordered, SumOf
from skdpsynth.schema._table_schema import TableSchema

__all__ = [
    "Boolean",
    "Categorical",
    "Continuous",
    "Datetime",
    "Determines",
    "Identifier",
    "MissingTogether",
    "Ordered",
    "SumOf",
    "TableSchema",
]
