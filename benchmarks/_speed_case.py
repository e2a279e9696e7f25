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
from collections import Counter
from contextlib import nullcontext, suppress
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import skdpsynth
from skdpsynth import TableSchema
from skdpsynth.exceptions import InvalidTableError

_BLOCK_ROWS = 1_000_000
_ROWS_EACH, _MOST_ROWS = 2, 8  # of a person: nearly all take part
_FITTED_ROWS = 10_000  # where the fit is not what is measured


class NotThereError(Exception):
    """The code that is measured cannot do this."""


def balanced(n_rows: int, n_columns: int) -> pd.DataFrame:
    """Make a table of correlated numbers and a label of two classes."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, n_rows)
    mixing = rng.normal(size=(n_columns - 1, n_columns - 1)) / 3
    numbers = rng.normal(size=(n_rows, n_columns - 1)) @ mixing + label[:, None] / 2
    names = [f"x{place}" for place in range(n_columns - 1)]
    return pd.DataFrame(numbers, columns=names).assign(y=label)


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
    """Give the table of a case, or where it is."""
    kind, n_rows, n_columns = case["table"], case["rows"], case["columns"]
    if case["what"] not in ("fit", "products") and kind in ("balanced", "mixed"):
        n_rows = min(n_rows, _FITTED_ROWS)
    if kind == "balanced":
        return balanced(n_rows, n_columns)
    if kind == "mixed":
        return mixed(n_rows, n_columns)
    if kind in ("parquet", "persons"):
        path = folder / "table.parquet"
        return parquet_file(path, n_rows, n_columns, persons=kind == "persons")
    if kind == "dask":
        import dask.dataframe as dd

        path = parquet_file(folder / "table.parquet", n_rows, n_columns)
        return dd.read_parquet(path, split_row_groups=4)
    found = pd.read_parquet(Path(case["data"]) / f"{kind}.parquet")
    return found.drop(columns="split", errors="ignore")


def parquet_file(
    path: Path, n_rows: int, n_columns: int, *, persons: bool = False
) -> Path:
    """Write a mixed table in blocks, so that it is never whole in memory.

    With `persons` each row is one of somebody, who has `_ROWS_EACH` on average, all
    over the file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    def block(n_own: int, seed: int) -> pa.Table:
        rows = mixed(n_own, n_columns, seed)
        if persons:
            draws = np.random.default_rng((1, seed))
            rows["person"] = draws.integers(0, n_rows // _ROWS_EACH, n_own)
        texts = dict.fromkeys(rows.select_dtypes("category"), str)
        return pa.Table.from_pandas(rows.astype(texts), preserve_index=False)

    with parquet.ParquetWriter(path, block(1, 0).schema) as writer:
        for seed, start in enumerate(range(0, n_rows, _BLOCK_ROWS)):
            own = block(min(_BLOCK_ROWS, n_rows - start), seed)
            writer.write_table(own, row_group_size=_BLOCK_ROWS // 4)
    return path


class Products(TorchDispatchMode):
    """Writes down the shapes of the matrix products that torch is asked for."""

    _KINDS = ("mm", "bmm", "addmm", "baddbmm")

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Count a product, and do what was asked for."""
        name = func.overloadpacket.__name__
        if name in self._KINDS:
            left, right = args[1:3] if "add" in name else args[:2]
            batch = left.shape[0] if left.dim() == 3 else 0
            n, k, m = *left.shape[-2:], right.shape[-1]
            self.shapes[batch, n, k, m, str(left.dtype).removeprefix("torch.")] += 1
        return func(*args, **(kwargs or {}))

    def replayed(self) -> dict[str, float]:
        """Time the same products alone, on dense random matrices."""
        seconds = work = 0.0
        for (batch, n, k, m, name), count in self.shapes.items():
            dtype = getattr(torch, name)
            many = (batch,) if batch else ()
            left = torch.rand(*many, n, k, dtype=dtype)
            right = torch.rand(*many, k, m, dtype=dtype)
            left @ right
            repeats = min(count, 5)
            start = time.perf_counter()
            for _ in range(repeats):
                left @ right
            seconds += (time.perf_counter() - start) * count / repeats
            work += 2.0 * max(batch, 1) * n * k * m * count
        return {"product_s": seconds, "gflop": work / 1e9}


def measure(case: dict[str, Any], folder: Path) -> dict[str, float]:
    """Make ready what is not measured, measure the rest."""
    what, given = case["what"], case["options"].items()
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in given}
    table = table_of(case, folder)
    kind = getattr(skdpsynth, case["synthesizer"], None)
    if kind is None:
        raise NotThereError
    target = {"creditcard": "Class", "adult": "income"}.get(case["table"], "y")
    if case["synthesizer"] != "GANSynthesizer":
        options["epsilon"] = 1.0
    known = kind().get_params()
    if "init" not in known:  # marginals were the only start
        options.pop("init", None)
    if not options.keys() <= known.keys():
        raise NotThereError
    if case["table"] == "persons":
        if "privacy_unit" not in signature(TableSchema).parameters:
            raise NotThereError
        unit = {"privacy_unit": "person", "max_rows_per_unit": _MOST_ROWS}
        options["schema"] = TableSchema({}, **unit)
    synth = kind(target=target, random_state=0, **options)
    if what == "products":
        with Products() as products:
            synth.fit(table)
        return products.replayed()
    path = folder / "saved.skdp"
    if what == "fit":
        task = lambda: synth.fit(table)  # noqa: E731
    elif what == "plan":
        counts = table[target].value_counts().to_dict()
        task = lambda: synth.plan(dtypes=table.dtypes, class_counts=counts)  # noqa: E731
    else:
        synth.fit(table)
        synth.sample(10)  # what a first call imports is not measured
        synth.save(path)
        rows = synth.sample(2_000) if what == "tstr" else None
        task = {
            "sample": lambda: synth.sample(case["rows"]),
            "save": lambda: synth.save(folder / "again.skdp"),
            "load": lambda: kind.load(path),
            "tstr": lambda: _scores(rows, table, target),
        }[what]
    with suppress(OSError):  # forget the peak of what came before
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        task()
    except InvalidTableError as error:
        if case["table"] in (
            "parquet",
            "persons",
            "dask",
        ):  # it takes tables in memory only
            raise NotThereError from error
        raise
    costs = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return costs | {"peak_gb": _peak_gb()}


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


def _scores(rows: pd.DataFrame, table: pd.DataFrame, target: str) -> object:
    from skdpsynth.metrics import tstr_scores

    return tstr_scores(rows, table, target=target)


def _peak_gb() -> float:
    """Give the peak of this process since it was forgotten; Linux only."""
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
        try:
            found: dict[str, Any] = {"status": "ok", **measure(case, Path(folder))}
        except NotThereError:
            found = {"status": "not there"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
