"""No training value is in the file or the pickle of a fitted synthesizer.

The table is made of values that occur once and nowhere else. They are looked for as
bytes: texts, numbers in binary and in digits. The file is not compressed, so that a
search of its bytes is a search of what it says. That a fitted object is the same of
any table with the same releases is in `synthesizers/test_privacy.py`.
"""

import functools
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES
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
            "whole": -rng.integers(10**17, 10**18, N_ROWS),
            "text": [bytes(row.tolist()).decode() for row in letters],
            "when": start + rng.choice(10**15, N_ROWS, replace=False),
            "y": np.where(rng.random(N_ROWS) < 0.5, "one", "two"),
        }
    )


def forms(value) -> set[bytes]:
    """Give what is in a file that has a value: eight bytes and more."""
    if isinstance(value, pd.Timestamp):
        counts = (int(value.as_unit(unit).asm8.view("i8")) for unit in ("us", "ns"))
        return set().union(*map(forms, (*counts, value.isoformat(), str(value))))
    if isinstance(value, str):
        return {value.encode(code) for code in ("utf-8", "utf-16-le", "utf-32-le")}
    kind = "d" if isinstance(value, float) else "q"
    in_binary = {struct.pack(order + kind, value) for order in "<>"}
    return in_binary | forms(repr(abs(value)))


def columns_found(seed: int, *places: bytes) -> set[str]:
    """Say of which columns some value is in one of the places."""
    # Looking up a beginning is faster than a search.
    starts = {data[at : at + 8] for data in places for at in range(len(data))}
    return {
        name
        for name, column in canaries(seed).drop(columns="y").items()
        for value in column.tolist()
        for form in forms(value)
        if form[:8] in starts and any(form in data for data in places)
    }


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("synthesizer", INSTANCES.values(), ids=INSTANCES)
def test_no_training_value_is_kept(synthesizer, tmp_path, global_random_seed):
    """Search file and pickle for each of 240 values of four columns.

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


@pytest.mark.parametrize("name", ["real", "whole", "text", "when"])
def test_a_column_that_is_kept_is_found(name):
    """In a pickle and in a file, as an array."""
    kept = canaries(0)[name].to_numpy()
    written = kept.astype("U") if kept.dtype == object else kept
    for place in (pickle.dumps(kept), written.tobytes()):
        assert columns_found(0, b"before", place + b"behind") == {name}
