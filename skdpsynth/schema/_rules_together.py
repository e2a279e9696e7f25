"""Whether the rules of a schema are about its columns, and can be kept together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import Continuous
from skdpsynth.schema._rules import MissingTogether, Ordered, Rule

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from skdpsynth.schema._columns import Column

    Columns = Mapping[Hashable, Column]


def checked_rules(
    rules: object, columns: Columns, target: Hashable
) -> tuple[Rule, ...]:
    """Refuse what are no rules about described columns, or cannot be kept together."""
    if not isinstance(rules, Iterable) or isinstance(rules, str | Mapping):
        raise InvalidSchemaError(
            "The 'rules' of TableSchema must be a list of rules. Got an object of type"
            f" {type(rules).__name__}."
        )
    found = tuple(rules)
    for rule in found:
        if not isinstance(rule, Rule):
            raise InvalidSchemaError(
                "Each of the 'rules' of TableSchema must be an Ordered, SumOf,"
                f" MissingTogether or Determines. Got {rule!r} instead."
            )
        for name in rule.names:
            if name not in columns:
                raise InvalidSchemaError(
                    f"The rule {rule} is about a column {name!r} that the schema does"
                    " not describe. Add it to the columns, or correct its name."
                )
        rule._check(columns)
    _check_together(found)
    if target is not None:
        check_target(found, columns, target)
    in_order(found)
    return found


def check_target(rules: Iterable[Rule], columns: Columns, target: Hashable) -> None:
    """Refuse rules that would compute the target, or take labels away."""
    for rule in rules:
        if target in set(rule.derived):  # a name may be unequal to itself
            raise InvalidSchemaError(
                f"The target {target!r} must be modelled, but the rule {rule} computes"
                " it from other columns. Drop the rule, or use target=None."
            )
        if not isinstance(rule, MissingTogether) or target not in set(rule.names):
            continue
        if not isinstance(columns[target], Continuous):
            raise InvalidSchemaError(
                f"The rule {rule} is about the target {target!r}, whose labels never"
                " come out missing. Leave it out of the rule."
            )


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Give the rules that compute a column, each after those of its own columns."""
    waiting = {name: rule for rule in rules for name in rule.derived}
    needs = {name: waiting.keys() & {*rule.names} for name, rule in waiting.items()}
    left = {name: len(needed) - 1 for name, needed in needs.items()}  # but for itself
    users: dict[Hashable, list[Hashable]] = {name: [] for name in waiting}
    for name in waiting:
        for needed in needs[name]:
            users[needed].append(name)
    place = {name: number for number, name in enumerate(waiting)}
    found: list[Rule] = []
    ready = [name for name in waiting if left[name] == 0]
    while ready:
        found += [waiting.pop(name) for name in ready]
        freed = []
        for user in (user for name in ready for user in users[name]):
            left[user] -= 1
            freed += [user] if left[user] == 0 else []
        ready = sorted(freed, key=place.__getitem__)
    if waiting:
        raise InvalidSchemaError(
            "The rules compute columns from each other in a circle:"
            f" {', '.join(map(repr, waiting))}. Drop one of"
            f" {'; '.join(map(str, waiting.values()))}."
        )
    return found


def _check_together(rules: Sequence[Rule]) -> None:
    """Refuse two rules that would each change, or compute, the same column."""
    computed: dict[Hashable, Rule] = {}
    for rule in rules:
        for name in rule.derived:
            if name in computed:
                raise InvalidSchemaError(
                    f"The column {name!r} can be computed by one rule only. Got"
                    f" {computed[name]} and {rule}; drop one."
                )
            computed[name] = rule
    for kind in (Ordered, MissingTogether):
        seen: dict[Hashable, Rule] = {}
        for rule in rules:
            for name in rule.names if isinstance(rule, kind) else ():
                other = computed.get(name) or seen.get(name)
                if other is not None:
                    raise InvalidSchemaError(
                        f"The column {name!r} can be in one rule only that changes it."
                        f" Got {other} and {rule}; leave it out of one, or write one"
                        " rule for all columns."
                    )
                seen[name] = rule
