"""From a table to numbers and back; what it learns from the rows it buys."""

from __future__ import annotations

__all__: list[str] = []
