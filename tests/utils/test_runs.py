"""The memory of a block of code."""

from pathlib import Path

import numpy as np
import pytest

from skdpsynth.utils import PeakMemory


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux only")
def test_peak_is_that_of_the_block():
    """50 MB that are freed inside count; those that were there before do not."""
    before = np.ones(50 * 2**17)  # 50 MB
    for _ in range(2):
        with PeakMemory() as memory:
            np.ones(50 * 2**17).sum()
        assert 45 < memory.megabytes < 70
    with PeakMemory() as memory:
        before.sum()
    assert memory.megabytes < 10
