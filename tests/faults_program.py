"""Processes that are killed, or run out of memory or disk; `test_faults.py` runs it.

One process does the imports and forks the others. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.exceptions import PersistenceError
from skdpsynth.privacy import Ledger


def table(n_rows, n_columns=6):
    made = pd.DataFrame(np.random.default_rng(0).normal(size=(n_rows, n_columns)))
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
            said = [type(error).__name__, str(error), *getattr(error, "__notes__", [])]
            os.write(writing, " | ".join(said).encode())
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


def starved(folder):
    """Fit and save with too little memory, or on a disk that is full."""
    small, big = table(100), table(5 * 10**6, 2)
    saved = folder / "saved"

    def work(what, amount, say):
        synth = IndependentSynthesizer(target="y", budget=shared_budget(folder))
        if what == "save":
            synth.fit(small)
        kind = resource.RLIMIT_FSIZE  # writing beyond it fails as on a full disk
        if what == "memory":
            kind = resource.RLIMIT_AS
            lines = Path("/proc/self/status").read_text().splitlines()
            (size,) = (line for line in lines if line.startswith("VmSize"))
            amount += int(size.split()[1]) * 1024
        resource.setrlimit(kind, (amount, amount))
        if what == "save":
            synth.save(saved, overwrite=True)
        else:
            synth.fit(big if what == "memory" else small)
        say("done")

    cases = [("memory", megabytes * 2**20) for megabytes in (1, 50)]
    cases += [("save", 100), ("save", 2000), ("budget", 0), ("budget", 6000)]
    for what, amount in cases:
        saved.unlink(missing_ok=True)
        before = len(shared_budget(folder).charges)
        said, _, _ = in_child(lambda say, w=what, a=amount: work(w, a, say))
        budget = shared_budget(folder)
        yield {
            "what": what,
            "said": said,
            "files": sorted(file.name for file in folder.iterdir()),
            "charges": len(budget.charges) - before,
        }
        budget.charge(1e-6, 1e-9)


def main():
    warnings.simplefilter("ignore")
    folder, rng = Path(sys.argv[1]), np.random.default_rng(int(sys.argv[2]))
    found = {}
    for name, run in {
        "fits": lambda own: killed_fits(own, rng),
        "saves": lambda own: killed_saves(own, rng),
        "starved": starved,
    }.items():
        own = folder / name
        own.mkdir()
        found[name] = list(run(own))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
