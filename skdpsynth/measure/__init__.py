"""Everything that a fit releases of its rows, but for training.

In the order of a fit: `discover` releases what the schema leaves out (labels,
categories, ranges, decimals) and encodes the rows; `allocate` divides the budget of
every class, a pure function that `plan` shares; `measure` releases tables of one, two
and three columns, and second moments. A `TableModel` has the marginals.
"""

from skdpsynth.measure._allocation import (
    Allocation,
    Form,
    Spend,
    Training,
    allocate,
    allocate_design,
    allocate_measurements,
    and_unlabelled,
    measured_form,
    planned_tables,
)
from skdpsynth.measure._bins import TableBins, choose_bins
from skdpsynth.measure._discovery import Discovery, discover
from skdpsynth.measure._marginals import flat_marginals
from skdpsynth.measure._measure import choose_table_bins, measure
from skdpsynth.measure._measurements import Measurements
from skdpsynth.measure._plan import (
    guess_table,
    guessed_layout,
    plan_table,
    remarks,
    weak_claims,
)
from skdpsynth.measure._query import Measurement, Pairs, measure_query
from skdpsynth.measure._relations import PairTables, Relation, raked, strongest_tree
from skdpsynth.measure._shares import (
    CLEAR_FROM,
    LEAST_NOISE,
    LIKELY,
    LITTLE,
    RAKINGS,
    RARE,
    SMALL_SHARE,
    TINY,
)
from skdpsynth.measure._sites import combine_measurements
from skdpsynth.measure._table_model import TableModel

__all__ = [
    "CLEAR_FROM",
    "LEAST_NOISE",
    "LIKELY",
    "LITTLE",
    "RAKINGS",
    "RARE",
    "SMALL_SHARE",
    "TINY",
    "Allocation",
    "Discovery",
    "Form",
    "Measurement",
    "Measurements",
    "PairTables",
    "Pairs",
    "Relation",
    "Spend",
    "TableBins",
    "TableModel",
    "Training",
    "allocate",
    "allocate_design",
    "allocate_measurements",
    "and_unlabelled",
    "choose_bins",
    "choose_table_bins",
    "combine_measurements",
    "discover",
    "flat_marginals",
    "guess_table",
    "guessed_layout",
    "measure",
    "measure_query",
    "measured_form",
    "plan_table",
    "planned_tables",
    "raked",
    "remarks",
    "strongest_tree",
    "weak_claims",
]
