"""Of a value only what it equals goes into a fit, and all of that comes out.

A text of a table may be an object of the caller's with attributes of its own: the name
of its owner, the row it came from. The fitted object, its pickle, its samples and its
file hold exact built-in values only, wherever the object was.
"""

import datetime
import enum
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import (
    BudgetExceededError,
    InvalidTableError,
    ReservationError,
)
from skdpsynth.schema import Categorical
from skdpsynth.utils.estimator_checks import reachable

pytestmark = pytest.mark.usefixtures("short_fits")

N_ROWS, SECRET = 300, "sEcReT"


class Text(str):
    pass


class Whole(int):
    pass


class Real(float):
    pass


class Moment(datetime.datetime):
    pass


class Letter(enum.StrEnum):
    A = "a"
    B = "b"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


OURS = (Text, Whole, Real, Moment, Letter, Number)


def few(first, second):
    for value in (first, second):
        value.owner = SECRET
    return [first, second] * (N_ROWS // 2)


COLUMNS = {
    "text": few(Text("p"), Text("q")),
    "enum of texts": [*Letter] * (N_ROWS // 2),
    "whole": few(Whole(1), Whole(2)),
    "enum of numbers": [*Number] * (N_ROWS // 2),
    "real": few(Real(0.5), Real(1.5)),
    "moment": few(Moment(2020, 1, 1), Moment(2021, 1, 1)),
}
TEXTS = ("text", "enum of texts")
OTHER = np.arange(N_ROWS) % 3 + 0.5
FITS = {
    "independent": IndependentSynthesizer(epsilon=20.0, random_state=0),
    "gpate": GPATESynthesizer(epsilon=20.0, n_iter=1, n_teachers=5, random_state=0),
}


def check_nothing_left(fitted, tmp_path):
    path = tmp_path / "fitted.skdp"
    fitted.save(path, overwrite=True)
    rows = fitted.sample(50, random_state=0)
    again = type(fitted).load(path)
    for held in (fitted, rows, again, pickle.loads(pickle.dumps(fitted))):
        assert not any(isinstance(part, OURS) for part in reachable(held))
    assert not any(isinstance(value, OURS) for column in rows for value in rows[column])
    for written in (pickle.dumps(fitted), path.read_bytes(), pickle.dumps(rows)):
        assert SECRET.encode() not in written
        assert not any(kind.__qualname__.encode() in written for kind in OURS)


@pytest.mark.parametrize(
    ("form", "fit"),
    [(form, "independent") for form in ("object", "category", "list", "y", "y list")]
    + [("object", "gpate"), ("y", "gpate")],
)
@pytest.mark.parametrize("name", COLUMNS)
def test_no_subclass_is_left(name, form, fit, tmp_path):
    """Features and labels; an object column of other things than texts is refused."""
    values, budget = COLUMNS[name], PrivacyBudget(100.0, 0.1)
    made = pd.Series(values, dtype="category" if form == "category" else object)
    X, y = pd.DataFrame({"a": made, "b": OTHER}), None
    if form == "list":
        X = [list(row) for row in zip(values, OTHER, strict=True)]
    elif form.startswith("y"):
        X, y = X[["b"]], values if form == "y list" else made
    synth = clone(FITS[fit]).set_params(budget=budget)
    if name not in TEXTS and form in ("object", "y"):
        with pytest.raises(InvalidTableError):
            synth.fit(X, y)
        assert budget.spent[0] == 0
        return
    check_nothing_left(synth.fit(X, y).set_params(budget=None), tmp_path)


@pytest.mark.parametrize("name", COLUMNS)
def test_declared_levels_are_plain(name):
    levels = Categorical(COLUMNS[name][:2]).categories
    assert not any(isinstance(level, OURS) for level in levels)


SOME = pd.DataFrame({"a": [1.5, 2.5] * 200, "y": ["p", "q"] * 200})


def test_a_method_that_is_missing_is_said_before_anything_is_charged():
    with pytest.raises(TypeError, match=r"abstract.*_fit.*_plan_classes"):
        type("Unfinished", (BaseSynthesizer,), {})()


@pytest.mark.parametrize("scope", ["z", 0, ("p",)])
def test_a_scope_that_is_no_class_is_refused(scope):
    """It would have the whole budget left, for rows that are charged elsewhere."""

    class ChargesNobody(IndependentSynthesizer):
        def _fit(self, rows, metadata, plans, accountant, seed):
            model = super()._fit(rows, metadata, plans, accountant, seed)
            accountant.reserve_gaussian("more", mu=1e-3, sensitivity=1.0, scope=scope)
            return model

    with pytest.raises(ReservationError, match="no class of the fit"):
        ChargesNobody(epsilon=9.0, target="y").fit(SOME)


def test_a_plan_by_noisy_counts_that_passes_the_cap_is_refused():
    """The cap is fixed before the counts are released, and the ledger keeps it."""

    class PassesTheCap(IndependentSynthesizer):
        def _plan_classes(self, labels, counts, n_numeric, n_levels, mu):
            more = mu * (1.1 if counts.max() > 10 else 1.0)
            return super()._plan_classes(labels, counts, n_numeric, n_levels, more)

    with pytest.raises(BudgetExceededError):
        PassesTheCap(target="y").fit(SOME)
