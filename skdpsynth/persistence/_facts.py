"""The facts of a file: parameters as JSON, and whether all parts fit together.

A file with a valid digest may still come from a stranger, who may have put anything
into it. Whether numbers that fit together are also good ones, nobody can tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.preprocessing._domains import LevelDomain
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._rules import check_rules
from skdpsynth.privacy import PrivacyReport
from skdpsynth.schema import TableSchema
from skdpsynth.schema._dtypes import kind_of_dtype
from skdpsynth.schema._values import decode_value, encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._transforms import MarginalTransform

NEVER_SAVED = ("budget", "schema")  # among the parameters
_FIELDS = {
    *("format_version", "versions", "synthesizer", "parameters", "schema"),
    *("schema_", "report", "table", "generator"),
}
_FLAGS = {"bought", "guessed", "integer", "log", "nullable", "ordered", "quantile"}
_MAX_NAME = 100
_MAX_COUNT = 2.0**63  # of rows
# Scores are within 3 of 0, and training keeps scales below e^5: far beyond, and yet so
# that no sum or product of them overflows.
_MAX_SCORE, _MAX_LOG_SCALE = 1e6, 100.0
_PRINTED = ("accountant", "relation", "software", "unit")  # of a report, as they are
_ZONE = re.compile(r"[A-Za-z0-9_+\-/:]{1,64}")
_ROUNDING = 1e-3  # of shares that add up to 1, in single precision


def encode_parameter(value: object) -> Any:  # noqa: ANN401 - JSON
    """Make a constructor parameter JSON-safe; tuples stay tuples."""
    if type(value).__name__ == "device":  # PyTorch's, which is not imported here
        value = str(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode_parameter(item) for item in value]}
    return {"value": encode_value(value)}


def decode_parameter(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any parameter
    """Undo `encode_parameter`."""
    if "tuple" in data:
        return tuple(decode_parameter(item) for item in data["tuple"])
    if "list" in data:
        return [decode_parameter(item) for item in data["list"]]
    return decode_value(data["value"])


def check_document(document: Mapping[str, Any]) -> None:
    """Refuse other fields, and words that must not get into a message or a terminal.

    Labels and names of columns may be any text; who prints them escapes them.
    """
    _require(set(document) == _FIELDS, "other fields")
    name, report = document["synthesizer"], document["report"]
    _require(name.isidentifier() and len(name) <= _MAX_NAME, "no name of a class")
    for version in document["versions"].values():
        _require(version.isprintable() and len(version) <= _MAX_NAME, "no versions")
    for words in _PRINTED:
        _require(report[words].isprintable(), "words that move the cursor")
    _require(not set(document["parameters"]) & set(NEVER_SAVED), "what is never saved")
    _check_zones(document)
    PrivacyReport.from_dict(report)


def _check_zones(document: object) -> None:
    """Refuse a time zone that pandas reads from a file, as it does dateutil//path."""
    items = [document]
    while items:
        item = items.pop()
        if isinstance(item, list):
            items += item
        elif isinstance(item, dict):
            items += item.values()
            zone = item.get("zone") if "time" in item else None
            _require(zone is None or _ZONE.fullmatch(zone), "a strange time zone")
            _require("dateutil" not in f"{zone}{item.get('dtype')}", "a file's zone")


def check_parts(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise a ValueError, TypeError or LookupError where parts do not fit together."""
    table = document["table"]
    places = table["columns"]
    schema = TableSchema.from_dict(document["schema_"])
    model = TableModel.from_state(table, arrays, schema)
    check_rules(schema, model.facts.layout)
    facts, counts = model.facts, model.facts.classes.counts
    n_columns = len(facts.columns)
    _require(all(type(p) is int and p >= 0 for p in places), "places")
    _require(len(set(places)) == len(places) == len(facts.domains), "columns")
    for layout in facts.layout.columns:
        said = (layout.kind, layout.can_be_missing)
        _require(kind_of_dtype(layout.dtype) == said, "a dtype")
    n_classes = max(len(facts.classes.levels), 1)
    _require(counts.shape == (n_classes,) == (len(model.marginals),), "classes")
    _require(((counts > 0) & (counts < _MAX_COUNT)).all(), "classes")
    for row in model.marginals:
        _require(len(row) == n_columns, "marginals")
        for column in row:
            _check_marginal(column)
    own = document["generator"]
    _require(own.get("n_classes", n_classes) == n_classes, "generator")
    if own.get("form") == "mixture":
        _check_mixtures(arrays, n_columns, n_classes)
    elif own.get("form") == "factors":
        for c in range(n_classes):
            for name, n_axes in (("loadings", 2), ("location", 1), ("log_scale", 1)):
                array = arrays[f"generator.{c}.{name}"]
                fits = array.dtype.kind == "f" and array.shape[:1] == (n_columns,)
                fits = fits and array.ndim == n_axes
                _require(fits and (np.abs(array) <= _MAX_SCORE).all(), "generator")
            scales = arrays[f"generator.{c}.log_scale"]
            _require((scales <= _MAX_LOG_SCALE).all(), "generator")


def _check_mixtures(
    arrays: Mapping[str, NDArray[Any]], n_columns: int, n_classes: int
) -> None:
    starts = arrays["generator.starts"]
    _require(starts.dtype == np.int64 and starts.shape == (n_columns + 1,), "bins")
    _require(starts[0] == 0 and (np.diff(starts) > 0).all(), "bins")
    n_bins = int(starts[-1])
    for c in range(n_classes):
        own = f"generator.{c}."
        weights, ranks = arrays[own + "weights"], arrays[own + "ranks"]
        probabilities = arrays[own + "probabilities"]
        _require(weights.ndim == 1 and weights.dtype == np.float64, "weights")
        _require(((weights >= 0) & (weights <= 1.001)).all(), "weights")
        _require(abs(float(weights.sum()) - 1.0) < _ROUNDING, "weights")
        _require(probabilities.shape == (len(weights), n_bins), "probabilities")
        _require(probabilities.dtype == np.float32, "probabilities")
        _require(((probabilities >= 0) & (probabilities <= 1.001)).all(), "heads")
        sums = np.add.reduceat(probabilities, starts[:-1], axis=1)
        _require((np.abs(sums - 1.0) < _ROUNDING).all(), "heads")
        _require(ranks.dtype == np.float64 and ranks.shape == (2, n_bins), "ranks")
        _require((ranks[0] >= 0).all() and (ranks[1] <= 1 + 1e-9).all(), "ranks")
        _require((ranks[0] <= ranks[1] + 1e-9).all(), "ranks")


def _check_marginal(column: MarginalTransform) -> None:
    points, cumulative = column.points, column.cumulative
    _require(points.dtype == cumulative.dtype == np.float64, "dtype of a marginal")
    _require(points.ndim == cumulative.ndim == 1, "shape of a marginal")
    _require(0 <= column.missing <= 1, "missing values")
    _require(_rises(cumulative), "a distribution")
    own = vars(column.domain)
    flags = [own[name] for name in _FLAGS & set(own)]
    _require(all(type(flag) is bool for flag in flags), "flags")
    if isinstance(column.domain, LevelDomain):
        _require(len(cumulative) == len(points) + 1, "shape of a marginal")
        codes = np.arange(len(points))
        _require(np.array_equal(np.sort(points), codes), "codes")
        _require(len(points) in (0, len(column.domain.levels)), "codes")
        return
    _require(len(points) == len(cumulative) >= 2 and _rises(points), "a marginal")
    low, high, step = column.domain.low, column.domain.high, column.domain.step
    numbers = [low, high] if step is None else [low, high, step]
    _require(all(type(number) in (int, float) for number in numbers), "numbers")
    decimals = column.domain.decimals
    _require(type(decimals) is int and 0 <= decimals <= 9, "decimals")
    _require(decimals == 0 or (column.domain.integer and step is None), "decimals")
    _require(low <= high and np.isfinite(float(high) - float(low)), "a range")
    _require(step is None or 0 < float(step) < np.inf, "a unit of time")


def _rises(values: NDArray[np.float64]) -> bool:
    """Whether numbers go up within [0, 1]; rounding may pass 1 by a little."""
    inside = (values >= 0).all() and (values <= 1 + 1e-9).all()
    return bool(inside and (np.diff(values) >= 0).all())


def _require(fits: object, what: str) -> None:
    if not fits:
        raise ValueError(what)
