"""Discovery: what the schema leaves out is released here, in this order.

Labels and class counts, categories, ranges, decimals. What a schema makes unnecessary
is not spent, and goes to what follows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import log_ndtr

from skdpsynth.measure._ranges import buy_grains, buy_ranges
from skdpsynth.measure._shares import (
    CLASS_SHARE,
    DISCOVERY_SHARE,
    GRAINS_SHARE,
    LEVELS_SHARE,
    RANGES_SHARE,
)
from skdpsynth.privacy import (
    Parts,
    clamped_counts,
    grid_noise_std,
    key_threshold,
    noisy_counts,
    thresholded_counts,
)
from skdpsynth.schema import (
    Boolean,
    Categorical,
    TableSchema,
    is_finite,
)
from skdpsynth.table import (
    Classes,
    LevelDomain,
    NumericDomain,
    PrivateRows,
    RowsInParts,
    TableFacts,
    TableRows,
    declared_domain,
    encode_rows,
    modelled_columns,
    needs_grain,
    place_labels,
    public_levels,
    total_keys,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import ColumnLayout, TableLayout

    Codes = NDArray[np.int64]
    Floats = NDArray[np.float64]

# The usual coding of a binary label: known to everybody, so it needs no threshold.
_USUAL_LABELS = (0, 1)
# Noise standard deviations it must exceed to be kept beside other labels, which show
# that the label is not binary. Without others both are kept: a rare class must not get
# lost, and one that is empty gets few rows.
_KEPT_BESIDE_OTHERS = 3.5


def public_labels(
    column: ColumnLayout, schema: TableSchema | None
) -> tuple[Hashable, ...] | None:
    """Give the labels (not their counts) that need no purchase, None if they do."""
    declared = None if schema is None else schema.columns.get(column.name)
    if isinstance(declared, Categorical):
        return tuple(declared.categories)
    known = isinstance(declared, Boolean) or column.kind == "boolean"
    return (False, True) if known else None


def class_share(column: ColumnLayout | None, schema: TableSchema | None) -> float:
    """Give the share of what `buy_classes` may use (in mu^2) that it will use."""
    if column is None:
        return float(schema is None or schema.n_rows is None)
    if public_labels(column, schema) is not None:
        # No counts for a target that is declared to hold missing values only.
        return float(schema is None or not schema.class_counts)
    return 1.0 if column.kind == "integer" else 0.5


def count_noise_std(
    column: ColumnLayout | None, schema: TableSchema | None, mu: float
) -> float:
    """Give the noise of the class counts that `buy_classes` buys; 0 if declared."""
    if class_share(column, schema) == 0:
        return 0.0
    found = column is not None and public_labels(column, schema) is None
    return grid_noise_std(mu / math.sqrt(2) if found else mu, 1.0)


def label_thresholds(
    labels: Sequence[Hashable], kind: str, mu: float, threshold_delta: float
) -> Floats:
    """Give the noisy count that each label, undeclared, must exceed to be found."""
    noise_std = grid_noise_std(mu / np.sqrt(2), 1.0)
    found = float(key_threshold(noise_std, threshold_delta, 1))
    if kind != "integer":
        return np.full(len(labels), found)
    others = any(label not in _USUAL_LABELS for label in labels)
    sure = noise_std * _KEPT_BESIDE_OTHERS if others else 0.0
    return np.array([sure if label in _USUAL_LABELS else found for label in labels])


def buy_classes(
    table: Parts,
    column: ColumnLayout | None,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
) -> Classes:
    """Learn the classes, which are public from here on, and their sizes.

    `column` is the label column of the parts, which are DataFrames.
    """
    if column is None:
        if schema is not None and schema.n_rows is not None:
            return Classes((), np.array([float(schema.n_rows)]))
        return _one_class(table, accountant, mu)
    levels = public_labels(column, schema)
    if levels == ():  # declared to hold nothing but missing values
        return _one_class(table, accountant, mu)
    if levels is not None:
        if schema is not None and schema.class_counts is not None:
            given = [float(schema.class_counts[level]) for level in levels]
            return Classes(levels, np.maximum(given, 1.0))
        noisy, noise_std = _counted(table, column, levels, accountant, mu)
        return Classes(levels, likely_counts(noisy, noise_std), noise_std)
    # Half is kept for the case that no label passes, which no integer column meets.
    share = mu if column.kind == "integer" else mu / np.sqrt(2)
    classes = _found_classes(table, column, accountant, share, threshold_delta)
    if classes.levels:
        return classes
    return _one_class(table, accountant, share)  # no label could be released


def _one_class(table: Parts, accountant: PrivacyAccountant, mu: float) -> Classes:
    """Count the rows and put them all into one class."""
    members = table.map(place_labels, None, ())
    reservation = accountant.reserve_gaussian("row count", mu=mu, sensitivity=1.0)
    counts = np.maximum(noisy_counts(members, 1, reservation), 1).astype(np.float64)
    return Classes((), counts, reservation.noise_std)


def _counted(
    table: Parts,
    column: ColumnLayout,
    levels: Sequence[Hashable],
    accountant: PrivacyAccountant,
    mu: float,
) -> tuple[Floats, float]:
    """Buy the rows of each class, and say how noisy they are."""
    reservation = accountant.reserve_gaussian("class counts", mu=mu, sensitivity=1.0)
    # The last bin holds the rows of no class; a row is in exactly one bin.
    binned = table.map(place_labels, column, levels).map(np.mod, len(levels) + 1)
    noisy = noisy_counts(binned, len(levels) + 1, reservation)[:-1]
    return noisy.astype(np.float64), reservation.noise_std


def _found_classes(
    table: Parts,
    column: ColumnLayout,
    accountant: PrivacyAccountant,
    mu: float,
    threshold_delta: float,
) -> Classes:
    """Find labels that nobody declared: usual ones by count, others by threshold."""
    usual: tuple[Hashable, ...] = _USUAL_LABELS if column.kind == "integer" else ()
    counted: dict[Hashable, float] = {}
    noise_std = 0.0
    if usual:
        mu = mu / np.sqrt(2)
        bought, noise_std = _counted(table, column, usual, accountant, mu)
        counted = dict(zip(usual, bought, strict=True))
    reservation = accountant.reserve_gaussian(
        "other class labels" if usual else "class labels and counts",
        mu=mu,
        sensitivity=1.0,
        delta=threshold_delta,
    )
    (of_key,) = total_keys(table, [column.name])
    keys = sorted(key for key in of_key if key is not None and key not in usual)
    counts = clamped_counts(of_key[key] for key in keys)
    ((kept, noisy),) = thresholded_counts(
        [counts], reservation, threshold_delta, lambda: [keys]
    )
    passed = zip((keys[position] for position in kept), noisy, strict=True)
    # An infinite label is no class.
    found = {label: float(count) for label, count in passed if is_finite(label)}
    alone = not found and noise_std > 0
    sure = -math.inf if alone else _KEPT_BESIDE_OTHERS * noise_std
    found |= {
        level: float(likely_counts(np.array(count), noise_std))
        for level, count in counted.items()
        if count > sure
    }
    if counted and not found:  # an integer column must hold some label
        found = dict([max(counted.items(), key=lambda item: item[1])])
    levels = tuple(sorted(found))
    values = np.array([found[level] for level in levels], dtype=np.float64)
    # Of the same mu and sensitivity, all counts have the same noise.
    needed = key_threshold(reservation.noise_std, threshold_delta, 1)
    return Classes(
        levels, np.maximum(values, 1.0), reservation.noise_std, float(needed)
    )


def likely_counts(noisy: Floats, noise_std: float) -> Floats:
    """Give the mean of counts about noisy ones, cut off at 0; at least 1."""
    if noise_std == 0:
        return np.maximum(noisy, 1.0)
    ratio = noisy / noise_std
    log_density = -0.5 * ratio**2 - 0.5 * math.log(2 * math.pi)
    return np.maximum(noisy + noise_std * np.exp(log_density - log_ndtr(ratio)), 1.0)


_SURE_FROM = 3.0  # noise deviations


def buy_levels(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
    n_rows: float,
) -> list[LevelDomain]:
    """Find the categories of columns that the schema leaves out, sorted by name.

    Kept are levels whose noisy count passed; an infinite one is left to 'other'. A
    missing value is counted as one more key, so a row has one key per column: the
    sensitivity is the root of the number of columns.
    """
    counters = total_keys(Parts.of(table), [column.name for column in columns])
    all_keys = [sorted(key for key in own if key is not None) for own in counters]
    counts = [
        clamped_counts(own[key] for key in [*keys, None])
        for own, keys in zip(counters, all_keys, strict=True)
    ]
    reservation = accountant.reserve_gaussian(
        "categories", mu=mu, sensitivity=math.sqrt(len(columns)), delta=threshold_delta
    )
    domains = []
    released = thresholded_counts(
        counts,
        reservation,
        threshold_delta,
        lambda: [[*keys, None] for keys in all_keys],
    )
    for column, keys, (kept, noisy) in zip(columns, all_keys, released, strict=True):
        nullable = len(keys) in kept
        listed = (keys[position] for position in kept if position < len(keys))
        found = tuple(key for key in listed if is_finite(key))
        ordered = bool(getattr(column.dtype, "ordered", False))
        unsure = _SURE_FROM * reservation.noise_std * math.sqrt(max(len(kept), 1))
        seen = (float(np.sum(noisy)) + unsure) / n_rows
        other = 0.0 if public_levels(column) else max(1.0 - seen, 0.0)
        levels = public_levels(column) or found
        domains.append(LevelDomain(levels, nullable, ordered, other))
    return domains


_WITH_LEVELS = ("categorical", "boolean")  # kinds of columns


def discovery_share(layout: TableLayout, schema: TableSchema | None) -> float:
    """Share of delta that finding keys will need: 0 where all keys are public."""
    return DISCOVERY_SHARE if _n_discoveries(layout, schema) else 0.0


def buy_facts(
    table: pd.DataFrame | Parts,
    layout: TableLayout,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
) -> tuple[TableFacts, TableRows]:
    """Buy what the schema does not say; with it encode the rows, which stay private.

    Those of a DataFrame are in memory; of a table in parts they are kept in parts.
    """
    parts = Parts.of(table)
    cap = accountant.mu_cap
    key_delta = threshold_delta(layout, schema, accountant.delta)
    target = layout.label_column
    labels = [] if target is None else [target]
    classes = buy_classes(
        _reading(parts, labels) if labels else parts,
        target,
        schema,
        accountant,
        mu=cap * math.sqrt(CLASS_SHARE),
        threshold_delta=key_delta,
    )
    columns = modelled_columns(layout, schema)
    domains = {column: declared_domain(column, schema) for column in columns}
    keyed, numeric = bought_columns(layout, schema)
    n_rows = float(classes.counts.sum())
    if keyed:
        mu = cap * math.sqrt(LEVELS_SHARE)
        bought = buy_levels(
            _reading(parts, keyed),
            keyed,
            accountant,
            mu=mu,
            threshold_delta=key_delta,
            n_rows=n_rows,
        )
        domains.update(zip(keyed, bought, strict=True))
    if numeric:
        mu = cap * math.sqrt(RANGES_SHARE)
        own = _reading(parts, numeric)
        ranges = buy_ranges(own, numeric, accountant, mu=mu, n_rows=n_rows)
        domains.update(zip(numeric, ranges, strict=True))
    grained = [column for column in columns if needs_grain(column, schema)]
    if grained:
        mu = cap * math.sqrt(GRAINS_SHARE)
        ungrained = [cast("NumericDomain", domains[column]) for column in grained]
        own = _reading(parts, grained)
        found = buy_grains(own, grained, ungrained, accountant, mu=mu)
        domains.update(zip(grained, found, strict=True))
    known = [domain for domain in domains.values() if domain is not None]
    facts = TableFacts.of(layout, columns, tuple(known), classes, schema)
    rows = _reading(parts, [*columns, *labels]).map(
        encode_rows, list(columns), known, target, classes.levels
    )
    if isinstance(table, Parts):
        return facts, RowsInParts(rows.kept())
    return facts, PrivateRows.joined(rows.each(), len(table))


def _reading(parts: Parts, columns: Iterable[ColumnLayout]) -> Parts:
    return parts.only([column.name for column in columns])


def bought_columns(
    layout: TableLayout, schema: TableSchema | None
) -> tuple[list[ColumnLayout], list[ColumnLayout]]:
    """Give the columns whose levels, and those whose range, nobody declares."""
    columns = modelled_columns(layout, schema)
    bought = [c for c in columns if declared_domain(c, schema) is None]
    # By kind: columns are not compared, since a name may be pandas.NA.
    keyed = [c for c in bought if c.kind in _WITH_LEVELS]
    return keyed, [c for c in bought if c.kind not in _WITH_LEVELS]


def bought_share(layout: TableLayout, schema: TableSchema | None) -> float:
    """Give the share of the budget (in mu^2) that `buy_facts` will spend."""
    keyed, numeric = bought_columns(layout, schema)
    grained = any(needs_grain(c, schema) for c in modelled_columns(layout, schema))
    share = CLASS_SHARE * class_share(layout.label_column, schema)
    share += LEVELS_SHARE * bool(keyed) + RANGES_SHARE * bool(numeric)
    return share + GRAINS_SHARE * grained


def threshold_delta(
    layout: TableLayout, schema: TableSchema | None, delta: float
) -> float:
    """Give the delta of each release of keys that are found by threshold."""
    return DISCOVERY_SHARE * delta / max(_n_discoveries(layout, schema), 1)


def _n_discoveries(layout: TableLayout, schema: TableSchema | None) -> int:
    """Count the releases that need a delta of their own: labels, and categories."""
    categories, _ = bought_columns(layout, schema)
    target = layout.label_column
    labels = target is not None and public_labels(target, schema) is None
    return int(bool(categories)) + int(labels)
