"""Tables written batch by batch: the file is that of the whole table, or none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from skdpsynth.utils.containers import write_batches


def table(n_rows: int = 300) -> pd.DataFrame:
    numbers = np.arange(n_rows)
    return pd.DataFrame(
        {
            "number": numbers / 7,
            "whole": pd.array(np.where(numbers % 3, numbers, None), dtype="Int64"),
            "text": np.where(numbers % 2, "a", "\u00e4,\n"),
            "late": pd.Series([None] * 150 + ["x"] * (n_rows - 150), dtype=object),
            "few": pd.Categorical(np.where(numbers % 2, "p", "q"), ordered=True),
            "time": pd.date_range("2020", periods=n_rows, tz="Europe/Berlin"),
        }
    )


def batches(whole: pd.DataFrame, size: int = 140):
    for start in range(0, len(whole), size):
        part = whole.iloc[start : start + size].reset_index(drop=True)
        # As of identifiers: every batch has categories of its own, and many or few.
        name = start + part.index
        yield part.assign(id=pd.Categorical(name.astype(str)))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_batches_are_one_table(name, tmp_path):
    path, whole = tmp_path / name, table()
    path.write_text("an older file")
    write_batches(path, batches(whole))
    assert [own.name for own in tmp_path.iterdir()] == [name]
    if name == "t.csv":
        whole["id"] = [str(number) for number in range(300)]
        assert path.read_bytes() == whole.to_csv(index=False).encode()
        return
    assert parquet.ParquetFile(path).num_row_groups == 3
    read = pd.read_parquet(path)
    assert read.pop("id").tolist() == [str(number) for number in range(300)]
    pd.testing.assert_frame_equal(read.drop(columns="late"), whole.drop(columns="late"))
    assert read["late"].isna().sum() == 150
    assert read["few"].cat.ordered


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("before", [None, "an older file"])
def test_an_error_on_the_way_leaves_what_was_there(name, before, tmp_path):
    def broken():
        yield table(200)
        raise ValueError("no more")

    path = tmp_path / name
    if before is not None:
        path.write_text(before)
    with pytest.raises(ValueError, match="no more"):
        write_batches(path, broken())
    assert [own.read_text() for own in tmp_path.iterdir()] == [before] * bool(before)
