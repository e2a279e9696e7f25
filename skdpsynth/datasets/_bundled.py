"""Small real tables that ship inside the package."""

from __future__ import annotations

from importlib import resources
from typing import Literal, overload

import pandas as pd


def _read(name: str) -> pd.DataFrame:
    """Read one Parquet file of the package."""
    path = resources.files("skdpsynth.datasets") / "data" / name
    with path.open("rb") as file:
        return pd.read_parquet(file)


def split_parts(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take a table apart along its `split` column; both parts are numbered from 0."""
    features = table.drop(columns="split")
    train, test = (features[table["split"] == part] for part in ("train", "test"))
    return train.reset_index(drop=True), test.reset_index(drop=True)


@overload
def load_adult(*, split: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def load_adult(*, split: Literal[True]) -> tuple[pd.DataFrame, pd.DataFrame]: ...
def load_adult(
    *, split: bool = False
) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
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
    `occupation` 2,809, `native-country` 857. 11,687 rows are ">50K".

    Licence CC BY 4.0. Source: UCI Machine Learning Repository, "Adult" [1]_.

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
    table = _read("adult.parquet")
    return split_parts(table) if split else table.drop(columns="split")


@overload
def load_thyroid(*, split: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def load_thyroid(*, split: Literal[True]) -> tuple[pd.DataFrame, pd.DataFrame]: ...
def load_thyroid(
    *, split: bool = False
) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
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
    is missing. The classes have 166, 368 and 6,666 rows.

    Licence CC BY 4.0. Source: UCI Machine Learning Repository, "Thyroid Disease", the
    ann-thyroid files [1]_.

    References
    ----------
    .. [1] J. R. Quinlan, "Thyroid Disease", UCI Machine Learning Repository, 1987.
       https://doi.org/10.24432/C5D010

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> load_thyroid()["class"].value_counts().to_dict()
    {3: 6666, 2: 368, 1: 166}
    """
    table = _read("ann_thyroid.parquet")
    return split_parts(table) if split else table.drop(columns="split")


def load_cervical_cancer() -> pd.DataFrame:
    """Load the cervical cancer table: is a patient's biopsy positive.

    Returns
    -------
    DataFrame
        858 rows and 36 columns, the label `Biopsy` (0 or 1) last.

    Notes
    -----
    All columns are numbers; 3,622 values are missing. 55 biopsies are positive. The
    columns `Hinselmann`, `Schiller` and `Citology` are three other tests for the same
    illness; drop them for a harder task.

    Licence CC BY 4.0. Source: UCI Machine Learning Repository, "Cervical Cancer (Risk
    Factors)" [1]_.

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
    return _read("cervical_cancer.parquet")
