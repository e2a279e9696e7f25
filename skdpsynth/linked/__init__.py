"""Tables that hang on one another, with one guarantee per row of the root.

`LinkedSchema` says what is public. `_tree` turns tables into rows in order, `_release`
measures them by weights, and a `LinkModel` draws children, fitted to what was released.
"""

from skdpsynth.linked._schema import Link, LinkedSchema
from skdpsynth.linked._synthesizer import LinkedSynthesizer

__all__ = ["Link", "LinkedSchema", "LinkedSynthesizer"]
