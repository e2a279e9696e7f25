"""From a table to measurements, and from ranks back to a table. No torch here.

In the order of a fit: `open_table` reads any source; `buy_facts` measures what the
schema leaves out (labels, categories, ranges, decimals) and encodes the rows;
`plan_facts` allocates the budget of every class; `measure` releases tables of one, two
and three columns and second moments, the only place that does so. A `TableModel` has
the marginals and turns ranks into values; `Sampler` draws tables from it. `plan_table`
is the same allocation for a table that nobody has seen.
"""

from skdpsynth.preprocessing._bins import TableBins, choose_bins
from skdpsynth.preprocessing._columns import MISSING, ZERO, PrivateRows, TableRows
from skdpsynth.preprocessing._convert import features_like, labels_like
from skdpsynth.preprocessing._csv import CsvFile, read_csv
from skdpsynth.preprocessing._degradation import judged
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.preprocessing._estimates import flat_marginals
from skdpsynth.preprocessing._layout import TableLayout
from skdpsynth.preprocessing._measure import Measured, measure
from skdpsynth.preprocessing._measurements import Measurement, Measurements
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._plan import (
    ClassPlan,
    Form,
    measured_form,
    plan_facts,
    plan_start,
)
from skdpsynth.preprocessing._preview import (
    NO_STEPS,
    guess_table,
    guessed_layout,
    plan_table,
)
from skdpsynth.preprocessing._purchase import (
    TableFacts,
    buy_facts,
    declared_facts,
    discovery_share,
)
from skdpsynth.preprocessing._rules import check_rules
from skdpsynth.preprocessing._sampler import Sampler
from skdpsynth.preprocessing._sampling import public_seed
from skdpsynth.preprocessing._shares import (
    CLASSIFIER_SHARE,
    DPSGD_SHARES,
    GPATE_SHARES,
    PATEGAN_SHARES,
    PSEUDO_LABELS_SHARE,
    TAIL_SHARE,
    TRIPLE_SHARES,
)
from skdpsynth.preprocessing._sources import is_source, open_table
from skdpsynth.preprocessing._table import agreed_target
from skdpsynth.preprocessing._tables import PairTables, borrowers, most_tables
from skdpsynth.preprocessing._transforms import MarginalTransform
from skdpsynth.preprocessing._where import DrawRanks, drawn_within

__all__ = [
    "CLASSIFIER_SHARE",
    "DPSGD_SHARES",
    "GPATE_SHARES",
    "MISSING",
    "NO_STEPS",
    "PATEGAN_SHARES",
    "PSEUDO_LABELS_SHARE",
    "TAIL_SHARE",
    "TRIPLE_SHARES",
    "ZERO",
    "ClassPlan",
    "CsvFile",
    "DrawRanks",
    "Form",
    "LevelDomain",
    "MarginalTransform",
    "Measured",
    "Measurement",
    "Measurements",
    "NumericDomain",
    "PairTables",
    "PrivateRows",
    "Sampler",
    "TableBins",
    "TableFacts",
    "TableLayout",
    "TableModel",
    "TableRows",
    "agreed_target",
    "borrowers",
    "buy_facts",
    "check_rules",
    "choose_bins",
    "declared_facts",
    "discovery_share",
    "drawn_within",
    "features_like",
    "flat_marginals",
    "guess_table",
    "guessed_layout",
    "is_source",
    "judged",
    "labels_like",
    "measure",
    "measured_form",
    "most_tables",
    "open_table",
    "plan_facts",
    "plan_start",
    "plan_table",
    "public_seed",
    "read_csv",
]
