"""What a fit learns about a table that it measures: nothing else about a row shows."""

from __future__ import annotations

import math
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.measure import discover, discovery_share
from skdpsynth.privacy import PrivacyAccountant, _aggregators, _tables
from skdpsynth.schema import Boolean, Categorical, Continuous, Identifier, TableSchema
from skdpsynth.table import NumericDomain, modelled_columns
from skdpsynth.table._sources import read_table

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


@pytest.fixture
def constant_releases(monkeypatch, request):
    """Release constants instead of noisy statistics; keep what was exact.

    What a fit then still tells of its table it took past the mechanisms. The constant
    is 500, or the parameter: at 0 nothing is found and every default is used.
    """
    kept = []
    constant = getattr(request, "param", 500)

    def release(values, reservation, n_releases=1):
        reservation._draw_down(n_releases)
        kept.append((reservation.name, reservation.scope, values.copy(), reservation))
        return np.full(values.shape, constant, dtype=np.int64)

    for module in (_aggregators, _tables):
        monkeypatch.setattr(module, "release_gaussian", release)
    return kept


def public_state(synthesizer) -> tuple[str, dict[str, np.ndarray]]:
    """Collect all that a fitted synthesizer shows, but for its parameters."""
    document, arrays = synthesizer._model.to_state()
    own, own_arrays = synthesizer._generator_state()
    shown = [
        document,
        own,
        synthesizer.schema_.to_dict(),
        getattr(synthesizer, "classes_", np.empty(0)).tolist(),
        sorted(vars(synthesizer)),
        joblib.hash(synthesizer),  # the whole object, whatever it holds
    ]
    shown += [synthesizer.privacy_report().to_dict()]
    shown += [synthesizer.sample(50, random_state=1).to_csv()]
    return repr(shown), {**arrays, **own_arrays}


SYNTHESIZERS = [
    IndependentSynthesizer(epsilon=1e3, target="label", random_state=0),
    MarginalSynthesizer(epsilon=1e3, target="label", random_state=0),
    GPATESynthesizer(epsilon=1e3, target="label", random_state=0, n_iter=2),
]


@pytest.mark.parametrize("neighbour", ["extreme values", "one row less"])
@pytest.mark.parametrize("synthesizer", SYNTHESIZERS, ids=lambda s: type(s).__name__)
@pytest.mark.usefixtures("constant_releases")
def test_a_row_shows_in_the_releases_only(synthesizer, neighbour):
    """Frozen releases, two neighbours: the fitted objects are equal bit for bit."""
    frame = mixed_table()
    other = extreme(frame) if neighbour == "extreme values" else frame.drop(index=31)
    first, arrays = public_state(synthesizer.fit(frame))
    second, other_arrays = public_state(synthesizer.fit(other))
    assert first == second
    assert arrays.keys() == other_arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, other_arrays[name], err_msg=name)


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


@pytest.mark.parametrize("constant_releases", [500, 0], indirect=True)
@pytest.mark.parametrize(
    "neighbour", ["first missing values", "one row less", "another row less"]
)
@pytest.mark.parametrize("labels", ["none", "texts", "integers", "tie", "bool"])
@pytest.mark.parametrize("synthesizer", SYNTHESIZERS, ids=lambda s: type(s).__name__)
def test_no_way_of_measuring_shows_a_row(
    synthesizer, labels, neighbour, constant_releases
):
    """Public and found labels and none, the first missing value, the fallbacks.

    Warnings are compared too: a logged one must not tell what the object hides.
    """
    frame, target = with_labels(labels)
    shown, said = [], []
    for table in (frame, neighbour_of(frame, neighbour)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            synth = clone(synthesizer).set_params(target=target, epsilon=0.5)
            text, arrays = public_state(synth.fit(table))
        shown.append((text, {name: value.tolist() for name, value in arrays.items()}))
        said.append([str(warning.message) for warning in caught])
    assert shown[0] == shown[1]
    assert said[0] == said[1] != []


@pytest.mark.parametrize("constant_releases", [10**6], indirect=True)
@pytest.mark.parametrize("neighbour", ["first missing values", "one row less"])
@pytest.mark.parametrize("labels", ["none", "texts"])
def test_no_release_of_many_rows_shows_one(labels, neighbour, constant_releases):
    """So many that the outer bins of ranges are counted in parts."""
    test_no_way_of_measuring_shows_a_row(
        SYNTHESIZERS[0], labels, neighbour, constant_releases
    )
    largest = [exact for name, _, exact, _ in constant_releases if "range" in name]
    assert all(len(exact) > 1000 for exact in largest)
    assert len(largest) == 2


@pytest.mark.parametrize("constant_releases", [500, 0], indirect=True)
@pytest.mark.parametrize("value", [True, "text"])
@pytest.mark.parametrize("target", [None, "b"])
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
def test_objects_do_not_show_their_type(target, value, constant_releases):
    """Nothing but missing values, and one object among them, are neighbours."""
    shown, measured = [], []
    for last in (None, value):
        objects = pd.Series([None] * 199 + [last], dtype=object)
        frame = pd.DataFrame({"u": np.arange(200.0), "b": objects})
        synth = IndependentSynthesizer(epsilon=1e3, target=target, random_state=0)
        text, arrays = public_state(synth.fit(frame))
        shown.append((text, {name: value.tolist() for name, value in arrays.items()}))
        measured.append([entry.name for entry in synth.privacy_report().entries])
    assert shown[0] == shown[1]
    assert measured[0] == measured[1]


@pytest.mark.parametrize("declared", [False, True])
def test_booleans_among_objects_come_back_as_booleans(declared):
    """Found like texts, or declared; True and False, not their names."""
    objects = pd.Series([True, False, False, None] * 300, dtype=object)
    frame = pd.DataFrame({"u": np.arange(1200.0), "b": objects})
    frame["y"] = objects[::-1].to_numpy()  # missing in other rows than b
    schema = TableSchema({"b": Boolean(nullable=True), "y": Boolean()})
    synth = IndependentSynthesizer(
        epsilon=100.0, target="y", schema=schema if declared else None
    ).fit(frame)
    drawn = synth.sample(400)
    assert drawn.dtypes.tolist() == frame.dtypes.tolist()
    assert set(map(type, drawn["b"].dropna())) == set(map(type, drawn["y"])) == {bool}
    assert drawn["b"].isna().any()
    assert synth.classes_.tolist() == [False, True]
    categories = Boolean() if declared else Categorical([False, True])
    assert synth.schema_.columns["y"] == categories
    again = IndependentSynthesizer(epsilon=100.0, schema=synth.schema_).fit(frame)
    assert again.sample(5).dtypes.tolist() == frame.dtypes.tolist()


@pytest.mark.usefixtures("constant_releases")
def test_the_frozen_releases_would_show_a_leak(monkeypatch):
    """The broken twin: an exact maximum in the place of a released range."""
    from skdpsynth.measure import _discovery

    def exact_ranges(table, columns, *args, **kwargs):
        (frame,) = table.each()
        return [
            NumericDomain(
                0.0, frame[c.name].astype("float64").max(), False, False, False
            )
            if c.name == "real"
            else NumericDomain(0.0, 1.0, False, False, False)
            for c in columns
        ]

    monkeypatch.setattr(_discovery, "discover_ranges", exact_ranges)
    synthesizer = SYNTHESIZERS[0]
    first, _ = public_state(synthesizer.fit(mixed_table()))
    second, _ = public_state(synthesizer.fit(extreme(mixed_table())))
    assert first != second


@pytest.mark.parametrize("constant_releases", [500, 10**6], indirect=True)
def test_one_row_moves_no_release_by_more_than_its_sensitivity(constant_releases):
    """Add a row: every exact statistic moves by at most what its noise hides."""
    frame = mixed_table()
    synthesizer = IndependentSynthesizer(epsilon=1e3, target="label")
    for row in (0, 6, 31):
        constant_releases.clear()
        synthesizer.fit(frame)
        full = list(constant_releases)
        constant_releases.clear()
        synthesizer.fit(frame.drop(index=row))
        less = list(constant_releases)
        own = frame.loc[row, "label"]
        assert [part[:2] for part in full] == [part[:2] for part in less]
        moved = {}
        for (name, scope, exact, reservation), (*_, other, _) in zip(
            full, less, strict=True
        ):
            distance = float(np.sqrt(((exact - other) ** 2).sum()))
            assert distance <= reservation.sensitivity + 1e-9
            if scope is None or scope == own:
                moved[name] = distance / reservation.sensitivity
            else:
                assert distance == 0
        # A row of values that no other row has moves no count of frequent ones.
        moved.pop("frequent values")
        # Each row is in exactly one bin of every column: the bounds are attained.
        assert moved == pytest.approx(dict.fromkeys(moved, 1.0))
        assert len(moved) == 7


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
    _, layout = read_table(pd.DataFrame(columns), target=target)
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
    _, layout = read_table(frame, schema=schema)
    assert [column.name for column in modelled_columns(layout, schema)] == ["a"]
    accountant = PrivacyAccountant(1.0, 1e-5)
    metadata, rows = discover(frame[["a"]], layout, schema, accountant)
    assert rows.uniforms.shape == (2, 1)
    assert set(metadata.schema(schema).columns) == {"id", "a"}


def test_rows_without_a_label_train_nothing():
    frame = mixed_table()
    frame.loc[::3, "label"] = None
    _, layout = read_table(frame, target="label")
    accountant = PrivacyAccountant(math.inf, 1e-5, discovery_delta=1e-6)
    metadata, rows = discover(frame, layout, None, accountant)
    in_classes = sum(
        len(rows.of_class(c).class_codes) for c in range(len(metadata.classes))
    )
    assert in_classes == frame["label"].notna().sum() == metadata.classes.counts.sum()
    assert len(rows.of_class(-1).class_codes) == frame["label"].isna().sum()


def test_wide_tables_and_many_categories_take_seconds():
    """300 columns, and 100,000 names that occur once; generous for a slow machine."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    wide = pd.DataFrame(rng.normal(size=(200, 300))).rename(columns=str)
    with pytest.warns(UserWarning, match="are poor"):
        assert IndependentSynthesizer().fit(wide).sample(3).shape == (3, 300)
    names = pd.DataFrame({"s": [f"n{i}" for i in range(100_000)], "x": 1.0})
    with pytest.warns(UserWarning, match="frequent enough"):
        assert IndependentSynthesizer().fit(names).sample(3)["s"].isna().all()
    assert time.perf_counter() - start < 20
