"""What a fit learns about a table that it measures: nothing else about a row shows."""

import functools
import math
import warnings
from contextlib import contextmanager
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tables import mixed_table

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.measure import Discovery, discover
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import (
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    TableSchema,
)
from skdpsynth.table import limit_rows, open_table

pytestmark = pytest.mark.usefixtures("short_fits")

TABLE = mixed_table(240)
ROW = 31
SYNTHESIZERS = [
    IndependentSynthesizer(epsilon=0.5, target="y", random_state=0),
    MarginalSynthesizer(epsilon=0.5, target="y", random_state=0),
    GPATESynthesizer(epsilon=0.5, target="y", random_state=0, n_iter=2),
]


@contextmanager
def constant_releases(constant=500):
    """Release a constant instead of noisy statistics; keep what was exact.

    What a fit then still tells of its table it took past the mechanisms. At 0 nothing
    is found and every default is used.
    """
    kept = []

    def answer(release):
        kept.append(release)
        return np.full(release.exact.shape, constant, dtype=np.int64)

    with insecure_randomness(0), observe_releases(answer):
        yield kept


def shown_of(synthesizer, table, constant=500):
    """Fit with constant releases: all that is shown then, warnings too."""
    with (
        warnings.catch_warnings(record=True) as caught,
        constant_releases(constant) as kept,
    ):
        warnings.simplefilter("always")
        fitted = clone(synthesizer).fit(table)
    return {
        "names": sorted(vars(fitted)),
        "the model": joblib.hash((fitted._model.to_state(), fitted._generator_state())),
        "the schema": repr(fitted.schema_.to_dict()),
        "the report": repr(fitted.privacy_report().to_dict()),
        "a sample": fitted.sample(50, random_state=1).to_csv(),
        # All of it, whatever it holds; a sample makes what dtypes keep for later.
        "the object": joblib.hash(fitted),
        "releases": [release.reservation.name for release in kept],
        "warnings": [str(warning.message) for warning in caught],
    }


# --- One row ----------------------------------------------------------------------


def labelled(kind, n_rows=None):
    """Return a table without missing values, and its target."""
    table = TABLE if n_rows is None else mixed_table(2 * n_rows)
    table = table.dropna().reset_index(drop=True)[:n_rows]
    table["level"] = table["level"].cat.as_ordered()  # of which a fit warns
    if kind == "none":
        return table.drop(columns="y"), None
    labels = table["y"] == "v"
    if kind == "tie":  # as many of both
        table = table.iloc[: len(table) // 2 * 2]
        labels = pd.Series(np.arange(len(table)) % 2 == 0)
    if kind != "texts":
        table = table.assign(y=labels.astype(bool if kind == "bool" else int))
    return table, "y"


@functools.cache
def whole_fit(synthesizer, labels, constant):
    """Return a synthesizer, its table, and all that is shown of its fit."""
    table, target = labelled(labels)
    synth = clone(synthesizer).set_params(target=target)
    return synth, table, shown_of(synth, table, constant)


def neighbour_of(table, how):
    """Change one row as far as its dtypes allow, or drop one."""
    if how == "one row less":
        return table.drop(index=ROW)
    if how == "another row less":
        return table.drop(index=ROW - 1)
    changed = table.copy()
    changed.loc[ROW, ["number", "text", "level", "day", "time", "span"]] = None
    if how == "extreme values":
        changed["level"] = changed["level"].cat.add_categories(["unseen", "once"])
        extreme = {"number": 3e7, "whole": 2**40, "text": "of one row", "level": "once"}
        for name, value in extreme.items():
            changed.loc[ROW, name] = value
        changed["flag"] ^= changed.index == ROW
    return changed


WAYS = [
    *product(SYNTHESIZERS[:1], ["none", "texts", "integers", "tie", "bool"], [500, 0]),
    *product(SYNTHESIZERS[1:], ["none", "texts", "tie"], [500]),
    *product(SYNTHESIZERS[1:], ["texts"], [0]),
]


@pytest.mark.parametrize(
    "how",
    ["first missing values", "extreme values", "one row less", "another row less"],
)
@pytest.mark.parametrize(("synthesizer", "labels", "constant"), WAYS)
def test_a_row_shows_in_the_releases_only(synthesizer, labels, constant, how):
    """Constant releases, two neighbours: what is fitted is equal bit for bit.

    Public and found labels and none, the first missing value, the fallbacks.
    """
    synth, table, whole = whole_fit(synthesizer, labels, constant)
    assert whole == shown_of(synth, neighbour_of(table, how), constant)
    assert whole["warnings"]


@pytest.mark.parametrize("constant", [500, 0])
@pytest.mark.parametrize("value", [True, "text"])
@pytest.mark.parametrize("target", [None, "b"])
def test_objects_do_not_show_their_type(target, value, constant):
    """Nothing but missing values, and one object among them, are neighbours."""
    synth = clone(SYNTHESIZERS[0]).set_params(target=target)
    objects = [pd.Series([None] * 199 + [last], dtype=object) for last in (None, value)]
    tables = [pd.DataFrame({"u": np.arange(200.0), "b": own}) for own in objects]
    assert shown_of(synth, tables[0], constant) == shown_of(synth, tables[1], constant)


def test_one_row_moves_no_release_by_more_than_its_sensitivity():
    """Add a row: every exact statistic moves by at most what its noise hides."""
    synth = clone(SYNTHESIZERS[0]).set_params(epsilon=1e3)
    for row in (0, 6, ROW):
        with constant_releases() as full:
            synth.fit(TABLE)
        with constant_releases() as less:
            synth.fit(TABLE.drop(index=row))
        moved = {}
        for one, other in zip(full, less, strict=True):
            line = one.reservation
            assert line.name == other.reservation.name
            distance = float(np.linalg.norm(one.exact - other.exact))
            assert distance <= line.sensitivity + 1e-9
            if line.scope in (None, TABLE["y"][row]):
                moved[line.name] = distance / line.sensitivity
            else:
                assert distance == 0
        # A row of values that no other row has moves no count of frequent ones.
        del moved["frequent values"]
        # Each row is in exactly one bin of every column: the bounds are attained.
        assert moved == pytest.approx(dict.fromkeys(moved, 1.0))
        assert len(moved) == 7


# --- What is looked at ------------------------------------------------------------


def test_what_is_declared_is_not_charged():
    synth = IndependentSynthesizer(target="y", epsilon=math.inf)
    # Numbers of few digits may always be asked whether they are coarser.
    table = TABLE.assign(whole=TABLE["whole"] % 30, number=TABLE["number"] / 3)
    table = table.drop(columns="span")  # of which no schema says the unit
    measured = clone(synth).fit(table)
    schema = measured.schema_
    assert set(schema.columns) == set(table.columns)
    names = {entry.name for entry in measured.privacy_report().entries}
    found = {"class labels and counts", "categories", "column ranges", "decimals"}
    kept = {"remainders", "frequent values", "coarse marginals", "marginals"}
    assert names == found | kept
    counts = TABLE["y"].value_counts().to_dict()
    declared = TableSchema(dict(schema.columns), target="y", class_counts=counts)
    again = synth.set_params(schema=declared).fit(table)
    assert {entry.name for entry in again.privacy_report().entries} == kept
    assert again._model.metadata.domains == measured._model.metadata.domains
    assert again.schema_.columns == schema.columns


def test_delta_is_set_aside_for_keys_only():
    levels = TableSchema({"s": Categorical(["u", "v"])})
    for column, schema, share in (
        ([True, False], None, 0.0),
        ([1.5, 2.5], None, 0.1),
        (["u", "v"], None, 0.1),
        (["u", "v"], levels, 0.0),
    ):
        _, layout = open_table(pd.DataFrame({"s": column}))
        assert Discovery(layout, schema).delta_share == share


# --- What it costs ----------------------------------------------------------------

OF_LABELS = "class counts", "other class labels", "class labels and counts", "row count"
VISITS = {"person": Identifier()}
SCHEMAS = {
    "nothing": None,
    "rows": TableSchema({}, n_rows=2000),
    "labels": TableSchema({"y": Categorical(["u", "v"])}),
    "numbers": TableSchema(
        {
            "number": Continuous(-9, 9, decimals=2),
            "whole": Continuous(0, 50_000),
            "time": Datetime("2019-01-01", "2022-01-01", unit="s"),
            "span": Continuous(0, 2e6, decimals="any"),
        }
    ),
    "a unit": TableSchema(VISITS, privacy_unit="person", max_rows_per_unit=3),
}


@pytest.mark.parametrize("labels", ["none", "texts", "integers", "bool"])
@pytest.mark.parametrize(("n_rows", "epsilon"), [(60, 0.5), (2000, 1.0), (2000, 9.0)])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_step_is_charged_what_it_costs(name, n_rows, epsilon, labels):
    """But where no column turns out to be one of a step.

    Labels cost as much again if none is found, since all rows are counted then.
    """
    frame, target = labelled(labels, n_rows)
    schema = SCHEMAS[name]
    if name == "labels" and labels != "texts":
        schema = None
    most = 3 if name == "a unit" else 1
    frame["person"] = np.arange(n_rows) // 2
    frame = frame if name == "a unit" else frame.drop(columns="person")
    table, layout = open_table(frame, target=target, schema=schema)
    discovery = Discovery(layout, schema)
    accountant = PrivacyAccountant(
        epsilon,
        1e-5,
        discovery_delta=1e-5 * discovery.delta_share,
        rows_per_unit=most,
    )
    limited = limit_rows(table, schema)
    with insecure_randomness(0):
        metadata, _ = discover(limited.rows, layout, schema, accountant, limited.sizes)
    charged = {
        entry.name: (entry.mu_total / (most * accountant.mu_cap)) ** 2
        for entry in accountant.report().entries
    }
    of_labels = [charged.pop(own) for own in OF_LABELS if own in charged]
    n_rows = metadata.classes.counts.sum()
    costs = discovery.costs(accountant, n_rows)
    again = 2 if labels == "texts" and not metadata.classes.labels else 1
    assert sum(of_labels) == pytest.approx(again * costs.pop("labels").share)
    domains = dict(zip(metadata.columns, metadata.domains, strict=True))
    public = discovery.public(accountant, n_rows)
    steps = {step.name: step for step in discovery.of_columns}
    late = "remainders", "frequent values"
    none = [own for own in late if not steps[own].chosen(domains, public)]
    expected = {own: cost.share for own, cost in costs.items() if cost.share}
    assert charged == pytest.approx(
        {own: share for own, share in expected.items() if own not in none}
    )
