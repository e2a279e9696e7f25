"""Scores of linked tables against closed forms, by hand, and against copies."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from skdpsynth import Link, LinkedSchema, TableSchema
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import linked_fidelity, two_sample_scores, unit_features
from skdpsynth.schema import Boolean, Continuous

N, ROWS = 4_000, 5  # units, and rows of each
DAYS = TableSchema({"day": Continuous(0, 100)})
# A half has 1,800 units or more. Each moves a distance by 1 / 1,800 at most, so that it
# is within sqrt(ln(2e6) / 1,800) of its mean but once in 1e6 (McDiarmid), and the mean
# of nine cells is within 9 / 2 sqrt(2 / 9 / 1,800) of the truth (Jensen).
NEAR = np.sqrt(np.log(2e6) / 1_800) + 4.5 * np.sqrt(2 / 9 / 1_800)


def linked(child, max_rows=9, order_by="day", target=None, **columns):
    root = TableSchema({name: Boolean() for name in columns}, target=target)
    link = Link("rows", "roots", "who", max_rows=max_rows, order_by=order_by)
    return LinkedSchema({"roots": root, "rows": child}, [link])


def tables(rng, stay=None):
    """Draw a chain of three states that stay so often; None: independent rows."""
    state = rng.integers(0, 3, (N, ROWS))
    for day in range(1, ROWS) if stay is not None else ():
        jump = state[:, day - 1] + rng.integers(1, 3, N)
        same = rng.random(N) < stay
        state[:, day] = np.where(same, state[:, day - 1], jump % 3)
    level, noise = rng.normal(size=(N, 1)), rng.normal(size=(N, ROWS))
    rows = {"who": np.repeat(np.arange(N), ROWS), "day": np.tile(np.arange(ROWS), N)}
    rows |= {"state": np.array(["a", "b", "c"])[state.ravel()]}
    rows |= {"level": (level + noise).ravel(), "of_root": np.repeat(level > 0, ROWS)}
    roots = pd.DataFrame({"who": np.arange(N), "high": level.ravel() > 0})
    return {"roots": roots, "rows": pd.DataFrame(rows)}


@pytest.fixture
def no_areas(monkeypatch):
    monkeypatch.setattr("skdpsynth.metrics._linked._area", lambda *_: 0.5)


def scores_of(real, synthetic, schema, *columns):
    """Return the scores, of these columns of the rows alone."""
    kept = ["who", "day", *columns]
    sides = [own | {"rows": own["rows"][kept]} for own in (real, synthetic)]
    return linked_fidelity(*sides, schema).scores.set_index("score")


@pytest.mark.statistical
@pytest.mark.usefixtures("no_areas")
def test_a_chain_beside_independent_rows(global_random_seed):
    """A state that stays with .8 is the same in 1 / 3 of independent rows: .8 - 1 / 3.

    After two rows .8 ** 2 + .2 ** 2 / 2 - 1 / 3. Each of nine comparisons fails once in
    1e6 at most, by `NEAR`; the day is the same in both tables.
    """
    rng = np.random.default_rng(global_random_seed)
    real, loose = tables(rng, stay=0.8), tables(rng)
    found = scores_of(real, loose, linked(DAYS), "state")
    of_state = {"lag 1 same": 0.8 - 1 / 3, "lag 2 same": 0.66 - 1 / 3}
    for name, distance in of_state.items():
        assert abs(2 * found.loc[name, "value"] - distance) < NEAR
        assert 2 * found.loc[name, "floor"] < NEAR
    # Of four pairs one depends; the other three have 15 cells at most.
    assert abs(4 * found.loc["lag 1", "value"] - of_state["lag 1 same"]) < 4 * NEAR
    assert found.loc["children", "value"] == 0
    assert found.loc["own x own", "value"] < 2 * NEAR
    changes = found.loc["changes", ["value", "floor"]] * 2
    # Of four steps Binomial(4, .2) change, and Binomial(4, 2 / 3) of independent rows.
    far = np.abs(np.subtract(*(binomial(4, p) for p in (0.2, 2 / 3)))).sum() / 2
    assert abs(changes["value"] - far) < NEAR
    assert changes["floor"] < NEAR


def binomial(n, p):
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, p)


@pytest.mark.statistical
@pytest.mark.usefixtures("no_areas")
def test_rows_that_change_parents(global_random_seed):
    """Half of a level's variance is between parents, all of a column of the root.

    Without their parents the first has an error of .5, the second of 1, and the pair
    with the root is at .5. Each comparison fails once in 1e6 at most: distances by
    `NEAR`; the ICC of n units with five rows has a deviation below
    sqrt(2 (1 - r) ** 2 (1 + 4 r) ** 2 / 20 / n) < .011, and five of them are .055.
    """
    rng = np.random.default_rng(global_random_seed)
    real, moved = tables(rng), tables(rng)
    names = ["level", "of_root"]
    order = rng.permutation(len(moved["rows"]))
    moved["rows"][names] = moved["rows"][names].iloc[order].set_axis(range(len(order)))
    found = scores_of(real, moved, linked(DAYS), *names)
    # The day has an ICC of -1 / 4 in both tables: every parent has the same ones.
    assert abs(3 * found.loc["icc", "value"] - 1.5) < 3 * 0.055
    assert found.loc["icc", "floor"] < 0.055
    alone = scores_of(real, moved, linked(DAYS), "of_root").loc["parent x child"]
    assert abs(2 * alone["value"] - 0.5) < 2 * NEAR
    assert alone["floor"] < NEAR
    assert found.loc["own x own", "value"] < 2 * NEAR


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("order_by", ["day", None])
def test_a_copy_has_the_floor_and_no_less(order_by):
    """Whatever its keys and the order of its files."""
    rng = np.random.default_rng(0)
    real = {name: table[table["who"] < 300] for name, table in tables(rng).items()}
    copy = {name: t.assign(who=7 * t["who"] % 1009) for name, t in real.items()}
    copy = {name: t.sample(frac=1, random_state=1) for name, t in copy.items()}
    schema = linked(DAYS, order_by=order_by, high=True, target="high")
    found = linked_fidelity(real, copy, schema).scores.set_index("score")
    of_files = ["disorder"] if order_by else []
    compared = found.drop(index=of_files)
    assert compared["value"].tolist() == pytest.approx([*compared["floor"]], abs=1e-9)
    assert {"c2st rows", "c2st sequences", "tstr auroc"} <= {*found.index}
    assert ("lag 1" in found.index) == (order_by is not None)
    assert found.loc["own x own", "floor"] > 0


@pytest.mark.usefixtures("no_areas")
def test_what_is_broken_is_counted():
    """In all synthetic rows, beside the real ones."""
    real = tables(np.random.default_rng(0))
    rows = real["rows"].copy()
    rows.loc[:9, "who"] = N + np.arange(10)  # no one's: of the first two parents
    rows.loc[10:14, "day"] = [0, 1, 3, 2, 4]  # of the third, one step of four
    roots = real["roots"].copy()
    roots.loc[N - 1, "who"] = 5  # whose own rows are no one's either
    found = scores_of(real, {"roots": roots, "rows": rows}, linked(DAYS, 4))
    value, floor = found["value"], found["floor"]
    assert value["orphans"] == 15 / len(rows)
    assert value["disorder"] == 1 / (4 * (N - 3))
    assert value["above max_rows"] == (N - 3) / N
    assert value["repeated keys"] == 1 / N
    broken = ["orphans", "disorder", "above max_rows", "repeated keys"]
    assert floor[broken].tolist() == [0, 0, 1, 0]


@pytest.mark.statistical
def test_folds_keep_units_together(global_random_seed):
    """200 units with five equal rows: a tree knows rows again, but no new unit.

    The area of units has a deviation of sqrt(401 / (12 * 200 ** 2)) = .029 at most, and
    five of them are .145: a false alarm in 1.7e6.
    """
    draws = np.random.default_rng(global_random_seed).normal(size=(2, 200, 3))
    both = []
    for own in draws:
        table = pd.DataFrame(own, columns=["a", "b", "c"]).rename_axis("who")
        both.append(table.loc[np.repeat(range(200), 5)].reset_index())
    how = {"classifiers": {"tree": DecisionTreeClassifier(random_state=0)}}
    alone = [own.drop(columns="who") for own in both]
    assert two_sample_scores(*alone, **how)["tree"] > 0.95
    assert abs(two_sample_scores(*both, unit="who", **how)["tree"] - 0.5) < 0.145
    with pytest.raises(InvalidTableError, match="'which' of `unit`"):
        two_sample_scores(*both, unit="which", **how)
    few = [own[own["who"] < 9] for own in both]
    with pytest.raises(InvalidTableError, match="units, in both"):
        two_sample_scores(*few, unit="who", **how)


def test_features_by_hand():
    day = pd.to_datetime(["2020-01-03", "2020-01-02", "2020-01-01", "2020-01-01", None])
    rows = pd.DataFrame(
        {
            "who": ["x", "x", "x", "y", "x"],
            "day": day,
            "lab": [1.0, 2.0, None, 7.0, 9.0],
        }
    )
    rows["kind"] = ["a", "b", "b", None, "a"]
    family = {"roots": pd.DataFrame({"who": ["y", "x", "z"]}), "rows": rows}
    link = Link("rows", "roots", "who", order_by="day", descending=True)
    found = unit_features(family, link).rename(columns=lambda n: n[6:])
    expected = {
        "number": [1, 3, 0],
        "lab mean": [7.0, 1.5, np.nan],
        "lab first": [7.0, 1.0, np.nan],
        "lab last": [7.0, np.nan, np.nan],
        "kind a share": [0.0, 1 / 3, np.nan],
        "kind b share": [0.0, 2 / 3, np.nan],
        "kind first": [np.nan, "a", np.nan],
        "kind last": [np.nan, "b", np.nan],
        "kind changes": [0, 1, 0],
    }
    own = found[list(expected)].astype({n: object for n in expected if "kind" in n})
    pd.testing.assert_frame_equal(own, pd.DataFrame(expected), check_dtype=False)
    two = Link("rows", "roots", "who", order_by="day", max_rows=2)
    assert unit_features(family, two)["rows: number"].tolist() == [1, 2, 0]
    assert unit_features(family, two)["rows: lab last"][1] == 2.0
    with pytest.raises(InvalidTableError, match="key 'whom' in 'roots'"):
        unit_features(family, Link("rows", "roots", "who", parent_key="whom"))
