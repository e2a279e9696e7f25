"""CSV files as people have them: separators, encodings, compression, times, zeros."""

from __future__ import annotations

import encodings
import json
import pkgutil
import re
from contextlib import suppress
from encodings.aliases import aliases
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    TableSchema,
    Text,
)
from skdpsynth.table import open_table
from skdpsynth.table.csv_files import CsvFile, CsvForm
from skdpsynth.table.csv_kinds import found_kinds

COLUMNS = {
    "name": Categorical(["Jörg; 1", 'a "b"', "c"]),
    "n": Continuous(0, 9, integer=True),
    "day": Datetime("2020-01-01", "2020-12-31", unit="D", format="%d.%m.%Y"),
    "sick": Boolean(true="ja", false="nein"),
}
ROWS = pd.DataFrame(
    {
        "name": ["Jörg; 1", 'a "b"', "c", "Jörg; 1"] * 60,
        "n": [1, 2, 3, 4] * 60,
        "day": ["31.12.2020", "01.02.2020", "07.07.2020", "08.09.2020"] * 60,
        "sick": ["ja", "nein", "nein", "nein"] * 60,
    }
)


ENDS = {"low": None, "high": None}


def schema_with(columns):
    """Return a schema of columns as a file has them."""
    listed = [[name, own] for name, own in columns.items()]
    return TableSchema.from_json(json.dumps({"schema_version": 1, "columns": listed}))


def found(name):
    """Read a file of which nothing is stated."""
    file = CsvFile(Path(name), {})
    return CsvFile(file.path, found_kinds(file)[0].kinds).read()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


SPELT = ["utf-8", "UTF-8", "utf8", "utf_8_sig"]
ENCODINGS = [*((own, "utf-8-sig") for own in SPELT), ("utf-8",) * 2, ("cp1252",) * 2]


@pytest.mark.parametrize(("spelt", "encoding"), ENCODINGS)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.tsv", "t.csv.gz", "t.CSV.bz2", "t.csv.zst"])
def test_files_are_read_as_they_were_written(spelt, encoding, separator, name):
    """A mark of the encoding is no part of a name, however the encoding is spelt."""
    with pa.output_stream(name) as file:  # which compresses as the name says
        file.write(ROWS.to_csv(index=False, sep=separator).encode(encoding))
    form = CsvForm(encoding=spelt)
    table = CsvFile(Path(name), COLUMNS, form=form).read()
    days = pd.to_datetime(ROWS["day"], format="%d.%m.%Y")
    pd.testing.assert_frame_equal(table, ROWS.assign(day=days), check_dtype=False)
    file = CsvFile(Path(name), COLUMNS, form=CsvForm(separator, form.encoding))
    assert sum(len(block) for block in file.to_batches(["n", "sick"])) == len(ROWS)


@pytest.mark.parametrize(
    ("line", "found"),
    [("a", ","), ("a;b", ";"), ("a;b,c", ","), ('"a;b"\tc', "\t"), ("a|b", "|")],
)
def test_the_separator_is_that_of_the_names(line, found):
    """Outside of quotes: the first of comma, semicolon, tab, bar. Cells have no say."""
    Path("t.csv").write_text(f"\n\n{line}\n1;2\n")
    assert CsvFile(Path("t.csv"), {}).separator == found
    Path("t.csv").write_text("a;b,c\n1;2,3\n")
    assert CsvFile(Path("t.csv"), {}, form=CsvForm(";")).names == ["a", "b,c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ";;"}, "separator"),
        ({"separator": '"'}, "separator"),
        ({"encoding": "klingon"}, "must be one that Python knows"),
        ({"encoding": "cp500"}, "encoding"),
        # In which bytes are no letters.
        ({"encoding": "utf-16"}, "encoding"),
        ({"encoding": "utf-7"}, "encoding"),
        ({"encoding": "iso2022_jp"}, "encoding"),
    ],
)
def test_forms_that_cannot_be_read_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CsvForm(**options)


def test_a_format_has_a_zone_or_not():
    text = "t\n31.12.2020 23:30:00 +0200\n"
    Path("t.csv").write_text(text)
    form = "%d.%m.%Y %H:%M:%S %z"
    aware = Datetime("2020-01-01T00Z", "2021-01-01T00Z", format=form)
    found = CsvFile(Path("t.csv"), {"t": aware}).read()["t"]
    assert found[0] == pd.Timestamp("2020-12-31 21:30", tz="UTC")
    naive = Datetime("2020-01-01", "2021-01-01", format=form)
    other = Datetime("2020-01-01", "2021-01-01", format="%d.%m.%y %H:%M")
    for own in (naive, other):
        with pytest.raises(InvalidTableError, match=r"'t' of .* must be datetime"):
            open_table("t.csv", schema=TableSchema({"t": own}))


# --- Columns that are never read, and two texts for true and false ----------------


def test_texts_are_never_read_and_come_back_empty_or_as_stated():
    remarks = pd.Series(["Mrs. X called", None, "see file"] * 40)
    table = pd.DataFrame({"a": range(120), "r": remarks, "s": remarks, "t": remarks})
    table["t"] = table["t"].astype("category")
    stated = {"r": Text(), "s": Text(placeholder="removed"), "t": Text()}
    schema = TableSchema({"a": Continuous(0, 119, integer=True), **stated})
    synth = IndependentSynthesizer(schema=schema, random_state=0).fit(table)
    synth.save("m")
    for model in (synth, IndependentSynthesizer.load("m")):
        rows = model.sample(30, random_state=1)
        assert rows[["r", "t"]].isna().all(axis=None)
        assert (rows["s"] == "removed").all()
        assert rows.dtypes.drop("t").equals(table.dtypes.drop("t"))
    words = [e.name for e in synth.privacy_report().entries]
    assert not any("categories" in name for name in words)
    assert "texts, never looked at: r, s, t" in str(synth.privacy_report())


def test_identifiers_follow_a_pattern():
    text_of = Identifier(pattern="C##-x").text_of
    assert [*map(text_of, (0, 1, 99))] == ["C00-x", "C01-x", "C99-x"]
    with pytest.raises(ValueError, match=r"for 101 identifiers .* which has 100"):
        text_of(100)


@pytest.mark.parametrize(
    ("regex", "n_values"),
    [
        ("U_[0-9]{3}", 1_000),
        (r"\d{2}\.[A-F]", 600),
        ("[ab-][ba]x", 6),
        ("ID", 1),
        (r"[A-Za-z0-9_]\d", 630),
    ],
)
def test_identifiers_follow_a_regular_expression(regex, n_values):
    """Every value that it has comes once, and no row more than that is drawn."""
    identifier = Identifier(regex=regex)
    found = [identifier.text_of(number) for number in range(n_values)]
    assert len({*found}) == n_values
    assert all(re.fullmatch(regex, text) for text in found)
    table = pd.DataFrame({"id": list("abcd") * 30, "x": [True, False] * 60})
    schema = TableSchema({"id": identifier, "x": Boolean()})
    assert TableSchema.from_json(schema.to_json()) == schema
    synth = IndependentSynthesizer(schema=schema).fit(table)
    assert synth.sample(n_values)["id"].tolist() == found
    for draw in (synth.sample, synth.sample_batches):
        with pytest.raises(ValueError, match="'id': Expected a pattern for"):
            draw(n_values + 1)


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_two_texts_stand_for_true_and_false(dtype):
    rng = np.random.default_rng(0)
    sick = pd.Series(np.where(rng.random(400) < 0.3, "yes", "no")).astype(dtype)
    other = pd.Series(rng.choice(["yes", "no"], 400)).astype(dtype)
    other[rng.random(400) < 1 / 3] = None  # astype(str) of pandas 2 calls it "None"
    table = pd.DataFrame({"sick": sick, "other": other})
    truth = {"true": "yes", "false": "no"}
    columns = {"sick": Boolean(**truth), "other": Boolean(**truth, nullable=True)}
    assert not len(TableSchema(columns).check(table))
    schema = TableSchema(columns, target="sick", class_counts={"yes": 120, "no": 280})
    synth = IndependentSynthesizer(20.0, schema=schema, random_state=0).fit(table)
    rows = synth.sample(1_000)
    assert set(rows["sick"]) == set(rows["other"].dropna()) == {"yes", "no"}
    assert 250 < (rows["sick"] == "yes").sum() < 350
    assert 0.2 < rows["other"].isna().mean() < 0.45


@pytest.mark.usefixtures("frozen_noise")
def test_blanks_of_a_schema_say_how_a_file_is_read():
    """As on the command line: columns left blank are measured, their kinds stated."""
    ROWS.to_csv("t.csv", index=False)
    columns = {
        "name": {"kind": "categorical", "categories": None},
        "n": {"kind": "continuous", "integer": True} | ENDS,
        "day": {"kind": "datetime", "format": "%d.%m.%Y"} | ENDS,
        "sick": {"kind": "boolean", "true": "ja", "false": "nein"},
    }
    schema = schema_with({k: own | {"nullable": None} for k, own in columns.items()})
    assert schema == TableSchema({})
    synth = IndependentSynthesizer(50.0, schema=clone(schema, safe=False)).fit("t.csv")
    rows = synth.sample(500)
    assert set(rows["sick"].dropna()) == {"ja", "nein"}
    assert rows["sick"].isna().mean() < 0.02  # they may be missing: it is measured
    assert set(rows["name"]) == set(ROWS["name"])
    assert rows["n"].between(1, 4).mean() > 0.9
    assert rows["day"].dt.year.eq(2020).mean() > 0.9


NUMBER = {"kind": "continuous"} | ENDS
TEXT = {"kind": "categorical", "categories": None}
STATED = {
    "decimals": (NUMBER | {"decimals": 1}, lambda v: v == v.round(1)),
    "whole": (NUMBER | {"integer": True}, lambda v: v == v.round()),
    "unit": ({"kind": "datetime", "unit": "D"}, lambda v: v == v.dt.floor("D")),
    "duration": (NUMBER | {"unit": "D"}, lambda v: v == v.dt.floor("D")),
    "missing": (NUMBER | {"nullable": False}, pd.Series.notna),
    "text": (TEXT | {"nullable": False}, pd.Series.notna),
}


@pytest.mark.parametrize("name", STATED)
def test_what_is_stated_beside_blanks_is_kept(name):
    """Though the rows would say otherwise."""
    described, holds = STATED[name]
    rng, n = np.random.default_rng(0), 400
    values = pd.Series(rng.lognormal(3, 1, n), name="v")
    if name in ("unit", "duration", "text"):
        hours = pd.to_timedelta(values, unit="h")
        kinds = {"unit": pd.Timestamp("2020") + hours, "duration": hours}
        values = kinds.get(name, pd.Series(rng.choice(["a", "b"], n), name="v"))
    if described.get("nullable") is False:
        values[rng.random(n) < 0.5] = None
    schema = schema_with({"v": described})
    table = pd.DataFrame({"v": values, "w": np.arange(n)})
    fitted = IndependentSynthesizer(30.0, schema=schema).fit(table)
    assert holds(fitted.sample(n)["v"]).all()
    report = str(fitted.privacy_report()).replace("\n", " ")
    assert "the kinds, the forms and what else is stated of v" in report
    again = dict(fitted.schema_.to_dict()["columns"])["v"]
    for fact in {"decimals", "unit", "nullable"} & described.keys():
        assert again[fact] == described[fact]


@pytest.mark.parametrize("row", ["Anna,41,HIV", "a,2024-01-05,b", "0.5,b,c"])
def test_a_first_line_that_may_be_a_row_is_not_taken_for_names(row):
    """Nor are its cells printed: they are values."""
    Path("t.csv").write_text(f"{row}\n{row}\n")
    with pytest.raises(InvalidTableError, match="may be a row: add a line") as seen:
        found("t.csv")
    assert not any(cell in str(seen.value) for cell in row.split(",") if len(cell) > 1)
    with pytest.raises(InvalidTableError, match="may be a row"):
        IndependentSynthesizer().fit(Path("t.csv"))
    names = dict.fromkeys(row.split(","), Categorical(["x"]))
    assert CsvFile(Path("t.csv"), names).read().shape == (1, 3)  # the schema names them


def test_a_category_may_be_a_word_for_missing():
    """NA is Namibia where the schema says so, and missing in the other columns."""
    Path("t.csv").write_text("land,name\n" + "NA,NA\nDE,x\n,y\n" * 100)
    land = Categorical(["NA", "DE"], nullable=True)
    name = Categorical(["x", "y"], nullable=True)
    table = CsvFile(Path("t.csv"), {"land": land, "name": name}).read()
    assert table["land"].tolist()[:2] == ["NA", "DE"]
    assert table["land"].isna().sum() == 100
    assert table["name"].isna().sum() == 100
    schema = TableSchema({"land": land, "name": name})
    rows = IndependentSynthesizer(50.0, schema=schema).fit("t.csv").sample(2000)
    shares = rows["land"].value_counts(normalize=True, dropna=False)
    assert (shares - 1 / 3).abs().max() < 0.1


FILES = pkgutil.iter_modules(encodings.__path__)
CODECS = sorted({*aliases.values(), *(file.name for file in FILES)})
STATEFUL = (b"\x1b$B", b"~{", b"+ACI-", rb"\u0022", rb"\x22", rb"\42")


def test_a_row_decides_how_no_other_is_read():
    """For all codecs of Python: what is before a line does not change its text."""
    accepted = []
    for codec in CODECS:
        with suppress(ValueError):
            accepted.append(CsvForm(encoding=codec).encoding)
            every = (bytes([lead, other]) for lead in range(256) for other in (0, 65))
            for data in (*STATEFUL, *every):
                with suppress(UnicodeDecodeError):  # such a file is refused
                    text = (data[:1] + b"\n" + data + b'\nx,"1"\n').decode(codec)
                    assert text.endswith('\nx,"1"\n'), codec
                    assert text.count("\n") == 3 + 2 * (data[:1] == b"\n"), codec
    usual = {"utf_8", "latin_1", "cp1252", "iso8859_15", "mac_roman", "euc_jp"}
    assert usual | {"gb2312", "shift_jis", "gbk"} < {*accepted}


@pytest.mark.parametrize("encoding", ["shift_jis", "gbk", "big5", "gb18030"])
def test_quotes_are_looked_for_among_letters(encoding):
    """A bar in a letter is no separator; beside it a quote swallowed the 51 rows."""
    pairs = (bytes([lead]) + b"|" for lead in range(128, 256))
    letters = {}
    for pair in pairs:
        with suppress(UnicodeDecodeError):
            letters[pair.decode(encoding)] = pair
    letter, pair = letters.popitem()
    columns = {"a": Categorical([letter, "x"]), "b": Categorical(["|", "y"])}
    form = CsvForm("|", encoding)
    rows = pd.DataFrame({"a": [letter, "x"] * 50, "b": ["|", "y"] * 50})
    rows.to_csv("t.csv", index=False, sep="|", encoding=encoding)
    found = CsvFile(Path("t.csv"), columns, form=form).read()
    pd.testing.assert_frame_equal(found, rows, check_dtype=False)
    Path("t.csv").write_bytes(b"a|b\n" + pair + b'"|"\n' + b"x|y\n" * 51)
    with pytest.raises(InvalidTableError, match="quotes around whole cells"):
        CsvFile(Path("t.csv"), columns, form=form).read()


@pytest.mark.parametrize("n_missing", range(5))
def test_what_stands_for_a_missing_value_does_so_at_any_share(n_missing, tmp_path):
    """No other cell has a say in it: none or all of a block, of any kind of column."""
    path, n_others = tmp_path / "gaps.csv", 4 - n_missing
    path.write_text("n,name\n" + "-,-\n" * n_missing + "3,c\n" * n_others)
    for form in (CsvForm(missing=["-"]), CsvForm(missing=["?", "-"])):
        read = CsvFile(path, COLUMNS, form).read()
        gaps = [True] * n_missing + [False] * n_others
        assert read.isna().to_numpy().T.tolist() == [gaps, gaps]
