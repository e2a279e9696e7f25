"""What a comparison found, in tables: runs, scores and their averages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from skdpsynth.evaluation._runs import METRICS, REAL
from skdpsynth.metrics import averaged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skdpsynth.evaluation._marginals import Marginal, PlainColumn
    from skdpsynth.evaluation._runs import Metric

    Samples = Mapping[tuple[str, float], Sequence[PlainColumn]]

_COSTS = dict.fromkeys(["epsilon_spent", "delta", "fit_s", "sample_s"], "mean")
_COSTS["peak_mb"] = "max"  # the first run in a process loads libraries too
# Metrics of whole tables in the order of the summary; the last two are not distances.
_TABLE_METRICS = {
    # That of rmse is that of r2, as both follow the squared error.
    "AC": ("sra_auroc", "sra_auprc", "sra_r2"),
    "fidelity": (
        *("feature_ranking", "ks", "tv", "missing", "pairs"),
        *("two_sample_linear", "two_sample_forest"),
    ),
}


class Found:
    """The tables of a `ComparisonResult`, which says what they hold."""

    def __init__(
        self,
        scores: pd.DataFrame,
        runs: pd.DataFrame,
        samples: Samples,
        real_marginals: Sequence[Marginal],
        target: str,
        *,
        real_pairs: Sequence[Marginal] = (),
        contains_private_statistics: bool = True,
    ) -> None:
        self.scores = scores
        self.runs = runs
        self.target = target
        self.contains_private_statistics = contains_private_statistics
        self._samples = dict(samples)
        self._real_marginals = list(real_marginals)
        self._real_pairs = list(real_pairs)
        for table in (scores, runs):
            table.attrs["contains_private_statistics"] = contains_private_statistics

    def __repr__(self) -> str:
        names = list(dict.fromkeys(self.runs["synthesizer"]))
        private = self.contains_private_statistics
        return f"{type(self).__name__}({names}, contains_private_statistics={private})"

    def summary(self) -> pd.DataFrame:
        """Average over the repeats.

        Returns
        -------
        DataFrame
            One row for each synthesizer and epsilon, the reference first. `auroc` and
            `auprc` (of regressors `r2` and `rmse`) are means over classifiers and
            repeats, tested on real rows (Setting B, for the reference A), `auroc_sd`
            and `auprc_sd` the standard deviations of the repeats, `rank` the place by
            `auroc`, or `r2`, at this epsilon, 1 the best; then Setting C; the ranking
            agreements `sra_auroc` and `sra_auprc`, or `sra_r2`, and `feature_ranking`
            (1 is best; those of the reference are what as many real rows get); the
            fidelity metrics, distances (0 is best) and `two_sample_*`
            (0.5 is best); means of what the runs cost, of `peak_mb` the maximum;
            `n_runs` and `n_failed`. What was not computed has no column, or NaN.
        """
        groups = self.runs.groupby(["synthesizer", "epsilon"], sort=False, dropna=False)
        table = pd.DataFrame([self._summary_row(n, e, runs) for (n, e), runs in groups])
        first = self._metrics[0]
        if first in table:
            # The epsilon of the reference is NaN, and so is its rank.
            place = table.groupby("epsilon")[first].rank(ascending=False)
            table.insert(table.columns.get_loc(first), "rank", place)
        table = table.dropna(axis="columns", how="all")
        table.attrs["contains_private_statistics"] = self.contains_private_statistics
        return table

    def _summary_row(
        self, name: str, epsilon: float, runs: pd.DataFrame
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"synthesizer": name, "epsilon": epsilon}
        real = "A" if name == REAL else "B"
        for setting, ending in ((real, ""), ("C", "_C")):
            for metric in self._metrics:
                repeats = self.repeats(name, epsilon, setting, metric)
                row[f"{metric}{ending}"] = repeats.mean()
                row[f"{metric}{ending}_sd"] = repeats.std()
        for setting, names in _TABLE_METRICS.items():
            for of_table in names:
                row[of_table] = self.repeats(name, epsilon, setting, of_table).mean()
        costs = {name: how for name, how in _COSTS.items() if name in runs}
        row |= runs.agg(costs).to_dict() | {"n_runs": len(runs)}
        if "error" in runs:
            row["n_failed"] = int((runs["error"] != "").sum())
        return row

    def repeats(
        self, synthesizer: str, epsilon: float, setting: str, metric: str
    ) -> pd.Series:
        """Average a score over the classifiers, for each repeat.

        Parameters
        ----------
        synthesizer : str
            Its name, or "real data".
        epsilon : float
            Its epsilon; NaN for the reference.
        setting, metric : str
            As in ``scores``.

        Returns
        -------
        Series of shape (n_repeats_that_have_it,)
            Values by repeat. "HistGradientBoosting" is left out unless it is alone.
        """
        found = self.scores
        found = found[(found["setting"] == setting) & (found["metric"] == metric)]
        found = found[found["synthesizer"] == synthesizer]
        found = found[found["epsilon"].isin([epsilon])]  # NaN is in a list with NaN
        found = found[found["classifier"].isin(averaged(found["classifier"]))]
        return found.groupby("repeat")["value"].mean()

    @property
    def _metrics(self) -> list[Metric]:
        """The metrics of the classifiers or regressors, the one that ranks first."""
        found = set(self.scores["metric"])
        return [name for name in METRICS if name in found] or list(METRICS)[:2]

    @property
    def _names(self) -> list[str]:
        """The synthesizers in the order given."""
        return [n for n in dict.fromkeys(self.runs["synthesizer"]) if n != REAL]
