"""Secret randomness is secret, seeded only in its named context, and global-free."""

import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import torch
from _reserve import noisy

from skdpsynth.privacy import secret_generator
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.privacy.testing import insecure_randomness


def words(generator):
    return generator.integers(2**63, size=4).tolist()


def test_seed_has_256_bits_of_entropy_in_a_256_bit_pool(monkeypatch):
    asked = secrets.token_bytes()
    monkeypatch.setattr(
        "skdpsynth.privacy._random.secrets.token_bytes", lambda n: asked
    )
    seeds = secret_generator().bit_generator.seed_seq
    assert np.asarray(seeds.entropy).tobytes() == asked
    assert seeds.pool_size * 32 == len(asked) * 8 == 256


def test_insecure_context_repeats_streams_and_separates_generators():
    runs = []
    for _ in range(2):
        with insecure_randomness(3):
            runs.append([words(secret_generator()) for _ in range(3)])
    assert runs[0] == runs[1]
    assert len({tuple(stream) for stream in runs[0]}) == 3
    with insecure_randomness(4):
        assert words(secret_generator()) != runs[0][0]
    assert words(secret_generator()) != words(secret_generator())


def test_an_insecure_context_ends_even_after_an_error_and_has_no_other_thread():
    streams = []
    for _ in range(2):
        with suppress(KeyError), insecure_randomness(1):
            with ThreadPoolExecutor(1) as pool:
                streams.append(pool.submit(lambda: words(secret_generator())).result())
            raise KeyError
        streams.append(words(secret_generator()))
    assert len({*map(tuple, streams)}) == 4


def test_nobody_repeats_noise_by_seeding():
    """Fifty draws of deviation 100 are equal with a probability below 1e-100."""

    def noise():
        np.random.seed(0)  # noqa: NPY002, TID251 - to show that it does nothing
        random.seed(0)
        torch.manual_seed(0)  # noqa: TID251
        return noisy_counts(np.zeros(0, int), 50, noisy(1.0, mu=0.01)).tolist()

    assert noise() != noise()
