"""What is public about a table: kinds, bounds, categories, class counts, rules.

A synthesizer reads private rows only for noisy releases that spend budget.
What a `TableSchema` states is known without them, so it is free. What was
read off the private table itself is not public and must not be stated here.

`_columns` and `_rules` have what a schema is made of, and what a dtype says;
`_table_schema` the schema and its files, `_tables` what joins it to a table.
The lower-case names are for the other folders of the package.
"""

from skdpsynth.schema._columns import (
    MOST_DECIMALS as MOST_DECIMALS,
    MOST_STATED_DECIMALS as MOST_STATED_DECIMALS,
    NUMBER_FORMAT as NUMBER_FORMAT,
    OPEN as OPEN,
    ROUNDING as ROUNDING,
    SECONDS_OF as SECONDS_OF,
    UNREAD as UNREAD,
    Boolean,
    Categorical,
    Column as Column,
    Continuous,
    Datetime,
    Identifier,
    Text,
    as_typed as as_typed,
    family as family,
    number_of as number_of,
)
from skdpsynth.schema._rules import (
    TIMES as TIMES,
    Computed as Computed,
    Derived,
    Determines,
    MissingTogether,
    Ordered,
    Rule as Rule,
    SumOf,
    as_written as as_written,
    computed as computed,
    in_order as in_order,
    stated_decimals as stated_decimals,
)
from skdpsynth.schema._table_schema import (
    NOTHING_STATED as NOTHING_STATED,
    TableSchema,
    decode_value as decode_value,
    encode_value as encode_value,
    place as place,
    to_text as to_text,
)
from skdpsynth.schema._tables import (
    asked_of_persons as asked_of_persons,
    check_dtype as check_dtype,
    check_objects as check_objects,
    column_kind as column_kind,
)

__all__ = [
    "Boolean",
    "Categorical",
    "Continuous",
    "Datetime",
    "Derived",
    "Determines",
    "Identifier",
    "MissingTogether",
    "Ordered",
    "SumOf",
    "TableSchema",
    "Text",
]
