"""Files: equal after a round trip, with what no file holds, and listed."""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path

import _rules
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import skdpsynth
from skdpsynth import (
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
    inspect,
)
from skdpsynth.exceptions import PersistenceError
from skdpsynth.measure import TableModel
from skdpsynth.schema import (
    Categorical,
    Continuous,
    Datetime,
    Determines,
    Identifier,
    TableSchema,
)
from skdpsynth.table._rules import RowRules

pytestmark = pytest.mark.usefixtures("short_fits")

SCHEMA = TableSchema(
    {
        "u": Continuous(-5, 5),
        "id": Identifier(),
        "day": Datetime("2020-01-01", "2021-01-01"),
        "y": Categorical(["a", "b"]),
    },
    target="y",
    class_counts={"a": 300, "b": 300},
)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "u": rng.normal(size=600),
            "id": [f"number {row}" for row in range(600)],
            "w": np.where(rng.random(600) < 0.3, np.nan, rng.exponential(size=600)),
            "day": pd.Timestamp("2020-02-03") + pd.to_timedelta(range(600), unit="h"),
            "kind": pd.Categorical(rng.choice(["p", "q"], 600)),
            "y": ["a", "b"] * 300,
        }
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "fitted.skdp"
    synth = GPATESynthesizer(
        schema=SCHEMA, n_iter=3, hidden_dims=(5, 3), random_state=4, device="cpu"
    )
    synth.fit(table()).save(path)
    return synth, path


def test_round_trip(saved):
    synth, path = saved
    again = GPATESynthesizer.load(path)
    expected = synth.sample(80, random_state=1)
    pd.testing.assert_frame_equal(again.sample(80, random_state=1), expected)
    assert repr(again) == repr(synth)
    assert again.get_params() == synth.get_params()
    assert again.privacy_report() == synth.privacy_report()
    assert (again.epsilon_, again.delta_) == (synth.epsilon_, synth.delta_)
    assert again.schema_ == synth.schema_
    assert again.classes_.tolist() == ["a", "b"]
    assert again.n_features_in_ == 5
    assert again.feature_names_in_.tolist() == synth.feature_names_in_.tolist()
    assert again.n_iter_ == 3
    assert again.n_teachers_.tolist() == synth.n_teachers_.tolist()
    pickle.loads(pickle.dumps(again))


def test_loaded_stream_is_fresh(saved):
    _, path = saved
    first, second = (GPATESynthesizer.load(path).sample(20) for _ in range(2))
    assert not first.equals(second)


def test_loaded_synthesizer_can_be_fitted_again(saved):
    again = clone(GPATESynthesizer.load(saved[1])).set_params(epsilon=2.0)
    assert again.fit(table()).epsilon_ == pytest.approx(2.0, rel=0.02)
    assert again.hidden_dims == (5, 3)


def test_parameters_that_no_file_holds(tmp_path):
    """A budget is a right to spend, and the state of a generator is no setting."""
    synth = IndependentSynthesizer(
        epsilon=math.inf, random_state=np.random.RandomState(3)
    ).fit(table()[["u", "w"]])
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
    synth = IndependentSynthesizer().fit(table()[["u"]])
    converted = [(torch.device("cpu"), "cpu"), (np.array([4, 2]), [4, 2])]
    for value, expected in [*((value, value) for value in PARAMETERS), *converted]:
        synth.set_params(verbose=value).save(tmp_path / "a", overwrite=True)
        again = inspect(tmp_path / "a")["parameters"]["verbose"]
        assert again == expected
        assert type(again) is type(expected)


def test_saving_before_fit_or_under_a_name_no_file_holds(tmp_path):
    frame = table()[["u", "w"]]
    frame.columns = pd.Index([frozenset("u"), "w"], dtype=object)
    synth = IndependentSynthesizer().fit(frame)
    with pytest.raises(PersistenceError, match="frozenset"):
        synth.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [str, Path])
def test_an_absent_folder_is_named_with_the_remedy(tmp_path, kind):
    synth = IndependentSynthesizer().fit(table()[["u"]])
    path = kind(tmp_path / "absent" / "a.skdp")
    with pytest.raises(PersistenceError, match="make it first by") as caught:
        synth.save(path)
    assert isinstance(caught.value, FileNotFoundError)
    assert repr(str(path)) in str(caught.value)
    assert ".partial" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    synth = IndependentSynthesizer().fit(table()[["u"]])
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))) as caught:
        synth.save(tmp_path)
    assert ".partial" not in str(caught.value)


def test_a_name_without_a_folder_is_in_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    IndependentSynthesizer().fit(table()[["u"]]).save("a.skdp")
    assert (tmp_path / "a.skdp").exists()


def test_a_file_is_replaced_whole(tmp_path, monkeypatch):
    """A save that fails leaves the file that was there, and nothing else."""
    synth = IndependentSynthesizer().fit(table()[["u"]])
    path = tmp_path / "a"
    synth.save(path, overwrite=True)
    before = path.read_bytes()

    def fail(*_):
        raise OSError

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError):  # noqa: PT011 - any
        synth.save(path, overwrite=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_a_file_is_replaced_only_where_that_is_asked_for(tmp_path):
    synth = IndependentSynthesizer().fit(table()[["u"]])
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        synth.save(path)
    assert path.read_bytes() == b"before"
    synth.save(path, overwrite=True)
    assert inspect(path)["synthesizer"] == "IndependentSynthesizer"


def test_load_finds_the_class(tmp_path):
    class Elsewhere(IndependentSynthesizer):
        pass

    frame = table()[["u", "w"]]
    for kind in (IndependentSynthesizer, MarginalSynthesizer):
        synth = kind(random_state=0).fit(frame)
        synth.save(tmp_path / "a", overwrite=True)
        again = skdpsynth.load(tmp_path / "a")
        assert type(again) is kind
        pd.testing.assert_frame_equal(
            again.sample(9, random_state=3), synth.sample(9, random_state=3)
        )
    Elsewhere().fit(frame).save(tmp_path / "b")
    with pytest.raises(PersistenceError, match="Got a Elsewhere; load it by the load"):
        skdpsynth.load(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"nothing")
    with pytest.raises(PersistenceError, match="Expected what save"):
        skdpsynth.load(tmp_path / "b")


def test_no_identifier_is_in_the_file(saved):
    assert "number 5" in set(table()["id"])
    assert b"number 5" not in saved[1].read_bytes()


def test_inspect(saved):
    synth, path = saved
    found = skdpsynth.inspect(path)
    assert found["synthesizer"] == "GPATESynthesizer"
    assert found["format_version"] == 2
    assert found["parameters"]["hidden_dims"] == (5, 3)
    assert found["parameters"]["random_state"] == 4
    assert found["report"] == synth.privacy_report().to_dict()
    assert found["schema_"] == synth.schema_.to_dict()
    assert found["schema"] == SCHEMA.to_dict()
    assert found["versions"]["skdpsynth"] == skdpsynth.__version__
    assert set(found["versions"]) == {"skdpsynth", "numpy", "pandas"}
    expected = {"shape": (2,), "dtype": "float64", "bytes": 16}
    assert found["arrays"]["class_counts"] == expected
    assert found["bytes"] == path.stat().st_size
    json.dumps(found, allow_nan=False)


def test_inspect_builds_nothing(saved, monkeypatch):
    """Also the file of a class that does not exist here is listed."""

    def fail(*_, **__):
        raise AssertionError

    monkeypatch.setattr(GPATESynthesizer, "__init__", fail)
    monkeypatch.setattr(TableModel, "from_state", fail)
    skdpsynth.inspect(saved[1])


def test_another_class(saved):
    with pytest.raises(PersistenceError, match=r"GPATESynthesizer\.load"):
        IndependentSynthesizer.load(saved[1])


def test_absent_file(tmp_path):
    for read in (GPATESynthesizer.load, skdpsynth.inspect):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "absent")


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


@pytest.mark.parametrize(
    "lie",
    [
        {"rule": "ordered", "columns": ["label", "zip"]},
        {"rule": "ordered", "columns": ["start", "most"]},
        {"rule": "missing_together", "columns": ["wages", "most"]},
        {"rule": "sum_of", "total": "savings", "parts": ["nobody", "wages"]},
        {"rule": "determines", "deciding": "zip", "decided": "job", "table": []},
    ],
)
def test_a_file_whose_rules_do_not_fit_is_refused(with_rules, tmp_path, files, lie):
    other = {"target": None, "class_counts": None}
    rules = with_rules.schema_.to_dict()["rules"]
    load_with(with_rules, tmp_path, files, other | {"rules": rules})
    with pytest.raises(PersistenceError):
        load_with(with_rules, tmp_path, files, other | {"rules": [*rules, lie]})


def load_with(synth, folder, files, schema) -> None:
    """Put another schema into a file, and load it."""
    synth.save(folder / "a", overwrite=True)
    data = (folder / "a").read_bytes()
    document = files.facts_of(data)
    document["schema_"] |= json.loads(json.dumps(schema))
    (folder / "a").write_bytes(files.with_parts(data, document))
    IndependentSynthesizer.load(folder / "a")


def test_a_claim_about_another_unit_is_refused(with_rules, tmp_path, files):
    """What its report protects, and what its schema says, are the same."""
    with_rules.save(tmp_path / "a", overwrite=True)
    data = (tmp_path / "a").read_bytes()
    document = files.facts_of(data)
    assert document["report"]["unit"].startswith("one row")
    document["report"]["unit"] = "all rows of one 'who'"
    (tmp_path / "a").write_bytes(files.with_parts(data, document))
    with pytest.raises(PersistenceError):
        IndependentSynthesizer.load(tmp_path / "a")


@pytest.mark.parametrize(
    ("name", "like"), [("start", "job"), ("wages", "job"), ("zip", "most")]
)
def test_domains_of_another_kind_are_refused(with_rules, name, like):
    """A file may hold any with marginals that fit them."""
    own = with_rules._model.metadata
    modelled = {name: domain for name, (_, domain) in own.drawn.items()}
    assert RowRules.of(_rules.SCHEMA, own.layout, modelled) == own.rules
    modelled[name] = modelled[like]
    with pytest.raises(ValueError, match="a rule about"):
        RowRules.of(_rules.SCHEMA, own.layout, modelled)


def test_a_file_whose_rules_compute_the_label_is_refused(with_rules, tmp_path, files):
    """The schema of the file does not name it as the target."""
    free = {**_rules.COLUMNS, "label": Categorical(["u", "v"], nullable=True)}
    rule = Determines("job", "label", {"p": "u", "q": "v"})
    lie = TableSchema(free, rules=[rule]).to_dict()
    with pytest.raises(PersistenceError) as caught:
        load_with(with_rules, tmp_path, files, lie)
    assert "target 'label' must be modelled" in str(caught.value.__cause__)


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
        ("frequent", [[900.0, 0.1], [700.0, 0.1]]),
        ("frequent", [[-1.0, 0.1]]),
        ("frequent", [[1e9, 0.1]]),
        ("frequent", [[math.nan, 0.1]]),
        ("frequent", [[700.0, math.inf]]),
        ("frequent", [[700.0]]),
        ("frequent", [["a", 0.1]]),
        ("frequent", 3),
        ("remainders", [1.0] * 99 + [-1.0]),
        ("remainders", [1.0] * 99 + [0.0]),
        ("remainders", [1.0] * 99 + [math.nan]),
        ("remainders", [1.0] * 101),
        ("remainders", [[1.0] * 100]),
        ("remainders", ["a"] * 100),
    ],
)
def test_damaged_frequent_values_and_room_are_refused(
    with_frequent, tmp_path, files, name, lie
):
    with_frequent.save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    document = files.facts_of(data)
    own = document["table"]["axes"][0]
    assert own["frequent"]
    assert (own["low"], len(own["remainders"])) == (0.0, 100)
    (tmp_path / "a").write_bytes(files.with_parts(data, document))
    IndependentSynthesizer.load(tmp_path / "a")
    own[name] = lie
    (tmp_path / "a").write_bytes(files.with_parts(data, document))
    with pytest.raises(PersistenceError):
        IndependentSynthesizer.load(tmp_path / "a")
