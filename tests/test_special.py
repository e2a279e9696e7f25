"""Values that stand for something: codes amid numbers, an open end amid dates."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from _releases import flow

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer, load
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Datetime, TableSchema

N = 3000
OPEN = pd.Timestamp("9999-12-31")


def coded(seed: int = 0) -> pd.DataFrame:
    """Return a table with codes whose share depends on a category."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
    often = pd.Series(group).map({"a": 0.05, "b": 0.3, "c": 0.6}).to_numpy()
    where = rng.random(N)
    days = np.datetime64("2020-01-01") + rng.integers(0, 1000, N).astype("m8[D]")
    ages, stays = rng.integers(18, 80, N), rng.integers(1, 30, N)
    columns = {
        "pay": np.select([where < often, where > 0.9], [-99999, 99], 100 + 900 * where),
        "age": np.where(rng.random(N) < 0.1, 999, ages).astype(np.int16),
        "end": np.where(rng.random(N) < often, OPEN.to_datetime64(), days),
        "stay": pd.to_timedelta(np.where(rng.random(N) < often, 9999, stays), "D"),
    }
    return pd.DataFrame({"group": group, **columns}).astype({"end": "M8[s]"})


SCHEMA = TableSchema(
    {
        "group": Categorical(["a", "b", "c"]),
        "pay": Continuous(0, 5000, special=[-99999, 99]),
        "age": Continuous(0, 110, integer=True, special=[999, 2**40]),  # int16 has one
        "end": Datetime("2019-06-01", "2024-01-01", special=[OPEN]),
        "stay": Continuous("0D", "60D", special=["9999D"]),
    }
)
CODES = {
    "pay": [-99999, 99],
    "age": [999],
    "end": [OPEN],
    "stay": [pd.Timedelta("9999D")],
}


def test_codes_come_back_with_their_share_and_what_it_depends_on(tmp_path):
    """Of 3,000 rows at epsilon 3, frozen noise: the shares within .02, in a group .07.

    Nothing is beyond the bounds else, the others keep their mean, and dtypes stay.
    """
    table = coded()
    with insecure_randomness(0):
        synth = MarginalSynthesizer(3.0, schema=SCHEMA, random_state=0).fit(table)
    drawn = synth.sample(N, random_state=0)
    assert drawn.dtypes.equals(table.dtypes)
    for name, values in CODES.items():
        usual = [own[~own[name].isin(values)] for own in (table, drawn)]
        spec = SCHEMA.columns[name]
        assert usual[1][name].between(spec.low, spec.high).all()
        means = [own[name].mean() for own in usual]
        scale = usual[0][name].max() - usual[0][name].min()
        assert abs(means[1] - means[0]) < 0.05 * scale
        for value in values:
            real, fake = (own[name] == value for own in (table, drawn))
            assert fake.mean() == pytest.approx(real.mean(), abs=0.02)
            real, fake = real.groupby(table["group"]), fake.groupby(drawn["group"])
            assert (real.mean() - fake.mean()).abs().max() < 0.07
    asked = {"pay": -99999, "end": (pd.Timestamp("9999-01-01"), None)}
    chosen = synth.sample(20, where=asked, random_state=0)
    assert (chosen["pay"] == -99999).all()
    assert (chosen["end"] == OPEN).all()
    assert not (synth.sample(99, where={"pay": (-9, None)})["pay"] < 0).any()
    synth.save(tmp_path / "fit")
    again = load(tmp_path / "fit").sample(99, random_state=1)
    pd.testing.assert_frame_equal(again, synth.sample(99, random_state=1))


def found_by_few(seed: int, share: float, most: int) -> pd.DataFrame:
    """Return a table of which nothing is declared, and a target of whole numbers."""
    rng, where = np.random.default_rng(seed), np.arange(1000) < 1000 * share
    days = np.datetime64("2020-01-01") + rng.integers(0, 1000, 1000).astype("m8[D]")
    columns = {
        "pay": np.where(where, -99999, rng.normal(500, 90, 1000)),
        "age": np.where(where, 999, rng.integers(18, 80, 1000)),
        "end": np.where(where, OPEN.to_datetime64(), days),
        "y": rng.integers(0, most, 1000),
    }
    return pd.DataFrame(columns).astype({"end": "M8[s]"})


def test_codes_and_targets_of_numbers_follow_from_releases():
    """Whether there are codes, their shares, and whether the target has classes."""
    amounts, labels = found_by_few(0, 0.3, 2**20), found_by_few(1, 0.0, 2)
    synth = IndependentSynthesizer(3.0, target="y", random_state=0)
    for table, other in ((amounts, labels), (labels, amounts)):
        assert flow(synth, table, other) == []


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.55])
def test_well_known_codes_are_found_and_take_no_bins_from_the_rest(share):
    """Of 5,000 rows x 9 columns at epsilon 1, nothing declared, frozen noise.

    The mean of the others is right within a tenth, from a tenth of the rows on the
    share within .02; of fewer at least nothing is far off.
    """
    n, rng = 5000, np.random.default_rng(1)
    days = np.datetime64("2012-01-01", "s") + rng.integers(0, 3650, n).astype("m8[D]")
    usual = {"age": rng.integers(18, 80, n), "pay": rng.lognormal(7, 0.5, n).round(2)}
    usual |= {"end": days, "item": rng.integers(1, 6, n)}
    codes = {"age": -99999, "pay": -99999.0, "end": OPEN.to_datetime64(), "item": 9}
    others = {f"x{i}": rng.normal(50, 9, n).round(1) for i in range(5)}
    chosen = {k: np.where(rng.random(n) < share, codes[k], usual[k]) for k in usual}
    table = pd.DataFrame({**chosen, **others}).astype({"end": "M8[s]"})
    with insecure_randomness(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a code of 100 rows may not be sure
        drawn = IndependentSynthesizer(random_state=0).fit(table).sample(n)
    for name, code in codes.items():
        kept = [own[name][own[name] != code] for own in (table, drawn)]
        least = usual[name].min() if name == "end" else 0
        real, fake = ((own - least).mean() for own in kept)
        assert abs(fake / real - 1) < 0.1
        if share >= 0.1:
            assert len(kept[1]) == pytest.approx(len(kept[0]), abs=0.02 * n)


@pytest.mark.parametrize("seed", range(6))
def test_a_code_is_kept_or_named_where_persons_have_several_rows(seed):
    """Of 1,000 rows 6 % have it, the noise is for three rows a person (epsilon 1)."""
    table = pd.DataFrame({f"x{i}": np.arange(1000.0) for i in range(8)})
    few = np.random.default_rng(seed).random(1000) < 0.06
    coded = dict.fromkeys([*table, "pay"], Continuous(0, 5000, special=[-9]))
    table = table.assign(u=table.index // 3, pay=np.where(few, -9, 2000.0))
    for columns in (coded, {}):
        schema = TableSchema(columns, privacy_unit="u", max_rows_per_unit=3)
        synth = IndependentSynthesizer(schema=schema, random_state=0)
        with insecure_randomness(seed), pytest.warns(DegradedResultWarning) as told:
            drawn = synth.fit(table).sample(N)
        assert (drawn["pay"] == -9).mean() > 0.02 or "'pay'" in str(told[0].message)
    assert "codes amid numbers" in synth.plan(1000, dtypes=table.dtypes)["note"][0]


@pytest.mark.parametrize("special", [[99, 99.0001], [9, 9.5], ["9D", "9D 12h"]])
def test_codes_nearer_to_each_other_than_the_unit_are_both_kept(special):
    """The unit is measured. Such fits were lost after the charge, or made them one."""
    column, ends = pd.Series(np.arange(N) % 50 * 1.0), (0, 50)
    if "9D" in special:
        column, ends = pd.to_timedelta(column, "D"), ("0D", "50D")
    spec = Continuous(*ends, special=special)
    column[::5], column[1::5] = spec.special
    synth = IndependentSynthesizer(9.0, schema=TableSchema({"v": spec}))
    drawn = synth.fit(column.to_frame("v")).sample(N)["v"]
    for value in spec.special:
        assert (drawn == value).mean() == pytest.approx(0.2, abs=0.05)
