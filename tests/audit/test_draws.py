"""Twins of what a fit draws: noise that is shared or of another law, samples of rows.

Each is caught in one fit, or in one draw of the mechanism, by a test whose p-values are
exact. Where noise has the size of the ledger, `audit_ledger` sees nothing: it looks at
the squares alone.
"""

import math
from dataclasses import replace
from functools import wraps
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from _twins import in_place_of_the_mechanisms
from scipy.stats import binomtest, norm, pearsonr
from sklearn.base import clone

from skdpsynth import DPCGANSynthesizer, GPATESynthesizer
from skdpsynth.audit._worlds import recorded  # releases as they are drawn
from skdpsynth.privacy import PrivacyAccountant, _mechanisms
from skdpsynth.training import _discriminator
from skdpsynth.training._dp_sgd import sampled

pytestmark = pytest.mark.statistical

ALPHA = 1e-6
N_DRAWS = 20_000


def releases_of(synthesizer, schema, table):
    with recorded() as releases:
        clone(synthesizer).set_params(schema=schema).fit(table)
    return releases


# --- Noise that is shared ---------------------------------------------------------


def changed(change):
    """Draw noise, and add what `change` makes of it and of the line of the ledger."""

    def twin(real):
        @wraps(real)
        def broken(values, line, *others):
            return values + change(real(values, line, *others) - values, line)

        return broken

    return twin


def shared(key_of):
    """Draw noise once for all releases of one key."""
    kept = {}
    return changed(
        lambda noise, line: kept.setdefault((key_of(line), noise.shape), noise)
    )


def shared_by_releases():
    """The same noise in every release of a class."""
    return shared(lambda line: line.scope)


def shared_by_classes():
    """The same noise in the same release of all classes."""
    return shared(lambda line: line.used)


def shared_by_entries():
    """The same noise in all entries of a release."""
    return changed(lambda noise, line: noise.ravel()[0])


def is_dependent(releases):
    """Whether the noise of two classes has correlations; wrong once in a million.

    Of two releases after one another, of two entries beside one another, and of the
    classes; disjoint pairs of independent normal numbers, so the p-values are exact
    (of whole numbers all but exact: their noise is many units wide).
    """
    noise = {"u": [], "v": []}
    for r in releases:
        scale = r.unit * r.reservation.noise_std
        noise[r.reservation.scope].append(((r.noisy - r.exact) / scale).ravel())
    u, v = (np.array(noise[scope]) for scope in ("u", "v"))
    even = u[:, : u.shape[1] // 2 * 2]
    pairs = [(u[::2], u[1::2]), (even[:, ::2], even[:, 1::2]), (u, v)]
    p_values = [pearsonr(ours.ravel(), theirs.ravel()).pvalue for ours, theirs in pairs]
    return min(p_values) < ALPHA / len(p_values)


RANDOM = {"init": "random", "hidden_dims": ((8,), (4,)), "n_iter": 20}
TRAINED = [
    GPATESynthesizer(n_teachers=4, batch_size=4, **RANDOM),
    DPCGANSynthesizer(**RANDOM),
]


@pytest.mark.parametrize("synthesizer", TRAINED, ids=["whole numbers", "gradients"])
def test_shared_noise_is_caught(synthesizer, small_table, public_schema):
    """The twins have correlations of 1; that of the package errs once in a million."""
    case = synthesizer, public_schema, small_table
    assert not is_dependent(releases_of(*case))
    for twin in (shared_by_releases, shared_by_classes, shared_by_entries):
        with in_place_of_the_mechanisms(twin()):
            assert is_dependent(releases_of(*case))


# --- Noise of another law ---------------------------------------------------------


def whole_numbers():
    """Draw noise of the discrete Gaussian law; give it and its law at the draws."""
    accountant = PrivacyAccountant(1.0, 1e-5)
    line = accountant.reserve_gaussian("g", mu=0.05, sensitivity=1.0)
    draws = _mechanisms.release_gaussian(np.zeros(N_DRAWS, dtype=np.int64), line)
    reach = math.ceil(40 * line.noise_std)
    numbers = np.arange(-reach, reach + 1)
    law = np.cumsum(np.exp(-((numbers / line.noise_std) ** 2) / 2))
    values = np.unique(draws)
    return draws, values, law[np.clip(values + reach, 0, 2 * reach)] / law[-1]


def gradients():
    """Draw noise of DP-SGD; give it and the normal law at the draws."""
    accountant = PrivacyAccountant(1.0, 1e-5)
    line = accountant.reserve_sampled_gaussian("s", mu=0.05, sampling_rate=0.1)
    draws = _mechanisms.release_float_gaussian(np.zeros(N_DRAWS), 1.0, line)
    values = np.unique(draws)
    return draws, values, norm.cdf(values / line.noise_std)


def has_another_law(draws, values, law):
    """Whether draws follow another law; wrong at most once in a million.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, for any law.
    """
    seen = np.searchsorted(np.sort(draws), values, side="right") / len(draws)
    return np.abs(seen - law).max() > math.sqrt(math.log(2 / ALPHA) / 2 / len(draws))


def laplace_numbers(std):
    return _mechanisms._laplace_measurement(std / math.sqrt(2))


class LaplaceGenerator:
    """Laplace noise of the standard deviation that is asked for."""

    def __init__(self):
        self._rng = np.random.default_rng()

    def normal(self, mean, std, shape):
        return self._rng.laplace(mean, std / math.sqrt(2), shape)


@pytest.mark.parametrize(
    ("draw", "name", "twin"),
    [
        (whole_numbers, "_measurement", laplace_numbers),
        (gradients, "secret_generator", LaplaceGenerator),
    ],
)
def test_noise_of_another_law_is_caught(draw, name, twin, monkeypatch):
    """Laplace noise of the size that is charged: 0.06 from the law; 0.019 is seen."""
    assert not has_another_law(*draw())
    monkeypatch.setattr(_mechanisms, name, twin)
    assert has_another_law(*draw())


# --- Samples of rows --------------------------------------------------------------


def half_as_many(rows, line, rng):
    """The rate is not that of the ledger."""
    return sampled(rows, SimpleNamespace(sampling_rate=line.sampling_rate / 2), rng)


def same_rows(rows, line, rng):
    """Every step has the sample of the first."""
    return sampled(rows, line, np.random.default_rng(0))


def samples_are_wrong(schema, table, sample, monkeypatch):
    """Whether two samples of each class are no independent draws of the ledger's rate.

    Wrong once in a million: six binomial laws, of the rows in a sample and in both.
    """
    drawn = []

    def keep(rows, line, rng):
        places = sample(torch.arange(len(rows)), line, rng)
        drawn.append((len(rows), places.numpy()))
        return rows[places]

    monkeypatch.setattr(_discriminator, "sampled", keep)
    synthesizer = DPCGANSynthesizer(0.3, batch_size=1000, **RANDOM | {"n_iter": 2})
    releases = releases_of(synthesizer, schema, table)
    p_values = []
    for start in (0, 2):  # two steps of a class, then two of the other
        rate = releases[start].reservation.sampling_rate
        assert 0.1 < rate < 0.5
        (n_rows, first), (_, second) = drawn[start : start + 2]
        common = len(np.intersect1d(first, second))
        for seen, p in ((len(first), rate), (len(second), rate), (common, rate**2)):
            p_values.append(binomtest(seen, n_rows, p).pvalue)
    assert len(drawn) == len(releases) == 4
    return min(p_values) < ALPHA / len(p_values)


def test_samples_by_another_rule_are_caught(small_table, public_schema, monkeypatch):
    """A rate of 0.11 for 0.22; the same rows in both samples.

    The package's own are caught once in a million. A table of 1,500 rows, of which
    7,500 are declared.
    """
    counts = {"u": 4500, "v": 3000}
    schema = replace(public_schema, class_counts=counts)
    case = schema, pd.concat([small_table] * 10, ignore_index=True)
    assert not samples_are_wrong(*case, sampled, monkeypatch)
    for sample in (half_as_many, same_rows):
        assert samples_are_wrong(*case, sample, monkeypatch)
