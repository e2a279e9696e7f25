"""No row has a say in the noise: of whole fits with equal releases and secrets.

What else a row must not decide is in `tests/synthesizers/test_privacy.py`.
"""

import zlib
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _twins import in_place_of_the_mechanisms
from sklearn.base import clone

import skdpsynth
from skdpsynth.audit._worlds import recorded, replayed  # releases, and their replay
from skdpsynth.privacy.testing import insecure_randomness

pytestmark = pytest.mark.usefixtures("short_fits")


def appended(table):
    extra = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"], "y": ["u"]})
    return pd.concat([table, extra], ignore_index=True)


@contextmanager
def added_noise():
    """Keep what every mechanism adds to its exact values.

    It is read off the addition and not off the answer, which for votes is a bit; or
    off the comparison with what is left to half of the votes.
    """
    kept = []

    class Exact(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **named):
            plain = [np.asarray(values) for values in inputs]
            compared = ufunc is np.less and isinstance(inputs[0], Left)
            if ufunc is np.add or compared:
                kept.append(plain[isinstance(inputs[0], Exact)].copy())
            made = getattr(ufunc, method)(*plain, **named)
            return made.view(Left) if ufunc is np.subtract else made

    class Left(Exact):
        """Votes that are left to half of them."""

    def watch(real):
        @wraps(real)
        def watched(values, *others):
            return np.asarray(real(values.view(Exact), *others))

        return watched

    with in_place_of_the_mechanisms(watch):
        yield kept


def noise_is_the_same(synthesizer, case):
    """Whether a row that joins leaves the noise of all releases as it was.

    The second fit has the releases of the first. Bit for bit: what is compared are the
    summands, not differences of rounded sums.
    """
    table, _, schema = case
    observed, noises = recorded(), []
    for rows in (table, appended(table)):
        with insecure_randomness(7), added_noise() as noise, observed as releases:
            clone(synthesizer).set_params(schema=schema, random_state=0).fit(rows)
        assert len(noise) == len(releases) > 0  # each addition was seen
        assert any(own.any() for own in noise)
        noises.append(noise)
        observed = replayed(releases)
    return all(np.array_equal(*pair) for pair in zip(*noises, strict=True))


def test_a_row_has_no_say_in_the_noise(audited, case):
    """Every release has a stream of its own, apart from those that draw for rows."""
    assert noise_is_the_same(audited, case)


def seeded_by_a_value(real):
    """Noise from a generator that the exact values seed."""

    @wraps(real)
    def twin(values, *others):
        with insecure_randomness(zlib.crc32(np.asarray(values).tobytes())):
            return real(values, *others)

    return twin


@pytest.mark.parametrize(
    "audited", ["independent", "dpcgan", "pategan laplace"], indirect=True
)
def test_noise_that_depends_on_a_row_is_caught(audited, case):
    """Of sums of whole numbers, of gradients and of votes."""
    with in_place_of_the_mechanisms(seeded_by_a_value):
        assert not noise_is_the_same(audited, case)


def test_the_package_never_calls_make_private():
    """Opacus takes rate, steps and divisor from the exact number of rows there."""
    for source in Path(skdpsynth.__file__).parent.rglob("*.py"):
        assert "make_private(" not in source.read_text(encoding="utf-8")
