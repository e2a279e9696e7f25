"""Scores of linked tables against closed forms, by hand, and against copies."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skdpsynth import Link, LinkedSchema, TableSchema
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import linked_fidelity, unit_features
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
    """Draw a chain of two states that stay so often; None: independent rows."""
    state = rng.integers(0, 2, (N, ROWS))
    for day in range(1, ROWS) if stay is not None else ():
        state[:, day] = state[:, day - 1] ^ (rng.random(N) >= stay)
    level, noise = rng.normal(size=(N, 1)), rng.normal(size=(N, ROWS))
    rows = {"who": np.repeat(np.arange(N), ROWS), "day": np.tile(np.arange(ROWS), N)}
    rows |= {"state": np.array(["a", "b"])[state.ravel()]}
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
    """A state that stays with .8 is the same in .5 of independent rows: .8 - .5.

    After two rows .8 ** 2 + .2 ** 2 - .5. Of four steps Binomial(4, .2) change, and
    Binomial(4, .5) of independent rows. Each of ten comparisons fails once in 1e6 at
    most, by `NEAR`. The day is the same in both tables.
    """
    rng = np.random.default_rng(global_random_seed)
    real, loose = tables(rng, stay=0.8), tables(rng)
    found = scores_of(real, loose, linked(DAYS), "state")
    few, many = (binom.pmf(range(5), 4, p) for p in (0.2, 0.5))
    expected = {"lag 1": 0.3, "lag 2": 0.18, "changes": np.abs(few - many).sum() / 2}
    # Of both columns with themselves, where the day adds nothing.
    far = {"lag 1": 2 * found.loc["lag 1 same"], "lag 2": 2 * found.loc["lag 2 same"]}
    far["changes"] = found.loc["changes"]
    for name, distance in expected.items():
        assert abs(far[name]["value"] - distance) < NEAR
        assert far[name]["floor"] < NEAR
    # Of four pairs one depends; two have ten cells, which are as far as nine at most.
    assert abs(4 * found.loc["lag 1", "value"] - 0.3) < 3 * NEAR
    assert found.loc["own x own", "value"] < 1.1 * NEAR


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
    real["rows"] = real["rows"][rng.random(1_500) < 0.8]
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
@pytest.mark.usefixtures("few_trees")
def test_folds_keep_units_together(global_random_seed):
    """Units of five equal rows: trees know rows again, but no new unit.

    The areas of 150 units, which halves have at least, deviate by sqrt(301 / (12 * 150
    ** 2)) = .034 at most, and five of that are .17: a false alarm in 1.7e6.
    """
    rng = np.random.default_rng(global_random_seed)
    both = []
    for _ in range(2):
        rows = pd.DataFrame(rng.normal(size=(400, 3))).add_prefix("x")
        rows = rows.loc[np.repeat(range(400), 5)].rename_axis("who").reset_index()
        both.append({"roots": pd.DataFrame({"who": range(400)}), "rows": rows})
    found = linked_fidelity(*both, linked(DAYS, order_by=None)).scores
    areas = found.set_index("score").loc[["c2st rows", "c2st sequences"]]
    assert (areas[["value", "floor"]] - 0.5).abs().max(axis=None) < 0.17


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
        "kind a mean": [0.0, 1 / 3, np.nan],
        "kind b mean": [0.0, 2 / 3, np.nan],
        "kind a first": [0.0, 1.0, np.nan],
        "kind b last": [0.0, 1.0, np.nan],
        "kind b changes": [0.0, 1.0, np.nan],
    }
    pd.testing.assert_frame_equal(found[[*expected]], pd.DataFrame(expected))
    two = Link("rows", "roots", "who", order_by="day", max_rows=2)
    assert unit_features(family, two)["rows: number"].tolist() == [1, 2, 0]
    assert unit_features(family, two)["rows: lab last"][1] == 2.0
    one = Link("rows", "roots", "who", order_by="day", max_rows=1)  # a missing value
    assert unit_features(family, one)["rows: lab changes"].tolist()[:2] == [0, 0]
    with pytest.raises(KeyError, match="whom"):
        unit_features(family, Link("rows", "roots", "who", parent_key="whom"))


def three_levels(n=30):
    """Make persons with two visits, each with two drugs."""
    persons = pd.DataFrame({"id": range(n), "sex": [*"fm"] * (n // 2)})
    visits = pd.DataFrame({"id": np.repeat(range(n), 2), "visit": range(2 * n)})
    visits["when"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(
        visits["visit"], "D"
    )
    drugs = pd.DataFrame({"visit": np.repeat(range(2 * n), 2)})
    return {"persons": persons, "visits": visits, "drugs": drugs.assign(dose=1.5)}


LEVELS = LinkedSchema(
    {name: TableSchema({}) for name in ("persons", "visits", "drugs")},
    [Link("visits", "persons", "id"), Link("drugs", "visits", "visit")],
)


@pytest.mark.usefixtures("no_areas")
def test_a_page_and_pictures_of_three_levels(tmp_path):
    """Rows whose parents do not count do not count either, and pages say what is."""
    real = three_levels()
    lost = real | {"visits": real["visits"].iloc[2:]}  # the first person's
    result = linked_fidelity(real, lost, LEVELS)
    scores = result.scores.set_index(["link", "score"])
    assert scores.loc[("drugs", "orphans")].tolist() == [4 / 120, 0]
    assert scores.loc[("visits", "orphans")].tolist() == [0, 0]
    assert result.scores.attrs["contains_private_statistics"]
    text = str(result)
    assert text.count("## ") == 2
    assert "| orphans" in text
    assert "covered by no epsilon" in text
    page = result.to_html(tmp_path / "page.html")
    assert page.count("<img") == 2
    axes = result.plot("drugs")
    assert {"real: Cramer's V", "synthetic 3"} < {ax.get_title() for ax in axes}
    plt.close(axes[0].figure)
    with pytest.raises(ValueError, match="link must be one of"):
        result.plot("persons")
    with pytest.raises(InvalidTableError, match=r"'synthetic', but it lacks \['drugs'"):
        linked_fidelity(real, {n: real[n] for n in ("persons", "visits")}, LEVELS)
    with pytest.raises(InvalidTableError, match="'real visits' in 'synthetic visits'"):
        linked_fidelity(real, real | {"visits": real["visits"][["id", "when"]]}, LEVELS)
