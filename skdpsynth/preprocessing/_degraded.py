"""Where a fit succeeded but its result says little: told from released facts alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skdpsynth.preprocessing._axes import LevelAxis

if TYPE_CHECKING:
    from skdpsynth.preprocessing._plan import ClassPlan
    from skdpsynth.preprocessing._purchase import TableFacts

__all__ = ["degradation"]


def degradation(facts: TableFacts, plans: list[ClassPlan], *, private: bool) -> str:
    """Say what is poor about a result.

    Parameters
    ----------
    facts : TableFacts
        What was bought.
    plans : list of ClassPlan
        What each class paid for.
    private : bool
        False if there was no noise; classes are never too small then.

    Returns
    -------
    str
        Empty if nothing is poor.
    """
    parts = []
    notes = Counter(plan.note for plan in plans if plan.note and private)
    for note, count in notes.items():
        parts.append(f"{count} of {len(plans)} classes have {note}")
    if facts.layout.target is not None and not facts.classes.levels:
        parts.append("no label was frequent enough to be released")
    empty = [
        column.name
        for column, axis in zip(facts.columns, facts.axes, strict=True)
        if isinstance(axis, LevelAxis) and not axis.levels and not axis.nullable
    ]
    if empty:
        parts.append(
            f"no category of {empty!r} was frequent enough to be released, and their "
            "synthetic values are missing"
        )
    if not parts:
        return ""
    return (
        f"The result says little: {'; '.join(parts)}. Use a larger epsilon, declare "
        "more in a schema, or leave out columns; plan() shows the numbers."
    )
