"""Seconds and memory of every synthesizer, as tables grow, and against another commit.

Every measurement is a process of its own. With ``--against`` the same script measures
that commit too, in turn with this code, and the ratio is one of medians. The matrix
products that a fit asks torch for are timed alone, in the same shapes: what the machine
needs at least. Run ``python benchmarks/speed.py --short`` (minutes), or choose
``--parts``; runs and a page of tables are written to benchmarks/results, where those
of other parts stay as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _common import RESULTS, SYNTHESIZERS, code_state
from dependence import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CASE = Path(__file__).with_name("_speed_case.py")
LINEAR = ("independent", "marginals", "G-PATE")
_COSTS = ("wall_s", "cpu_s", "peak_gb", "product_s", "gflop")
_COLUMNS = ["case", "code", "state", "threads", "status", *_COSTS]


@dataclass(frozen=True)
class Case:
    """What is measured, of which table; `grows` names what changes in its series."""

    part: str
    what: str
    synthesizer: str
    table: str
    rows: int
    columns: int
    options: dict[str, Any] = field(default_factory=dict)
    grows: str = ""

    @property
    def series(self) -> tuple[str, ...]:
        """What is the same in the cases that one exponent is fitted to."""
        sizes = {"rows": self.rows, "columns": self.columns}
        same = [f"{k} {v:,}" for k, v in sizes.items() if k != self.grows and v]
        given = [f"{k}={v}" for k, v in self.options.items() if k != self.grows]
        return (
            self.part,
            self.what,
            self.synthesizer,
            self.table,
            ", ".join(same + given),
        )

    @property
    def size(self) -> int:
        """The number that grows."""
        sizes = {"rows": self.rows, "columns": self.columns, **self.options}
        return int(sizes.get(self.grows, self.rows))


def cases(parts: list[str], *, short: bool) -> list[Case]:
    """List what is measured."""
    return [case for part in parts for case in PARTS[part](short)]


def _all(short: bool) -> Iterator[Case]:
    for name in SYNTHESIZERS:
        for what in ("plan", "fit", "save", "load"):
            if short and (name == "GAN" or (what != "fit" and name != "G-PATE")):
                continue
            if (name, what) != ("GAN", "plan"):  # it has no budget to plan
                yield Case("all", what, name, "mixed", 3_000 if short else 10_000, 10)
        if not short:
            yield Case("all", "sample", name, "mixed", 100_000, 10)
    yield Case("all", "tstr", "independent", "mixed", 3_000 if short else 10_000, 10)


def _rows(short: bool) -> Iterator[Case]:
    for name in LINEAR:
        for power in (4, 5) if short else (4, 5, 6, 7):
            yield Case("rows", "fit", name, "mixed", 10**power, 15, grows="rows")
        for power in (5, 6) if short else (4, 5, 6, 7):
            yield Case("rows", "sample", name, "mixed", 10**power, 15, grows="rows")


def _columns(short: bool) -> Iterator[Case]:
    for name in LINEAR[1:] if short else LINEAR:
        for columns in (10, 30) if short else (10, 30, 100, 300):
            rows = 10_000
            yield Case("columns", "fit", name, "mixed", rows, columns, grows="columns")
            if not short:
                given = ("columns", "sample", name, "mixed", 100_000, columns)
                yield Case(*given, grows="columns")


def _teachers(short: bool) -> Iterator[Case]:
    rows = 20_000 if short else 100_000
    for teachers in (100, 1_000) if short else (100, 1_000, 10_000):
        options = {"init": "marginals", "hidden_dims": [32], "n_iter": 4}
        options |= {"n_teachers": teachers}
        for what in ("fit", "products"):
            case = ("teachers", what, "G-PATE", "balanced", rows, 21, options)
            yield Case(*case, grows="n_teachers")


def _named(short: bool) -> Iterator[Case]:
    if short:
        return
    for what in ("fit", "products"):
        yield Case("named", what, "G-PATE", "balanced", 300_000, 21)
        yield Case("named", what, "marginals", "mixed", 10**6, 30)
        yield Case("named", what, "G-PATE", "mixed", 10**6, 30)
        yield Case("named", what, "G-PATE", "adult", 0, 0)


def _kaggle(short: bool) -> Iterator[Case]:
    if not short:
        yield Case("kaggle", "fit", "G-PATE", "creditcard", 0, 0)
        yield Case("kaggle", "products", "G-PATE", "creditcard", 0, 0)
    for power in (6,) if short else (5, 6, 7):
        given = ("kaggle", "sample", "G-PATE", "creditcard", 10**power, 0)
        yield Case(*given, grows="rows")


def _parquet(short: bool) -> Iterator[Case]:
    for name in ("marginals",) if short else ("independent", "marginals"):
        for power in (5,) if short else (5, 6, 7):
            for table in ("parquet",) if short else ("parquet", "persons", "dask"):
                if table == "dask" and (power == 5 or name != "marginals"):
                    continue
                yield Case("parquet", "fit", name, table, 10**power, 15, grows="rows")


PARTS = {
    "all": _all,
    "rows": _rows,
    "columns": _columns,
    "teachers": _teachers,
    "named": _named,
    "kaggle": _kaggle,
    "parquet": _parquet,
}


def run(case: Case, root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure once; what takes too long or fails gives a row that says so."""
    given = asdict(case) | {"root": str(root), "data": str(options.data)}
    given |= {"synthesizer": SYNTHESIZERS[case.synthesizer], "threads": options.threads}
    command = [sys.executable, "-P", str(CASE), json.dumps(given)]
    threads = str(options.threads)
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": threads}
    row: dict[str, Any] = {"threads": options.threads}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=options.limit,
        )
    except subprocess.TimeoutExpired:
        return row | {"status": f"over {options.limit:g} s"}
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return row | {"status": said[-1][:200]}
    return row | json.loads(done.stdout.splitlines()[-1])


@contextmanager
def checkouts(against: str | None) -> Iterator[dict[str, Path]]:
    """Give the folders of the codes to measure; another commit's is temporary."""
    if against is None:
        yield {"here": ROOT}
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "code"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(other), against], check=True)
        # Also if it is asked to end, as by timeout(1).
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
        try:
            yield {"here": ROOT, against: other}
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)


def runs_of_other_parts(file: Path, parts: list[str]) -> pd.DataFrame:
    """Read the runs of a file that are of other parts than those to be measured."""
    if not file.exists():
        return pd.DataFrame()
    runs = pd.read_csv(file)
    own = [json.loads(key)["part"] in parts for key in runs["case"]]
    return runs[~np.array(own, dtype=bool)]


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Give the slope of log seconds over log size, between the two largest sizes.

    There the constant cost, which would hide growth, counts least.
    """
    (small, large), (less, more) = sizes[-2:], seconds[-2:]
    return math.log(more / less) / math.log(large / small)


def page(measured: list[Case], runs: pd.DataFrame, codes: list[str]) -> str:
    """Write the tables, of medians over the repeats."""
    other = codes[1] if len(codes) > 1 else None
    head = [
        "part",
        "what",
        "synthesizer",
        "table",
        "size",
        "wall s",
        "CPU s",
        "peak GB",
    ]
    head += [f"ratio to {other} (spread)"] if other else []
    lines = [_line(head), _line(["---"] * len(head))]
    timed = [case for case in measured if case.what != "products"]
    for case in timed:
        own = _of(runs, case, "here")
        cells = [case.part, case.what, case.synthesizer, case.table, _size(case)]
        cells += _medians(own)
        cells += [_ratio(own, _of(runs, case, other), other)] if other else []
        lines.append(_line(cells))
    lines += [
        "",
        "Exponents of growth: the slope of log wall seconds over log size, between",
        "the two largest sizes",
        "",
    ]
    lines += [_line(["series", "grows", *codes]), _line(["---"] * (2 + len(codes)))]
    for series in dict.fromkeys(case.series for case in timed if case.grows):
        group = [case for case in timed if case.series == series and case.grows]
        cells = [", ".join(filter(None, series)), group[0].grows]
        lines.append(_line(cells + [_exponent(group, runs, code) for code in codes]))
    lines += ["", "Matrix products of a fit, alone and in the same shapes", ""]
    head = ["part", "synthesizer", "table", "size", "code", "GFLOP", "products s"]
    head += ["GFLOP/s of products", "fit s", "share"]
    lines += [_line(head), _line(["---"] * len(head))]
    for case in measured:
        for code in codes if case.what == "products" else ():
            lines += _share(case, runs, code)
    return "\n".join(lines) + "\n"


def _share(case: Case, runs: pd.DataFrame, code: str) -> list[str]:
    """Write which share of a fit its matrix products take."""
    own, fit = _of(runs, case, code), _of(runs, case, code, what="fit")
    if own.empty or fit.empty:
        return []
    alone, work = own["product_s"].median(), own["gflop"].median()
    seconds = fit["wall_s"].median()
    numbers = [work, alone, work / alone if alone else math.nan, seconds]
    cells = [case.part, case.synthesizer, case.table, _size(case), code]
    return [_line([*cells, *(f"{n:.3g}" for n in numbers), f"{alone / seconds:.0%}"])]


def _exponent(group: list[Case], runs: pd.DataFrame, code: str) -> str:
    found = [(case.size, _of(runs, case, code)["wall_s"].median()) for case in group]
    found = [(size, seconds) for size, seconds in found if seconds == seconds]
    if len(found) < 2:
        return "-"
    return f"{exponent(*map(list, zip(*found, strict=True))):.2f}"


def _of(
    runs: pd.DataFrame, case: Case, code: str, *, what: str | None = None
) -> pd.DataFrame:
    """Give the runs of a case that were measured."""
    same = (runs["case"] == _key(case, what)) & (runs["code"] == code)
    return runs[same & (runs["status"] == "ok")]


def _key(case: Case, what: str | None = None) -> str:
    return json.dumps(asdict(case) | ({"what": what} if what else {}), sort_keys=True)


def _medians(own: pd.DataFrame) -> list[str]:
    columns = ("wall_s", "cpu_s", "peak_gb")
    return [f"{own[name].median():.3g}" if len(own) else "-" for name in columns]


def _ratio(own: pd.DataFrame, others: pd.DataFrame, other: str) -> str:
    """Give the ratio of the median wall seconds, and of the extremes."""
    if own.empty or others.empty:
        return "-" if own.empty else f"not in {other}"
    ours, theirs = own["wall_s"], others["wall_s"]
    low, high = ours.min() / theirs.max(), ours.max() / theirs.min()
    return f"{ours.median() / theirs.median():.2f} ({low:.2f} to {high:.2f})"


def _size(case: Case) -> str:
    sizes = [f"{case.rows:,} rows"] * (case.rows > 0)
    sizes += [f"{case.columns} columns"] * (case.columns > 0)
    return ", ".join([*sizes, *(f"{k}={v}" for k, v in case.options.items())])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--short", action="store_true", help="few and small cases: minutes")
    add("--against", help="a commit that is measured too")
    add("--repeats", type=int, default=1, help="runs of each case, codes in turn")
    add("--limit", type=float, default=600, help="seconds that a run may take")
    add("--threads", type=int, default=os.cpu_count() or 1, help="of each run")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--name", default="speed", help="of the files in benchmarks/results")
    options = parser.parse_args()
    measured, rows = cases(options.parts, short=options.short), []
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{options.name}.csv"
    others = runs_of_other_parts(file, options.parts)
    with checkouts(options.against) as codes:
        for case in measured:
            for _ in range(options.repeats):
                for code, root in codes.items():
                    row = {"case": _key(case), "code": code, "state": code_state()}
                    row |= run(case, root, options)
                    rows.append(row)
                    costs = (f"{k}={row[k]:.3g}" for k in _COSTS if k in row)
                    words = (case.part, case.what, case.synthesizer, _size(case), code)
                    print(*words, row["status"], *costs, flush=True)
                    # At once, so that an interruption loses nothing.
                    runs = pd.concat([others, pd.DataFrame(rows)], ignore_index=True)
                    runs = runs.reindex(columns=_COLUMNS)
                    runs.to_csv(file, index=False)
    there = [Case(**json.loads(key)) for key in dict.fromkeys(runs["case"])]
    text = page(there, runs, [*dict.fromkeys(runs["code"])])
    file.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
