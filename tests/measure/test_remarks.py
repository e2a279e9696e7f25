"""What fit says of a poor result: from releases, with a remedy, in one warning."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Identifier, TableSchema

N_ROWS = 20_000


def said(synth, table) -> str:
    """Fit, and give the text of the warning; empty without one, and never two."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synth.fit(table)
    texts = [str(w.message) for w in caught if w.category is DegradedResultWarning]
    assert len(texts) <= 1
    assert len(caught) == len(texts)
    return "".join(texts)


def independent(epsilon: float = 1.0, schema: TableSchema | None = None, **options):
    options = {"target": "y", "random_state": 0} | options
    return IndependentSynthesizer(epsilon=epsilon, schema=schema, **options)


def plain_table(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows),
            "pay": rng.lognormal(8.0, 1.0, n_rows).round(2),
            "kind": rng.choice(["a", "b"], n_rows),
            "y": rng.integers(0, 2, n_rows),
        }
    )


def test_nothing_is_said_of_a_table_that_its_budget_suffices_for():
    assert said(independent(), plain_table()) == ""
    assert said(MarginalSynthesizer(target="y", random_state=0), plain_table()) == ""


def test_a_label_that_was_not_found():
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "y"})
    text = said(independent(), wine)
    first = "Parts of the result are poor: labels of up to 133 rows are not found, so"
    assert text.startswith(first)
    assert "declare all of 'y' by Categorical([...]); twice the epsilon" in text
    labels = TableSchema({"y": Categorical([0, 1, 2])})
    assert "labels of" not in said(independent(schema=labels), wine)
    # One in fifty of the rows is the limit: of a large table nothing is said.
    assert "labels of" not in said(independent(), plain_table())


@pytest.mark.parametrize(
    ("kind", "epsilon", "told"),
    [
        (MarginalSynthesizer, 1.0, True),
        (IndependentSynthesizer, 1.0, False),  # it has none by design
        (MarginalSynthesizer, math.inf, False),
    ],
)
def test_no_dependence(kind, epsilon, told):
    text = said(kind(epsilon, target="y", random_state=0), plain_table(100))
    words = "all classes have too few rows to learn how columns depend on each other"
    assert (words in text) == told


def test_a_range_that_is_a_guess():
    table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "y"})
    with insecure_randomness(0):
        synth = independent(epsilon=0.35)
        text = said(synth, table)
        names = table.columns.drop("y")
        declared = TableSchema({name: Continuous(0, 5_000) for name in names})
        without = said(independent(epsilon=0.35, schema=declared), table)
    assert "is a guess (state bounds by" in text
    assert "is a guess" not in without
    # The warning names twelve, the report all.
    few = text.partition("the range of ")[2].partition(" is a guess")[0]
    assert few.count("'") == 24
    (notes,) = (n for n in synth.privacy_report().notes if n.startswith("Parts of"))
    every = notes.partition("the range of ")[2].partition(" is a guess")[0]
    guessed = set(every.replace("'", "").split(", "))
    assert 12 < len(guessed) < len(names)
    assert guessed <= set(names)


@pytest.mark.usefixtures("frozen_noise")
def test_rare_categories_and_their_share():
    table = plain_table()
    rng = np.random.default_rng(1)
    common = rng.random(N_ROWS) < 0.6
    rare = rng.integers(0, 4_000, N_ROWS).astype(str)
    table["zip"] = np.where(common, rng.choice(["x", "y"], N_ROWS), rare)
    text = said(independent(), table)
    words = "rare categories are drawn as the ones that were found, in 'zip' (2, about "
    assert words in text
    share = int(text.partition(words)[2].partition(" %")[0])
    assert 30 <= share <= 41
    table["zip"] = [f"canary-{i}" for i in range(N_ROWS)]
    synth = independent()
    text = said(synth, table)
    assert "no category of 'zip'" in text
    assert "canary" not in text + " ".join(synth.privacy_report().notes)


def test_whole_numbers_that_may_number_the_rows():
    rng = np.random.default_rng(2)
    table = plain_table().assign(
        customer=1 + rng.permutation(N_ROWS),
        income=rng.lognormal(11.0, 0.5, N_ROWS).astype(int),  # many, but not even
    )
    text = said(independent(), table)
    assert "'customer' may number the rows (describe it as Identifier())" in text
    assert "'income'" not in text
    schema = TableSchema({"customer": Identifier()})
    assert said(independent(schema=schema), table) == ""
    # Ages are as many as a few rows, and evenly spread.
    few = table.iloc[:100].assign(customer=rng.integers(18, 81, 100))
    assert "may number the rows" not in said(independent(epsilon=50.0), few)


@pytest.mark.parametrize(("epsilon", "delta"), [(25.0, 1e-3), (20.0, 1e-5)])
def test_the_report_says_where_a_claim_is_weak(epsilon, delta):
    synth = independent(epsilon, delta=delta).fit(plain_table(7_000))
    notes = " ".join(synth.privacy_report().notes)
    weak = epsilon > 20
    assert ("Delta is above 1 / rows, of which there are about" in notes) == weak
    assert ("Epsilon is above 20" in notes) == weak


def test_plan_says_the_same_in_advance_and_which_epsilon_would_do():
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "y"})
    counts = wine["y"].value_counts().to_dict()
    synth = MarginalSynthesizer(epsilon=1.0, target="y")
    plan = synth.plan(dtypes=wine.dtypes, class_counts=counts)
    assert plan["note"].str.contains("too few rows for its label to be found").all()
    assert plan["note"].str.contains("ranges: some are guesses").all()
    assert plan["note"].str.contains("depend on each other").all()
    needed = plan["epsilon_needed"].max()  # a NumPy number, as a grid of them has
    assert 1.0 < needed <= 20.0
    # It is enough in a plan, and the one before it on the list is not.
    words = "too few rows (?!to learn)|lost|mostly noise"
    synth.set_params(epsilon=needed)
    after = synth.plan(dtypes=wine.dtypes, class_counts=counts)
    assert not after["note"].str.contains(words).any()
    synth.set_params(epsilon=0.6 * needed)
    before = synth.plan(dtypes=wine.dtypes, class_counts=counts)
    assert before["note"].str.contains(words).any()
    # And in a fit: all classes are found, and no range is a guess.
    synth.set_params(epsilon=needed, random_state=0)
    with insecure_randomness(3):
        text = said(synth, wine)
    assert set(synth.classes_) == set(counts)
    assert "is a guess" not in text
