"""The tables in the package are the published ones."""

from __future__ import annotations

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
README = DATA.joinpath("README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DIGESTS)
def test_file_is_unchanged_and_its_licence_is_stated(name):
    content = DATA.joinpath(f"{name}.parquet").read_bytes()
    assert hashlib.sha256(content).hexdigest() == DIGESTS[name]
    (row,) = [line for line in README.splitlines() if f"{name}.parquet` |" in line][:1]
    assert "CC BY 4.0" in row
    assert "UCI Machine Learning Repository" in row
    assert DIGESTS[name] in README


def test_every_data_file_is_in_the_readme():
    names = {file.name for file in DATA.iterdir()} - {"README.md"}
    assert names == {f"{name}.parquet" for name in DIGESTS}


def test_adult_has_the_published_counts():
    table = load_adult()
    assert table.shape == (48_842, 15)
    assert table.columns[-1] == "income"
    missing = table.isna().sum()
    expected = {"workclass": 2799, "occupation": 2809, "native-country": 857}
    assert missing[missing > 0].to_dict() == expected
    parts = load_adult(split=True)
    assert [len(part) for part in parts] == [32_561, 16_281]
    assert [(part["income"] == ">50K").sum() for part in parts] == [7841, 3846]


def test_thyroid_has_the_published_counts():
    table = load_thyroid()
    assert table.shape == (7200, 22)
    assert table.columns[-1] == "class"
    assert table.notna().all(axis=None)
    train, test = load_thyroid(split=True)
    assert train["class"].value_counts().to_dict() == {1: 93, 2: 191, 3: 3488}
    assert test["class"].value_counts().to_dict() == {1: 73, 2: 177, 3: 3178}


def test_cervical_cancer_has_the_published_counts():
    table = load_cervical_cancer()
    assert table.shape == (858, 36)
    assert table.columns[-1] == "Biopsy"
    assert table["Biopsy"].value_counts().to_dict() == {0: 803, 1: 55}
    assert table.isna().sum().sum() == 3622


@pytest.mark.parametrize("load", [load_adult, load_thyroid])
def test_parts_make_up_the_whole(load):
    parts = load(split=True)
    assert all(part.index.equals(pd.RangeIndex(len(part))) for part in parts)
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), load())


def test_each_call_gives_a_new_table():
    first = load_cervical_cancer()
    first["Biopsy"] = 7
    assert load_cervical_cancer()["Biopsy"].isin([0, 1]).all()
