"""The figures of a report, its JSON, and what a pipeline asserts."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace
from importlib.metadata import version

import numpy as np
import pytest

import skdpsynth
from skdpsynth.exceptions import BudgetExceededError, PersistenceError
from skdpsynth.privacy import PrivacyAccountant, PrivacyReport, gdp_epsilon
from skdpsynth.privacy.testing import insecure_randomness


def spend(
    classes: tuple[object, ...],
    *,
    discovery: float = 0.0,
    epsilon: float = 1.0,
    share: float = 0.96,
) -> PrivacyAccountant:
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=discovery)
    cap = min(accountant.mu_cap, 10.0)
    reservation = accountant.reserve_gaussian(
        "class counts", mu=0.2 * cap, sensitivity=1, delta=discovery
    )
    reservation._draw_down()
    for key in classes:
        accountant.reserve_gaussian(
            "gradients",
            mu=math.sqrt(share / 60) * cap,
            sensitivity=2**21,
            count=60,
            scope=key,
        )
    return accountant


def test_entries_say_what_was_reserved_and_used() -> None:
    report = spend(("no", "yes")).report()
    counts, no, yes = report.entries
    assert (counts.name, counts.scope) == ("class counts", "all rows")
    assert (counts.releases, counts.used) == (1, 1)
    assert counts.share == pytest.approx(4.0)
    assert (no.scope, yes.scope) == ("class no", "class yes")
    assert (no.releases, no.used, no.sensitivity) == (60, 0, 2**21)
    assert no.share == pytest.approx(96.0)
    assert no.mu_total == pytest.approx(math.sqrt(0.96) * report.mu)
    assert no.noise_std == pytest.approx(2**21 * math.sqrt(60) / no.mu_total, rel=1e-9)
    assert counts.share + yes.share == pytest.approx(100.0)


def test_total_and_the_price_of_replacing_a_row() -> None:
    report = spend(("no", "yes")).report()
    assert 0.995 < report.epsilon <= 1.0
    assert (report.delta, report.epsilon_requested) == (1e-5, 1.0)
    assert report.private
    assert report.relation == "add or remove one row"
    # Twice the cap: a centred count may turn into its opposite.
    assert report.epsilon_replace_one == pytest.approx(2.154, abs=2e-3)
    assert report.epsilon_replace_one == gdp_epsilon(2 * report.mu, 1e-5)
    # Both are of the cap, whatever was reserved.
    assert spend(()).report().epsilon_replace_one == report.epsilon_replace_one


def test_replacing_a_row_may_discover_two_keys() -> None:
    report = spend(("a",), discovery=2e-6).report()
    assert report.discovery_delta == pytest.approx(2e-6)
    expected = gdp_epsilon(2 * report.mu, 6e-6)
    assert report.epsilon_replace_one == pytest.approx(expected)
    assert spend(("a",), discovery=6e-6).report().epsilon_replace_one == math.inf


def test_get_epsilon_follows_the_gaussian_curve() -> None:
    report = spend(("a",)).report()
    assert report.get_epsilon(1e-5) == pytest.approx(report.epsilon, rel=1e-4)
    assert report.get_epsilon(1e-3) < report.epsilon < report.get_epsilon(1e-7)
    for delta in (0.0, 1.0):
        with pytest.raises(ValueError, match="delta must be a number in"):
            report.get_epsilon(delta)


@pytest.mark.parametrize(
    "delta",
    ["x", "1e-5", None, True, math.nan, math.inf, -1e-5, 0, 1, 1j, [1e-5], (1e-5,)],
)
def test_get_epsilon_names_what_it_expects(delta) -> None:
    report = spend(("a",)).report()
    with pytest.raises(
        ValueError, match=r"must be a number in \(0, 1\)\. Got"
    ) as caught:
        report.get_epsilon(delta)
    assert f"Got {delta!r} instead; give one such as 1e-05" in str(caught.value)
    assert report.get_epsilon(np.float32(1e-5)) == pytest.approx(report.epsilon, 1e-3)


def test_get_epsilon_leaves_the_delta_of_discovery_aside() -> None:
    report = spend((), discovery=1e-6).report()
    assert report.get_epsilon(5e-6) == pytest.approx(gdp_epsilon(report.mu, 4e-6))
    for delta in (1e-6, 1e-7):
        with pytest.raises(ValueError, match="set aside for keys and tails"):
            report.get_epsilon(delta)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_round_trip_through_json(epsilon: float) -> None:
    report = spend(("inf", 3), discovery=1e-6, epsilon=epsilon).report()
    text = json.dumps(report.to_dict(), allow_nan=False)
    back = PrivacyReport.from_dict(json.loads(text))
    assert back == report
    assert str(back) == str(report)


def test_names_that_look_like_numbers_survive() -> None:
    accountant = PrivacyAccountant(1.0, 1e-5)
    accountant.reserve_gaussian("inf", mu=0.1, sensitivity=1)
    report = accountant.report()
    assert PrivacyReport.from_dict(report.to_dict()) == report


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("epsilon"),
        lambda d: d.pop("entries"),
        lambda d: d.update(extra=1),
        lambda d: d["entries"][0].pop("mu_total"),
        lambda d: d.update(entries=3),
        lambda d: d.update(entries=[3]),
        lambda d: d.pop("statement"),
        lambda d: d.pop("report_version"),
        lambda d: d.update(report_version=1),
        lambda d: d.update(epsilon=math.nan),
        lambda d: d.update(epsilon=-1.0),
        lambda d: d.update(epsilon="1"),
        lambda d: d.update(epsilon=10**400),
        lambda d: d.update(epsilon=math.inf),
        lambda d: d.update(private=False),
        lambda d: d.update(private=1),
        lambda d: d.update(delta=1.0),
        lambda d: d.update(discovery_delta=1e-5),
        lambda d: d.update(mu=1e200),  # no search for its epsilon would end
        lambda d: d.update(order=2),  # a field of version 1
        lambda d: d.update(notes="text"),
        lambda d: d.update(declared=[3]),
        lambda d: d["entries"][0].update(kind="magic"),
        lambda d: d["entries"][0].update(used=2),
        lambda d: d["entries"][0].update(sampling_rate=0.0),
        lambda d: d["entries"][0].update(name=None),
    ],
)
def test_other_fields_are_refused(spoil) -> None:
    values = spend(()).report().to_dict()
    spoil(values)
    with pytest.raises(PersistenceError, match="fields of a privacy report"):
        PrivacyReport.from_dict(values)


def test_infinite_epsilon_says_so() -> None:
    report = spend(("a",), epsilon=math.inf).report()
    assert report.epsilon == report.epsilon_replace_one == math.inf
    assert report.get_epsilon(1e-5) == math.inf
    assert not report.private
    assert report.entries[0].share is None
    text = str(report)
    assert text.startswith("Privacy report: epsilon = inf")
    assert "infinite by request" in text


def test_insecure_randomness_says_so() -> None:
    with insecure_randomness(0):
        report = spend(("a",)).report()
    assert report.epsilon == report.get_epsilon(1e-5) == math.inf
    assert report.epsilon_requested == 1.0
    assert not report.private
    assert "insecure_randomness" in str(report)


def test_a_report_is_frozen() -> None:
    report = spend(()).report()
    with pytest.raises(FrozenInstanceError):
        report.epsilon = 0.1
    assert replace(report, notes=("x",)) != report


NUMBER, TEXT = (float, "inf"), (str,)
JSON_TYPES = {
    "report_version": (int,),
    "statement": TEXT,
    "epsilon": NUMBER,
    "delta": (float,),
    "epsilon_requested": NUMBER,
    "mu": NUMBER,
    "discovery_delta": (float,),
    "epsilon_replace_one": NUMBER,
    "private": (bool,),
    "entries": (list,),
    "notes": (list,),
    "accountant": TEXT,
    "software": TEXT,
    "declared": (list, type(None)),
    "relation": TEXT,
    "unit": TEXT,
    "epsilon_by_delta": (list,),
    "not_covered": (list,),
}
ENTRY_TYPES = {
    "name": TEXT,
    "scope": TEXT,
    "releases": (int,),
    "used": (int,),
    "sensitivity": (float,),
    "noise_std": (float,),
    "mu_total": NUMBER,
    "share": (float, type(None)),
    "kind": TEXT,
    "sampling_rate": (float,),
}


def of_type(value: object, allowed: tuple[object, ...]) -> bool:
    return type(value) in allowed or (isinstance(value, str) and value in allowed)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_json_has_the_keys_and_types_of_version_2(epsilon: float) -> None:
    """Whoever reads the JSON may rely on these. Change them with the version only."""
    report = spend(("a", "b"), discovery=1e-6, epsilon=epsilon).report()
    found = json.loads(report.to_json())
    assert found["report_version"] == 2
    assert {k for k in found if not of_type(found[k], JSON_TYPES[k])} == set()
    assert set(found) == set(JSON_TYPES)
    for entry in found["entries"]:
        assert {k for k in entry if not of_type(entry[k], ENTRY_TYPES[k])} == set()
        assert set(entry) == set(ENTRY_TYPES)
    assert all(set(pair) == {"delta", "epsilon"} for pair in found["epsilon_by_delta"])


def test_what_follows_from_the_fields_is_not_believed() -> None:
    """A file that praises itself gets the words that its figures deserve."""
    report = spend(("a",)).report()
    values = report.to_dict()
    values.update(statement="Perfectly safe.", epsilon_by_delta=[], not_covered=[])
    back = PrivacyReport.from_dict(values)
    assert back == report
    assert back.to_dict() == report.to_dict()


def test_epsilon_at_other_deltas_is_given_where_it_is_valid() -> None:
    """What discovering keys has cost is no delta to promise anything at."""
    report = spend(("a",)).report()
    assert [delta for delta, _ in report.epsilon_by_delta] == [1e-3, 1e-4, 1e-6, 1e-7]
    for delta, epsilon in report.epsilon_by_delta:
        assert epsilon == pytest.approx(gdp_epsilon(report.mu, delta))
    found = spend(("a",), discovery=1e-6).report()
    assert [delta for delta, _ in found.epsilon_by_delta] == [1e-3, 1e-4]
    assert spend(("a",), epsilon=math.inf).report().epsilon_by_delta == ()


def test_versions_of_accountant_and_noise() -> None:
    report = PrivacyAccountant(1.0, 1e-5).report()
    assert f"dp-accounting {version('dp-accounting')}," in report.accountant
    expected = f"skdpsynth {skdpsynth.__version__}, OpenDP {version('opendp')}"
    assert report.software == expected


def test_assert_within_follows_the_curve() -> None:
    """Silent from the epsilon of that delta on, an error just below it."""
    report = spend(("a",)).report()
    report.assert_within(epsilon=1.0, delta=1e-5)
    for delta in (1e-7, 1e-6, 1e-4, 1e-3):
        epsilon = gdp_epsilon(report.mu, delta)
        report.assert_within(epsilon=epsilon * (1 + 1e-9), delta=delta)
        with pytest.raises(BudgetExceededError, match="Got epsilon ="):
            report.assert_within(epsilon=epsilon * 0.999, delta=delta)
    for epsilon, delta in ((0.99, 1e-5), (0.0, 0.5e-5), (1.0, 0.5e-5)):
        with pytest.raises(BudgetExceededError, match="stays spent"):
            report.assert_within(epsilon=epsilon, delta=delta)


def test_assert_within_leaves_the_delta_of_discovery_aside() -> None:
    report = spend((), discovery=2e-6).report()
    report.assert_within(epsilon=1.0, delta=1e-5)
    for delta in (1e-6, 2e-6):
        with pytest.raises(BudgetExceededError, match="Got epsilon = inf"):
            report.assert_within(epsilon=100.0, delta=delta)


def test_assert_within_refuses_what_is_not_private() -> None:
    with insecure_randomness(0):
        report = spend(("a",)).report()
    with pytest.raises(BudgetExceededError, match="Got epsilon = inf"):
        report.assert_within(epsilon=1e6, delta=0.5)
    report.assert_within(epsilon=math.inf, delta=0.5)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(-1, 0.1), (math.nan, 0.1), ("1", 0.1), (True, 0.1), (1, 0), (1, 1), (1, None)],
)
def test_assert_within_names_what_it_expects(epsilon, delta) -> None:
    with pytest.raises(ValueError, match="must be a number") as caught:
        spend(()).report().assert_within(epsilon=epsilon, delta=delta)
    assert not isinstance(caught.value, BudgetExceededError)
