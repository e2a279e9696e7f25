"""What a fit draws: noise has the law of the ledger, and no row a say in it.

Where noise has the size of the ledger, `audit_ledger` does not see its law: it looks at
the squares alone.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _reserve import noisy, release_gaussian
from scipy.stats import norm
from sklearn.base import clone

import skdpsynth
from skdpsynth.privacy import PrivacyAccountant, release_float_gaussian
from skdpsynth.privacy.testing import insecure_randomness, observe_releases

pytestmark = pytest.mark.statistical

ALPHA = 1e-6
N_DRAWS = 20_000


def whole_numbers():
    """Draw noise of the discrete Gaussian law; give it and its law at the draws."""
    line = noisy(1.0, mu=0.05)
    draws = release_gaussian(np.zeros(N_DRAWS, dtype=np.int64), line)
    reach = math.ceil(40 * line.noise_std)
    numbers = np.arange(-reach, reach + 1)
    law = np.cumsum(np.exp(-((numbers / line.noise_std) ** 2) / 2))
    values = np.unique(draws)
    return draws, values, law[np.clip(values + reach, 0, 2 * reach)] / law[-1]


def gradients():
    """Draw noise of DP-SGD; give it and the normal law at the draws."""
    accountant = PrivacyAccountant(1.0, 1e-5)
    line = accountant.reserve_sampled_gaussian("s", mu=0.05, sampling_rate=0.1)
    draws = release_float_gaussian(np.zeros(N_DRAWS), 1.0, line)
    values = np.unique(draws)
    return draws, values, norm.cdf(values / line.noise_std)


@pytest.mark.parametrize("draw", [whole_numbers, gradients])
def test_noise_has_the_law_that_is_charged(draw):
    """Laplace noise of this size is 0.06 off; 0.019 is seen. Wrong once in a million.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, for any law.
    """
    draws, values, law = draw()
    seen = np.searchsorted(np.sort(draws), values, side="right") / len(draws)
    bound = math.sqrt(math.log(2 / ALPHA) / 2 / len(draws))
    assert np.abs(seen - law).max() <= bound


# --- No row has a say in the noise: of whole fits with equal releases and secrets -----


def releases_of(synthesizer, table, schema, history=()):
    """Fit; give the releases, in whose place those of another fit are used."""
    kept = []

    def see(release):
        kept.append(release)
        return history[len(kept) - 1].noisy if history else None

    with insecure_randomness(7), observe_releases(see):
        clone(synthesizer).set_params(schema=schema, random_state=0).fit(table)
    return kept


@pytest.mark.usefixtures("short_fits")
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
            assert same.mean() > 0.05
            np.testing.assert_array_equal(ours.noisy[same], theirs.noisy[same])
        else:
            noise, other = (own.noisy - own.exact for own in (ours, theirs))
            assert noise.any()
            np.testing.assert_allclose(noise, other, rtol=1e-9, atol=1e-9)


def test_the_package_never_calls_make_private():
    """Opacus takes rate, steps and divisor from the exact number of rows there."""
    for source in Path(skdpsynth.__file__).parent.rglob("*.py"):
        assert "make_private(" not in source.read_text(encoding="utf-8")
