"""Real tables: small ones in the package, larger ones of a file, a cache, or OpenML."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from string import ascii_uppercase
from typing import Literal, overload

import numpy as np
import pandas as pd

from skdpsynth.exceptions import (
    DatasetUnavailableError,
    DegradedResultWarning,
    InvalidTableError,
)
from skdpsynth.utils import warn_deprecated

Parts = tuple[pd.DataFrame, pd.DataFrame]
PathLike = str | os.PathLike[str] | None


def _read(name: str) -> pd.DataFrame:
    """Read one Parquet file of the package."""
    path = resources.files("skdpsynth.datasets") / "data" / f"{name}.parquet"
    with path.open("rb") as file:
        return pd.read_parquet(file)


def _parts_or_whole(table: pd.DataFrame, split: bool) -> pd.DataFrame | Parts:
    """Split a table by its column `split`; both parts are numbered from 0."""
    whole = table.drop(columns="split", errors="ignore")
    if not split:
        return whole
    train, test = (whole[table["split"] == part] for part in ("train", "test"))
    return train.reset_index(drop=True), test.reset_index(drop=True)


@overload
def load_adult(*, split: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def load_adult(*, split: Literal[True]) -> Parts: ...
def load_adult(*, split: bool = False) -> pd.DataFrame | Parts:
    """Load the Adult table: does a person earn more than 50,000 dollars a year.

    Parameters
    ----------
    split : bool, default=False
        If True, return the publisher's train and test parts.

    Returns
    -------
    DataFrame or tuple of DataFrame
        48,842 rows and 15 columns, the label `income` ("<=50K" or ">50K") last; with
        ``split=True`` the train part (32,561 rows) and the test part (16,281 rows).

    Notes
    -----
    Six columns are integers, eight are text. Missing values: `workclass` 2,799,
    `occupation` 2,809, `native-country` 857. 11,687 rows are ">50K". Licence CC BY 4.0
    [1]_.

    References
    ----------
    .. [1] B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996.
       https://doi.org/10.24432/C5XW20

    Examples
    --------
    >>> from skdpsynth.datasets import load_adult
    >>> train, test = load_adult(split=True)
    >>> train.shape, test.shape
    ((32561, 15), (16281, 15))
    """
    return _parts_or_whole(_read("adult"), split)


@overload
def load_thyroid(*, split: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def load_thyroid(*, split: Literal[True]) -> Parts: ...
def load_thyroid(*, split: bool = False) -> pd.DataFrame | Parts:
    """Load the ann-thyroid table: the state of a patient's thyroid, three classes.

    Parameters
    ----------
    split : bool, default=False
        If True, return the publisher's train and test parts.

    Returns
    -------
    DataFrame or tuple of DataFrame
        7,200 rows and 22 columns, the label `class` (1, 2 or 3; 3 is normal) last; with
        ``split=True`` the train part (3,772 rows) and the test part (3,428 rows).

    Notes
    -----
    Six columns are continuous, scaled by the publisher, and fifteen are 0 or 1. Nothing
    is missing. Licence CC BY 4.0 [1]_.

    References
    ----------
    .. [1] J. R. Quinlan, "Thyroid Disease" (the ann-thyroid files), UCI Machine
       Learning Repository, 1987. https://doi.org/10.24432/C5D010

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> load_thyroid()["class"].value_counts().to_dict()
    {3: 6666, 2: 368, 1: 166}
    """
    return _parts_or_whole(_read("ann_thyroid"), split)


def load_cervical_cancer() -> pd.DataFrame:
    """Load the cervical cancer table: is a patient's biopsy positive.

    Returns
    -------
    DataFrame
        858 rows and 36 columns, the label `Biopsy` (0 or 1) last.

    Notes
    -----
    All columns are numbers; 3,622 values are missing. The columns `Hinselmann`,
    `Schiller` and `Citology` are three other tests for the same illness; drop them for
    a harder task. Licence CC BY 4.0 [1]_.

    References
    ----------
    .. [1] K. Fernandes, J. Cardoso and J. Fernandes, "Cervical Cancer (Risk Factors)",
       UCI Machine Learning Repository, 2017. https://doi.org/10.24432/C5Z310

    Examples
    --------
    >>> from skdpsynth.datasets import load_cervical_cancer
    >>> int(load_cervical_cancer()["Biopsy"].sum())
    55
    """
    return _read("cervical_cancer")


# What the publisher says of the credit table.
_CREDIT_PAGE = "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud"
_FEATURES = ("Time", *(f"V{i}" for i in range(1, 29)), "Amount")
_COUNTS = {0: 284_315, 1: 492}


def _remedy(name: str, page: str) -> str:
    """Return the way to a table that needs no network from Python."""
    return f"Download it from {page} and call fetch_{name}(path=...)."


def _obtain(
    name: str,
    page: str,
    path: PathLike,
    data_home: PathLike,
    checked: Callable[[pd.DataFrame, str], pd.DataFrame],
    openml: Mapping[str, int | str],
) -> pd.DataFrame:
    """Read a table from `path`, or the cache, or OpenML (which fills the cache)."""
    remedy = _remedy(name, page)
    if path is not None:
        local = Path(path)
        if not local.is_file():
            there = "it is a folder" if local.is_dir() else "there is none"
            raise DatasetUnavailableError(
                f"Expected a file at path={str(local)!r}, but {there}. {remedy}"
            )
        is_parquet = local.suffix.lower() in {".parquet", ".pq"}
        table = pd.read_parquet(local) if is_parquet else pd.read_csv(local)
        return checked(table, f"the file {str(local)!r}")
    home = data_home or os.environ.get("SKDPSYNTH_DATA") or "~/skdpsynth_data"
    cached = Path(home).expanduser() / f"{name}.parquet"
    if cached.exists():
        origin = f"the cached file {str(cached)!r} (delete it to fetch it again)"
        return checked(pd.read_parquet(cached), origin)
    try:
        table = checked(_downloaded(openml), "the copy on OpenML")
    except InvalidTableError as exc:
        raise DatasetUnavailableError(f"{exc} {remedy}") from exc
    except (OSError, HTTPException, ValueError, KeyError) as exc:
        raise DatasetUnavailableError(
            f"The table {name!r} is not in the package and could not be fetched from "
            f"OpenML ({type(exc).__name__}). {remedy}"
        ) from exc
    cached.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that a broken write never looks like a table.
    part = cached.with_suffix(f".{os.getpid()}.part")
    table.to_parquet(part, index=False)
    part.replace(cached)
    return table


def _downloaded(openml: Mapping[str, int | str]) -> pd.DataFrame:
    """Download a table from OpenML, through scikit-learn."""
    from sklearn.datasets import fetch_openml  # slow to load and rarely needed

    ask = {"as_frame": True, "cache": False, "n_retries": 1, **openml}
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # They speak of flags and versions there; the table itself is checked.
        try:
            return fetch_openml(**ask)["frame"]
        except KeyError:  # the copy lacks the column that was asked for by name
            return fetch_openml(**ask | {"target_column": "default-target"})["frame"]


def _checked_credit(table: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Bring the credit table into its one form, or refuse it and say what differs."""
    expected = [*_FEATURES, "Class"]
    others = {*table.columns} - {*expected}
    missing = [column for column in expected if column not in table]
    if others or set(missing) - {"Time"}:
        raise InvalidTableError(
            f"Expected the {len(expected)} columns 'Time' ... 'Class' in {origin}, but "
            f"{len(missing)} of them are missing and {len(others)} others are there."
        )
    # OpenML has labels as texts.
    label = pd.to_numeric(table["Class"].astype(str).str.strip("' "), errors="coerce")
    if label.value_counts(dropna=False).to_dict() != _COUNTS:
        raise InvalidTableError(
            f"Expected {sum(_COUNTS.values()):,} rows in {origin} with the published "
            f"count of each label, but got {len(label):,} rows with "
            f"{label.nunique()} labels in other counts."
        )
    features = None
    with suppress(TypeError, ValueError):
        features = table[[n for n in _FEATURES if n in table]].astype("float64")
    if features is None or features.isna().any(axis=None):
        raise InvalidTableError(
            f"Expected complete float64 features in {origin}, but at least one column "
            "has missing values, or values of another type."
        )
    if missing:
        warnings.warn(
            f"There is no column 'Time' in {origin}; the table comes without it. "
            f"{_remedy('kaggle_credit', _CREDIT_PAGE)}",
            DegradedResultWarning,
            stacklevel=4,
        )
    whole = features.assign(Class=label.astype("int8"))
    return whole.reset_index(drop=True)


def fetch_kaggle_credit(
    path: PathLike = None, data_home: PathLike = None
) -> pd.DataFrame:
    """Fetch the Kaggle credit card table: is a payment a fraud.

    Parameters
    ----------
    path : path-like or None, default=None
        Local file, Parquet (by its suffix) or the original CSV. It is read and checked,
        and nothing is written. If None, the cache is tried, then OpenML.
    data_home : path-like or None, default=None
        Cache folder. If None, ``$SKDPSYNTH_DATA``, or ``~/skdpsynth_data`` without it.

    Returns
    -------
    DataFrame
        284,807 rows and 31 columns: `Time`, `V1` to `V28`, `Amount` (float64) and the
        label `Class` (int8, 0 or 1) last.

    Raises
    ------
    DatasetUnavailableError
        If there is no file and no network, or OpenML gives another table.
    InvalidTableError
        If the local or cached file holds another table.

    Warns
    -----
    DegradedResultWarning
        If the source lacks `Time` (some copies do); the table then has 30 columns.

    Notes
    -----
    Checked: the column names, that all features are numbers and nothing is missing, and
    the rows of each label (284,315 and 492). The values are not compared. OpenML is
    asked for data set 1597. Licence: Database Contents License 1.0 [1]_.

    References
    ----------
    .. [1] A. Dal Pozzolo, O. Caelen, R. A. Johnson and G. Bontempi, "Calibrating
       Probability with Undersampling for Unbalanced Classification", IEEE SSCI, 2015.
       https://doi.org/10.1109/SSCI.2015.33
    """
    # `Time` is flagged on OpenML as a column to ignore: it comes if asked for by name.
    openml: dict[str, int | str] = {"data_id": 1597, "target_column": "Time"}
    where = "kaggle_credit", _CREDIT_PAGE, path, data_home
    return _obtain(*where, _checked_credit, openml)


def fetch_isolet(
    path: PathLike = None, data_home: PathLike = None, *, split: bool = False
) -> pd.DataFrame | Parts:
    """Fetch the ISOLET table, or its train and test parts: which letter was spoken."""
    warn_deprecated(
        "fetch_isolet()",
        since="0.3",
        removed_in="0.5",
        remedy="Use sklearn.datasets.fetch_openml(data_id=300).",
    )

    def lettered(table: pd.DataFrame, _: str) -> pd.DataFrame:
        if "letter" not in table:  # OpenML has numbers
            numbers = pd.to_numeric(table.pop("class").astype(str).str.strip("' "))
            table = table.assign(letter=[ascii_uppercase[int(n) - 1] for n in numbers])
        if "split" not in table:  # the publisher's train part comes first
            first = np.arange(len(table)) < 6_238
            table = table.assign(split=np.where(first, "train", "test"))
        order = [*(f"f{i}" for i in range(1, 618)), "split", "letter"]
        return table[order].astype({"letter": "str"})

    page = "https://www.openml.org/d/300"
    table = _obtain("isolet", page, path, data_home, lettered, {"data_id": 300})
    return _parts_or_whole(table, split)


def fetch_epileptic_seizure(
    path: PathLike = None, data_home: PathLike = None
) -> pd.DataFrame:
    """Fetch the Epileptic Seizure table: what does one second of EEG show."""
    page = "https://www.kaggle.com/datasets/harunshimanto/epileptic-seizure-recognition"
    remedy = f"Download it from {page} and use pandas.read_csv()."
    warn_deprecated(
        "fetch_epileptic_seizure()", since="0.3", removed_in="0.5", remedy=remedy
    )

    def numbered(table: pd.DataFrame, _: str) -> pd.DataFrame:
        # The original CSV starts with a column of row names.
        table = table.iloc[:, -179:].rename(columns=str)
        return table.astype("int16").astype({table.columns[-1]: "int8"})

    openml = {"name": "Epileptic_Seizure_Recognition"}
    return _obtain("epileptic_seizure", page, path, data_home, numbered, openml)
