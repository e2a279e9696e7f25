"""The plots show what the tables say, in colour and in grey."""

from __future__ import annotations

import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from _comparisons import chosen

FEW = ["GaussianNB"]
BLIND = r"<b>blind</b> & \$x\$"


def line(ax, label):
    """Give the heights of the line with a label."""
    (found,) = (each for each in ax.lines if each.get_label() == label)
    return np.asarray(found.get_ydata())


def labels(ax) -> list[str]:
    """Give the texts of the legend of a figure of our own."""
    (legend,) = ax.figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_tradeoff_draws_the_summary(result):
    ax = result.plot_tradeoff(metric="auprc")
    table = result.summary().set_index(["synthesizer", "epsilon"])["auprc"]
    assert line(ax, BLIND).tolist() == table["<b>blind</b> & $x$"].tolist()
    assert line(ax, "baseline").tolist() == table["baseline"].tolist()
    assert set(line(ax, "real rows")) == {table.iloc[0]}
    assert line(ax, " _copy").tolist() == [table["_copy", math.inf]]
    assert line(ax, "broken").tolist() == table["broken"].dropna().tolist()
    assert {*labels(ax)} == {BLIND, "baseline", "real rows", " _copy", "broken"}
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    assert ticks == ["0.5", "1", "10", "no noise"]
    places = ax.get_xticks()
    assert np.diff(places[:3]) == pytest.approx(np.log10([2, 10]))
    assert places[3] > places[2]


def test_tradeoff_of_setting_c_has_the_real_rows_in_setting_c(result):
    ax = result.plot_tradeoff(setting="C")
    assert set(line(ax, "real rows in Setting C")) == {result.summary()["auroc_C"][0]}
    assert "real rows" not in labels(ax)
    assert ax.get_ylabel() == "AUROC, mean of classifiers"
    public = result.public_part().plot_tradeoff(setting="C")
    assert {*labels(public)} == {BLIND, "baseline", "broken"}


@pytest.mark.parametrize(
    ("setting", "reference", "epsilon"), [("B", "A", 10.0), ("C", "C", None)]
)
def test_classifiers_are_drawn_by_score(result, setting, reference, epsilon):
    """In the order of real rows in the same setting, which have marks of their own."""
    ax = result.plot_classifiers(setting=setting, epsilon=epsilon)
    at = epsilon or 0.5
    assert ax.get_title().startswith(f"epsilon = {at:g}: ")

    def means(**own):
        found = chosen(result.scores, metric="auroc", **own)
        return found.groupby("classifier")["value"].mean()

    real = means(synthesizer="real data", setting=reference).sort_values()
    assert [text.get_text() for text in ax.get_yticklabels()] == real.index.tolist()
    (marks,) = ax.collections
    assert marks.get_offsets()[:, 0].tolist() == real.tolist()
    own = means(synthesizer="baseline", epsilon=at, setting=setting)
    (drawn,) = (each for each in ax.lines if each.get_label() == "baseline")
    assert list(drawn.get_xdata()) == own[real.index].tolist()
    # What has no noise is there at every epsilon.
    of_real = {"B": "real rows", "C": "real rows in Setting C"}[setting]
    assert {*labels(ax)} >= {of_real, BLIND, "baseline", " _copy"}
    if setting == "C":
        public = result.public_part().plot_classifiers(setting="C")
        assert {*labels(public)} == {BLIND, "baseline", "broken"}


def marks_of(ax, number: int) -> dict[str, float]:
    """Give the shares of categories by the marks of a synthesizer, without zeros."""
    names = [text.get_text() for text in ax.get_yticklabels()]
    found = dict(zip(names, ax.lines[number].get_xdata(), strict=True))
    return {name: share for name, share in found.items() if share}


def test_marginals_are_shares(result, tables):
    axes = result.plot_marginals()
    titles = [ax.get_title() for ax in axes]
    assert titles == ["label", "size", "count", "kind", "noise"]
    (kind,) = result.plot_marginals(columns=["kind"])
    names = [text.get_text() for text in kind.get_yticklabels()]
    drawn = dict(zip(names, (bar.get_width() for bar in kind.patches), strict=True))
    assert drawn.pop("(missing)", 0.0) == 0.0  # of synthetic rows only
    shares = tables[1]["kind"].value_counts(normalize=True)
    assert drawn == pytest.approx(shares.to_dict())
    assert len(kind.lines) == 4
    # The marks of the one that copies the first 120 private rows.
    copied = tables[0][:120]
    shares = copied["kind"].value_counts(normalize=True)
    assert marks_of(kind, 2) == pytest.approx(shares.to_dict())
    # Numbers: an area for real rows, and a line for each synthesizer.
    areas = axes[2].patches
    assert [area.get_fill() for area in areas] == [True] + [False] * 4
    for area, column in ((areas[0], tables[1]["count"]), (areas[3], copied["count"])):
        heights, edges, _ = area.get_data()
        inner = dict(zip(edges[1:-2] + 0.5, heights[1:-1], strict=True))
        expected = {v: (column == v).mean() for v in inner}
        assert inner == pytest.approx(expected)
        assert sum(heights) == pytest.approx(1.0)
    (public,) = result.public_part().plot_marginals(columns=["kind"])
    assert len(public.patches) == 0
    assert len(public.lines) == 3


DRAWN = {"tradeoff": {}, "classifiers": {}, "marginals": {"columns": ["size"]}}


@pytest.mark.parametrize("draw", [*DRAWN, "pairs"])
def test_every_figure_has_its_footer(result, draw):
    """On a new figure, and on the caller's, beside what is written there; once."""
    private, options = getattr(result, f"plot_{draw}"), DRAWN.get(draw, {})
    footer = np.ravel(private())[0].figure.get_supxlabel()
    assert "private" in footer
    setting = {"setting": "C"} if draw in ("tradeoff", "classifiers") else {}
    own = getattr(result.public_part(), f"plot_{draw}")(**setting)
    public = np.ravel(own)[0].figure.get_supxlabel()
    assert public not in ("", footer)
    if draw == "pairs":
        figure, axes = plt.subplots(5, 6)
        drawn = private(axes, epsilon=10.0)
        assert drawn.shape == (4, 5)
        assert drawn[3, 4] is axes[3, 4]
        for shape in ((3, 6), (5, 4)):
            with pytest.raises(ValueError, match=r"must have the shape \(4, 5\)\. Got"):
                private(plt.subplots(*shape)[1], epsilon=10.0)
    else:
        figure, axes = plt.subplots(2, 5)
        for ax in axes[0]:
            assert np.ravel(private(ax, **options))[0] is ax
    assert [text.get_text() for text in figure.texts] == [footer]
    figure, ax = plt.subplots()
    figure.supxlabel("of the caller")
    if draw != "pairs":
        private(ax, **options)
        written = [text.get_text() for text in figure.texts]
        assert written == ["of the caller", footer]


def test_synthesizers_are_distinct_without_colour_and_few_are_named(compare, stubs):
    """Seven are named, grey values in order, at least 0.05 apart; no mark twice.

    The best, which have every epsilon; one entry of the legend counts the rest.
    """
    candidates = {f"s{i}": stubs["Blind"](epsilon=1 + i / 10) for i in range(7)}
    candidates["copy"] = stubs["Copy"]()
    result = compare(candidates, n_repeats=1, classifiers=FEW)
    ax = result.plot_tradeoff()
    lines = {each.get_label(): each for each in ax.lines}
    named = set(labels(ax)) & set(candidates)
    assert set(labels(ax)) == named | {"others: 1", "real rows"}
    scores = result.summary().set_index("synthesizer")["auroc"].iloc[1:]
    assert scores[[*named]].min() >= scores.drop([*named]).max()
    own = [lines[name] for name in candidates if name in named]
    colours = [mpl.colors.to_rgb(each.get_color()) for each in own]
    shade = np.dot(colours, [0.299, 0.587, 0.114])
    assert (np.diff(shade) > 0.05).all()
    assert len({each.get_marker() for each in own}) == 7
    grey = [each.get_ydata()[0] for each in ax.lines if each.get_color() == "0.8"]
    assert sorted(grey) == sorted(scores.drop([*named]))
    # A copy of the rows has one place, and the best score.
    several = compare(candidates, epsilons=(1.0, 2.0), n_repeats=1, classifiers=FEW)
    assert "copy" not in labels(several.plot_tradeoff())


def test_panels_hold_the_shares_of_the_rows(result, tables):
    """The panel of real rows, and of the one that copies the first 120 private rows."""
    axes = result.plot_pairs(epsilon=10.0)
    assert axes.shape == (4, 5)
    titles = [ax.get_title() for ax in axes[0]]
    assert titles == ["real rows", "baseline", BLIND, " _copy", "broken"]
    of_label = 0
    for row in axes:
        sides = row[0].get_ylabel(), row[0].get_xlabel()
        cells = [
            [text.get_text() for text in axis.get_ticklabels()]
            for axis in (row[0].yaxis, row[0].xaxis)
        ]
        for ax, table in ((row[0], tables[1]), (row[3], tables[0][:120])):
            part = np.asarray(ax.images[0].get_array())
            assert part.sum() == pytest.approx(1.0)
            assert part.shape == tuple(map(len, cells))
            if "label" in sides:
                axis = sides.index("label")
                expected = table["label"].value_counts(normalize=True)
                drawn = dict(zip(cells[axis], part.sum(axis=1 - axis), strict=True))
                assert drawn == pytest.approx(expected.to_dict())
                of_label += 1
        scales = {ax.images[0].norm.vmax for ax in row}
        assert len(scales) == 1  # one scale of grey for all tables of a row
    assert of_label > 0


def test_without_real_rows_the_synthetic_ones_choose(result):
    """Nothing of the real rows is left: no panel, no choice of pairs or cells."""
    public = result.public_part()
    assert public._real_pairs == []
    axes = public.plot_pairs()
    assert [ax.get_title() for ax in axes[0]] == ["baseline", BLIND, "broken"]


def test_a_column_of_another_kind_leaves_its_panel_empty(compare, stubs, tables):
    """Yes and no as true and false are numbers to the scores, and texts to a plot."""

    class Ones(stubs["Blind"]):
        def sample(self, n_samples, **options):
            table = super().sample(n_samples, **options)
            return table.assign(kind=(table["kind"] == "red").astype(int))

    frames = [t.assign(kind=t["label"] == "yes") for t in tables]
    result = compare({"ones": Ones()}, train=frames[0], test=frames[1], n_repeats=1)
    axes = result.plot_pairs()
    empty = [
        [text.get_text() for text in ax.texts] == ["of another kind"]
        for ax in axes[:, 1]
    ]
    of_kind = ["kind" in (s.name for s in pair.sides) for pair in result._real_pairs]
    assert empty == of_kind
    assert any(empty)


def test_no_more_than_a_thousand_rows_are_kept_for_plots(compare, stubs, tables):
    """Chosen at random, so that of a sorted table the shares are those of all rows.

    A share of 1,000 of n rows has at most sqrt(1/4/1000) of noise: 6 of it are 0.095.
    """
    train = pd.concat([tables[0]] * 5).sort_values("kind")
    result = compare(
        {"copy": stubs["Copy"]()},
        train=train,
        n_samples=len(train),
        settings="C",
        classifiers=["GaussianNB"],
    )
    (ax,) = result.plot_marginals(columns=["kind"])
    assert len(train) > 1_000
    shares, found = train["kind"].value_counts(normalize=True), marks_of(ax, 0)
    assert found == pytest.approx(shares.to_dict(), abs=0.095)
    thousandths = [1_000 * share for share in found.values()]
    assert thousandths == pytest.approx([*map(round, thousandths)])


@pytest.mark.parametrize(
    ("draw", "options", "message"),
    [
        ("tradeoff", {"metric": "accuracy"}, "metric must be one of"),
        ("classifiers", {"setting": "A"}, "setting must be one of"),
        ("classifiers", {"epsilon": 3.0}, "epsilon must be one of"),
        ("pairs", {"epsilon": 3.0}, "epsilon must be one of"),
        ("marginals", {"columns": ["absent"]}, "columns must be some of"),
        ("marginals", {"columns": []}, "Got none instead"),
    ],
)
def test_what_cannot_be_drawn_is_refused(result, draw, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(result, f"plot_{draw}")(**options)


def test_where_there_is_nothing_to_draw_that_is_said(result, compare, stubs):
    with pytest.raises(ValueError, match=r"axes must hold 2 Axes\. Got 1"):
        result.plot_marginals(plt.subplots()[1], columns=["size", "kind"])
    public = result.public_part()
    nothing = compare({"copy": stubs["Copy"]()}, n_repeats=1).public_part()
    for draw, what in (
        (public.plot_tradeoff, "scores 'auroc'"),
        (public.plot_classifiers, "scores 'auroc'"),
        (nothing.plot_marginals, "samples"),
        (nothing.plot_pairs, "samples"),
    ):
        with pytest.raises(ValueError, match=f"at least one run with {what}"):
            draw()
