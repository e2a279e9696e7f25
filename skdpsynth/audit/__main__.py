"""The command line of audits: ``python -m skdpsynth.audit replay``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from skdpsynth.audit._odd_tables import ALL_SOURCES, odd_tables
from skdpsynth.audit._replay import PLACES, SYNTHESIZERS, replay
from skdpsynth.exceptions import SkdpsynthError

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """\
Fits tables that differ in one row, with equal secrets and equal releases, and compares
the exact statistics with the sensitivities that were reserved, and all else for
equality. One line per pair; the number at its end is the largest shift of a release,
over its sensitivity. By default all synthesizers are fitted to every table as a pandas
DataFrame, and Independent and GPATE in every source. Exit code 1 on a finding, 2 on
arguments that make no sense and where no pair was tried.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 for a finding, or 2 for an error or without a pair."""
    args = _parser().parse_args(argv)
    source = args.source if args.source in (None, "all") else args.source.split(",")
    try:
        found = replay(
            args.synthesizer,
            args.table,
            source=source,
            rows=args.rows.split(","),
            minutes=args.minutes,
            twins=not args.no_twins,
            n_jobs=args.jobs,
            tell=lambda made: print(made, flush=True),
        )
    except (SkdpsynthError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json is not None:
        # Also what UTF-8 cannot hold, as escapes.
        text = json.dumps(found.to_dict(), indent=1) + "\n"
        args.json.write_text(text, encoding="utf-8", newline="\n")
    print(found)
    return 1 if found.violated else 0 if found.pairs else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m skdpsynth.audit")
    commands = parser.add_subparsers(required=True, metavar="command")
    own = commands.add_parser(
        "replay", help="replay fits without a row", description=_HELP
    )
    names, tables = "; ".join(SYNTHESIZERS), ", ".join(odd_tables())
    own.add_argument(
        "--synthesizer", metavar="NAME", help=f"all by default, else by name: {names}"
    )
    own.add_argument(
        "--table", metavar="NAME", help=f"a CSV or Parquet file, or one of: {tables}"
    )
    own.add_argument(
        "--source",
        metavar="NAMES",
        help=f"all, or some of {','.join(ALL_SOURCES)}, for every synthesizer; by "
        "default pandas, and all for two synthesizers where none is named and no table",
    )
    own.add_argument(
        "--rows",
        metavar="PLACES",
        default=",".join(PLACES),
        help="where rows are added and removed (%(default)s)",
    )
    own.add_argument("--minutes", type=float, help="stop after so long")
    own.add_argument("--json", type=Path, metavar="FILE", help="write all pairs there")
    jobs = min(2, os.cpu_count() or 1)
    own.add_argument("--jobs", type=int, default=jobs, help="processes (%(default)s)")
    own.add_argument(
        "--no-twins", action="store_true", help="do not try what is broken on purpose"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
