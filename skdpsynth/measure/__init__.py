"""Everything that a fit releases of its rows, but for training.

In the order of a fit: `Discovery` releases what the schema leaves out (labels,
categories, ranges, decimals) and encodes the rows; `allocate` divides the budget of
every class, a pure function that `plan` shares; `measure` releases tables of one, two
and three columns, and second moments. A `TableModel` has the marginals.
"""

from skdpsynth.measure._allocation import (
    Allocation,
    Spend,
    Training,
    allocate,
    allocate_measurements,
    measured_form,
)
from skdpsynth.measure._discovery import Discovery
from skdpsynth.measure._marginals import even_bins
from skdpsynth.measure._measure import choose_table_bins, measure, measure_unlabelled
from skdpsynth.measure._measurements import Measurements
from skdpsynth.measure._plan import guess_table, remarks, weak_claims
from skdpsynth.measure._query import Measurement, Pairs, measure_query
from skdpsynth.measure._relations import PairTables, Relation
from skdpsynth.measure._shares import (
    CLEAR_FROM,
    LEAST_NOISE,
    LIKELY,
    LITTLE,
    RARE,
    SMALL_SHARE,
    SMALLEST,
    TINY,
)
from skdpsynth.measure._sites import combine_measurements
from skdpsynth.measure._table_model import TableModel

__all__ = [
    "CLEAR_FROM",
    "LEAST_NOISE",
    "LIKELY",
    "LITTLE",
    "RARE",
    "SMALLEST",
    "SMALL_SHARE",
    "TINY",
    "Allocation",
    "Discovery",
    "Measurement",
    "Measurements",
    "PairTables",
    "Pairs",
    "Relation",
    "Spend",
    "TableModel",
    "Training",
    "allocate",
    "allocate_measurements",
    "choose_table_bins",
    "combine_measurements",
    "even_bins",
    "guess_table",
    "measure",
    "measure_query",
    "measure_unlabelled",
    "measured_form",
    "remarks",
    "weak_claims",
]
