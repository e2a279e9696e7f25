"""Fetched tables: where they come from, and that another table is refused."""

import hashlib
import os
from importlib import resources
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from skdpsynth import datasets
from skdpsynth.datasets import (
    fetch_epileptic_seizure,
    fetch_isolet,
    fetch_kaggle_credit,
    load_adult,
    load_cervical_cancer,
    load_thyroid,
)
from skdpsynth.exceptions import (
    DatasetUnavailableError,
    DegradedResultWarning,
    InvalidTableError,
)

# Two of the three are deprecated, and work as before.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_:FutureWarning")
FETCHERS = [fetch_kaggle_credit, fetch_isolet, fetch_epileptic_seizure]
TABLES = datasets._tables


def shared(name: str) -> Path:
    """Find a large table, or skip the test."""
    default = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("SKDPSYNTH_SHARED_DATA", default)) / name
    if not path.exists():
        pytest.skip(f"{name} is not here; name its folder in SKDPSYNTH_SHARED_DATA")
    return path


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Keep the cache of the user out of the tests."""
    monkeypatch.setenv("SKDPSYNTH_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def openml(monkeypatch):
    """Answer for OpenML, which is not asked, and write down the questions."""
    calls, answers = [], []

    def fetch_openml(**ask):
        calls.append(ask)
        if not answers:
            raise URLError("no route to host")
        return {"frame": answers[-1](**ask)}

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)

    def answer(given):
        answers.append(given)
        return calls

    return answer


@pytest.fixture
def small_credit(monkeypatch):
    """Pretend that the credit card table has 12 rows, and make such a table."""
    monkeypatch.setattr(TABLES, "_COUNTS", {0: 9, 1: 3})
    values = np.random.default_rng(0).normal(size=(12, 30))
    table = pd.DataFrame(values, columns=list(TABLES._FEATURES))
    return table.assign(Class=np.array([0, 0, 0, 1] * 3, dtype="int8"))


@pytest.mark.usefixtures("openml")
@pytest.mark.parametrize("fetch", FETCHERS)
def test_without_a_table_the_error_says_how_to_get_it(fetch, tmp_path, home, recwarn):
    """From no network, and from a path; two of the three are deprecated too."""
    call = rf"and call {fetch.__name__}\(path="
    pattern = rf"URLError.*Download it from https://\S+ {call}"
    with pytest.raises(DatasetUnavailableError, match=pattern):
        fetch()
    assert not home.exists()
    with pytest.raises(DatasetUnavailableError, match=r"there is none.*https://"):
        fetch(tmp_path / "absent.parquet")
    future = [w for w in recwarn.list if issubclass(w.category, FutureWarning)]
    said = [str(w.message) for w in future]
    assert len(said) == 2 * (fetch is not fetch_kaggle_credit)
    for text in said:
        assert text.startswith(f"{fetch.__name__}() is deprecated since 0.3")
        assert "fetch_openml(data_id=300)" in text or "https://" in text


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_local_credit_file_is_read_exactly(small_credit, tmp_path, home, kind):
    path = tmp_path / f"creditcard.{kind}"
    if kind == "csv":  # the original quotes the names and the label
        text = small_credit.to_csv(index=False).replace(",0\n", ',"0"\n')
        path.write_text(text.replace(",1\n", ',"1"\n').replace("Class", '"Class"'))
    else:
        small_credit.to_parquet(path)
    pd.testing.assert_frame_equal(fetch_kaggle_credit(path), small_credit)
    assert not home.exists()
    with pytest.raises(DatasetUnavailableError, match="it is a folder"):
        fetch_kaggle_credit(tmp_path)


def test_openml_answer_is_cached_as_parquet(small_credit, openml, home, tmp_path):
    # OpenML gives the label as a category of texts, and the columns in another order.
    answer = small_credit.assign(Class=small_credit["Class"].astype(str))
    answer = answer.astype({"Class": "category"})[["Class", *small_credit.columns[:-1]]]
    calls = openml(lambda **_: answer)
    for _ in range(2):
        pd.testing.assert_frame_equal(fetch_kaggle_credit(), small_credit)
    assert [call["data_id"] for call in calls] == [1597]
    assert [file.name for file in home.iterdir()] == ["kaggle_credit.parquet"]
    fetch_kaggle_credit(data_home=tmp_path / "elsewhere")
    assert len(calls) == 2
    assert (tmp_path / "elsewhere" / "kaggle_credit.parquet").exists()


def test_openml_copy_without_time_comes_with_a_warning(small_credit, openml):
    def answer(target_column, **_):
        if target_column == "Time":
            raise KeyError("Could not find target_column='Time'")
        return small_credit.drop(columns="Time")

    calls = openml(answer)
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
        (lambda t: pd.concat([t, t[:1].assign(Class="?")]), "Expected 12 rows"),
        (lambda t: t.rename(columns={"V7": "V77"}), "1 of them are missing and 1 oth"),
        (lambda t: t.assign(V7=["secret", *t["V7"][1:]]), "complete float64 features"),
    ],
)
def test_another_table_is_refused_wherever_it_comes_from(
    small_credit, openml, tmp_path, home, spoil, message
):
    spoilt = spoil(small_credit)
    path = tmp_path / "spoilt.csv"
    spoilt.to_csv(path, index=False)
    with pytest.raises(InvalidTableError, match=message) as caught:
        fetch_kaggle_credit(path)
    assert "secret" not in str(caught.value)
    openml(lambda **_: spoilt)
    with pytest.raises(DatasetUnavailableError, match=rf"{message}.*Download it from"):
        fetch_kaggle_credit()
    assert not home.exists()
    home.mkdir()
    pd.read_csv(path).to_parquet(home / "kaggle_credit.parquet")
    with pytest.raises(InvalidTableError, match=r"delete it to fetch it again"):
        fetch_kaggle_credit()


@pytest.mark.parametrize(
    ("fetch", "name", "shape", "column", "mean"),
    [
        (fetch_kaggle_credit, "creditcard", (284_807, 31), "Amount", 88.349619),
        (fetch_epileptic_seizure, "epileptic_seizure", (11_500, 179), "X1", -11.581391),
        (fetch_isolet, "isolet", (7797, 618), "f1", None),
    ],
)
def test_tables_of_the_papers(fetch, name, shape, column, mean):
    path = shared(f"{name}.parquet")
    table = fetch(path)
    assert table.shape == shape
    if fetch is fetch_isolet:
        parts = fetch_isolet(path, split=True)
        assert [*map(len, parts)] == [6238, 1559]
        assert table["letter"].isin(list("AEIOU")).sum() == 1500
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), table)
    else:
        assert table[column].mean() == pytest.approx(mean, abs=1e-6)
        assert table.dtypes.iloc[-1] == "int8"


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
    ("load", "sizes", "n_columns", "n_missing", "name", "counts"),
    [
        (load_adult, [32_561, 16_281], 15, 6465, "income", [37155, 11687]),
        (load_thyroid, [3772, 3428], 22, 0, "class", [6666, 368, 166]),
        (load_cervical_cancer, [858], 36, 3622, "Biopsy", [803, 55]),
    ],
)
def test_tables_have_the_published_counts(
    load, sizes, n_columns, n_missing, name, counts
):
    """In every call, whatever was done to the table of the last one; and in parts."""
    first = load()
    first[name] = 7
    table = load()
    assert table.shape == (sum(sizes), n_columns)
    assert table.isna().sum().sum() == n_missing
    assert table.columns[-1] == name
    assert table[name].value_counts().tolist() == counts
    if len(sizes) > 1:
        parts = load(split=True)
        assert [len(part) for part in parts] == sizes
        assert all(part.index.equals(pd.RangeIndex(len(part))) for part in parts)
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), table)
