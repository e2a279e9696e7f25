"""The classes of the target and how many rows each has: declared, or bought."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from skdpsynth.preprocessing._convert import factorize, place_keys, total_keys
from skdpsynth.privacy import (
    clamped_counts,
    grid_noise_std,
    key_threshold,
    noisy_counts,
    thresholded_counts,
)
from skdpsynth.schema import Boolean, Categorical, is_finite

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.privacy import Parts, PrivacyAccountant
    from skdpsynth.schema import TableSchema

    Codes = NDArray[np.int64]
    Floats = NDArray[np.float64]

# The usual coding of a binary label: known to everybody, so it needs no threshold.
_USUAL_LABELS = (0, 1)
# Noise standard deviations it must exceed to be kept beside other labels, which show
# that the label is not binary. Without others both are kept: a rare class must not get
# lost, and one that is empty gets few rows.
_KEPT_BESIDE_OTHERS = 3.5


@dataclass(frozen=True)
class Classes:
    """What is known of the classes after the purchase."""

    # Sorted or as declared. Empty without a target, and when no label could be
    # released; all rows are then one class.
    levels: tuple[Hashable, ...]
    counts: Floats  # declared or noisy numbers of rows, at least 1
    noise_std: float = 0.0  # of each count; 0 where they are declared
    # Noisy rows that a label nobody declared needed to be found; 0 if all are declared.
    found_from: float = 0.0

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def scopes(self) -> tuple[Hashable, ...]:
        """Who pays for what each class releases; None stands for every row."""
        return self.levels or (None,)

    @property
    def planned(self) -> Floats:
        """The counts that plans follow: rounded to two significant digits."""
        return rounded(self.counts)

    @property
    def prior(self) -> Floats:
        """Shares of the classes, with sum 1."""
        return self.counts / self.counts.sum()


def rounded(counts: Floats) -> Floats:
    """Round counts to two significant digits, and to at least 1."""
    counts = np.maximum(counts, 1.0)
    unit = 10.0 ** np.maximum(np.floor(np.log10(counts)) - 1, 0.0)
    return np.maximum(np.rint(counts / unit) * unit, 1.0)


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


def place_labels(
    frame: pd.DataFrame, column: ColumnLayout | None, levels: Sequence[Hashable]
) -> Codes:
    """Give the position of each row's class, (n_rows,); private.

    Rows whose label is missing or was not released have -1, and train nothing. Without
    levels all rows are one class.
    """
    if column is None or not levels:
        return np.zeros(len(frame), dtype=np.int64)
    return place_keys(*factorize(frame[column.name]), levels)


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
