"""Runs resume from a folder, and go to any backend of joblib, one task each."""

import json
import warnings

import joblib
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from skdpsynth.exceptions import DegradedResultWarning


@pytest.fixture
def resume(compare, stubs, tmp_path):
    """Compare with a folder; say how many fits that took."""

    def call(synthesizers=None, **changes):
        before = len(stubs["Blind"].fits)
        synthesizers = synthesizers or {"blind": stubs["Blind"]()}
        options = {"classifiers": ["GaussianNB"], "folder": tmp_path / "runs"}
        result = compare(synthesizers, **options | changes)
        return len(stubs["Blind"].fits) - before, result

    return call


def test_finished_runs_are_not_repeated_and_the_folder_is_private(resume, tmp_path):
    n_fits, first = resume()
    assert n_fits == 2
    n_fits, again = resume()
    assert n_fits == 0
    assert again.scores.equals(first.scores)
    pd.testing.assert_frame_equal(again.runs, first.runs)
    # Of synthetic rows none is kept: there is no value of the column of texts.
    with pytest.raises(ValueError, match="read from a folder have no samples"):
        again.plot_pairs()
    files = (tmp_path / "runs").glob("*.json")
    assert not any("green" in file.read_text(encoding="utf-8") for file in files)
    assert resume(n_repeats=3)[0] == 1
    assert resume(epsilons=(1.0, 2.0))[0] == 2
    text = (tmp_path / "runs" / "README.txt").read_text(encoding="utf-8")
    assert "NOT PRIVATE" in text
    assert "real rows" in text


def test_an_interrupted_comparison_goes_on(resume, stubs, tmp_path):
    class Interrupted(stubs["Blind"]):
        def fit(self, X):
            if len(self.fits) == 3:
                raise KeyboardInterrupt
            return super().fit(X)

    # Under the name of the class that is interrupted, which is a part of the key.
    with pytest.raises(KeyboardInterrupt):
        resume({"blind": Interrupted()}, n_repeats=5)
    assert len(stubs["Blind"].fits) == 3
    Interrupted.fit = stubs["Blind"].fit
    n_fits, result = resume({"blind": Interrupted()}, n_repeats=5)
    assert n_fits == 2
    assert len(result.runs) == 10
    assert list((tmp_path / "runs").glob("*.tmp")) == []


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "key", "fields"])
def test_a_torn_file_is_redone(resume, tmp_path, damage):
    resume()
    path = next(iter((tmp_path / "runs").glob("Blind-1-0-*.json")))
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    path.write_text(
        {
            "cut": text[: len(text) // 2],
            "empty": "",
            "other": "[1, 2]",
            "key": text.replace(document["key"], "0" * 64),
            "fields": json.dumps({"key": document["key"], "run": {"facts": {}}}),
        }[damage],
        encoding="utf-8",
    )
    assert resume()[0] == 1
    assert json.loads(path.read_text(encoding="utf-8"))["key"] == document["key"]
    assert resume()[0] == 0


def test_what_determines_a_run_is_in_its_key(resume, stubs, tables, monkeypatch):
    resume(n_repeats=1)
    other = tables[0].assign(noise=tables[0]["noise"] + 1e-9)
    for changes in (
        {"train": other},
        {"train": tables[0].astype({"kind": "category"})},
        {"test": tables[1][::-1]},
        {"n_samples": 121},
        {"settings": "AB"},
        {"classifiers": ["DecisionTreeClassifier"]},
        {"sampling_strategy": "balanced"},
        {"random_state": 1},
        {"pos_label": "yes"},
        {"synthesizers": {"blind": stubs["Blind"](target="noise")}},
        {"synthesizers": {"renamed": stubs["Blind"]()}},
    ):
        assert resume(n_repeats=1, **changes)[0] == 1, list(changes)
    # What changes nothing is not.
    other = stubs["Blind"](verbose=1, random_state=7)
    assert resume({"blind": other}, n_repeats=1)[0] == 0
    other = tables[0].set_index(tables[0].index + 5)
    assert resume(n_repeats=1, train=other)[0] == 0
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 99")
    assert resume(n_repeats=1)[0] == 1


def test_a_failed_run_is_tried_again(resume, stubs):
    for _ in range(2):
        with pytest.warns(DegradedResultWarning, match="runs failed"):
            assert resume({"bad": stubs["Broken"]()}, n_repeats=1)[0] == 1


class Nosy(GaussianNB):
    """Notes how many workers joblib would give it."""

    workers: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.workers.append(joblib.effective_n_jobs(4))
        return super().fit(X, y)


def test_threads_leave_the_warnings_of_the_process_alone(compare, stubs):
    """Those of a run are kept beside it in the main thread alone."""

    class Warns(stubs["Blind"]):
        def fit(self, X):
            warnings.warn("of a fit", UserWarning, stacklevel=1)
            return super().fit(X)

    before = list(warnings.filters), warnings.showwarning
    with (
        joblib.parallel_config(backend="threading"),
        pytest.warns(UserWarning, match="of a fit"),
    ):
        result = compare({"w": Warns()}, n_jobs=2, n_repeats=4, settings="C")
    assert (list(warnings.filters), warnings.showwarning) == before
    assert set(result.runs["warned"]) == {""}


def test_runs_of_threads_are_those_of_one(compare, stubs):
    """In the same order; no classifier has workers of its own."""
    made, options = {"blind": stubs["Blind"]()}, {"classifiers": {"nb": Nosy()}}
    alone = compare(made, **options)
    with joblib.parallel_config(backend="threading"):
        result = compare(made, n_jobs=2, **options)
    assert result.scores.equals(alone.scores)
    assert set(Nosy.workers) == {1}
