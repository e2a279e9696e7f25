"""From a table to numbers and back; what it learns from the rows it buys."""

__all__: list[str] = []
