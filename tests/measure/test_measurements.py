"""Measurements as users see them: names, labels that are right, and a file of them."""

import base64
import functools
import json
import math
import operator
from itertools import product

import numpy as np
import pandas as pd
import pytest

from skdpsynth.exceptions import PersistenceError
from skdpsynth.measure import Allocation, Discovery, Measurements, Spend, measure

# Bins are read, not made, by those who use the package.
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema
from skdpsynth.table import open_table

N_ROWS = 900
ZONE = "Europe/Berlin"
TIMES = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01", tz=ZONE)]


def make_table():
    """Make a table with a column of most kinds, and some of each hard value."""
    rng = np.random.default_rng(0)
    real = rng.normal(5, 2, N_ROWS).clip(0.1, 9.9)
    real[rng.random(N_ROWS) < 0.3] = 0.0
    real[rng.random(N_ROWS) < 0.2] = np.nan
    days = pd.to_timedelta(rng.integers(1, 364, N_ROWS), unit="D")
    seconds = pd.to_timedelta(rng.uniform(1, 3e7, N_ROWS), unit="s")
    return pd.DataFrame(
        {
            "real": real,
            ("whole", 1): rng.integers(0, 40, N_ROWS),
            "day": TIMES[0] + days,
            "moment": (TIMES[0] + seconds).tz_localize("UTC").tz_convert(ZONE),
            "maybe": pd.array(rng.choice([True, False, None], N_ROWS), "boolean"),
            "name": rng.choice(["often", "at times", "seldom", None], N_ROWS),
            "y": rng.random(N_ROWS) < 0.4,
        }
    )


SCHEMA = TableSchema(
    {
        "real": Continuous(0, 10, nullable=True, scale="linear", decimals="any"),
        ("whole", 1): Continuous(0, 40),
        "day": Datetime("2020-01-01", "2020-12-31", unit="D"),
        "moment": Datetime("2020-01-01", "2021-01-01"),
        "maybe": Boolean(nullable=True),
        "name": Categorical(["often", "at times", "seldom", "never"], nullable=True),
        "y": Boolean(),
    },
    target="y",
)
N_NUMBERS = 4
TABLE = make_table()


def measured(epsilon=math.inf):
    """Measure tables of all orders in every class."""
    _, layout = open_table(TABLE, schema=SCHEMA)
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=1e-6)
    metadata, rows = Discovery(layout, SCHEMA).run(TABLE, accountant)
    mu = math.inf if epsilon == math.inf else accountant.mu_cap / 4
    names = ("marginals", "pairs", "triples", "moments")
    spends = dict.fromkeys(names, Spend(mu))
    plans = [
        Allocation(scope, 1e5, n_bins=9, n_groups=4, n_tables=1, **spends)
        for scope in metadata.classes.scopes
    ]
    accountant.limit_scopes(metadata.classes.scopes)
    found = measure(rows, metadata, plans, accountant)
    found.conclude(accountant, metadata.schema(SCHEMA), accountant.report())
    return found


@pytest.fixture(scope="module")
def exact():
    return measured()


@pytest.fixture(scope="module")
def noisy():
    return measured(epsilon=5.0)


def numbers_of(series):
    """Give numbers as they are, and times in seconds on their clock."""
    if not pd.api.types.is_datetime64_any_dtype(series):
        return series.to_numpy(dtype=float)
    clock = series.dt.tz_localize(None)
    return ((clock - pd.Timestamp(0)) / pd.Timedelta("1s")).to_numpy()


def rows_in(series, own, all_bins):
    """Tell which rows are in a bin, by its label alone."""
    kinds = {kind for one in all_bins for kind in (one.kind, *one.also)}
    found = series.isin(own.categories).to_numpy(dtype=bool, na_value=False, copy=True)
    if own.ends is not None:
        numbers = numbers_of(series)
        found = (numbers >= own.ends[0]) & (numbers < own.ends[1])
        found &= (numbers != 0) | ("zero" not in kinds)
    if "zero" in (own.kind, *own.also):
        found |= numbers_of(series) == 0
    if "missing" in (own.kind, *own.also):
        found |= series.isna().to_numpy()
    return found


def test_labels_agree_with_counting_the_table(exact):
    """Without noise: every cell of every table, by the labels of its bins."""
    orders = []
    for own in [own for own in exact.tables() if 0 < own.order < 6]:
        of_class = TABLE[TABLE["y"] == own.class_label].reset_index(drop=True)
        orders.append(own.order)
        inside = [
            np.array([rows_in(of_class[name], one, bins) for one in bins])
            for name, bins in zip(own.columns, own.bins, strict=True)
        ]
        assert all((masks.sum(axis=0) == 1).all() for masks in inside)
        counts = np.zeros(own.values.shape)
        np.add.at(counts, tuple(masks.argmax(axis=0) for masks in inside), 1)
        np.testing.assert_allclose(own.values, counts, atol=1e-3)
    n_columns = len(TABLE.columns) - 1
    # Of two classes; numbers are counted in two rounds.
    expected = [n_columns + N_NUMBERS, *(math.comb(n_columns, n) for n in (2, 3))]
    assert [orders.count(n) for n in (1, 2, 3)] == [2 * n for n in expected]


def test_what_is_listed_has_names_noise_and_shapes(noisy):
    names = [name for name in TABLE.columns if name != "y"]
    tables = noisy.tables()
    kinds = {(own.order, own.class_label) for own in tables}
    assert kinds == {*product((0, 1, 2, 3, 6), (False, True))}
    for own in tables:
        assert own.noise_std > 0
        assert set(own.columns) <= set(names)
        if own.order < 4:
            assert own.values.shape == tuple(map(len, own.bins))
            total = float(own.values.sum())
            doubt = 6.5 * own.noise_std * math.sqrt(own.values.size) + 1
            rows = (TABLE["y"] == own.class_label).sum()
            assert own.order == 1 or abs(total - rows) < doubt
        else:
            assert (own.columns, own.bins) == (tuple(names), ())
            assert (np.isnan(own.values) == np.eye(6)).all()
            np.testing.assert_array_equal(own.values, own.values.T)


def test_the_frame_lists_every_value_once(noisy):
    frame = noisy.to_frame()
    assert frame.columns.tolist() == ["class", "columns", "bins", "value", "noise_std"]
    sizes = (own.values.size if own.order < 6 else 15 for own in noisy.tables())
    expected = sum(sizes)
    assert len(frame) == expected
    # Labels tell the bins of a table apart, those of times too.
    places = frame[frame["columns"] == "day, moment"]
    assert not places.duplicated(["class", "bins"]).any()
    assert frame["value"].notna().all()


def test_they_are_a_sequence(noisy):
    assert [*noisy[2:5]] == [noisy[2], noisy[3], noisy[4]]
    assert repr(noisy) == (
        "<Measurements: 4 of marginals, 1 of pairs, 2 of triples, 2 of moments>"
    )
    assert Measurements(noisy.metadata).to_frame()["columns"].eq("").all()


def test_each_is_one_line_of_the_ledger(noisy):
    """With the noise of the line."""
    lines = {(e.name, e.scope): e for e in noisy.report.entries}
    for own, scope in [(one, scope) for one in noisy for scope in one.scopes]:
        line, answer = lines[own.query.name, f"class {scope}"], own.of(scope)
        assert answer.mu == pytest.approx(line.mu_total)
        assert answer.noise_std == pytest.approx(line.noise_std * own.query.spacing)
        assert own.query.sensitivity <= line.sensitivity


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (("interval", (0.5, 2.0)), "[0.5, 2)"),
        (("interval", (0.0, 1.0), (), ("zero", "missing")), "[0, 1), 0, missing"),
        (
            ("categories", None, tuple("abcdefghijklmn")),
            "a, b, c, d, e, f, g, h, i, j, k, l and 2 more",
        ),
        (("categories", None, ("a",), ("other",)), "a, other"),
        (("categories",), "(nothing)"),
    ],
)
def test_a_bin_is_written_as_in_a_table(exact, own, text):
    kind = type(exact.tables()[1].bins[0][0])  # bins are read, not made, by users
    assert str(kind(*own)) == text


def test_a_file_gives_back_what_was_saved(noisy, exact, tmp_path):
    """To the letter; `test_sites.py` has the generator that comes of it."""
    path = tmp_path / "own.json"
    for own in (noisy, exact):
        own.save(path, overwrite=True)
        again, text = Measurements.load(path), path.read_text()
        assert again.report == own.report
        pd.testing.assert_frame_equal(again.to_frame(), own.to_frame())
        with pytest.raises(FileExistsError, match="overwrite=True"):
            again.save(path)
        again.save(str(path), overwrite=True)
        assert path.read_text() == text


@pytest.fixture(scope="module")
def document(noisy, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "good.json"
    noisy.save(path)
    return path.read_text(encoding="utf-8")


def changed(*keys, to):
    def change(document):
        place = document
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to
        return document

    return change


def changed_array(*keys, by):
    def change(document):
        own = functools.reduce(operator.getitem, keys, document)
        array = by(np.frombuffer(base64.b64decode(own["data"]), own["dtype"]))
        data = base64.b64encode(array.tobytes()).decode()
        own |= {"shape": [len(array)], "data": data}
        return document

    return change


NAMES = 5  # the column of four names, and of missing ones
AXES = ("table", "axes")
DAMAGE = {
    "cut off": None,
    "no object": lambda _: [1, 2],
    "another format": changed("format", to="skdpsynth measurements 0"),
    "no bins": changed("bins", to=[]),
    "no bin of missing values": changed("bins", 0, NAMES, "n_bins", to=4),
    "bins of other columns": lambda own: own | {"bins": [own["bins"][0][::-1]]},
    "a query of no kind": changed("released", 0, "query", to="marginal"),
    "a class too far": changed("released", 0, "of", to=[2]),
    "classes the other way round": changed("released", 4, "of", to=[1, 0]),
    "moments of another class": changed("released", -1, "position", to=0),
    "another shape": changed("released", -1, "values", "shape", to=[3, 5]),
    "another type": changed("released", -1, "values", "dtype", to="O"),
    "numbers that are none": changed("released", -1, "values", "data", to="/" * 160),
    "noise below none": changed("released", -1, "std", to=[-1.0]),
    "a mu below none": changed("released", -1, "mu", to=[-1.0]),
    "noise of one class": changed("planned_stds", to=[1.0]),
    "rounds of one class": lambda own: own | {"released": own["released"][:1]},
    "counts of other columns": changed("released", 2, "columns", to=[*range(6)][::-1]),
    "a column too far": changed("released", 0, "columns", 0, to=9),
    "a column twice": changed("released", 0, "columns", 0, to=1),
    "pairs of a column": changed("released", 4, "sets", "data", to="A" * 320),
    "cells of another column": changed("cells", "keys", 0, to=NAMES),
    "another unit": changed("report", "unit", to="person"),
    "more than was asked": changed("report", "epsilon_requested", to="inf"),
    "another range": changed(*AXES, 0, "high", to=2000.0),
    "another category": changed(*AXES, NAMES, "levels", 0, to="o"),
    "another class": changed("table", "levels", 0, to="c"),
    "an answer twice": lambda own: own | {"released": own["released"] * 2},
    "codes without end": changed_array(
        *("bins", 0, NAMES, "of_code"), by=lambda codes: np.append(10**11, codes[1:])
    ),
    "bins without end": changed_array(
        *("bins", 0, 0, "edges"), by=lambda _: np.linspace(0, 1, 60_001)
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_by_its_name(damage, document, tmp_path):
    """Parts that are not of one fit too: by the constructor, so by every reader."""
    path = tmp_path / "spoilt.json"
    if damage == "cut off":
        path.write_text(document[:-1], encoding="utf-8")
    else:
        path.write_text(json.dumps(DAMAGE[damage](json.loads(document))))
    with pytest.raises(PersistenceError, match=r"spoilt\.json") as error:
        Measurements.load(path)
    assert str(tmp_path) not in str(error.value)
    remedy = f"({json.loads(document)['report']['software']!r}); install it and sample"
    assert (remedy in str(error.value)) == (damage == "another format")
