"""What people read and what files keep."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from skdpsynth.exceptions import PersistenceError
from skdpsynth.privacy import PrivacyAccountant, PrivacyReport
from skdpsynth.privacy._calibration import gdp_epsilon
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
    # The figure of the design: epsilon 1 becomes 1.465 when one row is replaced.
    assert report.epsilon_replace_one == pytest.approx(1.465, abs=2e-3)
    assert spend(()).report().epsilon_replace_one is None


def test_replacing_a_row_may_discover_two_keys() -> None:
    report = spend(("a",), discovery=2e-6).report()
    assert report.discovery_delta == pytest.approx(2e-6)
    expected = gdp_epsilon(math.sqrt(2) * report.mu, 6e-6)
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
        with pytest.raises(ValueError, match="discovering keys has cost"):
            report.get_epsilon(delta)


def test_text_starts_with_the_total_and_is_aligned() -> None:
    lines = str(spend(("no", "yes")).report()).splitlines()
    assert lines[0] == "Privacy report: epsilon = 0.9995, delta = 1e-05"
    assert "add or remove one row" in lines[1]
    start = next(i for i, line in enumerate(lines) if line.startswith("release "))
    table = lines[start : start + 4]
    assert len({len(line) for line in table}) == 1
    assert (
        len(
            {
                line.find(word)
                for line, word in zip(
                    table, ("paid by", "all rows", "class no", "class yes"), strict=True
                )
            }
        )
        == 1
    )
    text = "\n".join(lines)
    assert "If one row is replaced instead: epsilon = 1.46" in text
    assert "Exceptions, standard output and timing go to the curator only." in text


def test_many_classes_are_summarised_by_the_one_that_pays_most() -> None:
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
    assert "one of 9 classes that pays most" in text


def test_html_is_escaped() -> None:
    accountant = PrivacyAccountant(1.0, 1e-5)
    accountant.reserve_gaussian("<script>", mu=0.1, sensitivity=1, scope="<b>&</b>")
    text = accountant.report()._repr_html_()
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in text
    assert "class &lt;b&gt;&amp;&lt;/b&gt;" in text
    assert text.count("<tr>") == 2


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


def test_an_empty_ledger_prints() -> None:
    report = PrivacyAccountant(1.0, 1e-5).report()
    assert report.epsilon == 0.0
    assert "release" in str(report)
    assert "<table>" in report._repr_html_()
