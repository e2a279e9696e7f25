"""The command line: ``python -m skdpsynth``, or ``skdpsynth``.

Results go to standard output or to a file, and all else to standard error. What is
heavy is imported by the command that needs it, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skdpsynth
from skdpsynth.exceptions import InvalidTableError, PersistenceError, SkdpsynthError
from skdpsynth.utils import compression_of, is_csv, withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    import pandas as pd

    from skdpsynth.base import BaseSynthesizer
    from skdpsynth.evaluation import QualityReport
    from skdpsynth.schema import Column, TableSchema
    from skdpsynth.utils import Document

_CLASSES = [name for name in skdpsynth.__all__ if name.endswith("Synthesizer")]
# By the names of the papers, but for hyphens; a GAN has no epsilon to ask for.
_SYNTHESIZERS = {
    name.removesuffix("Synthesizer").lower(): name
    for name in _CLASSES
    if name != "GANSynthesizer"
}
# What a column of two texts holds that stand for true and false.
_TRUTHS = (("yes", "no"), ("y", "n"), ("ja", "nein"), ("oui", "non"), ("t", "f"))
_STDOUT = Path("-")
_NO_KINDS = (
    "write one by 'skdpsynth schema', or add --infer-dtypes to fit where these are"
    " public"
)
_FOR_CURATOR = (
    "computed from private rows and not differentially private: for the curator only"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 1 after an error that was said in one line."""
    args = _parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            if (output := getattr(args, "output", None)) not in (None, _STDOUT):
                _check_output(args, output)
            args.run(args)
        except (SkdpsynthError, OSError, ValueError, KeyboardInterrupt) as error:
            words = str(error) or type(error).__name__
            words = " ".join([words, *getattr(error, "__notes__", [])])
            _say(f"error: {' '.join(words.split())}")
            return 1
    return 0


# --- Commands ---------------------------------------------------------------------


def _schema(args: argparse.Namespace) -> None:
    """Write a schema to fill in: columns, and their kinds where these are known."""
    from skdpsynth.schema import to_text

    table = _read_table(args.table, **_reading(args))
    stated = _kinds_in_texts(table, args) if is_csv(args.table) else {}
    data = json.loads(skdpsynth.TableSchema.template(table, form="json"))
    for entry in data["columns"]:
        entry[1] = stated.get(entry[0], entry[1])
    text = to_text({k: v for k, v in data.items() if k != "schema_version"})
    if args.output in (None, _STDOUT):
        print(text, end="")
    else:
        args.output.write_text(text, encoding="utf-8", newline="\n")
    _say("fill in what is public; a fit measures the columns whose nulls are left")
    if is_csv(args.table):
        _say("kinds were found by looking at values: correct what is not public")
        if table.shape[1] == 1:
            _say("there is one column only: if the file has more, name the --sep")


def _kinds_in_texts(
    table: pd.DataFrame, args: argparse.Namespace
) -> dict[Hashable, dict[str, Any]]:
    """Describe columns of texts which are times or truth values; it reads them."""
    import pandas as pd

    found: dict[Hashable, dict[str, Any]] = {}
    for name, series in table.items():
        present = series.dropna()
        if not len(present) or not pd.api.types.is_string_dtype(present):
            continue
        known = set(present.unique()) if present.nunique() <= len(_TRUTHS[0]) else set()
        texts = {text.lower(): text for text in known}
        for true, false in _TRUTHS:
            if len(known) == len(texts) and texts.keys() == {true, false}:
                own = {"true": texts[true], "false": texts[false]}
                found[name] = {"kind": "boolean", "nullable": None, **own}
        form = args.date_format
        times = pd.to_datetime(present, format=form, errors="coerce") if form else None
        if times is not None and times.notna().all():
            blank = {"kind": "datetime", "low": None, "high": None, "nullable": None}
            found[name] = {**blank, "unit": None, "format": form}
    return found


def _check(args: argparse.Namespace) -> None:
    """Count what in a table is not as a schema says."""
    schema = _without(skdpsynth.TableSchema.from_json(args.schema), args.drop)
    table = _read_table(args.table, _described(args), unchecked=True, **_reading(args))
    with withheld("The schema must be checked"):
        found = schema.check(table)
    _say(f"{_FOR_CURATOR}; {len(found)} finding(s)")
    found.to_csv(sys.stdout, sep="\t", index=False)


def _plan(args: argparse.Namespace) -> None:
    """Print what a budget allows, from dtypes or a schema and guessed counts."""
    schema = _read_schema(args)
    synthesizer = _synthesizer(args, schema)
    dtypes = None
    if args.table is not None:
        known = _described(args)
        dtypes = _read_table(
            args.table, known, rows=0, infer=False, **_reading(args)
        ).dtypes
    columns, stated = (schema.columns, schema.target) if schema else ({}, None)
    column = columns.get(stated if args.target is None else args.target)
    counts = {_label(text, column): rows for text, rows in args.class_count}
    plan = synthesizer.plan(args.rows, dtypes=dtypes, class_counts=counts or None)
    print(plan.to_string(index=False))


def _fit(args: argparse.Namespace) -> None:
    """Fit a synthesizer to a private table, and save it."""
    schema = _read_schema(args)
    synthesizer = _synthesizer(args, schema)
    synthesizer.set_params(budget=_open_budget(args))
    table: Any = args.table
    if args.infer_dtypes:
        table = _read_table(args.table, _described(args), **_reading(args))
    elif is_csv(args.table):
        from skdpsynth.table import CsvFile

        table = CsvFile(args.table, _described(args), _NO_KINDS, **_reading(args))
    elif args.drop:
        from pyarrow import dataset

        whole = dataset.dataset(args.table)
        _check_dropped(args.table, whole.schema.names, args.drop)
        kept = [name for name in whole.schema.names if name not in args.drop]
        table = whole.scanner(columns=kept).to_reader()
    from skdpsynth.privacy import cost_of_failure

    asked = synthesizer.get_params()
    cost = cost_of_failure(asked["epsilon"], asked["delta"], asked["budget"])
    with withheld("The fit must end", note=cost):
        synthesizer.fit(table)
    try:
        synthesizer.save(args.output, overwrite=args.force)
    except (SkdpsynthError, OSError) as error:
        error.add_note(cost)
        raise
    claim = str(synthesizer.privacy_report()).splitlines()[0]
    made_by = type(synthesizer).__name__
    _say(f"{claim}, by {made_by}. Written to {str(args.output)!r}.")


def _sample(args: argparse.Namespace) -> None:
    """Draw a synthetic table from a saved synthesizer; this costs no privacy."""
    from skdpsynth.utils.containers import write_batches, write_csv

    synthesizer = skdpsynth.load(args.model)
    batches = synthesizer.sample_batches(
        args.rows, random_state=args.seed, output="pandas"
    )
    if args.output == _STDOUT or is_csv(args.output):
        batches = map(partial(_as_written, synthesizer.schema_, args), batches)
    tabs = args.output.suffix.lower() == ".tsv"
    separator = args.sep or ("\t" if tabs else ",")
    if args.output == _STDOUT:
        write_csv(sys.stdout, batches, separator)
    else:
        write_batches(args.output, batches, separator, args.encoding)


def _as_written(
    schema: TableSchema, args: argparse.Namespace, rows: pd.DataFrame
) -> pd.DataFrame:
    """Write times as they were in the CSV file of the fit."""
    for name, series in rows.items():
        if series.dtype.kind == "M":
            form = getattr(schema.columns.get(name), "format", None) or args.date_format
            rows[name] = series if form is None else series.dt.strftime(form)
    return rows


def _budget(args: argparse.Namespace) -> None:
    """Print a budget that several fits share: its total, and what is left."""
    budget = skdpsynth.PrivacyBudget.open(args.budget)
    spent, left = budget.spent, budget.remaining
    print(f"total  epsilon = {budget.epsilon:g}, delta = {budget.delta:g}")
    print(f"spent  epsilon = {spent[0]:g}, delta = {spent[1]:g}")
    print(f"left   epsilon = {left[0]:g}, delta = {left[1]:g}")
    if len(budget.charges):
        print(budget.charges.to_string(index=False))


def _report(args: argparse.Namespace) -> None:
    """Write what the fit of a saved synthesizer spent, as text, Markdown or HTML."""
    from skdpsynth.privacy import PrivacyReport

    report = PrivacyReport.from_dict(skdpsynth.inspect(args.model)["report"])
    _write_document(report, args.output)


def _card(args: argparse.Namespace) -> None:
    """Write the model card of a saved synthesizer: the page of a release."""
    _write_document(skdpsynth.load(args.model).model_card(), args.output)


def _evaluate(args: argparse.Namespace) -> None:
    """Score synthetic rows against real ones: the whole, and what is worst."""
    schema = _read_schema(args)
    target = args.target or (None if schema is None else schema.target)
    columns = _described(args)
    kinds = [(name, own.tag) for name, own in columns.items()]
    unread = [str(name) for name, tag in kinds if tag in ("identifier", "text")]
    if unread:
        _say(f"left out, since it is never read: {', '.join(unread)}")
    how = {**_reading(args), "dropped": []}  # one table may lack what a fit dropped
    synthetic, test = (
        _read_table(path, columns, **how).drop(
            columns=[*args.drop, *unread], errors="ignore"
        )
        for path in (args.synthetic, args.test)
    )
    _say(f"{len(synthetic):,} synthetic and {len(test):,} real rows are compared")
    from skdpsynth.evaluation import quality_report

    with withheld("The tables must be scored"):
        report = quality_report(test, synthetic, target=target, panel=True)
    _say(f"{_FOR_CURATOR}, unless the test table is public")
    _write_document(report, args.output)


# --- What they share --------------------------------------------------------------


def _write_document(document: Document | QualityReport, path: Path | None) -> None:
    """Print a document, or write it in the form that the name of a file says."""
    if path in (None, _STDOUT):
        print(document)
    elif path.suffix.lower() == ".html":
        document.to_html(path)
    else:
        document.to_markdown(path)


def _synthesizer(
    args: argparse.Namespace, schema: TableSchema | None
) -> BaseSynthesizer:
    """Make the synthesizer asked for; a ValueError if a parameter is out of range."""
    names = "epsilon", "delta", "target"
    settings = {name: own for name, own in vars(args).items() if name in names}
    kind = getattr(skdpsynth, _SYNTHESIZERS[args.synthesizer])
    synthesizer: BaseSynthesizer = kind(**settings, schema=schema)
    synthesizer._validate_params()
    return synthesizer


def _open_budget(args: argparse.Namespace) -> skdpsynth.PrivacyBudget | None:
    """Open a budget; only one whose totals were given is made where there is none."""
    if args.budget is None:
        return None
    if args.budget_total is None:
        if not args.budget.exists():
            raise PersistenceError(
                f"Expected a budget. There is no file {str(args.budget)!r}; check its"
                " name, or make it by adding --budget-total EPSILON DELTA."
            )
        return skdpsynth.PrivacyBudget.open(args.budget)
    epsilon, delta = args.budget_total
    return skdpsynth.PrivacyBudget(epsilon, delta, args.budget)


def _read_schema(args: argparse.Namespace) -> TableSchema | None:
    """Read what is public; a unit of the command line comes before that of the file."""
    names = {"privacy_unit": "unit", "max_rows_per_unit": "max_rows"}
    given = {name: getattr(args, own, None) for name, own in names.items()}
    unit = {name: value for name, value in given.items() if value is not None}
    if args.schema is None and not unit:
        return None
    schema = skdpsynth.TableSchema({})
    if args.schema is not None:
        schema = skdpsynth.TableSchema.from_json(args.schema)
    return replace(_without(schema, args.drop), **unit)


def _without(schema: TableSchema, dropped: Collection[str]) -> TableSchema:
    columns = {k: own for k, own in schema.columns.items() if k not in dropped}
    blanks = {k: own for k, own in schema.blanks.items() if k not in dropped}
    return replace(schema, columns=columns, blanks=blanks)


def _described(args: argparse.Namespace) -> dict[Hashable, Any]:
    """Return what a schema file states of each column, also where blanks are left."""
    schema = _read_schema(args)
    stated: dict[Hashable, Any] = {} if schema is None else schema.kinds
    for name, column in stated.items():
        if column.tag == "datetime" and column.format is None and args.date_format:
            stated[name] = replace(column, format=args.date_format)
    return stated


def _reading(args: argparse.Namespace) -> dict[str, Any]:
    """Return how files are to be read."""
    from skdpsynth.table import CsvForm

    return {"form": CsvForm(args.sep, args.encoding), "dropped": args.drop}


def _read_table(
    path: Path,
    columns: Mapping[Hashable, Any] | None = None,
    *,
    rows: int | None = None,
    infer: bool = True,
    unchecked: bool = False,
    **reading: Any,  # noqa: ANN401 - what `_reading` gives
) -> pd.DataFrame:
    """Read a table; columns of a CSV file have the dtypes that are stated."""
    from skdpsynth.table import read_csv

    if is_csv(path):
        return read_csv(
            path,
            columns or {},
            rows=rows,
            infer=infer,
            unchecked=unchecked,
            remedy=_NO_KINDS,
            **reading,
        )
    dropped = reading.get("dropped", ())
    with withheld(f"{str(path)!r} must be a table that can be read"):
        from pyarrow import parquet

        from skdpsynth.utils.containers import from_arrow, index_of_pandas

        schema = parquet.ParquetFile(path).schema_arrow
        _check_dropped(path, schema.names, dropped)
        table = schema.empty_table() if rows == 0 else parquet.read_table(path)
        return from_arrow(table.drop_columns([*index_of_pandas(schema), *dropped]))


def _check_dropped(path: Path, names: Sequence[str], dropped: Sequence[str]) -> None:
    """Refuse to drop columns of a Parquet file that it does not have."""
    strange = [name for name in dropped if name not in names]
    if strange:
        raise InvalidTableError(
            f"Expected columns of {str(path)!r} to drop. Got {strange!r}; it has"
            f" {list(names)!r}."
        )


def _label(text: str, column: Column | None) -> Hashable:
    """Turn a label as it was typed into what a target column holds."""
    labels = getattr(column, "categories", (True, False))
    known = {str(label): label for label in labels}
    return known.get(text, int(text) if text.lstrip("-").isdigit() else text)


def _check_output(args: argparse.Namespace, path: Path) -> None:
    """Refuse a file that cannot be written, before anything is spent on it."""
    names = ("table", "schema", "budget", "model", "synthetic", "test")
    given = [getattr(args, name, None) for name in names]
    if path.resolve() in [other.resolve() for other in given if other is not None]:
        msg = f"Expected an output of its own. Got {str(path)!r}, which is read too."
        raise FileExistsError(f"{msg} Name another.")
    if path.is_dir() or (path.exists() and not args.force):
        raise FileExistsError(
            f"Expected the name of a new file. Got {str(path)!r}, which is there;"
            " name another, or add --force to replace a file."
        )
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise PersistenceError(
            f"Expected a file in a folder that can be written to. Got {str(path)!r}"
            f" ({error.strerror}); name another."
        ) from error


def _show_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """Print warnings of the package only: others may hold a value."""
    if category.__module__ == SkdpsynthError.__module__:
        _say(f"warning: {message}")


def _say(words: str) -> None:
    print(f"skdpsynth: {words}", file=sys.stderr)


# --- Arguments --------------------------------------------------------------------


def _expect(fits: object, expected: str, text: str) -> None:
    if not fits:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")


def _table_path(text: str) -> Path:
    path = Path(text)
    fits = is_csv(path) or path.suffix.lower() == ".parquet"
    _expect(fits, "a file named .csv (.tsv, .csv.gz) or .parquet", text)
    return path


def _sample_path(text: str) -> Path:
    path = _STDOUT if text == "-" else _table_path(text)
    _expect(not compression_of(path), "a file named .csv or .parquet, or -", text)
    return path


def _page_path(text: str) -> Path:
    fits = text == "-" or Path(text).suffix.lower() in (".html", ".md")
    _expect(fits, "a file named .html or .md, or -", text)
    return Path(text)


def _separator(text: str) -> str:
    own = {"\\t": "\t", "tab": "\t"}.get(text, text)
    fits = len(own) == 1 and own.isascii() and own not in '"\r\n'
    _expect(fits, "one character", text)
    return own


def _encoding(text: str) -> str:
    from skdpsynth.table import CsvForm

    try:
        return CsvForm(encoding=text).encoding
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _date_format(text: str) -> str:
    from skdpsynth.schema import Datetime

    try:
        Datetime("1970", "1970", format=text)
    except SkdpsynthError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _class_count(text: str) -> tuple[str, int]:
    label, _, count = text.rpartition("=")
    _expect(label and count.isdigit(), "LABEL=ROWS", text)
    return label, int(count)


_TOTALS = ("EPSILON", "DELTA")
# An argument that ends in "!" where a command lists it is required there.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "table": {"metavar": "TABLE", "type": _table_path},
    "model": {"metavar": "MODEL", "type": Path},
    "budget": {"metavar": "BUDGET", "type": Path},
    "--synthetic": {"type": _table_path},
    "--test": {"type": _table_path},
    "--schema": {"type": Path, "help": "JSON, see the command schema"},
    "--target": {"help": "the label column; by default the schema's"},
    "--unit": {
        "metavar": "COLUMN",
        "help": "the column that identifies persons: they are protected, not rows",
    },
    "--max-rows": {
        "type": int,
        "metavar": "K",
        "help": "most rows of one person that are used; with --unit",
    },
    "--epsilon": {"type": float},
    "--delta": {"type": float, "default": argparse.SUPPRESS},
    "--synthesizer": {
        "type": lambda name: name.replace("-", "").lower(),
        "choices": _SYNTHESIZERS,
        "default": "marginal",
        "metavar": "NAME",
        "help": "one of %(choices)s (the default is marginal); case, and hyphens as in"
        " G-PATE, are ignored",
    },
    "--rows": {"type": int, "metavar": "N", "help": "a guess of their number"},
    "--class-count": {
        "type": _class_count,
        "nargs": "+",
        "action": "extend",
        "default": [],
        "metavar": "LABEL=N",
        "help": "a guess of the rows of every class",
    },
    "--infer-dtypes": {
        "action": "store_true",
        "help": "find dtypes of CSV columns that the schema leaves out by looking at"
        " their values: only where they are public",
    },
    "--budget": {"type": Path, "help": "SQLite file that several fits share"},
    "--budget-total": {
        "type": float,
        "nargs": len(_TOTALS),
        "metavar": _TOTALS,
        "help": "its totals; a budget file that is absent is made only with them",
    },
    "-n": {"dest": "rows", "type": int, "metavar": "N"},
    "--seed": {"type": int, "help": "an int draws the same rows again"},
    "--sep": {
        "type": _separator,
        "help": "between the cells of CSV files; by default what the first line has (,"
        " ; tab or |), and a comma in a new file",
    },
    "--encoding": {
        "type": _encoding,
        "default": "utf-8",
        "help": "of CSV files, such as latin-1 or cp1252",
    },
    "--date-format": {
        "type": _date_format,
        "metavar": "FORMAT",
        "help": "of times in CSV files, such as %%d.%%m.%%Y, where the schema has none"
        " for the column; by default ISO 8601",
    },
    "--drop": {
        "metavar": "COLUMN",
        "nargs": "+",
        "action": "extend",
        "default": [],
        "help": "columns to leave out, as if the table did not have them",
    },
    "--force": {"action": "store_true", "help": "replace the output file"},
}
_CSV = ("--sep", "--encoding", "--date-format", "--drop")
_SETTINGS = (
    *("--schema", "--target", "--unit", "--max-rows"),
    *("--epsilon!", "--delta", "--synthesizer"),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skdpsynth",
        description="Differentially private synthetic tables. TABLE is a CSV file,"
        " which may be .gz, .bz2 or .zst, or a Parquet file; exit codes are 0, 1 for an"
        " error, and 2 for wrong usage.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        run: Callable[[argparse.Namespace], None],
        *names: str,
        output: Callable[[str], Path] | None = None,
        required: bool = False,
        **changed: Any,  # noqa: ANN401
    ) -> None:
        """Add a command; `changed` is what its first argument has in its own way."""
        command, words = run.__name__.removeprefix("_"), run.__doc__
        made = commands.add_parser(command, help=words, description=words)
        made.set_defaults(run=run)
        for place, name in enumerate(names):
            options = _ARGUMENTS[name.removesuffix("!")] | ({} if place else changed)
            if name.endswith("!"):
                options |= {"required": True}
            made.add_argument(name.removesuffix("!"), **options)
        if output is not None:
            made.add_argument("-o", "--output", type=output, required=required)
            made.add_argument("--force", **_ARGUMENTS["--force"])

    add(_schema, "table", *_CSV, output=Path)
    add(_check, "table", "--schema!", *_CSV)
    add(_plan, "table", *_SETTINGS, *_CSV, "--rows", "--class-count", nargs="?")
    own = "--infer-dtypes", "--budget", "--budget-total"
    add(_fit, "table", *_SETTINGS, *_CSV, *own, output=Path, required=True)
    how = "-n!", "--seed", "--sep", "--encoding", "--date-format"
    add(_sample, "model", *how, output=_sample_path, required=True)
    add(_report, "model", output=_page_path)
    add(_card, "model", output=_page_path)
    compared = "--synthetic!", "--test!", "--target", "--schema"
    add(_evaluate, *compared, *_CSV, output=_page_path)
    add(_budget, "budget")
    return parser


if __name__ == "__main__":
    sys.exit(main())
