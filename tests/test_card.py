"""The model card: what is public of a fit, in words."""

import re

import numpy as np
import pandas as pd
import pytest

import skdpsynth
from skdpsynth import (
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    TableSchema,
    combine_measurements,
)
from skdpsynth.privacy import GRID
from skdpsynth.schema import Boolean, Categorical, Continuous, Derived, Identifier, Text

RNG = np.random.default_rng(0)
AGES = np.clip(RNG.gamma(6.0, 9.0, 3_000), 0, 99).round().astype(int)
ILL = np.where(RNG.random(3_000) < 0.3, "yes", "no")
TABLE = pd.DataFrame(
    {
        "age": AGES,
        "<b>|sex": RNG.choice(["f", "m"], 3_000),
        "old": AGES > 60,
        "id": range(3_000),
        "note": "secret remark",
        "ill": ILL,
    }
)
COLUMNS = {
    "age": Continuous(0, 99, integer=True),
    "<b>|sex": Categorical(["f", "m"], nullable=False),
    "old": Boolean(),
    "id": Identifier(),
    "note": Text(),
}
SCHEMA = TableSchema(COLUMNS, target="ill")


@pytest.fixture(scope="module", params=[MarginalSynthesizer, GPATESynthesizer])
def fitted(request):
    return request.param(3.0, schema=SCHEMA, random_state=0).fit(TABLE)


def unpadded(document):
    return re.sub(" +", " ", document.to_markdown())


def test_it_has_the_claim_and_every_column(fitted):
    report, text = fitted.privacy_report(), unpadded(fitted.model_card())
    for words in (
        report.statement,
        "| age | whole number | 0 to 99 |",
        r"| \<b\>\|sex | category | 2 categories |",
        "| old | yes or no | False or True |",
        "| id | identifier | made up; never read |",
        "| note | text | never read |",
        "the bounds of age",
        *(entry.name for entry in report.entries),
    ):
        assert words in text
    assert "secret remark" not in text


def test_the_noise_is_that_of_the_ledger(fitted):
    text = unpadded(fitted.model_card())
    counts = re.findall(r"^- class (\w+): about ([\d,]+)$", text, re.MULTILINE)
    released = {label: int(n.replace(",", "")) for label, n in counts}
    assert released == fitted.schema_.class_counts
    for entry in fitted.privacy_report().entries:
        if entry.name == "marginals":
            (std,) = re.findall(rf"\| {entry.scope[6:]} \| [\d,]+ \| ([\d.]+)", text)
            assert float(std) * GRID == pytest.approx(entry.noise_std, rel=0.01)


def test_it_follows_from_the_saved_file(fitted, tmp_path):
    fitted.save(tmp_path / "a")
    again = skdpsynth.load(tmp_path / "a").model_card()
    assert str(again) == str(fitted.model_card())
    page = again.to_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;|sex" in page
    assert "<b>|sex" not in page


def test_what_was_measured_elsewhere_has_no_plan():
    """Of measurements of several fits only the report says how good they are."""
    here = MarginalSynthesizer(3.0, schema=SCHEMA, random_state=0).fit(TABLE[::2])
    first = here.measurements_
    there = MarginalSynthesizer(3.0, schema=first.schema, design=first).fit(TABLE[1::2])
    both = combine_measurements([first, there.measurements_])
    text = str(MarginalSynthesizer.from_measurements(both).model_card())
    assert "noise, one column" in str(here.model_card())
    assert "noise, one column" not in text
    assert "site 2: marginals" in text


@pytest.mark.usefixtures("frozen_noise")
def test_it_is_not_good_for_what_is_poor():
    """Of 60 rows, at epsilon .1, nothing is known but names and types."""
    poor = MarginalSynthesizer(0.1).fit(TABLE[["age", "ill"]].head(60))
    good, _, bad = str(poor.model_card()).partition("What they are bad for")
    good = good.partition("What the tables are good for")[2]
    words = "ranges and categories, but for what is named below"
    assert words in " ".join(good.split())
    assert "Shares" not in good
    for words in ("Shares of the values", "no category of 'ill'", "range of 'age'"):
        assert words in bad


def test_every_column_stands_in_it():
    """Also those that are computed, of which nothing was found, and the unit."""
    table = TABLE[["old", "ill"]].assign(age=AGES, who=range(3_000), twice=2 * AGES)
    table["note"] = table["who"].astype(str)
    rules, unit = [Derived("twice", "age + age")], {"privacy_unit": "who"}
    schema = TableSchema({}, rules=rules, max_rows_per_unit=1, **unit)
    synth = IndependentSynthesizer(1.0, schema=schema).fit(table)
    text = unpadded(synth.model_card())
    found = re.findall(r"^\| (\S+) \| [\w ]+ \| .*", text, re.MULTILINE)
    assert found[1 : 1 + table.shape[1]] == [*table]
    assert f"with {table.shape[1]} columns" in text
    for line in (
        "| twice | computed | age + age |",
        "| who | identifier | made up; tells whom to protect |",
        "| note | category | none was found |",
    ):
        assert line in text


def test_special_values_are_beside_the_range():
    spec = Continuous(0, 99, integer=True, nullable=True, special=[-1])
    rows = pd.DataFrame({"age": pd.array([-1, 40, None] * 30, dtype="Int64")})
    synth = MarginalSynthesizer(1.0, schema=TableSchema({"age": spec})).fit(rows)
    assert "| 0 to 99, or -1, or missing |" in str(synth.model_card())
