"""What is public about a table: kinds, bounds, categories, class counts, rules.

A synthesizer reads private rows only for noisy releases that spend budget.
What a `TableSchema` states is known without them, so it is free. What was
read off the private table itself is not public and must not be stated here.

`_columns` and `_rules` have what a schema is made of, and what a dtype says;
`_table_schema` the schema and its files, `_tables` what joins it to a table.
The lower-case names are for the other folders of the package.
"""

from skdpsynth.schema._columns import (
    EXACT,
    LARGEST,
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
    Kind,
    Text,
    as_moments,
    as_typed,
    check_frame,
    column_kind,
    decimals_of,
    family,
    float_info,
    is_date,
    is_finite,
    is_missing,
    is_object,
    kind_of_dtype,
    plain,
    same_name,
)
from skdpsynth.schema._rules import (
    Determines,
    MissingTogether,
    Ordered,
    Rule,
    SumOf,
    check_decimals,
    check_target,
    in_order,
)
from skdpsynth.schema._table_schema import (
    NOTHING_STATED,
    TableSchema,
    decode_value,
    encode_value,
    to_text,
)
from skdpsynth.schema._tables import check_dtype, check_objects

__all__ = [
    "EXACT",
    "LARGEST",
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
    "Kind",
    "MissingTogether",
    "Ordered",
    "Rule",
    "SumOf",
    "TableSchema",
    "Text",
    "as_moments",
    "as_typed",
    "check_decimals",
    "check_dtype",
    "check_frame",
    "check_objects",
    "check_target",
    "column_kind",
    "decimals_of",
    "decode_value",
    "encode_value",
    "family",
    "float_info",
    "in_order",
    "is_date",
    "is_finite",
    "is_missing",
    "is_object",
    "kind_of_dtype",
    "plain",
    "same_name",
    "to_text",
]
