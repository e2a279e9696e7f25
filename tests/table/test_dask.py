"""Rows on a Dask cluster: the table in memory, whatever becomes of the workers."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _counting import kill_once, length_of_part
from tables import small_table

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy.statistics import exact_counts  # no noise on top
from skdpsynth.schema import NOTHING_STATED
from skdpsynth.table import _dask, _sources, total_keys  # steps of a cluster alone
from skdpsynth.table._dask import DaskParts  # to lose a part of one
from skdpsynth.table._sources import lay_out  # what parts are checked by

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

CODES = np.random.default_rng(0).integers(0, 5, (90, 2))


def frame(n_rows=3000):
    table = small_table(n_rows).drop(columns="b")
    return table.assign(y=(table["a"] > 0.3).astype(int), n=np.arange(n_rows) % 7)


@pytest.fixture(autouse=True)
def in_this_thread(request):
    """Compute in this thread, but for tests of a cluster."""
    here = {} if "cluster" in request.fixturenames else {"scheduler": "synchronous"}
    with dask.config.set(here):
        yield


def parts_of(arrays):
    return DaskParts([dask.delayed(each) for each in arrays], (), {})


@pytest.fixture(scope="module")
def cluster():
    """A worker, which is a process that is started again when it dies."""
    failures = {"distributed.scheduler.allowed-failures": 30}
    one = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set(failures | {"distributed.worker.daemon": True}),
        distributed.LocalCluster(**one) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.mark.parametrize("n_parts", [1, 2, 9, 50])
def test_counts_are_added_up_in_groups(n_parts):
    """Of a fan of eight: one level, two and three."""
    parts = parts_of(np.array_split(CODES, n_parts))
    found = exact_counts(parts, [5, 5])
    for own, whole in zip(found, exact_counts(CODES, [5, 5]), strict=True):
        assert own.tolist() == whole.tolist()
    assert sum(parts.n_rows.values()) == 90
    kept = parts.map(np.negative).kept()
    assert (np.concatenate([*kept.each()]) == -CODES).all()


@pytest.mark.parametrize(
    "twin",
    [lambda counts: _real(counts[1:]), lambda counts: _real([*counts, counts[0]])],
    ids=["lost", "twice"],
)
def test_a_task_that_is_lost_or_added_twice_is_noticed(twin, monkeypatch):
    """The broken twins of the sum over the cluster."""
    monkeypatch.setattr(_dask, "_add_up", twin)
    parts = parts_of(np.array_split(CODES, 5))
    with pytest.raises(InvalidTableError, match="missing, came twice"):
        exact_counts(parts, [5, 5])


_real = _dask._add_up


@pytest.mark.parametrize("kept", [False, True])
def test_a_partition_that_comes_back_with_other_rows_is_noticed(kept):
    """Where it is counted, and where it is kept."""
    sizes = chain([30, 30, 30], [30, 29, 30])
    again = [dask.delayed(lambda: CODES[: next(sizes)])() for _ in range(3)]
    parts = DaskParts(again, (), {})
    exact_counts(parts, [5, 5])
    with pytest.raises(InvalidTableError, match="has other rows"):
        parts.kept() if kept else exact_counts(parts, [5, 5])


def test_a_kept_part_that_is_made_again_must_be_the_same():
    """The same number of rows, in another order: teachers would be other ones."""
    kept = parts_of([CODES[:40], CODES[40:]]).kept()
    exact_counts(kept, [5, 5])
    again = parts_of([CODES[:40], CODES[:39:-1]]).kept()
    kept._parts[1] = again._parts[1]
    with pytest.raises(InvalidTableError, match="has other rows"):
        exact_counts(kept, [5, 5])


def test_the_partitions_of_few_columns_are_those_of_all(tmp_path):
    """Dask may join partitions that it reads little of; the draws would be others."""
    table = frame()
    for number in range(20):
        part = table[number * 150 : number * 150 + 150]
        part.to_parquet(tmp_path / f"{number:02}.parquet")
    _, parts = DaskParts.opened(dd.read_parquet(tmp_path, filesystem="arrow"))
    sizes = parts.total(length_of_part, numbered=True)
    narrow = parts.only(["y"])
    assert [[*part.columns] for part in narrow.each()] == [["y"]] * len(sizes)
    assert narrow.total(length_of_part, numbered=True) == sizes
    assert len(sizes) == 20


@pytest.mark.parametrize(
    "rearranged",
    [
        lambda table: table.repartition(partition_size="4kB"),
        lambda table: table.sort_values("a"),
        lambda table: table.rename(columns={"a": True, "y": False}),
    ],
)
def test_partitions_that_depend_on_the_columns_are_read_whole(rearranged):
    """Few columns would be fewer partitions, other rows in them, or a mask."""
    table = rearranged(dd.from_pandas(frame(), npartitions=7))
    _, parts = DaskParts.opened(table)
    sizes = parts.total(length_of_part, numbered=True)
    narrow = parts.only([table.columns[0]])
    assert narrow.total(length_of_part, numbered=True) == sizes


def test_keys_that_were_added_twice_are_noticed(monkeypatch):
    """A rerun that adds to what it was given already: rows do not add up."""
    real = _dask._add_up

    def in_place(counts):
        counts[0].value[0].update(counts[1].value[0])
        return real(counts)

    monkeypatch.setattr(_dask, "_add_up", in_place)
    table = pd.DataFrame({"s": ["u", "v"] * 20})
    with pytest.raises(InvalidTableError, match="came twice"):
        total_keys(parts_of([table[:10], table[10:]]), ["s"])


def test_categories_of_other_types_are_refused():
    """One row must not name the category of others: 1.0 is 1."""
    numbers = pd.DataFrame({"c": pd.Series([1, 2] * 20).astype("category")})
    numbers["n"] = 1.5
    odd = numbers[:1].assign(c=pd.Series([1.0]).astype("category"))
    parts, layout = parts_of([odd, numbers]), lay_out(numbers[:0], None, NOTHING_STATED)
    with pytest.raises(InvalidTableError, match="categories of a category dtype"):
        parts.total(_sources._checked, layout, NOTHING_STATED)
    unknown = dd.from_pandas(numbers, npartitions=2)
    unknown["c"] = unknown["c"].cat.as_unknown()
    with pytest.raises(InvalidTableError, match="as_known"):
        IndependentSynthesizer().fit(unknown)


def test_parts_of_one_number_are_noticed_where_they_are_brought():
    parts = parts_of(np.array_split(CODES, 3))
    twice = [*parts._tasks(()), parts._tasks(())[0]]
    parts._tasks = lambda _: twice
    with pytest.raises(InvalidTableError, match="came twice"):
        [*parts.each()]
    with pytest.raises(InvalidTableError, match="came twice"):
        parts.kept()


def test_workers_of_a_cluster_count(cluster, tmp_path):
    """A worker that dies changes no sum."""
    parts = parts_of(np.array_split(CODES, 6))
    found = parts.total(kill_once, str(tmp_path), numbered=True)
    assert found == sum(range(6)) * 15
    assert Path(tmp_path, "killed").exists()
