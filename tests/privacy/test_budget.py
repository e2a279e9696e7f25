"""Several fits share one total, across copies, clones, pickles and processes."""

import copy
import gc
import math
import os
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from sklearn.base import clone

import skdpsynth
from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import BudgetExceededError, PersistenceError
from skdpsynth.privacy import PrivacyBudget

# Charges 0.1 up to 30 times, from a pickle on standard input; prints the successes.
WORKER = """
import pickle, sys
from skdpsynth.exceptions import BudgetExceededError
budget = pickle.load(sys.stdin.buffer)
print("ready", flush=True)
done = 0
for _ in range(30):
    try:
        budget.charge(0.1, 1e-6, label="worker")
    except BudgetExceededError:
        continue
    done += 1
print(done)
"""


def test_charges_add_up_and_stop_at_the_total():
    budget = PrivacyBudget(1.0, 1e-4)
    assert budget.spent == (0.0, 0.0)
    assert budget.remaining == (1.0, 1e-4)
    assert budget.charges.empty
    budget.charge(0.25, 1e-5, label="first")
    budget.charge(0.75, 9e-5)
    table = budget.charges
    assert table.columns.tolist() == ["charged_at", "label", "epsilon", "delta"]
    assert table["label"].tolist() == ["first", "fit"]
    assert table["epsilon"].tolist() == [0.25, 0.75]
    assert table["charged_at"].str.endswith("+00:00").all()
    assert budget.spent == (pytest.approx(1.0), pytest.approx(1e-4))
    assert budget.remaining == (pytest.approx(0.0), pytest.approx(0.0, abs=1e-15))
    with pytest.raises(BudgetExceededError):
        budget.charge(1e-9, 1e-20)


def test_refusal_says_what_is_left_and_spends_nothing():
    budget = PrivacyBudget(1.0, 1e-4)
    budget.charge(0.75, 1e-5)
    with pytest.raises(
        BudgetExceededError, match=r"epsilon = 0\.25 left of 1, .* asks for 0\.5.*Fit"
    ):
        budget.charge(0.5, 1e-5)
    with pytest.raises(BudgetExceededError, match=r"delta = 9e-05 left of 0\.0001"):
        budget.charge(0.1, 2e-4)
    assert budget.spent == (0.75, 1e-5)
    assert len(budget.charges) == 1


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *((value, 1e-5) for value in (0.0, -1.0, math.nan, math.inf)),
        *((0.1, value) for value in (0.0, -1.0, 1.0)),
    ],
)
def test_numbers_out_of_range(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        PrivacyBudget(epsilon, delta)
    budget = PrivacyBudget(1.0, 1e-4)
    # An infinite charge is one that no budget has left.
    error = BudgetExceededError if epsilon == math.inf else ValueError
    with pytest.raises(error, match=r"must be|asks for inf"):
        budget.charge(epsilon, delta)
    assert budget.spent == (0.0, 0.0)


def test_copies_and_clones_are_the_same_budget():
    budget = PrivacyBudget(1.0, 1e-4)
    assert copy.copy(budget) is budget
    assert copy.deepcopy([budget])[0] is budget
    assert clone(IndependentSynthesizer(budget=budget)).budget is budget
    for name in ("epsilon", "delta", "path"):
        with pytest.raises(AttributeError):
            setattr(budget, name, 100.0)
    assert repr(budget).startswith("PrivacyBudget(epsilon=1.0, delta=0.0001, path=")


def test_a_pickle_shares_the_file_and_does_not_own_it():
    budget = PrivacyBudget(1.0, 1e-4)
    twin = pickle.loads(pickle.dumps(budget))
    assert twin is not budget
    assert (twin.epsilon, twin.delta, twin.path) == (1.0, 1e-4, budget.path)
    twin.charge(0.5, 1e-5)
    assert budget.spent == (0.5, 1e-5)
    del twin
    gc.collect()
    assert budget.remaining[0] == 0.5


def test_a_pickle_of_a_lost_file_is_an_error_and_not_a_fresh_budget(tmp_path):
    budget = PrivacyBudget(1.0, 1e-4, path=tmp_path / "budget.db")
    data = pickle.dumps(budget)
    budget.path.unlink()
    with pytest.raises(PersistenceError, match="cannot be used"):
        pickle.loads(data)
    with pytest.raises(PersistenceError, match="cannot be used"):
        budget.charge(0.1, 1e-5)
    assert not budget.path.exists()


def test_a_file_is_reopened_with_its_charges(tmp_path, monkeypatch):
    """Wherever the process goes; and with its own totals alone."""
    folder = tmp_path / "a folder with % and ?"
    folder.mkdir()
    path = folder / "budget.db"
    monkeypatch.chdir(folder)
    budget = PrivacyBudget(1.0, 1e-4, path="budget.db")
    monkeypatch.chdir("/")
    budget.charge(0.75, 1e-5)
    again = PrivacyBudget(1.0, 1e-4, path=str(path))
    assert again.remaining == (0.25, 9e-5)
    for epsilon, delta in ((2.0, 1e-4), (1.0, 1e-3)):
        with pytest.raises(PersistenceError, match=r"epsilon = 1\.0 and delta"):
            PrivacyBudget(epsilon, delta, path=path)
    opened = PrivacyBudget.open(str(path))
    assert (opened.epsilon, opened.delta, opened.path) == (1.0, 1e-4, path)
    assert opened.remaining == (0.25, 9e-5)
    gc.collect()
    assert path.exists()


def test_other_files_are_refused(tmp_path):
    text, absent = tmp_path / "text.db", tmp_path / "absent.db"
    text.write_text("not a database, but long enough to be read " * 50)
    for make in (PrivacyBudget.open, lambda path: PrivacyBudget(1.0, 1e-4, path)):
        for path in (text, absent / "budget.db"):
            with pytest.raises(PersistenceError, match="cannot be used"):
                make(path)
    with pytest.raises(PersistenceError, match="cannot be used"):
        PrivacyBudget.open(absent)
    assert not absent.exists()


@pytest.mark.parametrize("forked", [False, True])
def test_a_temporary_budget_is_private_and_removed_with_its_owner(forked, monkeypatch):
    """Not by a forked child."""
    budget = PrivacyBudget(1.0, 1e-4)
    path = budget.path
    assert path.exists()
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0
    if forked:
        monkeypatch.setattr(os, "getpid", lambda: -1)
    del budget
    gc.collect()
    assert path.exists() == forked
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("left", [b"", b"\n"])
def test_an_empty_file_is_no_fresh_budget(tmp_path, left):
    """Who cuts it off would get everything back; SQLite takes a byte for none."""
    path = tmp_path / "cut.db"
    PrivacyBudget(1.0, 1e-4, path).charge(1.0, 1e-5, label="all of it")
    path.write_bytes(left)
    with pytest.raises(PersistenceError, match=r"empty file.*delete it"):
        PrivacyBudget(1.0, 1e-4, path)
    with pytest.raises(PersistenceError):
        PrivacyBudget.open(path)
    assert path.read_bytes() == left


def test_two_processes_never_overspend():
    budget = PrivacyBudget(2.0, 1e-3)
    environment = os.environ | {"PYTHONPATH": str(Path(skdpsynth.__file__).parents[1])}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        for _ in range(2)
    ]
    for worker in workers:
        pickle.dump(budget, worker.stdin)
        worker.stdin.flush()
    outputs = [int(worker.communicate(timeout=60)[0].split()[-1]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    # 60 charges of 0.1 were asked for, 20 fit.
    assert sum(outputs) == 20
    assert budget.spent[0] == pytest.approx(2.0)
    assert len(budget.charges) == 20


def test_the_lock_is_taken_before_reading(monkeypatch):
    budget, module = PrivacyBudget(1.0, 1e-4), "skdpsynth.privacy._budget"
    monkeypatch.setattr(f"{module}._LOCK_TIMEOUT_S", 0.05)
    with (
        mock.patch(f"{module}._read") as read,
        sqlite3.connect(budget.path, isolation_level=None) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(PersistenceError, match="locked"):
            budget.charge(0.1, 1e-5)
        other.execute("ROLLBACK")
    other.close()
    read.assert_not_called()
    assert budget.charges.empty
