"""One measurement of `speed.py`, in a process of its own: JSON in, JSON out.

It imports nothing of these benchmarks, so that the package that it measures may be an
older one: whichever comes first in PYTHONPATH.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import skdpsynth
from skdpsynth.exceptions import InvalidTableError

_BLOCK_ROWS = 1_000_000
_FITTED_ROWS = 10_000  # where the fit is not what is measured


def mixed(n_rows: int, n_columns: int, seed: int = 0) -> pd.DataFrame:
    """Make a table of floats, counts and categories by turns, and a label."""
    rng, draws = np.random.default_rng(0), np.random.default_rng(seed)
    shared = draws.normal(size=(n_rows, 3))
    found: dict[str, Any] = {}
    for place in range(n_columns - 1):
        value = shared @ rng.normal(size=3) + draws.normal(size=n_rows)
        if place % 3 == 0:
            found[f"x{place}"] = value
        elif place % 3 == 1:
            found[f"n{place}"] = np.rint(np.exp(value / 2) * 10).astype(np.int64)
        else:
            codes = np.clip(value + 4, 0, 7).astype(np.int8)
            found[f"c{place}"] = pd.Categorical.from_codes(codes, list("abcdefgh"))
    found["y"] = (shared[:, 0] + draws.normal(size=n_rows) > 0).astype(np.int64)
    return pd.DataFrame(found)


def table_of(case: dict[str, Any], folder: Path) -> Any:  # noqa: ANN401
    """Return the table of a case, or where it is."""
    n_rows, n_columns = case["rows"], case["columns"]
    if case["table"] == "mixed":
        fitted = n_rows if case["what"] == "fit" else min(n_rows, _FITTED_ROWS)
        return mixed(fitted, n_columns)
    if case["table"] == "creditcard":
        return pd.read_parquet(Path(case["data"]) / "creditcard.parquet")
    path = parquet_file(folder / "table.parquet", n_rows, n_columns)
    if case["table"] == "parquet":
        return path
    import dask.dataframe as dd

    return dd.read_parquet(path, split_row_groups=4)


def parquet_file(path: Path, n_rows: int, n_columns: int) -> Path:
    """Write a mixed table in blocks, so that it is never whole in memory."""
    import pyarrow as pa
    from pyarrow import parquet

    def block(n_own: int, seed: int) -> pa.Table:
        rows = mixed(n_own, n_columns, seed)
        texts = dict.fromkeys(rows.select_dtypes("category"), str)
        return pa.Table.from_pandas(rows.astype(texts), preserve_index=False)

    with parquet.ParquetWriter(path, block(1, 0).schema) as writer:
        for seed, start in enumerate(range(0, n_rows, _BLOCK_ROWS)):
            own = block(min(_BLOCK_ROWS, n_rows - start), seed)
            writer.write_table(own, row_group_size=_BLOCK_ROWS // 4)
    return path


def measure(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make ready what is not measured, measure the rest."""
    kind = getattr(skdpsynth, case["synthesizer"], None)
    if kind is None:
        return {"status": "not there"}
    given = {} if case["synthesizer"] == "GANSynthesizer" else {"epsilon": 1.0}
    target = "Class" if case["table"] == "creditcard" else "y"
    synth = kind(target=target, random_state=0, **given)
    table = table_of(case, folder)
    if case["what"] == "sample":
        synth.fit(table)
        synth.sample(10)  # what a first call imports is not measured
    with suppress(OSError):  # forget the peak of what came before
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        synth.fit(table) if case["what"] == "fit" else synth.sample(case["rows"])
    except InvalidTableError:
        if case["table"] not in ("parquet", "dask"):
            raise
        return {"status": "not there"}  # it takes tables in memory only
    costs = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {"status": "ok", **costs, "peak_gb": _peak_gb()}


def _cluster(case: dict[str, Any]) -> Any:  # noqa: ANN401
    """Start as many workers as the case has threads, where it is about Dask.

    With the memory settings of docs/large_tables.md.
    """
    if case["table"] != "dask":
        return nullcontext()
    import dask
    from distributed import Client

    of_worker = "distributed.nanny.pre-spawn-environ"
    keep = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
    dask.config.set({f"{of_worker}.{name}": value for name, value in keep.items()})
    return Client(
        n_workers=case["threads"], threads_per_worker=1, dashboard_address=None
    )


def _peak_gb() -> float:
    """Return the peak of this process since it was forgotten; Linux only."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024 / 1e9
    return float("nan")


def main() -> None:
    """Print one line of JSON."""
    warnings.simplefilter("ignore")
    case = json.loads(sys.argv[1])
    if not Path(skdpsynth.__file__).is_relative_to(case["root"]):
        sys.exit(f"skdpsynth of {case['root']} is not the one that is imported")
    torch.set_num_threads(case["threads"])
    with tempfile.TemporaryDirectory() as folder, _cluster(case):
        print(json.dumps(measure(case, Path(folder))))


if __name__ == "__main__":
    main()
