"""Helpers that belong to no single part of the package.

What is imported here needs neither pandas nor scikit-learn, nor NumPy before it is
used. `containers` (tables of other libraries), `sklearn_compat` (private names of
scikit-learn) and `estimator_checks` (for authors of synthesizers) are interfaces of
their own, because they do.
"""

from skdpsynth.utils._deprecation import warn_deprecated, without
from skdpsynth.utils._document import Block, Document, Grid, Heading, Items, Picture
from skdpsynth.utils._files import (
    DAMAGED,
    EXCESS,
    FEW_NUMBERS,
    MAX_BYTES,
    MOST_SHOWN,
    ROUNDING,
    WIDTH,
    check_array,
    check_groups,
    check_new,
    compression_of,
    is_csv,
    parse_json,
    read_text,
    require,
    withheld,
)
from skdpsynth.utils._runs import (
    CHUNK_ROWS,
    in_chunks,
    in_order_of_class,
    n_threads,
)

__all__ = [
    "CHUNK_ROWS",
    "DAMAGED",
    "EXCESS",
    "FEW_NUMBERS",
    "MAX_BYTES",
    "MOST_SHOWN",
    "ROUNDING",
    "WIDTH",
    "Block",
    "Document",
    "Grid",
    "Heading",
    "Items",
    "Picture",
    "check_array",
    "check_groups",
    "check_new",
    "compression_of",
    "in_chunks",
    "in_order_of_class",
    "is_csv",
    "n_threads",
    "parse_json",
    "read_text",
    "require",
    "warn_deprecated",
    "withheld",
    "without",
]
