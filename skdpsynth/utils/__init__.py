"""Helpers that belong to no single part of the package."""

__all__: list[str] = []
