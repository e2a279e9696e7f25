"""The plots show what the tables say, in colour and in grey."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from tables import chosen

FEW = ["GaussianNB"]
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
    ax = result.plot_tradeoff(setting="C")  # where real rows have other scores
    assert set(line(ax, "real rows in Setting C")) == {result.summary()["auroc_C"][0]}
    assert "real rows" not in labels(ax)


@pytest.mark.parametrize(
    ("setting", "reference", "epsilon"), [("B", "A", 10.0), ("C", "C", None)]
)
def test_classifiers_are_drawn_by_score(result, setting, reference, epsilon):
    """In the order of real rows in the same setting, which have marks of their own."""
    ax = result.plot_classifiers(setting=setting, epsilon=epsilon)
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


def marks_of(ax, number: int) -> dict[str, float]:
    """Give the shares of categories by the marks of a synthesizer, without zeros."""
    names = texts(ax.get_yticklabels())
    found = dict(zip(names, ax.lines[number].get_xdata(), strict=True))
    return {name: share for name, share in found.items() if share}


def test_marginals_are_shares(result, tables):
    """Of real rows, and of the first 120 private rows, which are copied."""
    axes = result.plot_marginals()
    titles = [ax.get_title() for ax in axes]
    assert titles == ["label", "size", "count", "kind", "noise"]
    kind, copied = axes[3], tables[0][:120]
    names = texts(kind.get_yticklabels())
    drawn = dict(zip(names, (bar.get_width() for bar in kind.patches), strict=True))
    assert drawn.pop("(missing)", 0.0) == 0.0  # of synthetic rows only
    shares = tables[1]["kind"].value_counts(normalize=True)
    assert drawn == pytest.approx(shares.to_dict())
    shares = copied["kind"].value_counts(normalize=True)
    assert marks_of(kind, 2) == pytest.approx(shares.to_dict())
    areas = axes[2].patches
    for area, column in ((areas[0], tables[1]["count"]), (areas[3], copied["count"])):
        heights, edges, _ = area.get_data()
        inner = dict(zip(edges[1:-2] + 0.5, heights[1:-1], strict=True))
        expected = {v: (column == v).mean() for v in inner}
        assert inner == pytest.approx(expected)
        assert sum(heights) == pytest.approx(1.0)
    (public,) = result.public_part().plot_marginals(columns=["kind"])
    assert len(public.patches) == 0
    assert len(public.lines) == 3


def test_cells_are_chosen_by_kind(compare, stubs):
    """Lengths of time in days; the twelve most frequent levels, and the others.

    Of pairs the strongest come first, and a cell of numbers is named by its beginning.
    """
    place = np.arange(240)
    levels = [f"l{i:02d}" for i in range(20) for _ in range(20 - i)] + [None] * 30
    start = pd.Timestamp("2020-01-01", tz="Asia/Tokyo")
    table = pd.DataFrame(
        {
            "count": place // 2 + 1,
            "twin": pd.array(place // 2 + 1, dtype="Int64"),
            "when": start + pd.to_timedelta(place % 8, unit="D"),
            "lasts": pd.to_timedelta(36 * (place % 3), unit="h"),
            "level": levels,
            "flag": place % 7 < 3,
            "label": np.where(place % 2, "yes", "no"),
        }
    )
    options = {"settings": "C", "n_repeats": 1, "n_samples": 240}
    result = compare({"copy": stubs["Copy"]()}, train=table, test=table, **options)
    lasts, level, when = result.plot_marginals(columns=["lasts", "level", "when"])
    assert lasts.get_title() == "lasts (days)"
    for ax, shares in ((lasts, [80 / 240] * 3), (when, [30 / 240] * 8)):
        heights, _, _ = ax.patches[0].get_data()
        assert [height for height in heights if height] == pytest.approx(shares)
    rows = {f"l{i:02d}": 20 - i for i in range(12)}
    rows |= {"(other)": sum(range(1, 9)), "(missing)": 30}
    widths = [240 * bar.get_width() for bar in level.patches]
    drawn = dict(zip(texts(level.get_yticklabels()), widths, strict=True))
    assert drawn == pytest.approx(rows)
    strongest = result.plot_pairs()[0, 0]
    assert {strongest.get_xlabel(), strongest.get_ylabel()} == {"count", "twin"}
    tens = map(str, range(10, 120, 10))
    assert texts(strongest.get_yticklabels()) == ["<10", *tens]


@pytest.mark.parametrize("draw", ["tradeoff", "classifiers", "marginals", "pairs"])
def test_every_figure_has_its_footer(result, draw):
    """The public one has another; that of the caller stays beside it."""
    private = getattr(result, f"plot_{draw}")
    footer = np.ravel(private())[0].figure.get_supxlabel()
    assert "private" in footer
    setting = {"setting": "C"} if draw in ("tradeoff", "classifiers") else {}
    own = getattr(result.public_part(), f"plot_{draw}")(**setting)
    assert np.ravel(own)[0].figure.get_supxlabel() not in ("", footer)
    shape = {"marginals": (1, 5), "pairs": (5, 6)}.get(draw, (1, 1))
    figure, axes = plt.subplots(*shape)
    figure.supxlabel("of the caller")
    options = {"epsilon": 10.0} if draw == "pairs" else {}
    assert np.ravel(private(axes, **options))[0] is np.ravel(axes)[0]
    written = texts(figure.texts)
    assert written == ["of the caller", footer]


def test_seven_synthesizers_are_named_and_the_rest_counted(compare, stubs):
    """Those that score best."""
    candidates = {f"s{i}": stubs["Blind"](epsilon=1 + i / 10) for i in range(7)}
    candidates["copy"] = stubs["Copy"]()
    result = compare(candidates, n_repeats=1, classifiers=FEW)
    ax = result.plot_tradeoff()
    named = set(labels(ax)) & set(candidates)
    assert set(labels(ax)) == named | {"others: 1", "real rows"}
    scores = result.summary().set_index("synthesizer")["auroc"].iloc[1:]
    assert scores[[*named]].min() >= scores.drop([*named]).max()
    assert len(named) == 7


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


def test_a_column_of_another_kind_leaves_its_panel_empty(compare, stubs, tables):
    """Yes and no as true and false are numbers to the scores, and texts to a plot."""

    class Ones(stubs["Blind"]):
        def sample(self, n_samples, **options):
            table = super().sample(n_samples, **options)
            return table.assign(kind=(table["kind"] == "red").astype(int))

    frames = [t.assign(kind=t["label"] == "yes") for t in tables]
    result = compare({"ones": Ones()}, train=frames[0], test=frames[1], n_repeats=1)
    for (real, ones), pair in zip(result.plot_pairs(), result.real_pairs, strict=True):
        said = texts(ones.texts)
        of_kind = "kind" in [side.name for side in pair.sides]
        assert (said == ["of another kind"]) == of_kind
        assert len(real.images) == 1


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
    (sample,) = result.samples.values()
    assert len(sample) == 1_000 < len(train)
    drawn, shares = (t["kind"].value_counts(normalize=True) for t in (sample, train))
    assert drawn.to_dict() == pytest.approx(shares.to_dict(), abs=0.095)


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
    for draw, axes in (("marginals", plt.subplots()), ("pairs", plt.subplots(3, 6))):
        with pytest.raises(ValueError, match=r"axes must h.* Got"):
            getattr(result, f"plot_{draw}")(axes[1])
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
