"""The benchmark of speed: its measurements, its exponents and its page."""

from __future__ import annotations

import math
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


def test_exponents_leave_out_the_constant_cost(speed):
    sizes = [10**power for power in range(2, 7)]
    seconds = [1.0 + 1e-4 * size for size in sizes]
    assert speed.exponent(sizes, seconds) == pytest.approx(1.0, abs=0.05)
    assert speed.exponent(sizes, [(s / 100) ** 2 for s in sizes]) == pytest.approx(2)
    assert math.isnan(speed.exponent(sizes, [1.0] * 5))


def test_a_run_is_measured_and_written(speed, monkeypatch, tmp_path, capsys):
    def some(short):
        for what in ("fit", "sample", "products"):
            for rows in (300, 600) if what == "fit" else (600,):
                case = ("rows", what, "independent", "mixed", rows, 4)
                yield speed.Case(*case, grows="rows")
        yield speed.Case("rows", "plan", "independent", "mixed", 300, 4)
        yield speed.Case("rows", "save", "independent", "mixed", 300, 4, {"later": 1})

    monkeypatch.setattr(speed, "PARTS", {"some": some})
    monkeypatch.setattr(speed, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["speed.py", "--short", "--name", "s"])
    speed.main()
    runs = speed.pd.read_csv(tmp_path / "s.csv")
    assert runs["status"].tolist() == ["ok"] * 5 + ["not there"]
    timed = runs[runs["wall_s"].notna()]
    assert len(timed) == 4
    assert (timed[["wall_s", "cpu_s"]] >= 0).all(axis=None)
    assert np.isfinite(timed["peak_gb"]).all() == Path("/proc/self/status").exists()
    text = (tmp_path / "s.md").read_text()
    assert "| rows | fit | independent | mixed | 600 rows, 4 columns |" in text
    assert (
        "| rows | save | independent | mixed | 300 rows, 4 columns, later=1 | - |"
        in text
    )
    assert text in capsys.readouterr().out
