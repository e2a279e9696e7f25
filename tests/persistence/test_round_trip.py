"""Files: equal after a round trip, with what no file holds, and listed."""

import json
import math
import re
from pathlib import Path

import _rules
import _spoilt as files
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from tables import mixed_table

import skdpsynth
from skdpsynth import (
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
    inspect,
)
from skdpsynth.exceptions import PersistenceError
from skdpsynth.measure import Measurements, TableModel
from skdpsynth.schema import Boolean, Categorical, Determines, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")


def table():
    return mixed_table(600)[["number", "whole"]]


@pytest.mark.parametrize("version", [3, 2])  # the second, of 0.2, has no plans
def test_round_trip(saved, tmp_path, version):
    synth, data = saved
    document = files.facts_of(data) | {"format_version": version}
    if version == 2:
        del document["plans"]
    (tmp_path / "a").write_bytes(files.with_parts(data, document))
    again = GPATESynthesizer.load(tmp_path / "a")
    expected = synth.sample(80, random_state=1)
    pd.testing.assert_frame_equal(again.sample(80, random_state=1), expected)
    assert repr(again) == repr(synth)
    assert again.get_params() == synth.get_params()
    assert again.privacy_report() == synth.privacy_report()
    assert (again.epsilon_, again.delta_) == (synth.epsilon_, synth.delta_)
    assert again.schema_ == synth.schema_
    assert again._plans == ([] if version == 2 else synth._plans)
    assert again.classes_.tolist() == ["a", "b"]
    assert again.n_features_in_ == 3
    assert again.feature_names_in_.tolist() == synth.feature_names_in_.tolist()
    assert again.n_iter_ == 2
    assert again.n_teachers_.tolist() == synth.n_teachers_.tolist()
    # Its stream is fresh, and it can be fitted again.
    first, second = (GPATESynthesizer.load(tmp_path / "a").sample(20) for _ in range(2))
    assert not first.equals(second)
    other = clone(again).set_params(schema=None, epsilon=2.0)
    assert other.fit(table()).epsilon_ == pytest.approx(2.0, rel=0.02)


def test_what_no_dtype_says_comes_through_a_file(tmp_path):
    """The order of categories, and that objects are booleans, as the schema says."""
    truths = pd.Series([True, None, False] * 200, dtype=object)
    level = pd.Categorical(["u", "v"] * 300, ordered=True)
    schema = TableSchema({"flag": Boolean(nullable=True)})
    synth = IndependentSynthesizer(schema=schema)
    synth.fit(table().assign(level=level, flag=truths)).save(tmp_path / "a")
    rows = IndependentSynthesizer.load(tmp_path / "a").sample(90)
    assert rows["level"].dtype == pd.CategoricalDtype(["u", "v"], ordered=True)
    assert {*rows["flag"]} == {True, False, None}
    synth.measurements_.save(tmp_path / "b")
    assert Measurements.load(tmp_path / "b").schema.columns["flag"].nullable


def test_parameters_that_no_file_holds(tmp_path):
    """A budget is a right to spend, and the state of a generator is no setting."""
    synth = IndependentSynthesizer(
        epsilon=math.inf, random_state=np.random.RandomState(3)
    ).fit(table())
    synth.set_params(budget=PrivacyBudget(1.0, 1e-5))
    synth.save(tmp_path / "a")
    again = IndependentSynthesizer.load(tmp_path / "a")
    assert again.epsilon == math.inf
    assert again.random_state is None
    assert again.budget is None
    assert not hasattr(again, "classes_")


PARAMETERS = [(), (3, 2), [1, [2.5]], math.inf, None, True, "auto", ("a", 1), 10**20]


def test_parameters_come_back_with_their_types(tmp_path):
    """But a device of torch as its name, and an array as a list."""
    synth = MarginalSynthesizer(order=1).fit(table())
    converted = [(torch.device("cpu"), "cpu"), (np.array([4, 2]), [4, 2])]
    for value, expected in [*((value, value) for value in PARAMETERS), *converted]:
        synth.set_params(device=value).save(tmp_path / "a", overwrite=True)
        again = inspect(tmp_path / "a")["parameters"]["device"]
        assert again == expected
        assert type(again) is type(expected)


def test_a_name_that_no_file_holds_is_refused(tmp_path):
    frame = table()
    frame.columns = pd.Index([frozenset("u"), "w"], dtype=object)
    synth = IndependentSynthesizer().fit(frame)
    with pytest.raises(PersistenceError, match="frozenset"):
        synth.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [str, Path])
def test_a_place_that_is_none_is_named_with_the_remedy(tmp_path, kind, monkeypatch):
    synth = IndependentSynthesizer().fit(table())
    absent = kind(tmp_path / "absent" / "a.skdp")
    for path, error in (
        (absent, FileNotFoundError),
        (kind(tmp_path), IsADirectoryError),
    ):
        with pytest.raises(error, match=re.escape(str(path))) as caught:
            synth.save(path)
        assert ".partial" not in str(caught.value)
    with pytest.raises(PersistenceError, match="make it by"):
        synth.save(absent)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.chdir(tmp_path)
    synth.save(kind("a.skdp"))  # without a folder it is in the current one
    assert (tmp_path / "a.skdp").exists()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        synth.save(kind("a.skdp"))


def test_load_finds_the_class_or_says_what_is_there(tmp_path):
    class Elsewhere(IndependentSynthesizer):
        pass

    path = tmp_path / "a"
    for read in (GPATESynthesizer.load, skdpsynth.inspect, skdpsynth.load):
        with pytest.raises(FileNotFoundError):
            read(path)
    IndependentSynthesizer().fit(table()).save(path)
    assert type(skdpsynth.load(path)) is IndependentSynthesizer
    with pytest.raises(PersistenceError, match=r"IndependentSynthesizer\.load"):
        GPATESynthesizer.load(path)
    Elsewhere().fit(table()).save(path, overwrite=True)
    with pytest.raises(PersistenceError, match="Got a Elsewhere; load it by the load"):
        skdpsynth.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(PersistenceError, match="Expected a saved synthesizer"):
        skdpsynth.load(path)


def test_inspect_lists_a_file_and_builds_nothing(saved, tmp_path, monkeypatch):
    """Also the file of a class that does not exist here is listed."""
    synth, data = saved
    expected = synth.privacy_report().to_dict(), synth.schema_.to_dict()
    monkeypatch.setattr(GPATESynthesizer, "__init__", None)
    monkeypatch.setattr(TableModel, "from_state", None)
    (tmp_path / "a").write_bytes(data)
    found = skdpsynth.inspect(tmp_path / "a")
    assert (found["report"], found["schema_"]) == expected
    assert found["synthesizer"] == "GPATESynthesizer"
    assert found["format_version"] == 3
    assert found["parameters"]["n_teachers"] == 4
    assert found["schema"]["target"] == "y"
    assert found["versions"]["skdpsynth"] == skdpsynth.__version__
    of_array = {"shape": (2,), "dtype": "float64", "bytes": 16}
    assert found["arrays"]["class_counts"] == of_array
    assert found["bytes"] == len(data)
    json.dumps(found, allow_nan=False)


@pytest.fixture(scope="module")
def with_rules():
    synth = IndependentSynthesizer(schema=_rules.SCHEMA, random_state=0)
    return synth.fit(_rules.TABLE)


def test_the_rules_come_through_a_file(with_rules, tmp_path):
    with_rules.save(tmp_path / "a")
    again = IndependentSynthesizer.load(tmp_path / "a")
    assert again.schema_ == with_rules.schema_
    assert again.schema == _rules.SCHEMA
    assert with_rules.schema_.rules == tuple(_rules.RULES)
    pd.testing.assert_frame_equal(
        again.sample(99, random_state=3), with_rules.sample(99, random_state=3)
    )
    again.save(tmp_path / "b")
    found = inspect(tmp_path / "b")
    assert found["schema_"]["rules"][0]["rule"] == "determines"
    assert "rules across" in str(found["report"]["declared"])


def load_with(synth, folder, part, changes) -> None:
    """Put something else into a part of a file, and load it."""
    synth.save(folder / "a", overwrite=True)
    data = (folder / "a").read_bytes()
    document = files.facts_of(data)
    files.at(document, part).update(json.loads(json.dumps(changes)))
    (folder / "a").write_bytes(files.with_parts(data, document))
    IndependentSynthesizer.load(folder / "a")


FREE = {**_rules.COLUMNS, "label": Categorical(["u", "v"], nullable=True)}
OF_LABEL = Determines("job", "label", {"p": "u", "q": "v"})
LIES = [
    {"rule": "ordered", "columns": ["label", "zip"]},
    {"rule": "ordered", "columns": ["start", "most"]},
    {"rule": "ordered", "columns": ["savings", "nobody"]},
    {"rule": "ordered", "columns": ["savings", "wages"]},  # of which no gap is there
    {"rule": "missing_together", "columns": ["wages", "most"]},
    {"rule": "sum_of", "total": "savings", "parts": ["nobody", "wages"]},
    {"rule": "determines", "deciding": "zip", "decided": "job", "table": []},
]


def test_a_file_whose_rules_or_unit_do_not_fit_is_refused(with_rules, tmp_path):
    """The target is named by the file, and not by its schema."""
    other = {"target": None, "class_counts": None}
    rules = with_rules.schema_.to_dict()["rules"]
    load_with(with_rules, tmp_path, ["schema_"], other | {"rules": rules})
    lies = [("schema_", other | {"rules": [*rules, lie]}) for lie in LIES]
    lies += [("schema_", TableSchema(FREE, rules=[OF_LABEL]).to_dict())]
    lies += [("table", {"columns": [*range(11)]})]  # gaps, as columns of themselves
    lies += [("report", {"unit": "all rows of one 'who'"})]
    for part, changes in lies:
        with pytest.raises(PersistenceError):
            load_with(with_rules, tmp_path, [part], changes)


@pytest.fixture(scope="module")
def with_frequent():
    """A fit that found frequent values, and how much room last digits have."""
    rng = np.random.default_rng(0)
    hours = 100 * rng.integers(6, 24, 9000) + rng.integers(0, 4, 9000) * 15
    pi = np.where(rng.random(9000) < 0.4, np.pi, rng.normal(size=9000))
    table = pd.DataFrame({"hour": hours, "float": pi})
    return IndependentSynthesizer(50.0, random_state=0).fit(table)


def test_frequent_values_and_room_come_through_a_file(with_frequent, tmp_path):
    with_frequent.save(tmp_path / "a")
    again = IndependentSynthesizer.load(tmp_path / "a")
    domains = [own._model.metadata.domains for own in (with_frequent, again)]
    for first, second in zip(*domains, strict=True):
        assert first.frequent == second.frequent != ()
        assert first.remainders == second.remainders
    assert len(domains[1][0].remainders) == 100
    assert np.pi in dict(domains[1][1].frequent)
    drawn = again.sample(500, random_state=3)
    pd.testing.assert_frame_equal(drawn, with_frequent.sample(500, random_state=3))
    assert (drawn["float"] == np.pi).mean() > 0.3


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("frequent", [[700.0, 0.1], [700.0, 0.1]]),
        ("frequent", [[-1.0, 0.1]]),
        ("frequent", [[math.nan, 0.1]]),
        ("frequent", [[700.0, math.inf]]),
        ("frequent", [["a", 0.1]]),
        ("outer", [[1.0, 0.1], [1.0, 0.1]]),
        ("outer", [[1.0, -0.1]]),
        ("remainders", [1.0] * 99 + [-1.0]),
        ("remainders", ["a"] * 100),
        ("weekdays", [1.0] * 7),  # of what are no times
    ],
)
def test_damaged_frequent_values_and_room_are_refused(
    with_frequent, tmp_path, name, lie
):
    axis = ["table", "axes", 0]
    load_with(with_frequent, tmp_path, axis, {"low": 0.0})  # as it was
    with pytest.raises(PersistenceError):
        load_with(with_frequent, tmp_path, axis, {name: lie})
