"""Save, inspect and load: one safetensors file, with nothing to execute.

The file holds the generator and public metadata. No training value is in it, because
none is on a fitted synthesizer. Nothing is compressed, so that it can be searched as it
lies, and so that reading it needs memory in proportion to its size. Whatever is not
exactly what `save` writes is refused, by a `PersistenceError`.
"""

from skdpsynth.persistence._saved import Savable, inspect

__all__ = ["Savable", "inspect"]
