"""Compare synthesizers on one table, or score one synthetic table: `_quality`.

`_compare` makes the runs, `_runs` is one of them and the folder of finished ones. A
`ComparisonResult`, its plots and its page are in `_results`; `_plots` draws, and
`_marginals` has columns and pairs in a form that can be plotted.
"""

from skdpsynth.evaluation._compare import compare_synthesizers
from skdpsynth.evaluation._quality import QualityReport, quality_report
from skdpsynth.evaluation._results import ComparisonResult

__all__ = [
    "ComparisonResult",
    "QualityReport",
    "compare_synthesizers",
    "quality_report",
]
