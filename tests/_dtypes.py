"""One column for each dtype that a table may have."""

from __future__ import annotations

import _columns
import numpy as np
import pandas as pd
import pyarrow as pa

N_ROWS = 90

_rng = np.random.default_rng(0)
WHOLE = pd.Series(_rng.integers(0, 90, N_ROWS))
WORDS = pd.Series(_rng.choice(["a", "b", "c"], N_ROWS))
TRUTH = WHOLE > 40
TIMES = pd.Series(pd.Timestamp("2021-03-28 00:30") + pd.to_timedelta(WHOLE, unit="h"))
SPANS = pd.Series(pd.to_timedelta(WHOLE, unit="min"))

NUMPY = ["float16", "float32", "float64", "bool"]
NUMPY += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NULLABLE = ["Float32", "Float64"]
NULLABLE += [f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)]
ARROW = [f"{kind}[pyarrow]" for kind in ("int64", "uint8", "double", "float")]


def columns() -> dict[str, pd.Series]:
    """One column for each dtype, without missing values."""
    made = {dtype: WHOLE.astype(dtype) for dtype in [*NUMPY, *NULLABLE, *ARROW]}
    for dtype in ("boolean", "object", "bool[pyarrow]"):
        made[f"truth {dtype}"] = TRUTH.astype(dtype)
    for dtype in ("object", "str", "string", "string[pyarrow]", "category"):
        made[f"words {dtype}"] = WORDS.astype(dtype)
    made["arrow string"] = WORDS.astype(pd.ArrowDtype(pa.string()))
    ordered = pd.CategoricalDtype(["c", "b", "unused", "a"], ordered=True)
    made["words ordered"] = WORDS.astype(ordered)
    made["category of int"] = (WHOLE // 30).astype("category")
    made["category of float"] = (WHOLE // 30 / 2).astype("category")
    made["category of bool"] = TRUTH.astype("category")
    made["category of time"] = TIMES.dt.floor("D").astype("category")
    for unit in ("s", "ms", "us", "ns"):
        made[f"time {unit}"] = TIMES.astype(f"datetime64[{unit}]")
        made[f"span {unit}"] = SPANS.astype(f"timedelta64[{unit}]")
    zoned = TIMES.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    made["time zone"] = zoned
    made["arrow time"] = TIMES.astype("timestamp[us][pyarrow]")
    new_york = "timestamp[ns, tz=America/New_York][pyarrow]"
    made["arrow time zone"] = zoned.astype(new_york)
    made["arrow date"] = TIMES.astype("date32[day][pyarrow]")
    made["arrow span"] = SPANS.astype("duration[s][pyarrow]")
    return made


def with_holes(series: pd.Series) -> pd.Series:
    """Take out every third value, where the dtype lets one."""
    return _columns.with_holes(series, "every third")
