"""What is public about tables that hang on one another: `Link` and `LinkedSchema`."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    MissingTogether,
    TableSchema,
    decode_value,
    encode_value,
    place,
)
from skdpsynth.utils import parse_json, read_text, require

# Columns whose names begin so are hidden in a parent: what is known of its children.
HIDDEN = "linked:"
_VERSION = 1  # of the JSON
_MOST_ROWS = 1_000  # of one parent: bounds the time of a fit
_MOST_LEVELS = 3


@dataclass(frozen=True)
class Link:
    """Rows of one table that hang on rows of another; public.

    Parameters
    ----------
    child, parent : str
        The names of both tables.
    key : column name
        The column of the child that says which row of the parent a row hangs on. It is
        compared with cells of the parent, never modelled, and numbered anew.
    parent_key : column name, optional
        The column of the parent that it names; by default it has the same name.
    max_rows : int, default=10
        Rows of one parent that are used, and drawn, at most: the first ones in order;
        from 1 to 1,000. The noise does not depend on it.
    order_by : column name, optional
        The column of the child that its rows are ordered by: a number, a time or an
        ordered category that is not nullable. Rows without a value are not used. None:
        the rows of a parent have no order.
    descending : bool, default=False
        Whether the largest value comes first.
    summaries : sequence of column names, default=()
        Columns of the child (`Continuous`, `Categorical` or `Boolean`) of which the
        mean, or the most frequent value, over the rows of a parent is measured with the
        columns of the parent: so an outcome there knows of them.

    Raises
    ------
    InvalidSchemaError
        If an argument is out of range.

    See Also
    --------
    LinkedSchema : All tables, and how they hang together.

    Examples
    --------
    >>> from skdpsynth import Link
    >>> Link("visits", parent="patients", key="patient", order_by="date").parent_key
    'patient'
    """

    child: str
    parent: str
    key: Hashable
    _: KW_ONLY
    parent_key: Hashable = None
    max_rows: int = 10
    order_by: Hashable = None
    descending: bool = False
    summaries: Sequence[Hashable] = ()

    def __post_init__(self) -> None:
        most = type(self.max_rows) is int and 1 <= self.max_rows <= _MOST_ROWS
        checks = {
            "child": (isinstance(self.child, str), "the name of a table"),
            "parent": (isinstance(self.parent, str), "the name of a table"),
            "key": (self.key is not None, "a column of the child"),
            "max_rows": (most, f"an int from 1 to {_MOST_ROWS:,}"),
            "descending": (type(self.descending) is bool, "True or False"),
            "summaries": (not isinstance(self.summaries, str), "a list of columns"),
        }
        for name, (fits, expected) in checks.items():
            if not fits:
                raise InvalidSchemaError(
                    f"The {name!r} of a Link must be {expected}. Got"
                    f" {getattr(self, name)!r}; correct it."
                )
        theirs = self.key if self.parent_key is None else self.parent_key
        object.__setattr__(self, "parent_key", theirs)
        object.__setattr__(self, "summaries", tuple(self.summaries))

    @property
    def _count(self) -> str:
        """The hidden column of the parent with the number of its children."""
        return f"{HIDDEN}{self.child!r}"

    def _summary(self, name: Hashable) -> str:
        """Return the hidden column of the parent that sums up one of the child."""
        return f"{HIDDEN}{self.child!r} {name!r}"


@dataclass(frozen=True)
class LinkedSchema:
    """What is public about tables that hang on one another.

    One table is the root, and each other one hangs on one of these: a tree of up to
    three levels. A unit of privacy is one row of the root with all rows that hang on
    it, at any depth.

    Parameters
    ----------
    tables : mapping of str to TableSchema
        What is public of each table. Keys need not be described. Of tables that hang on
        another one all columns must be, floats with `decimals` and times with a `unit`;
        of the root what is left out is measured.
    links : sequence of Link
        One for each table but the root.

    Raises
    ------
    InvalidSchemaError
        If these are no tree, or a link names a column that is described otherwise.

    See Also
    --------
    skdpsynth.LinkedSynthesizer : Synthetic tables of the same form.

    Examples
    --------
    >>> from skdpsynth import Link, LinkedSchema, TableSchema
    >>> from skdpsynth.schema import Boolean, Continuous, Datetime
    >>> schema = LinkedSchema(
    ...     {
    ...         "patients": TableSchema({"died": Boolean()}, target="died"),
    ...         "visits": TableSchema(
    ...             {
    ...                 "date": Datetime("2020-01-01", "2024-12-31", unit="D"),
    ...                 "lab": Continuous(0, 15, decimals=1),
    ...             }
    ...         ),
    ...     },
    ...     [Link("visits", parent="patients", key="patient", order_by="date")],
    ... )
    >>> schema.root
    'patients'
    """

    tables: Mapping[str, TableSchema]
    links: Sequence[Link]

    def __post_init__(self) -> None:
        tables = self.tables if isinstance(self.tables, Mapping) else {}
        schemas = (isinstance(own, TableSchema) for own in tables.values())
        named = all(isinstance(name, str) for name in tables)
        if not (tables and named and all(schemas)):
            raise InvalidSchemaError(
                "The 'tables' of LinkedSchema must be a mapping from name to"
                " TableSchema. Got something else; describe each table by one."
            )
        links = self.links if isinstance(self.links, Sequence) else ()
        if not links or not all(isinstance(link, Link) for link in links):
            raise InvalidSchemaError(
                "The 'links' of LinkedSchema must be a list of Link objects, one for"
                " each table but the root. Got something else."
            )
        object.__setattr__(self, "tables", dict(tables))
        object.__setattr__(self, "links", self._in_order([*links]))
        for name, schema in self.tables.items():
            if schema.privacy_unit is not None:
                raise InvalidSchemaError(
                    f"Table {name!r} names the privacy_unit {schema.privacy_unit!r}."
                    f" Expected none, as the unit is one {self._unit}; leave it out."
                )
            hidden = [n for n in schema.kinds if str(n).startswith(HIDDEN)]
            if hidden:
                raise InvalidSchemaError(
                    f"Names of columns that begin with {HIDDEN!r} are in use here. Got"
                    f" {hidden!r} of {name!r}; rename them."
                )
        for link in self.links:
            self._check(link)

    @property
    def root(self) -> str:
        """The table that hangs on no other."""
        return self.links[0].parent

    @property
    def _unit(self) -> str:
        """The unit of privacy, in words."""
        return f"row of {self.root} with the rows that hang on it alone"

    def _links_of(self, parent: str) -> list[Link]:
        """Return the links of the tables that hang on one, in order."""
        return [link for link in self.links if link.parent == parent]

    def schema_of(self, name: str) -> TableSchema:
        """Return what is public of a table, with its keys as identifiers.

        Parameters
        ----------
        name : str
            One of the tables.

        Returns
        -------
        TableSchema
            Keys of a child are written as those of its parent. It has no target.
        """
        schema = self.tables[name]
        columns = dict(schema.columns)
        for link in self._links_of(name):
            columns.setdefault(link.parent_key, Identifier())
        for link in (own for own in self.links if own.child == name):
            written = self.schema_of(link.parent).columns[link.parent_key]
            columns[link.key] = written
            schema = replace(schema, target=None, class_counts=None)
        return replace(schema, columns=columns)

    @classmethod
    def of_rows(cls, schema: TableSchema) -> LinkedSchema:
        """Return one table whose units have rows in order as two: units, and rows.

        Parameters
        ----------
        schema : TableSchema
            With `privacy_unit` and `order_by`. Its `per_unit` columns are those of the
            units.

        Returns
        -------
        LinkedSchema
            The root is named as the unit, and the other table ``rows of ...``.

        Raises
        ------
        InvalidSchemaError
            If the schema has no order, or no column of it can be one.
        """
        unit, most = schema.privacy_unit, schema.max_rows_per_unit
        if unit is None or most is None or schema.order_by is None:
            raise InvalidSchemaError(
                "Expected a schema with 'privacy_unit' and 'order_by'. Got"
                f" {unit!r} and {schema.order_by!r}; state both."
            )
        constant = {unit, *schema.per_unit}
        plain, parts = of_rows_alone(schema), []
        for rule in schema.rules:
            if {*rule.names} & constant not in (set(), {*rule.names}):
                raise InvalidSchemaError(
                    f"The rule {rule} is about columns of units and of their rows."
                    " Expected one of both where rows have an order; drop the rule, or"
                    " compute the column afterwards."
                )
        for of_units in (True, False):
            columns = {
                name: kind
                for name, kind in schema.columns.items()
                if (name in constant) == of_units
            }
            rules = [r for r in schema.rules if (r.names[0] in constant) == of_units]
            target = schema.target if schema.target in columns else None
            parts.append(replace(plain, columns=columns, rules=rules, target=target))
        root = str(unit)
        child = f"rows of {root}"
        link = Link(child, root, unit, max_rows=most, order_by=schema.order_by)
        return cls(dict(zip((root, child), parts, strict=True)), [link])

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write the schema as JSON, to be read, edited and kept.

        Parameters
        ----------
        path : path-like or None, default=None
            A file to write the text to; an existing one is replaced.

        Returns
        -------
        str
            The JSON: ``tables``, as `TableSchema.to_json` writes each, and ``links``.

        Raises
        ------
        InvalidSchemaError
            If JSON cannot hold the name of a column.
        """
        names = [item.name for item in fields(Link)]
        data = {
            "linked_version": _VERSION,
            "tables": {name: own.to_dict() for name, own in self.tables.items()},
            "links": [
                {name: encode_value(getattr(own, name)) for name in names}
                for own in self.links
            ],
        }
        text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="\n")
        return text

    @classmethod
    def from_json(cls, path_or_text: str | os.PathLike[str]) -> LinkedSchema:
        """Read the schema that `to_json` wrote.

        Parameters
        ----------
        path_or_text : path-like or str
            A file, or the JSON itself: a str that starts with a brace.

        Returns
        -------
        LinkedSchema
            What was written.

        Raises
        ------
        InvalidSchemaError
            If the text is not such a schema; the message names the place.
        """
        given = os.fspath(path_or_text)
        is_text = isinstance(path_or_text, str) and given.lstrip().startswith("{")
        with place("The schema" if is_text else f"The file {given!r}"):
            data = parse_json(given if is_text else read_text(given))
            require(data["linked_version"] == _VERSION, "another version")
            tables = data["tables"].items()
            links = [
                Link(**{name: decode_value(value) for name, value in own.items()})
                for own in data["links"]
            ]
            return cls({n: TableSchema.from_dict(own) for n, own in tables}, links)

    def _in_order(self, links: list[Link]) -> tuple[Link, ...]:
        """Return the links with parents before children; refuse what is no tree."""
        for link in links:
            for name in (link.child, link.parent):
                if name not in self.tables:
                    raise InvalidSchemaError(
                        f"The {link} names the table {name!r}. Expected one of"
                        f" {[*self.tables]!r}; correct it, or add the table."
                    )
        children = [link.child for link in links]
        twice = sorted({name for name in children if children.count(name) > 1})
        if twice:
            raise InvalidSchemaError(
                f"Expected one parent of each table. Got several of {twice!r}; the"
                " guarantee is for rows of one of them: drop the other links."
            )
        roots = [name for name in self.tables if name not in children]
        if len(roots) != 1:
            raise InvalidSchemaError(
                "Expected one table that hangs on no other, the root. Got"
                f" {roots or 'none'}; add or drop a Link."
            )
        level, ordered = roots, []
        for _ in range(_MOST_LEVELS - 1):
            found = [link for link in links if link.parent in level]
            ordered += found
            level = [link.child for link in found]
        if len(ordered) < len(links):
            left = [link.child for link in links if link not in ordered]
            raise InvalidSchemaError(
                f"Expected at most {_MOST_LEVELS} levels of tables, and no circle. Got"
                f" {left!r} beyond; leave tables out."
            )
        return tuple(ordered)

    def _check(self, link: Link) -> None:
        """Refuse a link that names columns that are described otherwise."""
        child, parent = self.tables[link.child], self.tables[link.parent]
        for schema, name in ((child, link.key), (parent, link.parent_key)):
            if not isinstance(schema.kinds.get(name, Identifier()), Identifier):
                raise InvalidSchemaError(
                    f"The key {name!r} of the {link} is never modelled. Expected no"
                    " description of it, or Identifier(); drop the other one."
                )
        of_parent = {own.parent_key for own in self._links_of(link.parent)}
        above = {own.key for own in self.links if own.child == link.parent}
        if len(of_parent | above) != len(above) + 1:
            raise InvalidSchemaError(
                f"All that hangs on {link.parent!r} must name the same column of it,"
                f" other than its own key. Got {sorted(map(str, of_parent | above))!r};"
                " correct 'parent_key'."
            )
        if any(isinstance(rule, MissingTogether) for rule in child.rules):
            raise InvalidSchemaError(
                f"Columns of {link.child!r} cannot be missing together yet. Drop the"
                " rule MissingTogether."
            )
        ruled = {name for rule in child.rules for name in rule.names}
        free = {n: own for n, own in child.columns.items() if n not in ruled}
        column: Any = free.get(link.order_by)
        fits = isinstance(column, Continuous | Datetime) and not column.special
        fits |= isinstance(column, Categorical) and column.ordered
        if link.order_by is not None and (not fits or column.nullable):
            raise InvalidSchemaError(
                f"Rows of {link.child!r} are ordered by {link.order_by!r}. Expected a"
                " Continuous, a Datetime or an ordered Categorical column that is not"
                f" nullable, has no special values and is in no rule. Got {column!r};"
                " correct the schema."
            )
        kinds = Continuous, Categorical, Boolean
        if left := [n for n in link.summaries if not isinstance(free.get(n), kinds)]:
            raise InvalidSchemaError(
                f"The summaries of the {link} must be Continuous, Categorical or"
                f" Boolean columns in no rule. Got {left!r}; leave them out."
            )


def of_rows_alone(schema: TableSchema) -> TableSchema:
    """Return a schema without what it says of units."""
    left = {"privacy_unit": None, "max_rows_per_unit": None, "order_by": None}
    return replace(schema, per_unit=(), **left)  # type: ignore[arg-type]
