"""What can be reached from an object: what a pickle of it could give away."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterator


def reachable(root: object) -> Iterator[Any]:
    """Yield all that an object holds, by attributes, items and closures."""
    stack: list[Any] = [root]
    seen: dict[int, Any] = {}  # keeps what it has seen alive, so that no id comes twice
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, type):
            continue
        seen[id(item)] = item
        yield item
        if isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif isinstance(item, pd.DataFrame | pd.Series | pd.Index):
            stack.append(item.to_numpy())
        elif isinstance(item, np.ndarray):
            stack += item.tolist() if item.dtype.kind == "O" else []
        elif isinstance(item, MethodType):
            stack.append(item.__self__)
        elif isinstance(item, FunctionType):
            stack += [cell.cell_contents for cell in item.__closure__ or ()]
        else:
            stack += vars(item).values() if hasattr(item, "__dict__") else []
            slots = getattr(type(item), "__slots__", ())
            stack += [getattr(item, name, None) for name in slots]
