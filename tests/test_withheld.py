"""No error that leaves a fit carries a value, in its words or in what hangs on it.

Context, cause, notes, arguments and the pickle are searched: logs, debuggers and
workers show them. Frames hold the private table itself while the process lives.
"""

import logging

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _chains import carried
from _instances import PLAIN_PRIVATE
from _releases import watched
from pyarrow import csv, dataset
from sklearn.base import clone
from tables import mixed_table

import skdpsynth
from skdpsynth import IndependentSynthesizer, PrivacyBudget
from skdpsynth.audit import audit_generator
from skdpsynth.exceptions import SkdpsynthError
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema

N = 300
# In no line of source: a traceback has these.
MARKER = "".join(["un", "told", "-", "value"])
SCHEMA = TableSchema(
    {
        "n": Continuous(0, 9, integer=True),
        "x": Continuous(0, 9),
        "t": Boolean(),
        "d": Datetime("2020-01-01", "2021-01-01"),
        "y": Categorical(["no", "yes"]),
    },
    target="y",
)


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "n": [1, 2, 3] * (N // 3),
            "x": np.linspace(0, 9, N),
            "t": [True, False] * (N // 2),
            "d": pd.Timestamp("2020-05-05"),
            "y": ["no", "yes"] * (N // 2),
        }
    )


def refused(fit) -> SkdpsynthError:
    """Give the error of a fit; nothing that it carries is the marker."""
    with pytest.raises(SkdpsynthError) as caught:
        fit()
    assert MARKER not in carried(caught.value)
    return caught.value


def refused_csv(data: bytes, tmp_path) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    refused(lambda: IndependentSynthesizer(schema=SCHEMA).fit(tmp_path / "t.csv"))


@pytest.mark.parametrize("name", ["n", "x", "t", "d"])
@pytest.mark.parametrize("place", [0, N - 1])
def test_a_cell_of_a_csv_file(name, place, tmp_path):
    table = frame().astype({name: object})
    table.loc[place, name] = MARKER
    refused_csv(table.to_csv(index=False).encode(), tmp_path)


ROWS = {
    "too many fields": f",{MARKER},{MARKER}".encode(),
    "a quote that does not end": f',"{MARKER}'.encode(),
    "bytes that are no text": b",\xff" + MARKER.encode(),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_of_a_csv_file(row, tmp_path):
    text = frame().to_csv(index=False) + "1,2,True,2020-05-05"
    refused_csv(text.encode() + row, tmp_path)


@pytest.mark.parametrize("spoilt", ["all", "end", "pages"])
def test_a_parquet_file_and_a_folder(spoilt, tmp_path):
    table = frame().assign(s=MARKER)
    table.to_parquet(tmp_path / "a.parquet", compression="none")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    if spoilt == "all":
        data = MARKER.encode() * 9
    elif spoilt == "end":
        data[-40:-8] = (MARKER.encode() * 9)[:32]
    else:
        data[4:400] = (MARKER.encode() * 90)[:396]
    (tmp_path / "a.parquet").write_bytes(data)
    synth = IndependentSynthesizer(target="y")
    refused(lambda: synth.fit(tmp_path / "a.parquet"))
    frame().to_parquet(tmp_path / "b.parquet")
    refused(lambda: synth.fit(tmp_path))


def of_another(error: BaseException, other: BaseException) -> BaseException:
    """Hang an error on another one, as if it had come while that was handled."""
    error.__context__ = other
    return error


def with_note(error: BaseException, words: str) -> BaseException:
    error.add_note(words)
    return error


ERRORS = {
    "words": lambda: ValueError(f"cannot read {MARKER}"),
    "bytes": lambda: UnicodeDecodeError("utf-8", MARKER.encode(), 0, 1, "no text"),
    "a key": lambda: KeyError(MARKER),
    "a note": lambda: with_note(ValueError("no number"), MARKER),
    "of no file": lambda: OSError(f"a page with {MARKER}"),
    "a file": lambda: of_another(OSError(5, "unreadable"), ValueError(MARKER)),
    "a file's note": lambda: with_note(OSError(5, "unreadable"), MARKER),
    "ours": lambda: of_another(SkdpsynthError("refused"), ValueError(MARKER)),
    "Ctrl-C": lambda: of_another(KeyboardInterrupt(), ValueError(MARKER)),
}


def batches(error: BaseException):
    yield from pa.Table.from_pandas(frame()).to_batches()
    raise error


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_an_iterable_of_batches(make):
    """Also where the user asks for it while another error is being handled."""
    synth, errors = IndependentSynthesizer(target="y"), (SkdpsynthError, OSError)
    with pytest.raises((*errors, KeyboardInterrupt)) as caught:
        synth.fit(batches(make()))
    assert MARKER not in carried(caught.value)
    try:
        raise ValueError(MARKER)
    except ValueError:
        with pytest.raises((*errors, KeyboardInterrupt)) as caught:
            synth.fit(batches(make()))
    assert MARKER not in carried(caught.value)


def test_readers_of_arrow(tmp_path):
    path, small = tmp_path / "t.csv", csv.ReadOptions(block_size=1000)
    path.write_text("a,y\n" + "1,no\n" * 999 + f"{MARKER},yes\n")
    late = dataset.dataset(path, format=dataset.CsvFileFormat(read_options=small))
    for source in (csv.open_csv(path, small), late.to_batches(), late):
        refused(lambda source=source: IndependentSynthesizer(target="y").fit(source))


def test_an_error_after_the_charge_says_what_it_cost_and_nothing_else(tmp_path):
    """The file changes after the first release, and is read once more."""
    path, small = tmp_path / "t.csv", csv.ReadOptions(block_size=1000)
    path.write_text("a,s,y\n" + "1,u,no\n1,v,yes\n" * 500)
    late = dataset.dataset(path, format=dataset.CsvFileFormat(read_options=small))

    def change(release):
        path.write_text("a,s,y\n" + "1,u,no\n" * 500 + f"{MARKER},v,yes\n" * 500)

    synth = IndependentSynthesizer(target="y", budget=PrivacyBudget(3.0, 1e-4))
    with insecure_randomness(0), observe_releases(change):
        error = refused(lambda: synth.fit(late))
    (note,) = error.__notes__
    assert "stays charged" in note
    assert synth.budget.spent[0] == 1.0


@pytest.mark.parametrize(
    "scheduler", ["threads", pytest.param("processes", marks=pytest.mark.nightly)]
)
def test_partitions_of_dask(scheduler):
    words = f"cannot use {MARKER}"

    def failing(part):  # inside: a worker cannot import this module
        error = ValueError(words)
        error.add_note(words)
        raise error

    table = dd.from_pandas(frame(), npartitions=3)
    table = table.map_partitions(failing, meta=frame()[:0])
    with dask.config.set(scheduler=scheduler, num_workers=1):
        refused(lambda: IndependentSynthesizer(target="y").fit(table))


def test_a_cell_that_dask_reads(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "1,0\n" * 999 + f"{MARKER},1\n")
    table = dd.read_csv(tmp_path / "t.csv", blocksize=1000, sample=500)
    with dask.config.set(scheduler="synchronous"):
        refused(lambda: IndependentSynthesizer(target="y").fit(table))


def test_a_canary_that_the_table_cannot_hold():
    table = pd.DataFrame({"a": [1.0, 2.0] * 40})
    with pytest.raises(ValueError, match="must be one that float64 can hold") as caught:
        audit_generator(IndependentSynthesizer(), table, {"a": MARKER})
    assert MARKER not in carried(caught.value)


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", PLAIN_PRIVATE)
def test_logs_follow_from_releases(name, caplog):
    """They are equal for another table, of another size, with equal releases."""
    labels = TableSchema({"y": Categorical(["u", "v"])}, target="y")
    synthesizer = clone(PLAIN_PRIVATE[name]).set_params(schema=labels, random_state=0)
    found, seen = [], None
    for n_rows in (1237, 900):
        caplog.clear()
        table = mixed_table(n_rows, seed=n_rows)[["number", "text", "y"]]
        table.loc[7, "text"] = f"canary {n_rows}"
        with caplog.at_level("DEBUG", logger="skdpsynth"):
            _, seen = watched(synthesizer, table, history=seen, secrets=n_rows)
        found.append([record.getMessage() for record in caplog.records])
    assert len(found[0]) > 5
    assert found[0] == found[1]


def test_nothing_is_written_unless_it_is_asked_for(capfd):
    """A library has a handler that does nothing, and sets no level."""
    logger = logging.getLogger("skdpsynth")
    assert [type(one) for one in logger.handlers] == [logging.NullHandler]
    assert (logger.level, logger.propagate) == (logging.NOTSET, True)
    assert skdpsynth.__name__ == logger.name
    IndependentSynthesizer().fit(mixed_table()[["number"]])
    assert capfd.readouterr() == ("", "")
