"""A target that is a number: modelled as any column is, and still the target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.exceptions import DegradedResultWarning, InvalidSchemaError
from skdpsynth.measure import _tables
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Identifier, TableSchema


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


def fitted(synthesizer, *data, **changes):
    """Fit with noise that repeats."""
    synth = clone(synthesizer).set_params(random_state=0, **changes)
    with insecure_randomness(7):
        return synth.fit(*data)


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(
    "name",
    ["IndependentSynthesizer", "MarginalSynthesizer", "GPATESynthesizer"],
)
def test_it_is_modelled_as_without_a_target(name, monkeypatch):
    """With the same noise to the bit; what is charged and planned is the same too.

    But for the bins of pair tables, which are wider.
    """
    monkeypatch.setattr(_tables, "_MEASURED_CELL_FROM", _tables._CELL_FROM)
    free = TableSchema(COLUMNS, n_rows=600)
    ours = fitted(PLAIN[name], TABLE, schema=SCHEMA)
    plain = fitted(PLAIN[name], TABLE, schema=free)
    pd.testing.assert_frame_equal(ours.sample(50), plain.sample(50))
    ours_paid, plain_paid = (
        [(line.name, line.noise_std) for line in s.privacy_report().entries]
        for s in (ours, plain)
    )
    assert ours_paid == plain_paid
    pd.testing.assert_frame_equal(ours.plan(), plain.plan())


def test_its_pair_tables_have_wider_bins():
    pairs = MarginalSynthesizer(epsilon=5.0)
    free = clone(pairs).set_params(schema=TableSchema(COLUMNS, n_rows=600))
    cells = [
        synth.plan()["table_cells"].item()
        for synth in (pairs.set_params(schema=SCHEMA), free)
    ]
    assert 0 < cells[0] < 0.8 * cells[1]


def test_it_is_no_feature_and_has_no_classes(tmp_path):
    synth = IndependentSynthesizer(target="price").fit(TABLE)
    synth.save(tmp_path / "saved.skdp")
    for one in (synth, IndependentSynthesizer.load(tmp_path / "saved.skdp")):
        assert one.n_features_in_ == 2
        assert one.feature_names_in_.tolist() == ["size", "kind"]
        assert not hasattr(one, "classes_")
        assert one.schema_.target == "price"
        assert isinstance(one.schema_.columns["price"], Continuous)
        assert list(one.sample(3)) == list(TABLE)
        with pytest.raises(ValueError, match=r"'price' is a number.*by where"):
            one.sample(3, sampling_strategy="balanced")
        assert one.sample(20, where={"price": (5, 9)})["price"].between(5, 9).all()


def test_what_was_bought_is_a_schema_of_the_next_fit():
    measured = IndependentSynthesizer(target="price").fit(TABLE).schema_
    again = IndependentSynthesizer(schema=measured).fit(TABLE)
    assert again.n_features_in_ == 2
    names = {entry.name for entry in again.privacy_report().entries}
    assert names == {"coarse marginals", "marginals"}


def test_what_depends_on_it_is_learnt():
    """A straight line explains 0.99 of real rows, and of independent columns nothing.

    At epsilon 5, 4,000 rows: of six fits the worst explained 0.97.
    """
    synth = MarginalSynthesizer(5.0, schema=SCHEMA, random_state=0)
    fake = synth.fit(make_table(4000, 1)).sample(2000)
    one_hot = [pd.get_dummies(t.drop(columns="price")) for t in (fake, TABLE)]
    line = LinearRegression().fit(one_hot[0], fake["price"])
    assert line.score(one_hot[1], TABLE["price"]) > 0.8


LABELS = {
    "Series": TABLE["price"],
    "float32": TABLE["price"].to_numpy(np.float32),
    "Float64 with a gap": pd.array([None, *TABLE["price"][1:]], dtype="Float64"),
    "Index": pd.Index(TABLE["price"]),
}


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("name", LABELS)
def test_y_comes_back_as_it_came(name):
    y = LABELS[name]
    features, generated = IndependentSynthesizer(5.0).fit_resample(TABLE[["size"]], y)
    assert type(generated) is type(y)
    assert generated.dtype == y.dtype
    assert getattr(generated, "name", None) == getattr(y, "name", None)
    assert len(features) == len(generated)
    assert not pd.isna(generated).any()  # one missing value is not told from none
    assert np.std(generated) == pytest.approx(np.std(TABLE["price"]), rel=0.5)


def test_missing_values_are_modelled_as_in_any_column():
    """A third is missing, of 600: the noise of a count is below 20 rows."""
    table = TABLE.assign(price=TABLE["price"].where(TABLE.index % 3 > 0))
    fake = IndependentSynthesizer(5.0, target="price").fit(table).sample(2000)
    assert fake["price"].isna().mean() == pytest.approx(1 / 3, abs=0.1)


def test_plan_says_what_a_number_costs():
    synth = IndependentSynthesizer(target="price")
    plan = synth.plan(600, dtypes=TABLE.dtypes)
    assert plan["class"].tolist() == [None]
    assert "class" not in plan["note"][0]
    with pytest.raises(ValueError, match=r"'price' is a number and has no classes"):
        synth.plan(600, dtypes=TABLE.dtypes, class_counts={1.0: 600})


@pytest.mark.usefixtures("frozen_noise")
def test_what_looks_like_classes_is_said():
    """From the measured range and decimals, not from the rows."""
    coded = TABLE.assign(price=(TABLE["price"] > 9).astype(float))
    with pytest.warns(DegradedResultWarning, match=r"'price' is a float.*astype\(int"):
        IndependentSynthesizer(20.0, target="price").fit(coded)
    declared = TableSchema({"price": Continuous(0, 1)}, target="price")
    IndependentSynthesizer(5.0, schema=declared).fit(coded)  # no warning


def test_a_target_alone_is_no_table():
    hidden = {"size": Identifier(), "kind": Identifier()}
    synth = IndependentSynthesizer(target="price", schema=TableSchema(hidden))
    with pytest.raises(InvalidSchemaError, match="besides the target"):
        synth.fit(TABLE)


@pytest.mark.parametrize(
    ("name", "measured"), [("whole", False), ("whole declared", True), ("float", True)]
)
def test_whole_numbers_are_labels_unless_declared(name, measured):
    table = TABLE.assign(price=TABLE["price"].round().astype(int) % 3)
    schema = None
    if name == "whole declared":
        schema = TableSchema({"price": Continuous(0, 2, integer=True)})
    if name == "float":
        table = table.assign(price=TABLE["price"])
    synth = IndependentSynthesizer(5.0, target="price", schema=schema).fit(table)
    assert hasattr(synth, "classes_") is not measured
    assert synth.sample(5)["price"].dtype == table["price"].dtype
