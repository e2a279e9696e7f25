"""PATETripleGANSynthesizer: both kinds of rows.

Given what was released, a labelled row changes one vote, one term of its class's sums,
and no sum of unlabelled rows; an unlabelled row one term of that sum alone: that is in
`test_privacy.py`.
"""

import math

import numpy as np
import pandas as pd
import pytest
from _instances import TABLE, WAYS, make_table as small_table
from _releases import influence
from sklearn.base import clone
from tables import correlated_schema, correlated_table, dependence

from skdpsynth import MarginalSynthesizer, PATETripleGANSynthesizer
from skdpsynth.audit import replay
from skdpsynth.datasets import load_thyroid
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, TableSchema

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

PSEUDO, BRANCH = "unlabelled rows of each class", "unlabelled rows' gradients"
UNLABELLED = "rows without a label"


def test_unlabelled_rows_do_little_harm():
    """With most rows unlabelled, and with their weight ten times the default."""
    table = correlated_table(2000, seed=4, unlabelled=0.7)
    settings = {"epsilon": np.inf, "n_teachers": 100, "random_state": 0}
    with insecure_randomness(3):
        synthesizer = PATETripleGANSynthesizer(
            schema=correlated_schema(), unlabelled_weight=0.5, **settings
        ).fit(table)
    assert min(dependence(synthesizer)) > 0.15


@pytest.mark.parametrize("way", ["triplegan random", "triplegan dpsgd"])
def test_all_that_is_reserved_is_drawn_whether_or_not_rows_lack_labels(way):
    """By hand: Gaussian costs add up in squares. Unlabelled rows pay all they have."""
    lines = []
    for unlabelled in (0.0, 0.5, 1.0):
        table = small_table(600)
        rng = np.random.default_rng(0)
        table["y"] = rng.choice(np.array(["u", "v"], dtype=object), len(table))
        table.loc[rng.random(len(table)) < unlabelled, "y"] = None
        fitted = clone(WAYS[way]).fit(table)
        report = fitted.privacy_report()
        assert all(entry.used == entry.releases > 0 for entry in report.entries)
        # What finer cells and tables of three columns get depends on a relation that is
        # found by chance now and then.
        lines.append(
            [
                (e.scope, e.name.split(",")[0], e.mu_total, e.releases)
                for e in report.entries
                if "finer" not in e.name and "3 columns" not in e.name
            ]
        )
        assert fitted.sample(20)["y"].notna().all()
        assert 3.99 < report.epsilon <= 4.0
        for payer in ("class u", UNLABELLED):
            own = [e for e in report.entries if e.scope in ("all rows", payer)]
            paid = sum(e.mu_total**2 for e in own)
            assert 0.8 * report.mu**2 < paid <= report.mu**2 * (1 + 1e-9)
    assert lines[0] == lines[1] == lines[2]
    assert BRANCH in {name for _, name, *_ in lines[0]}


def test_unlabelled_rows_take_part_if_one_class_trains():
    table = correlated_table(6000, seed=3, unlabelled=0.2)
    rare = table["y"].eq("v") & (np.arange(len(table)) % 200 > 0)
    synthesizer = PATETripleGANSynthesizer(schema=correlated_schema())
    entries = synthesizer.fit(table[~rare]).privacy_report().entries
    names = {e.name for e in entries if e.scope == UNLABELLED}
    assert names >= {UNLABELLED, PSEUDO, BRANCH}
    of_rare = {e.name for e in entries if e.scope == "class v"}
    assert of_rare == {"coarse marginals", "marginals"}


MEASURED = WAYS["pairwise unlabelled"]


def lines_of_unlabelled(table, **parameters):
    """Fit without steps; name what rows without a label pay for."""
    fitted = clone(MEASURED).set_params(schema=None, target="y", **parameters)
    entries = fitted.fit(table).privacy_report().entries
    return [entry.name.split(",")[0] for entry in entries if entry.scope == UNLABELLED]


def test_rows_without_a_label_are_measured_where_there_are_enough():
    """Which tables follows from their noisy number; that is released of none too."""
    table = small_table(2000)
    many = lines_of_unlabelled(table.assign(y=table["y"].where(table.index % 4 == 0)))
    assert many[:2] == [UNLABELLED, "coarse marginals"]
    assert {"marginals", "3 tables of 2 columns"} <= {*many}
    assert lines_of_unlabelled(table.assign(y=table["y"].fillna("u"))) == [UNLABELLED]
    whole = table.assign(y=table["y"].eq("u").astype("int8"))  # of a dtype without NaN
    assert lines_of_unlabelled(whole) == []


@pytest.mark.parametrize("epsilon", [3.0, np.inf])
def test_a_table_of_which_no_label_is_released_is_fitted(epsilon):
    """Every row is charged for what is measured: nothing is left for some of them."""
    nameless = small_table(3000)[["a", "b", "c"]].assign(y=None).astype({"y": object})
    settings = {"schema": None, "target": "y", "epsilon": epsilon}
    with pytest.warns(DegradedResultWarning):
        fitted = clone(MEASURED).set_params(**settings).fit(nameless)
    assert len(fitted.classes_) == 0
    assert len(fitted.sample(5)) == 5


def test_measurements_of_rows_without_a_label_are_listed():
    """Every row is charged for tables of all classes, so every row is counted."""
    table = small_table(4000)
    table["y"] = table["y"].where(table.index % 4 == 0)
    fitted = clone(MEASURED).set_params(schema=None, target="y").fit(table)
    listed = fitted.measurements_.tables()
    orders = {own.order for own in listed if own.class_label == UNLABELLED}
    assert {1, 2} <= orders
    assert list(fitted.classes_) == ["u", "v"]
    assert len(fitted.generator_.mixtures) == 2
    shared = [own for own in listed if own.order == 2 and own.class_label is None]
    assert len(shared) == 3
    for own in shared:
        values = np.ravel(own.values)
        doubt = 6.5 * own.noise_std * math.sqrt(len(values))
        assert abs(values.sum() - len(table)) < doubt < len(table) / 4


def test_a_row_of_a_sample_of_unlabelled_rows_moves_its_sum_no_further(monkeypatch):
    """By default only classes of more than 2^18 rows are sampled."""
    monkeypatch.setattr("skdpsynth.synthesizers._patetriplegan.SAMPLE_ROWS", 100.0)
    synthesizer = clone(WAYS["triplegan"]).set_params(n_teachers=12, max_grad_norm=0.02)
    until = f"{BRANCH}.* moves a release by|changes what is reserved"
    assert influence(synthesizer, TABLE, until=until)[1] == []


def test_rows_without_a_label_choose_their_pairs_at_their_own_cost():
    """Where one class alone has tables: what they choose depends on none of its rows.

    Neighbours by a row of either kind, with all that was released before frozen.
    """
    rng, n_rows, names = np.random.default_rng(0), 6_000, [f"c{k}" for k in range(28)]
    table = pd.DataFrame({name: rng.choice(["a", "b", "c"], n_rows) for name in names})
    table["y"] = np.where(np.arange(n_rows) % 2 == 0, "u", None)
    columns = dict.fromkeys(names, Categorical(["a", "b", "c"]))
    columns["y"] = Categorical(["u"], nullable=True)
    schema = TableSchema(columns, target="y")
    synth = MarginalSynthesizer(20.0, schema=schema, use_unlabelled=True)
    assert not replay(synth, table, rows=["first", "last"]).findings
    lines = synth.fit(table).privacy_report().entries
    assert UNLABELLED in {e.scope for e in lines if e.name == "choice of pairs"}


def test_ranges_are_those_of_rows_without_a_label_too():
    """The number of labelled rows, a tenth, does not stand for all of them.

    With it, TSH reached 0.002, and a fifth of the real rows are above 0.003.
    """
    table = load_thyroid(split=True)[0]
    kept = np.random.default_rng(1000).random(len(table)) < 0.1
    table["class"] = table["class"].astype("Int64").where(kept)
    labels = TableSchema({"class": Categorical([1, 2, 3], nullable=True)})
    with insecure_randomness(0):
        synth = PATETripleGANSynthesizer(
            epsilon=3.7, target="class", schema=labels, n_iter=0, random_state=0
        )
        drawn = synth.fit(table).sample(2000)
    assert 0.1 < (drawn["TSH"] > 0.003).mean() < 0.3
