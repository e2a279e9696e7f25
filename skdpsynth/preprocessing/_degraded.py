"""Where a fit succeeded but its result says little: told from released facts alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skdpsynth.preprocessing._domains import LevelDomain

if TYPE_CHECKING:
    from skdpsynth.preprocessing._plan import ClassPlan
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.schema import TableSchema


def degradation(
    facts: TableFacts,
    plans: list[ClassPlan],
    declared: TableSchema | None,
    *,
    private: bool,
) -> str:
    """Say what is poor about a result; empty if nothing is."""
    parts = []
    notes = Counter(plan.note for plan in plans if plan.note and private)
    for note, count in notes.items():
        parts.append(f"{count} of {len(plans)} classes have {note}")
    if facts.layout.target is not None and not facts.classes.levels:
        parts.append("no label was frequent enough to be released")
    elif facts.layout.target is not None and len(facts.classes) == 1:
        parts.append("the target has one class only, so a classifier learns nothing")
    of_levels = {
        column.name: domain
        for column, domain in zip(facts.columns, facts.domains, strict=True)
        if isinstance(domain, LevelDomain)
    }
    empty = [n for n, a in of_levels.items() if not a.levels and not a.nullable]
    if empty:
        parts.append(
            f"no category of {empty!r} was frequent enough to be released, and their "
            "synthetic values are missing"
        )
    said = []
    if parts:
        said.append(
            f"The result says little: {'; '.join(parts)}. Use a larger epsilon, "
            "declare more in a schema, or leave out columns; plan() shows the numbers."
        )
    levels = {name: domain.levels for name, domain in of_levels.items()}
    levels[facts.layout.target] = facts.classes.levels
    unsorted = [
        column.name
        for column in facts.layout.columns
        if getattr(column.dtype, "ordered", False)
        and len(levels.get(column.name, ())) > 1
        and (declared is None or column.name not in declared.columns)
    ]
    if unsorted:
        said.append(
            f"The order of the categories of {unsorted!r} is not public, so they come "
            "back sorted by name or number. State the order by Categorical([...], "
            "ordered=True) in a schema."
        )
    return " ".join(said)
