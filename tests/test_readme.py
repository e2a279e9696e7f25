"""The first example of the README, and that of the start page, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["README.md", pytest.param("docs/index.md", marks=pytest.mark.nightly)]
)
def test_first_example_runs(page, tmp_path, monkeypatch, capsys):
    """It saves a file, so it runs in a folder of its own."""
    text = (ROOT / page).read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, page, "exec"), names)

    train, fake = names["train"], names["fake"]
    assert len(fake) == 10_000
    assert list(fake.columns) == list(train.columns)
    assert (fake.dtypes == train.dtypes).all()
    assert 0.98 <= names["synth"].epsilon_ <= 1.0
    same = type(names["synth"]).load(tmp_path / "adult.skdp")
    assert same.epsilon_ == names["synth"].epsilon_
    printed = capsys.readouterr().out
    assert "add or remove one row" in printed
    assert "auroc" in printed
