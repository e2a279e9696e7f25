"""PATETripleGANSynthesizer learns, plans and behaves as its documentation says."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from skdpsynth import IndependentSynthesizer, PATETripleGANSynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers._class_gan import WholeTable
from skdpsynth.synthesizers._pate_triplegan_plan import TripleSettings, plan_class

LABELS = list("uvwx")
SIGNS = {"u": 1, "v": -1, "w": 1, "x": -1}
FACTORS = {"init": "marginals"}
MODES = [{}, {"desensitization": "dpsgd"}]


def make_schema(n_classes=2):
    return TableSchema(
        {
            "a": Continuous(-6, 10, scale="linear", decimals="any"),
            "b": Continuous(-6, 6, scale="linear", decimals="any"),
            "y": Categorical(LABELS[:n_classes]),
        },
        target="y",
    )


def make_table(n_rows, n_classes=2, seed=0, unlabelled=0.2):
    """Mean of a = twice the class, correlation +0.9 or -0.9 by class."""
    rng = np.random.default_rng(seed)
    member = rng.integers(n_classes, size=n_rows)
    sign = np.where(member % 2 == 0, 0.9, -0.9)
    a, rest = rng.standard_normal((2, n_rows))
    b = sign * a + math.sqrt(1 - 0.81) * rest
    labels = np.array(LABELS, dtype=object)[member]
    labels[rng.random(n_rows) < unlabelled] = None
    return pd.DataFrame({"a": a + 2 * member, "b": b, "y": labels})


def dependence(synthesizer, n_rows=4000):
    """Correlation in each class, times the sign that it has in the table."""
    rows = synthesizer.sample(n_rows, sampling_strategy="balanced", random_state=0)
    return [
        SIGNS[label] * float(np.corrcoef(part["a"], part["b"])[0, 1])
        for label, part in rows.groupby("y")
    ]


# --- It learns -------------------------------------------------------------------


@pytest.mark.parametrize("start", [FACTORS, {"init": "random", "n_iter": 8}], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_dependence_within_each_of_three_classes_is_learnt(mode, start):
    table = make_table(3000, n_classes=3, seed=2)
    with insecure_randomness(0):
        synthesizer = PATETripleGANSynthesizer(
            epsilon=math.inf,
            schema=make_schema(3),
            random_state=0,
            latent_dim=2,
            n_teachers=100,
            **mode,
            **start,
        ).fit(table)
    assert min(dependence(synthesizer)) > 0.4


@pytest.mark.statistical
@pytest.mark.parametrize("mode", [*MODES, *(m | FACTORS for m in MODES)], ids=str)
def test_it_beats_independent_columns_at_epsilon_2(mode):
    """Secure noise; independent columns have 0 +- 0.023 in 2,000 rows of a class.

    0.2 is more than eight of these standard deviations away: below 1e-15.
    """
    table, schema = make_table(30_000, seed=1), make_schema()
    settings = {"epsilon": 2.0, "schema": schema, "random_state": 0}
    ours = PATETripleGANSynthesizer(**settings, **mode, n_teachers=400).fit(table)
    floor = IndependentSynthesizer(**settings).fit(table)
    assert ours.epsilon_ <= 2
    assert min(dependence(ours)) > 0.2
    assert np.abs(dependence(floor)).max() < 0.2


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_unlabelled_rows_do_little_harm(mode):
    """With most rows unlabelled, and with their weight ten times the default."""
    table = make_table(6000, seed=4, unlabelled=0.7)
    found = []
    for weight in (0.0, 0.5):
        with insecure_randomness(3):
            found.append(
                min(
                    dependence(
                        PATETripleGANSynthesizer(
                            epsilon=math.inf,
                            schema=make_schema(),
                            unlabelled_weight=weight,
                            n_teachers=100,
                            random_state=0,
                            **mode,
                        ).fit(table)
                    )
                )
            )
    assert found[1] > found[0] - 0.25


# --- Kinds of rows ---------------------------------------------------------------


@pytest.mark.usefixtures("short_fits")
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("unlabelled", [0.0, 0.5, 1.0])
def test_every_share_of_unlabelled_rows_works(unlabelled, mode):
    table = make_table(300, unlabelled=unlabelled)
    synthesizer = PATETripleGANSynthesizer(
        epsilon=5.0, schema=make_schema(), n_iter=2, n_generator_steps=2, **mode
    ).fit(table)
    assert synthesizer.sample(20)["y"].notna().all()
    assert 4.99 < synthesizer.epsilon_ <= 5.0


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_without_a_target_there_is_one_class(mode):
    table = make_table(2000).drop(columns="y")
    synthesizer = PATETripleGANSynthesizer(epsilon=5.0, n_iter=2, **mode).fit(table)
    assert list(synthesizer.sample(3)) == ["a", "b"]
    names = {entry.name for entry in synthesizer.privacy_report().entries}
    assert not any("unlabelled" in name or "classifier" in name for name in names)


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("n_rows", [2, 7])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_tiny_tables(n_rows, mode):
    table = make_table(n_rows, unlabelled=0.0)
    table.loc[1:, "y"] = None
    for more in ({}, {"n_iter": 1}):
        synthesizer = PATETripleGANSynthesizer(schema=make_schema(), **mode, **more)
        assert len(synthesizer.fit(table).sample(4)) == 4


# --- Plans -----------------------------------------------------------------------


def plan_of(counts, **parameters):
    synthesizer = PATETripleGANSynthesizer(schema=make_schema(), **parameters)
    return synthesizer.plan(sum(counts.values()), class_counts=counts).set_index(
        "class"
    )


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_class_trains_if_it_can_pay(mode):
    """On pairs where it is asked to: the tables know what it could learn."""
    assert (plan_of({"u": 100_000, "v": 100_000}, **mode)["n_iter"] == 0).all()
    mode = {"init": "marginals"} | mode
    large = plan_of({"u": 100_000, "v": 100_000}, **mode)
    assert (large["n_iter"] > 0).all()
    mixed = plan_of({"u": 100_000, "v": 20}, **mode)
    assert mixed["n_iter"]["u"] == large["n_iter"]["u"]
    assert mixed["n_iter"]["v"] == 0
    asked = plan_of({"u": 100_000, "v": 20}, n_iter=2, **mode)
    assert (asked["n_iter"] == 2).all()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("n_rows", "least"), [(200_000, 0.9), (20, 1.0)])
@pytest.mark.parametrize("pairs", [False, True])
def test_training_takes_little_from_the_start(n_rows, least, pairs, mode):
    """Of the squared mu; and a class that does not train gives them all."""
    form = "pairs" if pairs else "marginals"
    whole = WholeTable(form, 0, 2, n_classes=2, largest=float(n_rows))
    settings = TripleSettings.of(PATETripleGANSynthesizer(**mode))
    plan = plan_class("u", float(n_rows), 0.3, whole, settings, 1e-7)
    assert (plan.n_iter == 0) == (plan.mu_classifier == 0) == (pairs or least == 1.0)
    training = plan.n_iter * plan.mu_step**2
    if plan.n_iter and mode:
        training *= plan.n_queries
    start = plan.mu_marginals**2 + plan.mu_pairs**2
    spent = start + plan.mu_classifier**2 + training
    assert spent == pytest.approx(0.3**2)
    assert least <= start / 0.3**2 <= 1.0
    assert bool(plan.mu_pairs) == (pairs and n_rows > 20)


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("mode", [m | FACTORS for m in MODES], ids=str)
def test_unlabelled_rows_are_heard_if_one_class_trains(mode):
    table = make_table(30_000, n_classes=2, seed=3)
    rare = table["y"].eq("v") & (np.arange(len(table)) % 1000 > 0)
    table = table[~rare]
    synthesizer = PATETripleGANSynthesizer(
        schema=make_schema(), n_generator_steps=5, **mode
    ).fit(table)
    loadings = [part["loadings"] for part in synthesizer.generator_.parameters]
    assert loadings[0].any()
    assert not loadings[1].any()
    payers = {
        (entry.name, entry.scope) for entry in synthesizer.privacy_report().entries
    }
    names = {name for name, scope in payers if scope == "rows without a label"}
    assert names == {"unlabelled rows of each class", "unlabelled rows' gradients"}
    assert {n for n, scope in payers if scope == "class 'v'"} <= {
        "coarse marginals",
        "marginals",
    }


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_classes_that_do_not_train_are_independent(init):
    table = make_table(60)
    synthesizer = PATETripleGANSynthesizer(schema=make_schema(), init=init).fit(table)
    assert synthesizer.n_iter_ == 0
    _, arrays = synthesizer.generator_.to_state()
    for c in range(2):  # which can pay for no pairs either
        assert not arrays[f"generator.{c}.loadings"].any()
    names = {entry.name for entry in synthesizer.privacy_report().entries}
    assert names <= {"class counts", "coarse marginals", "marginals"}


def test_a_poor_plan_warns():
    """The counts are declared: noise cannot make the classes look large."""
    counts = dict.fromkeys(LABELS[:2], 10)
    schema = TableSchema(make_schema().columns, target="y", class_counts=counts)
    with pytest.warns(DegradedResultWarning):
        PATETripleGANSynthesizer(schema=schema).fit(make_table(20))


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_noise_multiplier_fixes_the_rounds(mode):
    counts = {"u": 50_000, "v": 50_000}
    fewer, more = (
        plan_of(counts, noise_multiplier=noise, batch_size=16, **mode)["n_iter"].min()
        for noise in (200.0, 400.0)
    )
    assert 0 < fewer < more
    with pytest.raises(ValueError, match="determine each other"):
        plan_of(counts, noise_multiplier=9.0, n_iter=3, **mode)


# --- Files -----------------------------------------------------------------------


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_save_and_load(mode, tmp_path):
    synthesizer = PATETripleGANSynthesizer(
        epsilon=5.0, schema=make_schema(), n_iter=2, **mode
    ).fit(make_table(2000))
    synthesizer.save(tmp_path / "file")
    loaded = PATETripleGANSynthesizer.load(tmp_path / "file")
    pd.testing.assert_frame_equal(
        loaded.sample(50, random_state=1), synthesizer.sample(50, random_state=1)
    )
    for name in ("epsilon_", "n_iter_"):
        assert getattr(loaded, name) == getattr(synthesizer, name)
    np.testing.assert_array_equal(loaded.n_teachers_, synthesizer.n_teachers_)


@pytest.mark.parametrize(
    "parameters",
    [{"hidden_dims": (0,)}, {"hidden_dims": (2.5,)}, {"unlabelled_weight": 1.0}],
    ids=str,
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        PATETripleGANSynthesizer(**parameters).fit(make_table(30))


@pytest.mark.usefixtures("short_fits")
def test_torch_is_left_as_it_was():
    state = torch.random.get_rng_state()
    PATETripleGANSynthesizer(
        epsilon=5.0, schema=make_schema(), n_iter=1, random_state=3
    ).fit(make_table(2000))
    assert torch.equal(state, torch.random.get_rng_state())
