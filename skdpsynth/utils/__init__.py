"""Helpers that belong to no single part of the package.

What is imported here needs neither pandas nor scikit-learn, nor NumPy before it is
used. `arrays` (their types), `dtypes`, `containers` (tables of other libraries),
`sklearn_compat` (private names of scikit-learn) and `estimator_checks` (for authors of
synthesizers) are interfaces of their own, because they do.
"""

from skdpsynth.utils._deprecation import (
    warn_deprecated as warn_deprecated,
    without as without,
)
from skdpsynth.utils._document import (
    PRIVATE_FOOTER as PRIVATE_FOOTER,
    Block as Block,
    Document as Document,
    Grid as Grid,
    Heading as Heading,
    Items as Items,
    Picture as Picture,
    drawable as drawable,
    picture as picture,
)
from skdpsynth.utils._files import (
    DAMAGED as DAMAGED,
    EXCESS as EXCESS,
    FEW_NUMBERS as FEW_NUMBERS,
    MAX_BYTES as MAX_BYTES,
    MOST_SHOWN as MOST_SHOWN,
    ROUNDING as ROUNDING,
    WIDTH as WIDTH,
    check_new as check_new,
    compression_of as compression_of,
    is_csv as is_csv,
    parse_json as parse_json,
    read_text as read_text,
    whole_file as whole_file,
    withheld as withheld,
)
from skdpsynth.utils._numbers import (
    CHUNK_ROWS as CHUNK_ROWS,
    check_array as check_array,
    check_groups as check_groups,
    check_range as check_range,
    in_chunks as in_chunks,
    in_order_of_class as in_order_of_class,
    n_threads as n_threads,
    require as require,
)
