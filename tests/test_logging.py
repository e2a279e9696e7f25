"""What a fit logs: its stages and planned numbers, and nothing that is private."""

from __future__ import annotations

import logging
import re

import pytest
from _instances import PLAIN_PRIVATE
from sklearn.base import clone
from tables import mixed_table

import skdpsynth
from skdpsynth import IndependentSynthesizer
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")

CANARY = "canary"
N = 1237  # no number that a plan or a report would have
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")


TABLE = mixed_table(N + 1)[["number", "text", "y"]]
TABLE.loc[7, "text"] = CANARY  # of both neighbours


def logged(synthesizer, table, caplog) -> tuple[list[str], set[float]]:
    """Fit with frozen noise; give what was logged, and the numbers that are public."""
    caplog.clear()
    with insecure_randomness(0), caplog.at_level("DEBUG", logger="skdpsynth"):
        synthesizer.fit(table)
    report = synthesizer.privacy_report()
    public = {float(synthesizer.epsilon), report.delta, float(table.shape[1])}
    for entry in report.entries:
        public |= {float(entry.releases), entry.mu_total}
        public |= numbers(entry.name) | numbers(entry.scope)
    for plan in synthesizer._plans:
        public |= numbers(repr(plan))
    return [record.getMessage() for record in caplog.records], public


def numbers(text: str) -> set[float]:
    return {float(found) for found in NUMBER.findall(text)}


def private_numbers(messages: list[str], public: set[float]) -> list[float]:
    """Give the numbers in messages that are none of the public ones, as written."""
    known = {f"{value:.6g}" for value in public}
    # What tables are of, and not how many: "4 tables of 2 columns".
    messages = [re.sub(r"of [23] columns", "", text) for text in messages]
    return [n for text in messages for n in numbers(text) if f"{n:.6g}" not in known]


@pytest.mark.parametrize("name", PLAIN_PRIVATE)
def test_logs_hold_no_number_but_those_of_the_report_and_the_plan(name, caplog):
    """Of neighbours with the same noise they are equal, and have no exact count."""
    labels = TableSchema({"y": Categorical(["u", "v"])}, target="y")
    found = []
    for table in (TABLE[:N], TABLE):
        synthesizer = clone(PLAIN_PRIVATE[name]).set_params(schema=labels)
        messages, public = logged(synthesizer, table, caplog)
        assert len(messages) > 5
        assert private_numbers(messages, public) == []
        assert CANARY not in "".join(messages)
        exact = {len(table), *table["y"].value_counts()}
        assert not exact & {n for text in messages for n in numbers(text)}
        found.append(messages)
    assert found[0] == found[1]


def test_nothing_is_written_unless_it_is_asked_for(capfd):
    """A library has a handler that does nothing, and sets no level."""
    logger = logging.getLogger("skdpsynth")
    assert [type(one) for one in logger.handlers] == [logging.NullHandler]
    assert (logger.level, logger.propagate) == (logging.NOTSET, True)
    assert skdpsynth.__name__ == logger.name
    IndependentSynthesizer().fit(TABLE[:N][["number"]])
    assert capfd.readouterr() == ("", "")
