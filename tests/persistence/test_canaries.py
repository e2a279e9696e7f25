"""No training value is in the file or the pickle of a fitted synthesizer.

The table is made of values that occur once and nowhere else. They are looked for as
bytes, in every form that a number or a text could be kept in. The file is not
compressed, so that a search of its bytes is a search of what it says.
"""

import functools
import json
import pickle
import pickletools
import struct

import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES
from _spoilt import taken_apart
from sklearn.base import clone

pytestmark = pytest.mark.usefixtures("short_fits")

N_ROWS = 240


@functools.cache
def canaries(seed: int) -> pd.DataFrame:
    """Make a table of values that occur once; the numbers are no plausible weights."""
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


def columns_found(seed: int, file: bytes, pickled: bytes) -> set[str]:
    """Say of which columns some value is in the file or in the pickle."""
    header, _ = taken_apart(file)
    present = values_in(json.loads(header["__metadata__"]["skdpsynth"]))
    present |= {
        a for _, a, _ in pickletools.genops(pickled) if isinstance(a, int | float | str)
    }
    found = {name for value, name in canary_values(seed).items() if value in present}
    places = file + pickled
    # Looking up a beginning is faster than a search.
    starts = {places[at : at + 8] for at in range(len(places))}
    for form, name in long_patterns(seed).items():
        if form[:8] in starts and form in places:
            found.add(name)
    return found


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("synthesizer", INSTANCES.values(), ids=INSTANCES)
def test_no_training_value_is_kept(synthesizer, tmp_path, global_random_seed):
    """Search file and pickle for each of 240 values of five columns.

    False alarms. Patterns are fewer than 20,000, of 8 bytes or more, and file and
    pickle have fewer than 2^19 places. Against random mantissas all 64 bits of a number
    must agree: 20,000 * 2^19 / 2^64 = 6e-10. Texts have 12 random letters (56 bits),
    and digits are some 16 in a row (1e-8, were all places digits).
    """
    synth = clone(synthesizer).set_params(target="y")
    if "epsilon" in synth.get_params():
        synth.set_params(epsilon=8.0)
    synth.fit(canaries(global_random_seed)).save(tmp_path / "fitted.skdp")
    places = (tmp_path / "fitted.skdp").read_bytes(), pickle.dumps(synth)
    assert columns_found(global_random_seed, *places) == set()


@pytest.mark.parametrize("name", ["real", "whole", "long", "text", "when"])
def test_a_column_that_is_kept_is_found(name, tmp_path):
    """In a pickle and in a file, as an array."""
    synth, table = INSTANCES["independent"], canaries(0)
    fitted = clone(synth).set_params(epsilon=8.0, target="y").fit(table)
    fitted.save(tmp_path / "fitted.skdp")
    file, kept = (tmp_path / "fitted.skdp").read_bytes(), table[name].to_numpy()
    assert columns_found(0, file, pickle.dumps(kept)) == {name}
    kept = kept.astype("U") if kept.dtype == object else kept
    assert columns_found(0, file + kept.tobytes(), pickle.dumps(None)) == {name}
