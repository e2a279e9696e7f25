"""The kinds of columns that a `TableSchema` describes."""

from __future__ import annotations

import contextlib
import math
import re
import string
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.utils.dtypes import EXACT, decimals_of, is_finite, plain

Scale = Literal["auto", "linear", "log", "quantile"]
_SCALES = ("auto", "linear", "log", "quantile")
Unit = Literal["D", "h", "min", "s"]
# In the units of time that a schema may state.
SECONDS_OF = {"D": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0}
# "auto" is "log" when the range is wider than _WIDE and 0 is inside it, or outside by
# at most _NEAR of the range: such columns (amounts, counts) tend to pile up at 0.
_WIDE, _NEAR = 50.0, 0.1
MOST_STATED_DECIMALS = 9  # that a schema may state, and zeros that are looked for
MOST_DECIMALS = 4  # that are looked for where none are stated
ROUNDING = 1e-6  # of a unit of decimals, by which a bound may be off it
LARGEST = sys.float_info.max  # that a bound may be
# Dates that stand for something in many files, in seconds since 1970.
_OPEN = ["0001-01-01", "1753-01-01", "1899-12-30", "1900-01-01", "9999-12-31"]
OPEN = (*np.array(_OPEN, "M8[s]").astype(float).tolist(),)


# How a CSV file writes numbers: what is before one, whether thousands are marked, the
# digits, and what is behind it.
NUMBER_FORMAT = re.compile(r"(.*?)%(\+?,?)(\.[0-9]{1,2}f|[dgs])(.*)")


def _is_iso(given: object, read: pd.Timestamp) -> bool:
    """Return False for texts of which day or month would be guessed."""
    if not isinstance(given, str):
        return True
    found = re.fullmatch(r"(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:[T ].+)?)?)?", given.strip())
    parts = found.groups("1") if found else ()
    return [*map(int, parts)] == [read.year, read.month, read.day]


def _as_duration(bound: object) -> pd.Timedelta | None:
    """Return a duration with its unit; None of anything else."""
    text = isinstance(bound, str) and re.search("[A-Za-z:]", bound)
    found: Any = None
    if text or isinstance(bound, timedelta | np.timedelta64):
        with contextlib.suppress(ValueError):
            found = pd.Timedelta(bound)
    return None if found is pd.NaT else found


def number_of(bound: Any) -> float:  # noqa: ANN401 - a number, a time or a duration
    """Return a bound as a number: in seconds, of times since 1970."""
    if isinstance(bound, pd.Timedelta):
        # In two steps, as cells are read; and pandas 2 would cut off nanoseconds.
        second = pd.Timedelta(1, "s").as_unit(bound.unit)
        whole = bound // second
        return float(whole + (bound - whole * second) / second)
    return bound if isinstance(bound, int | float) else float(bound.timestamp())


class Stated:
    """Base class; its repr is code and omits defaults."""

    tag: ClassVar[str]

    def _set(self, **values: object) -> None:
        """Set attributes once they are checked; they are frozen."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return self._code()

    def _code(self, *, blank: bool = False) -> str:
        """Return code that makes it; with blanks for what it must state."""
        parts = []
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if not item.kw_only and blank:
                parts.append("...")
            elif not item.kw_only:
                value = list(value) if isinstance(value, tuple) else as_typed(value)
                parts.append(repr(value))
            elif value != item.default:
                parts.append(f"{item.name}={as_typed(value)!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def as_typed(value: Any) -> Any:  # noqa: ANN401 - any value
    """Return a time without a zone as the text that one types, and a duration."""
    if isinstance(value, tuple):
        return [*map(as_typed, value)]
    if isinstance(value, pd.Timedelta):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, pd.Timestamp) and value.tz is None:
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return value


def distinct(column: Column, name: str) -> tuple[Any, ...]:
    """Return the values that a column lists, if no two are equal."""
    given, rule = getattr(column, name), f"The {name!r} of {type(column).__name__} must"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong(f"{rule} be a list of values", given)
    values = tuple(map(plain, given))
    with contextlib.suppress(TypeError):  # of what is no value the kind is checked
        if n_twice := len(values) - len(set(values)):
            raise InvalidSchemaError(
                f"{rule} be distinct. Got {n_twice} duplicate(s); drop them."
            )
    return values


class Column(Stated):
    """What the kinds of columns share: plain values, and a check of flags."""

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            value = plain(getattr(self, item.name))
            if isinstance(item.default, bool) and not isinstance(value, bool):
                what = f"The '{item.name}' flag of {type(self).__name__}"
                raise wrong(f"{what} must be True or False", value)
            self._set(**{item.name: value})

    def _set_special(self, check: Callable[[str, Any], Any]) -> None:
        """Set the special values, each of which is checked as a bound is."""
        what = f"'special' value of {type(self).__name__}"
        found = [check(what, value) for value in distinct(self, "special")]
        self._set(special=tuple(sorted(found, key=number_of)))
        size = SECONDS_OF.get(getattr(self, "unit", None) or "")
        cells = {x // size if size else float(x) for x in map(number_of, found)}
        if len(cells) < len(found):
            rule = "The 'special' values must be distinct, also in whole units"
            raise wrong(rule, [*map(as_typed, found)])


@dataclass(frozen=True, repr=False)
class Continuous(Column):
    """A numeric column with public bounds.

    Values outside the bounds that are not special are clipped to them, silently.

    Parameters
    ----------
    low, high : float, Timedelta, timedelta, timedelta64 or str
        Bounds, finite, ``low <= high``. Whole numbers if `integer` is true. Those of a
        timedelta column are durations with their unit, such as "30D" or "1h 30min".
    integer : bool, default=False
        Whether the values are whole numbers.
    nullable : bool, default=False
        Whether values can be missing. Ignored where the dtype of the table has no
        missing value.
    scale : {"auto", "linear", "log", "quantile"}, default="auto"
        How the column's cells lie between the bounds. "log" is the signed logarithm
        about 0; "quantile" is linear, but its cells follow the first noisy counts
        almost alone, at no extra price; "auto" is chosen from the bounds alone, see
        `resolved_scale`.
    decimals : int, "any" or None, default=None
        Values are multiples of ``10**-decimals``, 0 to 9; others are rounded. Money
        has 2. "any": as fine as the dtype. None: of floats they are measured, for a
        hundredth of the budget. Integers have none, whatever is said.
    unit : {"D", "h", "min", "s"} or None, default=None
        Durations are whole days, hours, minutes or seconds; others are cut down to
        them. None: it is measured, as `decimals` are.
    format : str, optional
        How numbers are written in a CSV file, with signs around them: "$%,.2f" of
        $1,200.50, "%d %" of 45 %, "%g" of numbers without zeros at the end, "%s" as
        Python does. By default with as many decimals as are stated or measured.
        Ignored for other tables.
    special : sequence of numbers or durations, default=()
        Values that stand for something, such as -99999 for "refused", within the bounds
        or not. They come back exactly, with their share, and nothing between them and
        the bounds.

    See Also
    --------
    Datetime : A column of points in time.

    Examples
    --------
    >>> from skdpsynth.schema import Continuous
    >>> Continuous(0, 30_000).resolved_scale()
    'log'
    >>> Continuous(17, 90, integer=True, special=[-1, 99]).resolved_scale()
    'linear'
    """

    tag = "continuous"
    low: float
    high: float
    _: KW_ONLY
    integer: bool = False
    nullable: bool = False
    scale: Scale = "auto"
    decimals: int | Literal["any"] | None = None
    unit: Unit | None = None
    format: str | None = None
    special: Sequence[Any] = ()

    def __post_init__(self) -> None:
        ends = [_as_duration(bound) for bound in (self.low, self.high)]
        if timed := None not in ends:
            self._set(low=ends[0], high=ends[1])
        super().__post_init__()
        known = isinstance(self.format, str) and NUMBER_FORMAT.fullmatch(self.format)
        if self.format is not None and not known:
            rule = 'The format of numbers must be as "%.2f", "$%,.2f" or "%d %"'
            raise wrong(rule, self.format)
        for name in () if timed else ("low", "high"):
            what = f"'{name}' bound of Continuous"
            self._set(**{name: self._number(what, getattr(self, name))})
        _check_order(self, self.low, self.high)
        if self.unit is not None and self.unit not in tuple(SECONDS_OF):
            among = f"{', '.join(SECONDS_OF)}, or None"
            raise wrong(f"The 'unit' of Continuous must be one of {among}", self.unit)
        self._set_special(self._number)
        mixed = self.integer if timed else self.unit is not None
        if mixed or (self.unit and self.decimals is not None):
            raise InvalidSchemaError(
                "Durations are not 'integer', but of a 'unit', which numbers have not,"
                f" and no 'decimals' beside. Got {self!r}; for whole days write"
                ' Continuous("0D", "30D", unit="D").'
            )
        decimals: Any = self.decimals
        counted = type(decimals) is int and 0 <= decimals <= MOST_STATED_DECIMALS
        if decimals is not None and not counted and decimals != "any":
            allowed = f"'any', None or an int from 0 to {MOST_STATED_DECIMALS}"
            raise wrong(f"The 'decimals' of Continuous must be {allowed}", decimals)
        if self.integer and decimals:
            raise InvalidSchemaError(
                "With integer=True the 'decimals' of Continuous are 0. Got"
                f" {decimals!r} instead; leave one of them out."
            )
        if counted:
            low, high = (end * 10.0**decimals for end in self.ends)
            if max(-low, high) >= EXACT:
                raise InvalidSchemaError(
                    "The bounds of Continuous with 'decimals' must be below"
                    f" 2**53 / 10**decimals, what a float holds. Got {self.low!r} and"
                    f" {self.high!r}; give fewer decimals."
                )
            if math.ceil(low - ROUNDING) > math.floor(high + ROUNDING):
                raise InvalidSchemaError(
                    "Between the bounds of Continuous there must be a number of so many"
                    f" 'decimals'. Got {self.low!r}, {self.high!r} and"
                    f" decimals={decimals}."
                )
            special = np.array([*map(number_of, self.special)], dtype=np.float64)
            if (
                decimals_of(special, sys.float_info.epsilon, decimals) > decimals
            ).any():
                rule = f"The 'special' values must have at most {decimals} decimals"
                raise wrong(rule, [*self.special])
        if self.scale not in _SCALES:
            rule = f"The 'scale' of Continuous must be one of {', '.join(_SCALES)}"
            raise wrong(rule, self.scale)

    def _number(self, what: str, bound: Any) -> Any:  # noqa: ANN401 - any object
        """Return a bound or a special value as a number, or as a duration."""
        if self.of_durations and (found := _as_duration(bound)) is not None:
            return found
        number = isinstance(bound, int | float) and not self.of_durations
        if isinstance(bound, bool) or not number:
            rule = 'must be a number, or both of them durations such as "30D"'
            raise wrong(f"The {what} {rule}", bound)
        if abs(bound) > LARGEST or bound != bound:
            got = repr(bound) if isinstance(bound, float) else "a larger one"
            raise InvalidSchemaError(
                f"The {what} must be finite, at most {LARGEST!r}. Got {got}"
                " instead; give a bound that no plausible value exceeds."
            )
        if not self.integer:
            return bound
        if bound != int(bound):
            raise wrong(f"With integer=True the {what} must be a whole number", bound)
        return int(bound)

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds as numbers: durations in seconds."""
        return number_of(self.low), number_of(self.high)

    @property
    def of_durations(self) -> bool:
        """Whether the bounds are durations."""
        return isinstance(self.low, pd.Timedelta)

    def resolved_scale(self) -> Literal["linear", "log", "quantile"]:
        """Return the scale, with "auto" resolved from the bounds alone.

        Returns
        -------
        scale : {"linear", "log", "quantile"}
            "auto" becomes "log" when the range ``high - low`` exceeds 50 and 0 lies
            in it, or outside it by at most a tenth of the range; else "linear".
        """
        if self.scale != "auto":
            return self.scale
        low, high = (end / SECONDS_OF.get(self.unit or "s", 1.0) for end in self.ends)
        width = high - low
        near_zero = low <= _NEAR * width and high >= -_NEAR * width
        return "log" if near_zero and width > _WIDE else "linear"


@dataclass(frozen=True, repr=False)
class Categorical(Column):
    """A column with a public list of categories.

    Values outside the list are read as one 'other' category, silently.

    Parameters
    ----------
    categories : sequence of str, int, float, bool or Timestamp
        Distinct values, all of one type, without a missing value. Empty only if
        `nullable`.
    ordered : bool, default=False
        Whether the order of `categories` has a meaning.
    nullable : bool, default=False
        Whether values can be missing. Ignored where the dtype of the table has no
        missing value.

    See Also
    --------
    Boolean : A column of True and False.

    Examples
    --------
    >>> from skdpsynth.schema import Categorical
    >>> Categorical(["low", "high"], ordered=True)
    Categorical(['low', 'high'], ordered=True)
    """

    tag = "categorical"
    categories: Sequence[Any]
    _: KW_ONLY
    ordered: bool = False
    nullable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        categories = distinct(self, "categories")
        families = {family(value) for value in categories}
        if len(families) > 1:
            raise InvalidSchemaError(
                "The 'categories' of Categorical must be of one type. Got"
                f" {' and '.join(sorted(families))}; cast them to str."
            )
        if not categories and not self.nullable:
            raise InvalidSchemaError(
                "The 'categories' of Categorical are empty. Name at least one, or set"
                " nullable=True for a column without values."
            )
        self._set(categories=categories)


@dataclass(frozen=True, repr=False)
class Boolean(Column):
    """A column of True and False, or of two texts that stand for them.

    For whole numbers 0 and 1 use ``Categorical([0, 1])``.

    Parameters
    ----------
    nullable : bool, default=False
        Whether values can be missing. Ignored where the dtype of the table has no
        missing value.
    true, false : str, optional
        The texts, such as "yes" and "no"; both or none. Synthetic values are these
        texts too, and other texts are read as one 'other' category, silently.

    See Also
    --------
    Categorical : A column with any list of categories.

    Examples
    --------
    >>> from skdpsynth.schema import Boolean
    >>> Boolean(true="yes", false="no", nullable=True)
    Boolean(nullable=True, true='yes', false='no')
    """

    tag = "boolean"
    _: KW_ONLY
    nullable: bool = False
    true: str | None = None
    false: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.true, self.false
        texts = all(isinstance(text, str) for text in given)
        if given != (None, None) and (not texts or given[0] == given[1]):
            raise InvalidSchemaError(
                "The 'true' and 'false' of Boolean must be two different texts, or both"
                f" left out for True and False. Got {given[0]!r} and {given[1]!r}."
            )

    @property
    def categories(self) -> tuple[Any, Any]:
        """What stands for False and for True."""
        return (False, True) if self.true is None else (self.false, self.true)

    @property
    def of_texts(self) -> bool:
        """Whether two texts stand for False and True."""
        return self.true is not None


@dataclass(frozen=True, repr=False)
class Datetime(Column):
    """A column of points in time with public bounds.

    Values outside the bounds that are not special are clipped to them, silently.

    Parameters
    ----------
    low, high : Timestamp, datetime, date, datetime64 or ISO 8601 str
        Bounds, ``low <= high``, both with or both without a time zone. Bounds
        without one are read as UTC where the table has one.
    nullable : bool, default=False
        Whether values can be missing.
    unit : {"D", "h", "min", "s"} or None, default=None
        Values are whole days, hours, minutes or seconds of the column's time zone;
        others, and the bounds, are cut down to them. None: as fine as the dtype.
    format : str, optional
        How times are written in a CSV file, such as "%d.%m.%Y" (the codes are those of
        `datetime.strptime`). By default as in ISO 8601. Ignored for other tables.
    special : sequence of Timestamp, datetime, date, datetime64 or ISO 8601 str
        Points in time that stand for something, as of `Continuous`: "9999-12-31" of
        what has no end yet.

    See Also
    --------
    Continuous : A column of numbers or durations.

    Examples
    --------
    >>> from skdpsynth.schema import Datetime
    >>> Datetime("2020-01-01", "2024-12-31", unit="D").high.year
    2024
    """

    tag = "datetime"
    low: pd.Timestamp
    high: pd.Timestamp
    _: KW_ONLY
    nullable: bool = False
    unit: Unit | None = None
    format: str | None = None
    special: Sequence[Any] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format is not None:
            moment = datetime(2001, 12, 31, 13, 45, 7, tzinfo=UTC)
            text, again = self.format, None
            with contextlib.suppress(ValueError, TypeError):  # no text is no format
                again = datetime.strptime(moment.strftime(text), text)
            if again is None or "%" not in text:
                rule = "The format of times must be one of `datetime.strptime`"
                raise wrong(f'{rule}, as "%d.%m.%Y"', self.format)
        if self.unit is not None and self.unit not in tuple(SECONDS_OF):
            among = f"{', '.join(SECONDS_OF)}, or None"
            raise wrong(f"The 'unit' of Datetime must be one of {among}", self.unit)
        for name in ("low", "high"):
            what = f"'{name}' bound of Datetime"
            self._set(**{name: _moment(what, getattr(self, name))})
        zones = {bound.tzinfo is None for bound in (self.low, self.high)}
        if len(zones) == 1:
            _check_order(self, self.low, self.high)
            self._set_special(_moment)
            zones |= {value.tzinfo is None for value in self.special}
        if len(zones) > 1:
            raise InvalidSchemaError(
                "The bounds and special values of Datetime must all have a time zone,"
                " or none."
            )


def _moment(what: str, given: object) -> pd.Timestamp:
    """Return a bound or a special value as a point in time."""
    bound, rule = None, f"The {what} must be a point in time"
    if isinstance(given, str | date | np.datetime64):
        with contextlib.suppress(ValueError):
            bound = pd.Timestamp(given)
    if bound is None or bound is pd.NaT:
        raise wrong(rule, given)
    if not _is_iso(given, bound):
        raise wrong(f'{rule}, as a text in ISO 8601, "2020-01-31"', given)
    return bound


# A character, a digit or a set of some, and how many of it: of a `regex`.
_PIECE = r"(\\d|\\[^\w\s]|\[[^][\\^]+\]|[^][\\^$.|?*+(){}])(?:\{(\d{1,2})\})?"


@dataclass(frozen=True, repr=False)
class Identifier(Column):
    r"""A column that tells rows apart, such as a customer number.

    It is never read, but as `privacy_unit`: synthetic tables hold fresh identifiers.

    Parameters
    ----------
    pattern : str, optional
        What the fresh ones of a column of texts look like: one run of ``#``, which
        stands for the number of the row with leading zeros, as in "C######". By default
        they are the numbers alone.
    regex : str, optional
        The same as a regular expression of characters, ``\d``, sets such as
        ``[A-F0-9]``, and repeats such as ``{4}``, up to 99.

    See Also
    --------
    Text : A column that is left empty.
    Categorical : A column whose values are modelled.

    Examples
    --------
    >>> from skdpsynth.schema import Identifier
    >>> Identifier(pattern="C######")
    Identifier(pattern='C######')
    """

    tag = "identifier"
    _: KW_ONLY
    pattern: str | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        pattern: object = "#" if self.pattern is None else self.pattern
        if not isinstance(pattern, str) or len(re.findall("#+", pattern)) != 1:
            rule = "The 'pattern' of Identifier must be a text with one run of '#'"
            raise wrong(rule, pattern)
        regex: object = "a" if self.regex is None else self.regex
        fits = isinstance(regex, str) and re.fullmatch(f"(?:{_PIECE})+", regex)
        if not fits or not all(self._choices):
            rule = "The 'regex' of Identifier must be a text of characters, \\d, sets"
            raise wrong(f"{rule} such as [A-F0-9] and repeats such as {{4}}", regex)
        if self.pattern is not None and self.regex is not None:
            raise wrong(
                "Identifier must have a 'pattern' or a 'regex', not both", regex
            )

    def text_of(self, number: int) -> str:
        """Write an identifier.

        Parameters
        ----------
        number : int
            The number of the row, at least 0.

        Returns
        -------
        str
            As `pattern` or `regex` says.

        Raises
        ------
        ValueError
            If these have fewer values.
        """
        form, left = self.pattern or self.regex, number
        if self.pattern is not None:
            before, digits, after = re.split("(#+)", self.pattern)
            text, n_values = f"{number:0{len(digits)}d}", 10 ** len(digits)
            text = f"{before}{text}{after}"
        elif self.regex is not None:
            text, n_values = "", math.prod(map(len, self._choices))
            for choices in reversed(self._choices):
                left, place = divmod(left, len(choices))
                text = choices[place] + text
        else:
            return str(number)
        if number >= n_values:
            raise ValueError(
                f"Expected a pattern for {number + 1:,} identifiers or more. Got"
                f" {form!r}, which has {n_values:,}; ask for fewer rows at once, or fit"
                " with a longer one."
            )
        return text

    @cached_property
    def _choices(self) -> list[str]:
        """The characters that may be at each place of a `regex`."""
        found = []
        for piece, repeats in re.findall(_PIECE, self.regex or ""):
            listed = string.digits if piece == r"\d" else piece[-1]
            if piece[0] == "[":
                ends = re.findall("(.)-(.)|(.)", piece[1:-1])
                spans = (range(ord(a or c), ord(b or c) + 1) for a, b, c in ends)
                listed = "".join(sorted({*map(chr, chain.from_iterable(spans))}))
            found += [listed] * int(repeats or 1)
        return found


@dataclass(frozen=True, repr=False)
class Text(Column):
    """A column of free text, such as remarks, which is never read.

    Parameters
    ----------
    placeholder : str, optional
        What all values of it are in synthetic tables. By default they are missing.

    See Also
    --------
    Identifier : A column that tells rows apart.
    Categorical : A column whose values are modelled.

    Examples
    --------
    >>> from skdpsynth.schema import Text
    >>> Text(placeholder="removed")
    Text(placeholder='removed')
    """

    tag = "text"
    _: KW_ONLY
    placeholder: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.placeholder, str | None):
            raise wrong("The 'placeholder' of Text must be a text", self.placeholder)


UNREAD = (Identifier, Text)  # kinds of columns whose values are never looked at
KINDS: dict[str, type[Column]] = {
    kind.tag: kind
    for kind in (Continuous, Categorical, Boolean, Datetime, Identifier, Text)
}


def blank_hint(value: object) -> str:
    """Return a sentence for a blank of `TableSchema.template` left unfilled."""
    blank = value is ... or str(value).startswith("...")
    return " Fill in this blank of the template." if blank else ""


def wrong(rule: str, value: object) -> InvalidSchemaError:
    """Make the error about a value that breaks a rule."""
    return InvalidSchemaError(f"{rule}.{blank_hint(value)} Got {value!r} instead.")


def check_is(kind: type, rule: str, value: object) -> None:
    """Refuse what is of no such type; texts and mappings are no lists."""
    listed = kind is not Iterable or not isinstance(value, str | Mapping)
    if not (isinstance(value, kind) and listed):
        got = f"Got an object of type {type(value).__name__}."
        raise InvalidSchemaError(f"{rule}. {got}")


def family(category: object) -> str:
    """Return the type that the categories of a column share: "number", "str", ..."""
    if isinstance(category, str):
        return "str"
    if isinstance(category, bool):
        return "bool"
    if isinstance(category, int | float) and is_finite(category):
        return "number"
    if isinstance(category, pd.Timestamp) and category is not pd.NaT:
        return "Timestamp"
    raise InvalidSchemaError(
        "The 'categories' of Categorical must be str, bool, finite numbers or"
        f" Timestamps.{blank_hint(category)} Got {category!r} instead; missing values"
        " are stated by nullable=True."
    )


def _check_order(column: Column, low: Any, high: Any) -> None:  # noqa: ANN401
    rule = "satisfy low <= high"
    if isinstance(low, int | float) and not math.isfinite(float(high) - float(low)):
        rule = "be less than 1e308 apart"
    elif low <= high:
        return
    raise InvalidSchemaError(
        f"The bounds of {type(column).__name__} must {rule}."
        f" Got low={low!r} and high={high!r}."
    )
