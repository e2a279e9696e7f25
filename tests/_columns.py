"""Columns of every dtype that pandas has, for the tests that draw whole tables."""

import datetime
import math
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, Identifier

SECRET = "§"  # every text of a table starts with it, and no message may hold it
WIDTHS = (8, 16, 32, 64)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NAMES = [
    *("a", "", " ", "target", "ä\0", 0, -1, 2.5, math.nan, None, True, np.int64(7)),
    *(("a", 1), (), frozenset({1}), b"raw", pd.Timestamp("2020-01-01", tz="UTC")),
    *(pd.NaT, pd.NA, np.datetime64("2020-01-01", "s"), np.True_, pd.Interval(0, 1)),
]


class Maker(NamedTuple):
    """How to make a column of one dtype: from a generator, a number of rows, a spread.

    `kind` says which description of a schema fits ("other": none that is drawn here).
    """

    kind: str
    make: Callable[..., pd.Series]


def whole(rng, n_rows, spread, low=-(2**63), high=2**63 - 1) -> np.ndarray:
    """Whole numbers in [low, high], as Python ints."""
    if spread == "extreme":
        return np.array([low, high, 0, 1], dtype=object)[rng.integers(4, size=n_rows)]
    numbers = {
        "few": lambda: rng.integers(4, size=n_rows),
        "many": lambda: rng.geometric(1e-4, n_rows) - 100,
        "constant": lambda: np.full(n_rows, 7),
        "distinct": lambda: np.arange(n_rows),
    }[spread]()
    return np.clip(numbers, max(low, -(2**62)), min(high, 2**62)).astype(object)


def floats(rng, n_rows, spread, dtype) -> np.ndarray:
    limits = np.finfo(dtype)
    low, high = float(limits.min), float(limits.max)
    if spread == "extreme":
        odd = [0.0, 1.0, -1e-30, 2.0**53 + 1, 1e300, low, high, 5e-324]
        return np.array(odd)[rng.integers(8, size=n_rows)].clip(low, high).astype(dtype)
    values = whole(rng, n_rows, spread).astype(float) * (1 + rng.random(n_rows) / 10)
    return values.clip(low, high).astype(dtype)


def texts(rng, n_rows, spread) -> np.ndarray:
    if spread == "extreme":
        odd = ["", "\0", "\N{PILE OF POO}", "x" * 5000, "nan", " ", '"\n\\', "é"]
        odd = np.array([SECRET + text for text in odd], dtype=object)
        return odd[rng.integers(len(odd), size=n_rows)]
    numbers = whole(rng, n_rows, spread)
    return np.array([f"{SECRET}{n}" for n in numbers], dtype=object)


def ticks(rng, n_rows, spread, unit) -> np.ndarray:
    """Counts of a unit since 1970, in the years 1 to 9999 as far as the unit goes."""
    per_second = UNITS[unit]
    if spread == "extreme":
        # Two days inside: a time zone moves what a clock shows.
        last = (2**63 - 1) // per_second - 200_000
        low, high = max(-last, -62_135_400_000), min(last, 253_402_100_000)
        seconds = whole(rng, n_rows, spread, low, high)
        return (seconds * per_second).astype("int64")
    seconds = whole(rng, n_rows, spread).astype("int64") * 3617 + 1_600_000_000
    return seconds * per_second + rng.integers(per_second, size=n_rows)


def typed(rng, n_rows, spread, *, plain, dtype) -> pd.Series:
    """Values of a dtype of NumPy (an object is a text), as another dtype."""
    plain, dtype = np.dtype(plain), dtype or plain
    if plain.kind == "f":
        values = floats(rng, n_rows, spread, plain)
    elif plain.kind in "mM":
        values = ticks(rng, n_rows, spread, np.datetime_data(plain)[0]).view(plain)
    elif plain.kind in "iu":
        limits = np.iinfo(plain)
        values = whole(rng, n_rows, spread, limits.min, limits.max).astype(plain)
    elif plain.kind == "b":
        values = whole(rng, n_rows, spread).astype(float) > 1
    else:
        values = texts(rng, n_rows, spread)
    if isinstance(dtype, pd.ArrowDtype):
        array = pa.array(values, dtype.pyarrow_dtype)
        return pd.Series(pd.arrays.ArrowExtensionArray(array))
    series = pd.Series(values, dtype=plain)
    if isinstance(dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_localize("UTC")
    return series.astype(dtype)


def category(rng, n_rows, spread, *, inner, ordered, unused=()) -> pd.Series:
    """A category dtype whose categories another maker makes."""
    series = inner.make(rng, n_rows, spread)
    listed = pd.Index(series.unique()).append(pd.Index(unused, dtype=series.dtype))
    return series.astype(pd.CategoricalDtype(listed, ordered=ordered))


def built(rng, n_rows, spread, *, function) -> pd.Series:
    """What a function makes of small whole numbers."""
    numbers = whole(rng, n_rows, spread, 0, 999)
    return pd.Series(function([int(n) for n in numbers]))


@cache
def supported() -> dict[str, Maker]:
    """Makers of the dtypes that every synthesizer must take."""
    made = {}

    def add(name, kind, plain, dtype=None):
        made[name] = Maker(kind, partial(typed, plain=plain, dtype=dtype))

    def arrow(alias):
        return pd.ArrowDtype(pa.type_for_alias(alias))

    for plain in (f"{sign}{bits}" for bits in WIDTHS for sign in ("int", "uint")):
        masked = plain.title().replace("Ui", "UI")
        for dtype in (plain, masked, arrow(plain)):
            add(str(dtype), "whole", plain, dtype)
    for plain, alias, *masked in (
        *(("f2", "float16"), ("f4", "float32", "Float32")),
        ("f8", "float64", "Float64"),
    ):
        for dtype in (f"<{plain}", f">{plain}", arrow(alias), *masked):
            add(str(dtype), "float", plain, dtype)
    add(">i4", "whole", "i4", ">i4")
    add(">u2", "whole", "u2", ">u2")
    for dtype in ("bool", "boolean", arrow("bool"), "object"):
        kind = "other" if dtype == "object" else "truth"
        add(f"truth {dtype}", kind, "bool", dtype)
    texts = "object", "str", "string[python]", "string[pyarrow]"
    for place, dtype in enumerate((*texts, arrow("string"), arrow("large_string"))):
        add(f"text {place} {dtype}", "text", "object", dtype)
    zones = ["UTC", "Europe/Berlin", "America/St_Johns"]
    zones.append(datetime.timezone(datetime.timedelta(hours=5, minutes=30)))
    for unit in UNITS:
        for kind, plain, alias in (
            ("time", f"M8[{unit}]", f"timestamp[{unit}]"),
            ("span", f"m8[{unit}]", f"duration[{unit}]"),
        ):
            add(f"{kind} {unit}", kind, plain)
            add(f"{kind} Arrow {unit}", kind, plain, arrow(alias))
        for zone in zones if unit in ("s", "ns") else ():
            dtype = pd.DatetimeTZDtype(unit, zone)
            add(f"time {unit} {zone}", "zoned", f"M8[{unit}]", dtype)
        if unit in ("s", "ns"):
            dtype = pd.ArrowDtype(pa.timestamp(unit, tz="Asia/Tokyo"))
            add(f"time Arrow {unit} zone", "zoned", f"M8[{unit}]", dtype)
    no_index = ("<f2", "halffloat[pyarrow]")  # that pandas could make
    for name, inner in list(made.items()):
        if inner.kind == "span" or name[0] == ">" or name in no_index:
            continue
        kind = "text" if inner.kind == "text" else "other"
        for ordered in (False, True):
            make = partial(category, inner=inner, ordered=ordered)
            made[f"category of {name}" + " ordered" * ordered] = Maker(kind, make)
    own = {"inner": made["text 0 object"], "unused": [SECRET + "un"]}
    made["category with unused"] = Maker("text", partial(category, ordered=True, **own))
    return made


@cache
def _doubtful() -> dict[str, Maker]:
    """Makers of what may be refused for its values; dtypes: `table/test_table.py`."""

    def arrow(arrow_type, value=lambda number: number):
        return lambda numbers: pd.arrays.ArrowExtensionArray(
            pa.array([value(n) for n in numbers], type=arrow_type)
        )

    def objects(*values):
        return lambda numbers: pd.Series(
            [values[n % len(values)] for n in numbers], dtype=object
        )

    def infinite(numbers):
        return np.where(np.array(numbers) == 7, np.inf, 0.0)

    day = datetime.date(2020, 1, 1)
    functions = {
        "infinite": infinite,
        "category of mixture": lambda n: pd.Categorical(
            objects(1, SECRET)(n), categories=[1, SECRET]
        ),
        "category without any": lambda n: pd.Categorical([None] * len(n)),
        "category of infinity": lambda n: pd.Categorical(infinite(n)),
        "Arrow date32": arrow(pa.date32()),
        "Arrow view": arrow(pa.string_view(), lambda n: f"{SECRET}{n}"),
        "Arrow dictionary": lambda n: pd.arrays.ArrowExtensionArray(
            pa.array([f"{SECRET}{v}" for v in n], pa.string()).dictionary_encode()
        ),
        "mixture": objects(1, SECRET, None),
        "lists": objects([SECRET], [2]),
        "dicts": objects({SECRET: 1}, {}),
        "bytes": objects(b"4321", b""),
        "dates": objects(day, None),
        "mixed zones": objects(pd.Timestamp(day), pd.Timestamp(day, tz="UTC")),
        "missing values": objects(None, np.nan, pd.NA, pd.NaT),
        "truths and missing": objects(True, None, np.nan, pd.NA),
        "lone surrogate": objects(SECRET + "\ud800", SECRET),
        "frames": objects(pd.DataFrame({"a": [1]}), np.zeros(2)),
    }
    return {
        name: Maker("other", partial(built, function=function))
        for name, function in functions.items()
    }


def columns() -> dict[str, pd.Series]:
    """Make a column of most dtypes, and of categories of a few, without holes."""
    rng, inner = np.random.default_rng(0), ("int64", "truth bool", "time s")
    made = {
        name: maker.make(rng, 90, "few")
        for name, maker in supported().items()
        if name.removeprefix("category of ") in inner
        or not name.startswith((">", "category of"))
    }
    del made["halffloat[pyarrow]"]  # no schema is read off it
    days = made["time us"] + pd.to_timedelta(np.arange(90) % 4, unit="D")
    return made | {"Arrow date": days.astype("date32[day][pyarrow]")}


# --- What a recipe draws of a column ------------------------------------------------


def with_holes(series: pd.Series, holes: str = "every third", rng=None) -> pd.Series:
    """Take values out, where the dtype lets one."""
    n_rows = len(series)
    where = {
        "none": np.zeros(n_rows, dtype=bool),
        "all": np.ones(n_rows, dtype=bool),
        "first": np.arange(n_rows) == 0,
        "all but one": np.arange(n_rows) != n_rows // 2,
        "half": np.arange(n_rows) < n_rows // 2,
        "every third": np.arange(n_rows) % 3 == 0,
        "third": None if rng is None else rng.random(n_rows) < 0.33,
    }[holes]
    holed = series.copy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas warns where the dtype changes
            holed[where] = None
    except (TypeError, ValueError, FutureWarning, NotImplementedError):
        return series
    return holed if holed.dtype == series.dtype else series


def draw_column(draw, n_rows: int, *, label: str, doubtful: bool):
    """Draw one column, and the kind that a schema may call it."""
    made = _doubtful() if doubtful else supported()
    name = draw(st.sampled_from(sorted(made)), label=label)
    spread = draw(
        st.sampled_from(["few", "many", "constant", "distinct", "extreme"]),
        label=f"spread of {label}",
    )
    holes = draw(
        st.sampled_from(["none", "third", "half", "first", "all", "all but one"]),
        label=f"holes of {label}",
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    series = with_holes(made[name].make(rng, n_rows, spread), holes, rng)
    return series, made[name].kind


def describe(draw, kind: str, dtype: Any, *, is_label: bool):
    """Draw what a schema says of a column; None for nothing."""
    nullable = draw(st.booleans(), label="nullable")
    scale = draw(st.sampled_from(["auto", "linear", "log", "quantile"]))
    bounds = [(0, 1), (7, 7), (-5, 90), (0, 10**5), (-(10**300), 10**300)]
    measured = [
        Continuous(low, high, nullable=nullable, scale=scale) for low, high in bounds
    ]
    choices: dict[str, list[Any]] = {
        "whole": [Categorical([0, 1, 7], nullable=nullable)],
        "truth": [Boolean(nullable=nullable), Categorical([True], nullable=nullable)],
        "text": [
            Categorical([f"{SECRET}{n}" for n in (3, 1, 99)], nullable=nullable),
            Categorical([], nullable=True),
        ],
        "float": measured,
    }
    if not is_label:
        day = {"nullable": nullable, "unit": draw(st.sampled_from([None, "D", "s"]))}
        choices["whole"] += [
            Continuous(low, high, integer=integer, nullable=nullable, scale=scale)
            for low, high in ((0, 1), (7, 7), (0, 120))
            for integer in (True, False)
        ]
        choices["float"] = [*measured, Categorical([0.0, 0.5])]
        choices["span"] = [
            Continuous(low, high, nullable=nullable, scale=scale)
            for low, high in (("0s", "1s"), ("7s", "7s"), ("-5D", "90D"), ("0s", "9D"))
        ]
        choices["time"] = [Datetime("2001-02-03 04:05:06.7", "2031-01-01", **day)]
        zoned = Datetime("2001-01-01T00:00+02:00", "2031-01-01T00:00+02:00", **day)
        choices["zoned"] = [*choices["time"], zoned]
        for listed in choices.values():
            listed.append(Identifier())
    return draw(st.sampled_from([None, *choices.get(kind, [])]), label="described")


def check_dtype(fake: pd.Series, expected: Any) -> None:
    if isinstance(expected, pd.CategoricalDtype):
        assert isinstance(fake.dtype, pd.CategoricalDtype)
        assert fake.dtype.ordered == expected.ordered
        assert fake.dtype.categories.dtype == expected.categories.dtype
    else:
        assert fake.dtype == expected
