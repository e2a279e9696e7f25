"""A stranger's file is read, or one of our errors names it, and nothing else happens.

Saved synthesizers, schemas and budget files are spoilt by a seed (`_spoilt`) and read
under an audit hook: nothing is imported, compiled, executed or opened beside the file;
memory stays below 60 times its size and 3 MB; what loads also prints, and samples.
"""

import contextlib
import random
import sys
import tempfile
import time
import tracemalloc
import warnings
import zoneinfo
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _rules import SCHEMA as RULED, TABLE as RULED_TABLE
from _spoilt import spoil_budget, spoilt_saved, spoilt_schema
from tables import mixed_table

import skdpsynth
from skdpsynth import (
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
    TableSchema,
)
from skdpsynth.exceptions import (
    BudgetExceededError,
    InvalidSchemaError,
    PersistenceError,
    SkdpsynthError,
)
from skdpsynth.privacy import PrivacyReport
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, Identifier

# A parsed `{}` of two or three bytes is a dict of 64 and a place of 8 in a list, and
# the text is there as bytes, as str and once more as it is compared: see `docs`.
TIMES, ROOM = 60, 3 * 2**20  # of a file's bytes; and whatever its size
SECONDS = 5.0  # of processor time, on a slow machine, for one file
WATCHED = ("import", "exec", "compile", "open", "pickle.find_class", "marshal.loads")
WATCHED_PREFIXES = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "urllib.")
HARMLESS = ("os.listdir", "os.scandir")
LOOKED_UP = ("zoneinfo", "tzdata", "/sys/fs/cgroup", "/proc/")  # zones, number of cores
# The disk is not under test, and a budget waits for it at every charge.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

seen: list[str] = []
watching: list[Path] = []  # the one file that may be opened, while something is read


def hook(event: str, args: tuple[Any, ...]) -> None:
    """Note what a file must not bring about; time zones may be looked up."""
    if not watching or event in HARMLESS:
        return
    if event in WATCHED or event.startswith(WATCHED_PREFIXES):
        words = str(args[0])[:200] if args else ""
        own = event == "open" and Path(words).parent == watching[0].parent
        if not own and not any(place in words for place in LOOKED_UP):
            seen.append(f"{event} {words}")


SCHEMA = TableSchema(
    {
        "number": Continuous(-5, 5, nullable=True),
        "zoned": Datetime("2020-01-01T00:00Z", "2021-01-01T00:00Z"),
        "level": Categorical(["p", "q"]),
        "y": Categorical(["u", "v"]),
    },
    target="y",
    class_counts={"u": 150, "v": 150},
    n_rows=300,
)
HIDDEN = TableSchema({"text": Identifier(), "whole": Continuous(0, 99, integer=True)})


def valid_saved(folder: Path) -> list[tuple[Any, bytes]]:
    """Fit some synthesizers whose files have all forms of facts and arrays."""
    table = mixed_table(300)
    table["zoned"] = table["time"].dt.tz_localize("Europe/Paris")
    odd = table.astype({"whole": "Int16", "number": "Float32", "flag": "boolean"})
    odd["share"] = pd.Categorical(np.resize([1.5, 2.5], 300), ordered=True)
    odd = odd.rename(columns={"time": ("a", 1)}).drop(columns="y")
    arrow = table.drop(columns=["span", "level"])
    arrow = arrow.convert_dtypes(dtype_backend="pyarrow")
    fitted = [
        MarginalSynthesizer(epsilon=4.0, schema=SCHEMA).fit(table[[*SCHEMA.columns]]),
        IndependentSynthesizer(epsilon=4.0, schema=HIDDEN).fit(odd),
        IndependentSynthesizer(epsilon=4.0, schema=HIDDEN, target="y").fit(arrow),
        IndependentSynthesizer(epsilon=4.0, schema=RULED).fit(RULED_TABLE),
    ]
    found = []
    for synth in fitted:
        synth.save(folder / "valid", overwrite=True)
        found.append((type(synth), (folder / "valid").read_bytes()))
    return found


def valid_schemas(folder: Path) -> list[str]:
    """Write schemas with all kinds of columns, rules, names and blanks."""
    times = pd.to_datetime(["2020", "2021"]).tz_localize("Europe/Berlin")
    many = {
        ("a", 1): Continuous(0, 1e5, decimals=2, nullable=True, scale="quantile"),
        0: Categorical([1, 2.5, -3], ordered=True),
        "when": Categorical([*pd.to_datetime(["2020", "2021"])], nullable=True),
        "day": Datetime(*times, unit="D"),
        "yes": Boolean(nullable=True),
        "id": Identifier(),
        "y": Categorical(["a", "b", "\ud800"]),
    }
    counts = {"a": 3, "b": 4, "\ud800": 0}
    frame = pd.DataFrame({"age": [1], "x": [1.5], "s": ["a"], "t": [True]})
    return [
        RULED.to_json(),
        TableSchema(many, target="y", class_counts=counts, n_rows=7).to_json(),
        TableSchema.template(frame, form="json"),
    ]


def valid_budgets(folder: Path) -> list[bytes]:
    found = []
    for n_charges in (0, 3, 150):
        path = folder / f"valid {n_charges}"
        budget = PrivacyBudget(1.0, 1e-4, path=path)
        for number in range(n_charges):
            budget.charge(1e-3, 1e-8, label=f"fit {number}")
        found.append(path.read_bytes())
    return found


def read_saved(path: Path, kind: Any, _: random.Random) -> None:
    found = skdpsynth.inspect(path)
    str(PrivacyReport.from_dict(found["report"]))
    loaded = kind.load(path)
    str(loaded.privacy_report()), repr(loaded), loaded.get_epsilon(loaded.delta_)
    loaded.schema_.to_dict()
    loaded.sample(5, random_state=0)
    loaded.sample(100, random_state=1)


def read_schema(path: Path, _: Any, rng: random.Random) -> None:
    schema = TableSchema.from_json(path)
    repr(schema)
    assert repr(TableSchema.from_json(schema.to_json())) == repr(schema)  # or NaN


def read_budget(path: Path, _: Any, rng: random.Random) -> None:
    budget = PrivacyBudget.open(path)
    repr(budget)
    assert all(spent >= 0.0 for spent in budget.spent)
    assert 0.0 <= budget.remaining[1] <= budget.delta < 1.0
    assert len(budget.charges) < 1000
    before = budget.spent[0]
    with contextlib.suppress(BudgetExceededError):
        budget.charge(1e-5, 1e-9, label="another")
        assert budget.spent[0] >= before + 0.9e-5
    PrivacyBudget(budget.epsilon, budget.delta, path=path)


READERS = {
    "saved": (valid_saved, read_saved, PersistenceError),
    "schema": (valid_schemas, read_schema, InvalidSchemaError),
    "budget": (valid_budgets, read_budget, PersistenceError),
}


def write_spoilt(
    kind: str, valid: list[Any], path: Path, rng: random.Random, *, whole: bool
) -> Any:
    """Write the spoilt file of a seed; give what the reader needs to know of it."""
    chosen = rng.choice(valid)
    for rest in path.parent.glob(f"{path.name}-*"):  # journals of a budget
        rest.unlink()
    known, data = chosen if kind == "saved" else (None, chosen)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    if kind == "budget" and not whole:
        spoil_budget(path, rng)
    elif not whole:
        how = spoilt_saved if kind == "saved" else spoilt_schema
        path.write_bytes(how(data, rng))
    return known


def outcome(kind: str, path: Path, known: Any, rng: random.Random) -> str:
    """Read one file: "read", "refused", or what escaped."""
    _, read, ours = READERS[kind]
    try:
        read(path, known, rng)
    except SkdpsynthError as error:
        if not isinstance(error, ours):
            return f"escape: {error!r:.200}"
        if str(path) not in str(error):
            return f"no path: {str(error)[:100]}"
        if len(str(error)) > 5000 or "\x1b" in str(error):
            return f"what no terminal should print: {error!r:.200}"
        return "refused"
    except Exception as error:
        return f"escape: {error!r:.200}"
    return "read"


@pytest.fixture(scope="module")
def _hooked():
    """Hooks cannot be taken away; this one does nothing unless it is asked to."""
    sys.addaudithook(hook)
    for zone in ("No/Zone", "Europe/None", "UTC"):  # what looks for one is imported
        with contextlib.suppress(KeyError, ValueError):
            zoneinfo.ZoneInfo(zone)


@pytest.mark.slow
@pytest.mark.usefixtures("_hooked")
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("count", [20, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_spoilt_files(kind, count):
    """Nothing escapes; some files are read and most are refused.

    What any file of the kind makes Python import for the first time is none of its own
    doing: valid files and some other seeds are read beforehand, unwatched.
    """
    told, before = Counter(), min(200, count)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        valid, path = READERS[kind][0](Path(name)), Path(name) / "spoilt"
        for seed in range(-before, count):
            rng = random.Random(f"{kind} {seed}")
            known = write_spoilt(kind, valid, path, rng, whole=seed < 20 - before)
            watching[:] = [path] * (seed >= 0)
            if seed % 4 == 0:  # it takes twice the time
                tracemalloc.start()
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                what = outcome(kind, path, known, rng)
            assert time.process_time() - start < SECONDS, seed
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            watching.clear()
            assert seed < 0 or what in ("read", "refused"), (seed, what)
            assert seen == [], seed
            assert used <= ROOM + TIMES * path.stat().st_size, seed
            told[what] += seed >= 0
    assert told["read"] >= count // 50
    assert told["refused"] >= count // 2
