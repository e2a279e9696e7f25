"""What the benchmarks share: one run in a process of its own, and the summary."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import time
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from skdpsynth.utils import peak_megabytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skdpsynth.base import BaseSynthesizer

EPSILON, DELTA = 1.0, 1e-5
REAL = "real data"
FLOOR = "independent"
SYNTHESIZERS = {
    "marginals": "MarginalSynthesizer",
    "G-PATE": "GPATESynthesizer",
    FLOOR: "IndependentSynthesizer",
    "PATE-GAN": "PATEGANSynthesizer",
    "DP-CGAN": "DPCGANSynthesizer",
    "PATE-TripleGAN": "PATETripleGANSynthesizer",
    "DPGAN": "DPGANSynthesizer",
    "GAN": "GANSynthesizer",
}
RESULTS = Path(__file__).parent / "results"
WRITTEN = {"index": False, "float_format": "%.6g"}
_LONG = ("by_classifier", "date")  # too long for a line
_TEXTS = ("code", "error", *_LONG)  # also where they look like numbers


def split_rows(
    table: pd.DataFrame, target: str, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split 80/20, with every class in both parts alike."""
    train, test = train_test_split(
        table, test_size=0.2, stratify=table[target], random_state=seed
    )
    return train.reset_index(drop=True), test.reset_index(drop=True)


def run_missing(
    task: Callable[[tuple], dict[str, object]],
    wanted: Sequence[tuple],
    path: Path,
    keys: list[str],
    columns: list[str],
    jobs: int,
    *,
    pool: Executor | None = None,
    again: bool = False,
) -> pd.DataFrame:
    """Do the runs that a file of results has not yet, and add them to it.

    Parameters
    ----------
    task : callable
        Map from a key to one row of the file.
    wanted : sequence of tuple
        Keys of the runs.
    path : Path
        The file of results, whether it exists or not.
    keys, columns : list of str
        Those of its columns that are the key, and all of them.
    jobs : int
        Runs at the same time, each in a process of its own.
    pool : Executor or None
        Where they are done instead.
    again : bool
        Whether to do those too that the file has.

    Returns
    -------
    DataFrame
        The rows that were wanted.
    """
    done = read_rows(path, columns)
    known = set() if again else {*done[keys].itertuples(index=False, name=None)}
    missing = [key for key in wanted if key not in known]
    print(f"{len(wanted) - len(missing)} runs are there, {len(missing)} to do")
    path.parent.mkdir(exist_ok=True)
    use_one_thread()
    if pool is None:
        # A fresh process per run: its peak of memory is its own.
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1)
    try:
        for future in as_completed([pool.submit(task, key) for key in missing]):
            row = future.result()
            line = pd.DataFrame([row], columns=columns)
            line.to_csv(path, mode="a", header=not path.exists(), **WRITTEN)
            shown = [key for key in columns if row.get(key) and key not in _LONG]
            print(*(f"{key}={_short(row[key])}" for key in shown), flush=True)
    finally:  # an interruption does not wait for what has not begun
        pool.shutdown(cancel_futures=True)
    done = read_rows(path, columns)
    mask = [key in set(wanted) for key in done[keys].itertuples(index=False, name=None)]
    return done[mask]


def read_rows(path: Path, columns: list[str]) -> pd.DataFrame:
    """Read a file of results, whether it exists or not."""
    if not path.exists():
        return pd.DataFrame(columns=columns)
    return pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str))


def make_synthesizer(
    name: str, *, published: bool = False, **given: object
) -> BaseSynthesizer:
    """Make a synthesizer by its name in `SYNTHESIZERS`.

    Parameters
    ----------
    name : str
        The name.
    published : bool
        Whether with the networks and values of its paper.
    **given : object
        Parameters. Those that the class does not have are left out: the one that is not
        private has no budget to be told.
    """
    import skdpsynth

    kind = getattr(skdpsynth, SYNTHESIZERS[name])
    known = kind().get_params()
    parameters = {key: value for key, value in given.items() if key in known}
    made: BaseSynthesizer = (kind.as_published if published else kind)(**parameters)
    return made


def error_text(error: Exception) -> str:
    """Say in one line what failed, for the column "error" of a file of results."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def write_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Put texts into a page, each between its two marks; the rest stays as it is.

    Parameters
    ----------
    page : Path
        It has ``<!-- NAME -->`` and ``<!-- end of NAME -->`` for every name.
    parts : mapping of str to str
        The texts by name.
    """
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{part}\n{end}{rest.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")


def markdown_line(cells: Sequence[str]) -> str:
    """Write a line of a table of Markdown."""
    return f"| {' | '.join(cells)} |"


WAY_KEYS = ["way", "epsilon", "seed"]


def compare_ways(
    description: str,
    ways: Sequence[str],
    run: Callable[..., dict[str, object]],
    columns: list[str],
    scores: Sequence[str],
    data: Path,
    csv: Path,
) -> None:
    """Run what is missing of several ways to fit one table, and print means.

    `run` is given a way, epsilon and seed, and `data`, the folder of the tables.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    add = parser.add_argument
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--epsilons", nargs="+", type=float, default=[1.0])
    add("--data", type=Path, default=data, help="folder of the tables")
    add("--csv", type=Path, default=csv)
    options = parser.parse_args()
    wanted = [
        (way, epsilon, seed)
        for seed in range(options.seeds)
        for epsilon in options.epsilons
        for way in ways
    ]
    task = partial(run, data=options.data)
    rows = run_missing(task, wanted, options.csv, WAY_KEYS, columns, options.jobs)
    lines = [(*WAY_KEYS[:-1], *scores, "fit s")]
    for key, own in rows.groupby(WAY_KEYS[:-1], sort=False):
        means = [mean_and_spread(own[score]) for score in scores]
        lines.append((*map(str, key), *means, f"{own['fit_s'].mean():.0f}"))
    print_columns(lines)
    print_states(rows)


def fit_and_sample(
    synthesizer: BaseSynthesizer,
    train: pd.DataFrame,
    n_samples: int,
    class_counts: Mapping[int, int] | None,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Fit and sample; give the rows, the seconds and the peak of memory in gigabytes.

    The peak is of the process until the fit is done; loading the table is in it.
    """
    start = time.perf_counter()
    synthesizer.fit(train)
    costs = {"fit_s": time.perf_counter() - start}
    costs["peak_gb"] = peak_megabytes() * 2**20 / 1e9
    start = time.perf_counter()
    table = synthesizer.sample(n_samples, sampling_strategy=class_counts)
    costs["sample_s"] = time.perf_counter() - start
    return table, costs


def use_one_thread() -> None:
    """Let the processes of the runs have one thread: two of them are the fastest."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def print_columns(table: Sequence[Sequence[str]]) -> None:
    """Print lines of texts in columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(w) for cell, w in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def print_states(rows: pd.DataFrame) -> None:
    """Say so if rows are of several states of the code."""
    states = set(rows["code"])
    if len(states) > 1:
        print(f"Note: rows of several states of the code: {', '.join(states)}")


def mean_and_spread(values: pd.Series) -> str:
    """Write mean and standard deviation over the seeds."""
    return f"{_mean(values)} +- {_std(values)}"


def code_state() -> str:
    """Name the state of the code, where git knows it."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _mean(values: pd.Series) -> str:
    return f"{np.mean(values.astype(float)):.3f}"


def _std(values: pd.Series) -> str:
    return f"{np.std(values, ddof=1):.3f}" if len(values) > 1 else "?"
