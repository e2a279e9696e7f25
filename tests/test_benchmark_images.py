"""The benchmark of images: its files, its network, its picture and its summary."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def images(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import images

    yield images
    for name in ("images", "_common", "_tables"):
        sys.modules.pop(name, None)


def bars(images, n_rows, seed=0):
    """Images of a class are a bright row that the label names, and noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 10
    pixels = rng.integers(0, 60, (n_rows, 28, 28))
    pixels[np.arange(n_rows), 2 * labels + 4] = 255
    table = pd.DataFrame(pixels.reshape(n_rows, 784), columns=images.PIXELS)
    return table.assign(label=labels.astype("int8"))


def test_files_are_read_row_by_row(images, tmp_path):
    table = bars(images, 12)
    for part in ("train", "t10k"):
        for kind, header, values in (
            ("images-idx3", 16, table[images.PIXELS].to_numpy()),
            ("labels-idx1", 8, table["label"].to_numpy()),
        ):
            with gzip.open(tmp_path / f"{part}-{kind}-ubyte.gz", "wb") as file:
                file.write(bytes(header) + values.astype(np.uint8).tobytes())
    for found in images.load(tmp_path):
        pd.testing.assert_frame_equal(found, table, check_dtype=False)


def test_a_missing_file_is_named_with_the_remedy(images, tmp_path):
    with pytest.raises(FileNotFoundError, match="--data"):
        images.load(tmp_path)


def test_the_network_learns_classes_and_nothing_from_labels_by_chance(images):
    """By chance 100 of 1,000 are right, 9.5 off: 0.2 is 10 of these deviations."""
    train, test = bars(images, 1000), bars(images, 1000, seed=1)
    assert images.accuracy(train, test, 0) > 0.95
    labels = np.random.default_rng(2).permutation(train["label"])
    assert images.accuracy(train.assign(label=labels), test, 0) < 0.2


def test_the_picture_has_a_line_for_each_class(images, tmp_path):
    from matplotlib import image

    images.draw(bars(images, 200), tmp_path / "deeper" / "bars.png")
    seen = image.imread(tmp_path / "deeper" / "bars.png")[..., 0]
    assert seen.shape == (280, 28 * images.SHOWN)
    for label in range(10):
        assert (seen[28 * label + 2 * label + 4] == 1.0).all()


def test_the_summary_has_the_papers_figure_beside_ours(images, capsys):
    row = dict.fromkeys(images.COLUMNS, np.nan) | {"code": "x", "synthesizer": "G-PATE"}
    rows = pd.DataFrame(
        [
            row | {"table": "mnist", "epsilon": 1.0, "seed": seed, "accuracy": 0.8}
            for seed in range(2)
        ]
    ).assign(fit_s=3.0, peak_gb=1.0)
    images.print_summary(rows)
    line = capsys.readouterr().out.splitlines()[1].split()
    assert line[:4] == ["mnist", "1", "G-PATE", "2"]
    assert "0.588" in line
