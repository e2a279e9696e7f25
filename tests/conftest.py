"""What all tests share: threads, markers and seeds."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

# Before any library reads them: one thread per process, and no window for a plot.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")


class Examples:
    """Examples in docstrings, which show how to call: short fits do."""

    @pytest.fixture(autouse=True)
    def _short(self, request: pytest.FixtureRequest) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(request.node, pytest.DoctestItem):
                shorten_fits(patch)
                take_few_trees(patch)
                patch.setattr("skdpsynth.synthesizers._base.ROUNDS", 2)
                patch.setattr("skdpsynth.synthesizers._base.MOST_TEACHERS", 50)
            yield


_AUDIT_FOLDER = Path(__file__).parent / "audit"


def pytest_configure(config: pytest.Config) -> None:
    """Plant the fault that SKDPSYNTH_MUTATION names, for all tests of the session."""
    config.pluginmanager.register(Examples())
    if name := os.environ.get("SKDPSYNTH_MUTATION"):
        from mutations import planted

        fault = ExitStack()
        fault.enter_context(planted(name))
        config.add_cleanup(fault.close)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of tests/audit, and skip what needs a GPU where there is none."""
    for item in items:
        if item.path.is_relative_to(_AUDIT_FOLDER):
            item.add_marker(pytest.mark.audit)
    for_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if for_gpu:
        import torch

        if not torch.cuda.is_available():
            for item in for_gpu:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def short_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what follows releases short, for what holds however good fits are."""
    shorten_fits(monkeypatch)


@pytest.fixture
def hardly_any_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop post-processing at once, for what holds whatever becomes of releases."""
    shorten_fits(monkeypatch, n_steps=4, n_components=20)


def shorten_fits(
    monkeypatch: pytest.MonkeyPatch, *, n_steps: int = 20, n_components: int = 60
) -> None:
    constants = {
        "synthesizers._base.GENERATOR_STEPS": 2,
        "synthesizers._pategan.VotingGAN._generator_steps": 2,
        "model._fit._STEPS": (n_steps, n_steps),
        "model._fit._COMPONENTS": (n_components, n_components),
        "training._network.N_KNOWN": 60,
    }
    for name, value in constants.items():
        monkeypatch.setattr(f"skdpsynth.{name}", value)


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the classifiers of scores small, for what holds however good they are."""
    take_few_trees(monkeypatch)


def take_few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    from skdpsynth.metrics import CLASSIFIERS, REGRESSORS

    sizes = {"n_estimators": 5, "max_iter": 5}
    for model in [*CLASSIFIERS.values(), *REGRESSORS.values()]:
        large = any(own in type(model).__name__ for own in ("Forest", "Boost", "MLP"))
        for name in sizes.keys() & vars(model).keys() if large else ():
            monkeypatch.setattr(model, name, sizes[name])
    forest = partial(RandomForestClassifier, n_estimators=5)
    boosting = partial(HistGradientBoostingClassifier, max_iter=5)
    monkeypatch.setattr("skdpsynth.metrics._fidelity.RandomForestClassifier", forest)
    name = "skdpsynth.evaluation._runs.HistGradientBoostingClassifier"
    monkeypatch.setattr(name, boosting)
    monkeypatch.setattr("skdpsynth.metrics._linked._ROUNDS", 5)


@pytest.fixture
def frozen_noise() -> Iterator[None]:
    """Repeat the noise of fits, for what it would change once in 10^6 runs or more."""
    from skdpsynth.privacy.testing import insecure_randomness

    with insecure_randomness(0):
        yield


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Give a budget that must not be charged; no ledger may be opened."""

    from skdpsynth import PrivacyBudget

    monkeypatch.setattr("skdpsynth.base.PrivacyAccountant", None)
    budget = PrivacyBudget(10.0, 1e-3)
    yield budget
    assert budget.spent == (0.0, 0.0)
    assert len(budget.charges) == 0


@pytest.fixture
def global_random_seed() -> int:
    """Give the seed of a test that draws; it must pass for every seed in 0..99."""
    return int(os.environ.get("SKDPSYNTH_TEST_SEED", "42"))
