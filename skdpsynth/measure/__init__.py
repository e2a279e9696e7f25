"""Everything that a fit releases of its rows, but for training.

In the order of a fit: `discover` releases what the schema leaves out (labels,
categories, ranges, decimals) and encodes the rows; `allocate` divides the budget of
every class, a pure function that `plan` shares; `measure` releases tables of one, two
and three columns, and second moments. A `TableModel` has the marginals.
"""

from skdpsynth.measure._allocation import (
    Allocation as Allocation,
    Form as Form,
    Spend as Spend,
    Training as Training,
    allocate as allocate,
    allocate_design as allocate_design,
    allocate_measurements as allocate_measurements,
    and_unlabelled as and_unlabelled,
    measured_form as measured_form,
    planned_tables as planned_tables,
)
from skdpsynth.measure._bins import TableBins as TableBins, choose_bins as choose_bins
from skdpsynth.measure._discovery import Discovery as Discovery, discover as discover
from skdpsynth.measure._marginals import flat_marginals as flat_marginals
from skdpsynth.measure._measure import (
    choose_table_bins as choose_table_bins,
    measure as measure,
)
from skdpsynth.measure._measurements import Measurements as Measurements
from skdpsynth.measure._plan import (
    guess_table as guess_table,
    guessed_layout as guessed_layout,
    plan_table as plan_table,
    remarks as remarks,
    weak_claims as weak_claims,
)
from skdpsynth.measure._query import (
    Measurement as Measurement,
    Pairs as Pairs,
    measure_query as measure_query,
)
from skdpsynth.measure._relations import (
    PairTables as PairTables,
    Relation as Relation,
    raked as raked,
    strongest_tree as strongest_tree,
)
from skdpsynth.measure._shares import (
    CLEAR_FROM as CLEAR_FROM,
    LEAST_NOISE as LEAST_NOISE,
    LIKELY as LIKELY,
    LITTLE as LITTLE,
    RAKINGS as RAKINGS,
    RARE as RARE,
    SMALL_SHARE as SMALL_SHARE,
    TINY as TINY,
)
from skdpsynth.measure._sites import combine_measurements as combine_measurements
from skdpsynth.measure._table_model import TableModel as TableModel
