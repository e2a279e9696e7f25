"""Fetched tables: where they come from, and that another table is refused."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from skdpsynth.datasets import (
    _tables,
    fetch_epileptic_seizure,
    fetch_isolet,
    fetch_kaggle_credit,
)
from skdpsynth.exceptions import (
    DatasetUnavailableError,
    DegradedResultWarning,
    InvalidTableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Two of the three are deprecated, and work as before.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_:FutureWarning")
FETCHERS = [fetch_kaggle_credit, fetch_isolet, fetch_epileptic_seizure]


def shared(name: str) -> Path:
    """Find a large table, or skip the test."""
    default = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("SKDPSYNTH_SHARED_DATA", default)) / name
    if not path.exists():
        pytest.skip(f"{name} is not here; name its folder in SKDPSYNTH_SHARED_DATA")
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the cache of the user out of the tests."""
    monkeypatch.setenv("SKDPSYNTH_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the network off."""

    def fail(**_: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)


@pytest.fixture
def small_credit(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Pretend that the credit card table has 12 rows, and make such a table."""
    spec = dataclasses.replace(_tables._CREDIT, counts={0: 9, 1: 3})
    monkeypatch.setattr(_tables, "_CREDIT", spec)
    values = np.random.default_rng(0).normal(size=(12, 30))
    table = pd.DataFrame(values, columns=list(spec.features))
    return table.assign(Class=np.array([0, 0, 0, 1] * 3, dtype="int8"))


def openml(monkeypatch: pytest.MonkeyPatch, answer: Callable) -> list[dict]:
    """Answer for OpenML and write down what it was asked."""
    calls: list[dict] = []

    def fetch_openml(**ask: object) -> dict:
        calls.append(ask)
        return {"frame": answer(**ask)}

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    return calls


@pytest.mark.parametrize("fetch", FETCHERS)
def test_two_of_three_are_deprecated_with_a_remedy(fetch, tmp_path, recwarn):
    with pytest.raises(DatasetUnavailableError):
        fetch(tmp_path / "absent.parquet")
    said = [str(w.message) for w in recwarn.list if w.category is FutureWarning]
    assert len(said) == (fetch is not fetch_kaggle_credit)
    for text in said:
        assert text.startswith(f"{fetch.__name__}() is deprecated since 0.3")
        assert "fetch_openml(data_id=300)" in text or "https://" in text


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("fetch", FETCHERS)
def test_without_network_the_error_says_how_to_get_the_table(fetch, home):
    call = rf"and call {fetch.__name__}\(path="
    pattern = rf"URLError.*Download it from https://\S+ {call}"
    with pytest.raises(DatasetUnavailableError, match=pattern):
        fetch()
    assert not home.exists()


@pytest.mark.parametrize("fetch", FETCHERS)
def test_absent_path_is_an_error_with_the_page(fetch, tmp_path):
    with pytest.raises(DatasetUnavailableError, match=r"there is none.*https://"):
        fetch(tmp_path / "absent.parquet")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.usefixtures("offline")
def test_local_credit_file_is_read_exactly(small_credit, tmp_path, home, kind):
    path = tmp_path / f"creditcard.{kind}"
    if kind == "csv":  # the original quotes the names and the label
        text = small_credit.to_csv(index=False).replace(",0\n", ',"0"\n')
        path.write_text(text.replace(",1\n", ',"1"\n').replace("Class", '"Class"'))
    else:
        small_credit.to_parquet(path)
    pd.testing.assert_frame_equal(fetch_kaggle_credit(path), small_credit)
    assert not home.exists()


def test_openml_answer_is_cached_as_parquet(small_credit, monkeypatch, home, tmp_path):
    # OpenML gives the label as a category of texts, and the columns in another order.
    answer = small_credit.assign(Class=small_credit["Class"].astype(str))
    answer = answer.astype({"Class": "category"})[["Class", *small_credit.columns[:-1]]]
    calls = openml(monkeypatch, lambda **_: answer)
    for _ in range(2):
        pd.testing.assert_frame_equal(fetch_kaggle_credit(), small_credit)
    assert len(calls) == 1
    assert calls[0]["data_id"] == 1597
    assert [file.name for file in home.iterdir()] == ["kaggle_credit.parquet"]
    fetch_kaggle_credit(data_home=tmp_path / "elsewhere")
    assert len(calls) == 2
    assert (tmp_path / "elsewhere" / "kaggle_credit.parquet").exists()


def test_openml_copy_without_time_comes_with_a_warning(small_credit, monkeypatch):
    def answer(target_column: str, **_: object) -> pd.DataFrame:
        if target_column == "Time":
            raise KeyError("Could not find target_column='Time'")
        return small_credit.drop(columns="Time")

    calls = openml(monkeypatch, answer)
    for _ in range(2):  # from OpenML, then from the cache
        with pytest.warns(DegradedResultWarning, match="no column 'Time'") as caught:
            table = fetch_kaggle_credit()
        assert caught[0].filename == __file__
        pd.testing.assert_frame_equal(table, small_credit.drop(columns="Time"))
    assert [call["target_column"] for call in calls] == ["Time", "default-target"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.iloc[1:], "Expected 12 rows"),
        (lambda t: t.assign(Class=1 - t["Class"]), "count of each label"),
        (lambda t: t.replace({"Class": {1: 7}}), "Expected the 2 published labels"),
        (lambda t: t.rename(columns={"V7": "V77"}), "1 of them are missing and 1 oth"),
        (lambda t: t.assign(V7=["secret", *t["V7"][1:]]), "complete float64 features"),
        (lambda t: t.assign(V7=[np.nan, *t["V7"][1:]]), "complete float64 features"),
    ],
)
def test_another_table_is_refused_wherever_it_comes_from(
    small_credit, monkeypatch, tmp_path, home, spoil, message
):
    spoilt = spoil(small_credit)
    path = tmp_path / "spoilt.csv"
    spoilt.to_csv(path, index=False)
    with pytest.raises(InvalidTableError, match=message) as caught:
        fetch_kaggle_credit(path)
    assert "secret" not in str(caught.value)
    openml(monkeypatch, lambda **_: spoilt)
    with pytest.raises(DatasetUnavailableError, match=rf"{message}.*Download it from"):
        fetch_kaggle_credit()
    assert not home.exists()
    home.mkdir()
    spoilt.to_csv(path, index=False)
    pd.read_csv(path).to_parquet(home / "kaggle_credit.parquet")
    with pytest.raises(InvalidTableError, match=r"delete it to fetch it again"):
        fetch_kaggle_credit()


def test_credit_of_the_papers():
    table = fetch_kaggle_credit(shared("creditcard.parquet"))
    assert table.shape == (284_807, 31)
    assert table["Class"].sum() == 492
    assert table["Amount"].sum() == pytest.approx(25_162_590.01)
    assert table.columns[-1] == "Class"


def test_epileptic_seizure_of_the_papers(tmp_path):
    path = shared("epileptic_seizure.parquet")
    table = fetch_epileptic_seizure(path)
    assert table.shape == (11_500, 179)
    assert (table.columns[-1], str(table["y"].dtype)) == ("y", "int8")
    assert table["X1"].mean() == pytest.approx(-11.581391, abs=1e-6)
    assert table["X1"].std() == pytest.approx(165.626284, abs=1e-6)
    # The original CSV has the names of the recordings in a first column.
    original = tmp_path / "Epileptic Seizure Recognition.csv"
    table.rename(index=lambda row: f"X{row}.V1.7").to_csv(original, index_label="")
    pd.testing.assert_frame_equal(fetch_epileptic_seizure(original), table)


@pytest.fixture(scope="module")
def isolet() -> pd.DataFrame:
    return pd.read_parquet(shared("isolet.parquet"))


def test_isolet_of_the_papers():
    path = shared("isolet.parquet")
    whole, (train, test) = fetch_isolet(path), fetch_isolet(path, split=True)
    assert (whole.shape, len(train), len(test)) == ((7797, 618), 6238, 1559)
    assert list(whole.columns[:-1]) == [f"f{i}" for i in range(1, 618)]
    assert whole["letter"].isin(list("AEIOU")).sum() == 1500
    pd.testing.assert_frame_equal(pd.concat([train, test], ignore_index=True), whole)


def test_isolet_letters_and_parts_are_found_in_openml_form(isolet, monkeypatch, home):
    features = isolet.drop(columns=["letter", "split", "speaker_group"])
    codes = isolet["letter"].map({c: str(i + 1) for i, c in enumerate(ascii_uppercase)})
    answer = features.assign(**{"class": codes.astype("category")})
    openml(monkeypatch, lambda **_: answer)
    train, test = fetch_isolet(split=True)
    assert (isolet["split"] == "train").sum() == len(train) == 6238
    assert test["letter"].tolist() == isolet["letter"][6238:].tolist()
    (home / "isolet.parquet").unlink()
    openml(monkeypatch, lambda **_: answer.iloc[::-1])
    assert fetch_isolet().shape == (7797, 618)
    with pytest.raises(DatasetUnavailableError, match="another order"):
        fetch_isolet(split=True)


def test_isolet_folder_of_the_publisher(monkeypatch, tmp_path):
    """One row for each letter and part, so that the two text files are small."""
    monkeypatch.setattr(
        _tables,
        "_ISOLET",
        dataclasses.replace(_tables._ISOLET, counts=dict.fromkeys(ascii_uppercase, 2)),
    )
    values = np.random.default_rng(0).integers(-9999, 9999, (52, 617)) / 10_000
    for part, name in enumerate(_tables._ISOLET_PARTS):
        lines = [
            ", ".join([*map(repr, map(float, values[26 * part + i])), f"{i + 1}."])
            for i in range(26)
        ]
        if part:
            with pytest.raises(DatasetUnavailableError, match="is not there"):
                fetch_isolet(tmp_path)
        (tmp_path / name).write_text("\n".join(lines))
    table = fetch_isolet(tmp_path)
    np.testing.assert_array_equal(table.iloc[:, :-1], values)
    assert "".join(table["letter"]) == ascii_uppercase * 2


def test_folder_is_refused_where_the_table_is_one_file(tmp_path):
    with pytest.raises(DatasetUnavailableError, match="it is a folder"):
        fetch_kaggle_credit(tmp_path)


def test_default_cache_is_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SKDPSYNTH_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # on Windows
    folder = tmp_path / "skdpsynth_data"
    folder.mkdir()
    pd.DataFrame({"other": [1]}).to_parquet(folder / "kaggle_credit.parquet")
    with pytest.raises(InvalidTableError, match="cached file"):
        fetch_kaggle_credit()
