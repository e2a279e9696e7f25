"""The command behind `make replay`: every pair and twin, a line each."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

import joblib
from replay.matrix import SYNTHESIZERS, all_pairs_of, findings_of_twin, groups, is_seen
from replay.odd_tables import ALL_SOURCES, odd_tables
from replay.twins import TWINS


def main(argv: Sequence[str] | None = None) -> int:
    """Replay all, or some; return 0, or 1 for a finding and where nothing was tried."""
    start = time.monotonic()
    args = _parser().parse_args(argv)
    sources = args.source and (ALL_SOURCES if args.source == "all" else [args.source])
    tried = groups(args.synthesizer, args.table, sources)
    outcomes: Counter[str] = Counter()
    run = joblib.delayed(all_pairs_of)
    with joblib.Parallel(n_jobs=args.jobs, return_as="generator") as parallel:
        made = parallel(run(group) for group in tried)
        for group, found in zip(tried, made, strict=True):
            where = f"{group.name:22} {group.table.name:20} {group.source:7}"
            for pair in found:
                print(f"{pair.outcome:8} {where} {pair}", flush=True)
            outcomes.update(pair.outcome for pair in found)
    unseen = []
    for name in () if args.no_twins else TWINS:
        seen = is_seen(name, findings_of_twin(name))
        unseen += [] if seen else [name]
        print(f"{'seen' if seen else 'NOT SEEN'} twin: {name}", flush=True)
    print(
        f"{outcomes.total()} pairs ({dict(outcomes)}); {len(unseen)} twins not seen;"
        f" {time.monotonic() - start:.0f} seconds"
    )
    return int(bool(unseen) or bool(outcomes["finding"]) or not outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make replay ARGS=")
    parser.add_argument("--synthesizer", help=", ".join(SYNTHESIZERS))
    parser.add_argument("--table", choices=odd_tables())
    parser.add_argument("--source", choices=[*ALL_SOURCES, "all"])
    jobs = min(2, os.cpu_count() or 1)
    parser.add_argument("--jobs", type=int, default=jobs, help="%(default)s processes")
    parser.add_argument("--no-twins", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
