"""CSV files of which nothing is stated: kinds, remedies, and cells as they came."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer, TableSchema
from skdpsynth.__main__ import main
from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema import Continuous, Datetime
from skdpsynth.table import csv_kinds
from skdpsynth.table.csv_files import CsvFile, CsvForm
from skdpsynth.table.csv_kinds import as_cells, check_csv, found_kinds

RNG = np.random.default_rng(0)
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 1400, 300), "D")
TIMES = DAYS + pd.to_timedelta(RNG.integers(0, 86_400, 300), "s")
AMOUNTS = RNG.lognormal(7, 1, 300)
EUROS = [f"{v:,.2f} €".translate({44: ".", 46: ","}) for v in AMOUNTS]
PLAIN = CsvForm()
EUROPEAN = CsvForm(";", decimal=",", thousands=".")
UTC, ZONE = "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S%z"
FIT = ["fit", "t.csv", "--infer-dtypes", "--synthesizer=independent", "-o", "m"]


def written(times, form):
    return times.strftime(form).tolist()


# By the cells of a column and how a file is written: the kind that is found, its format
# (... if there is none), and what every cell of a synthetic column must match.
KINDS = {
    "ISO days": (written(DAYS, "%Y-%m-%d"), {}, "datetime", "%Y-%m-%d"),
    "minutes": (written(TIMES, "%Y-%m-%d %H:%M"), {}, "datetime", "%Y-%m-%d %H:%M"),
    "ISO in UTC": (written(TIMES, UTC), {}, "datetime", UTC),
    "an offset": (written(TIMES.tz_localize("UTC"), ZONE), {}, "datetime", ZONE),
    "German days": (written(DAYS, "%d.%m.%Y"), {}, "datetime", "%d.%m.%Y"),
    "American days": (written(DAYS, "%m/%d/%Y"), {}, "datetime", "%m/%d/%Y"),
    "money": ([f"{v:.2f}" for v in AMOUNTS], {}, "continuous", "%.2f"),
    "short": ([str(v) for v in AMOUNTS.round(2)], {}, "continuous", "%s"),
    "from R": ([f"{v:g}" for v in (AMOUNTS / 9).round(1)], {}, "continuous", "%g"),
    "signed": ([f"{v - 900:+.1f}" for v in AMOUNTS], {}, "continuous", "%+.1f"),
    "signed whole": ([f"{v - 900:+.0f}" for v in AMOUNTS], {}, "continuous", "%+d"),
    "dollars": ([f"${v:,.2f}" for v in AMOUNTS], {}, "continuous", "$%,.2f"),
    "per cent": ([f"{v % 100:.0f} %" for v in AMOUNTS], {}, "continuous", "%d %"),
    "litres": ([f"{v:,.1f} km/l" for v in AMOUNTS], {}, "continuous", "%,.1f km/l"),
    "degrees": ([f"{v:.0f}°C" for v in AMOUNTS], {}, "continuous", "%d°C"),
    "areas": ([f"{v:.2f} m2" for v in AMOUNTS], {}, "continuous", "%.2f m2"),
    "names alike": ([f"{v:.0f} Smith" for v in AMOUNTS], {}, "categorical", ...),
    "doses": ([f"{v} {'mk'[v > 99]}g" for v in range(300)], {}, "categorical", ...),
    "European": (EUROS, {"form": EUROPEAN}, "continuous", "%,.2f €"),
    "whole": ([f"{v:.0f}" for v in AMOUNTS], {}, "continuous", ...),
    "codes": ([f"{v:05.0f}" for v in AMOUNTS / 10], {}, "categorical", ...),
    "codes of a ward": (["0101", "0204", "0999"] * 100, {}, "categorical", ...),
    "codes and gaps": (["01067", "", "80331"] * 100, {}, "categorical", ...),
    "long codes": ([f"{v:.0f}{10**18}" for v in AMOUNTS], {}, "categorical", ...),
    "names": (RNG.choice(["ann", "bob"], 300).tolist(), {}, "categorical", ...),
    "nothing": ([""] * 300, {}, "continuous", ...),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(cells, form=PLAIN):
    frame = pd.DataFrame({"x": cells, "n": range(len(cells))})
    frame.to_csv("t.csv", index=False, sep=form.separator or ",")
    return CsvFile(Path("t.csv"), {}, form=form)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_found_and_its_cells_are_read_and_written_alike(name):
    """What `as_cells` writes of what was read is the file, cell by cell."""
    cells, how, kind, form = KINDS[name]
    file = write(cells, **how)
    schema, text, _ = found_kinds(file)
    blank = json.loads(text)["columns"][0][1]
    assert (blank["kind"], blank.get("format", ...)) == (kind, form)
    table = replace(file, columns=schema.kinds).read()
    again = as_cells(table, schema.kinds, file.form)["x"]
    written = again.astype(object).where(again.notna(), "").map(str)
    assert written.tolist() == cells


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize(
    "name", ["ISO in UTC", "an offset", "dollars", "European", "litres"]
)
def test_samples_are_written_as_the_file_of_the_fit(name):
    """In the command line, with nothing stated but how the file is written."""
    cells, how, _, _ = KINDS[name]
    write(cells, **how)
    marks = ["--sep=;", "--decimal=,", "--thousands=."] if how else []
    assert main([*FIT, "--epsilon=50", *marks]) == 0
    assert main(["sample", "m", "-n", "200", *marks, "-o", "s.csv"]) == 0
    drawn = pd.read_csv("s.csv", dtype=str, sep=";" if how else ",")["x"].dropna()
    known = [re.sub("[0-9]+", "9", cell) for cell in cells]
    assert {re.sub("[0-9]+", "9", cell) for cell in drawn} <= {*known}


@pytest.mark.parametrize(
    ("odd", "shown"),
    [("-", "--na-values=-"), ("n.a.", "--na-values=n.a."), ("Ann", "--na-values=TEXT")],
)
@pytest.mark.parametrize("name", ["short", "ISO days", "dollars"])
def test_a_few_texts_make_no_categories_of_numbers_or_times(name, odd, shown, capsys):
    """They are said, with the remedy, which works; a fit refuses them at no cost."""
    cells = [*KINDS[name][0][:290], *[odd] * 10]
    file = write(cells)
    schema, _, hints = found_kinds(file)
    assert schema.kinds["x"].tag == KINDS[name][2]
    assert hints["x"].startswith("where a cell of another kind")
    assert shown in hints["x"]
    findings = check_csv(replace(file, columns=schema.kinds), TableSchema({}))
    assert findings["rows"].tolist()[0] == 10
    assert "the first in row 291 below the names" in findings["finding"][0]
    assert shown in findings["finding"][0]
    with pytest.raises(InvalidTableError, match="--na-values"):
        IndependentSynthesizer(schema=schema).fit("t.csv")
    form = CsvForm(missing=(odd,))
    assert CsvFile(file.path, schema.kinds, form=form).read()["x"].isna().sum() == 10
    findings = check_csv(CsvFile(file.path, schema.kinds, form=form), schema)["finding"]
    assert not findings.str.contains("refuses").any()
    assert main(["schema", "t.csv", "-o", "s.json"]) == 0
    assert shown in (said := capsys.readouterr().err)
    assert odd != "Ann" or odd not in said


@pytest.mark.parametrize("odd", ["-", "n.a.", "z"])
def test_few_numbers_beside_a_word_for_missing_are_numbers(odd):
    """5 % of such cells became 64 % of the rows; beside another word they are codes."""
    file = write([*"12345" * 20, *[odd] * 5])
    schema, _, hints = found_kinds(file)
    assert schema.kinds["x"].tag == ("categorical" if odd == "z" else "continuous")
    told = any(f"--na-values={odd}" in hint for hint in hints.values())
    assert told == (odd != "z")


def test_a_form_is_tried_on_the_first_texts(monkeypatch):
    """On all texts are tried those alone that fit there: 11 s became 3."""
    tried = []
    real = csv_kinds._alike

    def noted(texts, *others):
        tried.append(len(texts))
        return real(texts, *others)

    monkeypatch.setattr(csv_kinds, "_alike", noted)
    for cells in (written(TIMES, "%d.%m.%Y %H:%M:%S"), [f"t{n}" for n in range(300)]):
        found_kinds(write(cells))
    assert tried.count(300) == 1 < len(tried)


@pytest.mark.parametrize("mark", ["-", "unknown"])
def test_a_schema_may_say_what_stands_for_missing(mark):
    """For a fit in Python, and for all commands, of which sample writes it again."""
    file = write([*map(str, range(100)), *[mark] * 50])
    file = replace(file, form=CsvForm(missing=[mark]))
    _, text, _ = found_kinds(file, TableSchema({}, na_values=[mark]))
    schema = TableSchema.from_json(text)
    assert schema.na_values == (mark,)
    assert TableSchema.from_json(schema.to_json()) == schema
    synth = IndependentSynthesizer(50.0, schema=schema).fit("t.csv")
    assert synth.sample(2_000)["x"].isna().mean() == pytest.approx(1 / 3, abs=0.1)
    report = str(synth.privacy_report()).replace("\n", " ")
    assert "what stands for missing values" in report
    synth.save("m")
    assert main(["sample", "m", "-n", "200", "-o", "s.csv"]) == 0
    assert mark in pd.read_csv("s.csv", keep_default_na=False)["x"].tolist()
    with pytest.raises(InvalidTableError, match="na_values of the schema"):
        IndependentSynthesizer(schema=replace(schema, na_values=())).fit("t.csv")
    for wrong in (mark, [3]):
        with pytest.raises(InvalidSchemaError, match="must be a list of texts"):
            TableSchema({}, na_values=wrong)


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        (["a", "b"], ""),
        (["01/02/2020", "03/04/2021"], "--date-format"),
        ([f"{n % 24}:{n:02}" for n in range(60)], 'appending ":00"'),
    ],
)
def test_what_can_be_read_in_two_ways_is_asked(cells, hint):
    schema, _, hints = found_kinds(write(cells * 20), ask=True)
    assert schema.kinds["x"].tag == "categorical"
    assert hint in hints.get("x", "")


@pytest.mark.parametrize(
    ("cells", "flags"),
    [
        (["17,9", "3,5", ""], ["decimal"]),
        (["1.234,50 €", "17,00 €", "-2,25 €"], ["decimal"]),
        (["€17,50", "€1.234.567,00"], ["decimal"]),
        (["1,200", "3,400"], ["decimal", "thousands"]),
        (["12 %", "7 %"], []),
        (["(1,200)", "3,400"], []),
    ],
)
def test_what_is_advised_of_numbers_works(cells, flags, capsys):
    """By the flag and the line of `check` cells are numbers, and come as they were."""
    file = write(cells * 20)
    assert main(["schema", "t.csv", "-o", "s.json"]) == 0
    assert main(["check", "t.csv", "--schema", "s.json"]) == 0
    out = capsys.readouterr().out
    found = re.findall(r"--(\w+)=(.) and ({.*?})", out)
    assert [flag for flag, _, _ in found] == flags
    for flag, mark, line in found:
        form = CsvForm(",", **{flag: mark})
        ends = {"low": -2e6, "high": 2e6, "nullable": True}
        data = {"schema_version": 1, "columns": [["x", json.loads(line) | ends]]}
        columns = TableSchema.from_json(json.dumps(data)).columns
        read = CsvFile(file.path, columns, form, ["n"]).read()
        again = as_cells(read, columns, form)["x"].fillna("")
        assert again.astype(str).tolist() == cells * 20


def test_what_not_all_numbers_have_is_no_form():
    several = ["+1.5", "2.5"], ["00.5", "1"], ["+$1.50", "$2.5"], ["10", "0"]
    for cells, form in zip(several, [None, None, "$%s", None], strict=True):
        assert found_kinds(write(cells * 20))[0].kinds["x"].format == form


def test_a_format_that_is_given_comes_first_and_others_are_found():
    Path("t.csv").write_text("a,b\n" + "01/02/2020,2020-01-02\n03/04/2021,\n" * 9)
    file = CsvFile(Path("t.csv"), {}, form=CsvForm(times="%m/%d/%Y"))
    kinds = found_kinds(file)[0].kinds
    assert [kinds[name].format for name in "ab"] == ["%m/%d/%Y", "%Y-%m-%d"]


@pytest.mark.parametrize(
    ("form", "column", "good", "bad"),
    [
        (CsvForm(thousands=","), Continuous(0, 9), ["1,234.5", "1"], ["1,5", "12,34"]),
        (EUROPEAN, Continuous(0, 9), ["1.234,5", "-7"], ["1.5", "1,234.5"]),
        (CsvForm(), Continuous(0, 9, format="$%,.2f"), ["-$1,000.5"], ["1", "€1"]),
        (CsvForm(), Continuous(0, 9, format="%d %"), ["4%", "4 %"], ["4", "% 4"]),
        (EUROPEAN, Continuous(0, 9, integer=True), ["1.000", "3"], ["3.0", "1.00"]),
    ],
)
def test_a_number_is_one_in_its_form_only(form, column, good, bad):
    """Nothing is guessed: 1,5 with commas between thousands is no 15."""
    columns = {"x": column, "n": Continuous(0, 9)}
    assert replace(write(good, form), columns=columns).read().notna().all(axis=None)
    for cell in bad:
        with pytest.raises(InvalidTableError, match=r"'x' of 't\.csv'"):
            replace(write([cell], form), columns=columns).read()


def test_a_format_is_checked_and_kept():
    for wrong in ("{:.2f}", "%", "$", "%.2e", 3):
        with pytest.raises(InvalidSchemaError, match="format of numbers must be"):
            Continuous(0, 9, format=wrong)
    column = Continuous(0, 9, format="$%,.2f")
    schema = TableSchema({"x": column})
    assert TableSchema.from_json(schema.to_json()) == schema
    assert "format" not in TableSchema({"x": Continuous(0, 9)}).to_json()
    for bad in ({"decimal": "ab"}, {"decimal": ",", "thousands": ","}):
        with pytest.raises(ValueError, match="must be one character"):
            CsvForm(**bad)


@pytest.mark.parametrize("flags", [[], ["--decimal=.", "--thousands=,"]])
def test_the_marks_of_a_fit_are_written_again_unless_others_are_given(flags):
    """A category that stands for missing elsewhere is not written for missing."""
    pd.DataFrame({"x": EUROS, "n": [*"-a", None] * 100}).to_csv("t.csv", index=False)
    columns = {"n": {"kind": "categorical", "categories": ["-", "a"], "nullable": True}}
    columns["x"] = {"kind": "continuous", "low": 0, "high": 1e5, "format": "%,.2f €"}
    data = {"schema_version": 1, "columns": [*columns.items()], "na_values": ["-"]}
    Path("s.json").write_text(json.dumps(data))
    fit = ["fit", "t.csv", "--schema=s.json", "--decimal=,", "--thousands=.", *FIT[3:]]
    assert main([*fit, "--epsilon=50"]) == 0
    assert main(["sample", "m", "-n", "90", *flags, "-o", "s.csv"]) == 0
    rows = pd.read_csv("s.csv", dtype=str, keep_default_na=False)
    point, mark = (r"\.", ",") if flags else (",", r"\.")
    assert rows["x"].str.fullmatch(rf"\d{{1,3}}({mark}\d{{3}})*{point}\d\d €").all()
    assert {*rows["n"]} == {"-", "a", ""}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_header_may_begin_with_a_separator(separator):
    """Rows that pandas and R number: never read, and written without a name again."""
    text = separator.join(["", "x", "y"]) + "\n"
    rows = [separator.join([str(n), str(n % 7), "a"]) for n in range(100)]
    Path("t.csv").write_text(text + "\n".join(rows))
    assert main([*FIT, "--epsilon=9"]) == 0
    assert main(["sample", "m", "-n", "3", "--sep", separator, "-o", "s.csv"]) == 0
    lines = Path("s.csv").read_text().splitlines()
    assert lines[0] == text.strip("\n")
    assert [line.split(separator)[0] for line in lines[1:]] == ["0", "1", "2"]


FORMS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%H:%M:%S %d.%m.%Y", "%Y%m%d", "%m|%d|%Y %H"]


@pytest.mark.parametrize("form", FORMS)
def test_times_of_digits_are_read_by_arrow_as_by_python(form, monkeypatch):
    """And not cell by cell, so that a file of them is read as fast as one of ISO."""
    cells = written(TIMES, form)
    expected = [datetime.strptime(cell, form) for cell in cells]
    columns = {"x": Datetime("2020", "2024", format=form), "n": Continuous(0, 9)}
    file = CsvFile(write(cells).path, columns)
    monkeypatch.setattr("skdpsynth.table.csv_files.datetime", None)
    assert [time.to_pydatetime() for time in file.read()["x"]] == expected
