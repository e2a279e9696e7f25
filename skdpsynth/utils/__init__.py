"""Helpers that belong to no single part of the package."""

from __future__ import annotations

__all__: list[str] = []
