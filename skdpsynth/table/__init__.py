"""Tables and what is public about them. No noise is drawn here, and no torch.

`open_table` reads any source and checks it; a `TableLayout` has names, dtypes and
kinds; `encode_rows` turns rows into `PrivateRows`: ranks, codes of categories, codes of
classes. A domain (`NumericDomain`, `CategoryDomain`) says how the values of a column
are laid out, a `MarginalTransform` how they are distributed in a class.
"""

from skdpsynth.table._domains import (
    FINEST,
    MISSING,
    ZERO,
    CategoryDomain,
    ColumnDomain,
    MarginalTransform,
    NumericDomain,
    Own,
    PrivateRows,
    TableRows,
    day_parts,
    declared_domain,
    domain_from_dict,
    encode_rows,
    in_units,
    is_continuous,
    is_number,
    needs_resolution,
    place_labels,
    wall_values,
    with_stated,
)
from skdpsynth.table._layout import (
    ColumnLayout,
    TableLayout,
    in_container_of,
    names_read,
    numeric_values,
    total_keys,
)
from skdpsynth.table._metadata import (
    Classes,
    Metadata,
    check_domain,
    check_rules,
    declared_metadata,
    largest_remainder,
    modelled_columns,
    rounded,
)
from skdpsynth.table._ordered import Cells, Gap
from skdpsynth.table._sources import agreed_target, check_schema, is_source, open_table
from skdpsynth.table._units import limit_rows

__all__ = [
    "FINEST",
    "MISSING",
    "ZERO",
    "CategoryDomain",
    "Cells",
    "Classes",
    "ColumnDomain",
    "ColumnLayout",
    "Gap",
    "MarginalTransform",
    "Metadata",
    "NumericDomain",
    "Own",
    "PrivateRows",
    "TableLayout",
    "TableRows",
    "agreed_target",
    "check_domain",
    "check_rules",
    "check_schema",
    "day_parts",
    "declared_domain",
    "declared_metadata",
    "domain_from_dict",
    "encode_rows",
    "in_container_of",
    "in_units",
    "is_continuous",
    "is_number",
    "is_source",
    "largest_remainder",
    "limit_rows",
    "modelled_columns",
    "names_read",
    "needs_resolution",
    "numeric_values",
    "open_table",
    "place_labels",
    "rounded",
    "total_keys",
    "wall_values",
    "with_stated",
]
