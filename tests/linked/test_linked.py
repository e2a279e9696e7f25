"""Fits and samples of `LinkedSynthesizer`: its guarantee, its ledger, its tables."""

import logging
import math

import numpy as np
import pandas as pd
import pytest
from linked.test_tree import clinic, tables

from skdpsynth import LinkedSynthesizer, MarginalSynthesizer, PrivacyBudget, load
from skdpsynth.audit._replay import replayed_pairs
from skdpsynth.exceptions import (
    BudgetExceededError,
    InvalidSchemaError,
    PersistenceError,
)
from skdpsynth.linked import _chain, _regression, _root
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import observe_releases


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Chains of few steps: nothing here is about how good they are."""
    monkeypatch.setattr(_root, "N_SYNTHETIC", 400)
    monkeypatch.setattr(_chain, "N_CONTEXTS", 300)
    monkeypatch.setattr(_regression, "N_STEPS", 3)


def fitted(epsilon=10.0, given=None, **more) -> LinkedSynthesizer:
    synth = LinkedSynthesizer(epsilon, schema=clinic(**more), random_state=0)
    return synth.fit(tables() if given is None else given)


def check(drawn, n_roots, *, most=3, descending=False) -> None:
    """Keys, numbers of children, order and bounds of synthetic tables."""
    patients, visits, drugs = (drawn[n] for n in ("patients", "visits", "drugs"))
    assert sorted(patients["patient"]) == [*range(n_roots)]
    assert visits["patient"].is_monotonic_increasing
    assert visits["patient"].isin(patients["patient"]).all()
    assert drugs["visit"].isin(visits["visit"]).all()
    assert visits["visit"].is_unique
    assert visits.groupby("patient").size().max() <= most
    assert drugs.groupby("visit").size().max() <= 2
    gaps = visits.groupby("patient")["day"].diff().dropna()
    assert ((gaps <= 0) if descending else (gaps >= 0)).all()
    assert visits["day"].between(0, 999).all()
    for name, given in tables().items():
        assert drawn[name].dtypes.to_dict() == given.dtypes.to_dict()


def test_tables_of_three_levels_fit_together(global_random_seed):
    synth = fitted(summaries=["day", "kind"])
    check(synth.sample(300, random_state=global_random_seed), 300)
    again = synth.sample(300, random_state=global_random_seed)
    drawn = synth.sample(300, random_state=global_random_seed)
    for name, own in again.items():
        pd.testing.assert_frame_equal(own, drawn[name])


def test_rows_descend_where_asked_and_files_may_be_read(tmp_path):
    given = tables()
    given["visits"].to_parquet(tmp_path / "visits.parquet")
    sources = {**given, "visits": tmp_path / "visits.parquet"}
    synth = fitted(given=sources, descending=True)
    check(synth.sample(100, random_state=0), 100, descending=True)


def test_the_ledger_adds_up_to_the_claim():
    synth = fitted()
    report = synth.privacy_report()
    whole = sum(entry.share for entry in report.entries)
    assert 99.9 < whole <= 100
    assert all(entry.used == entry.releases for entry in report.entries)
    assert report.epsilon <= 10
    whose = "row of patients with the rows that hang on it alone"
    assert (report.unit, report.relation) == (
        f"one {whose}",
        f"add or remove one {whose}",
    )
    mus = {e.name.partition(",")[0]: e.mu_total**2 for e in report.entries}
    visits, drugs = (
        sum(mu for name, mu in mus.items() if name.endswith(repr(table)))
        for table in ("visits", "drugs")
    )
    assert visits == pytest.approx(drugs) == pytest.approx(0.35 * report.mu**2)


def test_noise_does_not_depend_on_the_most_rows():
    entries = [
        [
            (e.sensitivity, e.noise_std)
            for e in fitted(max_rows=most).privacy_report().entries
        ]
        for most in (2, 100)
    ]
    assert entries[0][-4:] == entries[1][-4:]


def neighbours(given):
    """Yield tables with a unit more, of many extreme rows, and with one less."""
    for place, patient in enumerate(given["patients"]["patient"].iloc[[0, 25, -1]]):
        visits = given["visits"]["visit"][given["visits"]["patient"] == patient]
        less = {
            "patients": given["patients"].query("patient != @patient"),
            "visits": given["visits"].query("patient != @patient"),
            "drugs": given["drugs"][~given["drugs"]["visit"].isin(visits)],
        }
        yield str(place), "removed", less
        turned = {k: own.sample(frac=1, random_state=place) for k, own in less.items()}
        yield str(place), "removed and files permuted", turned
    many = pd.DataFrame({"visit": [f"w{k}" for k in range(50)], "patient": 5})
    many["day"], many["kind"] = np.repeat([999, -5], 25), "z"
    drugs = pd.DataFrame({"visit": many["visit"].repeat(4), "dose": 10**6})
    more = {"patients": pd.DataFrame({"patient": [5, 5], "age": [-1, 10**6]})}
    more |= {"visits": many, "drugs": drugs}
    both = {name: pd.concat([more[name], own]) for name, own in given.items()}
    yield "first", "added", both


def test_a_unit_moves_every_release_by_its_sensitivity_at_most(caplog):
    """All else is equal: releases, noise, warnings, logs, the object, its samples."""
    given, pairs, told = tables(), [], []
    caplog.set_level(logging.DEBUG, "skdpsynth")
    synth = LinkedSynthesizer(100.0, schema=clinic(summaries=["day"]))
    for pair in replayed_pairs(synth, given, neighbours(given), 0, "the unit"):
        pairs.append(pair)
        told += [record.getMessage() for record in caplog.records]
        caplog.clear()
    assert [pair for pair in pairs if pair.findings] == []
    each = len(told) // (1 + len(pairs))  # the first fit has no neighbour
    assert each > 1
    assert told == told[:each] * (1 + len(pairs))
    assert max(pair.shift for pair in pairs) > 0.5


def test_nothing_raises_or_warns_because_no_row_has_a_parent():
    given = tables()
    lone = {**given, "patients": given["patients"].assign(patient=range(1000, 1060))}
    drawn = fitted(given=lone).sample(50, random_state=0)
    for name, own in tables().items():
        assert drawn[name].dtypes.to_dict() == own.dtypes.to_dict()
    empty = {
        **given,
        "visits": given["visits"].iloc[:0],
        "drugs": given["drugs"].iloc[:0],
    }
    drawn = fitted(math.inf, given=empty).sample(50, random_state=0)
    assert [len(drawn[name]) for name in ("patients", "visits", "drugs")] == [50, 0, 0]


def test_numbers_of_children_come_back_without_noise():
    """In shares of 400 and of 4,000: 6 deviations of the larger, 1e-7 for 4 numbers."""
    given = tables(400)
    drawn = fitted(math.inf, given=given).sample(4_000, random_state=0)
    sizes = [
        np.bincount(own["visits"].groupby("patient").size(), minlength=4)[1:4] / n
        for own, n in ((given, 400), (drawn, 4_000))
    ]
    sizes[0][2] = (given["visits"].groupby("patient").size() >= 3).sum() / 400
    assert np.abs(sizes[0] - sizes[1]).max() < 6 * math.sqrt(0.25 / 4_000) + 0.01


def test_a_budget_is_of_units():
    budget = PrivacyBudget(3.0, 1e-3)
    synth = LinkedSynthesizer(1.0, schema=clinic(), budget=budget, random_state=0)
    synth.fit(tables())
    assert budget.unit == "row of patients with the rows that hang on it alone"
    assert budget.spent[0] == 1.0
    with pytest.raises(BudgetExceededError, match="protects one row"):
        PrivacyAccountant(1.0, 1e-5, budget=budget)


def test_what_is_refused_costs_nothing():
    budget, given = PrivacyBudget(3.0, 1e-3), tables()
    given["visits"]["lab"] = 1.5
    synth = LinkedSynthesizer(1.0, schema=clinic(), budget=budget)
    seen = []
    with pytest.raises(InvalidSchemaError), observe_releases(seen.append):
        synth.fit(given)
    assert (budget.spent, seen) == ((0.0, 0.0), [])
    assert not hasattr(synth, "epsilon_")


def test_a_plan_has_the_noise_of_the_fit():
    synth = fitted(summaries=["day"])
    plan = synth.plan(60)
    released = synth.measurements_["drugs"][-1]
    noise = plan.loc["drugs", "table_noise_std"]
    assert released.noise_std[0] == pytest.approx(noise, rel=0.01)
    assert len(released.query.sets) == plan.loc["drugs", "tables"]
    assert len(synth.measurements_["visits"][-1].query.sets) == plan["tables"]["visits"]


def test_tables_come_back_in_the_container_that_came():
    polars = pytest.importorskip("polars")
    given = {name: polars.from_pandas(own) for name, own in tables().items()}
    drawn = fitted(given=given).sample(20, random_state=0)
    for name, own in given.items():
        assert drawn[name].schema == own.schema


def test_a_file_draws_the_same_tables(tmp_path):
    synth = fitted(summaries=["day", "kind"])
    synth.save(tmp_path / "clinic.skdp")
    with pytest.raises(FileExistsError):
        synth.save(tmp_path / "clinic.skdp")
    for read in LinkedSynthesizer.load, load:
        again = read(tmp_path / "clinic.skdp")
        assert (type(again), again.schema) == (LinkedSynthesizer, synth.schema)
        ours, theirs = (own.sample(50, random_state=0) for own in (synth, again))
        for name, own in ours.items():
            pd.testing.assert_frame_equal(own, theirs[name])
        assert str(again.privacy_report()) == str(synth.privacy_report())
        assert not hasattr(again, "measurements_")  # as of one table
    with pytest.raises(PersistenceError, match="LinkedSynthesizer"):
        MarginalSynthesizer.load(tmp_path / "clinic.skdp")
