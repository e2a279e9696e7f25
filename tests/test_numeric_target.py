"""A target that is a number: modelled as any column is, and still the target."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema


def make_table(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.gamma(3.0, 1.0, n_rows)
    kind = rng.integers(3, size=n_rows)
    price = 2.0 * size + 5.0 * kind + 0.5 * rng.normal(size=n_rows)
    kinds = np.array(["p", "q", "r"])[kind]
    return pd.DataFrame({"size": size, "price": price, "kind": kinds})


TABLE = make_table()
COLUMNS = {
    "size": Continuous(0, 15, decimals="any"),
    "price": Continuous(-3, 45, decimals="any"),
    "kind": Categorical(["p", "q", "r"]),
}
SCHEMA = TableSchema(COLUMNS, target="price", n_rows=600)
FREE = TableSchema(COLUMNS, n_rows=600)


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", ["IndependentSynthesizer", "GPATESynthesizer"])
def test_it_is_modelled_as_without_a_target(name):
    """With the same noise to the bit; what is charged and planned is the same too."""
    samples, paid, plans = [], [], []
    for schema in (SCHEMA, FREE):
        synth = clone(PLAIN[name]).set_params(random_state=0, schema=schema)
        with insecure_randomness(7):
            synth.fit(TABLE)
        samples.append(synth.sample(50))
        entries = synth.privacy_report().entries
        paid.append([(line.name, line.noise_std) for line in entries])
        plans.append(synth.plan())
    assert paid[0] == paid[1]
    pd.testing.assert_frame_equal(*samples)
    pd.testing.assert_frame_equal(*plans)


def test_its_pair_tables_have_wider_bins():
    cells = [
        MarginalSynthesizer(5.0, schema=schema).plan()["table_cells"].item()
        for schema in (SCHEMA, FREE)
    ]
    assert 0 < cells[0] < 0.8 * cells[1]


def test_what_depends_on_it_is_learnt():
    """A straight line explains 0.99 of real rows, and of independent columns nothing.

    At epsilon 5, 4,000 rows: of six fits the worst explained 0.97.
    """
    synth = MarginalSynthesizer(5.0, schema=SCHEMA, random_state=0)
    fake = synth.fit(make_table(4000, 1)).sample(2000)
    one_hot = [pd.get_dummies(t.drop(columns="price")) for t in (fake, TABLE)]
    line = LinearRegression().fit(one_hot[0], fake["price"])
    assert line.score(one_hot[1], TABLE["price"]) > 0.8


@pytest.mark.usefixtures("frozen_noise")
def test_whole_numbers_are_labels_unless_declared():
    whole = TABLE.assign(price=TABLE["price"].astype(int) % 3)
    assert IndependentSynthesizer(5.0, target="price").fit(whole).classes_.size
    declared = {"price": Continuous(0, 2, integer=True)}
    schema = TableSchema(declared, target="price")
    synth = IndependentSynthesizer(5.0, schema=schema).fit(whole)
    assert not hasattr(synth, "classes_")
    assert synth.sample(5)["price"].dtype == whole["price"].dtype


DAYS = pd.Timestamp("1950") + pd.to_timedelta(np.arange(600) * 30, unit="D")
TIMES = {
    "numbers": TABLE["price"],
    "times": pd.Series(DAYS),
    "zoned": pd.Series(DAYS.tz_localize("Asia/Tokyo")),
    "days of Arrow": pd.Series(DAYS.date).astype("date32[pyarrow]"),
    "durations": pd.Series(DAYS - DAYS.min()),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_measurement_is_no_feature_and_has_no_classes(name, tmp_path):
    """By their dtype, which is public; a schema of the fit says the same again."""
    when = TIMES[name].rename("when")
    frame = TABLE.assign(when=when)
    low, high = ends = when.min(), when.median()
    synth = IndependentSynthesizer(5.0, target="when")
    assert synth.plan(600, dtypes=frame.dtypes)["class"].tolist() == [None]
    synth.fit(frame).save(tmp_path / "saved.skdp")
    again = [synth.schema_, TableSchema.from_dataframe(frame, target="when")]
    fits = [IndependentSynthesizer(schema=schema).fit(frame) for schema in again]
    fits += [synth, IndependentSynthesizer(5.0).fit(TABLE, when)]
    for one in (*fits, IndependentSynthesizer.load(tmp_path / "saved.skdp")):
        assert one.feature_names_in_.tolist() == ["size", "price", "kind"]
        assert one.n_features_in_ == 3
        with pytest.raises(ValueError, match=r"'when' is a number.*by where"):
            one.sample(3, sampling_strategy="balanced")
        assert one.sample(20, where={"when": ends})["when"].between(low, high).all()
        assert [*one.sample(3)][-1] == "when"
        fake = one.sample(200)["when"]
        assert not hasattr(one, "classes_")
        assert fake.dtype == when.dtype
        # Most of 600 even values lie within, whatever range is found.
        assert fake.between(when.min(), when.max()).mean() > 0.5
    paid = {entry.name for entry in fits[0].privacy_report().entries}  # what was left
    assert paid <= {"coarse marginals", "marginals", "remainders", "frequent values"}
    assert "'when' is modelled as a measurement" in str(synth.model_card())
    stated = TableSchema({"when": Categorical([DAYS[0], DAYS[9]])}, target="when")
    if name == "times":  # a schema may say that they are classes
        assert IndependentSynthesizer(schema=stated).fit(frame).classes_.size == 2


NUMBERS = np.random.default_rng(1).normal(5_000, 1_000, 3_000).astype(int)
ASSUMED = r"none of the labels that are known of 'y'.*, or a measurement .*integer="
MEASURED = r"'y' is modelled as a measurement, since .*integer=.*Categorical\("
LABELS = {
    "amounts": (NUMBERS, MEASURED),
    "amounts and zeros": (np.where(np.arange(3_000) % 20, NUMBERS, 0), MEASURED),
    "of Int64": (pd.array(NUMBERS, dtype="Int64"), ASSUMED),
    "ages": (np.arange(30_000) % 50, r"integer column, so it has 50 classes.*integer="),
    # What looks like classes is said, from the measured range and decimals.
    "floats": (1.0 * (NUMBERS > 5_000), r"'y' is a float.*astype\(int"),
    "few rows": (NUMBERS[:40], r"labels of up to .*, or a measurement by Continuous\("),
    "misspelt": (["Yes", "no"] * 1_500, "about 50 % of the rows have none of"),
    "half missing": (pd.array([0, 1, None, None] * 750, dtype="Int64"), None),
}


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("name", LABELS)
def test_rows_with_none_of_the_labels_are_told(name):
    values, words = LABELS[name]
    table = pd.DataFrame({"u": np.linspace(0, 1, len(values)), "y": values})
    declared = {"y": Categorical(["yes", "no"])} if name == "misspelt" else {}
    if name == "amounts":  # no other column needs a share of delta
        declared = {"u": Categorical([0.0])}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synth = IndependentSynthesizer(3.0, target="y", schema=TableSchema(declared))
        synth.fit(table)
    text = " ".join(str(warning.message) for warning in caught)
    assert re.search(words or "^((?!of the rows).)*$", text)
    if words is MEASURED:  # as it came, though not as well as where it is declared
        fake = synth.sample(9_000)["y"]
        assert not hasattr(synth, "classes_")
        assert fake.dtype == table["y"].dtype
        assert fake.mean() == pytest.approx(np.mean(values), rel=0.25)
        assert fake.std() == pytest.approx(np.std(values), rel=0.5)
    if "integer=" in (words or ""):  # the remedy that it names
        remedy = TableSchema({"y": Continuous(0, 20_000, integer=True)}, target="y")
        fake = IndependentSynthesizer(3.0, schema=remedy).fit(table).sample(9_000)["y"]
        assert fake.mean() == pytest.approx(np.mean(values), rel=0.25)
        found = TableSchema({}, target="y").check(table)["finding"]
        assert found.str.contains("a target of many whole numbers").any()
