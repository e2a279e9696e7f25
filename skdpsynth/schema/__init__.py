"""What is public about a table: kinds, bounds, categories, class counts, rules.

A synthesizer reads private rows only for noisy releases that spend budget.
What a `TableSchema` states is known without them, so it is free. What was
read off the private table itself is not public and must not be stated here.

`_columns` and `_rules` have what a schema is made of, and what a dtype says;
`_table_schema` the schema and its files, `_tables` what joins it to a table.
The lower-case names are for the other folders of the package.
"""

from skdpsynth.schema._columns import (
    MOST_DECIMALS,
    MOST_STATED_DECIMALS,
    NUMBER_FORMAT,
    ROUNDING,
    SECONDS_OF,
    UNREAD,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Text,
    family,
)
from skdpsynth.schema._rules import (
    Determines,
    MissingTogether,
    Ordered,
    Rule,
    SumOf,
    check_decimals,
)
from skdpsynth.schema._table_schema import (
    NOTHING_STATED,
    TableSchema,
    decode_value,
    encode_value,
    to_text,
)
from skdpsynth.schema._tables import check_dtype, check_objects, column_kind

__all__ = [
    "MOST_DECIMALS",
    "MOST_STATED_DECIMALS",
    "NOTHING_STATED",
    "NUMBER_FORMAT",
    "ROUNDING",
    "SECONDS_OF",
    "UNREAD",
    "Boolean",
    "Categorical",
    "Column",
    "Continuous",
    "Datetime",
    "Determines",
    "Identifier",
    "MissingTogether",
    "Ordered",
    "Rule",
    "SumOf",
    "TableSchema",
    "Text",
    "check_decimals",
    "check_dtype",
    "check_objects",
    "column_kind",
    "decode_value",
    "encode_value",
    "family",
    "to_text",
]
