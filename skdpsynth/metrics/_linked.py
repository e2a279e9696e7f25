"""How much synthetic tables that hang on one another look like real ones."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats.contingency import association
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import PredefinedSplit, cross_val_score

from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics._encode import (
    MOST_LABELS,
    Cells,
    check_tables,
    finite_numbers,
    is_measurement,
    kind_of,
    row_hashes,
    shuffled,
)
from skdpsynth.metrics._fidelity import (
    LEAST_ROWS,
    MOST_ROWS,
    labelled,
    marginal_fidelity,
)
from skdpsynth.metrics._panel import BESIDE, REGRESSORS
from skdpsynth.metrics._tstr import positive_label, tstr_scores
from skdpsynth.schema import UNREAD
from skdpsynth.utils import (
    MOST_SHOWN,
    PRIVATE_FOOTER,
    Block,
    Document,
    Grid,
    Heading,
    check_range,
    drawable,
    picture,
)
from skdpsynth.utils.arrays import Bools, Ints

if TYPE_CHECKING:
    from skdpsynth.linked import Link, LinkedSchema

Tables = Mapping[str, pd.DataFrame]
Figures = dict[str, float]

_ROUNDS = 60  # of boosting: 100 take nearly twice the time
_SIDES = ("real", "synthetic")
_N_DRAWN = 3  # sequences of each side: as many as fit beside one another
_SMALL: dict[str, Any] = {"fontsize": "small"}


class Family(NamedTuple):
    """Rows of a parent, and those that hang on them by a link, in order.

    `place` says on which parent a child hangs, `unit` to which root a parent belongs.
    """

    link: Link
    parents: pd.DataFrame
    children: pd.DataFrame
    place: Ints
    unit: Ints

    @property
    def counts(self) -> Ints:
        """Number of children of each parent."""
        return np.bincount(self.place, minlength=len(self.parents))

    def of_units(self, kept: Bools) -> Family:
        """Return what belongs to some rows of the root."""
        parents = kept[self.unit]
        rows = parents[self.place]
        tables = self.parents[parents], self.children[rows]
        place = (np.cumsum(parents) - 1)[self.place[rows]]
        return Family(self.link, *tables, place, self.unit[parents])

    def rows(self, lag: int) -> tuple[Ints, Ints]:
        """Return the rows that have a row of their parent so far before, and these."""
        place = self.place
        before = np.flatnonzero(place[lag:] == place[: max(len(place) - lag, 0)])
        return before + lag, before


def unit_features(tables: Tables, link: Link) -> pd.DataFrame:
    """Return what the rows that hang on each row of a parent come to.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Real or synthetic tables by name.
    link : Link
        Which hangs on which; the first `max_rows` rows of a parent are used.

    Returns
    -------
    DataFrame of shape (n_parents, n_features)
        Has the index of the parent. "visits: number" is the number of rows, "visits:
        lab mean" the mean of numbers, times (in seconds) and the 20 most frequent
        categories (0 or 1: a share). With an order "first" and "last" are those of the
        first and the last row, and "changes" says how often they change.

    Raises
    ------
    KeyError
        If a table or a key is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth import Link
    >>> from skdpsynth.metrics import unit_features
    >>> visits = pd.DataFrame({"who": [1, 1, 2], "lab": [3.0, 5.0, 9.0]})
    >>> tables = {"people": pd.DataFrame({"who": [1, 2]}), "visits": visits}
    >>> unit_features(tables, Link("visits", "people", "who")).to_dict("list")
    {'visits: number': [2, 1], 'visits: lab mean': [4.0, 9.0]}
    """
    parents, own = tables[link.parent], tables[link.child]
    modelled = own.drop(columns=link.key)
    rows, place, _ = _matched(parents, own, link, row_hashes(modelled))
    family = Family(link, parents, modelled.iloc[rows], place, np.arange(len(parents)))
    return _features(family, _wide(family, family)).set_axis(parents.index)


def linked_fidelity(
    real: Tables, synthetic: Tables, schema: LinkedSchema
) -> LinkedFidelity:
    """Compare synthetic tables that hang on one another with real ones.

    Parameters
    ----------
    real : mapping of str to DataFrame
        Real tables by name, of units that the synthesizer never saw.
    synthetic : mapping of str to DataFrame
        Synthetic tables with the same names and columns.
    schema : LinkedSchema
        Says what hangs on what. Keys, identifiers and texts are not looked at.

    Returns
    -------
    LinkedFidelity
        **Not differentially private**: it is computed from real rows.

    Raises
    ------
    InvalidTableError
        If a table is missing or empty, or has other columns than the real one.

    Notes
    -----
    Units, rows of the root with all that hang on them, are divided into halves by what
    they hold. A score compares one half of the synthetic units with the second half of
    the real ones, its floor the first half of the real units with the same: tables that
    copy the real ones score the floor itself. Of each parent the first `max_rows` rows
    in order count.
    """
    for words, tables in zip(_SIDES, (real, synthetic), strict=True):
        if missing := [name for name in schema.tables if name not in tables]:
            msg = f"Expected all tables in '{words}', but it lacks {missing}. Add them."
            raise InvalidTableError(msg)
    own, other = {}, {}
    for name in schema.tables:
        both = {f"real {name}": real[name], f"synthetic {name}": synthetic[name]}
        own[name], other[name] = check_tables(None, **both).values()
    families, half, of_real = _linked(own, schema)
    others, other_half, broken = _linked(other, schema)
    outcome = own[schema.root].get(schema.tables[schema.root].target)
    rows = []
    for name, family in families.items():
        target = outcome if family.link.parent == schema.root else None
        test, train = family.of_units(~half), family.of_units(half)
        values = _scores(test, others[name].of_units(other_half), target)
        # What it warns of is not of the synthetic tables.
        with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
            floors = _scores(test, train, target) | of_real[name]
        values |= broken[name]
        rows += [(name, score, values[score], floors[score]) for score in values]
    scores = pd.DataFrame(rows, columns=["link", "score", "value", "floor"])
    scores.attrs["contains_private_statistics"] = True
    return LinkedFidelity(scores, {n: (families[n], others[n]) for n in families})


def _linked(
    tables: dict[str, pd.DataFrame], schema: LinkedSchema
) -> tuple[dict[str, Family], Bools, dict[str, Figures]]:
    """Return the rows of every link, the units of one half, and what is broken."""
    keys = [
        *((link.child, link.key) for link in schema.links),
        *((link.parent, link.parent_key) for link in schema.links),
    ]
    modelled = {}
    for name, table in tables.items():
        columns = schema.tables[name].columns.items()
        unread = [column for column, kind in columns if isinstance(kind, UNREAD)]
        unread += [key for owner, key in keys if owner == name]
        modelled[name] = table.drop(columns=unread, errors="ignore")
    hashes = row_hashes(modelled[schema.root])
    units = {schema.root: np.arange(len(hashes))}
    families, broken = {}, {}
    for link in schema.links:
        above, own = link.parent, link.child
        ties = row_hashes(modelled[own])
        by = schema.tables[own].columns.get(link.order_by)
        rows, place, broken[own] = _matched(tables[above], tables[own], link, ties, by)
        for kept in (tables, modelled):
            kept[own] = kept[own].iloc[rows]
        units[own] = units[above][place]
        np.add.at(hashes, units[own], ties[rows])
        shown = modelled[above], modelled[own]
        families[own] = Family(link, *shown, place, units[above])
    # Of units that hold the same every other one.
    again = pd.Series(hashes).groupby(hashes).cumcount().to_numpy(np.uint64)
    return families, (pd.util.hash_array(hashes) + again) % 2 == 0, broken


def _matched(
    parents: pd.DataFrame,
    children: pd.DataFrame,
    link: Link,
    ties: NDArray[np.uint64],
    described: object = None,
) -> tuple[Ints, Ints, Figures]:
    """Return the children that count, in order, their parents, and what is broken."""
    keys = parents[link.parent_key].astype(object)
    repeated = keys.duplicated()
    known = np.flatnonzero(keys.notna() & ~repeated)
    found = pd.Index(keys.iloc[known]).get_indexer(children[link.key].astype(object))
    place = np.append(known, -1)[found]  # the last one is that of an unknown key
    order = np.zeros(len(children))
    if link.order_by is not None:
        by = children[link.order_by]
        if categories := getattr(described, "categories", None):
            by = by.astype(object).map({c: i for i, c in enumerate(categories)})
        order = by.rank(method="dense", ascending=not link.descending).to_numpy(float)
    rows = np.flatnonzero((place >= 0) & ~np.isnan(order))
    written = rows[np.argsort(place[rows], kind="stable")]
    steps = np.diff(place[written]) == 0
    back = steps & (np.diff(order[written]) < 0)
    rows = rows[np.lexsort((ties[rows], order[rows], place[rows]))]
    counts = np.bincount(place[rows], minlength=len(parents))
    number = np.arange(len(rows)) - (np.cumsum(counts) - counts)[place[rows]]
    broken = {
        "orphans": np.mean(place < 0),
        "disorder": back.sum() / max(steps.sum(), 1),
        "above max_rows": np.mean(counts > link.max_rows),
        "repeated keys": np.mean(repeated),
    }
    rows = rows[number < link.max_rows]
    return rows, place[rows], {name: float(share) for name, share in broken.items()}


def _wide(family: Family, like: Family) -> pd.DataFrame:
    """Write children as numbers, by parent; frequent categories are 0 or 1."""
    wide: dict[str, Any] = {}
    for name, column in family.children.items():
        if kind_of(like.children[name]) == "category":
            for label in Cells.of(like.children[name], "category", MOST_LABELS).bounds:
                wide[f"{name} {label}"] = (column == label).to_numpy(float, na_value=0)
        else:
            wide[str(name)] = finite_numbers(column)
    return pd.DataFrame(wide, index=pd.Index(family.place))


def _features(family: Family, wide: pd.DataFrame) -> pd.DataFrame:
    """Return what `unit_features` does, of children that are written as numbers."""
    groups = wide.groupby(level=0)
    parts = {"mean": groups.mean()}
    if family.link.order_by is not None:
        parts["first"], parts["last"] = groups.nth(0), groups.nth(-1)
        known = wide.fillna(np.inf)  # what is missing is a value too
        changed = known != known.groupby(level=0).shift().fillna(known)
        parts["changes"] = changed.groupby(level=0).sum()
    own = [part.add_suffix(f" {words}") for words, part in parts.items()]
    features = pd.concat(own, axis=1).reindex(range(len(family.parents)))
    features.insert(0, "number", family.counts)
    return features.add_prefix(f"{family.link.child}: ")


def _views(family: Family, like: Family) -> dict[str, pd.DataFrame]:
    """Return the tables that are compared."""
    wide, (_, parents, children, place, unit) = _wide(family, like), family
    features = _features(family, wide)
    parents, rows = parents.add_prefix("parent: "), children.add_prefix("row: ")
    views = {
        "wide": wide,
        "numbers": parents.assign(number=family.counts.astype(str)),
        "with parents": _beside(parents.iloc[place], rows).set_axis(unit[place]),
        "sequences": _beside(features, parents).set_axis(unit),
    }
    if family.link.order_by is not None:
        for lag in (1, 2):
            now, before = family.rows(lag)
            earlier = children.iloc[before].add_prefix("before: ")
            views[f"lag {lag}"] = _beside(earlier, rows.iloc[now])
        changes = features[family.counts > 1].filter(regex=" changes$")
        views["changes"] = changes.astype(str)  # each number has a cell
    return views


def _scores(real: Family, other: Family, outcome: pd.Series | None) -> Figures:
    """Compare two families, but for what is broken."""
    sides = _views(real, real), _views(other, real)
    views = {name: [side[name] for side in sides] for name in sides[0]}
    numbers, rows = _distances(views["numbers"]), _distances(views["with parents"])
    icc = [*map(_icc, views["wide"])]
    found = {
        "children": _distances([t[["number"]] for t in views["numbers"]], 1).mean(),
        "children x parent": _between(numbers, "parent", "number").mean(),
        "parent x child": _between(rows, "parent", "row").mean(),
        "own x own": _between(rows, "row", "row").mean(),
        "icc": icc[0].sub(icc[1]).abs().mean(),
    }
    for lag in ("lag 1", "lag 2") if "changes" in views else ():
        pairs = _between(_distances(views[lag]), "before", "row")
        same = [a.split(": ", 1)[1] == b.split(": ", 1)[1] for a, b in pairs.index]
        found |= {lag: pairs.mean(), f"{lag} same": pairs[same].mean()}
    if "changes" in views:
        found["changes"] = _distances(views["changes"], 1).mean()
    found["c2st rows"] = _area(*views["with parents"])
    found["c2st sequences"] = _area(*views["sequences"])
    if outcome is not None:
        outcome, target = outcome.dropna(), f"parent: {outcome.name}"
        test, train = (table[table[target].notna()] for table in views["sequences"])
        model = [*REGRESSORS][-1] if is_measurement(outcome) else BESIDE
        if len(train) and len(test[target].unique()) > 1:
            how: Any = {"target": target, "pos_label": positive_label(outcome)}
            learnt = tstr_scores(train, test, classifiers=[model], **how)
            found[f"tstr {learnt.columns[0]}"] = learnt.iloc[0, 0]
    return {score: float(figure) for score, figure in found.items()}


def _beside(*tables: pd.DataFrame) -> pd.DataFrame:
    """Put tables with as many rows beside one another."""
    return pd.concat([table.reset_index(drop=True) for table in tables], axis=1)


def _distances(tables: list[pd.DataFrame], k: int = 2) -> pd.Series:
    """Compute distances of marginals; none where there are no rows or columns."""
    real, other = tables
    if len(real) and len(other) and real.shape[1] >= k:
        return marginal_fidelity(real, other, k)
    return pd.Series(dtype=float)


def _between(pairs: pd.Series, first: str, second: str) -> pd.Series:
    """Return the distances of columns whose names begin so."""
    chosen = [a.startswith(first) and b.startswith(second) for a, b in pairs.index]
    return pairs[chosen]


def _icc(wide: pd.DataFrame) -> pd.Series:
    """Compute the share of each column's variance that is between parents."""
    wide = wide[wide.index.duplicated(keep=False)]
    groups = wide.groupby(level=0)
    within = (wide - groups.transform("mean")).pow(2).sum()
    freedom = wide.count() - groups.count().gt(0).sum()
    return (1 - within / freedom / wide.var(ddof=0)).fillna(0.0)


def _area(real: pd.DataFrame, other: pd.DataFrame) -> float:
    """Compute the AUC of boosting; rows of one unit, the index, are in one fold."""
    n_rows = min(len(real), len(other), MOST_ROWS)
    named = zip((real, other), _SIDES, strict=True)
    tables = [shuffled(table, words).head(n_rows) for table, words in named]
    units = [pd.factorize(table.index)[0] for table in tables]
    if min(len({*own}) for own in units) < LEAST_ROWS or real.shape[1] == 0:
        return np.nan
    X, y = labelled(*tables)
    judge = HistGradientBoostingClassifier(max_iter=_ROUNDS, random_state=0)
    folds = PredefinedSplit(np.concatenate(units) % 5)
    return float(cross_val_score(judge, X, y, scoring="roc_auc", cv=folds).mean())


@dataclass(frozen=True, eq=False)
class LinkedFidelity(Document):
    """How good synthetic tables that hang on one another are.

    It is computed from real rows, so **it is not differentially private**, and no
    epsilon covers it: it is for who may see the real tables.

    Parameters
    ----------
    scores : DataFrame
        `link` (its child), `score`, `value` and `floor`, what real tables reach; NaN
        where there are too few units, or no such columns.
    families : mapping of str to pair
        Real and synthetic rows of each link, as they are drawn.

    See Also
    --------
    linked_fidelity : Makes it.

    Notes
    -----
    It prints as text, shows in a notebook, and has ``to_markdown``, ``to_html`` and
    ``plot``. Pictures show real rows. The page on metrics says what scores mean.
    """

    scores: pd.DataFrame
    families: Mapping[str, tuple[Family, Family]]

    def plot(self, link: str | None = None) -> NDArray[Any]:
        """Draw children per parent, what rows say of the next, and some sequences.

        Parameters
        ----------
        link : str, optional
            The child of the link; by default the first one.

        Returns
        -------
        ndarray of Axes
            Of a new figure: numbers of children; Cramer's V of columns and those of the
            row before (without an order of the same row), real and synthetic; and three
            real parents beside three synthetic ones.
        """
        link = next(iter(self.families)) if link is None else link
        check_range("link", link, link in self.families, f"one of {[*self.families]}")
        pair = self.families[link]
        names = [*pair[0].children][: MOST_SHOWN // 2]
        size, heights = (12, 4.5 + len(names)), [4, max(len(names), 1)]
        figure = plt.figure(figsize=size, layout="constrained")
        above, below = (
            figure.add_gridspec(2, 1, height_ratios=heights)[i].subgridspec(*shape)
            for i, shape in enumerate([(1, 3), (heights[1], 2 * _N_DRAWN)])
        )
        ax = figure.add_subplot(above[0], xlabel="rows of a parent", ylabel="share")
        shares = [pd.Series(f.counts).value_counts(normalize=True) for f in pair]
        ax.bar(shares[0].index, shares[0], color="0.75", label=_SIDES[0])
        ax.plot(shares[1].sort_index(), "ko-", markersize=4, label=_SIDES[1])
        ax.legend(frameon=False)
        axes: dict[Hashable, Axes] = {}
        for i, family in enumerate(pair):
            ax = figure.add_subplot(above[i + 1], title=f"{_SIDES[i]}: Cramer's V")
            _draw_dependence(ax, family, pair[0])
            order = np.argsort(family.counts, kind="stable")
            # Of many rows, but not the most.
            chosen = order[len(order) * np.arange(5, 5 + _N_DRAWN) // 8]
            for (j, parent), (k, name) in product(enumerate(chosen), enumerate(names)):
                ax = figure.add_subplot(below[k, 3 * i + j], sharey=axes.get(name))
                values = family.children.loc[family.place == parent, name]
                if kind_of(pair[0].children[name]) == "category":
                    values = values.astype(str)
                ax.plot(range(1, len(values) + 1), values, "ko-", markersize=3)
                ax.set_xticks([1, max(len(values), 1)])
                ax.tick_params(labelsize="x-small", labelleft=i + j == 0)
                ax.set_title(f"{_SIDES[i]} {j + 1}" if k == 0 else "", **_SMALL)
                axes.setdefault(name, ax).set_ylabel(drawable(name, 14), **_SMALL)
        figure.supxlabel(PRIVATE_FOOTER, color="0.35", **_SMALL)
        return np.array(figure.axes)

    def _blocks(self, *, drawn: bool) -> Iterator[Block]:
        yield Heading("Linked tables beside real ones", 1)
        yield f"{PRIVATE_FOOTER}."
        yield (
            "0 is best, but .5 of c2st and 1 of tstr. The floor is what one half of the"
            " real units has beside the other; copies of real units have no less."
        )
        for link, scores in self.scores.groupby("link", sort=False):
            yield Heading(str(link))
            figures = scores[["value", "floor"]].map("{:.3f}".format)
            rows = figures.assign(score=scores["score"])[["score", "value", "floor"]]
            yield Grid([*rows], rows.to_numpy().tolist())
            if drawn:
                says = f"{link}: rows of a parent, dependence, and three sequences"
                yield picture(self.plot(str(link))[0], says)


def _draw_dependence(ax: Axes, family: Family, like: Family) -> None:
    """Draw Cramer's V of each column and each one of the row before, or of its row."""
    lag = int(family.link.order_by is not None)
    (now, before), names = family.rows(lag), [*family.children][:MOST_SHOWN]
    squares, codes = np.zeros((len(names), len(names))), []
    for name in names:
        column = like.children[name]
        cells = Cells.of(column, kind_of(column), MOST_LABELS // 2)
        codes.append(cells.codes(family.children[name]))
    for i, j in np.ndindex(squares.shape):
        counts = pd.crosstab(codes[i][before], codes[j][now])
        squares[i, j] = association(counts) if min(counts.shape) > 1 else 0.0
    labels = [drawable(name, 16) for name in names]
    ax.set_xticks(range(len(names)), labels, rotation=90, **_SMALL)
    ax.set_yticks(range(len(names)), labels, **_SMALL)
    ax.set_ylabel("in the row before" if lag else "in the same row", **_SMALL)
    ax.imshow(squares, cmap="Greys", vmin=0.0, vmax=1.0)
