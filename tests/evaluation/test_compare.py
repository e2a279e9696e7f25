"""What a comparison runs, reports, refuses, and does when something fails."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from tables import YES_OR_NO, chosen

from skdpsynth import GANSynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.evaluation import compare_synthesizers
from skdpsynth.exceptions import DegradedResultWarning, TiedScoresWarning
from skdpsynth.metrics import (
    default_classifiers,
    feature_ranking_agreement,
    marginal_fidelity,
    synthetic_only_scores,
    synthetic_ranking_agreement,
    tstr_scores,
    two_sample_scores,
)

pytestmark = pytest.mark.usefixtures("few_trees")

BOOSTING = HistGradientBoostingClassifier(max_iter=5, random_state=0)  # `few_trees`
FIDELITY = {"settings": "C", "fidelity": True}
REST = ["LogisticRegression", "DecisionTreeClassifier"]


def values(result, name, setting, metric, epsilon=math.inf, repeat=0):
    """Give the scores of one run by classifier."""
    own = {"synthesizer": name, "repeat": repeat, "setting": setting, "metric": metric}
    found = chosen(result.scores, **own)
    found = found[found["epsilon"].isin([epsilon, math.nan])]
    return found.set_index("classifier")["value"]


def test_scores_are_those_of_the_metrics(compare, stubs, tables):
    """A synthesizer that copies the private rows: every score is known."""
    train, test = tables
    options = {"n_samples": len(train), "n_repeats": 1, "fidelity": True}
    result = compare({"copy": stubs["Copy"]()}, **options)
    options = {"target": "label", "classifiers": ["GaussianNB", *REST]}
    expected = {
        "B": tstr_scores(train, test, **options).drop("mean"),
        "C": synthetic_only_scores(train, **options).drop("mean"),
    }
    for metric in ("auroc", "auprc"):
        for setting in "BC":
            found = values(result, "copy", setting, metric)
            assert found.to_dict() == pytest.approx(expected[setting][metric].to_dict())
        # Setting A learns from all real rows, but in another order.
        real = values(result, "real data", "A", metric)
        assert np.allclose(real, expected["B"][metric], atol=0.1)
        (agreement,) = values(result, "copy", "AC", f"sra_{metric}")
        with warnings.catch_warnings(action="ignore", category=TiedScoresWarning):
            assert agreement == synthetic_ranking_agreement(real, expected["C"][metric])
    fidelity = {
        "two_way": marginal_fidelity(test, train).mean(),
        "c2st": two_sample_scores(test, train, classifiers={"own": BOOSTING})["own"],
        "feature_ranking": feature_ranking_agreement(train, train, target="label"),
    }
    for metric, value in fidelity.items():
        (found,) = values(result, "copy", "fidelity", metric)
        assert found == pytest.approx(value), metric


def test_rows_that_break_a_relation_of_the_test_table(compare, stubs, tables):
    """A tenth of the training rows, which are copied, has the letter of another kind.

    Real rows of another table break as many. Without a relation there is no share.
    """
    train, test = (t.assign(letter=t["kind"].str[0]) for t in tables)
    train.loc[:23, "letter"] = train["kind"][:24].map({"red": "g"}).fillna("r")
    options = {"n_repeats": 1, "n_samples": len(train), "fidelity": True}
    options["classifiers"] = ["GaussianNB"]
    result = compare({"copy": stubs["Copy"]()}, train=train, test=test, **options)
    summary = result.summary().set_index("synthesizer")["broken"]
    assert summary.to_dict() == pytest.approx({"real data": 0.1, "copy": 0.1})
    assert "broken" not in result.public_part().summary()
    assert "broken" not in compare({"copy": stubs["Copy"]()}, **options).summary()


def test_gradient_boosting_leads_where_it_is_scored(compare, stubs):
    """It is scored by default, and not part of the mean."""
    panel = ["GaussianNB", "HistGradientBoosting"]
    result = compare({"copy": stubs["Copy"]()}, classifiers=panel, n_repeats=1)
    summary = result.summary().set_index("synthesizer")
    lead = ["epsilon", "boosting_auroc", "boosting_auprc"]
    assert summary.columns[:3].tolist() == lead
    for metric in ("auroc", "auprc"):
        own = values(result, "copy", "B", metric)
        assert summary[f"boosting_{metric}"]["copy"] == own["HistGradientBoosting"]
        assert summary[metric]["copy"] == own["GaussianNB"]
    scored = compare({"copy": stubs["Copy"]()}, classifiers=None, n_repeats=1).scores
    twelve = {*default_classifiers(), "HistGradientBoosting"}
    assert twelve <= set(scored["classifier"])


def test_a_target_that_is_a_number_has_r2_and_rmse(stubs, tables):
    """A copy of the rows, once more: `size` follows from the label, and has gaps."""
    train, test = (table.dropna() for table in tables)
    panel = ["Ridge", "KNeighborsRegressor"]
    made = {"copy": stubs["Copy"](), "baseline": IndependentSynthesizer()}
    options = {"n_repeats": 1, "n_samples": len(train), "fidelity": True}
    options["classifiers"] = panel
    result = compare_synthesizers(made, train, test, "size", **options)
    assert (result.runs["error"] == "").all()
    expected = tstr_scores(train, test, target="size", classifiers=panel).drop("mean")
    for metric in ("r2", "rmse"):
        found = values(result, "copy", "B", metric)
        assert found.to_dict() == pytest.approx(expected[metric].to_dict())
    summary = result.summary().set_index("synthesizer")
    assert summary.columns[1:6].tolist() == ["two_way", "c2st", "rank", "r2", "rmse"]
    assert {"r2_C", "rmse_C", "sra_r2", "feature_ranking"} <= set(summary)
    assert result.plot_classifiers(metric="rmse").get_xlabel().startswith("RMSE")


def test_the_reference_agrees_as_its_own_rows_do(compare, stubs, tables):
    """Its own rows in Setting C, against Setting A of the same repeat."""
    result = compare({"blind": stubs["Blind"]()}, n_repeats=2)
    agreements = []
    for repeat, (_, seed, _) in enumerate(stubs["Blind"].fits):
        drawn = tables[0].sample(120, random_state=seed)
        options = {"target": "label", "classifiers": ["GaussianNB", *REST]}
        own = tstr_scores(drawn, tables[1], **options)["auroc"].drop("mean")
        alone = synthetic_only_scores(drawn, **options)["auroc"].drop("mean")
        for setting, scores in {"A": own, "C": alone}.items():
            found = values(result, "real data", setting, "auroc", repeat=repeat)
            assert found.to_dict() == pytest.approx(scores.to_dict())
        (found,) = values(result, "real data", "AC", "sra_auroc", repeat=repeat)
        assert found == synthetic_ranking_agreement(own, alone)
        agreements.append(found)
    summary = result.summary().set_index("synthesizer")
    assert summary["sra_auroc"]["real data"] == pytest.approx(np.mean(agreements))
    assert summary["rank"].isna().tolist() == [True, False]


@pytest.fixture
def references(compare, stubs, monkeypatch):
    """Give the rows that Setting A learns from in each repeat."""
    drawn = []

    def noted(train, *others, **options):
        drawn.append(train)
        return tstr_scores(train, *others, **options)

    monkeypatch.setattr("skdpsynth.evaluation._runs.tstr_scores", noted)

    def call(**options):
        drawn.clear()
        compare([stubs["Blind"]()], settings="A", **options)
        return list(drawn)

    return call


def test_the_reference_has_the_counts_of_the_classes(references, stubs, tables):
    """As many rows of each class as are asked for, or all; none of them twice."""
    train = tables[0]
    rare = train[train["label"] == "yes"][:15]
    train = pd.concat([train[train["label"] == "no"], rare])
    train = train.assign(noise=np.arange(len(train)))
    train.index = [0] * len(train)  # says nothing about the place of a row
    strategy = {"no": 90, "yes": 30, "unknown": 0}
    drawn = references(sampling_strategy=strategy, train=train)
    assert stubs["Blind"].strategies == [strategy] * 2  # reach `sample` too
    for rows in drawn:
        assert rows["label"].value_counts()[["no", "yes"]].tolist() == [90, 15]
        assert rows["noise"].is_unique
        assert rows.equals(train.iloc[rows["noise"]])
    # Others in each repeat, and the same in the next comparison.
    assert set(drawn[0]["noise"]) != set(drawn[1]["noise"])
    again = references(sampling_strategy=strategy, train=train)
    assert all(a.equals(b) for a, b in zip(drawn, again, strict=True))


def test_every_run_is_made_once_with_its_epsilon_and_seed(compare, stubs):
    blind, copy = stubs["Blind"](verbose=0), stubs["Copy"]()
    other = type("Blind", (stubs["Blind"],), {})()
    result = compare([blind, copy, other], epsilons=(0.5, 2.0, 0.5))
    names = ["Blind", "Copy", "Blind 2"]
    runs = result.runs[result.runs["synthesizer"] != "real data"]
    made = runs.groupby("synthesizer", sort=False)["epsilon"].apply(list).to_dict()
    both = [0.5, 2.0] * 2
    assert made == dict(zip(names, [both, [math.inf] * 2, both], strict=True))
    # The same seed for all in a repeat, another in the next; never the caller's object.
    seeds = [seed for _, seed, _ in stubs["Blind"].fits]
    assert len(seeds) == 8
    assert len(set(seeds[:4])) == len(set(seeds[4:])) == 1
    assert seeds[0] != seeds[-1]
    assert {target for *_, target in stubs["Blind"].fits} == {"label"}
    assert blind.get_params() == stubs["Blind"]().get_params()
    # 2 repeats x (3 settings of classifiers x 3 x 2 metrics, and 2 agreements).
    spent = runs.set_index("synthesizer")["epsilon_spent"]
    assert spent["Blind"].tolist() == pytest.approx([0.45, 1.8] * 2)
    assert spent["Copy"].isna().all()
    per_run = result.scores.groupby(["synthesizer", "epsilon", "repeat"]).size()
    assert (per_run == 2 * 3 * 2 + 2).all()
    assert len(per_run) == len(runs)


def test_summary_is_mean_spread_and_rank(compare, stubs):
    result = compare({"a": stubs["Copy"](), "b": stubs["Blind"]()}, n_repeats=3)
    summary = result.summary().set_index("synthesizer")
    assert summary.index.tolist() == ["real data", "a", "b"]
    for name, epsilon in (("a", math.inf), ("b", 1.0)):
        own = (values(result, name, "B", "auprc", epsilon, i) for i in range(3))
        by_repeat = [found.mean() for found in own]
        assert summary["auprc"][name] == pytest.approx(np.mean(by_repeat))
        assert summary["auprc_sd"][name] == pytest.approx(np.std(by_repeat, ddof=1))
    assert summary["rank"].tolist()[1:] == [1, 1]  # each alone at its epsilon
    both = compare({"a": stubs["Blind"](), "b": stubs["Blind"]()})
    assert sorted(both.summary()["rank"].dropna()) == [1.5, 1.5]  # the same rows
    assert summary["n_runs"].tolist() == [3, 3, 3]


def test_one_failing_run_is_a_row(compare, stubs):
    """A failure after the fit keeps what was spent."""

    class Late(stubs["Blind"]):
        def sample(self, n_samples, **options):
            return super().sample(n_samples, **options).drop(columns="kind")

    synthesizers = {"bad": stubs["Broken"](), "good": stubs["Blind"](), "late": Late()}
    with pytest.warns(DegradedResultWarning, match=r"6 of 14 runs failed \(bad, late"):
        result = compare(synthesizers, epsilons=(1.0, 2.0))
    failed = result.runs[result.runs["error"] != ""].set_index("synthesizer")
    errors = failed.loc["bad", "error"].unique().tolist()
    assert errors == ["RuntimeError: no rows for <this> one"]
    assert (failed.loc["bad", "epsilon"] == 1.0).all()
    late = failed.loc["late"]
    assert late["error"].str.startswith("InvalidTableError: Expected the columns").all()
    assert late["epsilon_spent"].tolist() == pytest.approx([0.9, 1.8] * 2)
    scored = result.scores.groupby("synthesizer")["epsilon"].unique()
    assert scored["bad"].tolist() == [2.0]
    assert "late" not in scored
    summary = result.summary().set_index(["synthesizer", "epsilon"])
    assert summary["n_failed"]["bad"].tolist() == [2, 0]
    assert math.isnan(summary["auroc"]["bad", 1.0])


def test_warnings_of_a_run_are_kept_beside_it(compare, stubs):
    """A table of one label cannot be learnt from: B is a guess, C has no scores."""

    class OneLabel(stubs["Blind"]):
        def sample(self, n_samples, **options):
            return super().sample(n_samples, **options).assign(label="no")

    result = compare({"one": OneLabel()}, n_repeats=1)
    (run,) = result.runs[result.runs["synthesizer"] == "one"].to_dict("records")
    assert run["error"] == ""
    texts = run["warned"].splitlines()
    assert texts[0].startswith("DegradedResultWarning: The training table of Setting B")
    assert texts[1].endswith("no scores in Setting C.")
    assert len(values(result, "one", "C", "auroc", 1.0)) == 0
    assert (values(result, "one", "B", "auroc", 1.0) == 0.5).all()


def test_settings_can_be_left_out(compare, stubs):
    only_c = compare({"blind": stubs["Blind"]()}, settings="C", n_repeats=1)
    assert set(only_c.scores["setting"]) == {"C"}
    assert set(only_c.runs["synthesizer"]) == {"blind"}
    assert "rank" not in only_c.summary()
    # Fidelity has a reference, which is scored in C then, and compared with nothing.
    fidelity = compare({"blind": stubs["Blind"]()}, n_repeats=1, **FIDELITY)
    assert set(fidelity.scores["setting"]) == {"C", "fidelity"}
    assert len(values(fidelity, "real data", "C", "auroc")) == 3
    only_b = compare({"blind": stubs["Blind"]()}, settings="AB", n_repeats=1)
    assert set(only_b.scores["setting"]) == {"A", "B"}


@pytest.mark.usefixtures("short_fits")
def test_real_synthesizers_spend_what_they_claim(compare, tables):
    """The budget is charged once per fit; the one without epsilon runs at infinity."""
    budget = PrivacyBudget(epsilon=5.0, delta=1e-3)
    baseline = IndependentSynthesizer(schema=YES_OR_NO, budget=budget)
    made = {"baseline": baseline, "gan": GANSynthesizer(schema=YES_OR_NO, n_iter=1)}
    result = compare(made, epsilons=(0.5, 1.0), classifiers=["GaussianNB"])
    assert budget.spent[0] == pytest.approx(3.0, rel=1e-3)
    assert len(budget.charges) == 4
    runs = result.runs.set_index("synthesizer")
    assert runs.loc["baseline", "epsilon_spent"].sum() == pytest.approx(3.0, rel=1e-3)
    assert (runs.loc["gan", "epsilon_spent"] == math.inf).all()
    assert (runs["error"] == "").all()
    with pytest.warns(DegradedResultWarning, match="4 of 6 runs failed"):
        refused = compare({"baseline": baseline}, epsilons=(3.0, 4.0))
    errors = refused.runs["error"][refused.runs["error"] != ""]
    assert errors.str.startswith("BudgetExceededError").all()


def test_a_run_cannot_change_the_table_of_another(compare, stubs, tables):
    """Columns that a synthesizer drops, adds or replaces are its own."""

    class Careless(stubs["Blind"]):
        def fit(self, X):
            assert X.equals(tables[0])
            X["row"], X["noise"] = range(len(X)), 0.0
            X.pop("kind")
            return super().fit(X)

    train = tables[0].copy()
    result = compare({"careless": Careless()}, train=train)
    assert (result.runs["error"] == "").all()
    assert train.equals(tables[0])


def test_costs_are_those_of_fit_and_sample(compare, stubs, monkeypatch, capsys):
    """Seconds by a clock that only the synthesizer moves; no bar but in a terminal."""
    clock = [0.0]

    class Costly(stubs["Blind"]):
        def fit(self, X):
            clock[0] += 5.0
            return super().fit(X)

        def sample(self, n_samples, **options):
            clock[0] += 2.0
            return super().sample(n_samples, **options)

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    with pytest.warns(FutureWarning, match="verbose is deprecated"):
        runs = compare({"costly": Costly()}, settings="C", verbose=1).runs
    assert capsys.readouterr().err == ""
    assert runs[["fit_s", "sample_s", "score_s"]].to_numpy().tolist() == [[5, 2, 0]] * 2


BASELINE = IndependentSynthesizer()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"epsilons": e}, "list of positive numbers") for e in ((1.0, -1.0), 2.0)),
        ({"n_repeats": 0}, "n_repeats must be an integer of at least 1"),
        *(({"settings": own}, "settings must be letters") for own in ("AD", "")),
        ({"random_state": None}, "random_state must be an integer"),
        ({"classifiers": ["Nothing"]}, "'classifiers' parameter"),
        ({"synthesizers": {}}, "at least one synthesizer"),
        ({"synthesizers": {"real data": 1}}, "other than 'real data'"),
        ({"synthesizers": {1: BASELINE, "1": BASELINE}}, "name of its own"),
        ({"synthesizers": BASELINE}, r"into a list\.$"),
        ({"synthesizers": {"a": "text"}}, "unfitted synthesizers"),
        ({"sampling_strategy": "even"}, "Got 'even' instead"),
        ({"sampling_strategy": {"no": 0.5, "yes": 0.4}}, "their sum is 1"),
        ({"target": "noise", "sampling_strategy": "balanced"}, "must be None for a t"),
        # Tables that no run could score.
        ({"test": {"label": "no"}}, "at least two labels"),
        ({"test": {"noise": np.inf}}, "finite values in the column"),
        ({"test": {"noise": "x"}}, "column 'noise' to be of one kind"),
        ({"test": {"more": 1}}, "columns of 'train' in 'test'"),
        ({"pos_label": "maybe"}, "one of the labels in 'test'"),
        # Setting C and fidelity alone need no two labels, but rows to tell apart.
        (FIDELITY | {"n_samples": 9}, "10 rows.* but got 9"),
    ],
)
def test_bad_input_is_refused_before_the_first_fit(stubs, tables, changes, message):
    """A budget would be charged for nothing otherwise, once for each run."""
    options = {"synthesizers": [stubs["Blind"]()], "target": "label"} | changes
    options["test"] = tables[1].assign(**changes.get("test", {}))
    with pytest.raises((ValueError, TypeError), match=message):
        compare_synthesizers(train=tables[0], **options)
    assert stubs["Blind"].fits == []
