"""Tables and what is public about them. No noise is drawn here, and no torch.

`open_table` reads any source and checks it; a `TableLayout` has names, dtypes and
kinds; `encode_rows` turns rows into `PrivateRows`: ranks, codes of categories, codes of
classes. A domain (`NumericDomain`, `CategoryDomain`) says how the values of a column
are laid out, a `MarginalTransform` how they are distributed in a class.
"""

from skdpsynth.table._domains import (
    FINEST as FINEST,
    MISSING as MISSING,
    ZERO as ZERO,
    CategoryDomain as CategoryDomain,
    ColumnDomain as ColumnDomain,
    MarginalTransform as MarginalTransform,
    NumericDomain as NumericDomain,
    Own as Own,
    PrivateRows as PrivateRows,
    TableRows as TableRows,
    day_parts as day_parts,
    declared_domain as declared_domain,
    domain_from_dict as domain_from_dict,
    encode_rows as encode_rows,
    in_units as in_units,
    is_continuous as is_continuous,
    is_number as is_number,
    needs_resolution as needs_resolution,
    place_labels as place_labels,
    wall_values as wall_values,
    with_stated as with_stated,
)
from skdpsynth.table._layout import (
    ColumnLayout as ColumnLayout,
    TableLayout as TableLayout,
    in_container_of as in_container_of,
    names_read as names_read,
    numeric_values as numeric_values,
    place_keys as place_keys,
    total_keys as total_keys,
)
from skdpsynth.table._metadata import (
    Classes as Classes,
    Metadata as Metadata,
    check_domain as check_domain,
    check_rules as check_rules,
    declared_metadata as declared_metadata,
    largest_remainder as largest_remainder,
    modelled_columns as modelled_columns,
    rounded as rounded,
)
from skdpsynth.table._ordered import FAR as FAR, Cells as Cells, Gap as Gap
from skdpsynth.table._sources import (
    agreed_target as agreed_target,
    check_schema as check_schema,
    is_source as is_source,
    open_table as open_table,
)
from skdpsynth.table._units import (
    limit_rows as limit_rows,
    row_hashes as row_hashes,
    words_of as words_of,
)
