"""Compare synthesizers on one table: scores, costs, plots and a report."""

from skdpsynth.evaluation._compare import compare_synthesizers
from skdpsynth.evaluation._results import ComparisonResult

__all__ = ["ComparisonResult", "compare_synthesizers"]
