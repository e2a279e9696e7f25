"""One call for the quality of a synthetic table: what is good, and what is worst."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.model_selection import train_test_split

from skdpsynth.evaluation._plots import MOST_DRAWN
from skdpsynth.evaluation._results import grid
from skdpsynth.evaluation._runs import LEADING, boosted_area
from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics import (
    CLASSIFIERS,
    LEAST_ROWS,
    MOST_ROWS,
    REGRESSORS,
    averaged,
    broken_relations,
    check_tables,
    column_fidelity,
    equal_rows,
    is_measurement,
    least_area,
    marginal_fidelity,
    split_rows,
    tstr_scores,
    without_identifiers,
)
from skdpsynth.schema import Identifier, TableSchema, Text
from skdpsynth.utils import (
    MOST_SHOWN,
    PRIVATE_FOOTER,
    Block,
    Document,
    Grid,
    Heading,
    Items,
    check_range,
    drawable,
    picture,
)
from skdpsynth.utils.containers import from_arrow

_PALE = 0.2  # a distance that is not dark: a good table has a pale picture
_MEANING = {
    "auroc": "AUROC of gradient boosting, trained on the table and tested on real rows"
    " (1 is best, .5 is a guess)",
    "auprc": "AUPRC of the same (1 is best, the share of the label is a guess)",
    "r2": "R squared of gradient boosting, trained on the table and tested on real rows"
    " (1 is best, 0 is a guess)",
    "rmse": "root of its mean squared error, in the unit of the target (0 is best)",
    "pairs": "distance of the shares of pairs of values, mean of all pairs of columns"
    " (0 is best)",
    "columns": "distance of the shares of values, mean of all columns (0 is best)",
    "c2st": "AUC of gradient boosting that separates the table from real rows (.5 is"
    " best, 1 is worst)",
    "broken": "share of rows that break a relation between two columns (0 is best)",
    "copies": "share of rows that equal a real row in every column (as real rows have"
    " others that equal them is best)",
}


@dataclass(frozen=True, eq=False)
class QualityReport(Document):
    """How good a synthetic table is, the worst first.

    It is computed from real rows, so **it is not differentially private**, and no
    epsilon covers it: it is for who may see the real table.

    Parameters
    ----------
    scores : DataFrame
        Index "auroc" and "auprc", or "r2" and "rmse" of a target that is a number,
        "pairs", "columns", "c2st", "broken" and "copies"; without a target or with one
        column some are not there. Columns `synthetic`, and `real`: what one half of the
        real rows has beside the other half; NaN where the rows are too few. "copies" is
        the share of rows that equal a real one, `real` that of real rows that equal
        another one.
    columns : DataFrame
        Of each column, time of day and day of week: `distance`, as in
        `column_fidelity`, `missing`, and `real`, the distance of the halves; the worst
        first. One with the same one value in both tables has NaN and no part in means.
    pairs : Series
        Distance of each pair, as in `marginal_fidelity`; the worst pair first.
    relations : DataFrame
        What `broken_relations` found.
    tstr : DataFrame or None
        What `tstr_scores` found; None without a target.
    left_out : tuple of column names
        Columns that tell rows apart, and texts: they were not looked at.
    repeated : bool, default=False
        Whether "c2st" is below .5 by more than its error: rows repeat real ones.

    See Also
    --------
    quality_report : Makes it.

    Notes
    -----
    It prints as text, shows in a notebook, and has ``to_markdown``, ``to_html`` and
    ``plot``.
    """

    scores: pd.DataFrame
    columns: pd.DataFrame
    pairs: pd.Series
    relations: pd.DataFrame
    tstr: pd.DataFrame | None
    left_out: tuple[Hashable, ...]
    repeated: bool = False

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distance of every pair of columns, and of each column by itself.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        Axes
            A square for each pair, and on the diagonal for each column; the darker,
            the worse. Of more than 32 columns the 32 worst are drawn.
        """
        alone = self.columns["distance"]
        worst = {_key(name) for name in alone.index[:MOST_DRAWN]}
        names = [n for n in map(_key, self.columns.attrs["order"]) if n in worst]
        place = {name: i for i, name in enumerate(names)}
        squares = np.full((len(names), len(names)), np.nan)
        both = {(name, name): distance for name, distance in alone.items()}
        # Of many columns only some pairs are scored.
        for pair, distance in (both | self.pairs.to_dict()).items():
            i, j = (place.get(_key(name)) for name in pair)
            if i is not None and j is not None:
                squares[j, i] = distance
        if ax is None:
            side = 3.0 + 0.3 * len(names)
            _, ax = plt.subplots(figsize=(side + 0.6, side), layout="compressed")
        most = np.nanmax(squares, initial=_PALE)
        image = ax.imshow(squares, cmap="viridis_r", vmin=0.0, vmax=most)
        labels = [drawable(name, 18) for name in names]
        ax.set_xticks(range(len(names)), labels, rotation=90)
        ax.set_yticks(range(len(names)), labels)
        ax.tick_params(labelsize=9, length=0)
        ax.spines[:].set_visible(False)
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.04, pad=0.02)
        bar.set_label("distance to real rows (0 is best)")
        ax.set_title("Pairs of columns; each alone on the diagonal", fontsize=11)
        ax.set_xlabel(PRIVATE_FOOTER, fontsize=7, color="0.35", loc="left")
        return ax

    def _blocks(self, *, drawn: bool) -> Iterator[Block]:
        yield Heading("Quality of a synthetic table", 1)
        yield f"{PRIVATE_FOOTER}."
        yield (
            "The column of real rows compares one half of them with the other: a table"
            " of this size can hardly have smaller distances. (Its classifier learns"
            " from half of the real rows only, so that a synthetic table may have a"
            " better one.)"
        )
        scores = self.scores[["synthetic", "real"]].assign(
            meaning=[_MEANING[name] for name in self.scores.index]
        )
        yield _grid("score", self.scores.index, scores)
        if (label := getattr(self.tstr, "attrs", {}).get("pos_label")) is not None:
            yield f"Predicted against the other: {label!r}."
        if self.repeated:
            yield (
                "The c2st is below .5 by more than its error. That is not better than"
                " .5: the table repeats real rows, as copies do."
            )
        if self.left_out:
            left = ", ".join(dict.fromkeys(map(str, self.left_out)))
            yield f"Left out, since they tell rows apart or are texts: {left}."
        yield Heading("Columns, the worst first")
        worst = self.columns[["distance", "real"]].head(MOST_SHOWN)
        yield _grid("column", worst.index, worst)
        if len(self.pairs):
            yield Heading("Pairs of columns, the worst first")
            pairs = self.pairs.head(MOST_SHOWN)
            yield _grid("pair", pairs.index, pairs.to_frame("distance"))
        if drawn:
            yield picture(self.plot(), "Distances of all pairs of columns")
        yield Heading("Broken relations, the worst first")
        broken = self.relations[self.relations["synthetic"] > self.relations["real"]]
        broken = broken.head(MOST_SHOWN)
        signs = broken["relation"].map({"values": "and", "order": "<="})
        named = zip(broken["first"], signs, broken["second"], strict=True)
        columns = [f"{_key(first)} {sign} {_key(last)}" for first, sign, last in named]
        nothing = "None is broken in more rows than in real ones."
        yield _grid("columns", columns, broken[_SHARES]) if len(broken) else nothing
        if self.tstr is not None and len(self.tstr) > 2:
            yield Heading("Learnt from synthetic rows, tested on real ones")
            yield grid(self.tstr.reset_index())
            # One that fails moves no median.
            of_all = self.tstr.loc[averaged(self.tstr.index.drop("mean"))].median()
            medians = ", ".join(f"{name} {value:.3f}" for name, value in of_all.items())
            yield Items([f"median of all: {medians}"])


_SHARES = ["synthetic", "real", "independent"]
_HEADINGS = {"real": "real rows", "independent": "if independent"}


def _key(name: Hashable) -> Hashable:
    """Return the name of a column that an index may have as NaN."""
    return None if pd.isna(name) is True else name


def _grid(heading: str, names: Iterable[Any], table: pd.DataFrame) -> Grid:
    """Write a table whose rows are columns, or tuples of columns."""
    keys = (name if isinstance(name, tuple) else (name,) for name in names)
    table = table.rename(columns=_HEADINGS)
    table.insert(0, heading, [" and ".join(str(_key(k)) for k in key) for key in keys])
    return grid(table)


_LOG = logging.getLogger("skdpsynth.evaluation")


def quality_report(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema | None = None,
    *,
    target: Hashable = None,
    panel: bool = False,
    n_jobs: int | None = None,
) -> QualityReport:
    """Score a synthetic table against real rows: the whole, and what is worst.

    Parameters
    ----------
    real : DataFrame or Arrow table
        Real rows, best some that the synthesizer never saw.
    synthetic : DataFrame or Arrow table
        Synthetic rows with the same columns in any order. Where only one of the tables
        has an identifier or a text of the schema, or its privacy unit, it may lack.
    schema : TableSchema, optional
        Says what is an identifier, a text or the unit of privacy, which are left out,
        and the target. Without one, texts that differ in every row are left out.
    target : column name, optional
        The column to predict; by default that of the schema.
    panel : bool, default=False
        Whether to score the twelve classifiers of the papers too, or the five
        regressors, as in `tstr_scores`, and not gradient boosting alone.
    n_jobs : int or None, default=None
        Classifiers trained at the same time, as in joblib.

    Returns
    -------
    QualityReport
        **Not differentially private**: it is computed from real rows.

    Raises
    ------
    InvalidTableError
        As in `tstr_scores` and `column_fidelity`.
    ValueError
        As in `tstr_scores`.

    Notes
    -----
    Rows whose target is missing take no part where it is predicted. The table of real
    scores comes from two random halves of `real`, always the same, with every label in
    both.

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> from skdpsynth.evaluation import quality_report
    >>> table = load_thyroid()
    >>> report = quality_report(table[::2], table[1::2], target="class")
    >>> bool(report.scores.loc["c2st", "synthetic"] < 0.6)
    True
    """
    if target is None and schema is not None:
        target = schema.target
    real, synthetic, left_out = _readable(real, synthetic, schema, target)
    report = _compared(real, synthetic, target, panel, n_jobs, left_out)
    if len(real) >= 2 * LEAST_ROWS:
        _LOG.info("One half of the real rows is compared with the other")
        parts = split_rows(real, target, -(-len(real) // 2), "halves")
        halves = [half.reindex(columns=real.columns) for half in parts]
        # What it warns of is not of the synthetic table.
        with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
            how: Any = {"pos_label": getattr(report.tstr, "attrs", {}).get("pos_label")}
            of_real = _compared(halves[0], halves[1], target, False, n_jobs, **how)
        report.scores["real"] = of_real.scores["synthetic"]
        report.scores.loc["copies", "real"] = equal_rows(real, synthetic)[1]
        report.columns["real"] = of_real.columns["distance"]
    return report


def split_table(
    table: pd.DataFrame,
    unit: Hashable = None,
    target: Hashable = None,
    *,
    test_size: float = 0.25,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows to fit and rows to test, with all rows of a unit in one of them.

    Parameters
    ----------
    table : DataFrame or Arrow table
        The private table.
    unit : column name, optional
        The `privacy_unit`, such as a patient; a row without one is its own.
    target : column name, optional
        Its labels have the same shares in both parts, but for those of few units.
    test_size : float, default=0.25
        Share of the units, or rows, to test, in (0, 1).
    random_state : int, RandomState or None, default=None
        As in scikit-learn.

    Returns
    -------
    train, test : DataFrame
        In the order of `table`; both private. A fit protects the rows it is given.

    Raises
    ------
    InvalidTableError
        If the table lacks a column.
    ValueError
        If `test_size` is out of range, or a part would be empty.

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> from skdpsynth.evaluation import split_table
    >>> [len(part) for part in split_table(load_thyroid(), target="class")]
    [5400, 1800]
    """
    check_range("test_size", test_size, 0 < test_size < 1, "a number in (0, 1)")
    table = from_arrow(table)
    if strange := {unit, target}.difference([None, *table.columns]):
        msg = f"Expected columns of the table. Got {[*strange]}; name others."
        raise InvalidTableError(msg)
    units = np.arange(len(table))
    if unit is not None:
        units = pd.factorize(table[unit])[0]
        units = np.where(units < 0, -1 - np.arange(len(table)), units)
    names, first = np.unique(units, return_index=True)
    labels = None
    if target is not None:
        labels = pd.factorize(table[target].iloc[first], use_na_sentinel=False)[0]
        counts = np.bincount(labels)
        few = counts * min(test_size, 1 - test_size) < 1
        labels[few[labels]] = counts.argmax()
    how = {"test_size": test_size, "random_state": random_state, "stratify": labels}
    held_out = np.isin(units, train_test_split(names, **how)[1])
    return table[~held_out], table[held_out]


def _readable(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema | None,
    target: Hashable,
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Hashable, ...]]:
    """Leave out what no score can be read off; return the names too."""
    real, synthetic = from_arrow(real), from_arrow(synthetic)
    unread: list[Hashable] = []
    if schema is not None:
        kinds = Identifier, Text
        unread = [n for n, c in schema.columns.items() if isinstance(c, kinds)]
        unread.append(schema.privacy_unit)
    if isinstance(real, pd.DataFrame) and isinstance(synthetic, pd.DataFrame):
        unread = [n for n in unread if n in real.columns or n in synthetic.columns]
        real = real.drop(columns=unread, errors="ignore")
        synthetic = synthetic.drop(columns=unread, errors="ignore")
    tables = check_tables(None, real=real, synthetic=synthetic)
    tables, alone = without_identifiers(tables, target)
    return tables["real"], tables["synthetic"], (*unread, *alone)


def _compared(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    target: Hashable,
    panel: bool,
    n_jobs: int | None,
    left_out: tuple[Hashable, ...] = (),
    pos_label: Any = None,  # noqa: ANN401 - any label
) -> QualityReport:
    """Score one table against another, without what real rows get."""
    figures: dict[str, float] = {}
    tstr = None
    if target is not None:
        if target not in real.columns:
            raise InvalidTableError(
                f"Expected the target column {target!r}, but it is not there. Name the"
                " label column in `target`, or leave it out."
            )
        complete = [table[table[target].notna()] for table in (synthetic, real)]
        number = is_measurement(complete[1][target])
        boosting, all_of_them = LEADING[number], REGRESSORS if number else CLASSIFIERS
        chosen = list(all_of_them) if panel else [boosting]
        _LOG.info("Models that predict %r are trained: %d", target, len(chosen))
        how: dict[str, Any] = {"target": target, "pos_label": pos_label}
        tstr = tstr_scores(*complete, classifiers=chosen, n_jobs=n_jobs, **how)
        figures |= tstr.loc[boosting].to_dict()
    pairs = pd.Series(dtype=float)
    relations = pd.DataFrame(columns=["first", "second", *_SHARES, "relation"])
    columns = column_fidelity(real, synthetic).drop(columns="kind").assign(real=np.nan)
    columns.attrs["order"] = list(columns.index)
    if real.shape[1] > 1:
        pairs = marginal_fidelity(real, synthetic)
        figures["pairs"] = float(pairs.mean())
        relations = broken_relations(real, synthetic)
    figures["columns"] = float(columns["distance"].mean())
    repeated, n_rows = False, min(len(real), len(synthetic), MOST_ROWS)
    if n_rows >= LEAST_ROWS:
        _LOG.info("A model learns to tell synthetic rows from real ones")
        figures["c2st"] = boosted_area(real, synthetic)
        repeated = figures["c2st"] < least_area(n_rows)
    if real.shape[1] > 1:
        figures["broken"] = relations.attrs["any_relation"]["synthetic"]
    figures["copies"] = equal_rows(real, synthetic)[0]
    scores = pd.DataFrame({"synthetic": figures, "real": np.nan})
    worst: dict[str, Any] = {"ascending": False, "kind": "stable"}
    columns, pairs = (
        columns.sort_values("distance", **worst),
        pairs.sort_values(**worst),
    )
    for table in (scores, columns, pairs, relations):
        table.attrs["contains_private_statistics"] = True
    found = scores, columns, pairs, relations, tstr
    return QualityReport(*found, left_out, repeated)
