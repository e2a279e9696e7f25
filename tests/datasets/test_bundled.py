"""The tables in the package are the published ones."""

import hashlib
from importlib import resources

import pandas as pd
import pytest

from skdpsynth.datasets import load_adult, load_cervical_cancer, load_thyroid

DATA = resources.files("skdpsynth.datasets").joinpath("data")
DIGESTS = {
    "adult": "0a34018c71fcf875d6f53b5f3c2aecde5ac1879e771bf21b72ba2ba25baf1081",
    "ann_thyroid": "bedd7a9b0a40f93259de535ef85ca379a864f74332f3a250fb2b700be08eb309",
    "cervical_cancer": (
        "4b3d04f4096391ab0c0d8b4d50375fc362fa3964f7a251a40aff31c92e771969"
    ),
}
FILES = {"README.md", *(f"{name}.parquet" for name in DIGESTS)}
README = DATA.joinpath("README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DIGESTS)
def test_file_is_unchanged_and_its_licence_is_stated(name):
    assert {file.name for file in DATA.iterdir()} == FILES
    content = DATA.joinpath(f"{name}.parquet").read_bytes()
    assert hashlib.sha256(content).hexdigest() == DIGESTS[name]
    (row,) = [line for line in README.splitlines() if f"{name}.parquet` |" in line][:1]
    assert "CC BY 4.0" in row
    assert "UCI Machine Learning Repository" in row
    assert DIGESTS[name] in README


@pytest.mark.parametrize(
    ("load", "shape", "n_missing", "labels"),
    [
        (load_adult, (48_842, 15), 6465, ("income", {"<=50K": 37155, ">50K": 11687})),
        (load_thyroid, (7200, 22), 0, ("class", {1: 166, 2: 368, 3: 6666})),
        (load_cervical_cancer, (858, 36), 3622, ("Biopsy", {0: 803, 1: 55})),
    ],
)
def test_tables_have_the_published_counts(load, shape, n_missing, labels):
    """In every call, whatever was done to the table of the last one."""
    first, (name, counts) = load(), labels
    first[name] = 7
    table = load()
    assert table.shape == shape
    assert table.isna().sum().sum() == n_missing
    assert table.columns[-1] == name
    assert table[name].value_counts().to_dict() == counts


@pytest.mark.parametrize(
    ("load", "sizes"), [(load_adult, [32_561, 16_281]), (load_thyroid, [3772, 3428])]
)
def test_parts_make_up_the_whole(load, sizes):
    parts = load(split=True)
    assert [len(part) for part in parts] == sizes
    assert all(part.index.equals(pd.RangeIndex(len(part))) for part in parts)
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), load())
