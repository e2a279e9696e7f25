"""Runs go to any backend of joblib, one task each, and come back."""

from __future__ import annotations

import os
import pickle
import signal
import time
import warnings

import joblib
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import ThreadingBackend
from sklearn.naive_bayes import GaussianNB

from skdpsynth import IndependentSynthesizer
from skdpsynth.evaluation._runs import Job, Task, run
from skdpsynth.schema import Categorical, TableSchema

# With so few rows a label that nobody declares is not found.
SCHEMA = TableSchema({"label": Categorical(["no", "yes"])}, target="label")
FLOOR = IndependentSynthesizer(schema=SCHEMA)


class Counting(ThreadingBackend):
    """A backend that somebody registered; counts the tasks it is given."""

    tasks = 0
    supports_return_generator = False

    def submit(self, func, callback=None):
        Counting.tasks += 1
        return super().submit(func, callback)


class Nosy(GaussianNB):
    """Notes how many workers joblib would give it."""

    workers: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.workers.append(joblib.effective_n_jobs(4))
        return super().fit(X, y)


def test_threads_leave_the_warnings_of_the_process_alone(compare, stubs) -> None:
    """Each run has its own, and none changes what is shown afterwards."""

    class Warns(stubs["Blind"]):
        def fit(self, X):
            for _ in range(3):
                warnings.warn(f"seed {self.random_state}", UserWarning, stacklevel=1)
                time.sleep(0.01)
            return super().fit(X)

    before = list(warnings.filters), warnings.showwarning
    with joblib.parallel_config(backend="threading"):
        result = compare({"w": Warns()}, n_jobs=2, n_repeats=4, settings="C")
    assert (list(warnings.filters), warnings.showwarning) == before
    seeds = [seed for _, seed, _ in stubs["Blind"].fits]
    expected = {f"UserWarning: seed {seed}" for seed in seeds}
    assert len(expected) == 4
    # Classifiers may warn too, and so may libraries.
    found = [set(text.splitlines()) & expected for text in result.runs["warned"]]
    assert sorted(map(len, found)) == [1] * 4
    assert set().union(*found) == expected


@pytest.mark.parametrize("backend", ["threading", "counting"])
def test_a_run_is_one_task_of_any_backend(compare, stubs, backend) -> None:
    """Also of one that cannot hand over results one by one; the order is kept."""
    joblib.register_parallel_backend("counting", Counting)
    Counting.tasks = 0
    Nosy.workers.clear()
    alone = compare({"blind": stubs["Blind"]()}, classifiers={"nb": Nosy()})
    with joblib.parallel_config(backend=backend):
        result = compare(
            {"blind": stubs["Blind"]()}, classifiers={"nb": Nosy()}, n_jobs=2
        )
    assert result.scores.equals(alone.scores)
    assert set(Nosy.workers) == {1}
    if backend == "counting":
        assert Counting.tasks == 4  # two repeats of the reference and of the run


def test_a_run_travels(tables) -> None:
    """What is sent to a worker can be pickled, and what comes back is small."""
    job = Job("floor", FLOOR, 1.0, 0, 0)
    task = Task("label", 120, "BC", ["GaussianNB"], None, None, fidelity=False)
    function, *arguments = pickle.loads(pickle.dumps((run, job, task, *tables)))
    record = function(*arguments)
    assert record.facts["error"] == ""
    assert len(pickle.dumps(record)) < 20_000


@pytest.mark.nightly
def test_processes_give_the_same_rows(compare) -> None:
    """Real rows come to them as read-only files; noise differs, the rest does not."""
    options = {"classifiers": ["GaussianNB"], "epsilons": (5.0,)}
    with joblib.parallel_config(backend="loky", max_nbytes=1_000):
        result = compare([FLOOR], n_jobs=2, **options)
    assert (result.runs["error"] == "").all()
    keys = ["synthesizer", "repeat", "setting", "classifier", "metric"]
    assert result.scores[keys].equals(compare([FLOOR], **options).scores[keys])


@pytest.mark.nightly
def test_a_killed_worker_ends_the_comparison_and_keeps_what_was_done(
    compare, tmp_path
) -> None:
    """As the system kills one that takes too much memory."""

    class Killed(IndependentSynthesizer):
        def fit(self, X, y=None):
            for _ in range(600):  # until the other run is done
                if list(tmp_path.glob("IndependentSynthesizer-*.json")):
                    break
                time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"folder": tmp_path, "n_repeats": 1, "settings": "B", "n_jobs": 2}
    with pytest.raises(TerminatedWorkerError):
        compare({"floor": FLOOR, "killed": Killed()}, **options)
    assert len(list(tmp_path.glob("IndependentSynthesizer-*.json"))) == 1


@pytest.mark.nightly
# Starting a cluster warns about ports and unclosed sockets of its own.
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_takes_the_runs(compare, tmp_path) -> None:
    """Two worker processes; every run comes back, and to the folder."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask", wait_for_workers_timeout=60),
    ):
        result = compare([FLOOR], fidelity=True, epsilons=(1, 10), folder=tmp_path)
        assert len(client.ncores()) == 2
    assert (result.runs["error"] == "").all()
    assert len(list(tmp_path.glob("*.json"))) == len(result.runs) == 6
