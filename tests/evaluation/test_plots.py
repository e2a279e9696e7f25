"""The plots show what the tables say, in colour and in grey."""

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from tables import chosen

FEW = ["GaussianNB"]
PLACE = np.arange(240)
DAYS = pd.to_timedelta(PLACE % 3, unit="D")
NEW_YEAR = pd.Timestamp("2020-01-01", tz="Asia/Tokyo")
# Twenty categories, the most frequent first, and none.
LEVELS = [f"l{i:02d}" for i in range(20) for _ in range(20 - i)] + [None] * 30
BLIND = r"<b>blind</b> & \$x\$"


def line(ax, label):
    """Give the heights of the line with a label."""
    (found,) = (each for each in ax.lines if each.get_label() == label)
    return np.asarray(found.get_ydata())


def texts(labels) -> list[str]:
    return [text.get_text() for text in labels]


def labels(ax) -> list[str]:
    """Give the texts of the legend of a figure of our own."""
    (legend,) = ax.figure.legends
    return texts(legend.get_texts())


def test_tradeoff_draws_the_summary(result):
    ax = result.plot_tradeoff(metric="auprc")
    table = result.summary().set_index(["synthesizer", "epsilon"])["auprc"]
    assert line(ax, BLIND).tolist() == table["<b>blind</b> & $x$"].tolist()
    assert set(line(ax, "real rows")) == {table.iloc[0]}
    assert line(ax, " _copy").tolist() == [table["_copy", math.inf]]
    assert line(ax, "broken").tolist() == table["broken"].dropna().tolist()
    assert {*labels(ax)} == {BLIND, "baseline", "real rows", " _copy", "broken"}
    ticks = texts(ax.get_xticklabels())
    assert ticks == ["0.5", "1", "10", "no noise"]


def in_c(result):
    """Leave out Setting B, so that C is drawn, where real rows have other scores."""
    return replace(result, scores=result.scores[result.scores["setting"] != "B"])


def test_without_setting_b_c_is_drawn(result):
    with pytest.warns(FutureWarning, match="setting is deprecated"):
        ax = in_c(result).plot_tradeoff(setting="C")
    assert set(line(ax, "real rows in Setting C")) == {result.summary()["auroc_C"][0]}
    assert "real rows" not in labels(ax)


@pytest.mark.parametrize(
    ("setting", "reference", "epsilon"), [("B", "A", 10.0), ("C", "C", None)]
)
def test_classifiers_are_drawn_by_score(result, setting, reference, epsilon):
    """In the order of real rows in the same setting, which have marks of their own."""
    own = in_c(result) if setting == "C" else result
    ax = own.plot_classifiers(epsilon=epsilon)
    at = epsilon or 0.5
    assert ax.get_title().startswith(f"epsilon = {at:g}: ")

    def means(**of):
        found = chosen(result.scores, metric="auroc", **of)
        return found.groupby("classifier")["value"].mean()

    real = means(synthesizer="real data", setting=reference).sort_values()
    assert texts(ax.get_yticklabels()) == real.index.tolist()
    (marks,) = ax.collections
    assert marks.get_offsets()[:, 0].tolist() == real.tolist()
    own = means(synthesizer="baseline", epsilon=at, setting=setting)
    (drawn,) = (each for each in ax.lines if each.get_label() == "baseline")
    assert list(drawn.get_xdata()) == own[real.index].tolist()
    # What has no noise is there at every epsilon.
    assert {*labels(ax)} >= {BLIND, "baseline", " _copy"}


def test_old_names_work_and_warn(result, tmp_path):
    with pytest.warns(FutureWarning, match="Plot columns of `samples`") as caught:
        assert len(result.plot_marginals(columns=["kind", "size"])) == 2
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning, match="axes is deprecated"):
        assert result.plot_pairs(axes=None).shape[0] == 4
    with pytest.warns(FutureWarning, match=r"Use scores\.to_csv"):
        result.to_csv(tmp_path / "scores.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "scores.csv"), result.scores)
    with pytest.warns(FutureWarning, match="repeats"):
        found = result.repeats("real data", math.nan, "A", "auroc")
    assert found.mean() == pytest.approx(result.summary()["auroc"][0])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(result, "nothing")  # noqa: B009


@pytest.mark.parametrize(
    ("column", "title", "cells"),
    [
        (PLACE // 2 + 1, "twin", ["<10", *map(str, range(10, 120, 10))]),
        (1.5 * DAYS, "twin (days)", ["<1.5", "1.5", "3"]),
        (NEW_YEAR + DAYS, "twin", ["<2020-01-01", "2020-01-01", "2020-01-02"]),
        (LEVELS, "twin", [*(f"l{i:02d}" for i in range(12)), "(other)", "(missing)"]),
    ],
)
def test_cells_are_chosen_by_kind(compare, stubs, column, title, cells):
    """Of two equal columns, which are the strongest pair; lengths of time are days."""
    table = pd.DataFrame({"it": column, "twin": column})
    table["label"] = np.where(PLACE % 2, "yes", "no")
    options = {"settings": "C", "n_repeats": 1, "n_samples": 240}
    result = compare({"copy": stubs["Copy"]()}, train=table, test=table, **options)
    strongest = result.plot_pairs()[0, 0]
    sides = strongest.xaxis, strongest.yaxis
    assert title in [side.get_label_text() for side in sides]
    for side in sides:
        assert texts(side.get_ticklabels()) == cells


@pytest.mark.parametrize("draw", ["tradeoff", "classifiers", "pairs"])
def test_every_figure_has_its_footer(result, draw):
    """The public one has another; that of the caller stays beside it."""
    private = getattr(result, f"plot_{draw}")
    footer = np.ravel(private())[0].figure.get_supxlabel()
    assert "private" in footer
    own = getattr(result.public_part(), f"plot_{draw}")()
    assert np.ravel(own)[0].figure.get_supxlabel() not in ("", footer)
    if draw == "pairs":
        return
    figure, ax = plt.subplots()
    figure.supxlabel("of the caller")
    assert private(ax) is ax
    assert texts(figure.texts) == ["of the caller", footer]


def test_panels_hold_the_shares_of_the_rows(result, tables):
    """The panel of real rows, and of the one that copies the first 120 private rows."""
    axes = result.plot_pairs(epsilon=10.0)
    titles = [ax.get_title() for ax in axes[0]]
    assert titles == ["real rows", "baseline", BLIND, " _copy", "broken"]
    # Of the public part no real row is left: no panel, no choice of pairs or cells.
    public = result.public_part()
    assert len(public.real_pairs) == 0
    titles = [ax.get_title() for ax in public.plot_pairs()[0]]
    assert titles == ["baseline", BLIND, "broken"]
    sides = [(row[0].get_ylabel(), row[0].get_xlabel()) for row in axes]
    place = next(at for at, own in enumerate(sides) if "label" in own)
    row, axis = axes[place], sides[place].index("label")
    for ax, table in ((row[0], tables[1]), (row[3], tables[0][:120])):
        part = np.asarray(ax.images[0].get_array())
        side = (row[0].yaxis, row[0].xaxis)[axis]
        cells = texts(side.get_ticklabels())
        expected = table["label"].value_counts(normalize=True)
        drawn = dict(zip(cells, part.sum(axis=1 - axis), strict=True))
        assert drawn == pytest.approx(expected.to_dict())


@pytest.mark.parametrize("empty", [False, True])
def test_columns_of_another_dtype_are_drawn_too(compare, stubs, tables, empty):
    """1 and 0 are the cells of booleans; a real column may lack all values."""

    class Ones(stubs["Blind"]):
        def sample(self, n_samples, **options):
            table = super().sample(n_samples, **options)
            return table.assign(kind=(table["label"] == "yes").astype(int))

    train, test = (
        t.assign(kind=np.nan if empty else t["label"] == "yes") for t in tables
    )
    result = compare({"ones": Ones()}, train=train, test=test, n_repeats=1)
    assert (result.runs["error"] == "").all()
    (row, *_) = result.plot_pairs()
    sides = [ax_side for ax in row for ax_side in (ax.xaxis, ax.yaxis)]
    cells = [text for side in sides for text in texts(side.get_ticklabels())]
    assert ({"True", "False"} <= {*cells}) is not empty
    assert "(other)" not in cells or empty


def test_no_more_than_a_thousand_rows_are_kept_for_plots(compare, stubs, tables):
    """Chosen at random, so that of a sorted table the shares are those of all rows.

    A share of 1,000 of n rows has at most sqrt(1/4/1000) of noise: 6 of it are 0.095.
    """
    train = pd.concat([tables[0]] * 5).sort_values("kind")
    options = {"train": train, "n_samples": len(train), "settings": "C"}
    result = compare({"copy": stubs["Copy"]()}, classifiers=FEW, **options)
    (sample,) = result.samples.values()
    assert len(sample) == 1_000 < len(train)
    drawn, shares = (t["kind"].value_counts(normalize=True) for t in (sample, train))
    assert drawn.to_dict() == pytest.approx(shares.to_dict(), abs=0.095)


def test_what_cannot_be_drawn_is_refused(result):
    with pytest.raises(ValueError, match="metric must be one of"):
        result.plot_tradeoff(metric="accuracy")
    for draw in (result.plot_classifiers, result.plot_pairs):
        with pytest.raises(ValueError, match="epsilon must be one of"):
            draw(epsilon=3.0)


def test_where_there_is_nothing_to_draw_that_is_said(result, compare, stubs):
    public = replace(result, scores=result.scores[:0])
    nothing = compare({"copy": stubs["Copy"]()}, n_repeats=1).public_part()
    for draw, what in (
        (public.plot_tradeoff, "scores 'auroc'"),
        (public.plot_classifiers, "scores 'auroc'"),
        (nothing.plot_pairs, "samples"),
    ):
        with pytest.raises(ValueError, match=f"at least one run with {what}"):
            draw()
