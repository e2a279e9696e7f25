"""Where two objects differ: by what they hold, whichever objects hold it.

`pickle` and `joblib.hash` write an object that occurs twice as a reference to the
first, so that two equal texts differ from one text used twice. Here nothing counts but
types, and what arrays, tensors, tables and generators hold, to the bit.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pandas as pd

_PLAIN = (str, bytes, int, bool, type(None))  # compared by type and value


def differences(first: Any, second: Any, where: str = "") -> list[str]:  # noqa: ANN401
    """List the places where two objects differ; no value is in the list.

    An object that was met before on the way is compared once, with the same partner.
    """
    return _Walk().between(first, second, where)


class _Walk:
    """One comparison; it remembers which pairs it has met: objects form cycles."""

    def __init__(self) -> None:
        self._met: set[tuple[int, int]] = set()
        self._alive: list[Any] = []  # an address is used again when its object is gone

    def between(self, first: Any, second: Any, where: str) -> list[str]:  # noqa: ANN401
        if type(first) is not type(second):
            return [where or "the object itself"]
        if isinstance(first, _PLAIN):
            return [] if first == second else [where]
        if isinstance(first, float | complex | np.generic):
            same = np.asarray(first).tobytes() == np.asarray(second).tobytes()
            if isinstance(first, np.void | np.object_):
                same = first == second
            return [] if same else [where]
        if (id(first), id(second)) in self._met:
            return []
        self._met.add((id(first), id(second)))
        self._alive += [first, second]
        pairs = parts_of(first), parts_of(second)
        names = [[name for name, _ in own] for own in pairs]
        if names[0] != names[1]:
            return [f"{where}: what it holds"]
        return [
            found
            for (name, ours), (_, theirs) in zip(*pairs, strict=True)
            for found in self.between(ours, theirs, f"{where}{name}")
        ]


def parts_of(held: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - by type
    """Take an object apart: names and parts, in order."""
    if isinstance(held, np.ndarray):
        return _of_array(held)
    if isinstance(held, np.random.Generator):
        return [(".state", held.bit_generator.state)]
    if isinstance(held, np.random.RandomState):
        return [(".state", held.get_state(legacy=False))]
    if type(held).__module__.partition(".")[0] == "torch":
        return _of_torch(held)
    if isinstance(held, pd.CategoricalDtype):
        return [(".categories", held.categories), (".ordered", held.ordered)]
    if isinstance(held, pd.api.extensions.ExtensionDtype | np.dtype):
        return [("", str(held))]  # pandas keeps what it computes on some of them
    if isinstance(held, pd.DataFrame):
        columns = [held.iloc[:, place] for place in range(held.shape[1])]
        own = [(f"[{place}]", column) for place, column in enumerate(columns)]
        return [(".columns", held.columns), (".index", held.index), *own]
    if isinstance(held, pd.Series | pd.Index):
        own = [(".dtype", str(held.dtype)), (".name", held.name)]
        categories = getattr(held.dtype, "categories", None)
        values = np.array([*held], dtype=object) if len(held) else None
        return [*own, (".categories", categories), (" values", values)]
    if hasattr(held, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(held)
        return [(".schema", str(table.schema)), (".rows", table.to_pydict())]
    if isinstance(held, dict | types.MappingProxyType):
        # Also the order of keys tells something.
        keys = [("'s keys", [*held])]
        return keys + [
            (f"[{place}]", value) for place, value in enumerate(held.values())
        ]
    if isinstance(held, list | tuple):
        return [(f"[{place}]", value) for place, value in enumerate(held)]
    if isinstance(held, set | frozenset):
        return [(" members", sorted(held, key=repr))]
    if isinstance(held, functools.partial):
        return [
            (".func", held.func),
            (".args", held.args),
            (".keywords", held.keywords),
        ]
    if isinstance(held, types.MethodType):
        return [(".__self__", held.__self__), (".__func__", held.__func__)]
    if isinstance(held, types.FunctionType):
        cells = [cell.cell_contents for cell in held.__closure__ or ()]
        return [(" code", held.__code__.co_code), (" closure", cells)]
    return _of_object(held)


def _of_array(array: np.ndarray) -> list[tuple[str, Any]]:
    form = [(".dtype", str(array.dtype)), (".shape", array.shape)]
    if array.dtype.hasobject:
        return [*form, (" entries", array.ravel().tolist())]
    return [*form, (" bytes", np.ascontiguousarray(array).tobytes())]


def _of_torch(held: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - torch stays in nn
    if hasattr(held, "get_state"):  # a generator
        return [(".state", held.get_state().numpy())]
    if hasattr(held, "detach"):  # a tensor, or a parameter
        grad = getattr(held, "grad", None) if held.is_leaf else None
        form = [(".dtype", str(held.dtype)), (".device", str(held.device))]
        return [*form, (".grad", grad), ("", held.detach().cpu().numpy())]
    if type(held).__name__ in ("device", "dtype"):
        return [("", str(held))]
    return _of_object(held)


def _of_object(held: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - any
    """Give the attributes; without any, what a pickle would write, or the text."""
    own = dict(getattr(held, "__dict__", {}))
    for cls in type(held).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(held, name) and name not in ("__dict__", "__weakref__"):
                own[name] = getattr(held, name)
    if own:
        return [(f".{name}", value) for name, value in own.items()]
    if isinstance(held, type | types.ModuleType | types.BuiltinFunctionType):
        return [("", f"{getattr(held, '__module__', '')}.{held.__name__}")]
    if type(held).__repr__ is object.__repr__:
        return []
    return [("", repr(held))]
