"""What holds for every synthesizer: scikit-learn's checks and our own battery."""

import pkgutil
import random

import numpy as np
import pytest
from _instances import PLAIN, PLAIN_PRIVATE, PRIVATE
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_estimator,
    parametrize_with_checks as sklearn_checks,
)

import skdpsynth
from skdpsynth import IndependentSynthesizer
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.utils.estimator_checks import (
    check_synthesizer,
    parametrize_with_checks,
    synthesizer_checks,
)

pytestmark = pytest.mark.usefixtures("short_fits")


def test_every_public_synthesizer_is_tested():
    public = {name for name in skdpsynth.__all__ if name.endswith("Synthesizer")}
    assert set(PLAIN) == public - {"LinkedSynthesizer"}  # of several tables


# What they ask for is in `base.py`: these stand for those that train nothing, train
# with noise and train without.
SKLEARN = ("IndependentSynthesizer", "GPATESynthesizer", "GANSynthesizer")


@sklearn_checks([PLAIN[name] for name in SKLEARN])
def test_sklearn(estimator, check):
    check(estimator)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(PLAIN) - set(SKLEARN)))
def test_sklearn_of_the_others(name):
    check_estimator(PLAIN[name], on_skip=None)


# Other ways of training are in `synthesizers/test_privacy.py`.
@parametrize_with_checks(PLAIN_PRIVATE.values())
def test_battery(synthesizer, check):
    check(synthesizer)


class _Broken(IndependentSynthesizer):
    """A base for synthesizers that break one promise each, before a fit or after it."""

    def _before(self):
        pass

    def _after(self, X):
        pass

    def fit(self, X, y=None):
        self._before()
        super().fit(X, y)
        self._after(X)
        return self


class _KeepsRows(_Broken):
    def _after(self, X):
        self.rows_ = [np.asarray(X["number"])[None]]


class _KeepsMembers(_Broken):
    def _fit(self, rows, *others):
        self.first_ = rows.of_class(0).category_codes[:, 0]
        return super()._fit(rows, *others)


class _KeepsRareString(_Broken):
    def _after(self, X):
        rare = str(max(X["text"])) if "text" in X else ""
        self.peek_ = lambda: rare


class _SavesRareString(_Broken):
    def _generator_state(self):
        return {"note": "canary-5"}, {}


class _ReadsGlobalGenerator(_Broken):
    def _after(self, X):
        np.random.random()  # noqa: NPY002 - the defect


class _SetsGlobalGenerator(_Broken):
    def _after(self, X):
        random.seed(0)


class _Wastes(_Broken):
    def _allocate(self, table, mu):
        return super()._allocate(table, 0.9 * mu)


class _ForgetsRelease(_Broken):
    def _allocate(self, table, mu):
        return super()._allocate(table, 0.99 * mu)

    def _fit(self, rows, metadata, plans, accountant, seed):
        left = 0.1 * accountant.remaining_mu(metadata.classes.scopes[0])
        given = {"mu": left, "sensitivity": 1.0, "answer": False}
        for scope in metadata.classes.scopes:
            accountant.reserve_gaussian("more", scope=scope, **given)
        return super()._fit(rows, metadata, plans, accountant, seed)


class _SeedsNoise(_Broken):
    def fit(self, X, y=None):
        with insecure_randomness(0):
            return super().fit(X, y)


class _ClaimsTooLittle(_Broken):
    def _after(self, X):
        self.epsilon_ = 0.99 * self.epsilon_


class _HidesInfinity(_Broken):
    def _after(self, X):
        self.epsilon_ = min(self.epsilon_, 1e6)


class _Repeats(_Broken):
    def sample(self, n_samples=1, *, random_state=None, **others):
        return super().sample(n_samples, random_state=0, **others)


class _LosesTypes(_Broken):
    def sample(self, n_samples=1, **others):
        table = super().sample(n_samples, **others)
        return table.assign(count=table["count"].astype(float))


class _IgnoresBudget(_Broken):
    def fit(self, X, y=None):
        budget, self.budget = self.budget, None
        super().fit(X, y)
        self.budget = budget
        return self


class _ChargesFirst(_Broken):
    def _before(self):
        if self.budget is not None:
            self.budget.charge(self.epsilon, self.delta)


@pytest.mark.parametrize(
    ("twin", "name"),
    [
        (_KeepsRows, "nothing_private_is_kept"),
        (_KeepsMembers, "nothing_private_is_kept"),
        (_KeepsRareString, "nothing_private_is_kept"),
        (_SavesRareString, "file"),
        (_ReadsGlobalGenerator, "global_generators_are_left_alone"),
        (_SetsGlobalGenerator, "global_generators_are_left_alone"),
        (_Wastes, "budget_is_kept_and_used"),
        (_ClaimsTooLittle, "budget_is_kept_and_used"),
        (_ForgetsRelease, "all_reservations_are_used"),
        (_SeedsNoise, "noise_is_secret"),
        (_HidesInfinity, "insecure_noise_is_reported"),
        (_HidesInfinity, "infinite_epsilon"),
        (_Repeats, "sample_repeats_or_continues"),
        (_LosesTypes, "sample_is_like_the_table"),
        (_IgnoresBudget, "shared_budget"),
        (_ChargesFirst, "bad_tables_cost_nothing"),
    ],
)
def test_battery_catches_broken_twin(twin, name):
    check = dict(synthesizer_checks())[name]
    random.seed(0)  # as `_SetsGlobalGenerator` does: it is seen nevertheless
    with pytest.raises(AssertionError):
        check(twin())


def test_the_noise_of_samples_is_that_of_their_charge(monkeypatch):
    """A tenth less is caught, by the noise: the ledger's charges are as ever."""
    check = dict(synthesizer_checks())["budget_is_kept_and_used"]
    synthesizer = PRIVATE["dpcgan sampled"]
    check(synthesizer)
    where = "skdpsynth.privacy._accountant.sampled_noise_multiplier"
    real = pkgutil.resolve_name(where)
    monkeypatch.setattr(where, lambda *block: 0.9 * real(*block))
    with pytest.raises(AssertionError, match="too little noise for its charge"):
        check(clone(synthesizer))


def test_checks_are_named():
    with pytest.raises(AssertionError, match="_Wastes fails the check 'budget_is_kept"):
        check_synthesizer(_Wastes())
