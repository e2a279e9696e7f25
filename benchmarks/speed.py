"""Seconds and memory of every synthesizer, as tables grow, and against another commit.

Every measurement is a process of its own. With ``--against`` the same script measures
that commit too, in turn with this code, and the ratio is one of medians. Run ``python
benchmarks/speed.py --short`` (minutes), or choose ``--parts``; runs and a page of
tables are written to benchmarks/results, where those of other parts stay as they are.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from _common import DATA, RESULTS, SYNTHESIZERS, code_state, markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LINEAR = ("independent", "marginals", "G-PATE")
# What is measured, of which table; `grows` names what changes in its series.
CASE = ["part", "what", "synthesizer", "table", "rows", "columns", "grows"]
COSTS = ["wall_s", "cpu_s", "peak_gb"]
_RUN = [*CASE, "code", "state", "threads", "status", *COSTS]


def cases(part: str, short: bool) -> Iterator[tuple]:
    """List what is measured, as values of `CASE`."""
    many = 3_000 if short else 10_000
    if part == "all":
        for name in SYNTHESIZERS:
            yield part, "fit", name, "mixed", many, 10, ""
            if not short:
                yield part, "sample", name, "mixed", 100_000, 10, ""
    for name in LINEAR:
        for power in (4, 5) if short else (4, 5, 6, 7):
            if part == "rows":
                yield part, "fit", name, "mixed", 10**power, 15, "rows"
                yield part, "sample", name, "mixed", 10**power, 15, "rows"
        for columns in (10, 30) if short else (10, 30, 100, 300):
            if part == "columns":
                yield part, "fit", name, "mixed", 10_000, columns, "columns"
                yield part, "sample", name, "mixed", 100_000, columns, "columns"
    if part == "kaggle":
        yield part, "fit", "G-PATE", "creditcard", 0, 0, ""
        for power in (6,) if short else (5, 6, 7):
            yield part, "sample", "G-PATE", "creditcard", 10**power, 0, "rows"
    if part == "parquet":
        for power in (5,) if short else (5, 6, 7):
            for name in LINEAR[:2]:
                yield part, "fit", name, "parquet", 10**power, 15, "rows"
            if power > 5:
                yield part, "fit", "marginals", "dask", 10**power, 15, "rows"


PARTS = ("all", "rows", "columns", "kaggle", "parquet")


def run(case: tuple, root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure once; what takes too long or fails gives a row that says so."""
    given = dict(zip(CASE, case, strict=True)) | {"threads": options.threads}
    given |= {"root": str(root), "data": str(options.data)}
    given["synthesizer"] = SYNTHESIZERS[given["synthesizer"]]
    script = Path(__file__).with_name("_speed_case.py")
    environment = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": str(options.threads)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(script), json.dumps(given)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=options.limit,
        )
    except subprocess.TimeoutExpired:
        return {"status": f"over {options.limit:g} s"}
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return {"status": said[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def checkouts(against: str | None) -> Iterator[dict[str, Path]]:
    """Yield the folders of the codes to measure; another commit's is temporary."""
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


def page(runs: pd.DataFrame) -> str:
    """Write medians over the repeats, ratios of the codes, and exponents of growth."""
    runs = runs.fillna({"grows": ""})
    codes = [*dict.fromkeys(runs["code"])]
    others = [code for code in codes if code != "here"]
    lines = [
        [*CASE[:-1], "wall s", "CPU s", "peak GB", *map("ratio to {}".format, others)]
    ]
    for case, own in runs[runs["status"] == "ok"].groupby(CASE, sort=False):
        of_code = dict(list(own.groupby("code")))
        here = of_code.get("here", own.iloc[:0])
        cells = [f"{here[cost].median():.3g}" for cost in COSTS]
        ratios = [_ratio(here["wall_s"], of_code.get(code)) for code in others]
        lines.append([*map(str, case[:-1]), *cells, *ratios])
    growth = [["series", "grows", *codes]]
    for grows in ("rows", "columns"):
        own = runs[runs["grows"] == grows]
        keys = [key for key in CASE[:-1] if key != grows]
        for series, group in own.groupby(keys, sort=False):
            found = [_exponent(group[group["code"] == code], grows) for code in codes]
            growth.append([", ".join(map(str, series)), grows, *found])
    told = "Exponents of growth: log wall seconds over log size, the two largest sizes"
    return f"{markdown(lines)}\n\n{told}\n\n{markdown(growth)}\n"


def _ratio(ours: pd.Series, other: pd.DataFrame | None) -> str:
    """Write the ratio of the median wall seconds, and of the extremes."""
    if other is None or ours.empty:
        return "-"
    theirs = other["wall_s"]
    low, high = ours.min() / theirs.max(), ours.max() / theirs.min()
    return f"{ours.median() / theirs.median():.2f} ({low:.2f} to {high:.2f})"


def _exponent(runs: pd.DataFrame, grows: str) -> str:
    """Compute it where the constant cost, which would hide growth, counts least."""
    medians = runs.groupby(grows)["wall_s"].median().dropna().tail(2)
    if len(medians) < 2:
        return "-"
    (small, large), (less, more) = medians.index, medians
    return f"{math.log(more / less) / math.log(large / small):.2f}"


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
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{options.name}.csv"
    runs = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=_RUN)
    runs = runs[~runs["part"].isin(options.parts)]
    measured = [case for part in options.parts for case in cases(part, options.short)]
    with checkouts(options.against) as codes:
        for case in measured:
            for code, root in [*codes.items()] * options.repeats:
                row = dict(zip(CASE, case, strict=True))
                row |= {"code": code, "state": code_state(), "threads": options.threads}
                row |= run(case, root, options)
                costs = (f"{k}={row[k]:.3g}" for k in COSTS if k in row)
                print(*case, code, row["status"], *costs, flush=True)
                # At once, so that an interruption loses nothing.
                runs = pd.concat([runs, pd.DataFrame([row])], ignore_index=True)
                runs.to_csv(file, index=False)
    text = page(runs)
    file.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
