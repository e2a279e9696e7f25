"""All teachers as one batched program, on one thread.

Against a loop over them, and against torch's batched product of the same matrices.

Run ``python benchmarks/teachers.py``; it takes some seconds.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from skdpsynth.privacy import secret_generator
from skdpsynth.training import TeacherEnsemble

if TYPE_CHECKING:
    from collections.abc import Callable

_N_TEACHERS, _N_LOOPED = 4096, 256
_N_COLUMNS, _BATCH, _RATE = 29, 16, 0.3


def best_of(task: Callable[[], object], repeats: int = 5) -> float:
    """Give the shortest time in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def looped_step(
    networks: list[nn.Module], real: torch.Tensor, fake: torch.Tensor
) -> None:
    """Train every network for one step, one after the other."""
    labels = torch.cat([torch.ones(len(real)), torch.zeros(len(fake))])
    for network in networks:
        output = network(torch.cat([real, fake])).squeeze(1)
        nn.functional.binary_cross_entropy_with_logits(output, labels).backward()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter -= _RATE * parameter.grad
        network.zero_grad()


def make_network(hidden_dims: tuple[int, ...]) -> nn.Module:
    """Make one discriminator."""
    widths = [_N_COLUMNS, *hidden_dims]
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


def products_of(hidden_dims: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Give the matrix products of a step: (n, k, m) for (n, k) times (k, m)."""
    n_rows, shapes = 2 * _BATCH, []
    for depth, (n_in, n_out) in enumerate(pairwise((_N_COLUMNS, *hidden_dims, 1))):
        shapes += [(n_rows, n_in, n_out), (n_in, n_rows, n_out)]
        if depth > 0:
            shapes.append((n_rows, n_out, n_in))
    return shapes


def seconds_of_bmm(shapes: list[tuple[int, int, int]]) -> float:
    """Time torch's batched product of these shapes, and nothing else."""
    total = 0.0
    for n, k, m in shapes:
        left, right = torch.rand(_N_TEACHERS, n, k), torch.rand(_N_TEACHERS, k, m)
        out = torch.empty(_N_TEACHERS, n, m)
        total += best_of(lambda a=left, b=right, c=out: torch.bmm(a, b, out=c))
    return total


def main() -> None:
    """Print seconds per step of all teachers, and the ratios."""
    torch.set_num_threads(1)
    rows = np.random.default_rng(0).standard_normal((32_768, _N_COLUMNS), np.float32)
    generated = torch.randn(64, _N_COLUMNS, generator=torch.Generator().manual_seed(0))
    print(f"one training step of {_N_TEACHERS} teachers, {_BATCH} real and fake rows")
    for hidden_dims in [(), (32,), (32, 16)]:
        ensemble = TeacherEnsemble(
            rows,
            _N_TEACHERS,
            n_features=_N_COLUMNS,
            hidden_dims=hidden_dims,
            learning_rate=_RATE,
            weight_decay=0.01,
            batch_size=_BATCH,
            rng=secret_generator(),
            generator=torch.Generator(),
            device="cpu",
        )
        networks = [make_network(hidden_dims) for _ in range(_N_LOOPED)]
        real, fake = torch.from_numpy(rows[:_BATCH]), generated[:_BATCH]
        batched = best_of(lambda e=ensemble: e.train_step(generated, lambda rows: rows))
        one_by_one = best_of(
            lambda n=networks, r=real, f=fake: looped_step(n, r, f), repeats=3
        )
        looped = one_by_one * _N_TEACHERS / _N_LOOPED
        print(
            f"hidden_dims={hidden_dims}: batched {batched:.3f} s, one by one "
            f"{looped:.3f} s (from {_N_LOOPED} of them), ratio {looped / batched:.0f}"
        )
        shapes = products_of(hidden_dims)
        work = 2e-9 * _N_TEACHERS * sum(n * k * m for n, k, m in shapes)
        alone = seconds_of_bmm(shapes)
        print(
            f"  {work / batched:.1f} GFLOP/s, {100 * alone / batched:.0f} % of "
            f"torch.bmm's {work / alone:.1f}"
        )


if __name__ == "__main__":
    main()
