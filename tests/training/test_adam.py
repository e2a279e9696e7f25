"""Adam's directions are torch's."""

import copy

import pytest
import torch

from skdpsynth.training import Adam


@pytest.mark.parametrize("momentum", [0.9, 0.5, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_are_those_of_torch(momentum, dtype):
    generator = torch.Generator().manual_seed(0)
    place = torch.zeros(7, dtype=dtype)
    settings = {"betas": (momentum, 0.99), "eps": 1e-3, "maximize": True}
    expected = torch.optim.Adam([place], lr=1.0, **settings)
    adam = Adam(floor=1e-3, momentum=momentum)
    for step in range(20):
        place.zero_()
        place.grad = torch.randn(7, dtype=dtype, generator=generator) * 10.0**-step
        expected.step()
        # A copy, as a discriminator takes that follows, leaves the state alone.
        copy.deepcopy(adam)(place.grad + 1.0)
        torch.testing.assert_close(adam(place.grad), place)
