"""Kill fits with saves after them at random moments, and say what is left of each.

``python killed_fits.py FOLDER SEED`` forks the processes that are killed, so that what
they import is imported once, and prints what it found as JSON.
"""

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from tables import small_table

from skdpsynth import IndependentSynthesizer, PrivacyBudget
from skdpsynth.exceptions import PersistenceError
from skdpsynth.privacy import Reservation


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
        synth.fit(small_table(2_000))
        for _ in range(20):
            synth.save(saved, overwrite=True)
            say("saved")

    IndependentSynthesizer(target="y").fit(small_table())  # imports, before any fork
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    killed = killed_fits(Path(sys.argv[1]), np.random.default_rng(int(sys.argv[2])))
    json.dump(list(killed), sys.stdout)
