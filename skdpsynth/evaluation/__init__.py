"""Compare synthesizers on one table, or score one synthetic table: `_quality`.

`_compare` makes the runs, `_runs` is one of them and the folder of finished ones.
`_results` has what they found and its page, `_plots` the drawings.
"""

from skdpsynth.evaluation._compare import compare_synthesizers
from skdpsynth.evaluation._quality import QualityReport, quality_report, split_table
from skdpsynth.evaluation._results import ComparisonResult

__all__ = [
    "ComparisonResult",
    "QualityReport",
    "compare_synthesizers",
    "quality_report",
    "split_table",
]
