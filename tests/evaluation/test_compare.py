"""What a comparison runs, what it reports, and what it does when something fails."""

from __future__ import annotations

import math
import pickle
import time
import warnings

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend
from sklearn.naive_bayes import GaussianNB

from skdpsynth import GANSynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.evaluation import compare_synthesizers
from skdpsynth.evaluation._runs import Job, Task, run
from skdpsynth.exceptions import (
    DegradedResultWarning,
    InvalidTableError,
    TiedScoresWarning,
)
from skdpsynth.metrics import (
    column_fidelity,
    feature_ranking_agreement,
    pair_fidelity,
    setting_scores,
    synthetic_ranking_agreement,
    tstr_scores,
    two_sample_scores,
)
from skdpsynth.schema import Categorical, TableSchema

# With so few rows a label that nobody declares is not found.
SCHEMA = TableSchema({"label": Categorical(["no", "yes"])}, target="label")
FLOOR = IndependentSynthesizer(schema=SCHEMA)
REST = ["LogisticRegression", "DecisionTreeClassifier"]


def values(result, name, setting, metric, epsilon=math.inf, repeat=0):
    """Give the scores of one run by classifier."""
    scores = result.scores
    chosen = scores[
        (scores["synthesizer"] == name)
        & ((scores["epsilon"] == epsilon) | scores["epsilon"].isna())
        & (scores["repeat"] == repeat)
        & (scores["setting"] == setting)
        & (scores["metric"] == metric)
    ]
    return chosen.set_index("classifier")["value"]


def test_scores_are_those_of_the_metrics(compare, stubs, tables) -> None:
    """A synthesizer that copies the private rows: every score is known."""
    train, test = tables
    # So many rows that Setting C, too, holds out the same share as `setting_scores`.
    test = test[:60]
    result = compare(
        {"copy": stubs["Copy"]()},
        test=test,
        n_samples=len(train),
        n_repeats=1,
        fidelity=True,
    )
    expected = setting_scores(
        train, test, train, target="label", classifiers=["GaussianNB", *REST]
    ).drop("mean")
    assert len(train) / (len(train) + len(test)) == 0.8
    for metric in ("auroc", "auprc"):
        for setting in "BC":
            found = values(result, "copy", setting, metric)
            assert found.to_dict() == pytest.approx(expected[setting][metric].to_dict())
        # Setting A learns from all real rows, but in another order.
        real = values(result, "real data", "A", metric)
        assert np.allclose(real, expected["A"][metric], atol=0.1)
        (agreement,) = values(result, "copy", "AC", f"sra_{metric}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TiedScoresWarning)
            assert agreement == synthetic_ranking_agreement(real, expected["C"][metric])
    fidelity = {
        "ks": column_fidelity(test, train)["distance"].drop(["kind", "label"]).mean(),
        "tv": column_fidelity(test, train)["distance"][["kind", "label"]].mean(),
        "missing": column_fidelity(test, train)["missing"].mean(),
        "pairs": pair_fidelity(test, train)["difference"].mean(),
        "two_sample_forest": two_sample_scores(test, train)["RandomForestClassifier"],
        "feature_ranking": feature_ranking_agreement(train, train, target="label"),
    }
    for metric, value in fidelity.items():
        (found,) = values(result, "copy", "fidelity", metric)
        assert found == pytest.approx(value), metric


def test_the_reference_has_as_many_rows_as_are_sampled(compare, stubs, tables) -> None:
    """Setting A learns from `n_samples` real rows, others in every repeat."""
    train, test = tables
    result = compare({"copy": stubs["Copy"]()}, n_samples=100)
    seen = [values(result, "real data", "A", "auroc", repeat=i) for i in range(2)]
    assert (seen[0] != seen[1]).any()
    whole = compare({"copy": stubs["Copy"]()}, n_samples=10_000)
    of_all = tstr_scores(train, test, target="label", classifiers=["GaussianNB"])
    found = values(whole, "real data", "A", "auroc")["GaussianNB"]
    assert found == pytest.approx(of_all["auroc"]["GaussianNB"])


def test_every_run_is_made_once_with_its_epsilon_and_seed(compare, stubs) -> None:
    blind, copy = stubs["Blind"](verbose=0), stubs["Copy"]()
    result = compare([blind, copy, stubs["Blind"]()], epsilons=(0.5, 2.0, 0.5))
    names = ["Blind", "Copy", "Blind 2"]
    runs = result.runs[result.runs["synthesizer"] != "real data"]
    made = runs.groupby("synthesizer", sort=False)["epsilon"].apply(list).to_dict()
    assert made == dict(
        zip(names, [[0.5, 2.0] * 2, [math.inf] * 2, [0.5, 2.0] * 2], strict=True)
    )
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


def test_summary_is_mean_spread_and_rank(compare, stubs) -> None:
    result = compare({"a": stubs["Copy"](), "b": stubs["Blind"]()}, n_repeats=3)
    summary = result.summary().set_index("synthesizer")
    assert summary.index.tolist() == ["real data", "a", "b"]
    for name, epsilon in (("a", math.inf), ("b", 1.0)):
        by_repeat = [
            values(result, name, "B", "auprc", epsilon, i).mean() for i in range(3)
        ]
        assert summary["auprc"][name] == pytest.approx(np.mean(by_repeat))
        assert summary["auprc_sd"][name] == pytest.approx(np.std(by_repeat, ddof=1))
    assert summary["rank"].tolist()[1:] == [1, 1]  # each alone at its epsilon
    both = compare({"a": stubs["Blind"](), "b": stubs["Blind"]()})
    assert sorted(both.summary()["rank"].dropna()) == [1.5, 1.5]  # the same rows
    assert summary["n_runs"].tolist() == [3, 3, 3]
    assert (summary[["fit_s", "sample_s"]].dropna() >= 0).all(axis=None)


def test_one_failing_run_is_a_row(compare, stubs) -> None:
    with pytest.warns(DegradedResultWarning, match=r"2 of 10 runs failed \(bad\)"):
        result = compare(
            {"bad": stubs["Broken"](), "good": stubs["Blind"]()}, epsilons=(1.0, 2.0)
        )
    failed = result.runs[result.runs["error"] != ""]
    assert failed["error"].unique().tolist() == ["RuntimeError: no rows for <this> one"]
    assert (failed["synthesizer"] == "bad").all()
    assert (failed["epsilon"] == 1.0).all()
    scored = result.scores[result.scores["synthesizer"] == "bad"]
    assert set(scored["epsilon"]) == {2.0}
    summary = result.summary().set_index(["synthesizer", "epsilon"])
    assert summary["n_failed"]["bad"].tolist() == [2, 0]
    assert math.isnan(summary["auroc"]["bad", 1.0])


def test_a_failure_after_the_fit_keeps_what_was_spent(compare, stubs) -> None:
    class Late(stubs["Blind"]):
        def sample(self, n_samples, **options):
            return super().sample(n_samples, **options).drop(columns="kind")

    with pytest.warns(DegradedResultWarning, match="runs failed"):
        result = compare({"late": Late()}, n_repeats=1)
    (run,) = result.runs[result.runs["synthesizer"] == "late"].to_dict("records")
    assert run["error"].startswith("InvalidTableError: Expected the columns")
    assert run["epsilon_spent"] == 0.9
    assert run["fit_s"] >= 0
    assert "late" not in set(result.scores["synthesizer"])


def test_warnings_of_a_run_are_kept_beside_it(compare, stubs) -> None:
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


def test_settings_can_be_left_out(compare, stubs) -> None:
    only_c = compare({"blind": stubs["Blind"]()}, settings="C", n_repeats=1)
    assert set(only_c.scores["setting"]) == {"C"}
    assert set(only_c.runs["synthesizer"]) == {"blind"}
    assert "rank" not in only_c.summary()
    only_b = compare({"blind": stubs["Blind"]()}, settings="AB", n_repeats=1)
    assert set(only_b.scores["setting"]) == {"A", "B"}


def test_real_synthesizers_spend_what_they_claim(compare, tables) -> None:
    """The budget is charged once per fit; the one without epsilon runs at infinity."""
    budget = PrivacyBudget(epsilon=5.0, delta=1e-3)
    result = compare(
        {
            "floor": IndependentSynthesizer(schema=SCHEMA, budget=budget),
            "gan": GANSynthesizer(schema=SCHEMA, n_iter=1, n_generator_steps=1),
        },
        epsilons=(0.5, 1.0),
        classifiers=["GaussianNB"],
    )
    assert budget.spent[0] == pytest.approx(3.0, rel=1e-3)
    assert len(budget.charges) == 4
    runs = result.runs.set_index("synthesizer")
    assert runs.loc["floor", "epsilon_spent"].sum() == pytest.approx(3.0, rel=1e-3)
    assert (runs.loc["gan", "epsilon_spent"] == math.inf).all()
    assert (runs["error"] == "").all()
    with pytest.warns(DegradedResultWarning, match="4 of 6 runs failed"):
        refused = compare(
            {"floor": IndependentSynthesizer(budget=budget)}, epsilons=(3.0, 4.0)
        )
    errors = refused.runs["error"][refused.runs["error"] != ""]
    assert errors.str.startswith("BudgetExceededError").all()


class Counting(ThreadingBackend):
    """A backend that somebody registered; counts the tasks it is given."""

    tasks = 0
    supports_return_generator = False

    def submit(self, func, callback=None):
        Counting.tasks += 1
        return super().submit(func, callback)


class Nosy(GaussianNB):
    """Notes how many workers joblib would give it."""

    workers: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.workers.append(joblib.effective_n_jobs(4))
        return super().fit(X, y)


def test_threads_leave_the_warnings_of_the_process_alone(compare, stubs) -> None:
    """Each run has its own, and none changes what is shown afterwards."""

    class Warns(stubs["Blind"]):
        def fit(self, X):
            for _ in range(3):
                warnings.warn(f"seed {self.random_state}", UserWarning, stacklevel=1)
                time.sleep(0.01)
            return super().fit(X)

    before = list(warnings.filters), warnings.showwarning
    with joblib.parallel_config(backend="threading"):
        result = compare({"w": Warns()}, n_jobs=2, n_repeats=4, settings="C")
    assert (list(warnings.filters), warnings.showwarning) == before
    seeds = [seed for _, seed, _ in stubs["Blind"].fits]
    expected = {f"UserWarning: seed {seed}" for seed in seeds}
    assert len(expected) == 4
    # Classifiers may warn too, and so may libraries.
    found = [set(text.splitlines()) & expected for text in result.runs["warned"]]
    assert sorted(map(len, found)) == [1] * 4
    assert set().union(*found) == expected


@pytest.mark.parametrize("backend", ["threading", "counting"])
def test_a_run_is_one_task_of_any_backend(compare, stubs, backend) -> None:
    """Also of one that cannot hand over results one by one; the order is kept."""
    joblib.register_parallel_backend("counting", Counting)
    Counting.tasks = 0
    Nosy.workers.clear()
    alone = compare({"blind": stubs["Blind"]()}, classifiers={"nb": Nosy()})
    with joblib.parallel_config(backend=backend):
        result = compare(
            {"blind": stubs["Blind"]()}, classifiers={"nb": Nosy()}, n_jobs=2
        )
    assert result.scores.equals(alone.scores)
    assert set(Nosy.workers) == {1}
    if backend == "counting":
        assert Counting.tasks == 4  # two repeats of the reference and of the run


def test_a_run_travels(tables) -> None:
    """What is sent to a worker can be pickled, and what comes back is small."""
    job = Job("floor", FLOOR, 1.0, 0, 0)
    task = Task("label", 120, "BC", ["GaussianNB"], None, None, fidelity=False)
    function, *arguments = pickle.loads(pickle.dumps((run, job, task, *tables)))
    record = function(*arguments)
    assert record.facts["error"] == ""
    assert len(pickle.dumps(record)) < 20_000


@pytest.mark.nightly
def test_processes_give_the_same_rows(compare) -> None:
    """Real rows come to them as read-only files; noise differs, the rest does not."""
    options = {"classifiers": ["GaussianNB"], "epsilons": (5.0,)}
    with joblib.parallel_config(backend="loky", max_nbytes=1_000):
        result = compare([FLOOR], n_jobs=2, **options)
    assert (result.runs["error"] == "").all()
    keys = ["synthesizer", "repeat", "setting", "classifier", "metric"]
    assert result.scores[keys].equals(compare([FLOOR], **options).scores[keys])


@pytest.mark.nightly
# Starting a cluster warns about ports and unclosed sockets of its own.
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_takes_the_runs(compare, tmp_path) -> None:
    """Two worker processes; every run comes back, and to the folder."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask", wait_for_workers_timeout=60),
    ):
        result = compare([FLOOR], fidelity=True, epsilons=(1, 10), folder=tmp_path)
        assert len(client.ncores()) == 2
    assert (result.runs["error"] == "").all()
    assert len(list(tmp_path.glob("*.json"))) == len(result.runs) == 6


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilons": ()}, ValueError, "epsilons must hold positive"),
        ({"epsilons": (1.0, -1.0)}, ValueError, "epsilons must hold positive"),
        ({"n_repeats": 0}, ValueError, "n_repeats must be an integer of at least 1"),
        ({"n_samples": 1}, ValueError, "n_samples must be an integer of at least 2"),
        ({"settings": "AD"}, ValueError, "settings must be letters"),
        ({"settings": ""}, ValueError, "settings must be letters"),
        ({"random_state": None}, ValueError, "random_state must be an integer"),
        ({"classifiers": ["Nothing"]}, ValueError, "'classifiers' parameter"),
        ({"synthesizers": {}}, ValueError, "at least one synthesizer"),
        ({"synthesizers": {"real data": 1}}, ValueError, "called 'real data'"),
        ({"synthesizers": {"a": "text"}}, TypeError, "unfitted synthesizers"),
        ({"synthesizers": [IndependentSynthesizer]}, TypeError, "under the name"),
    ],
)
def test_bad_input_is_refused_before_the_first_fit(
    tables, changes, error, message
) -> None:
    options = {"synthesizers": [IndependentSynthesizer()]} | changes
    with pytest.raises(error, match=message):
        compare_synthesizers(train=tables[0], test=tables[1], target="label", **options)


def test_other_columns_are_refused(compare, stubs, tables) -> None:
    with pytest.raises(InvalidTableError, match="columns of 'train' in 'test'"):
        compare([stubs["Blind"]()], test=tables[1].drop(columns="kind"))


def test_progress_counts_runs(compare, stubs, capsys) -> None:
    compare([stubs["Blind"]()], verbose=1)
    assert "4/4" in capsys.readouterr().err
    compare([stubs["Blind"]()])
    assert capsys.readouterr().err == ""
