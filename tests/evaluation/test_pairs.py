"""Pairs of columns: which are shown, and what their cells hold."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from skdpsynth.evaluation._marginals import (
    Pair,
    PlainColumn,
    Side,
    plain_columns,
    strongest_pairs,
)
from skdpsynth.evaluation._plots import PRIVATE_FOOTER, PUBLIC_FOOTER

BLIND = r"<b>blind</b> & \$x\$"


def shown(ax) -> np.ndarray:
    """Give the shares that a panel shows."""
    (image,) = ax.images
    return np.asarray(image.get_array())


def ticks(ax) -> tuple[list[str], list[str]]:
    """Give the labels of both axes."""
    return tuple(
        [text.get_text() for text in axis.get_ticklabels()]
        for axis in (ax.yaxis, ax.xaxis)
    )


def names(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.first.name, pair.second.name) for pair in pairs]


def test_the_strongest_pairs_come_first() -> None:
    """By construction: equal, half noise, and columns that nothing depends on."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, 2000)
    noisy = np.where(rng.random(2000) < 0.5, label, rng.integers(0, 4, 2000))
    table = pd.DataFrame(
        {
            "x": rng.normal(size=2000),
            "g": pd.Series(label).map(dict(enumerate("abcd"))),
            "noisy": noisy,
            "z": rng.normal(size=2000),
            "label": label * 10.0,
        }
    )
    found = names(strongest_pairs(plain_columns(table), "label"))
    assert found[0] == ("g", "label")
    assert set(found[1:3]) == {("g", "noisy"), ("noisy", "label")}
    assert len(found) == 4
    two = plain_columns(table[["g", "label"]])
    assert names(strongest_pairs(two, "label")) == [("g", "label")]


def test_of_many_columns_the_first_and_the_target_are_looked_at() -> None:
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(50, 60))).add_prefix("c")
    wide["c50"] = wide["c51"]  # the strongest, but too far behind
    wide["label"] = wide["c3"]
    assert names(strongest_pairs(plain_columns(wide), "label"))[0] == ("c3", "label")


def test_cells_and_their_names() -> None:
    numbers = PlainColumn("n", "number", [float(v) for v in range(1, 81)] + [None])
    side = Side.of(numbers)
    assert side.labels() == [
        "<10", "10", "20", "30", "40", "50", "60", "70", "(missing)"
    ]  # fmt: skip
    assert np.bincount(side.codes(numbers)).tolist() == [9, *[10] * 6, 11, 1]
    days = PlainColumn("t", "time", [0.0, 1.0, 2.0, 3.0] * 5)
    assert Side.of(days).labels()[:2] == ["<1970-01-02", "1970-01-02"]
    assert Side.of(PlainColumn("c", "number", [5.0] * 9)).labels() == [
        "all", "(missing)"
    ]  # fmt: skip
    texts = PlainColumn("g", "category", [*"aaab", None])
    assert Side.of(texts).labels() == ["a", "b", "(other)", "(missing)"]
    money = PlainColumn("m", "number", [1234.5] * 4 + [2e9] * 4)
    assert Side.of(money).labels() == ["<2e+09", "2e+09", "(missing)"]


def test_panels_hold_the_shares_of_the_rows(result, tables) -> None:
    """The panel of real rows, and of the one that copies the first 120 private rows."""
    axes = result.plot_pairs(epsilon=10.0)
    assert axes.shape == (4, 5)
    titles = [ax.get_title() for ax in axes[0]]
    assert titles == ["real rows", "floor", BLIND, " _copy", "broken"]
    checked = 0
    for row in axes:
        levels = ticks(row[0])
        of = (row[0].get_ylabel(), row[0].get_xlabel())
        for ax, table in ((row[0], tables[1]), (row[3], tables[0][:120])):
            part = shown(ax)
            assert part.sum() == pytest.approx(1.0)
            assert part.shape == tuple(map(len, levels))
            for side, axis in zip(of, (1, 0), strict=True):
                if side != "label":
                    continue
                expected = table["label"].value_counts(normalize=True)
                drawn = dict(zip(levels[1 - axis], part.sum(axis=axis), strict=True))
                assert drawn == pytest.approx(expected.to_dict())
                checked += 1
        scales = {ax.images[0].norm.vmax for ax in row}
        assert len(scales) == 1  # one scale of grey for all tables of a row
    assert checked > 0


def test_joint_shares_by_a_crosstab(compare, stubs, tables) -> None:
    result = compare({"copy": stubs["Copy"]()}, n_repeats=1)
    pair = next(p for p in result._real_pairs if p.second.name == "label")
    test = tables[1]
    codes = pair.first.codes(
        next(c for c in plain_columns(test) if c.name == pair.first.name)
    )
    expected = pd.crosstab(codes, test["label"], normalize=True)
    used = np.unique(codes)
    levels = list(pair.second.cells.levels)
    assert pair.shares[used, :2] == pytest.approx(expected[levels].to_numpy())
    again = pair.shares_of(plain_columns(test))
    assert again == pytest.approx(pair.shares)


def test_without_real_rows_the_synthetic_ones_choose(result) -> None:
    """Nothing of the real rows is left: no panel, no choice of pairs or cells."""
    public = result.public_part()
    assert public._real_pairs == []
    axes = public.plot_pairs()
    assert [ax.get_title() for ax in axes[0]] == ["floor", BLIND, "broken"]
    assert axes[0, 0].figure.get_supxlabel() == PUBLIC_FOOTER
    assert result.plot_pairs()[0, 0].figure.get_supxlabel() == PRIVATE_FOOTER


def test_own_axes_and_their_footer(result) -> None:
    figure, axes = plt.subplots(5, 6)
    drawn = result.plot_pairs(axes, epsilon=10.0)
    assert drawn.shape == (4, 5)
    assert drawn[3, 4] is axes[3, 4]
    assert PRIVATE_FOOTER in [text.get_text() for text in figure.texts]
    for shape in ((3, 6), (5, 4)):
        with pytest.raises(
            ValueError, match=r"axes must have the shape \(4, 5\)\. Got"
        ):
            result.plot_pairs(plt.subplots(*shape)[1], epsilon=10.0)
    with pytest.raises(ValueError, match="epsilon must be one of"):
        result.plot_pairs(epsilon=3.0)


def test_nothing_to_draw_is_refused(compare, stubs) -> None:
    nothing = compare({"copy": stubs["Copy"]()}, n_repeats=1).public_part()
    with pytest.raises(ValueError, match="at least one run with samples"):
        nothing.plot_pairs()


def test_a_column_of_another_kind_leaves_its_panel_empty(compare, stubs) -> None:
    """Yes and no as true and false are numbers to the scores, and texts to a plot."""

    class Ones(stubs["Blind"]):
        def sample(self, n_samples, **options):
            table = super().sample(n_samples, **options)
            return table.assign(kind=(table["kind"] == "red").astype(int))

    frames = [
        table.assign(kind=table["label"] == "yes")
        for table in (stubs_table(240, 0), stubs_table(160, 1))
    ]
    result = compare({"ones": Ones()}, train=frames[0], test=frames[1], n_repeats=1)
    axes = result.plot_pairs()
    empty = [
        [text.get_text() for text in ax.texts] == ["of another kind"]
        for ax in axes[:, 1]
    ]
    of_kind = ["kind" in (p.first.name, p.second.name) for p in result._real_pairs]
    assert empty == of_kind
    assert any(empty)


def stubs_table(n_rows: int, seed: int) -> pd.DataFrame:
    """Make a table like that of the other tests."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "size": rng.normal(label, 1.0),
            "count": rng.poisson(2 + label),
            "kind": "red",
            "noise": rng.normal(size=n_rows),
            "label": np.where(label, "yes", "no"),
        }
    )
