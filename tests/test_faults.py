"""What goes wrong from outside: Ctrl-C, SIGKILL, no memory, a full disk, NaN.

Whatever happens, and whenever: no half-written file loads, no budget forgets a charge,
no sample holds NaN, and an exception says what the fit cost.
"""

import gc
import inspect
import math
import signal
import sys
import time
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from _instances import PLAIN_PRIVATE
from sklearn.base import clone
from tables import small_table

import skdpsynth
from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    PrivacyBudget,
)
from skdpsynth.exceptions import BudgetExceededError, PersistenceError
from skdpsynth.privacy.testing import observe_releases

PACKAGE = str(Path(skdpsynth.__file__).parent)


@contextmanager
def interrupted(at: int | None, error: BaseException):
    """Raise an exception at the n-th call inside the package, as Ctrl-C may.

    With n = None it lists the calls. What earlier tests left behind is not collected
    meanwhile: its finalizers are calls inside the package too.
    """
    calls: list[str] = []

    def profile(frame, event, _) -> None:
        code = frame.f_code
        # Python swallows what is raised where a generator is closed.
        generator = code.co_flags & inspect.CO_GENERATOR
        if event == "call" and code.co_filename.startswith(PACKAGE) and not generator:
            calls.append(code.co_name)
            if len(calls) == at:
                sys.setprofile(None)
                raise error

    gc.disable()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        gc.enable()


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", ["IndependentSynthesizer", "PATETripleGANSynthesizer"])
def test_an_interrupted_fit_leaves_the_charge_and_says_so(name):
    """Ctrl-C, or no memory, at 9 moments of a fit: the first, and at random."""
    drawn = []
    synth = clone(PLAIN_PRIVATE[name])
    synth.set_params(target="y", budget=PrivacyBudget(1e3, 0.1))
    synth.fit(small_table())  # imports
    with interrupted(None, KeyboardInterrupt()) as counted:
        synth.fit(small_table())
    # The number of calls varies with the noise.
    rng = np.random.default_rng(5)
    moments = [1, *sorted(rng.integers(2, int(0.6 * len(counted)), 8))]
    n_noted = 0
    for moment in moments:
        error = (MemoryError, KeyboardInterrupt)[moment % 2]()
        before = len(synth.budget.charges)
        drawn.clear()
        with (
            observe_releases(drawn.append),
            pytest.raises(type(error)) as caught,
            interrupted(moment, error),
        ):
            synth.fit(small_table())
        charged = len(synth.budget.charges) - before
        assert charged == 1 if drawn else charged in (0, 1)
        notes = getattr(caught.value, "__notes__", [])
        if not charged:
            assert notes == []
        # Between the charge and the first step of the fit lie microseconds.
        elif "_accountant" not in [step.name for step in caught.traceback]:
            (note,) = notes
            assert "epsilon = 1 and delta = 1e-05" in note
            assert repr(str(synth.budget.path)) in note
            n_noted += 1
            assert [name for name in vars(synth) if name.endswith("_")] == []
    assert n_noted >= 5
    assert len(synth.fit(small_table()).sample(3)) == 3


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(
    ("synthesizer", "said"),
    [
        (IndependentSynthesizer(epsilon=0.5), "add epsilon = 0.5 and delta = 1e-05"),
        (IndependentSynthesizer(epsilon=math.inf), "was not private"),
        (GANSynthesizer(n_iter=2), "was not private"),
    ],
    ids=["no budget", "no noise", "no privacy"],
)
def test_an_interrupted_fit_without_a_budget(synthesizer, said, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("skdpsynth.base.remarks", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        synthesizer.fit(small_table())
    assert said in caught.value.__notes__[0]
    refused = IndependentSynthesizer(budget=PrivacyBudget(0.5, 1e-5))
    with pytest.raises(BudgetExceededError) as caught:
        refused.fit(small_table())
    assert not hasattr(caught.value, "__notes__")  # nothing was charged


def test_an_interrupted_save_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "saved"
    old, new = (GPATESynthesizer(n_iter=2).fit(small_table(seed=s)) for s in (0, 1))
    new.save(path, overwrite=True)
    with interrupted(None, KeyboardInterrupt()) as counted:
        new.save(path, overwrite=True)
    after = path.read_bytes()
    old.save(path, overwrite=True)
    before = path.read_bytes()
    for moment in range(1, len(counted) + 1):
        with interrupted(moment, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
            new.save(path, overwrite=True)
        assert path.read_bytes() in (before, after)
        assert [file.name for file in tmp_path.iterdir()] == ["saved"]


def test_a_full_disk_leaves_the_file_that_was_there_and_charges_nothing(tmp_path):
    """Writing beyond the limit of a process fails as on a full disk."""
    resource = pytest.importorskip("resource")
    path, budget = tmp_path / "saved", PrivacyBudget(9.0, 0.1, path=tmp_path / "budget")
    synth = IndependentSynthesizer(budget=budget).fit(small_table())
    synth.save(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            synth.save(path, overwrite=True)
        with pytest.raises(PersistenceError, match="disk"):
            synth.fit(small_table())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"saved", "budget"}
    assert len(budget.charges) == 1


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("init", ["measured", "random"])
@pytest.mark.parametrize("synthesizer", [DPCGANSynthesizer, DPGANSynthesizer])
def test_what_diverges_shows_no_nan(synthesizer, init):
    """Steps of 1e30 take networks to infinity and NaN at once."""
    real = small_table().drop(columns="b")  # which has missing values
    poisoned = synthesizer(50.0, target="y", init=init, n_iter=3, learning_rate=1e30)
    poisoned.set_params(hidden_dims=((4,), (4,)))
    fake = poisoned.fit(real).sample(200)
    assert np.isfinite(fake["a"]).all()
    assert fake.notna().all().all()
    assert fake.dtypes.equals(real.dtypes)


def fit_and_save(folder):
    """Fit, and save again and again; write down what has been done."""
    budget = PrivacyBudget.open(folder / "budget")
    with (folder / "done").open("a", buffering=1) as done:
        with observe_releases(lambda _: print("noise", file=done)):
            synth = IndependentSynthesizer(target="y", budget=budget)
            synth.fit(small_table(2_000))
        for _ in range(20):
            synth.save(folder / "saved", overwrite=True)
            print("saved", file=done)


@pytest.mark.skipif(sys.platform != "linux", reason="needs processes that fork")
def test_a_killed_fit_stays_charged_and_leaves_no_half_file(tmp_path):
    """SIGKILL in 12 fits with saves: charged before the first noise is drawn."""
    saved, done = tmp_path / "saved", tmp_path / "done"
    budget = PrivacyBudget(1e3, 0.1, path=tmp_path / "budget")
    start, n_killed = time.perf_counter(), 0
    fit_and_save(tmp_path)  # imports, before any fork
    moments = np.random.default_rng(7).uniform(0, time.perf_counter() - start, 12)
    for seconds in moments:
        saved.unlink(missing_ok=True)
        done.write_text("")
        n_before = len(budget.charges)
        child = get_context("fork").Process(target=fit_and_save, args=(tmp_path,))
        child.start()
        child.join(seconds)
        child.kill()
        child.join()
        words, n_charged = done.read_text(), len(budget.charges) - n_before
        assert n_charged == 1 if "noise" in words else n_charged in (0, 1)
        if saved.exists():  # a whole file
            assert len(IndependentSynthesizer.load(saved).sample(5)) == 5
        assert saved.exists() or "saved" not in words
        n_killed += "noise" in words and child.exitcode == -signal.SIGKILL
        budget.charge(1e-6, 1e-9)  # the file is still a budget
    assert n_killed
