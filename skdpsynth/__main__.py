"""The command line: ``python -m skdpsynth``, or ``skdpsynth``.

Results go to standard output or to a file, and all else to standard error. What is
heavy is imported by the command that needs it, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import skdpsynth
from skdpsynth.exceptions import PersistenceError, SkdpsynthError
from skdpsynth.utils import withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    import pandas as pd

    from skdpsynth.base import BaseSynthesizer
    from skdpsynth.schema import Column, TableSchema

_CLASSES = [name for name in skdpsynth.__all__ if name.endswith("Synthesizer")]
# By the names of the papers, but for hyphens; a GAN has no epsilon to ask for.
_SYNTHESIZERS = {
    name.removesuffix("Synthesizer"): name
    for name in _CLASSES
    if name != "GANSynthesizer"
}
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
            args.run(args)
        except (SkdpsynthError, OSError, ValueError, KeyboardInterrupt) as error:
            words = str(error) or type(error).__name__
            words = " ".join([words, *getattr(error, "__notes__", [])])
            _say(f"error: {' '.join(words.split())}")
            return 1
    return 0


# --- Commands ---------------------------------------------------------------------


def _schema(args: argparse.Namespace) -> None:
    """Write a schema to fill in, from the dtypes of a table alone."""
    _check_output(args)
    text = skdpsynth.TableSchema.template(_read_table(args.table), form="json")
    if args.output is None:
        print(text, end="")
    else:
        args.output.write_text(text, encoding="utf-8", newline="\n")
    _say("fill in what is public; a fit measures the columns whose nulls are left")
    if args.table.suffix.lower() == ".csv":
        _say("kinds were found by looking at values: correct what is not public")


def _check(args: argparse.Namespace) -> None:
    """Count what in a table is not as a schema says."""
    schema = skdpsynth.TableSchema.from_json(args.schema)
    table = _read_table(args.table, schema.columns, unchecked=True)
    with withheld("The schema must be checked"):
        found = schema.check(table)
    _say(f"{_FOR_CURATOR}; {len(found)} finding(s)")
    found.to_csv(sys.stdout, sep="\t", index=False)


def _plan(args: argparse.Namespace) -> None:
    """Say what a budget allows, from dtypes or a schema and guessed counts."""
    schema = _read_schema(args)
    synthesizer = _synthesizer(args, schema)
    dtypes = None
    if args.table is not None:
        dtypes = _read_table(args.table, _described(args), rows=0, infer=False).dtypes
    columns, stated = (schema.columns, schema.target) if schema else ({}, None)
    column = columns.get(stated if args.target is None else args.target)
    counts = {_label(text, column): rows for text, rows in args.class_count}
    plan = synthesizer.plan(args.rows, dtypes=dtypes, class_counts=counts or None)
    print(plan.to_string(index=False))


def _fit(args: argparse.Namespace) -> None:
    """Fit a synthesizer to a private table, and save it."""
    _check_output(args)
    schema = _read_schema(args)
    synthesizer = _synthesizer(args, schema)
    synthesizer.set_params(budget=_open_budget(args), verbose=sys.stderr.isatty())
    table: Any = args.table
    if args.infer_dtypes:
        table = _read_table(args.table, _described(args))
    elif args.table.suffix.lower() == ".csv":
        from skdpsynth.table import CsvFile

        table = CsvFile(args.table, _described(args), _NO_KINDS)
    from skdpsynth.privacy import cost_of_failure

    budget = synthesizer.get_params()["budget"]
    cost = cost_of_failure(args.epsilon, args.delta, budget)
    with withheld("The fit must end", note=cost):
        synthesizer.fit(table)
    try:
        synthesizer.save(args.output)
    except (SkdpsynthError, OSError) as error:
        error.add_note(cost)
        raise
    claim = str(synthesizer.privacy_report()).splitlines()[0]
    _say(f"{claim}. Written to {str(args.output)!r}.")


def _sample(args: argparse.Namespace) -> None:
    """Draw a synthetic table from a saved synthesizer; this costs no privacy."""
    from skdpsynth.utils.containers import write_batches

    _check_output(args)
    batches = _load(args.model).sample_batches(args.rows, random_state=args.seed)
    write_batches(args.output, batches)


def _report(args: argparse.Namespace) -> None:
    """Print what the fit of a saved synthesizer spent."""
    from skdpsynth.privacy import PrivacyReport

    print(PrivacyReport.from_dict(skdpsynth.inspect(args.model)["report"]))


def _evaluate(args: argparse.Namespace) -> None:
    """Train classifiers on synthetic rows and test them on real ones."""
    from skdpsynth.metrics import tstr_scores

    synthetic, test = _read_table(args.synthetic), _read_table(args.test)
    with withheld("The tables must be scored"):
        scores = tstr_scores(synthetic, test, target=args.target)
    _say(f"{_FOR_CURATOR}, unless the test table is public")
    print(scores.to_string())


# --- What they share --------------------------------------------------------------


def _synthesizer(
    args: argparse.Namespace, schema: TableSchema | None
) -> BaseSynthesizer:
    """Make the synthesizer asked for; a ValueError if a parameter is out of range."""
    settings = {"epsilon": args.epsilon, "delta": args.delta, "target": args.target}
    kind = getattr(skdpsynth, _SYNTHESIZERS[args.synthesizer])
    synthesizer: BaseSynthesizer = kind(**settings, schema=schema)
    synthesizer._validate_params()
    return synthesizer


def _load(path: Path) -> BaseSynthesizer:
    """Load a synthesizer of whichever class of the package the file names."""
    name = skdpsynth.inspect(path)["synthesizer"]
    if name not in _CLASSES:
        raise PersistenceError(
            f"Expected a file of a synthesizer of this package. Got a {name};"
            " load it in Python by the class that saved it."
        )
    synthesizer: BaseSynthesizer = getattr(skdpsynth, name).load(path)
    return synthesizer


def _open_budget(args: argparse.Namespace) -> skdpsynth.PrivacyBudget | None:
    """Open a budget; only one whose totals were given is made where there is none."""
    if args.budget is None:
        return None
    if args.budget_total is None:
        return skdpsynth.PrivacyBudget.open(args.budget)
    epsilon, delta = args.budget_total
    return skdpsynth.PrivacyBudget(epsilon, delta, args.budget)


def _read_schema(args: argparse.Namespace) -> TableSchema | None:
    """Read what is public; a unit of the command line comes before that of the file."""
    unit = {"privacy_unit": args.unit, "max_rows_per_unit": args.max_rows}
    unit = {name: value for name, value in unit.items() if value is not None}
    if args.schema is None and not unit:
        return None
    schema = skdpsynth.TableSchema({})
    if args.schema is not None:
        schema = skdpsynth.TableSchema.from_json(args.schema)
    return replace(schema, **unit)


def _described(args: argparse.Namespace) -> dict[Hashable, Any]:
    """Give what a schema file states of each column, also where blanks are left."""
    from skdpsynth.schema import blank_columns
    from skdpsynth.utils import read_text

    schema = _read_schema(args)
    if schema is None:
        return {}
    stated: dict[Hashable, Any] = dict(schema.columns)
    if args.schema is None:
        return stated
    for name, blank in blank_columns(read_text(args.schema)).items():
        whole = blank.get("integer", False)
        stated[name] = SimpleNamespace(tag=blank.get("kind"), integer=whole, low=None)
    return stated


def _read_table(
    path: Path,
    columns: Mapping[Hashable, Any] | None = None,
    *,
    rows: int | None = None,
    infer: bool = True,
    unchecked: bool = False,
) -> pd.DataFrame:
    """Read a table; columns of a CSV file have the dtypes that are stated.

    A Parquet file has those of its types; what pandas wrote beside them may follow from
    values.
    """
    from skdpsynth.table import read_csv

    if path.suffix.lower() == ".csv":
        return read_csv(
            path,
            columns or {},
            rows=rows,
            infer=infer,
            unchecked=unchecked,
            remedy=_NO_KINDS,
        )
    with withheld(f"{str(path)!r} must be a table that can be read"):
        from pyarrow import parquet

        from skdpsynth.utils.containers import from_arrow, index_of_pandas

        schema = parquet.ParquetFile(path).schema_arrow
        table = schema.empty_table() if rows == 0 else parquet.read_table(path)
        return from_arrow(table.drop_columns(index_of_pandas(schema)))


def _label(text: str, column: Column | None) -> Hashable:
    """Turn a label as it was typed into what a target column holds."""
    labels = getattr(column, "categories", (True, False))
    known = {str(label): label for label in labels}
    return known.get(text, int(text) if text.lstrip("-").isdigit() else text)


def _check_output(args: argparse.Namespace) -> None:
    """Refuse a file that cannot be written, before anything is spent on it."""
    path = args.output
    if path is None:
        return
    names = ("table", "schema", "budget", "model")
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
    """Say warnings of the package only: others may hold a value."""
    if category.__module__ == SkdpsynthError.__module__:
        _say(f"warning: {message}")


def _say(words: str) -> None:
    print(f"skdpsynth: {words}", file=sys.stderr)


# --- Arguments --------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skdpsynth",
        description="Differentially private synthetic tables. TABLE is a CSV or a"
        " Parquet file; exit codes are 0, 1 for an error, and 2 for wrong usage.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        name, words = run.__name__.removeprefix("_"), run.__doc__
        made = commands.add_parser(name, help=words, description=words)
        made.set_defaults(run=run)
        return made

    made = command(_schema)
    made.add_argument("table", metavar="TABLE", type=_table_path)
    _add_output(made, Path, required=False)

    made = command(_check)
    made.add_argument("table", metavar="TABLE", type=_table_path)
    made.add_argument("--schema", type=Path, required=True)

    made = command(_plan)
    made.add_argument("table", metavar="TABLE", type=_table_path, nargs="?")
    _add_settings(made)
    made.add_argument("--rows", type=int, metavar="N", help="a guess of their number")
    made.add_argument(
        "--class-count",
        type=_class_count,
        nargs="+",
        action="extend",
        default=[],
        metavar="LABEL=N",
        help="a guess of the rows of every class",
    )

    made = command(_fit)
    made.add_argument("table", metavar="TABLE", type=_table_path)
    _add_settings(made)
    made.add_argument(
        "--infer-dtypes",
        action="store_true",
        help="find dtypes of CSV columns that the schema leaves out by looking at"
        " their values: only where they are public",
    )
    made.add_argument("--budget", type=Path, help="SQLite file that several fits share")
    made.add_argument(
        "--budget-total",
        type=float,
        nargs=2,
        metavar=("EPSILON", "DELTA"),
        help="its totals; a budget file that is absent is made only with them",
    )
    _add_output(made, Path)

    made = command(_sample)
    made.add_argument("model", metavar="MODEL", type=Path)
    made.add_argument("-n", dest="rows", type=int, required=True, metavar="N")
    made.add_argument("--seed", type=int, help="an int draws the same rows again")
    _add_output(made, _table_path)

    command(_report).add_argument("model", metavar="MODEL", type=Path)

    made = command(_evaluate)
    made.add_argument("--synthetic", type=_table_path, required=True)
    made.add_argument("--test", type=_table_path, required=True)
    made.add_argument("--target", required=True)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", type=Path, help="JSON, see the command schema")
    parser.add_argument("--target", help="the label column")
    parser.add_argument(
        "--unit",
        metavar="COLUMN",
        help="the column that says whose a row is: persons are protected, not rows",
    )
    parser.add_argument(
        "--max-rows",
        type=int,
        metavar="K",
        help="rows of one person that take part, at most; with --unit",
    )
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument(
        "--synthesizer",
        type=lambda name: name.replace("-", ""),
        choices=_SYNTHESIZERS,
        default="GPATE",
        help="one of %(choices)s; hyphens as in G-PATE are ignored",
        metavar="NAME",
    )


def _add_output(
    parser: argparse.ArgumentParser, kind: Callable[[str], Path], required: bool = True
) -> None:
    parser.add_argument("-o", "--output", type=kind, required=required)
    parser.add_argument("--force", action="store_true", help="replace the output file")


def _table_path(text: str) -> Path:
    if Path(text).suffix.lower() not in (".csv", ".parquet"):
        msg = f"expected a file named .csv or .parquet, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return Path(text)


def _class_count(text: str) -> tuple[str, int]:
    label, _, count = text.rpartition("=")
    if not label or not count.isdigit():
        raise argparse.ArgumentTypeError(f"expected LABEL=ROWS, got {text!r}")
    return label, int(count)


if __name__ == "__main__":
    sys.exit(main())
