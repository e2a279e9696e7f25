"""A target that is a number: modelled as any column is, and still the target."""

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.exceptions import DegradedResultWarning
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


def test_it_is_no_feature_and_has_no_classes(tmp_path):
    synth = IndependentSynthesizer(target="price").fit(TABLE)
    synth.save(tmp_path / "saved.skdp")
    again = IndependentSynthesizer(schema=synth.schema_).fit(TABLE)
    for one in (synth, IndependentSynthesizer.load(tmp_path / "saved.skdp"), again):
        assert one.n_features_in_ == 2
        assert one.feature_names_in_.tolist() == ["size", "kind"]
        assert not hasattr(one, "classes_")
        assert isinstance(one.schema_.columns["price"], Continuous)
        assert list(one.sample(3)) == list(TABLE)
        with pytest.raises(ValueError, match=r"'price' is a number.*by where"):
            one.sample(3, sampling_strategy="balanced")
        assert one.sample(20, where={"price": (5, 9)})["price"].between(5, 9).all()
    names = {entry.name for entry in again.privacy_report().entries}
    assert names == {"coarse marginals", "marginals"}  # the rest was bought before


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
    # What looks like classes is said, from the measured range and decimals.
    coded = TABLE.assign(price=(TABLE["price"] > 9).astype(float))
    with pytest.warns(DegradedResultWarning, match=r"'price' is a float.*astype\(int"):
        IndependentSynthesizer(20.0, target="price").fit(coded)
