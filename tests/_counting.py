"""What tests count in parts of a table."""

from __future__ import annotations

from collections import Counter


def length_of_part(number, part):
    """Count the rows of a part, by its number."""
    return Counter({number: len(part)})
