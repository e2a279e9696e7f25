"""The figures of a report, its JSON, its words, and what a pipeline asserts."""

import json
import math
import re
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
from scipy.stats import norm

import skdpsynth
from skdpsynth.exceptions import BudgetExceededError, PersistenceError
from skdpsynth.privacy import PrivacyAccountant, PrivacyReport, claim, gdp_epsilon
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Identifier, TableSchema
from skdpsynth.table import declared_metadata


def spend(*classes, discovery=0.0, epsilon=1.0, share=0.96):
    """Reserve counts of all rows, and gradients of some classes."""
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=discovery)
    cap = min(accountant.mu_cap, 10.0)
    counts = accountant.reserve_gaussian(
        "class counts", mu=0.2 * cap, sensitivity=1, delta=discovery
    )
    noisy_counts(np.zeros(3, dtype=int), 1, counts)
    mu = math.sqrt(share / 60) * cap
    for key in classes:
        accountant.reserve_gaussian(
            "gradients", mu=mu, sensitivity=2**21, count=60, scope=key
        )
    return accountant


def test_entries_say_what_was_reserved_and_used():
    report = spend("no", "yes").report()
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


def test_total_and_the_price_of_replacing_a_row():
    """Twice the cap: a centred count may turn into its opposite; and two keys."""
    report = spend("no", "yes").report()
    assert 0.995 < report.epsilon <= 1.0
    assert (report.delta, report.epsilon_requested) == (1e-5, 1.0)
    assert report.private
    assert report.relation == "add or remove one row"
    assert report.epsilon_replace_one == pytest.approx(2.154, abs=2e-3)
    assert report.epsilon_replace_one == gdp_epsilon(2 * report.mu, 1e-5)
    # Both are of the cap, whatever was reserved.
    assert spend().report().epsilon_replace_one == report.epsilon_replace_one
    found = spend("a", discovery=2e-6).report()
    assert found.discovery_delta == pytest.approx(2e-6)
    expected = gdp_epsilon(2 * found.mu, 6e-6)
    assert found.epsilon_replace_one == pytest.approx(expected)
    assert spend("a", discovery=6e-6).report().epsilon_replace_one == math.inf
    assert f"dp-accounting {version('dp-accounting')}," in report.accountant
    expected = f"skdpsynth {skdpsynth.__version__}, OpenDP {version('opendp')}"
    assert report.software == expected


BAD_DELTAS = ["x", "1e-5", None, True, math.nan, math.inf, -1e-5, 0, 1.0, 1j, [1e-5]]


@pytest.mark.parametrize("delta", BAD_DELTAS)
def test_get_epsilon_names_what_it_expects(delta):
    report = spend("a").report()
    words = f"must be a number in (0, 1). Got {delta!r} instead; give one such as 1e-05"
    with pytest.raises(ValueError, match=re.escape(words)):
        report.get_epsilon(delta)
    with pytest.raises(ValueError, match="must be a number") as caught:
        report.assert_within(epsilon=1.0, delta=delta)
    assert not isinstance(caught.value, BudgetExceededError)
    assert report.get_epsilon(np.float32(1e-5)) == pytest.approx(report.epsilon, 1e-3)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_round_trip_through_json(epsilon):
    """Whatever follows from the fields is computed anew, and not believed."""
    accountant = spend("inf", 3, discovery=1e-6, epsilon=epsilon, share=0.9)
    accountant.reserve_gaussian("inf", mu=1e-3, sensitivity=1)  # a name
    report = accountant.report()
    values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    values.update(statement="Perfectly safe.", epsilon_by_delta=[], not_covered=[])
    back = PrivacyReport.from_dict(values)
    assert back == report
    assert back.to_dict() == report.to_dict()
    assert str(back) == str(report)


SPOILT = [
    *({"epsilon": value} for value in (math.nan, -1.0, "1", 10**400, math.inf)),
    *({"private": value} for value in (False, 1)),
    *({"entries": value} for value in (3, [3])),
    {"extra": 1},
    {"report_version": 1},
    {"delta": 1.0},
    {"discovery_delta": 1e-5},
    {"mu": 1e200},  # its epsilon is no number
    {"order": 2},  # a field of version 1
    {"notes": "text"},
    {"declared": [3]},
]
ABSENT = ["epsilon", "entries", "statement", "report_version"]
SPOILT_ENTRIES = [{"kind": "magic"}, {"used": 2}, {"sampling_rate": 0.0}, {"name": 1}]


@pytest.mark.parametrize("entry", ABSENT + SPOILT_ENTRIES + SPOILT, ids=str)
def test_other_and_missing_fields_are_refused(entry):
    values = spend().report().to_dict()
    if entry in ABSENT:
        del values[entry]
    else:
        (values["entries"][0] if entry in SPOILT_ENTRIES else values).update(entry)
    with pytest.raises(PersistenceError, match="fields of a privacy report"):
        PrivacyReport.from_dict(values)


@pytest.mark.parametrize("seeded", [False, True])
def test_what_is_not_private_says_so_and_gets_no_promise(seeded):
    """By request, or since the noise was seeded."""
    with insecure_randomness(0) if seeded else nullcontext():
        report = spend("a", epsilon=1.0 if seeded else math.inf).report()
    assert not report.private
    assert report.epsilon == report.epsilon_replace_one == math.inf
    assert report.get_epsilon(1e-5) == math.inf
    assert report.epsilon_by_delta == ()
    assert report.epsilon_requested == (1.0 if seeded else math.inf)
    assert (report.entries[0].share is None) != seeded
    text = str(report)
    assert text.startswith("Privacy report: epsilon = inf")
    assert ("insecure_randomness" if seeded else "infinite by request") in text
    assert report.statement.startswith("This fit is not differentially private")
    assert "at most" not in report.statement
    assert "At other deltas" not in text
    with pytest.raises(BudgetExceededError, match="Got epsilon = inf"):
        report.assert_within(epsilon=1e6, delta=0.5)
    report.assert_within(epsilon=math.inf, delta=0.5)


def test_json_has_the_keys_of_version_2():
    """Whoever reads the JSON may rely on these. Change them with the version only.

    Values of another type are refused when a report is read.
    """
    found = json.loads(spend("a", discovery=1e-6).report().to_json())
    assert found["report_version"] == 2
    assert " ".join(sorted(found)) == (
        "accountant declared delta discovery_delta entries epsilon epsilon_by_delta "
        "epsilon_replace_one epsilon_requested mu not_covered notes private relation "
        "report_version software statement unit"
    )
    assert " ".join(sorted(found["entries"][0])) == (
        "kind mu_total name noise_std releases sampling_rate scope sensitivity share "
        "used"
    )
    assert all(set(pair) == {"delta", "epsilon"} for pair in found["epsilon_by_delta"])


def test_epsilon_at_other_deltas_is_given_where_it_is_valid():
    """What discovering keys has cost is no delta to promise anything at."""
    report = spend("a").report()
    assert [delta for delta, _ in report.epsilon_by_delta] == [1e-3, 1e-4, 1e-6, 1e-7]
    for delta, epsilon in report.epsilon_by_delta:
        assert epsilon == pytest.approx(gdp_epsilon(report.mu, delta))
    found = spend("a", discovery=1e-6).report()
    assert [delta for delta, _ in found.epsilon_by_delta] == [1e-3, 1e-4]


def test_assert_within_follows_the_curve():
    """Silent from the epsilon of that delta on, an error just below it."""
    report = spend("a").report()
    report.assert_within(epsilon=1.0, delta=1e-5)
    for delta in (1e-7, 1e-6, 1e-4, 1e-3):
        epsilon = gdp_epsilon(report.mu, delta)
        report.assert_within(epsilon=epsilon * (1 + 1e-9), delta=delta)
        with pytest.raises(BudgetExceededError, match="Got epsilon ="):
            report.assert_within(epsilon=epsilon * 0.999, delta=delta)
    for epsilon, delta in ((0.99, 1e-5), (0.0, 0.5e-5), (1.0, 0.5e-5)):
        with pytest.raises(BudgetExceededError, match="stays spent"):
            report.assert_within(epsilon=epsilon, delta=delta)


def test_the_delta_of_discovery_is_left_aside():
    report = spend(discovery=2e-6).report()
    assert report.get_epsilon(6e-6) == pytest.approx(gdp_epsilon(report.mu, 4e-6))
    report.assert_within(epsilon=1.0, delta=1e-5)
    for delta in (1e-6, 2e-6):
        with pytest.raises(ValueError, match="set aside for keys and tails"):
            report.get_epsilon(delta)
        with pytest.raises(BudgetExceededError, match="Got epsilon = inf"):
            report.assert_within(epsilon=100.0, delta=delta)


def test_many_classes_are_summarised_by_the_one_that_is_charged_most():
    accountant = spend(*range(12), share=0.9)
    accountant.reserve_gaussian("more", mu=1e-3, sensitivity=1, scope=5)
    assert str(accountant.report()).count("gradients") == 12
    accountant.reserve_gaussian("small", mu=1e-3, sensitivity=1, scope=12)
    text = str(accountant.report())
    assert text.count("gradients") == 1
    assert "class 5" in text
    assert "one of 13 classes that is charged" in text
    assert "small" not in text


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 3.0, 10.0, 50.0, 800.0])
def test_the_statement_s_bet_is_never_lost_more_often(epsilon):
    """The bound on bets holds for the exact optimum against a Gaussian mechanism.

    The best test of N(0, 1) against N(mu, 1) at even odds wins Phi(mu / 2) of the bets;
    mu is all that the fit may spend. An epsilon-DP coin, for which the bound is exact
    at delta 0, wins e^eps / (1 + e^eps).
    """
    report = spend("a", epsilon=epsilon).report()
    words = report.statement
    bound = float(re.search(r"at most ([\d.]+) % of the bets", words)[1])
    assert 100 * norm.cdf(report.mu / 2) <= bound
    coin = 100 / (1 + math.exp(-report.epsilon))
    assert coin <= bound <= coin + 100 * report.delta + 0.1
    assert ("e to the power of epsilon" in words) == (epsilon > 709)


def test_the_statement_quotes_the_figures():
    report = spend("a").report()
    words = report.statement
    assert "epsilon = 0.9996 and delta = 1e-05" in words
    assert "a factor of at most 2.717," in words
    assert math.exp(report.epsilon) <= 2.717
    assert "a person with several rows is protected less" in words
    assert "\n" not in words
    assert words in " ".join(str(report).split())


def test_a_claim_is_never_rounded_down():
    for value in (0.99954321, 0.99950001, 1.0, 1e-5, 3.0000001, 12345.6, 9.9999e-7):
        assert value <= float(claim(value)) <= value * 1.001
    assert [claim(x) for x in (1.0, 1e-5, 3e-7, 0.1)] == ["1", "1e-05", "3e-07", "0.1"]
    assert claim(math.inf) == "inf"


def test_the_text_has_all_that_an_officer_asks_for():
    text = " ".join(str(spend("a", discovery=1e-6).report()).split())
    for words in (
        "Neighbours: add or remove one row.",
        "Unit: one row of the training table.",
        "If one row is replaced instead: epsilon =",
        "At other deltas: epsilon =",
        "Accountant: dp-accounting",
        "Public, so neither protected nor charged for: names, order and types of the",
        "Side channels:",
        "A person with several rows:",
        "Choices made on the same data:",
        "Of delta, 1e-06 is for discovered keys and for the tails of blocks.",
    ):
        assert words in text


def test_labels_cannot_move_the_cursor():
    """A label of a stranger's file, printed in a terminal, stays one word."""
    accountant = PrivacyAccountant(1.0, 1e-5)
    accountant.reserve_gaussian("a\x1b[2J\r\nb", mu=0.1, sensitivity=1, scope="c\x07")
    accountant.remark("d\x1be")
    named = dict.fromkeys(("accountant", "relation", "software", "unit"), "e\x1bf")
    for report in (accountant.report(), replace(accountant.report(), **named)):
        assert all(line.isprintable() for line in str(report).split("\n"))


def test_what_was_declared_is_said():
    """Names of columns, and how many more there are; no bound and no category."""
    columns = {f"x{i}": Continuous(3, 77_123, nullable=True) for i in range(14)}
    columns |= {"sex": Categorical(["Wo", "Mo"]), "id": Identifier()}
    declared = declared_metadata(TableSchema(columns, n_rows=500))
    assert declared == (
        f"the bounds of {', '.join(f'x{i}' for i in range(12))} and 2 more columns",
        "the categories of sex",
        "identifiers, never looked at: id",
        "that no value is missing in sex",
        "the number of rows",
    )
    report = replace(spend("a").report(), declared=declared)
    assert "the categories of sex; identifiers," in " ".join(str(report).split())
    assert PrivacyReport.from_dict(json.loads(report.to_json())) == report
