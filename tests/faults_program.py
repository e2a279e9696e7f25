"""Processes that are killed; `test_faults.py` runs it.

One process does the imports and forks the others. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from skdpsynth import GPATESynthesizer, PrivacyBudget
from skdpsynth.exceptions import PersistenceError
from skdpsynth.privacy import Ledger


def table(n_rows):
    made = pd.DataFrame(np.random.default_rng(0).normal(size=(n_rows, 6)))
    return made.rename(columns=str).assign(y=np.arange(n_rows) % 2)


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


def rows_of(path):
    """Rows that a file gives; None where there is none that loads."""
    try:
        return GPATESynthesizer.load(path).sample(5, random_state=0).to_json()
    except (FileNotFoundError, PersistenceError):
        return None


def killed_fits(folder, rng):
    """Kill a fit with a save after it at random moments."""
    saved = folder / "saved"
    draw_down = Ledger._draw_down

    def fit_and_save(say):
        def noted(*arguments):
            say("noise")
            return draw_down(*arguments)

        Ledger._draw_down = noted
        synth = GPATESynthesizer(n_iter=3, target="y", budget=shared_budget(folder))
        synth.fit(table(400)).save(saved, overwrite=True)
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
            "loads": rows_of(saved) is not None,
            "charges": len(budget.charges) - before,
            "end": end,
        }
        budget.charge(1e-6, 1e-9)  # the file is still a budget


def killed_saves(folder, rng):
    """Kill a process that saves two synthesizers in turn under one name."""
    path = folder / "saved"
    both = [GPATESynthesizer(n_iter=2).fit(table(200)) for _ in range(2)]
    known = []
    for synth in both:
        synth.save(path, overwrite=True)
        known.append(rows_of(path))

    def save_forever(_):
        while True:
            for synth in both:
                synth.save(path, overwrite=True)

    for _ in range(12):
        _, end, _ = in_child(save_forever, rng.uniform(0, 0.05))
        yield {"whole": rows_of(path) in known, "end": end}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rng, found = np.random.default_rng(int(sys.argv[2])), {}
    for name, run in {"fits": killed_fits, "saves": killed_saves}.items():
        own = Path(sys.argv[1]) / name
        own.mkdir()
        found[name] = list(run(own, rng))
    json.dump(found, sys.stdout)
