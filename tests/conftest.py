"""What all tests share: threads, markers and seeds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before any library reads them: one thread per process, and no window for a plot.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

_AUDIT_FOLDER = Path(__file__).parent / "audit"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of tests/audit, and skip what needs a GPU where there is none."""
    for item in items:
        if item.path.is_relative_to(_AUDIT_FOLDER):
            item.add_marker(pytest.mark.audit)
    for_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if for_gpu:
        import torch

        if not torch.cuda.is_available():
            for item in for_gpu:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def global_random_seed() -> int:
    """Give the seed of a test that draws; it must pass for every seed in 0..99."""
    return int(os.environ.get("SKDPSYNTH_TEST_SEED", "42"))
