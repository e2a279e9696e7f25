"""What a schema declares, in words for a privacy report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdpsynth.schema._columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from skdpsynth.schema._table_schema import TableSchema

_MAX_NAMES = 8  # of columns in one line


def declared_facts(schema: TableSchema | None) -> tuple[str, ...]:
    """List in words what a schema states as public, without any bound or category."""
    if schema is None:
        return ()
    columns = schema.columns.items()
    kinds = (
        ("the bounds of", (Continuous, Datetime)),
        ("the categories of", (Categorical, Boolean)),
        ("identifiers, never looked at:", (Identifier,)),
    )
    facts = [
        _phrase(words, [name for name, column in columns if isinstance(column, types)])
        for words, types in kinds
    ]
    complete = [n for n, c in columns if getattr(c, "nullable", None) is False]
    facts.append(_phrase("that no value is missing in", complete))
    if schema.class_counts is not None:
        facts.append("the number of rows of every class")
    elif schema.n_rows is not None:
        facts.append("the number of rows")
    return tuple(fact for fact in facts if fact)


def _phrase(words: str, names: Iterable[Hashable]) -> str:
    """Name some columns, and say how many more there are; empty without any."""
    listed = [str(name) for name in names]
    if not listed:
        return ""
    more = len(listed) - _MAX_NAMES
    tail = f" and {more} more columns" if more > 0 else ""
    return f"{words} {', '.join(listed[:_MAX_NAMES])}{tail}"
