"""No training value is in the file or the pickle of a fitted synthesizer.

The table is made of values that occur once and nowhere else. They are looked for as
bytes, in every form that a number or a text could be kept in. The file is not
compressed, so that a search of its bytes is a search of what it says. Each search is
proved by a twin that keeps values.
"""

from __future__ import annotations

import functools
import json
import pickle
import pickletools
import struct

import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES
from _spoilt import put_together, taken_apart
from sklearn.base import clone

pytestmark = pytest.mark.usefixtures("short_fits")

N_ROWS = 240
# Four random bytes are those of some canary so often at most, in a file and a pickle.
_MAX_CHANCE, _MAX_HITS = 0.2, 5


@functools.cache
def canaries(seed: int) -> pd.DataFrame:
    """Make a table of values that occur once; the numbers are no plausible weights.

    All numbers are below -1e6, so that their four-byte patterns start with a byte that
    neither text nor a small number has.
    """
    rng = np.random.default_rng(seed)
    letters = rng.integers(ord("a"), ord("z") + 1, size=(N_ROWS, 12))
    start = np.datetime64("2020-01-01", "us")
    return pd.DataFrame(
        {
            "real": -rng.uniform(1e6, 8e6, N_ROWS),
            "whole": -rng.choice(10**9, N_ROWS, replace=False) - 10**9,
            "long": -rng.integers(10**17, 10**18, N_ROWS),
            "text": [f"{bytes(row.tolist()).decode()}\u00e9\u20ac" for row in letters],
            "when": start + rng.choice(10**15, N_ROWS, replace=False),
            "y": np.where(rng.random(N_ROWS) < 0.5, "one", "two"),
        }
    )


def text_patterns(text: str) -> set[bytes]:
    escaped = json.dumps(text)[1:-1]
    in_metadata = json.dumps(escaped)[1:-1]  # the facts are a text in JSON themselves
    codes = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")
    forms = (text, escaped, in_metadata)
    return {form.encode(code) for form in forms for code in codes}


def number_patterns(value: float) -> set[bytes]:
    """Give eight bytes and more: binary in both orders, and in digits, unsigned.

    Ten digits would be found in others by chance, and are no pattern: JSON and pickle
    are also searched for the number itself.
    """
    found = {struct.pack(f"{order}d", value) for order in "<>"}
    if isinstance(value, int):
        found |= {struct.pack(f"{order}q", value) for order in "<>"}
    if len(repr(abs(value))) > 12:
        found |= text_patterns(repr(abs(value)))
    return found


@functools.cache
def canary_values(seed: int) -> dict[object, str]:
    """Map every value to its column; a time counts as its digits and its integers."""
    table, found = canaries(seed), dict[object, str]()
    for name in ("real", "whole", "long", "text"):
        found |= dict.fromkeys(table[name].tolist(), name)
    for moment in table["when"]:
        count = (int(moment.as_unit(u).asm8.view("i8")) for u in ("us", "ns"))
        texts = moment.isoformat(), str(moment)
        found |= dict.fromkeys((*count, *texts), "when")
    return found


@functools.cache
def long_patterns(seed: int) -> dict[bytes, str]:
    """Map patterns of eight bytes and more to the column that they are of."""
    found: dict[bytes, str] = {}
    for value, name in canary_values(seed).items():
        forms = text_patterns if isinstance(value, str) else number_patterns
        found |= dict.fromkeys(forms(value), name)
    assert min(map(len, found)) >= 8
    return found


def values_in(document: object) -> set[object]:
    """Give all values of a JSON document."""
    if isinstance(document, dict | list):
        parts = document.values() if isinstance(document, dict) else document
        return set().union(*(values_in(part) for part in parts))
    return {document}


@functools.cache
def short_patterns(seed: int) -> list[set[bytes]]:
    """Give four bytes for each number: of float32 and of int32, in both orders."""
    table = canaries(seed)
    numbers = [*table["real"].tolist(), *table["whole"].tolist()]
    return [
        {struct.pack(f"{order}f", value) for order in "<>"}
        | {struct.pack(f"{order}i", int(value)) for order in "<>"}
        for value in numbers
    ]


def columns_found(seed: int, file: bytes, pickled: bytes) -> set[str]:
    """Say of which columns some value is in the file or in the pickle."""
    header, _ = taken_apart(file)
    present = values_in(json.loads(header["__metadata__"]["skdpsynth"]))
    present |= {
        a for _, a, _ in pickletools.genops(pickled) if isinstance(a, int | float | str)
    }
    found = {name for value, name in canary_values(seed).items() if value in present}
    places = file + pickled
    starts = parts_of(places, 8)
    for form, name in long_patterns(seed).items():
        if form[:8] in starts and form in places:
            found.add(name)
    return found


def parts_of(places: bytes, size: int) -> set[bytes]:
    """Give all parts of some size: looking one up is faster than a search."""
    return {places[at : at + size] for at in range(len(places))}


def n_short_hits(seed: int, *places: bytes) -> int:
    parts = set().union(*(parts_of(place, 4) for place in places))
    return sum(not parts.isdisjoint(forms) for forms in short_patterns(seed))


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("synthesizer", INSTANCES.values(), ids=INSTANCES)
def test_no_training_value_is_kept(synthesizer, tmp_path, global_random_seed):
    """Search file and pickle for each of 240 values of five columns.

    False alarms. Patterns of 8 bytes and more are fewer than 20,000, and file and
    pickle have fewer than 2^19 places. Against random mantissas all 64 bits of a number
    must agree: 20,000 * 2^19 / 2^64 = 6e-10. Texts have 12 random letters (56 bits),
    and digits are some 16 in a row (1e-8, were all places digits). Patterns
    of 4 bytes: 480 numbers have 4 each, so L random bytes hold L * 1,920 / 2^32 of them
    on average, which is checked to be at most 0.2. More than 5 numbers are then hit
    with probability 0.2^6 / 6! = 9e-8.
    """
    synth = clone(synthesizer).set_params(target="y")
    if "epsilon" in synth.get_params():
        synth.set_params(epsilon=8.0)
    synth.fit(canaries(global_random_seed)).save(tmp_path / "fitted.skdp")
    places = (tmp_path / "fitted.skdp").read_bytes(), pickle.dumps(synth)
    assert columns_found(global_random_seed, *places) == set()
    chance = sum(map(len, places)) * 4 * 2 * N_ROWS / 2**32
    assert chance <= _MAX_CHANCE
    assert n_short_hits(global_random_seed, *places) <= _MAX_HITS


# --- Values that are kept are found -----------------------------------------------

LEAKS = {
    "number": (lambda X: X["real"].iloc[7], "real"),
    "text": (lambda X: X["text"].iloc[7], "text"),
    "time": (lambda X: X["when"].iloc[7].isoformat(), "when"),
    "digits": (lambda X: f"<{X['long'].iloc[7]}>", "long"),
    "big-endian": (lambda X: X["real"].to_numpy(">f8")[:1], "real"),
    "whole as float": (lambda X: X["whole"].to_numpy(float), "whole"),
    "numpy text": (lambda X: X["text"].to_numpy("U")[:1], "text"),
    "nanoseconds": (lambda X: X["when"].to_numpy("M8[ns]"), "when"),
}


def file_of(facts):
    header = {"__metadata__": {"skdpsynth": json.dumps(facts)}}
    return put_together(header, b"")


@pytest.mark.parametrize("leak", LEAKS)
def test_one_value_that_is_kept_is_found(leak):
    """In a pickle; and in a file, among its arrays or in its header."""
    no_pickle, (keep, name) = pickle.dumps(None), LEAKS[leak]
    kept = keep(canaries(0))
    file = file_of({})
    assert columns_found(0, file, no_pickle) == set()
    assert columns_found(0, file, pickle.dumps({"kept": kept})) == {name}
    if isinstance(kept, np.ndarray):
        file += kept.tobytes()
    else:
        file = file_of({"kept": [kept]})
    assert columns_found(0, file, no_pickle) == {name}
