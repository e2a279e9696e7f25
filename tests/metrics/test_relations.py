"""Broken relations: tables whose broken rows are counted by hand, and real ones."""

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.metrics import broken_relations

COLUMNS = ["first", "second", "real", "independent", "synthetic"]
CAPITALS = {"Austria": "Vienna", "France": "Paris", "Italy": "Rome", "Spain": "Madrid"}


def countries(n_rows: int = 400, n_broken: int = 0) -> pd.DataFrame:
    """Make a table of countries and capitals; the first rows have the next capital."""
    place = np.arange(n_rows) % 4
    other = np.where(np.arange(n_rows) < n_broken, (place + 1) % 4, place)
    names, capitals = np.array(list(CAPITALS)), np.array(list(CAPITALS.values()))
    return pd.DataFrame({"country": names[place], "capital": capitals[other]})


def shares(found: pd.DataFrame, first: str, second: str) -> list[float]:
    """Give the three shares of a pair of columns that must be there once."""
    pair = found[(found["first"] == first) & (found["second"] == second)]
    assert len(pair) == 1
    return pair[COLUMNS[2:]].to_numpy(float)[0].tolist()


@pytest.mark.parametrize("n_broken", [0, 1, 37, 400])
def test_a_function_is_broken_by_as_many_rows_as_were_changed(n_broken):
    """Of independent columns with four equal shares 3 of 4 rows break a function."""
    found = broken_relations(countries(), countries(400, n_broken))
    assert found.columns.tolist() == COLUMNS
    expected = [0.0, 0.75, n_broken / 400]
    assert shares(found, "country", "capital") == pytest.approx(expected)
    assert found.attrs["any_relation"] == {"real": 0.0, "synthetic": n_broken / 400}
    assert found.attrs["contains_private_statistics"] is True


def test_values_may_exclude_each_other_where_no_column_is_a_function():
    """The wife, with half as many rows as others, is never male; others are both."""
    role = np.repeat(["wife", "child", "other"], [200, 400, 400])
    sex = np.where(np.arange(1_000) % 2 == 0, "male", "female")
    real = pd.DataFrame({"role": role, "sex": np.where(role == "wife", "female", sex)})
    synthetic = pd.DataFrame({"role": role, "sex": sex})
    # 1/5 of the rows are wives, 2/5 are male; half of the synthetic wives are.
    found = broken_relations(real, synthetic)
    assert shares(found, "role", "sex") == pytest.approx([0.0, 0.08, 0.1])


def test_exceptions_in_real_rows_do_not_make_a_rule():
    """8 of 4,000 real rows have the next capital: 2 of each, where 250 would be."""
    found = broken_relations(countries(4_000, 8), countries(400, 40))
    expected = [8 / 4_000, 0.75, 0.1]
    assert shares(found, "country", "capital") == pytest.approx(expected, abs=1e-4)
    # Where a third of the rows has it, it is as good; the other two are not.
    both = broken_relations(countries(4_000, 1_332), countries(400, 40))
    assert shares(both, "country", "capital") == pytest.approx([0.0, 0.5, 0.0])


def test_a_real_row_does_not_vouch_for_itself():
    """What only one real row has is broken by it, and not by a synthetic row."""
    odd = pd.DataFrame({"x": np.repeat([*"abcd"], 100), "y": np.repeat([*"abcd"], 100)})
    real = pd.concat([odd, pd.DataFrame({"x": ["a"], "y": ["e"]})], ignore_index=True)
    found = broken_relations(real, real)
    own, _, other = shares(found, "x", "y")
    assert own == pytest.approx(1 / 401)
    assert other == 0.0


def test_too_few_rows_or_too_rare_values_are_no_relation():
    """Independent columns must have 50 rows that are absent, and 1 % of the rows."""
    assert broken_relations(countries(64), countries()).empty  # 48
    assert len(broken_relations(countries(68), countries())) == 1  # 51
    for n_rare, n_found in ((180, 0), (220, 1)):
        rare = np.arange(10_000) < n_rare
        table = pd.DataFrame({"rare": rare, "b": rare | (np.arange(10_000) % 2 == 0)})
        assert len(broken_relations(table, table)) == n_found


def test_the_worst_pair_is_first_and_a_row_counts_once():
    """Rows 0..39 break two relations, 40..59 one, and none that of `size`."""
    real = countries().assign(code=lambda t: t["country"].str[:2])
    real["size"] = real["country"].map({name: i for i, name in enumerate(CAPITALS)})
    synthetic = real.assign(capital=countries(400, 60)["capital"])
    synthetic.loc[:39, "code"] = np.roll(real["code"], 1)[:40]
    found = broken_relations(real, synthetic)
    assert len(found) == 6
    assert (found["synthetic"] - found["real"]).is_monotonic_decreasing
    for name, n_broken in {"capital": 60, "code": 40, "size": 0}.items():
        assert shares(found, "country", name)[2] == pytest.approx(n_broken / 400)
    assert found.attrs["any_relation"]["synthetic"] == pytest.approx(60 / 400)


LEVELS = {
    "whole": pd.array([1, 2, None, 4], dtype="Int64"),
    "number": pd.Series([0.5, 1.5, np.nan, 2.5]),
    "kind": pd.Categorical(["a", None, "c", "d"]),
    "time": pd.to_datetime(["2020-01-01", None, "2020-01-02", "2020-01-03"]),
}


@pytest.mark.parametrize("name", LEVELS)
def test_columns_of_all_dtypes(name):
    """A column that follows from the country; with gaps, which are a value too."""
    place, levels = np.arange(400) % 4, pd.Series(LEVELS[name])
    other = np.where(np.arange(400) < 40, (place + 2) % 4, place)
    real, synthetic = (
        countries().assign(own=levels.take(rows).array) for rows in (place, other)
    )
    assert shares(broken_relations(real, synthetic), "country", "own")[2] == 0.1


def test_numbers_close_to_the_curve_do_not_break_it_and_far_ones_do():
    """A parabola, by 32nds of the rows: neither direction of it is monotone."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 20_000)
    real = pd.DataFrame({"x": x, "y": x**2})
    near = real.assign(y=real["y"] + rng.normal(0, 0.005, len(x)).clip(-0.01, 0.01))
    far = real.assign(y=(real["y"] + 0.5) % 1)
    assert shares(broken_relations(real, near), "x", "y")[2] == 0.0
    assert shares(broken_relations(real, far), "x", "y")[2] > 0.95
    # A value among many others that is frequent has no neighbours.
    zero = np.arange(len(x)) % 4 == 0
    real = pd.DataFrame({"zero": zero, "x": np.where(zero, 0.0, x)})
    for wrong in ({"x": real["x"].where(~zero, 1e-3)}, {"zero": False}):
        found = broken_relations(real, real.assign(**wrong))
        assert shares(found, "zero", "x")[2] == 0.25


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n_rows", [60, 500, 5_000])
def test_columns_without_dependence_have_no_relation(n_rows, seed):
    """Rare values, many values, ties and gaps: many combinations are empty by chance.

    But then others have one row, which does not vouch for itself.
    """
    rng = np.random.default_rng([seed, n_rows])
    table = pd.DataFrame(
        {
            f"k{k}": rng.choice(k, n_rows, p=rng.dirichlet(np.full(k, 0.5)))
            for k in (2, 5, 10, 30, 90)
        }
    ).astype(str)
    table["x"] = rng.normal(size=n_rows)
    table["y"] = np.where(rng.random(n_rows) < 0.6, 0.0, rng.exponential(size=n_rows))
    table["z"] = table["x"].sample(frac=1, random_state=1).to_numpy() ** 3
    table = table.mask(rng.random(table.shape) < 0.05)
    found = broken_relations(table, table)
    assert found.empty
    assert found.columns.tolist() == COLUMNS
    assert found.dtypes[COLUMNS[2:]].tolist() == [np.dtype(float)] * 3
    assert found.attrs["any_relation"] == {"real": 0.0, "synthetic": 0.0}


def test_real_rows_that_were_held_out_have_the_rate_of_the_others():
    """Of Adult; independent columns break most of its relations."""
    train, test = load_adult(split=True)
    found = broken_relations(train, test)
    assert shares(found, "education", "education-num")[1] > 0.1
    assert (found["synthetic"] - found["real"]).abs().max() < 0.001
    rates = found.attrs["any_relation"]
    synth = IndependentSynthesizer(epsilon=1.0, target="income", random_state=0)
    apart = broken_relations(train, synth.fit(train).sample(5_000, random_state=0))
    assert apart.attrs["any_relation"]["synthetic"] > 200 * rates["real"]
