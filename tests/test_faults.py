"""What goes wrong from outside: Ctrl-C, SIGKILL, no memory, a full disk, NaN.

Whatever happens, and whenever: no half-written file loads, no budget forgets a charge,
no sample holds NaN, and an exception says what the fit cost.
"""

from __future__ import annotations

import gc
import inspect
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN_PRIVATE
from sklearn.base import clone

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
from skdpsynth.privacy import Reservation
from skdpsynth.privacy.testing import observe_releases

ROOT = Path(skdpsynth.__file__).parents[1]
PACKAGE = str(ROOT / "skdpsynth")


def table(n_rows: int = 150, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "u": rng.normal(size=n_rows),
            "v": rng.integers(0, 1000, n_rows),
            "s": rng.choice(["p", "q"], n_rows),
            "y": np.arange(n_rows) % 2,
        }
    )


# --- Ctrl-C -------------------------------------------------------------------------


class Interrupts:
    """Raise an exception at the n-th call inside the package, as Ctrl-C may.

    With n = None it counts the calls. What earlier tests left behind is not collected
    meanwhile: its finalizers are calls inside the package too.
    """

    def __init__(self, at: int | None, error: BaseException) -> None:
        self.calls, self._at, self._error = 0, at, error

    def __enter__(self) -> Interrupts:
        gc.disable()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _profile(self, frame, event, _) -> None:
        code = frame.f_code
        # Python swallows what is raised where a generator is closed.
        generator = code.co_flags & inspect.CO_GENERATOR
        if event == "call" and code.co_filename.startswith(PACKAGE) and not generator:
            self.calls += 1
            if self.calls == self._at:
                sys.setprofile(None)
                raise self._error


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", ["IndependentSynthesizer", "PATETripleGANSynthesizer"])
def test_an_interrupted_fit_leaves_the_charge_and_says_so(name):
    """Ctrl-C, or no memory, at 9 moments of a fit: the first, and at random."""
    drawn = []
    synth = clone(PLAIN_PRIVATE[name])
    synth.set_params(target="y", budget=PrivacyBudget(1e3, 0.1))
    synth.fit(table())  # imports
    with Interrupts(None, KeyboardInterrupt()) as counted:
        synth.fit(table())
    # The number of calls varies a little with the noise.
    rng = np.random.default_rng(5)
    moments = [1, *sorted(rng.integers(2, int(0.9 * counted.calls), 8))]
    n_noted = 0
    for moment in moments:
        error = (MemoryError, KeyboardInterrupt)[moment % 2]()
        before = len(synth.budget.charges)
        drawn.clear()
        with (
            observe_releases(drawn.append),
            pytest.raises(type(error)) as caught,
            Interrupts(moment, error),
        ):
            synth.fit(table())
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
    assert len(synth.fit(table()).sample(3)) == 3


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
        synthesizer.fit(table())
    assert said in caught.value.__notes__[0]
    refused = IndependentSynthesizer(budget=PrivacyBudget(0.5, 1e-5))
    with pytest.raises(BudgetExceededError) as caught:
        refused.fit(table())
    assert not hasattr(caught.value, "__notes__")  # nothing was charged


def test_an_interrupted_save_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "saved"
    old, new = (GPATESynthesizer(n_iter=2).fit(table(seed=s)) for s in (0, 1))
    new.save(path, overwrite=True)
    with Interrupts(None, KeyboardInterrupt()) as counted:
        new.save(path, overwrite=True)
    after = path.read_bytes()
    old.save(path, overwrite=True)
    before = path.read_bytes()
    for moment in range(1, counted.calls + 1):
        with Interrupts(moment, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
            new.save(path, overwrite=True)
        assert path.read_bytes() in (before, after)
        assert [file.name for file in tmp_path.iterdir()] == ["saved"]


def test_a_full_disk_leaves_the_file_that_was_there_and_charges_nothing(tmp_path):
    """Writing beyond the limit of a process fails as on a full disk."""
    resource = pytest.importorskip("resource")
    path, budget = tmp_path / "saved", PrivacyBudget(9.0, 0.1, path=tmp_path / "budget")
    synth = IndependentSynthesizer(budget=budget).fit(table())
    synth.save(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            synth.save(path, overwrite=True)
        with pytest.raises(PersistenceError, match="disk"):
            synth.fit(table())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"saved", "budget"}
    assert len(budget.charges) == 1


# --- NaN ----------------------------------------------------------------------------


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("init", ["measured", "random"])
@pytest.mark.parametrize("synthesizer", [DPCGANSynthesizer, DPGANSynthesizer])
def test_what_diverges_shows_no_nan(synthesizer, init):
    """Steps of 1e30 take networks to infinity and NaN at once."""
    real = table()
    poisoned = synthesizer(50.0, target="y", init=init, n_iter=3, learning_rate=1e30)
    poisoned.set_params(hidden_dims=((4,), (4,)))
    fake = poisoned.fit(real).sample(200)
    assert np.isfinite(fake["u"]).all()
    assert fake.notna().all().all()
    assert fake.dtypes.equals(real.dtypes)


# --- In processes of their own: this file is the program ----------------------------


def shared_budget(folder):
    return PrivacyBudget(1e3, 0.1, path=folder / "budget.db")


def in_child(work, seconds=None):
    """Run work(say) in a child and kill it after some seconds.

    Gives what it said, how it ended (0, 1 for an exception, or minus a signal), and
    how long it took.
    """
    reading, writing = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            work(lambda words: os.write(writing, f"{words}\n".encode()))
        except BaseException as error:
            code = 1
            os.write(writing, repr(error).encode())
        os._exit(code)
    os.close(writing)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    said = b""
    while part := os.read(reading, 2**16):
        said += part
    os.close(reading)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said.decode(), end, time.perf_counter() - start


def loads(path):
    """Whether there is a file, and a whole one."""
    try:
        return len(IndependentSynthesizer.load(path).sample(5)) == 5
    except (FileNotFoundError, PersistenceError):
        return False


def killed_fits(folder, rng):
    """Kill a fit with saves after it at random moments."""
    saved = folder / "saved"
    draw_down = Reservation._draw_down

    def fit_and_save(say):
        def noted(*arguments):
            say("noise")
            return draw_down(*arguments)

        Reservation._draw_down = noted
        synth = IndependentSynthesizer(target="y", budget=shared_budget(folder))
        synth.fit(table(2_000))
        for _ in range(20):
            synth.save(saved, overwrite=True)
            say("saved")

    in_child(fit_and_save)
    wall = in_child(fit_and_save)[2]
    for _ in range(12):
        saved.unlink(missing_ok=True)
        before = len(shared_budget(folder).charges)
        said, end, _ = in_child(fit_and_save, rng.uniform(0, wall))
        budget = shared_budget(folder)
        yield {
            "noise": "noise" in said,
            "saved": "saved" in said,
            "exists": saved.exists(),
            "loads": loads(saved),
            "charges": len(budget.charges) - before,
            "end": end,
        }
        budget.charge(1e-6, 1e-9)  # the file is still a budget


@pytest.fixture(scope="module")
def fits(tmp_path_factory) -> list[dict[str, object]]:
    """What this file finds as a program, which forks the processes that are killed."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux")
    folder = tmp_path_factory.mktemp("faults")
    done = subprocess.run(
        [sys.executable, __file__, folder, "7"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_killed_fit_stays_charged_and_leaves_no_half_file(fits):
    """SIGKILL in 12 fits with saves: charged before the first noise is drawn."""
    for fit in fits:
        assert fit["charges"] == 1 if fit["noise"] else fit["charges"] in (0, 1)
        assert fit["exists"] == fit["loads"]
        assert fit["loads"] or not fit["saved"]
    assert sum(fit["noise"] and fit["end"] == -signal.SIGKILL for fit in fits)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    killed = killed_fits(Path(sys.argv[1]), np.random.default_rng(int(sys.argv[2])))
    json.dump(list(killed), sys.stdout)
