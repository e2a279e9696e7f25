"""The benchmark of training: its settings, its runs, and the tables that it writes."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pandas as pd
import pytest

import skdpsynth

ROOT = Path(__file__).parents[1]


@pytest.fixture
def training(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import training

    yield training
    for name in ("training", "dependence", "_common", "_tables"):
        sys.modules.pop(name, None)


def test_every_setting_is_one_that_its_class_takes(training):
    for part, settings in training.SETTINGS.items():
        for kind, given in settings.values():
            epsilon = math.inf if part == "networks" else 10.0
            made = getattr(skdpsynth, f"{kind}Synthesizer")(epsilon=epsilon, **given)
            made._check_parameters()


def test_a_start_is_beside_every_trained_run(training):
    keys = training.wanted(["shares"], list(training.SHARED), 2)
    assert len(keys) == len(set(keys))
    starts = {(t, e, s) for t, name, e, s in keys if name == "start"}
    assert starts == {(t, e, s) for t, _, e, s in keys}
    assert {e for t, _, e, _ in keys if t == "adult"} == set(training.EPSILONS)


@pytest.mark.nightly
def test_a_run_scores_a_part_that_no_fit_saw(training, monkeypatch, tmp_path):
    """The rows of the start are fitted to the train part of the train part."""
    seen = {}

    def load(name, data):
        table, train, validation, schema = original(name, data)
        seen["train"], seen["validation"] = train, validation
        return table, train[:2000], validation[:1000], schema

    original = training.load
    monkeypatch.setattr(training, "load", load)
    row = training.run(("adult", "start", 10.0, 0), data=tmp_path)
    assert row.get("error") is None
    assert row["trained"] == 0
    assert 0.5 < row["auroc"] < 1
    # 80 % and 20 % of the publisher's train part of 32,561 rows.
    assert (len(seen["train"]), len(seen["validation"])) == (26_048, 6_513)


def test_tables_go_between_their_marks_and_nothing_else_changes(training, tmp_path):
    page = tmp_path / "page.md"
    text = "".join(
        f"before {part}\n<!-- {part} -->\nold\n<!-- end of {part} -->\n"
        for part in training.SETTINGS
    )
    page.write_text(text + "after")
    scores = dict.fromkeys(training.SCORES, 0.5)
    rows = pd.DataFrame(
        [
            {"table": "adult", "setting": "G-PATE", "epsilon": 1.0, "seed": s}
            | scores
            | {"trained": 2, "fit_s": 3.0 + s, "error": None}
            for s in (0, 1)
        ]
    )
    training.write(page, rows)
    written = page.read_text()
    assert "old" not in written
    assert written.endswith("<!-- end of votes -->\nafter")
    assert "| adult | 1 | G-PATE | 2 | 0.500 ± 0.000 |" in written
    training.write(page, rows)
    assert page.read_text() == written


def test_the_page_has_all_marks(training):
    page = training.PAGE.read_text(encoding="utf-8")
    for part in training.SETTINGS:
        assert page.count(f"<!-- {part} -->") == page.count(f"<!-- end of {part} -->")
        assert f"<!-- {part} -->\n" in page
