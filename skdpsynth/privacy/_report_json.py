"""The fields of a privacy report as JSON holds them, read back with suspicion.

A report may come from a stranger's file. Whatever is not of the type and in the range
of its field is a ValueError here, which `PrivacyReport.from_dict` puts into words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from skdpsynth.privacy._reservation import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skdpsynth.privacy._report import PrivacyReport

_T = TypeVar("_T")

# Far above what a fit can have; beyond, the search for an epsilon would not end.
_MAX_MU = 1e5


@dataclass(frozen=True)
class ReportEntry:
    """One reservation, as it stood when the report was made.

    `scope`: whose rows pay, "all rows" or "class" and its label. `releases` counts
    those reserved, which count all, `used` those drawn. `sensitivity` (L2) is of one
    release, in grid units, clipping norms or votes, and so is `noise_std` (Laplace: the
    scale; 0 without noise). `mu_total` is what all releases together are charged,
    `share` its percentage of the ``mu^2`` that the fit may spend; None for an infinite
    epsilon. `kind` is the mechanism: "gaussian" is discrete Gaussian noise on whole
    numbers, "sampled gaussian" floating-point noise on a sum of gradients, "gaussian
    vote" and "laplace vote" one-bit votes. Below a `sampling_rate` of 1 it is of a
    Poisson sample with a row in it at that rate.
    """

    name: str
    scope: str
    releases: int
    used: int
    sensitivity: float
    noise_std: float
    mu_total: float
    share: float | None
    kind: str = "gaussian"
    sampling_rate: float = 1.0


def fields_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Write infinite numbers as "inf", and tuples as lists."""
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    return {k: "inf" if v == math.inf else v for k, v in plain.items()}


def fields_from_json(
    cls: type[PrivacyReport | ReportEntry], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Undo `fields_to_json`, and insist on exactly the fields of a dataclass.

    A ValueError where a field is absent, unknown or of another type, or a number is NaN
    or negative. Fields of a type that is not known here come back as they are.
    """
    kinds = {field.name: str(field.type) for field in fields(cls)}
    if set(values) != set(kinds):
        raise ValueError("other fields")
    return {name: _read(kinds[name], value) for name, value in values.items()}


def check_ranges(report: PrivacyReport) -> None:
    """Raise a ValueError where the fields of a report contradict each other."""
    known = set(get_args(Kind))
    if not (
        0 < report.delta < 1
        and report.discovery_delta < report.delta
        and report.private == (report.epsilon < math.inf)
        and (report.mu <= _MAX_MU or not report.private)
        and all(entry.kind in known for entry in report.entries)
        and all(0 < entry.sampling_rate <= 1 for entry in report.entries)
        and all(entry.used <= entry.releases for entry in report.entries)
    ):
        raise ValueError("out of range")


def _read(kind: str, value: Any) -> Any:  # noqa: ANN401 - any field
    """Read a value of the type that an annotation names."""
    if kind.endswith(" | None"):
        return None if value is None else _read(kind.removesuffix(" | None"), value)
    read = _READERS.get(kind)
    return value if read is None else read(value)


def _number(value: object) -> float:
    if value == "inf":
        return math.inf
    if type(value) not in (int, float) or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ValueError("no number >= 0")
    return float(value)  # type: ignore[arg-type]


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no whole number >= 0")
    return value


def _exactly(kind: type[_T], value: object) -> _T:
    if type(value) is not kind:
        raise ValueError(f"no {kind.__name__}")
    return value


_READERS: dict[str, Callable[[object], object]] = {
    "float": _number,
    "int": _whole,
    "str": lambda value: _exactly(str, value),
    "bool": lambda value: _exactly(bool, value),
    "tuple[str, ...]": lambda value: tuple(
        _exactly(str, v) for v in _exactly(list, value)
    ),
}
