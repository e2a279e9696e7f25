"""How much synthetic tables that hang on one another look like real ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics._encode import (
    Matrix,
    check_tables,
    finite_numbers,
    is_measurement,
)
from skdpsynth.metrics._fidelity import LEAST_ROWS, Pair, distance, two_sample_scores
from skdpsynth.metrics._linked_page import LinkedFidelity
from skdpsynth.metrics._linked_rows import (
    Coded,
    Family,
    Shares,
    Tables,
    features_of,
    follow,
    with_cells,
)
from skdpsynth.metrics._panel import BESIDE, REGRESSORS
from skdpsynth.metrics._tstr import positive_label, tstr_scores
from skdpsynth.utils.arrays import Ints

if TYPE_CHECKING:
    from skdpsynth.linked import LinkedSchema

_ROUNDS = 60  # of boosting: 100 take twice the time, and areas differ by .01 at most


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
        Its `scores` has a row for each link and score, with the `floor` that real
        tables reach. **Not differentially private**: it is computed from real rows.

    Raises
    ------
    InvalidTableError
        If a table or a column is missing, or a table has no rows.
    TypeError
        If a table is not a DataFrame.

    Warns
    -----
    DegradedResultWarning
        As `tstr_scores` does.

    Notes
    -----
    Real and synthetic units, rows of the root with all that hang on them, are divided
    into two halves by what they hold, however keys are numbered. A score compares the
    first half of the synthetic units with the second half of the real ones; its floor
    compares the first half of the real units with the same. So both are of equally many
    rows, and tables that copy the real ones get the floor, not less.

    Of each parent the first `max_rows` rows in order are compared. Distances are total
    variation distances, means over columns or pairs of them, in the cells of
    `marginal_fidelity`. Lags and changes need an order. Where the root has a target,
    "tstr" learns it from `unit_features` and the columns of the root. What is broken
    (orphans and below) is the share in all synthetic rows, beside that in all real
    ones.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsynth import Link, LinkedSchema, TableSchema
    >>> from skdpsynth.metrics import linked_fidelity
    >>> schema = LinkedSchema(
    ...     {"homes": TableSchema({}), "people": TableSchema({})},
    ...     [Link("people", parent="homes", key="home")],
    ... )
    >>> homes = pd.DataFrame({"home": range(100), "rooms": np.arange(100) % 5})
    >>> people = pd.DataFrame({"home": np.arange(300) // 3, "age": np.arange(300) % 80})
    >>> real = {"homes": homes, "people": people}
    >>> moved = people.assign(home=people["home"] // 2)
    >>> result = linked_fidelity(real, {**real, "people": moved}, schema)
    >>> scores = result.scores.set_index("score")
    >>> float(scores.loc["children", "value"]), float(scores.loc["children", "floor"])
    (1.0, 0.0)
    """
    sides = _checked(real, synthetic, schema)
    own, half, of_real = follow(sides[0], schema)
    other, other_half, broken = follow(sides[1], schema)
    root, target = sides[0][schema.root], schema.tables[schema.root].target
    rows, shown = [], {}
    for link in schema.links:
        pair = with_cells(own[link.child], other[link.child])
        test, train = pair[0].of_units(~half), pair[0].of_units(half)
        label = None if link.parent != schema.root else root.get(target)
        values = _scores(test, pair[1].of_units(other_half), label)
        # What it warns of is not of the synthetic tables.
        with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
            floors = _scores(test, train, label)
        values, floors = values | broken[link.child], floors | of_real[link.child]
        rows += [(link.child, name, values[name], floors[name]) for name in values]
        shown[link.child] = pair
    scores = pd.DataFrame(rows, columns=["link", "score", "value", "floor"])
    scores.attrs["contains_private_statistics"] = True
    return LinkedFidelity(scores, shown)


def _checked(real: Tables, synthetic: Tables, schema: LinkedSchema) -> list[Tables]:
    """Check all tables, and bring each to one order of columns."""
    given = {"real": real, "synthetic": synthetic}
    for words, tables in given.items():
        if missing := [name for name in schema.tables if name not in tables]:
            raise InvalidTableError(
                f"Expected all tables of the schema in '{words}', but it lacks "
                f"{missing}. Add them."
            )
    pairs = {
        name: check_tables(None, **{f"{w} {name}": t[name] for w, t in given.items()})
        for name in schema.tables
    }
    return [{n: pairs[n][f"{words} {n}"] for n in pairs} for words in given]


def _scores(real: Family, other: Family, outcome: pd.Series | None) -> Shares:
    """Compare two families by all but the integrity of their tables."""
    found = _distances(real, other)
    unit = f"unit of {real.link.child}"
    joined = []
    for family in (real, other):
        rows = family.children.add_prefix(f"{family.link.child}: ")
        every = np.arange(len(family.parents))
        found_of = (rows, family.place), (features_of(family), every)
        joined.append([_joined(family, *of, unit) for of in found_of])
    rows, sequences = zip(*joined, strict=True)
    found["c2st rows"] = _area(rows[0], rows[1], unit)
    found["c2st sequences"] = _area(sequences[0], sequences[1], unit)
    if outcome is not None:
        outcome, target = outcome.dropna(), outcome.name
        test, train = (t[t[target].notna()].drop(columns=unit) for t in sequences)
        model = [*REGRESSORS][-1] if is_measurement(outcome) else BESIDE
        if len(train) and len(test[target].unique()) > 1:
            label = positive_label(outcome)
            how: Any = {"target": target, "classifiers": [model], "pos_label": label}
            learnt = tstr_scores(train, test, **how)
            found[f"tstr {learnt.columns[0]}"] = float(learnt.iloc[0, 0])
    return found


def _joined(family: Family, rows: pd.DataFrame, at: Ints, unit: str) -> pd.DataFrame:
    """Put rows beside their parents, and the unit that they belong to."""
    tables = [rows, family.parents.iloc[at]]
    joined = pd.concat([table.reset_index(drop=True) for table in tables], axis=1)
    return joined.assign(**{unit: family.unit[at]})


def _area(real: pd.DataFrame, other: pd.DataFrame, unit: str) -> float:
    """Tell two tables apart; NaN where they have too few units, or no column."""
    few = min(table[unit].nunique() for table in (real, other)) < LEAST_ROWS
    if few or real.shape[1] < 2:
        return np.nan
    # Sequences have many features: more rounds take long and find little more.
    judge = {BESIDE: HistGradientBoostingClassifier(max_iter=_ROUNDS, random_state=0)}
    areas = two_sample_scores(real, other, classifiers=judge, unit=unit)
    return float(areas[BESIDE])


def _distances(real: Family, other: Family) -> Shares:
    """Compare what is in rows, and how they follow one another."""
    sides, most = (real, other), real.link.max_rows
    own = _pairs(real.own, other.own, slice(None), slice(None))
    given = _pairs(real.given, other.given, slice(None), slice(None))
    above = _pairs(real.given, other.given, real.place, other.place)
    number = (real.counts, other.counts, most + 1)
    icc = [[_icc(side, column) for column in side.own] for side in sides]
    found = {
        "children": distance([number]),
        "children given parent": _mean(_conditional(number, c) for c in given),
        "parent x child": _mean(distance([a, b]) for a in own for b in above),
        "own x own": _mean(distance([a, b]) for a, b in combinations(own, 2)),
        "icc": _mean(abs(a - b) for a, b in zip(*icc, strict=True)),
    }
    if real.link.order_by is None:
        return found
    for lag in (1, 2):
        at, other_at = (side.steps(lag) for side in sides)
        before = _pairs(real.own, other.own, at, other_at)
        after = _pairs(real.own, other.own, at + lag, other_at + lag)
        found[f"lag {lag}"] = _mean(distance([a, b]) for a in before for b in after)
        same = zip(before, after, strict=True)
        found[f"lag {lag} same"] = _mean(distance([a, b]) for a, b in same)
    changes = [
        [side.changes(column.codes)[side.counts > 1] for column in side.own]
        for side in sides
    ]
    both = zip(*changes, strict=True)
    found["changes"] = _mean(distance([(a, b, most)]) for a, b in both)
    return found


def _pairs(
    own: Sequence[Coded], other: Sequence[Coded], at: Ints | slice, there: Ints | slice
) -> list[Pair]:
    """Return the codes of columns in some rows of both tables."""
    return [
        (a.codes[at], b.codes[there], a.cells.n_cells)
        for a, b in zip(own, other, strict=True)
    ]


def _mean(distances: Iterable[float]) -> float:
    """Return the mean, and NaN of none."""
    listed = [*distances]
    return float(np.mean(listed)) if listed else np.nan


def _conditional(number: Pair, given: Pair) -> float:
    """Compute the mean distance in the cells of another column."""
    cells, sizes = np.unique(given[0], return_counts=True)
    distances = [
        distance([(number[0][given[0] == c], number[1][given[1] == c], number[2])])
        for c in cells
    ]
    return float(np.average(distances, weights=sizes))


def _icc(family: Family, column: Coded) -> float:
    """Compute the share of a column's variance that is between parents."""
    place = family.place
    if column.cells.kind == "category":
        values: Matrix = np.eye(column.cells.n_cells)[column.codes]
    else:
        values = finite_numbers(family.children[column.name])[:, None]
        known = ~np.isnan(values[:, 0])
        values, place = values[known], place[known]
    counts = np.bincount(place, minlength=1)
    several = counts[place] > 1
    values, counts = values[several], counts[counts > 1]
    if not len(counts):
        return 0.0
    values = values - values.mean(axis=0)
    sums = np.add.reduceat(values, np.cumsum(counts) - counts)
    total = (values**2).sum()
    within = total - (sums**2 / counts[:, None]).sum()
    freedom = (len(values) - len(counts)) / len(values)
    return float(1 - within / freedom / total) if total > 0 else 0.0
