"""The tables of the papers: every synthesizer, the floor and the real data.

Run ``python benchmarks/paper_tables.py``. What benchmarks/results/paper_tables.csv has
for the code as it is now is skipped; docs/results.md is written from that file at the
end, or alone with ``--render-only``.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import platform
import re
import subprocess
import sys
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from _common import (
    FLOOR,
    REAL,
    SYNTHESIZERS,
    WRITTEN,
    code_state,
    error_text,
    fit_and_sample,
    make_synthesizer,
    read_rows,
    run_missing,
)
from _page import render
from _tables import DATA, DELTA, TABLES, PaperTable, real_rows

import skdpsynth
from skdpsynth.exceptions import DegradedResultWarning

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "paper_tables.csv"
NOTES = ROOT / "benchmarks" / "results" / "notes.md"
PAGE = ROOT / "docs" / "results.md"

KEYS = ["table", "synthesizer", "epsilon", "seed", "code"]
SCORES = ["auroc", "auprc"]
COSTS = ["certified_epsilon", "fit_s", "peak_gb", "sample_s", "score_s"]
NOTED = ["by_classifier", "warning", "error", "date", "commit", "packages"]
COLUMNS = [*KEYS, *SCORES, *COSTS, *NOTED]

Key = tuple[str, str, float, int, str]
_NOT_PRIVATE = ("GAN", REAL)
# What saves and words a fit changes no row.
_AFTER_A_FIT = re.compile(r"/skdpsynth/(persistence/|privacy/_report)")
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch", "opacus", "xgboost")


def main() -> None:
    """Run what is missing, and write the page."""
    options = _options()
    if options.one is not None:
        name, synthesizer, seed = options.one
        print(json.dumps(run(name, synthesizer, int(seed), options.data)))
        return
    if not options.render_only:
        keys = wanted(options.tables, options.synthesizers, options.seeds)
        # Each run is a process of its own: its peak of memory is its own, and one
        # that the system kills takes no other with it.
        run_missing(
            partial(_run_apart, options=options),
            *(keys, options.csv, KEYS, COLUMNS, options.jobs),
            pool=ThreadPoolExecutor(options.jobs),
            again=options.fresh,
        )
    rows = current(read_rows(options.csv, COLUMNS))
    if options.prune:
        rows.to_csv(options.csv, **WRITTEN)
    notes = NOTES.read_text(encoding="utf-8") if NOTES.exists() else ""
    codes = {name: code_of(name) for name in (REAL, *SYNTHESIZERS) if _exists(name)}
    PAGE.write_text(render(TABLES, rows, notes, codes), encoding="utf-8")
    print(f"wrote {PAGE}")


def wanted(tables: list[str], names: list[str], n_seeds: int | None) -> list[Key]:
    """List the runs, seed by seed, so that an early end leaves all tables alike."""
    absent = {name for name in names if not _exists(name)}
    for name in sorted(absent):
        print(f"skipped {name}: skdpsynth has no {SYNTHESIZERS[name]} yet")
    seeds = {table: n_seeds or TABLES[table].n_seeds for table in tables}
    return [
        (table, name, _epsilon(TABLES[table], name), seed, code_of(name))
        for seed in range(max(seeds.values()))
        for table in tables
        for name in names
        if seed < seeds[table]
        and name in TABLES[table].synthesizers
        and name not in absent
    ]


def run(name: str, synthesizer: str, seed: int, data: Path) -> dict[str, object]:
    """Do one run; what fails gives a row with its error.

    Parameters
    ----------
    name, synthesizer : str
        Keys of `TABLES` and of `SYNTHESIZERS`, or "real data".
    seed : int
        Of the split, of sampling and of what is public; never of the noise.
    data : Path
        Folder of the tables.

    Returns
    -------
    dict
        One row of the file of results.
    """
    table = TABLES[name]
    epsilon = _epsilon(table, synthesizer)
    values = (name, synthesizer, epsilon, seed, code_of(synthesizer))
    row: dict[str, object] = dict(zip(KEYS, values, strict=True))
    row |= {"commit": code_state(), "packages": _packages()}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DegradedResultWarning)
            row |= measure(table, synthesizer, epsilon, seed, data)
        ours = [w for w in caught if issubclass(w.category, DegradedResultWarning)]
        row["warning"] = " ".join(dict.fromkeys(str(w.message) for w in ours))[:300]
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    row["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return row


def measure(
    table: PaperTable, synthesizer: str, epsilon: float, seed: int, data: Path
) -> dict[str, object]:
    """Load, fit, sample and score."""
    from skdpsynth.metrics import tstr_scores

    train, test = table.load(data, seed)
    row: dict[str, object] = {}
    if synthesizer == REAL:
        rows = real_rows(table, train, seed)
    else:
        model = make_synthesizer(
            synthesizer,
            epsilon=epsilon,
            delta=DELTA,
            target=table.target,
            schema=table.schema,
            random_state=seed,
        )
        rows, costs = fit_and_sample(model, train, table.n_samples, table.class_counts)
        row |= costs | {"certified_epsilon": getattr(model, "epsilon_", math.inf)}
    del train
    start = time.perf_counter()
    panel = None if table.panel is None else table.panel()
    scores = tstr_scores(rows, test, target=table.target, classifiers=panel)
    row["score_s"] = time.perf_counter() - start
    row["auroc"], row["auprc"] = map(float, scores.loc["mean"])
    row["by_classifier"] = " ".join(
        f"{name}={pair.auroc:.4f}/{pair.auprc:.4f}"
        for name, pair in scores.drop(index="mean").iterrows()
    )
    return row


def current(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep, for each table and synthesizer, the rows of the code that ran last.

    Of several rows with one key the last is kept.
    """
    rows = rows.drop_duplicates(KEYS, keep="last")
    groups = rows.groupby(["table", "synthesizer", "epsilon"])
    newest = groups["code"].transform("last")
    return rows[rows["code"] == newest]


@cache
def code_of(synthesizer: str) -> str:
    """Name the state of all code that a run of a synthesizer depends on.

    A digest of its module, of the scores, of the tables, and of what these import,
    without comments and docstrings, and without what is done with a fit later on: work
    on one synthesizer, on a page or on a test leaves the rows of the others valid,
    which a commit's name would not.
    """
    package = Path(skdpsynth.__file__).parent
    todo = [Path(__file__).with_name("_tables.py"), package / "metrics" / "_tstr.py"]
    if synthesizer != REAL:
        name = f"class {SYNTHESIZERS[synthesizer]}("
        files = (package / "synthesizers").glob("*.py")
        todo += [file for file in files if name in file.read_text(encoding="utf-8")]
    known: dict[Path, str] = {}
    while todo:
        path = todo.pop()
        if path not in known:
            known[path], modules = _read_code(path.read_text(encoding="utf-8"))
            todo += _files_of(modules, package)
    # By their text, so that it does not matter where the project lies.
    text = "\n".join(sorted(known.values()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _read_code(text: str) -> tuple[str, frozenset[str]]:
    """Give a file's code without comments and docstrings, and what it imports."""
    tree = ast.parse(text)
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
            modules |= {node.module}
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            body[0] = ast.Pass()
    return ast.unparse(tree), frozenset(modules)


def _files_of(modules: frozenset[str], package: Path) -> list[Path]:
    """List the files of the package, and of the tables beside this one."""
    # Not the lazy table of all names, which leads to every synthesizer.
    names = modules - {"skdpsynth"}
    stems = [package.parent / name.replace(".", "/") for name in names]
    files = [stem.with_suffix(".py") for stem in stems]
    files += [stem / "__init__.py" for stem in stems]
    beside = Path(__file__).parent
    files += [beside / f"{name}.py" for name in ("adult", "kaggle_credit")]
    return [f for f in files if f.is_file() and not _AFTER_A_FIT.search(f.as_posix())]


def _run_apart(key: Key, options: argparse.Namespace) -> dict[str, object]:
    """Do one run in a process of its own."""
    name, synthesizer, _, seed, _ = key
    command = [sys.executable, __file__, "--data", str(options.data)]
    command += ["--one", name, synthesizer, str(seed)]
    row: dict[str, object] = dict(zip(KEYS, key, strict=True))
    row |= {"commit": code_state(), "packages": _packages()}
    row["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=options.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return row | {"error": f"TimeoutError: not done in {options.timeout} seconds"}
    if done.returncode:
        return row | {"error": f"the process ended with code {done.returncode}"}
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def _exists(name: str) -> bool:
    return name == REAL or SYNTHESIZERS[name] in skdpsynth.__all__


def _epsilon(table: PaperTable, name: str) -> float:
    return math.inf if name in _NOT_PRIVATE else table.epsilon


def _packages() -> str:
    found = [f"python={platform.python_version()}"]
    for name in _PACKAGES:
        for distribution in (name, f"{name}-cpu"):
            try:
                found.append(f"{distribution}={version(distribution)}")
            except PackageNotFoundError:
                continue
    return " ".join(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [REAL, FLOOR, *(name for name in SYNTHESIZERS if name != FLOOR)]
    add("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    add("--synthesizers", nargs="+", choices=names, default=names)
    add("--seeds", type=int, help="number of seeds (3 or 5, as the table has it)")
    add("--jobs", type=int, default=1, help="runs at the same time")
    add("--fresh", action="store_true", help="do again what is there")
    add("--prune", action="store_true", help="drop the rows of older code")
    add("--render-only", action="store_true", help="only write docs/results.md")
    add("--timeout", type=float, default=7200, help="seconds that one run may take")
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS, help="file of results")
    add("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
