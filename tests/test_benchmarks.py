"""The tables of the papers: what is run, kept, skipped and printed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def bench(monkeypatch):
    """Give the command as a module, with one small table in it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import paper_tables

    toy = replace(
        paper_tables.TABLES["thyroid"],
        load=lambda data, seed: (_toy(seed), _toy(seed + 100)),
        target="label",
        n_samples=300,
        n_seeds=2,
    )
    monkeypatch.setattr(paper_tables, "TABLES", {"thyroid": toy})
    return paper_tables


@pytest.fixture
def options(bench, tmp_path, monkeypatch):
    """Run in this process, and write into a folder of its own."""
    monkeypatch.setattr(bench, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(bench, "NOTES", tmp_path / "notes.md")
    done = []

    def run_here(key, options):
        done.append(key)
        return bench.run(key[0], key[1], key[3], options.data)

    monkeypatch.setattr(bench, "_run_apart", run_here)

    def call(*arguments):
        done.clear()
        command = ["paper_tables.py", "--csv", str(tmp_path / "rows.csv"), *arguments]
        monkeypatch.setattr(sys, "argv", command)
        bench.main()
        return list(done)

    return call


def _toy(seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, 2000)
    return pd.DataFrame({"x": rng.standard_normal(2000) + label, "label": label})


def _rows(bench, **columns):
    """Make rows of results; what is not named is filled in."""
    rows = pd.DataFrame(columns).assign(
        table="thyroid", certified_epsilon=1.0, fit_s=1.0, date="2025-01-02", commit="c"
    )
    return rows.reindex(columns=bench.COLUMNS).assign(
        epsilon=3.7, code=columns.get("code", "a")
    )


TWO = ("--synthesizers", "real data", "independent")


@pytest.mark.nightly
def test_runs_are_kept_and_not_done_again(bench, options, tmp_path):
    first = options(*TWO, "--seeds", "1")
    assert [key[1] for key in first] == ["real data", "independent"]
    assert options(*TWO, "--seeds", "1") == []
    assert [key[3] for key in options(*TWO)] == [1, 1]
    assert len(options(*TWO, "--fresh", "--prune")) == 4

    rows = bench.read(tmp_path / "rows.csv")
    assert list(rows.columns) == bench.COLUMNS
    assert len(rows) == 4
    assert rows["error"].isna().all()
    assert rows["auroc"].between(0.6, 0.9).all()
    floor = rows[rows["synthesizer"] == "independent"]
    assert (floor["certified_epsilon"] <= floor["epsilon"]).all()
    assert (floor[["fit_s", "peak_gb", "sample_s", "score_s"]] > 0).all(axis=None)
    assert floor["by_classifier"].str.match(r"MLPClassifier0=0\.\d+/0\.\d+ ").all()
    assert floor["packages"].str.contains("numpy=").all()


@pytest.mark.nightly
def test_changed_code_is_run_again(bench, options, monkeypatch, tmp_path):
    options(*TWO, "--seeds", "1")
    monkeypatch.setattr(bench, "code_of", lambda name: "another state")
    assert len(options(*TWO, "--seeds", "1")) == 2
    rows = bench.read(tmp_path / "rows.csv")
    assert len(rows) == 4
    assert set(bench.current(rows)["code"]) == {"another state"}


def test_failing_run_is_a_row(bench, options, monkeypatch, tmp_path, capsys):
    def refuse(data, seed):
        msg = "no such table"
        raise FileNotFoundError(msg)

    broken = replace(bench.TABLES["thyroid"], load=refuse)
    monkeypatch.setitem(bench.TABLES, "thyroid", broken)
    options("--synthesizers", "independent", "--seeds", "1")
    rows = bench.read(tmp_path / "rows.csv")
    assert rows["error"].tolist() == ["FileNotFoundError: no such table"]
    assert rows["auroc"].isna().all()
    assert "no such table" in (tmp_path / "results.md").read_text()
    assert options("--synthesizers", "independent", "--seeds", "1") == []
    capsys.readouterr()


def test_absent_synthesizer_is_skipped(bench, options, monkeypatch, capsys):
    monkeypatch.setitem(bench.SYNTHESIZERS, "DPGAN", "NoSuchSynthesizer")
    assert options("--synthesizers", "DPGAN") == []
    assert "skipped DPGAN" in capsys.readouterr().out


def test_killed_process_is_a_row(bench, monkeypatch):
    """The system may kill a run that takes too much memory."""
    parsed = type("Options", (), {"data": Path(), "timeout": 60})
    dead = subprocess.CompletedProcess([], -9, b"")
    monkeypatch.setattr(bench.subprocess, "run", lambda *a, **k: dead)
    monkeypatch.setattr(bench, "code_state", lambda: "c")
    row = bench._run_apart(("thyroid", "G-PATE", 3.7, 0, "a"), parsed)
    assert row["error"] == "the process ended with code -9"
    assert [row[key] for key in bench.KEYS] == ["thyroid", "G-PATE", 3.7, 0, "a"]

    row = json.dumps({"table": "thyroid", "epsilon": math.inf}).encode()
    alive = subprocess.CompletedProcess([], 0, b"chatter\n" + row + b"\n")
    monkeypatch.setattr(bench.subprocess, "run", lambda *a, **k: alive)
    row = bench._run_apart(("thyroid", "GAN", math.inf, 0, "a"), parsed)
    assert row == {"table": "thyroid", "epsilon": math.inf}


def test_code_is_that_of_the_synthesizer_alone(bench, tmp_path, monkeypatch):
    """Work on one leaves the others valid; so does work on comments and docstrings."""
    package = tmp_path / "skdpsynth"
    for source in (ROOT / "skdpsynth").rglob("*.py"):
        copy = package / source.relative_to(ROOT / "skdpsynth")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(bench.skdpsynth, "__file__", str(package / "__init__.py"))
    names = ("real data", "independent", "G-PATE")

    def states():
        bench.code_of.cache_clear()
        return [bench.code_of(name) for name in names]

    def change(file, line):
        before = states()
        path = package / file
        path.write_text(path.read_text(encoding="utf-8") + line, encoding="utf-8")
        return [a != b for a, b in zip(before, states(), strict=True)]

    start = states()
    assert len(set(start)) == 3
    assert change("base.py", "\n# A comment.\n") == [False, False, False]
    assert change("synthesizers/_gpate.py", "\nx = 1\n") == [False, False, True]
    assert change("nn/_generator.py", "\nx = 1\n") == [False, False, True]
    assert change("privacy/_accountant.py", "\nx = 1\n") == [False, True, True]
    assert change("metrics/_encode.py", "\nx = 1\n") == [True, True, True]
    bench.code_of.cache_clear()


def test_differences_are_paired_by_seed(bench):
    """Seed 7 has no floor; the other two differ by 0.1 and 0.2."""
    from _page import differences

    ours = pd.DataFrame({"AUROC": [0.8, 0.6, 0.1]}, index=[0, 1, 7])
    floor = pd.DataFrame({"AUROC": [0.4, 0.7]}, index=[1, 0])
    [(gap, error)] = differences(ours, floor)
    assert gap == pytest.approx(0.15)
    assert error == pytest.approx(0.05)
    assert differences(ours, floor.iloc[:0]) == []


def test_page_prints_what_is_missed_and_what_was_tried(bench):
    from _page import render

    rows = _rows(
        bench,
        synthesizer=["independent", "independent", "DP-CGAN", "DP-CGAN"],
        seed=[0, 1, 0, 1],
        auroc=[0.93, 0.95, 0.945, 0.945],
        auprc=[0.5, 0.5, 0.5, 0.5],
    )
    page = render(bench.TABLES, rows)
    line = next(line for line in page.splitlines() if line.startswith("| DP-CGAN"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:6] == [
        "1",
        "0.945 ± 0.000",
        "0.95 (0.975)",
        "0.975",
        "+0.005 ± 0.010",
    ]
    assert cells[-1].split("; ") == [
        "AUROC below 0.95",
        "not above the floor by two standard errors",
        "AUROC below the aim 0.975",
    ]
    assert "No note yet." in page
    notes = "# Notes\n\n## thyroid: DP-CGAN\n\nFewer factors.\n\n## adult: GAN\n\nNo.\n"
    page = render(bench.TABLES, rows, notes)
    assert "two standard errors. Fewer factors." in page
    assert "No note yet." not in page


def test_page_says_which_rows_are_of_older_code(bench):
    from _page import render

    rows = _rows(bench, synthesizer=["independent", "DP-CGAN"], seed=[0, 0])
    code = rows["code"].iloc[0]
    assert "changed since" not in render(bench.TABLES, rows, "", {"DP-CGAN": code})
    page = render(bench.TABLES, rows, "", {"independent": code, "DP-CGAN": "other"})
    assert "Code has changed since below these: DP-CGAN." in page


@pytest.mark.parametrize(
    ("mean", "gap", "missed"),
    [(0.96, (0.03, 0.01), 0), (0.94, (0.03, 0.01), 1), (0.98, (-0.02, 0.001), 2)],
)
def test_shortfalls(bench, mean, gap, missed):
    from _page import GOALS, shortfalls

    goal = GOALS["thyroid"]["DP-CGAN"]
    required, aim = shortfalls(["AUROC"], [mean], [gap], goal)
    assert len(required) == missed
    assert len(aim) == (mean < 0.975)


def test_figures_of_single_classifiers_are_read(bench):
    from _page import figures_of

    table = replace(
        bench.TABLES["thyroid"], figures=("LogisticRegression", "MLPClassifier")
    )
    rows = _rows(
        bench,
        synthesizer=["GAN"],
        seed=[0],
        auroc=[0.85],
        by_classifier=["LogisticRegression=0.8/0.3 MLPClassifier=0.9/0.4"],
    )
    assert figures_of(table, rows).to_numpy().tolist() == [[0.8, 0.9]]


def test_goals_are_of_tables_that_are_run(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from _page import _ABOUT, _TITLES, GOALS
    from _tables import TABLES

    assert set(_TITLES) == set(_ABOUT) == set(TABLES)
    for name, goals in GOALS.items():
        assert set(goals) <= set(TABLES[name].synthesizers)
        n_figures = len(TABLES[name].figures)
        for goal in goals.values():
            lengths = map(len, (goal.required, goal.aim, goal.published))
            assert max(lengths) <= n_figures


def test_labels_are_taken_away_by_share(monkeypatch):
    """30 % are kept; 2,000 rows, seven standard deviations are 0.072."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import _tables

    frame = pd.DataFrame({"V1": np.arange(2000.0), "Class": np.int8(0)})
    frame.loc[:99, "Class"] = 1
    source = replace(_tables.KAGGLE_CREDIT, load=lambda path: (frame.copy(), frame))
    monkeypatch.setattr(_tables, "KAGGLE_CREDIT", source)
    train, test = _tables.TABLES["kaggle-30"].load(Path(), 0)
    assert abs(train["Class"].notna().mean() - 0.3) < 0.072
    assert test["Class"].notna().all()
    again, _ = _tables.TABLES["kaggle-30"].load(Path(), 0)
    pd.testing.assert_frame_equal(train, again)
    full, _ = _tables.TABLES["kaggle"].load(Path(), 0)
    pd.testing.assert_frame_equal(full, frame)
