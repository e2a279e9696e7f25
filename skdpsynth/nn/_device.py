"""Where tensors live."""

from __future__ import annotations

import torch


def resolve_device(device: str | torch.device) -> torch.device:
    """Give the device to train on; a ValueError where PyTorch cannot use it here."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.zeros(1, device=resolved).item()  # fails where nothing is computed
    except (RuntimeError, AssertionError, TypeError) as error:
        msg = (
            f"device must be 'auto' or a device that PyTorch can use here. "
            f"Got {device!r} instead; 'cpu' always works."
        )
        raise ValueError(msg) from error
    return resolved
