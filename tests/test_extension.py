"""The synthesizer of the guide has unasked what those of the package have."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from skdpsynth import MarginalSynthesizer, Measurements, combine_measurements, extension
from skdpsynth.audit import audit_ledger
from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import PrivacyBudget
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.utils.estimator_checks import parametrize_with_checks

FILE = Path(__file__).parents[1] / "examples" / "aim.py"
_spec = importlib.util.spec_from_file_location("aim", FILE)
sys.modules["aim"] = importlib.util.module_from_spec(_spec)  # where pickle looks
_spec.loader.exec_module(sys.modules["aim"])
AIMSynthesizer = sys.modules["aim"].AIMSynthesizer

short = pytest.mark.usefixtures("short_fits")

NUMBERS = dict.fromkeys("xyzw", Continuous(-5, 5, scale="linear", decimals="any"))
SCHEMA = TableSchema({**NUMBERS, "label": Categorical(["u", "v"])}, target="label")
ROUNDS = 3


def table(seed, n_rows=6_000):
    """In u the columns x and y depend on each other, in v they and z and w do."""
    rng = np.random.default_rng(seed)
    label = np.resize(["u", "v"], n_rows)
    x, y, z, w = rng.standard_normal((4, n_rows))
    y = 0.8 * x + 0.6 * y
    w = np.where(label == "v", 0.8 * z + 0.6 * w, w)
    return pd.DataFrame({"x": x, "y": y, "z": z, "w": w, "label": label})


def make(**parameters):
    given = {"epsilon": 3.0, "schema": SCHEMA, "n_rounds": ROUNDS, "random_state": 0}
    return AIMSynthesizer(**given | parameters)


@pytest.fixture(scope="module")
def own():
    with insecure_randomness(0):
        return make().fit(table(0))


def chosen(measurements, label):
    every = [t for t in measurements.tables() if t.order == 2]
    return [t.columns for t in every if t.class_label == label]


@short
@parametrize_with_checks([AIMSynthesizer(n_rounds=2)])
def test_battery(synthesizer, check):
    check(synthesizer)


def test_a_synthesizer_is_made_of_few_names():
    assert len(extension.__all__) <= 12
    taken = FILE.read_text().split("from skdpsynth.")
    assert [part.split()[0] for part in taken[1:]] == ["datasets", "extension"]


def test_the_worst_pair_is_chosen_first_and_no_pair_twice(own):
    first = {label: chosen(own.measurements_, label) for label in "uv"}
    assert first["u"][0] == ("x", "y")
    assert {*first["v"][:2]} == {("x", "y"), ("z", "w")}
    assert all(len({*pairs}) == len(pairs) == ROUNDS for pairs in first.values())


def test_the_answers_of_a_class_are_one_table_of_pairs(own):
    measured = own.measurements_
    pairs = measured.pairs[1]
    assert len(pairs.pairs) == ROUNDS
    answers = [a for a in measured if a.query.kind == "pairs" and a.scopes == ("v",)]
    for answer in answers:
        assert np.array_equal(pairs.counts[None, answer.query.measured], answer.values)
    again = answers[0]
    with pytest.raises(ValueError, match="pairs"):
        measured.and_more(again)
    other = replace(again, noise_std=2 * again.noise_std)
    without = [a for a in measured if a is not again]
    with pytest.raises(ValueError, match="pairs"):
        Measurements(
            measured.metadata, [*without, other], measured.planned_stds, measured.edges
        )


def test_dependence_is_learnt_with_conditions_too(own):
    drawn = own.sample(8_000, random_state=1)
    ranks = drawn[drawn["label"] == "v"].drop(columns="label").corr(method="spearman")
    # Few steps, and a few bins of each column.
    assert ranks.loc["x", "y"] > 0.5
    assert ranks.loc["z", "w"] > 0.5
    assert abs(ranks.loc["x", "z"]) < 0.15
    high = own.sample(500, where={"label": "v", "x": (1.0, None)}, random_state=1)
    assert (high["x"] >= 1).all()
    assert (high["label"] == "v").all()
    assert high["y"].mean() > 0.5


def test_the_plan_is_what_the_fit_does(own):
    """It allocates its budget once, and by bisection some that may be enough."""
    how = {"autospec": True, "side_effect": AIMSynthesizer._allocate}
    with mock.patch.object(AIMSynthesizer, "_allocate", **how) as allocated:
        plan = make().plan(6_000).set_index("class")
    budgets = {call.args[2] for call in allocated.call_args_list}
    assert len(budgets) == allocated.call_count <= 5
    assert (plan["tables"] == ROUNDS).all()
    for answer in own.measurements_:
        if answer.query.kind == "pairs":
            planned = plan.loc[[*answer.scopes], "table_noise_std"].to_numpy()
            assert answer.noise_std == pytest.approx(planned, rel=0.05)
    few = make(epsilon=0.01).plan(600)
    assert (few["tables"] == 0).all()


@short
def test_every_release_is_in_the_ledger_and_in_the_report():
    own = make().fit(table(0))
    names = [line.name for line in own.privacy_report().entries]
    assert names.count("choice of pairs") == 2 * ROUNDS
    asked = [a.query.name for a in own.measurements_ if a.query.kind == "pairs"]
    assert len(asked) == sum(names.count(name) for name in {*asked}) == 2 * ROUNDS
    assert "choice of pairs" in str(own.privacy_report())
    row = {"x": 4.0, "y": -4.0, "z": 4.0, "w": -4.0, "label": "u"}
    synth = make(n_rounds=1)
    assert not audit_ledger(synth, table(0, 400), row).findings


@short
@pytest.mark.parametrize("field", [None, "noise_std", "mu", "beside", "all", "values"])
def test_an_answer_that_is_kept_back_or_understates_its_noise_ends_the_fit(
    field, monkeypatch
):
    """So do a release whose answer is not there, and values that nobody drew."""

    class Forgetful(AIMSynthesizer):
        def _fit(self, *given):
            model = super()._fit(*given)
            *answers, last = kept = self.measurements_
            if field == "beside":
                left = given[3].remaining_mu() / 2
                given[3].reserve_gaussian("a count", mu=left, sensitivity=1.0)
                return model
            if field == "all":
                del self.measurements_
                return model
            if field == "values":
                return model
            if field is not None:
                answers.append(replace(last, **{field: 0.1 * getattr(last, field)}))
            self.measurements_ = Measurements(
                kept.metadata, answers, kept.planned_stds, kept.edges
            )
            return model

    if field == "values":
        invented = lambda self, *_: np.zeros(self.shape, dtype=self.dtype)  # noqa: E731
        monkeypatch.setattr(extension.Pairs, "release", invented)
    with pytest.raises(ReservationError, match="each answer once"):
        Forgetful(3.0, schema=SCHEMA, n_rounds=1).fit(table(0))


def test_a_card_is_that_of_the_file(own, tmp_path):
    assert "AIMSynthesizer" in own.model_card().to_markdown()
    own.save(tmp_path / "own.skdp")
    again = AIMSynthesizer.load(tmp_path / "own.skdp")
    assert again.n_rounds == ROUNDS
    assert again.model_card().to_markdown() == own.model_card().to_markdown()


def test_measurements_make_the_same_generator_and_are_combined(own, tmp_path):
    own.measurements_.save(tmp_path / "own.json")
    read = Measurements.load(tmp_path / "own.json")
    again = MarginalSynthesizer.from_measurements(read, random_state=0)
    drawn = (one.sample(500, random_state=1) for one in (own, again))
    pd.testing.assert_frame_equal(*drawn)
    # Another site asks what the first one has chosen.
    there = MarginalSynthesizer(3.0, schema=read.schema, design=read, random_state=0)
    with insecure_randomness(1):
        there.fit(table(1))
        elsewhere = make(n_rounds=ROUNDS + 1).fit(table(1)).measurements_
    for label in "uv":
        pairs = [chosen(m, label) for m in (read, there.measurements_)]
        assert pairs[0] == pairs[1]
    both = combine_measurements([read, there.measurements_])
    assert [a.query.kind for a in both].count("pairs") == 2 * ROUNDS
    total = sum(m.pairs[0].counts for m in (read, there.measurements_))
    np.testing.assert_allclose(both.pairs[0].counts, total, rtol=1e-4)
    assert len(MarginalSynthesizer.from_measurements(both).sample(5)) == 5
    with pytest.raises(ValueError, match="design=first"):
        combine_measurements([read, elsewhere])


@pytest.mark.parametrize("name", ["votes", "pairs"])
@pytest.mark.parametrize("share", [-0.1, np.nan, True, 1.0])
def test_shares_of_an_algorithm_are_checked_before_the_charge(name, share):
    def shared(self, table, mu):
        return extension.allocate(table, mu, shares={"choice": 0.1, name: share})

    budget, share = PrivacyBudget(3.0, 1e-5), 0.1 if name == "votes" else share
    kind = type("Greedy", (AIMSynthesizer,), {"_allocate": shared})
    with pytest.raises(ValueError, match=r"of choice, .*than 1.* Got \{.*\}; leave"):
        kind(3.0, schema=SCHEMA, budget=budget).fit(table(0))
    assert budget.spent == (0.0, 0.0)


def test_rounds_are_a_number():
    with pytest.raises(ValueError, match=r"n_rounds must be an int >= 1\. Got 0"):
        make(n_rounds=0).fit(table(0))
