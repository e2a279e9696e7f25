"""The command line: what each command does, refuses, and never tells."""

import json
import logging
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet as pq

import skdpsynth
from skdpsynth import (
    IndependentSynthesizer,
    Link,
    LinkedSchema,
    PrivacyBudget,
    TableSchema,
    __main__,
)
from skdpsynth.__main__ import main
from skdpsynth.datasets import load_adult, load_cervical_cancer, load_thyroid
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy import epsilon_for
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Derived,
    Identifier,
    Ordered,
)
from skdpsynth.table.csv_files import CsvFile, CsvForm

FAST = ["--synthesizer", "Independent", "--epsilon", "3"]
FIT = ["fit", "c.csv", "--target", "Biopsy", *FAST, "--infer-dtypes"]
SHARED = [*FIT, "--budget", "b.sqlite"]
TOTALS = ["--budget-total", "5", "1e-4"]
CANARY = "87654321"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with three tables."""
    made = tmp_path_factory.mktemp("tables")
    thyroid, adult, cancer = load_thyroid(), load_adult(), load_cervical_cancer()
    thyroid[["age", "TSH", "class"]].to_csv(made / "thyroid.csv", index=False)
    adult[["age", "sex", "income"]].head(4_000).to_parquet(made / "adult.parquet")
    cancer[["Age", "Smokes", "Biopsy"]].to_csv(made / "c.csv", index=False)
    return made


@pytest.fixture(autouse=True)
def _folder(tables, tmp_path, monkeypatch):
    """Work in a folder with the tables in it."""
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def done(capsys, *words: str) -> str:
    """Run a command that must succeed, and give what it prints."""
    capsys.readouterr()
    assert main([*words]) == 0
    return capsys.readouterr().out


def failed(capsys, *words: str) -> str:
    """Run a command that must fail by one line, and give the line."""
    assert main([*words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skdpsynth: error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("table", ["thyroid.csv", "adult.parquet"])
def test_from_a_table_to_scores(table, capsys):
    """The same steps as in Python, with the same dtypes; report and claim are one."""
    target = {"thyroid.csv": "class"}.get(table, "income")
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
    real = pd.read_csv(table) if csv else pd.read_parquet(table)
    assert csv or (synthetic.dtypes == real.dtypes).all()
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), synthetic, check_dtype=False)
    report, card = synth.privacy_report(), synth.model_card()
    for command, document in (("report", report), ("card", card)):
        assert done(capsys, command, "m.skdp") == f"{document}\n"
        assert main([command, "m.skdp", "-o", f"{command}.html"]) == 0
        assert Path(f"{command}.html").read_text("utf-8") == document.to_html()
    tables = ["--synthetic", "c.parquet", "--test", table, "--target", target]
    assert main(["evaluate", *tables]) == 0
    out, err = capsys.readouterr()
    assert "A model learns to tell" in err
    assert not logging.getLogger("skdpsynth.evaluation").handlers  # any more
    assert "not differentially private" in err
    assert "| c2st " in out
    assert "| mean " in out
    assert main(["evaluate", *tables, "-o", "card.html"]) == 1
    assert "add --force" in capsys.readouterr().err


def test_a_schema_is_made_filled_and_checked(capsys):
    """The template is of dtypes alone; stdout and a file hold the same."""
    text = done(capsys, "schema", "thyroid.csv")
    assert main(["schema", "thyroid.csv", "-o", "s.json"]) == 0
    assert Path("s.json").read_text() == text
    data = json.loads(text) | {"target": "class", "n_rows": 7_000}
    numbers = {"kind": "continuous", "low": None, "high": None}
    whole = ["class", {**numbers, "integer": True, "nullable": None}]
    assert data["columns"][1:] == [["TSH", {**numbers, "nullable": None}], whole]
    data["columns"][0][1] = {"kind": "continuous", "low": 0, "high": 0.9}
    data["columns"][2][1] = {"kind": "categorical", "categories": [1, 2, 3]}
    Path("s.json").write_text(json.dumps(data))
    capsys.readouterr()
    assert main(["check", "thyroid.csv", "--schema", "s.json"]) == 0
    out, err = capsys.readouterr()
    above = str((load_thyroid()["age"] > 0.9).sum())
    assert "not differentially private: for the curator only; 3 finding(s)" in err
    counts = [line.split()[-1] for line in out.splitlines()]
    assert counts == ["rows", above, "7200", "7200"]
    assert main(["fit", "thyroid.csv", "--schema", "s.json", *FAST, "-o", "m"]) == 0
    assert IndependentSynthesizer.load("m").classes_.tolist() == [1, 2, 3]


def test_a_plan_is_the_one_of_python(capsys):
    """From dtypes, from a schema, and with labels as they are typed."""
    words = ["adult.parquet", "--target", "income"]
    dtypes = pd.read_parquet("adult.parquet").dtypes
    cases = [(words, {"target": "income"}, {"dtypes": dtypes}, ("<=50K", ">50K"))]
    columns = {"u": Continuous(0, 1), "y": Categorical([1.5, 2]), "t": Boolean()}
    for target, labels in [("y", (1.5, 2)), ("t", (False, True)), ("z", (-1, 7))]:
        schema = TableSchema(columns, target=target)
        schema.to_json(f"{target}.json")
        cases.append((["--schema", f"{target}.json"], {"schema": schema}, {}, labels))
    for words, settings, known, labels in cases:
        counts = dict(zip(labels, (900, 100), strict=True))
        typed = [f"--class-count={label}={n}" for label, n in counts.items()]
        expected = IndependentSynthesizer(3, **settings)
        expected = expected.plan(**known, class_counts=counts)
        wide = done(capsys, "plan", *words, *FAST, *typed, "--wide")
        assert wide == f"{expected.to_string(index=False)}\n"
        short = done(capsys, "plan", *words, *FAST, *typed)
        assert max(map(len, short.splitlines())) <= 100
        notes = map(__main__._in_flags, expected["note"])
        assert all(note in " ".join(short.split()) for note in notes)


def test_a_budget_is_shared_and_refused(capsys):
    error = failed(capsys, *SHARED, "-o", "m")
    assert "--budget-total EPSILON DELTA" in error
    assert "there is no such file" in error
    assert not Path("b.sqlite").exists()
    assert main([*SHARED, *TOTALS, "-o", "m"]) == 0
    assert PrivacyBudget.open("b.sqlite").spent == (3.0, 1e-5)
    capsys.readouterr()
    assert "has epsilon = 2 left of 5" in failed(capsys, *SHARED, "-o", "n")
    assert not Path("n").exists()
    assert "left   epsilon = 2, delta = 9e-05" in done(capsys, "budget", "b.sqlite")


def test_nothing_is_spent_where_no_output_can_be_written(capsys):
    Path("there").write_text("kept")
    fit = [*SHARED, *TOTALS]
    assert "add --force" in failed(capsys, *fit, "-o", "there")
    assert "can be written to" in failed(capsys, *fit, "-o", "absent/m")
    assert "is a folder" in failed(capsys, *fit, "--force", "-o", ".")
    for read in ("c.csv", "b.sqlite"):
        assert "of its own" in failed(capsys, *fit, "--force", "-o", read)
    assert Path("there").read_text() == "kept"
    assert not Path("b.sqlite").exists()
    assert main([*fit, "--force", "-o", "there"]) == 0
    capsys.readouterr()
    assert "-n must be an int" in failed(capsys, "sample", "there", "-n0", "-o-")
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


def test_no_row_chooses_a_dtype(capsys):
    """One other row, and none at all, changes none of them: the schema states them."""
    expected = ["Int64", "float64", "datetime64[us]", "datetime64[us, Asia/Tokyo]"]
    expected += ["boolean", str(pd.Series(["a"]).dtype)]
    as_it_is = __main__.Args(form=CsvForm(), drop=[])
    for n_rows, n, y in [(60, "2.5", "1"), (60, "", ""), (0, "3", "0"), (0, "", "")]:
        write_cells(n_rows, n=n, y=y)
        table = __main__._table(as_it_is, Path("t.csv"), DECLARED).read()
        found = table.dtypes.astype(str).tolist()
        assert found == [*expected, expected[-1], "Int64"]
    assert table["code"].tolist() == ["007"]
    assert table["id"].tolist() == ["00"]
    for command in (["fit", "-o", "m"], ["plan", "--rows", "9"]):
        assert "--infer-dtypes" in failed(capsys, *command, "c.csv", *FAST)


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"skdpsynth {skdpsynth.__version__}\n"


def test_a_plan_reads_no_row(capsys):
    """What it prints, and whether it ends, is the same with a word among numbers."""
    plans = []
    for changed in ({}, {"n": "many", "flag": "maybe", "when": "soon"}):
        write_cells(**changed)
        words = ["plan", "t.csv", "--schema", "s.json", *FAST, "--rows", "50"]
        plans.append((main(words), capsys.readouterr()))
    assert plans[0][0] == 0
    assert plans[0] == plans[1]


def test_a_csv_file_is_checked_as_it_is(capsys):
    write_cells(n="2.5", y="1.5")
    out = done(capsys, "check", "t.csv", "--schema", "s.json")
    assert "not a whole number: rounded\t1" in out
    assert "category not declared: read as 'other'\t1" in out


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("name", COLUMNS)
def test_no_message_holds_a_value_of_the_table(name, capsys):
    """A canary where something else was declared, in every command that reads rows."""
    write_cells()
    shutil.copy("t.csv", "public.csv")
    write_cells(**{name: f"canary {CANARY}"})
    assert main(["check", "t.csv", "--schema", "s.json"]) == 0
    main(["fit", "t.csv", "--schema", "s.json", *FAST, "-o", "m"])
    main(["evaluate", "--synthetic", "public.csv", "--test", "t.csv", "--target", name])
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


def test_an_error_of_another_library_is_withheld(capsys, monkeypatch):
    """The budget stays charged, and that is said; its notes are not."""

    def broken(self, *others):
        error = TypeError(CANARY)
        error.add_note(CANARY)
        raise error

    monkeypatch.setattr(IndependentSynthesizer, "_fit", broken)
    error = failed(capsys, *SHARED, *TOTALS, "-o", "m")
    assert CANARY not in error
    assert "Got a TypeError, whose words may hold a value" in error
    assert error.count("The fit did not end") == 1
    assert "stays charged with epsilon = 3" in error
    assert PrivacyBudget.open("b.sqlite").spent[0] == 3.0


@pytest.mark.filterwarnings("always")
def test_only_warnings_of_the_package_are_said(capsys, monkeypatch):
    """In flags and JSON, as errors are."""

    def interrupted(self, X):
        words = "mostly noise; describe it as Identifier()"
        warnings.warn(words, DegradedResultWarning, stacklevel=1)
        warnings.warn(CANARY, RuntimeWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(IndependentSynthesizer, "fit", interrupted)
    assert main(["fit", "c.csv", *FAST, "--infer-dtypes", "-o", "m"]) == 1
    assert capsys.readouterr().err == (
        "skdpsynth: warning: mostly noise; describe it as"
        ' {"kind": "identifier"}\nskdpsynth: error: KeyboardInterrupt\n'
    )


@pytest.mark.parametrize(
    "stated",
    [
        Continuous(0, 5, decimals=1, special=[-1.5]),
        Continuous("0D", "30D", unit="D"),
        Categorical(["it's", "(b)"], nullable=True),
        Boolean(true="yes", false="no"),
        Datetime("2020-01-01", "2021-01-31", format="%d.%m.%Y"),
        Identifier(),
        Ordered(["a (m)", "b"], strict=True),
        Derived("los", "`out (d)` - inn", unit="D"),
    ],
)
def test_what_is_to_be_stated_is_shown_as_schemas_have_it(stated):
    words = __main__._in_flags(f"if so: {stated!r}; or special=[...]")
    line = words.removeprefix("if so: ").removesuffix('; or "special": [...]')
    parts = {"columns": [["x", json.loads(line)]]}
    if "rule" in line:
        parts = {"columns": [], "rules": [json.loads(line)]}
    schema = TableSchema.from_dict(parts)
    assert stated in [*schema.columns.values(), *schema.rules]


def test_help_is_fast():
    """As a process of its own: no heavy library is imported for it."""
    command = [sys.executable, "-X", "importtime", "-m", "skdpsynth", "fit", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--budget-total EPSILON DELTA" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"torch", "pandas", "numpy", "sklearn", "opendp"}


def test_the_default_is_that_of_the_other_pages():
    words = ["thyroid.csv", "--infer-dtypes", "--target", "class"]
    assert main(["fit", *words, "--epsilon", "3", "-o", "m"]) == 0
    assert skdpsynth.inspect("m")["synthesizer"] == "MarginalSynthesizer"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "c.csv", "--epsilon=-1", "-o", "m"], "--epsilon must be a float in"),
        ([*SHARED, "--budget-total", "-1", "0", "-o", "m"], "of --budget-total must"),
        ([*FIT, "--target", "no", "-o", "m"], "'no' is not a column"),
        ([*FIT, "--unit", "Age", "-o", "m"], "--max-rows an int from 1"),
        (["check", "c.csv", "--schema", "c.csv"], "The file 'c.csv': Expected JSON"),
        (["plan", *FAST], "Give a TABLE, of which names and dtypes are read, or a --s"),
        (["plan", "adult.parquet", *FAST], "Give --rows, or --class-count LABEL=N"),
        (["plan", "adult.parquet", *FAST, "--rows", "0"], "--rows must be an int >= 1"),
        (["plan", "adult.parquet", *FAST, "--target", "income"], "-count LABEL=N"),
        (["report", "."], "'.'"),  # a folder
    ],
)
def test_errors_are_one_line(words, message, capsys):
    error = failed(capsys, *words)
    assert message in error
    assert "={" not in error


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["fit", "c.csv", "-o", "m"], "--epsilon"),
        (["fit", "c.csv", "--epsilon", "1", "--synthesizer", "GAN"], "--synthesizer"),
        (["plan", "--epsilon", "1", "--class-count", "40"], "--class-count"),
        (["plan", "--epsilon", "1", "--class-count", "u=9", "0=0"], "--class-count"),
        (["sample", "m", "-n", "3", "--seed", "-1", "-o", "a.csv"], "argument --seed"),
        (["sample", "m", "-n", "3", "-o", "a.xlsx"], "-o/--output"),
        (["sample", "m", "-n", "3", "--encoding", "foo", "-o", "a.csv"], "--encoding"),
        (["schema", "c.csv", "--sep", "xy"], "--sep"),
        (["check", "c.csv", "--schema", "s", "--date-format", "%Q"], "--date-format"),
    ],
)
def test_wrong_usage(words, named, capsys):
    """The usage is that of the command, and the error names the flag."""
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"usage: skdpsynth {words[0]} ")
    assert named in error.splitlines()[-1]


def test_what_a_file_says_wrong_is_said_in_its_words(capsys):
    """Flags are named where they were given."""
    unit = {"privacy_unit": "who", "max_rows_per_unit": 2}
    TableSchema({"a": Continuous(0, 1)}, **unit).to_json("s.json")
    data = json.loads(Path("s.json").read_text())
    Path("s.json").write_text(json.dumps(data | {"max_rows_per_unit": None}))
    error = failed(capsys, "check", "c.csv", "--schema", "s.json")
    assert "'privacy_unit' of TableSchema" in error
    assert "--max-rows" not in error


@pytest.mark.parametrize("table", ["t.csv", "T.CSV", "t.parquet"])
def test_tables_are_read_in_blocks_and_written_in_batches(table, monkeypatch):
    TableSchema({"k": Continuous(0, 3, integer=True)}).to_json("s.json")
    rows = pd.DataFrame({"k": [0, 1, 2, 3] * 250})
    rows.to_parquet(table) if "parquet" in table else rows.to_csv(table, index=False)
    fit, given = IndependentSynthesizer.fit, []

    def noted(self, X):
        given.append(X)
        return fit(self, X)

    monkeypatch.setattr(IndependentSynthesizer, "fit", noted)
    assert main(["fit", table, "--schema", "s.json", *FAST, "-o", "m"]) == 0
    assert not isinstance(given[0], pd.DataFrame)
    assert main(["sample", "m", "-n", "250000", "-o", "b.parquet"]) == 0
    assert pq.ParquetFile("b.parquet").num_row_groups == 3


def test_a_unit_is_named_on_the_command_line(capsys):
    """The report is about persons, and a plan knows of them."""
    visits = load_thyroid()[["age", "class"]].assign(who=lambda t: t.index % 1000)
    visits.to_csv("visits.csv", index=False)
    columns = {"age": Continuous(0, 1), "class": Categorical([1, 2, 3])}
    TableSchema(columns | {"who": Identifier()}, target="class").to_json("s.json")
    words = ["visits.csv", "--schema", "s.json", *FAST]
    unit, plans = ["--unit", "who", "--max-rows", "2"], []
    for more in (unit, []):
        counts = ["--class-count", "1=50", "2=50", "3=1900"]
        plans.append(done(capsys, "plan", *words, *more, *counts))
    assert plans[0] != plans[1]
    assert "give both" in failed(capsys, "fit", *words, *unit[:2], "-o", "m")
    assert main(["fit", *words, *unit, "-o", "m"]) == 0
    fit = ["fit", "visits.csv", "--infer-dtypes", *FAST, "-o", "k"]
    for command, asks in ((["schema", "visits.csv"], True), (fit, False)):
        assert main(command) == 0  # a fit reads no cell for that
        said = '"privacy_unit": "who", "max_rows_per_unit": ...'
        assert (said in capsys.readouterr().err) == asks
    report = " ".join(done(capsys, "report", "m").split())  # without its line breaks
    assert "all rows of one who, of which at most 2 are used" in report
    assert main(["sample", "m", "-n", "50", "--unit", "-o", "s.csv"]) == 0
    assert not pd.read_csv("s.csv")["who"].is_unique
    sample = ["sample", "k", "-n", "50", "--unit", "-o", "t.csv"]
    assert "or leave out --unit" in failed(capsys, *sample)


@pytest.mark.parametrize("table", ["c.csv", "c.parquet"])
def test_columns_are_dropped(table, capsys):
    """One that is not there is refused: misspelt, it would be modelled."""
    pd.read_csv("c.csv").to_parquet("c.parquet")
    kinds = ["--infer-dtypes"] * (table == "c.csv")
    fit = ["fit", table, "--target", "Biopsy", *FAST, *kinds, "-o", "m"]
    for command in (fit, ["schema", table]):
        assert "['smokes']" in failed(capsys, *command, "--drop", "smokes")
    assert main([*fit, "--drop", "Smokes"]) == 0
    rows = done(capsys, "sample", "m", "-n", "3", "-o", "-")
    assert rows.splitlines()[0] == "Age,Biopsy"


def test_a_wrong_encoding_has_a_remedy_and_no_value(capsys):
    Path("w.csv").write_text("city,n\nKöln,1\n", encoding="latin-1")
    file = CsvFile(Path("w.csv"), {}, CsvForm(encoding="ascii"))
    assert file.names == ["city", "n"]  # which are read alone
    assert "--encoding latin-1" in failed(capsys, "schema", "w.csv")
    done(capsys, "schema", "w.csv", "--encoding", "latin-1")
    TableSchema({"city": Categorical(["Köln"]), "n": Continuous(0, 9)}).to_json("s")
    error = failed(capsys, "fit", "w.csv", "--schema", "s", *FAST, "-o", "m")
    assert "--encoding latin-1" in error
    assert "Köln" not in error


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_is_split_by_units(kind, capsys):
    """Every row is in one of two files as it was; a patient's rows are together."""
    rows = [f"{i % 97:03d},{'yes' if i % 97 < 9 else 'no'},1.50,-" for i in range(970)]
    Path("v.csv").write_text("\n".join(["who,y,cost,note", *rows, ",no,007,"]) + "\n")
    if kind == "parquet":
        pd.read_csv("v.csv").to_parquet("v.parquet")
    names = [f"{part}.{kind}" for part in ("train", "test")]
    split = ["split", f"v.{kind}", "--unit", "who", "--target", "y", "-o", *names]
    assert main([*split, "--seed", "1", "--test-size", ".2"]) == 0
    assert "rows written to 'test." in capsys.readouterr().err
    if kind == "csv":
        (first, *one), (_, *other) = (Path(n).read_text().splitlines() for n in names)
        assert first == "who,y,cost,note"
        assert sorted([*one, *other]) == sorted([*rows, ",no,007,"])
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    whole, *cells = map(read, [f"v.{kind}", *names])
    assert kind == "csv" or all((own.dtypes == whole.dtypes).all() for own in cells)
    train, test = cells
    assert not {*train["who"].dropna()} & {*test["who"].dropna()}
    assert 0.15 < len(test) / 971 < 0.25
    assert test.loc[test["y"] == "yes", "who"].nunique() == 2  # of 9, a fifth
    for wrong, words in (
        (["--unit", "whom"], "Got ['whom']"),
        (["--test-size", "1"], "--test-size must be a number in (0, 1)"),
        (["-o", "k.csv", "k.csv"], "used for something else"),
    ):
        assert words in failed(capsys, *split, "--force", *wrong)


def test_a_risk_stands_for_an_epsilon(capsys):
    """One of both, of the delta that is given, as the report of the fit says it."""
    risk = ["--synthesizer", "Independent", "--risk", "0.3", "--delta", "1e-6"]
    fit = ["fit", "c.csv", "--infer-dtypes", *risk, "-o", "m"]
    assert main(fit) == 0
    assert "--risk 0.3 is --epsilon 0.619" in capsys.readouterr().err
    report = IndependentSynthesizer.load("m").privacy_report()
    assert report.epsilon == pytest.approx(epsilon_for(0.3, delta=1e-6), rel=1e-3)
    error = failed(capsys, *fit, "--risk", "2", "--force")
    assert "--risk must be above delta" in error
    with pytest.raises(SystemExit):
        main([*fit, "--epsilon", "1"])
    assert "not allowed with argument --risk" in capsys.readouterr().err


def test_linked_tables_from_files_to_a_folder(capsys):
    rng = np.random.default_rng(0)
    patients = pd.DataFrame(
        {"patient": range(100, 400), "age": rng.integers(0, 9, 300)}
    )
    visits = pd.DataFrame({"patient": rng.integers(100, 400, 500)})
    visits["day"] = rng.integers(0, 50, 500)
    patients.to_csv("p.csv", index=False, sep=";")
    visits.to_csv("v.csv", index=False, sep=";")
    numbers = Continuous(0, 9, integer=True), Continuous(0, 49, integer=True)
    tables = {
        "patients": TableSchema({"age": numbers[0]}),
        "visits": TableSchema({"day": numbers[1]}),
    }
    link = Link("visits", parent="patients", key="patient", order_by="day")
    LinkedSchema(tables, [link]).to_json("s.json")
    fit = ["fit", "--schema", "s.json", "--epsilon", "3", "-o", "m.skdp", "--sep", ";"]
    both = ["patients=p.csv", "visits=v.csv"]
    for given, words in (
        (["p.csv"], "Expected patients=TABLE visits=TABLE"),
        ([*both, "--target", "age"], "Expected no --target beside a schema of linked"),
        ([*both, "--synthesizer", "G-PATE"], "Expected no --synthesizer beside"),
    ):
        assert words in failed(capsys, *fit, *given)
    assert main([*fit, *both]) == 0
    plan = ["plan", "--schema", "s.json", "--epsilon", "3", "--rows", "300"]
    assert "visits" in done(capsys, *plan)
    synth = skdpsynth.load("m.skdp")
    report, card = synth.privacy_report(), synth.model_card()
    assert done(capsys, "report", "m.skdp") == f"{report}\n"
    assert done(capsys, "card", "m.skdp") == f"{card}\n"
    assert "one row of patients with the rows that hang on it alone" in str(card)
    assert "without other tables" not in str(card)
    done(capsys, "sample", "m.skdp", "-n", "50", "--seed", "1", "-o", "out")
    for name, rows in synth.sample(50, random_state=1).items():
        written = pd.read_csv(f"out/{name}.csv", dtype=str)
        pd.testing.assert_frame_equal(written, rows.astype(str), check_dtype=False)
    for place in ("out", "-", "one.csv"):
        failed(capsys, "sample", "m.skdp", "-n", "5", "-o", place)
    assert not Path("-").exists()
