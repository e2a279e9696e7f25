"""Tables that hang on one another, with one guarantee per row of the root.

`LinkedSchema` says what is public. `_tree` turns tables into rows in order, with
weights; `_release` measures them; a `LinkModel` draws children, fitted to what was
released.
"""

from skdpsynth.linked._chain import LinkModel as LinkModel, Pair as Pair
from skdpsynth.linked._columns import Column as Column
from skdpsynth.linked._schema import Link, LinkedSchema
from skdpsynth.linked._synthesizer import LinkedSynthesizer

__all__ = ["Link", "LinkedSchema", "LinkedSynthesizer"]
