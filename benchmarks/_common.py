"""What the benchmarks share: names, one run in a process of its own, tables as text."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from sklearn.model_selection import train_test_split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
PUBLISHED = ", as published"  # behind a name: with the networks of its paper
DATA = Path(__file__).parents[2] / "shared" / "data"
RESULTS = Path(__file__).parent / "results"
# Texts also where they look like numbers.
_TEXTS = ("code", "error", "by_classifier", "date", "warning")


def split_rows(
    table: pd.DataFrame, by: str | None, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split rows 80/20, with every label of a column in both parts alike."""
    plain = by is None or table[by].dtype.kind == "f"
    labels = None if plain else table[by]
    parts = train_test_split(table, test_size=0.2, stratify=labels, random_state=seed)
    train, test = (part.reset_index(drop=True) for part in parts)
    return train, test


def run_missing(
    task: Callable[[tuple], dict[str, object]],
    wanted: Sequence[tuple],
    path: Path,
    keys: list[str],
    columns: list[str],
    jobs: int,
) -> pd.DataFrame:
    """Do the runs that a file of results has not yet, add them, return all wanted.

    `task` maps a key to a row. There are `jobs` at the same time, each in a process of
    its own; 0: one by one, in this one.
    """
    done = read_rows(path, columns)
    known = {*done[keys].itertuples(index=False, name=None)}
    missing = [key for key in wanted if key not in known]
    print(f"{len(wanted) - len(missing)} runs are there, {len(missing)} to do")
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        before = pd.read_csv(path, dtype=str)
        new = [name for name in columns if name not in before]
        columns = [*before, *new]
        if new:
            before.reindex(columns=columns).to_csv(path, index=False)
    for row in _done(task, missing, jobs):
        line = pd.DataFrame([row], columns=columns)
        header = not path.exists()
        line.to_csv(path, mode="a", header=header, index=False, float_format="%.6g")
        print(*(f"{k}={row[k]}"[:80] for k in columns if row.get(k)), flush=True)
    done = read_rows(path, columns)
    mask = [key in set(wanted) for key in done[keys].itertuples(index=False, name=None)]
    return done[mask]


def _done(
    task: Callable[[tuple], dict[str, object]], missing: list[tuple], jobs: int
) -> Iterator[dict[str, object]]:
    """Yield rows as they come."""
    if not jobs:
        yield from map(task, missing)
        return
    use_one_thread()
    # A fresh process per run: its peak of memory is its own.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1)
    try:
        for future in as_completed([pool.submit(task, key) for key in missing]):
            yield future.result()
    finally:  # an interruption does not wait for what has not begun
        pool.shutdown(cancel_futures=True)


def read_rows(path: Path, columns: list[str]) -> pd.DataFrame:
    """Read a file of results, whether it exists or not."""
    if not path.exists():
        return pd.DataFrame(columns=columns)
    found = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str))
    return found.reindex(columns=[*dict.fromkeys([*found, *columns])])


def make_synthesizer(name: str, **given: object) -> BaseSynthesizer:
    """Make a synthesizer by its name, without the parameters that it does not have.

    The one that is not private has no budget to be told.
    """
    import skdpsynth

    plain = name.removesuffix(PUBLISHED)
    kind = getattr(skdpsynth, SYNTHESIZERS[plain])
    known = kind().get_params()
    parameters = {key: value for key, value in given.items() if key in known}
    made: BaseSynthesizer = (kind if plain == name else kind.as_published)(**parameters)
    return made


def fit_and_sample(
    synthesizer: BaseSynthesizer,
    train: pd.DataFrame,
    n_samples: int,
    class_counts: Mapping[int, int] | None,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Fit and sample; return the rows, the seconds and the peak of memory in gigabytes.

    The peak is of the process until the fit is done; loading the table is in it.
    """
    start = time.perf_counter()
    synthesizer.fit(train)
    costs = {"fit_s": time.perf_counter() - start}
    # Of Linux; not ru_maxrss, which starts at the size of the parent process.
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    peak = next(int(line.split()[1]) for line in lines if "VmHWM" in line)
    costs["peak_gb"] = peak * 2**10 / 1e9
    start = time.perf_counter()
    table = synthesizer.sample(n_samples, sampling_strategy=class_counts)
    costs["sample_s"] = time.perf_counter() - start
    return table, costs


def use_one_thread() -> None:
    """Let the processes of the runs have one thread: two of them are the fastest."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown; the first line of cells is its head."""
    lines = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def print_columns(table: Sequence[Sequence[str]]) -> None:
    """Print a table of Markdown."""
    print(markdown(table))


def print_states(rows: pd.DataFrame) -> None:
    """Print a note if rows are of several states of the code."""
    states = set(rows["code"].astype(str))
    if len(states) > 1:
        print(f"Note: rows of several states of the code: {', '.join(sorted(states))}")


def mean_and_spread(values: pd.Series) -> str:
    """Return mean and standard deviation over the seeds as a text."""
    values = values.dropna().astype(float)
    if values.empty:
        return "-"
    spread = f" ± {values.std():.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def code_state() -> str:
    """Return the name of the state of the code, where git knows it."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
