"""What is built on torch: teachers, networks, losses. Imported by synthesizers only."""

from __future__ import annotations

__all__: list[str] = []
