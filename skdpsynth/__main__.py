"""The command line: ``python -m skdpsynth``, or ``skdpsynth``.

Results go to standard output or to a file, and all else to standard error. What is
heavy is imported by the command that needs it, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import ast
import json
import logging
import os
import re
import sys
import textwrap
import warnings
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skdpsynth
from skdpsynth.exceptions import SkdpsynthError
from skdpsynth.utils import (
    MOST_SHOWN,
    WIDTH,
    check_new,
    is_csv,
    parse_json,
    read_text,
    withheld,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd

    from skdpsynth.evaluation import QualityReport
    from skdpsynth.schema import TableSchema
    from skdpsynth.table.csv_files import CsvFile
    from skdpsynth.utils import Document

Args = argparse.Namespace
# A GAN has no epsilon to ask for, and linked tables have a synthesizer of their own.
_OTHERS = ("GANSynthesizer", "LinkedSynthesizer")
# By the names of the papers, but for hyphens.
_SYNTHESIZERS = {
    name.removesuffix("Synthesizer").lower(): name
    for name in skdpsynth.__all__
    if name.endswith("Synthesizer") and name not in _OTHERS
}
_STDOUT = Path("-")
_NARROW = ["class", "rows", "tables", "signal_to_noise", "dependence", "epsilon_needed"]
_MORE = " ... (--wide shows all)"  # of a note beside these columns
_FOR_CURATOR = (
    "computed from private rows and not differentially private: for the curator only"
)
# What errors say of Python, by pattern, and what is said here. Names of columns, which
# may be like those of parameters, have quotes.
_IN_PYTHON = {
    r"^The '(epsilon|delta)' parameter of \w+": r"--\1",
    r" or a float among {inf}": ", or inf",
    r"^(epsilon|delta) must": r"\1 of --budget-total must",
    r"^advantage must": "--risk must",
    r"^test_size must": "--test-size must",
    r"^The 'target' is": "--target is",
    r"in `target`": "by --target",
    r"^The 'privacy_unit' of TableSchema (.*)'max_rows_per_unit'": r"--unit \1"
    "--max-rows",
    r"(?<!')\bn_samples\b": "-n",
    r"(?<!')\bn_rows\b(=\.\.\.)?": "--rows",
    r"(?<!')\bclass_counts\b(={.*?})?": "--class-count LABEL=N ...",
    r"dtypes=df\.dtypes \(.*or here": "a TABLE, of which names and dtypes are read, or"
    " a --schema",
    r"can read and write\.": "can read and write; fit --budget-total EPSILON DELTA"
    " makes one.",
    r"\bplan\(\) shows": "'skdpsynth plan' shows",
    r"\bspecial=": '"special": ',
    r"privacy_unit='(.*?)', max_rows_per_unit=": r'"privacy_unit": "\1",'
    ' "max_rows_per_unit": ',
    r"\b(integer|nullable)=True": r'"\1": true',
    r"\bpd\.to_\w+\(\.\.\.\)": "write them plainly",
    r"leave out unit\b": "leave out --unit",
    r"add overwrite=True": "add --force",
}

# A column or a rule as code, whose texts may have brackets.
_CODE = re.compile(
    r"(?<!')\b(Continuous|Categorical|Boolean|Datetime|Identifier|Text|Ordered|Derived|"
    r"SumOf|MissingTogether)\((?:[^()'\"]|'[^']*'|\"[^\"]*\")*\)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 1 after an error that was said in one line."""
    args = _parsed(argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            _check_outputs(vars(args))
            args.run(args)
        except (SkdpsynthError, OSError, ValueError, KeyboardInterrupt) as error:
            words = _in_flags(str(error)) or type(error).__name__
            words = " ".join([words, *getattr(error, "__notes__", [])])
            _say(f"error: {' '.join(words.split())}")
            return 1
    return 0


# --- Commands ---------------------------------------------------------------------


def _schema(args: Args) -> None:
    """Write a schema to fill in: columns, and their kinds where these are known."""
    stated = _read_schema(args)
    table = _table(args, args.table, stated)
    if is_csv(args.table):
        text = _found(table, stated, ask=stated.privacy_unit is None)[1]
        _say("kinds were found by looking at values: correct what is not public")
        if text.count('"kind"') == 1:
            _say("there is one column only: if the file has more, name the --sep")
    else:
        text = skdpsynth.TableSchema.template(table.read(rows=0), form="json")
    if args.output == _STDOUT:
        print(text, end="")
    else:
        args.output.write_text(text, encoding="utf-8", newline="\n")
    _say("fill in what is public; a fit measures the columns whose nulls are left")


def _check(args: Args) -> None:
    """Count what in a table is not as a schema says."""
    schema = _read_schema(args)
    table = _table(args, args.table, schema)
    with withheld("The schema must be checked"):
        if is_csv(args.table):
            from skdpsynth.table.csv_kinds import check_csv

            findings = check_csv(table, schema)
        else:
            findings = schema.check(table.read())
    _say(f"{_FOR_CURATOR}; {len(findings)} finding(s)")
    findings["finding"] = findings["finding"].map(_in_flags)
    findings.to_csv(sys.stdout, sep="\t", index=False, quotechar="`")


def _plan(args: Args) -> None:
    """Print what a budget allows, from dtypes or a schema and guessed counts."""
    if (linked := _linked_schema(args)) is not None:
        print(_synthesizer(args, linked).plan(args.rows).to_string())
        return
    schema, dtypes = _read_schema(args), None
    synthesizer = _synthesizer(args, schema)
    if schema.order_by is not None:
        print(synthesizer.plan(args.rows).to_string())
        return
    if args.table is not None:
        dtypes = _table(args, args.table, schema).read(rows=0).dtypes
    target = schema.kinds.get(args.target or schema.target)
    labels = getattr(target, "categories", (True, False))
    known = {str(label): label for label in labels}
    counts = {
        known.get(text, int(text) if text.lstrip("-").isdigit() else text): rows
        for text, rows in args.class_count
    }
    plan = synthesizer.plan(args.rows, dtypes=dtypes, class_counts=counts or None)
    if args.wide:
        print(plan.to_string(index=False))
        return
    print(plan[_NARROW].to_string(index=False))
    for note, rows in plan[plan["note"] != ""].groupby("note", sort=False):
        which = ", ".join(map(str, rows["class"]))
        of_some = f" on the class {which}" if len(rows) < len(plan) else ""
        words = f"note{of_some}: {_in_flags(note)}"
        print(textwrap.fill(words, WIDTH, max_lines=MOST_SHOWN, placeholder=_MORE))


def _split(args: Args) -> None:
    """Split a table into rows to fit and rows to test, each unit in one of them."""
    from skdpsynth.evaluation import split_table

    schema = skdpsynth.TableSchema({}, **_said(args))
    file = _table(args, args.table, schema)
    if csv := is_csv(args.table):
        args.form = replace(args.form, separator=file.separator)
    table = file.cells(file.names) if csv else file.read()  # texts stay as they are
    how = {"test_size": args.test_size, "random_state": args.seed}
    parts = split_table(table, args.unit, args.target, **how)
    for path, part in zip(args.output, parts, strict=True):
        _write_rows(args, path, iter([part]), schema)
        _say(f"{len(part):,} rows written to {str(path)!r}")


def _fit(args: Args) -> None:
    """Fit a synthesizer to a private table, and save it."""
    from skdpsynth.privacy import cost_of_failure

    table: Any
    if (linked := _linked_schema(args)) is not None:
        table, synthesizer = _linked_tables(args, linked), _synthesizer(args, linked)
    else:
        schema, (path, *more) = _read_schema(args), args.table
        if more:
            raise ValueError("Expected one TABLE, or a --schema of linked tables.")
        table = _table(args, path, schema)
        if is_csv(path) and args.infer_dtypes:
            schema, _ = _found(table, schema)
            table = replace(table, columns=schema.kinds)
        synthesizer = _synthesizer(args, schema)
    total: tuple[float, float] | None = args.budget_total
    if args.budget and total:  # it is made where there is none
        synthesizer.budget = skdpsynth.PrivacyBudget(*total, args.budget)
    elif args.budget:
        synthesizer.budget = skdpsynth.PrivacyBudget.open(args.budget)
    cost = cost_of_failure(synthesizer.epsilon, synthesizer.delta, synthesizer.budget)
    with withheld("The fit must end", note=cost):
        synthesizer.fit(table)
    try:
        synthesizer.save(args.output, overwrite=args.force)
    except (SkdpsynthError, OSError) as error:
        error.add_note(cost)
        raise
    claim = str(synthesizer.privacy_report()).splitlines()[0]
    _say(f"{claim}, by {type(synthesizer).__name__}. Written to {str(args.output)!r}.")


def _sample(args: Args) -> None:
    """Draw a synthetic table from a saved synthesizer; this costs no privacy."""
    from skdpsynth.utils.containers import as_frame

    synthesizer = skdpsynth.load(args.model)
    linked = isinstance(synthesizer, skdpsynth.LinkedSynthesizer)
    if linked and isinstance(schema := synthesizer.schema, skdpsynth.TableSchema):
        rows = as_frame(synthesizer.sample(args.rows, random_state=args.seed))
        _write_rows(args, args.output, iter([rows]), replace(schema, **_said(args)))
        return
    if linked:
        names = {name for name in synthesizer.schema.tables if Path(name).name != name}
        if args.output == _STDOUT or args.output.suffix or names:
            raise ValueError(
                "Expected a folder that is not there, for the tables as CSV files, and"
                f" tables whose names are those of files. Got {str(args.output)!r} and"
                f" {[*synthesizer.schema.tables]!r}; name one, or sample in Python."
            )
        tables = synthesizer.sample(args.rows, random_state=args.seed)
        args.output.mkdir()
        for name, rows in tables.items():
            schema = replace(synthesizer.schema.schema_of(name), **_said(args))
            _write_rows(args, args.output / f"{name}.csv", iter([rows]), schema)
        return
    if not args.output.suffix and args.output != _STDOUT:
        raise ValueError(f"Expected a file. Got the folder {str(args.output)!r}.")
    drawn: dict[str, Any] = {"random_state": args.seed, "output": "pandas"}
    if args.unit:  # the rows of one are not torn apart
        batches = iter([synthesizer.sample(args.rows, unit=True, **drawn)])
    else:
        batches = synthesizer.sample_batches(args.rows, **drawn)
    _write_rows(args, args.output, batches, replace(synthesizer.schema_, **_said(args)))


def _budget(args: Args) -> None:
    """Print a budget that several fits share: its total, and what is left."""
    budget = skdpsynth.PrivacyBudget.open(args.budget)
    total = budget.epsilon, budget.delta
    parts = {"total": total, "spent": budget.spent, "left": budget.remaining}
    for name, (epsilon, delta) in parts.items():
        print(f"{name:6} epsilon = {epsilon:g}, delta = {delta:g}")
    if len(budget.charges):
        print(budget.charges.to_string(index=False))


def _report(args: Args) -> None:
    """Write what the fit of a saved synthesizer spent, as text, Markdown or HTML."""
    from skdpsynth.privacy import PrivacyReport

    saved = skdpsynth.inspect(args.model)
    report = PrivacyReport.from_dict(saved["report"])
    if saved["synthesizer"] == "LinkedSynthesizer":
        report = skdpsynth.load(args.model).privacy_report()
    _write_document(report, args.output)


def _card(args: Args) -> None:
    """Write the model card of a saved synthesizer: the page of a release."""
    _write_document(skdpsynth.load(args.model).model_card(), args.output)


def _evaluate(args: Args) -> None:
    """Score synthetic rows against real ones: the whole, and what is worst."""
    from skdpsynth.evaluation import quality_report

    schema = _read_schema(args)
    # One table may lack what a fit dropped.
    how: dict[str, Any] = {"columns": args.drop, "errors": "ignore"}
    args.drop, tables = [], []
    for path in (args.synthetic, args.test):
        table = _table(args, path, schema)
        if is_csv(path):
            table = replace(table, columns=_found(table, schema)[0].kinds)
        tables.append(table.read().drop(**how))
    synthetic, test = tables
    _say(f"{len(synthetic):,} synthetic and {len(test):,} real rows are compared")
    log, handler = logging.getLogger("skdpsynth.evaluation"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("skdpsynth: %(message)s"))
    with ExitStack() as undone, withheld("The tables must be scored"):
        undone.callback(log.setLevel, log.level)
        undone.callback(log.removeHandler, handler)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        report = quality_report(test, synthetic, schema, target=args.target, panel=True)
    _say(f"{_FOR_CURATOR}, unless the test table is public")
    _write_document(report, args.output)


# --- What they share --------------------------------------------------------------


def _write_document(document: Document | QualityReport, path: Path) -> None:
    """Print a document, or write it in the form that the name of a file says."""
    if path == _STDOUT:
        print(document)
    elif path.suffix.lower() == ".html":
        document.to_html(path)
    else:
        document.to_markdown(path)


def _write_rows(
    args: Args, path: Path, batches: Iterable[pd.DataFrame], schema: TableSchema
) -> None:
    """Write rows in the form of the file; cells of CSV as the schema says."""
    from skdpsynth.table.csv_kinds import as_cells
    from skdpsynth.utils.containers import write_batches, write_csv

    if path == _STDOUT or is_csv(path):
        batches = (as_cells(b, schema.kinds, args.form.stated(schema)) for b in batches)
    by_name = "\t" if path.suffix.lower() == ".tsv" else ","
    meant = {x for c in schema.kinds.values() for x in getattr(c, "categories", ())}
    gaps = [x for x in (*schema.na_values, "", "NA") if x not in meant]  # else read so
    how = {"sep": args.form.separator or by_name, "na_rep": gaps[0]}
    if path == _STDOUT:
        write_csv(sys.stdout, batches, **how)
    else:
        write_batches(path, batches, encoding=args.encoding, **how)


def _synthesizer(args: Args, schema: TableSchema | skdpsynth.LinkedSchema) -> Any:  # noqa: ANN401
    """Make the synthesizer asked for; a ValueError if a parameter is out of range."""
    settings = {name: vars(args)[name] for name in ("epsilon", "delta")}
    kind = getattr(skdpsynth, _SYNTHESIZERS[args.synthesizer])
    if isinstance(schema, skdpsynth.TableSchema) and schema.order_by is None:
        settings["target"] = args.target
    elif args.synthesizer == "marginal":
        kind = skdpsynth.LinkedSynthesizer  # no other keeps an order
        if args.target:
            raise ValueError("Expected the target in the schema. Got --target.")
    synthesizer = kind(**settings, schema=schema)
    if args.risk is not None:
        from skdpsynth.privacy import epsilon_for

        synthesizer.epsilon = epsilon_for(args.risk, delta=args.delta)
        _say(f"--risk {args.risk:g} is --epsilon {synthesizer.epsilon:.4g}")
    synthesizer._validate_params()
    return synthesizer


def _said(args: Args, **flags: str) -> dict[str, Any]:
    """Return what the command line says of a schema, by the names there."""
    flags |= {name: name for name in ("na_values", "decimal", "thousands")}
    said = {name: vars(args).get(flag) for name, flag in flags.items()}
    return {name: value for name, value in said.items() if value not in (None, [])}


def _linked_schema(args: Args) -> skdpsynth.LinkedSchema | None:
    """Return a schema of linked tables if the file is one."""
    try:
        data = parse_json(read_text(args.schema)) if args.schema else None
    except ValueError:  # `_read_schema` says where
        return None
    if not isinstance(data, dict) or "linked_version" not in data:
        return None
    flags = [f"--{own}" for own in ("target", "unit", "max_rows") if vars(args)[own]]
    flags += ["--synthesizer"] * (args.synthesizer != "marginal")
    if flags:
        raise ValueError(
            f"Expected no {' or '.join(flags)} beside a schema of linked tables, which"
            " says this by itself; leave it out."
        )
    return skdpsynth.LinkedSchema.from_json(args.schema)


def _linked_tables(args: Args, schema: skdpsynth.LinkedSchema) -> dict[str, Any]:
    """Return what reads each of the tables, which are written NAME=TABLE."""
    paths = dict(str(path).partition("=")[::2] for path in args.table)
    if set(paths) != set(schema.tables) or len(paths) < len(args.table):
        names = " ".join(f"{name}=TABLE" for name in schema.tables)
        raise ValueError(f"Expected {names}, as in the schema. Got {[*paths]!r}.")
    return {
        name: _table(args, Path(path), replace(schema.schema_of(name), **_said(args)))
        for name, path in paths.items()
    }


def _read_schema(args: Args) -> TableSchema:
    """Read what is public; what the command line says comes before the file."""
    said = _said(args, privacy_unit="unit", max_rows_per_unit="max_rows")
    if vars(args).get("schema") is None:
        return skdpsynth.TableSchema({}, **said)
    data = skdpsynth.TableSchema.from_json(args.schema).to_dict()
    data["columns"] = [entry for entry in data["columns"] if entry[0] not in args.drop]
    for _, column in data["columns"]:
        if column["kind"] == "datetime":  # those without a format have that of the flag
            column.setdefault("format", args.date_format)
    return replace(skdpsynth.TableSchema.from_dict(data), **said)


def _table(args: Args, path: Path, schema: TableSchema) -> Any:  # noqa: ANN401
    """Return what reads a table."""
    from skdpsynth.table.csv_files import CsvFile
    from skdpsynth.table.parquet_files import ParquetFiles

    if not is_csv(path):
        return ParquetFiles(path, schema.kinds, args.drop)
    return CsvFile(path, schema.kinds, args.form.stated(schema), args.drop)


def _found(
    table: CsvFile, schema: TableSchema, *, ask: bool = False
) -> tuple[TableSchema, str]:
    """Find the kinds of columns that nobody states, and say what is odd in them."""
    from skdpsynth.table.csv_kinds import found_kinds

    schema, template, hints = found_kinds(table, schema, ask=ask)
    for name, hint in hints.items():
        _say(f"column {name!r}: {_in_flags(hint)}")
    return schema, template


def _check_outputs(args: dict[str, Any]) -> None:
    """Refuse files that cannot be written, before anything is spent on them."""
    names = ("table", "schema", "budget", "model", "synthetic", "test")
    given = [args[name] for name in names if args.get(name)]
    listed = [path if isinstance(path, list) else [path] for path in given]
    files = [str(path) for path in chain.from_iterable(listed)]
    # Of linked tables, written NAME=TABLE, what is behind the sign.
    used = [Path(p).resolve() for f in files for p in (f, f.partition("=")[2]) if p]
    outputs = args.get("output", _STDOUT)
    for path in outputs if isinstance(outputs, list) else [outputs]:
        if path == outputs == _STDOUT:
            return
        taken = path == _STDOUT or path.is_dir() or path.resolve() in used
        if taken or not os.access(path.parent, os.W_OK):
            raise FileExistsError(
                "Expected a file of its own for the output, in a folder that can be"
                f" written to. Got {str(path)!r}, which is not, or is a folder, or used"
                " for something else; name another."
            )
        check_new(path, overwrite=args["force"])
        used.append(path.resolve())


def _show_warning(message: object, category: type, *_: object, **__: object) -> None:
    """Print warnings of the package only: others may hold a value."""
    if category.__module__.startswith(skdpsynth.__name__):
        _say(f"warning: {_in_flags(str(message))}")


def _in_flags(words: str) -> str:
    """Return a message in flags and JSON where it speaks of Python."""
    words = _CODE.sub(_in_json, words)
    for pattern, replacement in _IN_PYTHON.items():
        words = re.sub(pattern, replacement, words)
    return words


def _in_json(code: re.Match[str]) -> str:
    """Return a column or a rule that is written as code as in the file of a schema."""
    from skdpsynth import schema

    kind = getattr(schema, code[1])
    data = {"rule" if issubclass(kind, schema.Rule) else "kind": kind.tag}
    with suppress(SyntaxError, ValueError):  # or it stays as it is
        stated: Any = ast.parse(code[0], mode="eval").body
        given = {part.arg: part.value for part in stated.keywords}
        names = (item.name for item in fields(kind))
        for name, own in (dict(zip(names, stated.args, strict=False)) | given).items():
            data[name] = ... if isinstance(own, ast.Name) else ast.literal_eval(own)
        return json.dumps(data, default=lambda _: "...").replace('"..."', "...")
    return code[0]


def _say(words: str) -> None:
    print(f"skdpsynth: {words}", file=sys.stderr)


# --- Arguments --------------------------------------------------------------------


def _type(
    convert: Callable[[str], Any], holds: Callable[[Any], object], expected: str
) -> Callable[[str], Any]:
    """Return what reads a text; an error if it does not hold what is expected."""

    def read(text: str) -> Any:  # noqa: ANN401 - as `convert` does
        with suppress(ValueError):
            if holds(value := convert(text)):
                return value
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")

    return read


def _label_and_rows(text: str) -> tuple[str, int]:
    label, _, count = text.rpartition("=")
    return label, int(count)


def _output(*endings: str) -> dict[str, Any]:
    """Return how the name of a file that is written is read."""

    def fits(path: Path) -> bool:
        return path == _STDOUT or path.suffix.lower() in endings

    names = ", ".join(filter(None, endings)) + ", or a folder" * ("" in endings)
    return {"type": _type(Path, fits, f"a file named {names}, or -")}


_TABLE = _type(
    Path,
    lambda path: is_csv(path) or path.suffix.lower() == ".parquet" or path.is_dir(),
    "a file named .csv (.tsv, .csv.gz) or .parquet, or a folder of these",
)
_COUNT = _type(_label_and_rows, all, "LABEL=N with at least one row")
_TABLES = _output(".csv", ".tsv", ".parquet")
_MANY: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
_FLAG: dict[str, Any] = {"action": "store_true"}
# By flags and, after a colon, what tells an argument from others of the same flags.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "table": {"metavar": "TABLE", "type": _TABLE},
    "table:several": {"metavar": "TABLE", "type": _TABLE, "nargs": "+"},
    "table:optional": {"metavar": "TABLE", "type": _TABLE, "nargs": "?"},
    "model": {"metavar": "MODEL", "type": Path},
    "budget": {"metavar": "BUDGET", "type": Path},
    "--synthetic": {"type": _TABLE},
    "--test": {"type": _TABLE},
    "--schema": {"type": Path, "help": "JSON, see the command schema"},
    "--target": {"help": "the label column; by default the schema's"},
    "--unit": {"metavar": "COLUMN", "help": "of persons: they are protected, not rows"},
    "--unit:whole": {**_FLAG, "help": "rows of synthetic persons, in order"},
    "--wide": {**_FLAG, "help": "all columns, also of what noise there is"},
    "--max-rows": {"type": int, "metavar": "K", "help": "most rows used of one person"},
    "--epsilon": {"type": float},
    "--risk": {"type": float, "help": "gain of bets on a row, in place of epsilon"},
    "--delta": {"type": float, "default": 1e-5},
    "--synthesizer": {
        "type": lambda name: name.replace("-", "").lower(),
        **{"choices": _SYNTHESIZERS, "default": "marginal", "metavar": "NAME"},
        "help": "one of %(choices)s (the default is marginal); case, and hyphens as in"
        " G-PATE, are ignored",
    },
    "--rows": {"type": int, "metavar": "N", "help": "a guess of their number"},
    "--class-count": {"type": _COUNT, "metavar": "LABEL=N", **_MANY},
    "--infer-dtypes": {
        **_FLAG,
        "help": "find kinds of CSV columns by their values: only where they are public",
    },
    "--budget": {"type": Path, "help": "SQLite file that several fits share"},
    "--budget-total": {
        **{"type": float, "nargs": 2, "metavar": ("EPSILON", "DELTA")},
        "help": "its totals; a budget file that is absent is made only with them",
    },
    "--test-size": {"type": float, "default": 0.25, "metavar": "SHARE"},
    "-n": {"dest": "rows", "type": int, "metavar": "N"},
    "--seed": {
        "type": _type(int, lambda n: 0 <= n < 2**32, "a whole number below 2**32"),
        "help": "an int draws the same rows again",
    },
    "--sep": {"help": "between cells of CSV files; by default as in the first line"},
    "--encoding": {"default": "utf-8", "help": "of CSV files, such as cp1252"},
    "--na-values": {
        **{"metavar": "TEXT", **_MANY},
        "help": "what stands for missing too; sample writes the first for all",
    },
    "--decimal": {"help": "mark of decimals in CSV files, such as ,"},
    "--thousands": {"help": "mark between thousands in CSV files, such as ."},
    "--date-format": {
        "metavar": "FORMAT",
        "help": "of times in CSV files whose column has none, such as %%d.%%m.%%Y",
    },
    "--drop": {"metavar": "COLUMN", "help": "not to be in the table", **_MANY},
    "-o/--output": {"type": Path, "default": _STDOUT},
    "-o/--output:page": {**_output(".html", ".md"), "default": _STDOUT},
    "-o/--output:rows": _output(".csv", ".tsv", ".parquet", ""),
    "-o/--output:parts": {**_TABLES, "nargs": 2, "metavar": ("TRAIN", "TEST")},
    "--force": {**_FLAG, "help": "replace the output file"},
}
_TEXT = "--sep --encoding --na-values --decimal --thousands --date-format"
_FILES = f"{_TEXT} --drop"
_PUBLIC = "--schema --target --unit --max-rows"
_SETTINGS = f"{_PUBLIC} --epsilon|--risk! --delta --synthesizer {_FILES}"
_CHARGES = "--infer-dtypes --budget --budget-total"
_PAGE = "-o/--output:page --force"
# What a command takes: "!" ends what it needs, "|" is between what is exclusive.
_COMMANDS: dict[Callable[[Args], None], str] = {
    _schema: f"table {_FILES} -o/--output --force",
    _check: f"table --schema! {_FILES}",
    _plan: f"table:optional {_SETTINGS} --rows --class-count --wide",
    _split: "table --unit --target --test-size --seed -o/--output:parts! --force"
    f" {_FILES}",
    _fit: f"table:several {_SETTINGS} {_CHARGES} -o/--output! --force",
    _sample: f"model -n! --unit:whole --seed {_TEXT} -o/--output:rows! --force",
    _report: f"model {_PAGE}",
    _card: f"model {_PAGE}",
    _evaluate: f"--synthetic! --test! --target --schema {_FILES} {_PAGE}",
    _budget: "budget",
}


def _parsed(argv: Sequence[str] | None) -> Args:
    """Parse the arguments, and check what is more than one of them."""
    parser = argparse.ArgumentParser(
        prog="skdpsynth",
        description="Differentially private synthetic tables. TABLE is a CSV file,"
        " which may be .gz, .bz2 or .zst, or a Parquet file or a folder of these; exit"
        " codes are 0, 1 for an error, and 2 for wrong usage.",
    )
    version = f"skdpsynth {skdpsynth.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for run, listed in _COMMANDS.items():
        command, words = run.__name__.removeprefix("_"), run.__doc__
        made = commands.add_parser(command, help=words, description=words)
        made.set_defaults(run=run, parser=made)
        for name in listed.split():
            ways = name.removesuffix("!").split("|")
            place: Any = made
            needed: dict[str, Any] = {"required": True} if name[-1] == "!" else {}
            if len(ways) > 1:
                place, needed = made.add_mutually_exclusive_group(**needed), {}
            for way in ways:
                flags = way.partition(":")[0].split("/")
                place.add_argument(*flags, **_ARGUMENTS[way], **needed)
    args = parser.parse_args(argv)
    if hasattr(args, "encoding"):
        from skdpsynth.schema import Datetime
        from skdpsynth.table.csv_files import CsvForm

        separator = {"\\t": "\t", "tab": "\t"}.get(args.sep, args.sep)
        how = (separator, args.encoding, (), ".", None, args.date_format)
        try:
            Datetime("1970", "1970", format=args.date_format)
            args.form = CsvForm(*how)
        except ValueError as error:
            args.parser.error(f"one of {_TEXT}: {error}")
    return args


if __name__ == "__main__":
    sys.exit(main())
