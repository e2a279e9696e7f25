"""The words of a report: they say what the figures say, and to whom."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from scipy.stats import norm

from skdpsynth.privacy import (
    UNLABELLED,
    PrivacyAccountant,
    PrivacyReport,
    claim,
    gdp_epsilon,
)
from skdpsynth.privacy._report import _won_bets
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Identifier, TableSchema
from skdpsynth.table import declared_metadata


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


def test_text_starts_with_the_total_and_is_aligned():
    lines = str(spend(("no", "yes")).report()).splitlines()
    assert lines[0] == "Privacy report: epsilon = 0.9996, delta = 1e-05"
    start = next(i for i, line in enumerate(lines) if line.startswith("release "))
    table = lines[start : start + 4]
    assert len({len(line) for line in table}) == 1
    assert (
        len(
            {
                line.find(word)
                for line, word in zip(
                    table, ("charged", "all rows", "class no", "class yes"), strict=True
                )
            }
        )
        == 1
    )
    text = "\n".join(lines)
    assert "If one row is replaced instead: epsilon = 2.15" in text


def test_many_classes_are_summarised_by_the_one_that_is_charged_most():
    accountant = spend(tuple(range(8)), share=0.9)
    assert str(accountant.report()).count("gradients") == 8
    accountant.reserve_gaussian("more", mu=1e-3, sensitivity=1, scope=5)
    assert str(accountant.report()).count("gradients") == 8
    accountant.reserve_gaussian("small", mu=1e-3, sensitivity=1, scope=9)
    text = str(accountant.report())
    assert text.count("gradients") == 1
    assert "class 5" in text
    assert "more" in text
    assert "small" not in text
    assert "class counts" in text
    assert "one of 9 classes that is charged most" in text


def test_html_is_escaped():
    accountant = PrivacyAccountant(1.0, 1e-5)
    accountant.reserve_gaussian("<script>", mu=0.1, sensitivity=1, scope="<b>&</b>")
    text = accountant.report()._repr_html_()
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in text
    assert "class &lt;b&gt;&amp;&lt;/b&gt;" in text
    assert text.count("<tr>") == 2


def test_an_empty_ledger_prints():
    report = PrivacyAccountant(1.0, 1e-5).report()
    assert 0.99 < report.epsilon <= 1.0
    assert "release" in str(report)
    assert "<table>" in report._repr_html_()


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_the_statement_s_bet_is_never_lost_more_often(epsilon, delta):
    """The bound on bets holds for the exact optimum against a Gaussian mechanism.

    The best test of N(0, 1) against N(mu, 1) at even odds wins Phi(mu / 2) of the bets;
    mu is the largest one that (epsilon, delta) allows, found here by bisection. An
    epsilon-DP coin, for which the bound is exact at delta 0, wins e^eps / (1 + e^eps).
    """
    low, high = 0.0, 50.0
    for _ in range(100):
        mu = (low + high) / 2
        low, high = (mu, high) if gdp_epsilon(mu, delta) <= epsilon else (low, mu)
    bound = float(_won_bets(epsilon, delta))
    assert 100 * norm.cdf(low / 2) <= bound
    coin = 100 * math.exp(epsilon) / (1 + math.exp(epsilon))
    assert coin <= bound <= coin + 100 * delta + 0.1


def test_the_statement_quotes_the_figures():
    report = spend(("a",)).report()
    words = report.statement
    assert "epsilon = 0.9996 and delta = 1e-05" in words
    assert "a factor of at most 2.717," in words
    assert "at most 73.1 % of the bets" in words
    assert "a person with several rows is protected less" in words
    assert "\n" not in words
    assert words in " ".join(str(report).split())
    assert math.exp(report.epsilon) <= 2.717


def test_aclaim_is_never_rounded_down():
    for value in (0.99954321, 0.99950001, 1.0, 1e-5, 3.0000001, 12345.6, 9.9999e-7):
        assert value <= float(claim(value)) <= value * 1.001
    assert [claim(x) for x in (1.0, 1e-5, 3e-7, 0.1)] == ["1", "1e-05", "3e-07", "0.1"]
    assert claim(math.inf) == "inf"


@pytest.mark.parametrize("epsilon", [1e-6, 50.0])
def test_extreme_epsilons_have_words(epsilon):
    words = spend(("a",), epsilon=epsilon).report().statement
    assert "% of the bets" in words
    assert ("e to the power of epsilon" in words) == (epsilon > 30)
    assert ("at most 100 %" in words) == (epsilon > 30)


def test_what_is_not_private_gets_no_promise():
    with insecure_randomness(0):
        seeded = spend(("a",)).report()
    for report in (seeded, spend(("a",), epsilon=math.inf).report()):
        assert report.statement.startswith("This fit is not differentially private")
        assert "at most" not in report.statement
        assert "At other deltas" not in str(report)


def test_the_text_has_all_that_an_officer_asks_for():
    text = " ".join(str(spend(("a",), discovery=1e-6).report()).split())
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


def test_mechanisms_are_named():
    accountant = PrivacyAccountant(1.0, 1e-5)
    mu = accountant.mu_cap / 3
    accountant.reserve_gaussian("sums", mu=mu, sensitivity=1)
    accountant.reserve_votes("bits", mu=mu, n_teachers=9, noise="laplace")
    accountant.reserve_votes("more", mu=mu, n_teachers=9, scope=UNLABELLED)
    accountant.reserve_sampled_gaussian("steps", mu=mu, sampling_rate=0.25, scope=1)
    lines = str(accountant.report()).splitlines()
    found = {line.split()[0]: re.split("  +", line)[1:3] for line in lines if line}
    assert found["sums"] == ["all rows", "discrete Gaussian"]
    assert found["bits"] == ["all rows", "vote, Laplace"]
    assert found["more"] == ["rows without a label", "vote, Gaussian"]
    assert found["steps"] == ["class 1", "Gaussian on 25 % of rows"]


def test_labels_cannot_move_the_cursor():
    """A label of a stranger's file, printed in a terminal, stays one word."""
    accountant = PrivacyAccountant(1.0, 1e-5)
    accountant.reserve_gaussian("a\x1b[2J\r\nb", mu=0.1, sensitivity=1, scope="c\x07")
    accountant.remark("d\x1be")
    named = dict.fromkeys(("accountant", "relation", "software", "unit"), "e\x1bf")
    for report in (accountant.report(), replace(accountant.report(), **named)):
        text = str(report)
        assert all(line.isprintable() for line in text.splitlines())
        assert "\r" not in text


def test_what_was_declared_is_said():
    """Names of columns, and how many more there are; no bound and no category."""
    columns = {f"x{i}": Continuous(3, 77_123, nullable=True) for i in range(10)}
    columns |= {"sex": Categorical(["Wo", "Mo"]), "id": Identifier()}
    schema = TableSchema(columns, n_rows=500)
    metadata = declared_metadata(schema)
    assert metadata == (
        "the bounds of x0, x1, x2, x3, x4, x5, x6, x7 and 2 more columns",
        "the categories of sex",
        "identifiers, never looked at: id",
        "that no value is missing in sex",
        "the number of rows",
    )
    assert declared_metadata(None) == ()
    report = spend(("a",)).report()
    assert "; whatever a schema declared." in " ".join(str(report).split())
    told = " ".join(str(replace(report, declared=metadata)).split())
    assert "the categories of sex; identifiers, never looked at: id;" in told
    assert "77123" not in told
    nothing = " ".join(str(replace(report, declared=())).split())
    assert "Nothing else was declared." in nothing
    for declared in (metadata, ()):
        other = replace(report, declared=declared)
        assert PrivacyReport.from_dict(json.loads(other.to_json())) == other
