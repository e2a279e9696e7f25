"""The benchmark of speed: its measurements, its exponents and its page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def speed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import speed

    yield speed
    for name in ("speed", "_common", "dependence", "_page", "_tables"):
        sys.modules.pop(name, None)


def test_exponents_are_those_of_the_largest_sizes(speed):
    sizes = [10**power for power in range(2, 7)]
    seconds = [1.0 + 1e-4 * size for size in sizes]
    assert speed.exponent(sizes, seconds) == pytest.approx(1.0, abs=0.05)
    assert speed.exponent(sizes, [(s / 100) ** 2 for s in sizes]) == pytest.approx(2)
    assert speed.exponent(sizes, [1.0] * 5) == 0.0


@pytest.mark.nightly
def test_a_run_is_measured_and_written(speed, monkeypatch, tmp_path, capsys):
    def some(short):
        del short
        for what in ("fit", "products"):
            case = ("rows", what, "independent", "mixed", 300, 4)
            yield speed.Case(*case, grows="rows")
        yield speed.Case("rows", "save", "independent", "mixed", 300, 4, {"later": 1})

    monkeypatch.setattr(speed, "PARTS", {"rows": some})
    monkeypatch.setattr(speed, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["speed.py", "--short", "--name", "s"])
    speed.main()
    runs = speed.pd.read_csv(tmp_path / "s.csv")
    assert runs["status"].tolist() == ["ok", "ok", "not there"]
    timed = runs[runs["wall_s"].notna()]
    assert len(timed) == 1
    assert (timed[["wall_s", "cpu_s"]] >= 0).all(axis=None)
    assert np.isfinite(timed["peak_gb"]).all() == Path("/proc/self/status").exists()
    text = (tmp_path / "s.md").read_text()
    assert "| rows | fit | independent | mixed | 300 rows, 4 columns |" in text
    assert (
        "| rows | save | independent | mixed | 300 rows, 4 columns, later=1 | - |"
        in text
    )
    assert text in capsys.readouterr().out


def test_runs_of_other_parts_stay_and_those_measured_again_do_not(
    speed, monkeypatch, tmp_path, capsys
):
    def of(part, *sizes):
        own = ("fit", "pairs", "mixed")
        return lambda _: (speed.Case(part, *own, n, 4, grows="rows") for n in sizes)

    found = {"status": "ok", "cpu_s": 1.0, "peak_gb": 1.0, "threads": 1}
    monkeypatch.setattr(speed, "PARTS", {k: of(k, 10, 40, 160) for k in "ab"})
    monkeypatch.setattr(speed, "RESULTS", tmp_path)
    runs_of = {}
    for part, slope in (("a", 1), ("b", 2), ("a", 3)):

        def run(case, *_, slope=slope):
            return found | {"wall_s": case.rows**slope}

        monkeypatch.setattr(speed, "run", run)
        monkeypatch.setattr(sys, "argv", ["speed.py", "--parts", part, "--name", "s"])
        speed.main()
        runs_of[part] = speed.pd.read_csv(tmp_path / "s.csv")
    seconds = [n**slope for slope in (2, 3) for n in (10, 40, 160)]
    assert runs_of["a"]["wall_s"].tolist() == seconds
    text = (tmp_path / "s.md").read_text()
    assert "| a, fit, pairs, mixed, columns 4 | rows | 3.00 |" in text
    assert "| b, fit, pairs, mixed, columns 4 | rows | 2.00 |" in text
    assert text in capsys.readouterr().out
