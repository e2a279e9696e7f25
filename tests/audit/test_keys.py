"""Twins of the holes between a value and its key, which 0.1.0 had.

The audit adds its canary at the end, and the hash tables of pandas keep what they saw
first: so the twins read a column from its end. Nothing here is drawn but noise.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer, PATETripleGANSynthesizer
from skdpsynth.audit import audit_ledger
from skdpsynth.preprocessing import _columns, _convert
from skdpsynth.schema import Categorical, Continuous, TableSchema

pytestmark = [
    pytest.mark.statistical,  # audits of ledgers; each errs with probability 1e-6
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

TEA, CANARY = "a\ud800", "'a\\ud800'"  # the second spells the first, as `repr` does
NUMBER = {"n": Continuous(0, 9, scale="linear")}


class Named(str):
    """A text that carries something."""

    __slots__ = ("luggage",)


def by_pandas(series):
    """The keys of 0.1.0, of a column that is read from its end."""
    codes, uniques = pd.factorize(series[::-1])
    keys = uniques.tolist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.append(np.argsort(order), -1)
    return ranks[codes][::-1], [keys[position] for position in order]


def table_of(texts):
    return pd.DataFrame(
        {"c": pd.Series(texts, dtype=object), "n": np.arange(len(texts)) % 10.0}
    )


def audited(table, canary, *, declared=None):
    described = {} if declared is None else {"c": Categorical(declared)}
    schema = TableSchema(NUMBER | described, n_rows=len(table))
    synth = IndependentSynthesizer(epsilon=8.0, schema=schema)
    return " ".join(audit_ledger(synth, table, canary).findings)


@pytest.mark.parametrize("declared", [None, [TEA, "coffee"]], ids=["bought", "public"])
def test_a_row_that_renames_a_category_is_caught(declared, monkeypatch):
    """The rule is in `preprocessing/test_keys.py`; this is what breaking it does."""
    table, canary = table_of([TEA, "coffee"] * 60), {"c": CANARY, "n": 9.0}
    assert audited(table, canary, declared=declared) == ""
    monkeypatch.setattr(_columns, "factorize", by_pandas)
    found = audited(table, canary, declared=declared)
    assert "times its sensitivity" in found or "past all releases" in found


def test_a_kept_subclass_is_caught(monkeypatch):
    """What is attached to a text of one row is in the fitted object of the twin.

    A key of another type is another key, so the audit sees it in the releases.
    """
    secret = Named("tea")
    secret.luggage = "the canary's"
    table, canary = table_of(["tea", "coffee"] * 60), table_of([secret])
    assert audited(table, canary) == ""
    monkeypatch.setattr(_columns, "factorize", by_pandas)
    monkeypatch.setattr(_convert, "factorize", by_pandas)
    assert "the canary changes which releases are made" in audited(table, canary)


def only_what_pandas_sees(series):
    return series.isna().to_numpy(dtype=bool, copy=True)


def test_an_unseen_nan_is_caught(monkeypatch):
    """It ended the fit with an error of its own, after the charge."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=121) for _ in range(2)]
    values[0][-1] = np.nan
    label = np.where(np.arange(121) % 4 == 1, None, np.arange(121) % 2)
    full = pd.DataFrame(
        {
            "n": pd.arrays.FloatingArray(values[0], np.zeros(121, dtype=bool)),
            "m": values[1],
            "y": pd.array(label, dtype="Int64"),
        }
    )
    numbers = {"n": Continuous(-4, 4), "m": Continuous(-4, 4)}
    label = {"y": Categorical([0, 1], nullable=True)}
    schema = TableSchema(numbers | label, target="y")
    synth = PATETripleGANSynthesizer(8.0, schema=schema, n_iter=2, batch_size=16)
    table, canary = full.iloc[:-1], full.iloc[-1:]
    assert audit_ledger(synth, table, canary).findings == ()
    monkeypatch.setattr(_convert, "is_missing", only_what_pandas_sees)
    with np.errstate(invalid="ignore"):
        (finding,) = audit_ledger(synth, table, canary).findings
    assert finding == "the canary decides whether there is an error, or which."
