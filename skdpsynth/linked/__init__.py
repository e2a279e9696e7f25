"""Tables that are linked by keys, and rows in order.

`LinkModel` draws the children of given parents, after it was fitted to noisy tables.
"""

from skdpsynth.linked._chain import LinkModel as LinkModel, Pair as Pair
from skdpsynth.linked._columns import Column as Column
