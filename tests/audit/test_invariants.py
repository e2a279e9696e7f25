"""No row has a say in the noise: of whole fits with equal releases and secrets.

What else a row must not decide is in `tests/synthesizers/test_privacy.py`.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdpsynth
from skdpsynth.privacy.testing import insecure_randomness, observe_releases

pytestmark = pytest.mark.usefixtures("short_fits")


def releases_of(synthesizer, table, schema, history=()):
    """Fit; give the releases, in whose place those of another fit are used."""
    kept = []

    def see(release):
        kept.append(release)
        return history[len(kept) - 1].noisy if history else None

    with insecure_randomness(7), observe_releases(see):
        clone(synthesizer).set_params(schema=schema, random_state=0).fit(table)
    return kept


def test_a_row_has_no_say_in_the_noise(audited, case):
    """Every release has a stream of its own, apart from those that draw for rows.

    Noise of floats is read off to the rounding of sums; votes show it where they are as
    many.
    """
    table, _, schema = case
    extra = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"], "y": ["u"]})
    first = releases_of(audited, table, schema)
    more = pd.concat([table, extra], ignore_index=True)
    second = releases_of(audited, more, schema, first)
    for ours, theirs in zip(first, second, strict=True):
        if ours.reservation.kind.endswith("vote"):
            same = ours.exact == theirs.exact
            assert same.mean() > 0.2
            np.testing.assert_array_equal(ours.noisy[same], theirs.noisy[same])
        else:
            noise, other = (own.noisy - own.exact for own in (ours, theirs))
            assert noise.any()
            np.testing.assert_allclose(noise, other, rtol=1e-9, atol=1e-9)


def test_the_package_never_calls_make_private():
    """Opacus takes rate, steps and divisor from the exact number of rows there."""
    for source in Path(skdpsynth.__file__).parent.rglob("*.py"):
        assert "make_private(" not in source.read_text(encoding="utf-8")
