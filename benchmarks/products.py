"""A linear discriminator's step on fakes: matrix products, and Opacus's gradients.

Run ``python benchmarks/products.py``: seconds of both ways in one run, and their ratio.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch

from skdpsynth.generators import FactorGenerator
from skdpsynth.models import FactorTrainer
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.training import Discriminator

_FAKES, _FACTORS, _REPEATS = 512, 8, 5


def main() -> None:
    """Time one step of the discriminator and one of the generator."""
    torch.set_num_threads(1)
    for n_columns in (30, 180, 784):
        trainer, discriminator = _players(n_columns)
        generated = trainer.rows(trainer.draw(_FAKES))
        features = trainer.features()
        discriminator.release(features)
        seconds = []
        # The bound method is a plain callable, of which nothing is known.
        for look in (features, features.__call__):
            times, objective = [], partial(discriminator.objective, features=look)
            for _ in range(_REPEATS):
                start = time.perf_counter()
                discriminator.follow(generated, look)
                trainer.gradient(trainer.draw(_FAKES), objective)
                times.append(time.perf_counter() - start)
            seconds.append(min(times))
        ours, theirs = seconds
        print(
            f"{n_columns} columns: products {ours:.4f} s, gradients of every fake "
            f"{theirs:.4f} s, ratio {theirs / ours:.1f}"
        )


def _players(n_columns: int) -> tuple[FactorTrainer, Discriminator]:
    """Make a generator and a discriminator that has one step to take."""
    device = torch.device("cpu")
    public = torch.Generator().manual_seed(0)
    (parameters,) = FactorGenerator.initial(1, n_columns, _FACTORS, 0).parameters
    trainer = FactorTrainer(
        parameters,
        ("loadings",),
        n_steps=1,
        learning_rate=0.03,
        generator=public,
        device=device,
        dtype=torch.float64,
    )
    rows = np.random.default_rng(0).normal(size=(100, n_columns)).astype(np.float32)
    discriminator = Discriminator(
        rows,
        n_features=trainer.n_features,
        hidden_dims=(),
        loss="logistic",
        learning_rate=1.0,
        weight_bound=float("inf"),
        max_grad_norm=0.5,
        expected_batch_size=100.0,
        reservation=PrivacyAccountant(1.0, 1e-5).reserve_sampled_gaussian(
            "steps", mu=0.1, sampling_rate=1.0, count=1
        ),
        rng=np.random.default_rng(0),
        generator=public,
        device=device,
    )
    return trainer, discriminator


if __name__ == "__main__":
    main()
