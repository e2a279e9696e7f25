"""Everything that a fit releases of its rows, but for training.

In the order of a fit: `Discovery` releases what the schema leaves out (labels,
categories, ranges, decimals) and encodes the rows; `allocate` divides the budget of
every class, a pure function that `plan` shares; `measure` releases tables of one, two
and three columns, and second moments. A `TableModel` has the marginals.
"""

from skdpsynth.measure._allocation import (
    Allocation as Allocation,
    Loop as Loop,
    Outline as Outline,
    Spend as Spend,
    Training as Training,
    allocate as allocate,
)
from skdpsynth.measure._bins import choose_bins as choose_bins
from skdpsynth.measure._density import (
    Histogram as Histogram,
    fit_densities as fit_densities,
    nearest_distribution as nearest_distribution,
)
from skdpsynth.measure._discovery import Discovery as Discovery
from skdpsynth.measure._marginals import even_bins as even_bins
from skdpsynth.measure._measure import (
    add_unlabelled as add_unlabelled,
    choose_worst as choose_worst,
    measure as measure,
)
from skdpsynth.measure._measurements import Measurements as Measurements
from skdpsynth.measure._plan import (
    guess_table as guess_table,
    remarks as remarks,
    weak_claims as weak_claims,
)
from skdpsynth.measure._query import (
    Ask as Ask,
    Measurement as Measurement,
    Pairs as Pairs,
    Query as Query,
)
from skdpsynth.measure._relations import PairTables as PairTables, Relation as Relation
from skdpsynth.measure._shares import (
    LEAST_NOISE as LEAST_NOISE,
    LIKELY as LIKELY,
    LITTLE as LITTLE,
    RARE as RARE,
    SMALL_SHARE as SMALL_SHARE,
    SMALLEST as SMALLEST,
    TINY as TINY,
)
from skdpsynth.measure._sites import combine_measurements as combine_measurements
from skdpsynth.measure._table_model import (
    TableModel as TableModel,
    metadata_from_state as metadata_from_state,
    metadata_to_state as metadata_to_state,
)
