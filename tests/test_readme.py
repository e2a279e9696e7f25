"""The first example of the README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.slow
def test_first_example_runs(tmp_path, monkeypatch, capsys):
    """It saves a file, so it runs in a folder of its own."""
    text = README.read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)

    train, fake = names["train"], names["fake"]
    assert len(fake) == 10_000
    assert list(fake.columns) == list(train.columns)
    assert (fake.dtypes == train.dtypes).all()
    assert 0.98 <= names["synth"].epsilon_ <= 1.0
    assert names["same"].epsilon_ == names["synth"].epsilon_
    assert (tmp_path / "adult.skdp").is_file()
    printed = capsys.readouterr().out
    assert "add or remove one row" in printed
    assert "auroc" in printed
