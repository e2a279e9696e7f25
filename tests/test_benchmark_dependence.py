"""The benchmark of dependence: what is run, what is measured, what is printed."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdpsynth.schema import Continuous

ROOT = Path(__file__).parent.parent


@pytest.fixture
def bench(monkeypatch):
    """Give the command as a module, with small tables in it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import _common
    import dependence

    toy = replace(
        dependence.TABLES["diamonds"],
        load=lambda data: (_toy(0), _toy(1)),
        bounds={name: Continuous(0, 1) for name in ("carat", "x", "price")},
    )
    tables = {"diamonds": toy, "diamonds, no target": replace(toy, target=None)}
    monkeypatch.setattr(dependence, "TABLES", tables)
    # In this process: a new one would not know the toy.
    monkeypatch.setattr(_common, "ProcessPoolExecutor", _InThisProcess)
    return dependence


class _InThisProcess:
    """Stands for a pool; futures that are done."""

    def __init__(self, jobs, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, task, key):
        from concurrent.futures import Future

        future = Future()
        future.set_result(task(key))
        return future


def _toy(seed: int) -> pd.DataFrame:
    """Make rows whose columns all follow from one number, with two labels."""
    rng = np.random.default_rng(seed)
    carat = rng.random(400)
    cut = np.where(carat + rng.normal(0, 0.1, 400) > 0.5, "Ideal", "Fair")
    return pd.DataFrame({"carat": carat, "x": carat, "price": carat, "cut": cut})


def call(bench, monkeypatch, csv, *arguments) -> pd.DataFrame:
    """Run the command on real rows and the floor."""
    command = ["dependence.py", "--csv", str(csv), "--seeds", "1", *arguments]
    command += ["--synthesizers", "real data", "independent"]
    monkeypatch.setattr(sys, "argv", command)
    bench.main()
    return pd.read_csv(csv)


@pytest.mark.slow
def test_real_rows_and_the_floor(bench, monkeypatch, tmp_path, capsys):
    """Real rows cannot be told apart and know all; the floor knows the label alone."""
    csv = tmp_path / "rows.csv"
    rows = call(bench, monkeypatch, csv, "--epsilon", "10")
    assert rows["error"].isna().all()
    assert rows.columns.tolist() == bench.COLUMNS
    rows = rows.sort_values("table")  # in the order in which the runs ended
    real, floor = (rows[rows["synthesizer"] == n] for n in ("real data", "independent"))
    assert len(real) == len(floor) == 2
    assert (floor["epsilon"] == 10).all()
    assert floor["certified_epsilon"].between(9, 10).all()
    assert (real["epsilon"] == math.inf).all()
    for score in ("tv2", "tv3", "c2st"):
        assert (real[score].to_numpy() < floor[score].to_numpy()).all()
    assert real["c2st"].between(0.4, 0.6).all()
    assert real["auroc"].iloc[0] > 0.85
    with_target, without = real.iloc[0], real.iloc[1]
    assert with_target[["spearman", "r2"]].isna().all()
    assert without[["auroc", "auprc"]].isna().all()
    assert without["spearman"] == pytest.approx(1.0)
    assert without["r2"] > 0.95
    assert abs(floor.iloc[1]["spearman"]) < 0.3
    assert floor.iloc[1]["r2"] < 0.1
    assert "diamonds, no target" in capsys.readouterr().out

    # What is there is not done again, and the other part has rows of its own.
    assert len(call(bench, monkeypatch, csv, "--epsilon", "10")) == 4
    again = call(bench, monkeypatch, csv, "--validation", "--tables", "diamonds")
    assert again["part"].tolist() == ["test"] * 4 + ["validation"] * 2


def test_a_failing_run_is_a_row(bench, monkeypatch, tmp_path, capsys):
    monkeypatch.delitem(bench.TABLES, "diamonds, no target")
    broken = replace(bench.TABLES["diamonds"], load=lambda data: 1 / 0)
    monkeypatch.setitem(bench.TABLES, "diamonds", broken)
    rows = call(bench, monkeypatch, tmp_path / "rows.csv")
    assert rows["error"].tolist() == ["ZeroDivisionError: division by zero"] * 2
    assert "failed: ZeroDivisionError" in capsys.readouterr().out


def test_every_synthesizer_of_the_package_is_named(bench):
    import skdpsynth

    exported = {n for n in skdpsynth.__all__ if n.endswith("Synthesizer")}
    assert exported - {"BaseSynthesizer"} == set(bench.synthesizers().values())


def test_the_picture_of_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import measured_picture

    monkeypatch.setattr(measured_picture, "OUTPUT", tmp_path)
    measured_picture.main()
    assert (tmp_path / "measured.png").read_bytes().startswith(b"\x89PNG")
