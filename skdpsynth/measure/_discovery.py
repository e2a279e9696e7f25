"""Discovery: the list of steps that release what the schema leaves out.

First the labels and their counts, or the number of rows; then `COLUMN_STEPS`; last how
many rows persons have. What a schema makes unnecessary is not spent, and goes to what
follows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import log_ndtr

from skdpsynth.measure._shares import BESIDE_SHARE, FOUND_SHARE, SMALL_SHARE, SURE
from skdpsynth.measure._steps import COLUMN_STEPS, Cost, Domains, Public, released_keys
from skdpsynth.privacy import Parts, PrivacyAccountant, unit_name
from skdpsynth.privacy.statistics import noisy_counts, noisy_unit_counts
from skdpsynth.schema import TableSchema
from skdpsynth.table import (
    CategoryDomain,
    Classes,
    ColumnDomain,
    ColumnLayout,
    Metadata,
    TableLayout,
    TableRows,
    declared_domain,
    encode_rows,
    modelled_columns,
    names_read,
    place_labels,
    total_keys,
)
from skdpsynth.utils.arrays import Floats
from skdpsynth.utils.dtypes import is_finite


class Labels:
    """The classes and their rows; without labels, the number of rows.

    Labels that nobody declared: usual ones are counted, others found by threshold.
    """

    name = "labels"

    def __init__(self, column: ColumnLayout | None, schema: TableSchema) -> None:
        self.column = column
        # The labels (not their counts), if they are public.
        self.labels: tuple[Hashable, ...] | None = ()
        if column is not None:
            self.labels = (False, True) if column.kind == "boolean" else None
            if isinstance(domain := declared_domain(column, schema), CategoryDomain):
                self.labels = domain.categories
        self.of_keys = self.labels is None
        number = column is not None and column.kind == "integer"
        # Where labels may be missing, they often are.
        empty = column is not None and column.can_be_missing
        self.may_be_numbers = self.of_keys and number and not empty
        # The usual coding of a binary label, known to all, so it needs no threshold.
        self._usual = (0, 1) if self.of_keys and number else ()
        # Of each release: of labels that are not public there may be two, of usual and
        # other labels, or of labels and, where none is found, of the number of rows.
        self._share = FOUND_SHARE / 2 if self.of_keys else FOUND_SHARE
        counts = schema.class_counts or {}
        stated = [counts.get(label) for label in self.labels or ()]
        if column is None:
            stated = [schema.n_rows]
        self._declared = [float(n) for n in stated if n is not None]  # rows of each

    def cost(self, public: Public) -> Cost:
        """Return what is spent, and from how many noisy rows a label is found."""
        if self._declared:
            return Cost()
        if not self.of_keys:
            return Cost(self._share)
        noise_std = public.noise_std(self._share, 1)
        # What is spent where no label is found is not known before.
        n_releases = 1 + bool(self._usual)
        return Cost(n_releases * self._share, float(public.key_threshold(noise_std)))

    def found_from(self, labels: Sequence[Hashable], public: Public) -> Floats:
        """Return the noisy rows from which each label is found; 0 if it is public."""
        found_from = np.full(len(labels), float(self.cost(public).found_from))
        usual = np.array([label in self._usual for label in labels])
        if usual.any():
            sure = SURE * public.noise_std(self._share, 1)
            found_from[usual] = 0.0 if usual.all() else sure
        return found_from

    def run(
        self, rows: Parts, accountant: PrivacyAccountant, public: Public
    ) -> Classes:
        """Release the classes and their sizes."""
        if self._declared:
            return Classes(self.labels or (), np.maximum(self._declared, 1.0))
        labels = self.labels or ()
        if self.of_keys:
            classes = self._found(rows, accountant, public)
            if classes.labels or self._usual:
                return classes
        noisy, beside, noise_std = self._counted(rows, labels, accountant, public)
        # Without labels all rows are one class.
        counts = likely_counts(noisy, noise_std) if labels else np.maximum(noisy, 1.0)
        return Classes(labels, counts, noise_std, unclassed=beside)

    def _counted(
        self,
        rows: Parts,
        labels: Sequence[Hashable],
        accountant: PrivacyAccountant,
        public: Public,
    ) -> tuple[Floats, float, float]:
        """Release the rows of each class, or of all; others; return the noise too."""
        name, n = ("class counts" if labels else "row count"), max(len(labels), 1)
        mu = public.mu(self._share)
        reservation = accountant.reserve_gaussian(name, mu=mu, sensitivity=1.0)
        n_bins = n + bool(labels)  # of which the last one holds the rows of no class
        codes = rows.map(place_labels, self.column, labels).map(np.mod, n_bins)
        noisy = noisy_counts(codes, n_bins, reservation).astype(float)
        return noisy[:n], float(noisy[n:].sum()), reservation.noise_std

    def _found(
        self, rows: Parts, accountant: PrivacyAccountant, public: Public
    ) -> Classes:
        """Find labels that nobody declared: usual ones counted, others by threshold."""
        assert self.column is not None
        usual, usual_std, beside = self._usual, 0.0, 0.0
        counted: dict[Hashable, float] = {}
        if usual:
            counts, beside, usual_std = self._counted(rows, usual, accountant, public)
            counted = dict(zip(usual, counts, strict=True))
        reservation = accountant.reserve_gaussian(
            "other class labels" if usual else "class labels and counts",
            mu=public.mu(self._share),
            sensitivity=1.0,
            delta=public.delta,
        )
        (keys,) = total_keys(rows, [self.column.name])
        for known in (None, *usual):
            del keys[known]
        ((numbers, others),) = released_keys([keys], reservation, public)
        passed = zip(others, numbers.tolist(), strict=True)
        # An infinite label is no class.
        rows_of = {label: float(count) for label, count in passed if is_finite(label)}
        beside -= sum(rows_of.values())
        # Other labels show that the label is not binary. Without others both are kept:
        # a rare class must not get lost, and one that is empty gets few rows.
        sure = -math.inf if not rows_of and usual_std > 0 else SURE * usual_std
        rows_of |= {
            label: float(likely_counts(np.array(count), usual_std))
            for label, count in counted.items()
            if count > sure
        }
        if counted and not rows_of:  # an integer column must hold some label
            rows_of = dict([max(counted.items(), key=lambda item: item[1])])
        labels, noise_std = tuple(sorted(rows_of)), reservation.noise_std
        values = np.array([rows_of[label] for label in labels], dtype=np.float64)
        # Of the same mu and sensitivity, all counts have the same noise.
        found_from = float(public.key_threshold(noise_std))
        counts, of_all = np.maximum(values, 1.0), noise_std * math.sqrt(len(labels) + 1)
        # Of most rows the label is too rare to be found.
        if self.may_be_numbers and beside > max(SURE * of_all, counts.sum()):
            return Classes((), np.array([counts.sum() + beside]), of_all)
        return Classes(labels, counts, noise_std, found_from, unclassed=max(beside, 0))


def likely_counts(noisy: Floats, noise_std: float) -> Floats:
    """Return the mean of counts about noisy ones, cut off at 0; at least 1."""
    if noise_std == 0:
        return np.maximum(noisy, 1.0)
    ratio = noisy / noise_std
    log_density = -0.5 * ratio**2 - 0.5 * math.log(2 * math.pi)
    return np.maximum(noisy + noise_std * np.exp(log_density - log_ndtr(ratio)), 1.0)


class UnitSizes:
    """How many units have one row, two, and so on, and more than take part."""

    name = "rows per unit"

    def cost(self, public: Public) -> Cost:
        """Return what is spent where several rows of a unit take part."""
        return Cost(SMALL_SHARE * (public.rows_per_unit > 1))

    def run(
        self,
        sizes: Parts,
        metadata: Metadata,
        accountant: PrivacyAccountant,
        public: Public,
    ) -> Metadata:
        """Release the numbers of units; say in the report how much they cut off."""
        assert metadata.units is not None
        mu, most = public.mu(self.cost(public).share), public.rows_per_unit
        reservation = accountant.reserve_gaussian(self.name, mu=mu, sensitivity=1.0)
        n_units = noisy_unit_counts(sizes, most + 1, reservation)
        noise_std = reservation.noise_std / most
        units = replace(metadata.units, sizes=n_units, noise_std=noise_std)
        share, std = units.cut
        accountant.remark(
            f"About {100 * share:.0f} % (noise: {max(100 * std, 0.1):.1f} %) of the "
            f"values of {unit_name(metadata.units.name)} have more than {most} rows, of"
            f" which {most} were used."
        )
        return replace(metadata, units=units)


class Discovery:
    """The steps for a table, from public facts alone.

    Of columns whose domains are `known` from another table nothing is released.
    """

    def __init__(
        self,
        layout: TableLayout,
        schema: TableSchema,
        known: tuple[ColumnDomain, ...] = (),
    ) -> None:
        self.layout, self._schema, self._known = layout, schema, known
        columns = modelled_columns(layout, schema)
        self.declared = {column: declared_domain(column, schema) for column in columns}
        self.labels = Labels(layout.label_column, schema)
        self.units = UnitSizes()
        unknown = {} if known else self.declared
        self.column_steps = [kind(unknown, schema) for kind in COLUMN_STEPS]
        # The releases that need a delta of their own.
        of_keys = [bool(step.columns) and step.of_keys for step in self.column_steps]
        self._n_of_keys = self.labels.of_keys + sum(of_keys)
        # What follows if the whole numbers of a target turn out to be no labels.
        self.without_labels: Discovery | None = None
        self.labels.may_be_numbers &= not known
        if self.labels.may_be_numbers:
            self.without_labels = Discovery(replace(layout, measured=True), schema)
            self._n_of_keys = max(self._n_of_keys, 1 + self.without_labels._n_of_keys)

    @property
    def delta_share(self) -> float:
        """Share of delta that finding keys will need: 0 where all keys are public."""
        return BESIDE_SHARE if self._n_of_keys else 0.0

    def public(self, accountant: PrivacyAccountant, n_rows: float) -> Public:
        """Return what costs depend on, for a table of so many rows."""
        delta = self.delta_share * accountant.delta / max(self._n_of_keys, 1)
        return Public(accountant.mu_cap, delta, accountant.rows_per_unit, n_rows)

    def costs(self, accountant: PrivacyAccountant, n_rows: float) -> dict[type, Cost]:
        """Return what each step costs in a table of so many rows."""
        public = self.public(accountant, n_rows)
        steps = [self.labels, self.units, *self.column_steps]
        return {type(step): step.cost(public) for step in steps}

    def run(
        self,
        table: pd.DataFrame | Parts,
        accountant: PrivacyAccountant,
        sizes: Parts | None = None,
    ) -> tuple[Metadata, TableRows]:
        """Release what the schema does not say; with it encode the rows, still private.

        `sizes`, of `limit_rows`, says how many rows the units of privacy have.
        """
        rows, target = Parts.of(table), self.layout.label_column
        public = self.public(accountant, math.nan)
        labelled = rows if target is None else rows.only([target.name])
        classes = self.labels.run(labelled, accountant, public)
        public = public._replace(n_rows=float(classes.counts.sum()))
        rest = self
        if self.without_labels is not None and not classes.labels:
            rest, target = self.without_labels, None
        known: Domains = {**rest.declared}
        for step in rest.column_steps:
            known |= step.run(rows, known, accountant, public)
        domains = self._known or tuple(filter(None, known.values()))
        metadata = Metadata.of(rest.layout, domains, classes, self._schema)
        if sizes is not None:
            metadata = self.units.run(sizes, metadata, accountant, public)
        columns, labels = [*known], [] if target is None else [target.name]
        encoded = rows.only([*names_read(columns), *labels]).map(
            encode_rows, columns, list(domains), target, classes.labels
        )
        return metadata, TableRows(encoded.kept())
