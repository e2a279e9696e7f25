"""The battery that every synthesizer must pass, for those who write their own.

It asks for what scikit-learn's checks cannot know: that the budget is kept and used,
that noise is secret, that nothing private stays on the fitted object or in its file.
The tables it fits are made here; no private data is needed.
"""

from __future__ import annotations

import gc
import math
import pickle
import random
import struct
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils import check_random_state

from skdpsynth.exceptions import BudgetExceededError, DegradedResultWarning
from skdpsynth.privacy import PrivacyBudget, gdp_epsilon, steps_mu
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pytest

    from skdpsynth.base import BaseSynthesizer

    Check = Callable[[BaseSynthesizer], None]

__all__ = ["check_synthesizer", "parametrize_with_checks", "synthesizer_checks"]

# Primes, so that no other shape on a fitted object equals them by accident.
_CLASS_SIZES = {"one": 521, "two": 509, "three": 503}  # more than a generator has codes
_N_ROWS = sum(_CLASS_SIZES.values())
_TARGET = "label"


def synthesizer_checks() -> Iterator[tuple[str, Check]]:
    """Yield all checks with their names.

    Yields
    ------
    name : str
        What is checked.
    check : callable
        Takes an unfitted synthesizer and raises `AssertionError` if it fails. The
        synthesizer itself is not touched: checks fit clones of it, and those that
        only read share the first one.

    Examples
    --------
    >>> from skdpsynth.utils.estimator_checks import synthesizer_checks
    >>> names = [name for name, _ in synthesizer_checks()]
    >>> "budget_is_kept_and_used" in names
    True
    """
    for name, value in list(globals().items()):  # in the order of this file
        if name.startswith("_check_"):
            yield name.removeprefix("_check_"), value


def check_synthesizer(synthesizer: BaseSynthesizer) -> None:
    """Run all checks on a synthesizer.

    Parameters
    ----------
    synthesizer : BaseSynthesizer
        Unfitted, with a finite epsilon and without target, schema and budget. Choose
        parameters for speed: it is fitted a dozen times, to 1,533 rows.

    Raises
    ------
    AssertionError
        If a check fails; the message names it.
    """
    kind = type(synthesizer).__name__
    for name, check in synthesizer_checks():
        try:
            check(synthesizer)
        except AssertionError as error:
            raise AssertionError(f"{kind} fails the check {name!r}: {error}") from error


def parametrize_with_checks(
    synthesizers: Iterable[BaseSynthesizer],
) -> pytest.MarkDecorator:
    """Make a pytest decorator that runs every check on every synthesizer.

    Parameters
    ----------
    synthesizers : iterable of BaseSynthesizer
        As `check_synthesizer` takes them.

    Returns
    -------
    pytest.MarkDecorator
        For a test with the arguments ``synthesizer`` and ``check``.
    """
    import pytest

    cases = [
        pytest.param(synthesizer, check, id=f"{type(synthesizer).__name__}-{name}")
        for synthesizer in synthesizers
        for name, check in synthesizer_checks()
    ]
    return pytest.mark.parametrize(("synthesizer", "check"), cases)


def _table() -> pd.DataFrame:
    """Make a table of all types with three classes; equal at every call."""
    order = np.arange(_N_ROWS) * 137 % _N_ROWS
    score = ndtri((order + 0.4) / _N_ROWS)
    label = np.repeat(list(_CLASS_SIZES), list(_CLASS_SIZES.values()))
    table = pd.DataFrame(
        {
            "number": score * np.pi + 0.1 * (label == "one"),
            "holes": np.where(order % 3 == 0, np.nan, np.exp(score)),
            "count": order % 17,
            "kind": pd.Categorical(np.array(["low", "high"])[order % 2], ordered=True),
            "text": [f"canary-{row}" if row % 5 == 0 else "bird" for row in order],
            "flag": order % 4 == 0,
            "day": pd.Timestamp("2021-05-04") + pd.to_timedelta(order, unit="h"),
            _TARGET: label,
        }
    )
    return table.iloc[order].reset_index(drop=True)


def _secret_numbers() -> set[float]:
    return {*_table()["number"], *_table()["holes"].dropna()}


def _ready(synthesizer: BaseSynthesizer, **parameters: object) -> BaseSynthesizer:
    """Clone, with the classes of the table declared: they are not what is tested."""
    schema = TableSchema({_TARGET: Categorical(list(_CLASS_SIZES))}, target=_TARGET)
    ready: BaseSynthesizer = clone(synthesizer)
    return ready.set_params(**{"schema": schema, "random_state": 0, **parameters})


def _fitted(synthesizer: BaseSynthesizer, **parameters: object) -> BaseSynthesizer:
    return _fit(_ready(synthesizer, **parameters), _table())


_READ: WeakKeyDictionary[BaseSynthesizer, BaseSynthesizer] = WeakKeyDictionary()


def _read(synthesizer: BaseSynthesizer) -> BaseSynthesizer:
    """Return the fit that all checks share which do not fit it anew."""
    if synthesizer not in _READ:
        _READ[synthesizer] = _fitted(synthesizer)
    return _READ[synthesizer]


def _fit(synthesizer: BaseSynthesizer, table: Any) -> BaseSynthesizer:  # noqa: ANN401
    with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
        return synthesizer.fit(table)


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


@contextmanager
def _refused(error: type[Exception], message: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise AssertionError(message)


def _check_budget_is_kept_and_used(synthesizer: BaseSynthesizer) -> None:
    fitted = _read(synthesizer)
    asked, report = synthesizer.epsilon, fitted.privacy_report()
    _require(fitted.epsilon_ == report.epsilon, "epsilon_ is not that of the report")
    _require(fitted.delta_ == synthesizer.delta, "delta_ is not the delta asked for")
    _require(report.epsilon <= asked, f"{report.epsilon} is claimed, not {asked}")
    # Once more, from the noise itself: all that is spent on the worst class.
    spent_by: dict[str, float] = {}
    for entry in report.entries:
        mu_squared = entry.mu_total**2
        if entry.kind == "gaussian" and entry.sampling_rate == 1:
            _require(entry.noise_std >= 3, f"{entry.name!r} has too little noise")
            variance = entry.noise_std**2 - 4
            mu_squared = entry.releases * entry.sensitivity**2 / variance
        elif entry.kind in ("gaussian", "sampled gaussian"):
            # As much as is charged for sums over samples. The cost falls in the tail,
            # so that all of the discovery delta bounds it. See `grid_noise_std`.
            excess = 4.0 if entry.kind == "gaussian" else 0.0
            variance = entry.noise_std**2 - excess
            _require(variance > 0, f"{entry.name!r} has too little noise")
            multiplier = math.sqrt(variance) / entry.sensitivity
            drawn = entry.sampling_rate, entry.releases
            cost = steps_mu(multiplier, *drawn, report.discovery_delta)
            enough = cost <= entry.mu_total * (1 + 1e-9)  # rounding
            _require(enough, f"{entry.name!r} has too little noise for its charge")
        spent_by[entry.scope] = spent_by.get(entry.scope, 0.0) + mu_squared
    mu = math.sqrt(spent_by.pop("all rows", 0.0) + max(spent_by.values(), default=0.0))
    spent = gdp_epsilon(mu, report.delta - report.discovery_delta)
    _require(spent <= asked, f"by its noise the fit costs {spent}, not {asked}")
    _require(spent >= 0.98 * asked, f"by its noise the fit costs only {spent}")
    gap = abs(fitted.get_epsilon(fitted.delta_) / fitted.epsilon_ - 1)
    _require(gap < 0.01, "get_epsilon(delta_) is not epsilon_")
    _require(fitted.get_epsilon(1e-3) < fitted.epsilon_, "the curve does not fall")


def _check_all_reservations_are_used(synthesizer: BaseSynthesizer) -> None:
    for entry in _read(synthesizer).privacy_report().entries:
        _require(entry.used == entry.releases, f"{entry.name!r} was charged, not used")


def _check_noise_is_secret(synthesizer: BaseSynthesizer) -> None:
    fits = _read(synthesizer), _fitted(synthesizer)
    first, second = (fitted.sample(50, random_state=1) for fitted in fits)
    _require(not first.equals(second), "random_state determines the noise")


def _check_insecure_noise_is_reported(synthesizer: BaseSynthesizer) -> None:
    tables = []
    for _ in range(2):
        with insecure_randomness(0):
            fitted = _fitted(synthesizer)
        _require(math.isinf(fitted.epsilon_), "seeded noise was reported as private")
        tables.append(fitted.sample(50))
    _require(tables[0].equals(tables[1]), "a fit draws from a source of its own")


def _check_global_generators_are_left_alone(synthesizer: BaseSynthesizer) -> None:
    # Where they were seeded just now, seeding them anew would not be seen.
    random.random()
    check_random_state(None).uniform()
    before, table = _global_states(), _table()
    fitted = _fit(_ready(synthesizer, random_state=None), table)
    _require(table.equals(_table()), "fit changes its table")
    fitted.sample(10)
    fitted.sample(10, random_state=1)
    _require(_global_states() == before, "a global random generator was used")


def _global_states() -> list[str]:
    states = [str(random.getstate()), str(check_random_state(None).get_state()[1:])]
    if "torch" in sys.modules:
        states.append(str(sys.modules["torch"].get_rng_state().numpy().tobytes()))
    return states


def _check_sample_repeats_or_continues(synthesizer: BaseSynthesizer) -> None:
    fitted = _read(synthesizer)
    repeated = [fitted.sample(20, random_state=3) for _ in range(2)]
    _require(repeated[0].equals(repeated[1]), "an int random_state does not repeat")
    same = fitted.sample(20).equals(fitted.sample(20))
    _require(not same, "sample(random_state=None) does not continue its stream")


def _check_sample_is_like_the_table(synthesizer: BaseSynthesizer) -> None:
    table, fitted = _table(), _read(synthesizer)
    for n_samples in (1, 7, 50):
        synthetic = fitted.sample(n_samples)
        _require(isinstance(synthetic, pd.DataFrame), "sample gives no DataFrame")
        shape, index = (n_samples, table.shape[1]), pd.RangeIndex(n_samples)
        _require(synthetic.shape == shape, f"shape {synthetic.shape}")
        _require(synthetic.index.equals(index), "the index is not fresh")
        _require(list(synthetic) == list(table), "columns or their order differ")
        for name in table.columns.drop("kind"):
            _require(synthetic[name].dtype == table[name].dtype, f"dtype of {name!r}")
        kind = synthetic["kind"].dtype
        _require(isinstance(kind, pd.CategoricalDtype), "no category")
        _require(kind.ordered, "an ordered category came back unordered")


def _check_infinite_epsilon(synthesizer: BaseSynthesizer) -> None:
    fitted = _fitted(synthesizer, epsilon=math.inf)
    report = fitted.privacy_report()
    _require(math.isinf(fitted.epsilon_), "epsilon_ is finite")
    _require(not report.private, "the report calls it private")
    _require(all(e.noise_std == 0 for e in report.entries), "there was noise")
    _require(len(fitted.sample(5)) == 5, "it does not sample")


def _check_nothing_private_is_kept(synthesizer: BaseSynthesizer) -> None:
    fitted = _read(synthesizer)
    fitted.sample(10)
    lengths, secrets = {_N_ROWS, *_CLASS_SIZES.values()}, _secret_numbers()
    for held in reachable(fitted):
        if isinstance(held, str):
            _require("canary" not in held, "a rare string is on the fitted object")
        elif isinstance(held, float):
            _require(held not in secrets, "a training value is on the fitted object")
        elif (shape := getattr(held, "shape", None)) is not None:
            _require(not lengths & {*shape}, "an array with one entry per row is kept")
            values = np.asarray(held).ravel()
            if values.dtype.kind == "f":
                apart = secrets.isdisjoint(values.tolist())
                _require(apart, "a training value is in an array of the object")
    _require(b"canary" not in pickle.dumps(fitted), "a rare string is in the pickle")


def reachable(root: object) -> Iterator[Any]:
    """Yield all that an object holds, by attributes, items and closures."""
    stack: list[Any] = [root]
    seen: dict[int, Any] = {}  # keeps what it has seen alive, so that no id comes twice
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, type | ModuleType):
            continue
        seen[id(item)] = item
        yield item
        if isinstance(item, pd.DataFrame | pd.Series | pd.Index):
            stack.append(item.to_numpy())
        elif isinstance(item, np.ndarray):
            stack += item.tolist() if item.dtype.kind == "O" else []
        elif isinstance(item, FunctionType):  # what it closes over, not its module
            stack += item.__closure__ or ()
        else:
            stack += gc.get_referents(item)


def _check_file(synthesizer: BaseSynthesizer) -> None:
    fitted = _read(synthesizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fitted.skdp"
        fitted.save(path)
        again = type(fitted).load(path)
        content = path.read_bytes()
    same = again.sample(50, random_state=5).equals(fitted.sample(50, random_state=5))
    _require(same, "the loaded synthesizer samples other rows")
    _require(again.privacy_report() == fitted.privacy_report(), "the report differs")
    _require(again.schema_ == fitted.schema_, "the schema differs")
    _require(list(again.classes_) == list(fitted.classes_), "the classes differ")
    _require(str(again) == str(fitted), "the parameters differ")
    _require(b"canary" not in content, "a rare string is in the file")
    secrets = _secret_numbers()
    for value in secrets:
        kept = struct.pack("<d", value) in content or repr(value).encode() in content
        _require(not kept, "a training value is in the file")
    # Four bytes of a weight are those of some value once in a hundred files.
    short = sum(struct.pack("<f", value) in content for value in secrets)
    _require(short < 5, "training values are in the file as float32")


def _check_pickle_and_clone(synthesizer: BaseSynthesizer) -> None:
    fitted = _read(synthesizer)
    again = pickle.loads(pickle.dumps(fitted))
    _require(again.sample(9).equals(fitted.sample(9)), "a pickle samples other rows")
    _require(not clone(fitted).__sklearn_is_fitted__(), "a clone is fitted")


def _check_no_target(synthesizer: BaseSynthesizer) -> None:
    table = _table().drop(columns=_TARGET)
    ready: BaseSynthesizer = clone(synthesizer)
    with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
        features, labels = ready.fit_resample(table)
    _require(not hasattr(ready, "classes_"), "classes_ without a target")
    _require(list(ready.sample(5)) == list(table), "columns differ")
    _require(labels is None and list(features) == list(table), "fit_resample differs")


def _check_shared_budget(synthesizer: BaseSynthesizer) -> None:
    epsilon, delta = synthesizer.epsilon, synthesizer.delta
    budget = PrivacyBudget(1.5 * epsilon, min(3 * delta, 0.5))
    first = _fitted(synthesizer, budget=budget)
    _require(budget.spent == (epsilon, delta), "the budget was not charged in full")
    second = clone(first)
    with _refused(BudgetExceededError, "a fit went on without budget"):
        _fit(second, _table())
    _require(not second.__sklearn_is_fitted__(), "a refused fit left a model")
    _require(len(budget.charges) == 1, "a refused fit was charged")


def _check_bad_tables_cost_nothing(synthesizer: BaseSynthesizer) -> None:
    table, budget = _table(), PrivacyBudget(1e3, 0.5)
    infinite = table.assign(number=np.inf)
    twice = pd.concat([table, table[["count"]]], axis=1)
    mixed = table.assign(text=pd.Series([1, "a"] * 300 + [1], dtype=object))
    for bad in (table[:1], table[[_TARGET]], infinite, twice, mixed, table["count"]):
        with _refused(ValueError, "a table that cannot be modelled was accepted"):
            _fit(_ready(synthesizer, budget=budget), bad)
    _require(budget.spent == (0.0, 0.0), "a refused table was charged")


def _check_plan_needs_no_table(synthesizer: BaseSynthesizer) -> None:
    plan = _ready(synthesizer, schema=_read(synthesizer).schema_).plan()
    _require(set(plan["class"]) == set(_CLASS_SIZES), "plan lacks a class")
    _require({"rows", "noise_std", "note"} <= set(plan), "plan lacks a column")
