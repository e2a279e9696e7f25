"""Quality reports: figures are those of the metrics, and the worst come first."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from skdpsynth import TableSchema
from skdpsynth.evaluation import quality_report
from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics import (
    broken_relations,
    column_fidelity,
    default_classifiers,
    marginal_fidelity,
    tstr_scores,
)
from skdpsynth.schema import Continuous, Identifier, Text

RNG = np.random.default_rng(0)


def rows(n, *, broken=False, first=0):
    """Draw rows of two groups that decide a number; where broken, they do not."""
    group = RNG.choice(["a", "b", "c"], n)
    size = np.where(group == "a", 1.0, 5.0) + RNG.random(n)
    if broken:
        size = RNG.permutation(size)
    return pd.DataFrame(
        {
            "id": [f"P{k}" for k in range(first, first + n)],
            "group": group,
            "size": size,
            "other": RNG.integers(0, 9, n),
            "label": np.where(size + RNG.normal(size=n) > 4, "yes", "no"),
        }
    )


REAL, GOOD, BAD = rows(500), rows(400, first=5_000), rows(400, broken=True)


@pytest.fixture(scope="module")
def bad():
    return quality_report(REAL, BAD, target="label")


def test_the_figures_are_those_of_the_metrics(bad):
    real, synthetic = REAL.drop(columns="id"), BAD.drop(columns="id")
    scores = bad.scores["synthetic"]
    options = {"target": "label", "classifiers": ["HistGradientBoosting"]}
    own = tstr_scores(synthetic, real, **options)
    for name in ("auroc", "auprc"):
        assert scores[name] == own.loc["mean", name]
    assert scores["pairs"] == pytest.approx(marginal_fidelity(real, synthetic).mean())
    columns = column_fidelity(real, synthetic)["distance"]
    assert scores["columns"] == columns.mean()
    pd.testing.assert_series_equal(bad.columns["distance"].loc[columns.index], columns)
    found = broken_relations(real, synthetic)
    assert scores["broken"] == found.attrs["any_relation"]["synthetic"] > 0.1
    assert bad.scores.attrs["contains_private_statistics"]


def test_good_rows_are_like_real_ones(bad):
    good = quality_report(REAL, GOOD, target="label").scores
    assert (abs(good["synthetic"] - good["real"])[["c2st", "broken"]] < 0.1).all()
    assert good.loc["c2st", "synthetic"] < 0.6 < bad.scores.loc["c2st", "synthetic"]
    assert bad.scores.loc["c2st", "real"] < 0.6


def test_the_worst_come_first(bad):
    assert bad.pairs.is_monotonic_decreasing
    assert bad.columns["distance"].is_monotonic_decreasing
    assert set(bad.pairs.index[0]) == {"group", "size"}
    text = str(bad)
    assert text.index("| group and size ") < text.index("| group and other ")
    assert text.count("covered by no epsilon") == 1


def test_the_label_is_told_that_is_scored(bad):
    """If a synthetic row has it: of real rows alone it would be a private value."""
    other, rarer = REAL["label"].value_counts().index
    assert f"Predicted against the other: {rarer!r}." in str(bad)
    with pytest.warns(DegradedResultWarning, match="one label only"):
        report = quality_report(REAL, BAD.assign(label=other), target="label")
    assert report.tstr.attrs["pos_label"] is None
    assert "Predicted" not in str(report)


def test_a_table_that_repeats_real_rows_is_named(bad):
    """Of copies and of rows drawn from them; other real rows are not equal."""
    assert not bad.repeated
    assert bad.scores.loc["copies"].tolist() == [0.0, 0.0]
    real = REAL.drop(columns="id")
    for synthetic in (real, real.sample(500, replace=True, random_state=0)):
        with pytest.warns(DegradedResultWarning, match="repeat those of the other"):
            found = quality_report(real, synthetic)
        assert found.repeated
        assert "That is not better than" in str(found)
        assert found.scores.loc["copies"].tolist() == [1.0, 0.0]
    found = quality_report(pd.concat([real, real]), GOOD.drop(columns="id"))
    assert found.scores.loc["copies"].tolist() == [0.0, 1.0]


def test_what_tells_rows_apart_is_left_out(bad):
    assert bad.left_out == ("id",)
    columns = {"id": Identifier(), "other": Text(), "size": Continuous(0, 9)}
    unit = {"privacy_unit": "group", "max_rows_per_unit": 2}
    schema = TableSchema(columns, target="label", **unit)
    for synthetic in (GOOD, GOOD.drop(columns="group")):
        found = quality_report(REAL[:200], synthetic[:200], schema)
        assert set(found.left_out) == {"id", "other", "group"}
        assert set(found.columns.index) == {"size", "label"}


def test_without_a_target_nothing_is_learnt_and_a_number_is_a_target():
    found = quality_report(REAL[:200], GOOD[:200])
    assert found.tstr is None
    assert list(found.scores.index) == ["pairs", "columns", "c2st", "broken", "copies"]
    found = quality_report(REAL, GOOD, target="size")
    assert list(found.scores.index[:2]) == ["r2", "rmse"]
    assert found.scores.loc["r2", "synthetic"] > 0.7
    with pytest.raises(InvalidTableError, match="'nothing', but it is not there"):
        quality_report(REAL, GOOD, target="nothing")


def test_the_panel_is_that_of_the_papers():
    found = quality_report(REAL[:200], GOOD[:200], target="label", panel=True)
    assert set(default_classifiers()) < set(found.tstr.index)
    median = found.tstr.loc[list(default_classifiers())].median()
    assert f"median of all: auroc {median['auroc']:.3f}" in str(found)


@pytest.mark.parametrize("n", [1, 9, 25])
def test_small_tables(n):
    found = quality_report(REAL[:n], GOOD[:n])
    assert found.scores["real"].notna().any() == (n > 20)
    assert "c2st" in found.scores.index or n < 10
    assert str(found)


def test_a_page_and_a_picture(bad, tmp_path):
    page = bad.to_html(tmp_path / "a.html")
    assert page.count("<img ") == 1
    assert bad._repr_html_() in page
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page
    assert "<img" not in bad.to_markdown(tmp_path / "a.md")
    ax = bad.plot(plt.subplots()[1])
    grid = np.asarray(ax.images[0].get_array().filled(np.nan))
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == ["group", "size", "other", "label"]
    assert np.diag(grid).tolist() == bad.columns["distance"][names].tolist()
    assert grid[1, 0] == bad.pairs["group", "size"]


def test_many_columns_are_drawn_by_the_worst():
    wide = pd.DataFrame(RNG.random((60, 45))).add_prefix("c")
    ax = quality_report(wide, wide.assign(c40=wide["c40"] + 9)).plot()
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert len(names) == 32
    assert "c40" in names


@pytest.mark.parametrize("names", [["x"], range(150), [True, False], [None, "x"]])
def test_any_names_and_numbers_of_columns_are_written_and_drawn(names):
    """Of 150 columns 10,000 of 11,175 pairs are scored."""
    values = RNG.integers(0, 3, (2, 40, len(names)))
    real, fake = (pd.DataFrame(own, columns=pd.Index(names)) for own in values)
    report = quality_report(real, fake)
    assert len(names) > 12 or all(f"| {name} " in str(report) for name in names)
    squares = report.plot().images[0].get_array()[:2, :2]
    assert squares.count() == {1: 1, 2: 3}[len(squares)]
