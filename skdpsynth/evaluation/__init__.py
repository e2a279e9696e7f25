"""Compare synthesizers on one table: scores, costs, plots and a report.

`_compare` makes the runs, `_runs` is one of them and its record in a folder,
`_results` is what was found, `_marginals` columns in a form that can be plotted,
`_plots` the plots and `_html` the page.
"""

from skdpsynth.evaluation._compare import compare_synthesizers
from skdpsynth.evaluation._results import ComparisonResult

__all__ = ["ComparisonResult", "compare_synthesizers"]
