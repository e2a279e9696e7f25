"""What a fit learns about a table that it measures: nothing else about a row shows."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.measure import discover, discovery_share
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Categorical, Continuous, Identifier, TableSchema
from skdpsynth.table import modelled_columns, open_table

pytestmark = pytest.mark.usefixtures("short_fits")

N_ROWS = 240


def mixed_table() -> pd.DataFrame:
    """Make a table of many dtypes in which every key occurs at least three times."""
    number = np.arange(N_ROWS)
    frame = pd.DataFrame(
        {
            "real": np.where(number % 11, number / 7.0, np.nan),
            "whole": number % 30,
            "flag": number % 2 == 0,
            "maybe": pd.array(np.where(number % 3, number % 2 == 0, True), "boolean"),
            "name": np.where(number % 5, "often", "seldom"),
            "kind": pd.Categorical(np.where(number % 4, "x", "y")),
            "day": pd.Timestamp("2001-01-01") + pd.to_timedelta(number, unit="D"),
            "label": np.where(number % 6, "n", "p"),
        }
    )
    frame["date"] = frame["day"].dt.floor("D").astype("date32[pyarrow]")
    frame.loc[::9, ["maybe", "name", "kind", "day"]] = None
    return frame


def extreme(frame: pd.DataFrame) -> pd.DataFrame:
    """Change one row as far as its dtypes allow, but for its class."""
    changed = frame.copy()
    row = 31
    changed.loc[row, "real"] = 1e6 * 31
    changed.loc[row, "whole"] = 2**40
    changed.loc[row, "flag"] = not changed.loc[row, "flag"]
    changed.loc[row, "name"] = "a category of one"
    changed["kind"] = changed["kind"].cat.add_categories(["unseen", "once"])
    changed.loc[row, "kind"] = "once"
    changed.loc[row, ["maybe", "day", "date"]] = None
    return changed


@contextmanager
def constant_releases(constant=500):
    """Release a constant instead of noisy statistics; keep what was exact.

    What a fit then still tells of its table it took past the mechanisms. At 0 nothing
    is found and every default is used; at 10^6 outer bins of ranges are in parts.
    """
    kept = []

    def answer(release):
        kept.append(release)
        return np.full(release.exact.shape, constant, dtype=np.int64)

    with insecure_randomness(0), observe_releases(answer):
        yield kept


def shown_of(synthesizer, frame, constant=500) -> tuple[str, ...]:
    """Fit with constant releases: all that is shown then, but for parameters."""
    with constant_releases(constant) as kept:
        fitted = clone(synthesizer).fit(frame)
    (document, arrays), (own, own_arrays) = (
        fitted._model.to_state(),
        fitted._generator_state(),
    )
    digests = (fitted, arrays, own_arrays)  # the whole object, whatever it holds
    return (
        repr((document, own, fitted.schema_.to_dict(), sorted(vars(fitted)))),
        *map(joblib.hash, digests),
        repr(getattr(fitted, "classes_", np.empty(0)).tolist()),
        repr(fitted.privacy_report().to_dict()),
        fitted.sample(50, random_state=1).to_csv(),
        repr([release.reservation.name for release in kept]),
    )


SYNTHESIZERS = [
    IndependentSynthesizer(epsilon=1e3, target="label", random_state=0),
    MarginalSynthesizer(epsilon=1e3, target="label", random_state=0),
    GPATESynthesizer(epsilon=1e3, target="label", random_state=0, n_iter=2),
]


@pytest.mark.parametrize("neighbour", ["extreme values", "one row less"])
@pytest.mark.parametrize("synthesizer", SYNTHESIZERS, ids=lambda s: type(s).__name__)
def test_a_row_shows_in_the_releases_only(synthesizer, neighbour):
    """Constant releases, two neighbours: the fitted objects are equal bit for bit."""
    frame = mixed_table()
    other = extreme(frame) if neighbour == "extreme values" else frame.drop(index=31)
    assert shown_of(synthesizer, frame) == shown_of(synthesizer, other)


def with_labels(kind: str) -> tuple[pd.DataFrame, str | None]:
    """Give a table without missing values, and its target."""
    frame = mixed_table().dropna().reset_index(drop=True)
    frame["kind"] = frame["kind"].cat.as_ordered()  # of which a fit warns
    if kind == "none":
        return frame.drop(columns="label"), None
    labels = frame["label"] == "p"
    if kind == "tie":  # as many of both; row 31 is of the first
        labels = pd.Series(np.arange(len(frame)) % 2 == 0)
        frame, labels = frame.iloc[: len(frame) // 2 * 2], labels[: len(frame) // 2 * 2]
    if kind != "texts":
        frame = frame.assign(label=labels.astype(bool if kind == "bool" else int))
    return frame, "label"


def neighbour_of(frame: pd.DataFrame, how: str) -> pd.DataFrame:
    if how == "one row less":
        return frame.drop(index=31)
    if how == "another row less":
        return frame.drop(index=30)
    changed = frame.copy()
    changed.loc[31, ["real", "maybe", "name", "kind", "day", "date"]] = None
    return changed


WAYS = [
    *product(SYNTHESIZERS[:1], ["none", "texts", "integers", "tie", "bool"], [500, 0]),
    *product(SYNTHESIZERS[1:], ["none", "tie"], [500]),
    *product(SYNTHESIZERS[1:], ["texts"], [0]),
    *product(SYNTHESIZERS[:1], ["none", "texts"], [10**6]),
]


@pytest.mark.parametrize(
    "neighbour", ["first missing values", "one row less", "another row less"]
)
@pytest.mark.parametrize(("synthesizer", "labels", "constant"), WAYS)
def test_no_way_of_measuring_shows_a_row(synthesizer, labels, constant, neighbour):
    """Public and found labels and none, the first missing value, the fallbacks.

    Warnings are compared too: a logged one must not tell what the object hides.
    """
    frame, target = with_labels(labels)
    synth, shown, said = (
        clone(synthesizer).set_params(target=target, epsilon=0.5),
        [],
        [],
    )
    for table in (frame, neighbour_of(frame, neighbour)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            shown.append(shown_of(synth, table, constant))
        said.append([str(warning.message) for warning in caught])
    assert shown[0] == shown[1]
    assert said[0] == said[1] != []


@pytest.mark.parametrize("constant", [500, 0])
@pytest.mark.parametrize("value", [True, "text"])
@pytest.mark.parametrize("target", [None, "b"])
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
def test_objects_do_not_show_their_type(target, value, constant):
    """Nothing but missing values, and one object among them, are neighbours."""
    synth, shown = SYNTHESIZERS[0], []
    for last in (None, value):
        objects = pd.Series([None] * 199 + [last], dtype=object)
        frame = pd.DataFrame({"u": np.arange(200.0), "b": objects})
        shown.append(shown_of(clone(synth).set_params(target=target), frame, constant))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("constant", [500, 10**6])
def test_one_row_moves_no_release_by_more_than_its_sensitivity(constant):
    """Add a row: every exact statistic moves by at most what its noise hides."""
    frame = mixed_table()
    for row in (0, 6, 31):
        seen, own = [], frame.loc[row, "label"]
        for table in (frame, frame.drop(index=row)):
            with constant_releases(constant) as kept:
                IndependentSynthesizer(epsilon=1e3, target="label").fit(table)
            seen.append(kept)
        moved = {}
        for one, other in zip(*seen, strict=True):
            line = one.reservation
            assert (line.name, line.scope) == (
                other.reservation.name,
                other.reservation.scope,
            )
            distance = float(np.linalg.norm(one.exact - other.exact))
            assert distance <= line.sensitivity + 1e-9
            if line.scope is None or line.scope == own:
                moved[line.name] = distance / line.sensitivity
            else:
                assert distance == 0
        # A row of values that no other row has moves no count of frequent ones.
        moved.pop("frequent values", None)
        # Each row is in exactly one bin of every column: the bounds are attained.
        assert moved == pytest.approx(dict.fromkeys(moved, 1.0))
        assert len(moved) >= 6


def test_what_is_declared_is_not_charged():
    frame = mixed_table()
    measured = IndependentSynthesizer(target="label", epsilon=math.inf).fit(frame)
    schema = measured.schema_
    assert set(schema.columns) == set(frame.columns)
    names = {entry.name for entry in measured.privacy_report().entries}
    marginals = {"coarse marginals", "marginals"}
    assert names == {
        "class labels and counts",
        "categories",
        "column ranges",
        "decimals",
        "remainders",
        "frequent values",
        *marginals,
    }
    counts = frame["label"].value_counts().to_dict()
    declared = TableSchema(dict(schema.columns), target="label", class_counts=counts)
    again = IndependentSynthesizer(schema=declared, epsilon=math.inf).fit(frame)
    names = {entry.name for entry in again.privacy_report().entries}
    assert names == {"remainders", "frequent values", *marginals}
    assert again._model.metadata.domains == measured._model.metadata.domains
    assert again.schema_.columns == schema.columns


@pytest.mark.parametrize(
    ("columns", "target", "share"),
    [
        ({"b": [True, False], "f": [True, False]}, "f", 0.0),
        ({"a": [1.5, 2.5]}, None, 0.1),
        ({"a": ["u", "v"]}, None, 0.1),
        ({"a": [1.5, 2.5], "k": [0, 1]}, "k", 0.1),
    ],
)
def test_delta_is_set_aside_for_keys_only(columns, target, share):
    _, layout = open_table(pd.DataFrame(columns), target=target)
    assert discovery_share(layout, None) == share
    schema = TableSchema(
        {
            name: Continuous(0, 9, integer=True)
            if isinstance(v[0], float)
            else Categorical(v)
            for name, v in columns.items()
            if not isinstance(v[0], bool)
        }
    )
    assert discovery_share(layout, schema) == 0.0


def test_identifiers_are_never_looked_at():
    schema = TableSchema({"id": Identifier()})
    frame = pd.DataFrame({"id": ["x", "y"], "a": [0.5, 1.5]})
    _, layout = open_table(frame, schema=schema)
    assert [column.name for column in modelled_columns(layout, schema)] == ["a"]
    accountant = PrivacyAccountant(1.0, 1e-5)
    metadata, rows = discover(frame[["a"]], layout, schema, accountant)
    assert rows.uniforms.shape == (2, 1)
    assert set(metadata.schema(schema).columns) == {"id", "a"}


def test_rows_without_a_label_train_nothing():
    frame = mixed_table()
    frame.loc[::3, "label"] = None
    _, layout = open_table(frame, target="label")
    accountant = PrivacyAccountant(math.inf, 1e-5, discovery_delta=1e-6)
    metadata, rows = discover(frame, layout, None, accountant)
    in_classes = sum(
        len(rows.of_class(c).class_codes) for c in range(len(metadata.classes))
    )
    assert in_classes == frame["label"].notna().sum() == metadata.classes.counts.sum()
    assert len(rows.of_class(-1).class_codes) == frame["label"].isna().sum()
