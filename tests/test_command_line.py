"""The command line: what each command does, refuses, and never tells."""

from __future__ import annotations

import contextlib
import importlib
import json
import sqlite3
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import skdpsynth
from skdpsynth import IndependentSynthesizer, PrivacyBudget, TableSchema, __main__
from skdpsynth.__main__ import main
from skdpsynth.datasets import load_adult, load_cervical_cancer, load_thyroid
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.sampling import _sampler
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    Ordered,
)
from skdpsynth.table import _sources
from skdpsynth.utils.containers import from_arrow

FAST = ["--synthesizer", "Independent", "--epsilon", "3"]
FIT = ["fit", "c.csv", "--target", "Biopsy", *FAST, "--infer-dtypes"]
SHARED = [*FIT, "--budget", "b.sqlite"]
TOTALS = ["--budget-total", "5", "1e-4"]
CANARY = "87654321"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder with tables in it."""
    monkeypatch.chdir(tmp_path)
    load_thyroid()[["age", "TSH", "class"]].to_csv("thyroid.csv", index=False)
    load_adult()[["age", "sex", "income"]].head(4_000).to_parquet("adult.parquet")
    load_cervical_cancer()[["Age", "Smokes", "Biopsy"]].to_csv("c.csv", index=False)
    return tmp_path


def failed(capsys, *words: str) -> str:
    """Run a command that must fail by one line, and give the line."""
    assert main([*words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skdpsynth: error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("table", "target"), [("thyroid.csv", "class"), ("adult.parquet", "income")]
)
def test_from_a_table_to_scores(table, target, capsys, folder):
    """The same steps as in Python, with the same dtypes; report and claim are one."""
    settings = ["--target", target, *FAST, "--infer-dtypes"]
    assert main(["fit", table, *settings, "-o", "m.skdp"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "skdpsynth: Privacy report: epsilon = " in err
    for name in ("a.csv", "b.csv", "c.parquet"):
        assert main(["sample", "m.skdp", "-n", "300", "--seed", "4", "-o", name]) == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    synth = IndependentSynthesizer.load("m.skdp")
    synthetic = synth.sample(300, random_state=4)
    csv = table.endswith("csv")
    real = pd.read_csv(table) if csv else from_arrow(pq.read_table(table))
    assert (synthetic.dtypes == real.dtypes).all()
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), synthetic, check_dtype=False)
    assert main(["report", "m.skdp"]) == 0
    assert capsys.readouterr().out == f"{synth.privacy_report()}\n"
    tables = ["--synthetic", "c.parquet", "--test", table]
    assert main(["evaluate", *tables, "--target", target]) == 0
    out, err = capsys.readouterr()
    assert "not differentially private" in err
    assert "| c2st " in out
    assert "| mean " in out
    for name, more in (("r.html", ["report"]), ("c.md", ["card"])):
        assert main([*more, "m.skdp", "-o", name]) == 0
    assert Path("r.html").read_text("utf-8") == synth.privacy_report().to_html()
    assert Path("c.md").read_text("utf-8") == str(synth.model_card())
    assert main(["card", "m.skdp"]) == 0
    assert capsys.readouterr().out == f"{synth.model_card()}\n"
    assert main(["evaluate", *tables, "--target", target, "-o", "c.md"]) == 1
    assert "which is there" in capsys.readouterr().err


def test_a_schema_is_made_filled_and_checked(capsys):
    """The template is of dtypes alone; stdout and a file hold the same."""
    assert main(["schema", "thyroid.csv"]) == 0
    text = capsys.readouterr().out
    assert main(["schema", "thyroid.csv", "-o", "s.json"]) == 0
    assert Path("s.json").read_text() == text
    assert text == TableSchema.template(pd.read_csv("thyroid.csv"), form="json")
    data = json.loads(text)
    data["columns"][0][1] = {"kind": "continuous", "low": 0, "high": 0.9}
    data["columns"][2][1] = {"kind": "categorical", "categories": [1, 2, 3]}
    Path("s.json").write_text(json.dumps({**data, "target": "class", "n_rows": 7_000}))
    capsys.readouterr()
    assert main(["check", "thyroid.csv", "--schema", "s.json"]) == 0
    out, err = capsys.readouterr()
    table = load_thyroid()
    assert "not differentially private: for the curator only; 3 finding(s)" in err
    assert [line.split()[-1] for line in out.splitlines()] == [
        *("rows", str((table["age"] > 0.9).sum()), "7200", "7200")
    ]
    assert main(["fit", "thyroid.csv", "--schema", "s.json", *FAST, "-o", "m"]) == 0
    assert IndependentSynthesizer.load("m").classes_.tolist() == [1, 2, 3]


def test_a_plan_is_the_one_of_python(capsys):
    """From dtypes, from a schema, and with labels as they are typed."""
    synth = IndependentSynthesizer(epsilon=3, target="income")
    dtypes = from_arrow(pq.read_table("adult.parquet")).dtypes
    counts = {"<=50K": 900, ">50K": 100}
    words = ["--target", "income", *FAST, "--class-count", "<=50K=900", ">50K=100"]
    assert main(["plan", "adult.parquet", *words]) == 0
    expected = synth.plan(dtypes=dtypes, class_counts=counts)
    assert capsys.readouterr().out == f"{expected.to_string(index=False)}\n"

    columns = {"u": Continuous(0, 1), "y": Categorical([1.5, 2]), "t": Boolean()}
    for target, labels in [("y", (1.5, 2)), ("t", (False, True)), ("z", (-1, 7))]:
        schema = TableSchema(columns, target=target)
        schema.to_json("s.json")
        counts = dict(zip(labels, (40, 60), strict=True))
        typed = [f"--class-count={label}={n}" for label, n in counts.items()]
        assert main(["plan", "--schema", "s.json", *FAST, *typed]) == 0
        expected = IndependentSynthesizer(3, schema=schema).plan(class_counts=counts)
        assert capsys.readouterr().out == f"{expected.to_string(index=False)}\n"


def test_a_budget_is_shared_and_refused(capsys):
    assert "--budget-total EPSILON DELTA" in failed(capsys, *SHARED, "-o", "m")
    assert not Path("b.sqlite").exists()
    assert main([*SHARED, *TOTALS, "-o", "m"]) == 0
    assert PrivacyBudget.open("b.sqlite").spent == (3.0, 1e-5)
    capsys.readouterr()
    assert "has epsilon = 2 left of 5" in failed(capsys, *SHARED, "-o", "n")
    assert not Path("n").exists()


def test_nothing_is_spent_where_no_output_can_be_written(capsys):
    Path("there").write_text("kept")
    fit = [*SHARED, *TOTALS]
    assert "add --force" in failed(capsys, *fit, "-o", "there")
    assert "can be written to" in failed(capsys, *fit, "-o", "absent/m")
    assert "which is there" in failed(capsys, *fit, "--force", "-o", ".")
    for read in ("c.csv", "b.sqlite"):
        assert "of its own" in failed(capsys, *fit, "--force", "-o", read)
    assert Path("there").read_text() == "kept"
    assert not Path("b.sqlite").exists()
    assert main([*fit, "--force", "-o", "there"]) == 0
    capsys.readouterr()
    Path("a.csv").touch()
    assert "--force" in failed(capsys, "sample", "there", "-n", "3", "-o", "a.csv")
    assert "--force" in failed(capsys, "schema", "c.csv", "-o", "a.csv")


YEAR = pd.to_datetime(["2020", "2021"])
# Each column as it is declared, and a cell of it.
COLUMNS = {
    "n": (Continuous(0, 9, integer=True, nullable=True), "1"),
    "x": (Continuous(0, 9), "3"),
    "when": (Datetime(*YEAR), "2020-05-06"),
    "zoned": (Datetime(*YEAR.tz_localize("Asia/Tokyo")), "2020-05-06T07:08:09Z"),
    "flag": (Boolean(nullable=True), "TRUE"),
    "code": (Categorical(["007", "008"]), "007"),
    "id": (Identifier(), "00"),
    "y": (Categorical([0, 1]), "1"),
}
DECLARED = TableSchema({k: column for k, (column, _) in COLUMNS.items()}, target="y")
CELLS = {k: cell for k, (_, cell) in COLUMNS.items()}


def write_cells(n_rows: int = 60, **changed: str) -> None:
    """Write a CSV file of equal rows, and one more."""
    rows = [CELLS] * n_rows + [{**CELLS, "n": "", "flag": "", **changed}]
    pd.DataFrame(rows).to_csv("t.csv", index=False)
    DECLARED.to_json("s.json")


def test_dtypes_of_a_csv_file_are_what_the_schema_says():
    """One other row, and none at all, changes none of them."""
    expected = ["Int64", "float64", "datetime64[us]", "datetime64[us, Asia/Tokyo]"]
    expected += ["boolean", str(pd.Series(["a"]).dtype)]
    for n_rows, n, y in [(60, "2.5", "1"), (60, "", ""), (0, "3", "0"), (0, "", "")]:
        write_cells(n_rows, n=n, y=y)
        table = __main__._read_table(Path("t.csv"), DECLARED.columns, infer=False)
        found = table.dtypes.astype(str).tolist()
        assert found == [*expected, expected[-1], "Int64"]
    assert table["code"].tolist() == ["007"]
    assert table["id"].tolist() == ["00"]


def test_no_row_chooses_a_dtype(capsys):
    """Of whole numbers, with one row more: a blank, a fraction, a word."""
    kind = {"kind": "continuous", "low": None, "high": None, "integer": True}
    text = {"schema_version": 1, "columns": [["k", kind]], "target": None}
    Path("s.json").write_text(json.dumps(text))
    given = ["plan", "t.csv", "--schema", "s.json", "--epsilon", "1"]
    described = __main__._parser().parse_args(given)
    for more in ("", "1.5", "7"):
        pd.DataFrame({"k": [*"123", more]}).to_csv("t.csv", index=False)
        table = __main__._read_table(
            Path("t.csv"), __main__._described(described), infer=False
        )
        assert table["k"].dtype == "Int64"
        numbers = pa.array([1, 2, None if more == "" else 3])
        pq.write_table(pa.table({"k": numbers}), "t.parquet")
        table = __main__._read_table(Path("t.parquet"))
        assert table["k"].dtype == pd.ArrowDtype(pa.int64())
    fit = ["t.csv", *FAST]
    assert "of 't.csv'. Got none for ['k']" in failed(capsys, "fit", *fit, "-o", "m")
    assert "--infer-dtypes" in failed(capsys, "plan", *fit, "--rows", "9")


@pytest.mark.parametrize("table", ["t.csv", "T.CSV", "t.parquet"])
def test_tables_are_read_in_blocks_and_written_in_batches(table, monkeypatch):
    TableSchema({"k": Continuous(0, 3, integer=True)}).to_json("s.json")
    rows = pd.DataFrame({"k": [0, 1, 2, 3] * 250})
    rows.to_parquet(table) if "parquet" in table else rows.to_csv(table, index=False)
    blocks, checked = [], _sources._checked
    monkeypatch.setattr(_sources, "_BLOCK_ENTRIES", 100)
    monkeypatch.setattr(
        _sources,
        "_checked",
        lambda frame, *others: blocks.append(len(frame)) or checked(frame, *others),
    )
    assert main(["fit", table, "--schema", "s.json", *FAST, "-o", "m"]) == 0
    assert blocks == [100] * 10
    batches, drawn = [], _sampler.DrawnTable

    def draw(metadata, n, first):
        batches.append((first, n))
        return drawn(metadata, n, first)

    monkeypatch.setattr(_sampler, "DrawnTable", draw)
    assert main(["sample", "m", "-n", "250000", "-o", "b.parquet"]) == 0
    # The first by `load`, to see that the model can be drawn from.
    assert batches == [(0, 1), (0, 100_000), (100_000, 100_000), (200_000, 50_000)]
    assert len(pd.read_parquet("b.parquet")) == 250_000


def test_a_plan_reads_no_row(capsys):
    """What it prints, and whether it ends, is the same with a word among numbers."""
    plans = []
    for changed in ({}, {"n": "many", "flag": "maybe", "when": "soon"}):
        write_cells(**changed)
        words = ["plan", "t.csv", "--schema", "s.json", *FAST, "--rows", "50"]
        plans.append((main(words), capsys.readouterr()))
    assert plans[0][0] == 0
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({"n": "2.5"}, "not a whole number: rounded\t1"),
        ({"n": "many"}, "fit refuses: The schema describes column 'n'"),
        ({"x": "inf"}, "infinite: fit refuses\t1"),
        ({"flag": "maybe"}, "fit refuses: The schema"),
        ({"when": "soon"}, "fit refuses: The schema describes column 'when'"),
        ({"y": "1.5"}, "category not declared: read as 'other'\t1"),
    ],
)
def test_a_csv_file_is_checked_as_it_is(changed, finding, capsys):
    write_cells(**changed)
    assert main(["check", "t.csv", "--schema", "s.json"]) == 0
    assert finding in capsys.readouterr().out


@pytest.mark.parametrize("name", COLUMNS)
def test_no_message_holds_a_value_of_the_table(name, capsys):
    """A canary where something else was declared, in every command that reads rows."""
    write_cells(**{name: f"canary {CANARY}"})
    assert main(["check", "t.csv", "--schema", "s.json"]) == 0
    main(["fit", "t.csv", "--schema", "s.json", *FAST, "-o", "m"])
    main(["evaluate", "--synthetic", "t.csv", "--test", "t.csv", "--target", name])
    main(["plan", "t.csv", "--schema", "s.json", *FAST, "--rows", "50"])
    main(["fit", "t.csv", "--target", "x", *FAST, "--infer-dtypes", "-o", "k"])
    Path("broken.csv").write_text(f'a,b\n1,2\n"{CANARY},3\n{CANARY},1,1,1')
    Path("broken.parquet").write_text(CANARY)
    for broken in ("broken.csv", "broken.parquet"):
        assert main(["schema", broken]) == 1
    out, err = capsys.readouterr()
    assert "are withheld" in err
    assert "Traceback" not in err
    assert CANARY not in out + err


def test_an_error_of_another_library_is_withheld_with_what_the_fit_cost(
    capsys, monkeypatch
):
    """The budget stays charged, and that is said."""

    def broken(self, *others):
        raise TypeError(CANARY)

    monkeypatch.setattr(IndependentSynthesizer, "_fit", broken)
    error = failed(capsys, *SHARED, *TOTALS, "-o", "m")
    assert CANARY not in error
    assert "Got a TypeError, whose words may hold a value" in error
    assert "stays charged with epsilon = 3" in error
    assert PrivacyBudget.open("b.sqlite").spent[0] == 3.0


def put(text: str | bytes, name: str = "odd file") -> None:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())


def spoil_budget(statement: str) -> None:
    PrivacyBudget(5.0, 1e-4, path="odd file")
    with contextlib.closing(sqlite3.connect("odd file")) as connection:
        connection.executescript(statement)


COLUMN = '{"schema_version": 1, "columns": [["a", {"kind": "continuous", %s}]]}'
BLANK = '{"schema_version": 1, "columns": [[%s, {"kind": %s, "low": null}]]}'
ODD_SCHEMAS = {
    "deep": "[" * 200_000,
    "huge": COLUMN % f'"low": {10**400}, "high": 1',
    "apart": COLUMN % f'"low": {-(10**308)}, "high": {17 * 10**307}',
    "decimals": COLUMN % '"low": 0, "high": 1e305, "decimals": 9',
    "long": COLUMN % f'"low": "{"a" * 3_000_000}", "high": 1',
    "time": COLUMN % '"low": {"time": 1e300, "unit": "s", "zone": null}, "high": 1',
    "blank name": BLANK % ('{"x": 1}', '"continuous"'),
    "blank list": BLANK % ("[1]", '"continuous"'),
    "blank kind": BLANK % ('"a"', "[]"),
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("text", ODD_SCHEMAS.values(), ids=ODD_SCHEMAS)
def test_a_schema_file_that_is_none_is_named_in_one_line(text, capsys):
    put(text)
    for command in (["plan", *FAST], ["fit", "c.csv", *FAST, "-o", "m"]):
        error = failed(capsys, *command, "--schema", "odd file")
        assert "'odd file'" in error
        assert len(error) < 3_000


def test_a_schema_file_with_a_mark_and_blanks_is_read(capsys):
    """Windows writes the mark; what was left blank was read without it."""
    text = TableSchema.template(pd.read_csv("c.csv"), form="json")
    put(b"\xef\xbb\xbf" + text.encode())
    assert main(["plan", "c.csv", *FAST, "--schema", "odd file", "--rows", "99"]) == 0


def test_a_saved_file_that_is_none_is_named_in_one_line(capsys):
    deep = b'{"a":' + b"[" * 200_000
    for data in (b"", b"x", b"\0" * 8, len(deep).to_bytes(8, "little") + deep):
        put(data)
        for command in (["report"], ["sample", "-n", "5", "-o", "x.csv"]):
            assert "'odd file'" in failed(capsys, *command, "odd file")
    Path("folder").mkdir()
    for name in ("folder", "/dev/zero"):
        assert repr(name) in failed(capsys, "report", name)
    assert "folder" in failed(capsys, "plan", *FAST, "--schema", "folder")
    assert "folder" in failed(capsys, *FIT, "-o", "m", "--budget", "folder")


ENDLESS = (
    "DROP TABLE skdpsynth_charges; CREATE VIEW skdpsynth_charges AS WITH RECURSIVE"
    " c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c LIMIT 300000) SELECT id,"
    " 'a' AS charged_at, 'b' AS label, 1e-9 AS epsilon, 1e-9 AS delta FROM c"
)
UNDO = (
    "CREATE TRIGGER t AFTER INSERT ON skdpsynth_charges BEGIN"
    " DELETE FROM skdpsynth_charges; END"
)
ODD_CHARGE = "INSERT INTO skdpsynth_charges VALUES (7, 'now', 'x', %s, 1e-6)"
ODD_BUDGETS = {
    "no totals": "DELETE FROM skdpsynth_budget",
    "text": "UPDATE skdpsynth_budget SET epsilon = 'much'",
    "bytes": "UPDATE skdpsynth_budget SET epsilon = x'00'",
    "infinite": "UPDATE skdpsynth_budget SET epsilon = 1e999",
    "less than nothing": ODD_CHARGE % "-4",
    "an infinite charge": ODD_CHARGE % "1e999",
    "a charge in words": ODD_CHARGE % "'none'",
    "another table": "DROP TABLE skdpsynth_charges",
    "an endless view": ENDLESS,
    "a trigger": UNDO,
}


@pytest.mark.parametrize("statement", ODD_BUDGETS.values(), ids=ODD_BUDGETS)
def test_a_budget_file_that_is_none_is_named_in_one_line(statement, capsys):
    """A charge that is undone, or less than nothing, would allow another fit."""
    spoil_budget(statement)
    error = failed(capsys, *FIT, "-o", "m", "--budget", "odd file")
    assert str(Path("odd file").absolute()) in error
    assert "The fit did not end" not in error


@pytest.mark.filterwarnings("always")
def test_only_warnings_of_the_package_are_said(capsys, monkeypatch):
    def interrupted(self, X):
        warnings.warn("mostly noise", DegradedResultWarning, stacklevel=1)
        warnings.warn(CANARY, RuntimeWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(IndependentSynthesizer, "fit", interrupted)
    assert main(["fit", "c.csv", *FAST, "--infer-dtypes", "-o", "m"]) == 1
    assert capsys.readouterr().err == (
        "skdpsynth: warning: mostly noise\nskdpsynth: error: KeyboardInterrupt\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "c.csv", "--epsilon", "-1", "-o", "m"], "'epsilon' parameter"),
        ([*FIT, "--target", "no", "-o", "m"], "'no' is not a column"),
        (["fit", "no.csv", *FAST, "-o", "m"], "No such file or directory: 'no.csv'"),
        (["check", "c.csv", "--schema", "c.csv"], "The file 'c.csv': Expected JSON"),
        (["plan", *FAST], "plan needs to know the columns"),
        (["report", "c.csv"], "The file 'c.csv': Expected what save() writes"),
        (["sample", "c.csv", "-n", "3", "-o", "a.csv"], "Expected what save()"),
    ],
)
def test_errors_are_one_line(words, message, capsys):
    assert message in failed(capsys, *words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["fit", "c.csv"],
        ["fit", "c.txt", *FAST, "-o", "m"],
        ["fit", "c.csv", "--epsilon", "much", "-o", "m"],
        ["fit", "c.csv", "--epsilon", "1", "--synthesizer", "GAN", "-o", "m"],
        ["plan", "--epsilon", "1", "--class-count", "40"],
        ["sample", "m", "-n", "3", "-o", "a.xlsx"],
        ["card", "m", "-o", "a.txt"],
    ],
)
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("usage: skdpsynth")


def test_every_synthesizer_with_an_epsilon_has_the_name_of_its_paper():
    named = __main__._SYNTHESIZERS
    assert {*__main__._CLASSES} - {*named.values()} == {"GANSynthesizer"}
    for name in ("G-PATE", "PATE-GAN", "DP-CGAN", "PATE-TripleGAN", "DP-GAN"):
        words = [*FIT, "-o", "m", "--synthesizer", name]
        assert __main__._parser().parse_args(words).synthesizer in named


def test_help_is_fast_and_the_script_is_declared():
    """As a process of its own: no heavy library is imported for it."""
    command = [sys.executable, "-X", "importtime", "-m", "skdpsynth", "fit", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--budget-total EPSILON DELTA" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"torch", "pandas", "numpy", "sklearn", "opendp"}
    text = (Path(skdpsynth.__file__).parents[1] / "pyproject.toml").read_text()
    script = tomllib.loads(text)["project"]["scripts"]["skdpsynth"]
    module, _, name = script.partition(":")
    assert getattr(importlib.import_module(module), name) is main


def test_rules_of_a_schema_file_are_kept(capsys, folder):
    """From CSV to CSV; a rule that the table breaks is counted by `check` alone."""
    table = pd.DataFrame({"a": range(300), "b": range(299, -1, -1)})
    table.to_csv("t.csv", index=False)
    columns = dict.fromkeys(["a", "b"], Continuous(0, 299, integer=True))
    TableSchema(columns, rules=[Ordered(["a", "b"])]).to_json("s.json")
    assert main(["check", "t.csv", "--schema", "s.json"]) == 0
    assert "not in the order 'a', 'b': drawn sorted\t150" in capsys.readouterr().out
    assert main(["fit", "t.csv", "--schema", "s.json", *FAST, "-o", "m.skdp"]) == 0
    assert main(["sample", "m.skdp", "-n", "200", "-o", "s.csv"]) == 0
    rows = pd.read_csv("s.csv")
    assert (rows["a"] <= rows["b"]).all()
    assert len(rows) == 200


def test_a_unit_is_named_on_the_command_line(capsys, folder):
    """Of a CSV file whose other columns have a schema; the report is about persons."""
    visits = load_thyroid()[["age", "class"]].assign(who=lambda t: t.index % 1000)
    visits.to_csv("visits.csv", index=False)
    columns = {"age": Continuous(0, 1), "class": Categorical([1, 2, 3])}
    columns["who"] = Identifier()
    TableSchema(columns, target="class").to_json("s.json")
    unit = ["--unit", "who", "--max-rows", "2"]
    words = ["visits.csv", "--schema", "s.json", *FAST]
    assert main(["plan", *words, *unit, "--class-count", "1=50", "2=50", "3=1900"]) == 0
    noise_of_two = capsys.readouterr().out
    assert main(["plan", *words, "--class-count", "1=50", "2=50", "3=1900"]) == 0
    assert capsys.readouterr().out != noise_of_two
    assert main(["fit", *words, *unit, "-o", "m.skdp"]) == 0
    assert main(["report", "m.skdp"]) == 0
    report = " ".join(capsys.readouterr().out.split())  # without its line breaks
    assert "all rows of one who, of which at most 2 are used" in report
    assert "give both" in failed(capsys, "fit", *words, *unit[:2], "-o", "n.skdp")
    assert not (folder / "n.skdp").exists()
    # Nothing else is declared.
    words = ["visits.csv", *FAST, "--infer-dtypes", *unit, "-o", "n.skdp"]
    assert main(["fit", *words]) == 0
    capsys.readouterr()
    words = ["visits.csv", *FAST, *unit, "-o", "o.skdp"]
    assert "--infer-dtypes" in failed(capsys, "fit", *words)


def test_columns_are_dropped_from_every_kind_of_file(capsys):
    pd.read_csv("c.csv").to_parquet("c.parquet")
    for table in ("c.csv", "c.parquet"):
        words = ["--drop", "Smokes", "--force", "-o", "m"]
        infer = ["--infer-dtypes"] if table == "c.csv" else []
        fit = ["fit", table, "--target", "Biopsy", *FAST, *infer]
        assert main([*fit, *words]) == 0
        capsys.readouterr()
        assert main(["sample", "m", "-n", "3", "-o", "-"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "Age,Biopsy"
        assert len(lines) == 4
        assert main(["schema", table, "--drop", "Age"]) == 0
        assert '"Age"' not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["independent", "INDEPENDENT", "In-de-pendent"])
def test_names_of_synthesizers_are_short_and_of_any_case(name):
    words = ["--epsilon", "3", "--synthesizer", name, "--infer-dtypes", "-o", "m"]
    assert main(["fit", "c.csv", *words]) == 0
    assert skdpsynth.inspect("m")["synthesizer"] == "IndependentSynthesizer"


def test_the_default_is_that_of_the_other_pages():
    words = ["thyroid.csv", "--infer-dtypes", "--target", "class"]
    assert main(["fit", *words, "--epsilon", "3", "-o", "m"]) == 0
    assert skdpsynth.inspect("m")["synthesizer"] == "MarginalSynthesizer"


def test_a_template_knows_dates_and_two_texts_of_a_csv_file(capsys):
    """And no other texts: those of a column of names are not shown."""
    days = pd.date_range("2020-01-01", periods=30).strftime("%d.%m.%y")
    table = pd.DataFrame({"day": days, "sick": ["Yes", "no", None] * 10})
    table["city"] = ["Rome", "Oslo", "Bern"] * 10
    table.to_csv("v.csv", index=False)
    assert main(["schema", "v.csv", "--date-format", "%d.%m.%y"]) == 0
    out = capsys.readouterr().out
    columns = dict(map(tuple, json.loads(out)["columns"]))
    assert columns["day"]["kind"] == "datetime"
    assert columns["day"]["format"] == "%d.%m.%y"
    truths = {"true": "Yes", "false": "no"}
    assert columns["sick"] == {"kind": "boolean", "nullable": None, **truths}
    assert columns["city"]["kind"] == "categorical"
    assert "Rome" not in out
    Path("s.json").write_text(out)
    assert main(["fit", "v.csv", "--schema", "s.json", *FAST, "-o", "m"]) == 0
    assert main(["sample", "m", "-n", "9", "--date-format", "%d.%m.%y", "-o", "-"]) == 0
    lines = capsys.readouterr().out.splitlines()
    pd.to_datetime([line[:8] for line in lines[1:]], format="%d.%m.%y")
    assert not any("True" in line for line in lines)


def test_a_file_of_one_column_is_said_to_be_one(capsys):
    Path("v.csv").write_text("a~b\n1~2\n")
    assert main(["schema", "v.csv"]) == 0
    assert "name the --sep" in capsys.readouterr().err


def test_a_wrong_encoding_has_a_remedy(capsys):
    Path("v.csv").write_text("städte,n\nx,1\n", encoding="latin-1")
    Path("w.csv").write_text("city,n\nKöln,1\n", encoding="latin-1")
    for name in ("v.csv", "w.csv"):
        assert "--encoding latin-1" in failed(capsys, "schema", name)
        assert main(["schema", name, "--encoding", "latin-1"]) == 0
        capsys.readouterr()
    kinds = {"city": Categorical(["Köln"]), "n": Continuous(0, 9)}
    TableSchema(kinds).to_json("s.json")
    words = ["fit", "w.csv", "--schema", "s.json", *FAST, "-o", "m"]
    error = failed(capsys, *words)
    assert "--encoding latin-1" in error
    assert "Köln" not in error


def test_the_budget_says_what_is_left(capsys):
    assert main([*SHARED, *TOTALS, "-o", "m"]) == 0
    capsys.readouterr()
    assert main(["budget", "b.sqlite"]) == 0
    out = capsys.readouterr().out
    assert "total  epsilon = 5, delta = 0.0001" in out
    assert "left   epsilon = 2, delta = 9e-05" in out


def test_a_column_to_drop_has_to_be_there(capsys):
    """Misspelt, it would be modelled."""
    pd.DataFrame({"note": [1.0, 2.0] * 40, "x": [0.5] * 80}).to_parquet("p.parquet")
    for command in (
        ["fit", "p.parquet", *FAST, "-o", "m"],
        ["fit", "p.parquet", *FAST, "--infer-dtypes", "-o", "m"],
        ["schema", "p.parquet"],
    ):
        assert "Got ['Note']; it has" in failed(capsys, *command, "--drop", "Note")
    assert not Path("m").exists()


def test_times_are_written_as_the_template_says(capsys):
    """Also where the ends of the column stayed blank."""
    days = pd.date_range("2024-01-01", periods=300).strftime("%d.%m.%Y")
    pd.DataFrame({"day": days, "x": range(300)}).to_csv("d.csv", index=False)
    assert main(["schema", "d.csv", "--date-format", "%d.%m.%Y", "-o", "d.json"]) == 0
    assert main(["fit", "d.csv", "--schema", "d.json", *FAST, "-o", "d.skdp"]) == 0
    assert main(["sample", "d.skdp", "-n", "5", "-o", "d.tsv"]) == 0
    rows = pd.read_csv("d.tsv", sep="\t")
    assert rows["day"].str.fullmatch(r"\d\d\.\d\d\.\d{4}").all()
    with pytest.raises(SystemExit):
        main(["sample", "d.skdp", "-n", "5", "--encoding", "foo", "-o", "e.csv"])
    assert "must be one that Python knows" in capsys.readouterr().err
