"""DP-CGAN's privacy argument: influence, flow and ledger, with broken twins.

The twins are the defects of the published versions (DP-CGAN as in the thesis and its
notebook): labels and numbers of the fakes from the real batch, clipped means of
several rows, shuffled batches, the realised size as divisor, scaling by the data,
seeded noise. Each is caught here or in `tests/nn/test_dp_sgd.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from _small_table import (
    COLUMNS,
    COUNTED,
    all_rows,
    assert_equal_results,
    frozen_start,
    make_table,
)
from _twins import after_encoding
from skdpsynth.nn._cells import SeenCells
from skdpsynth.nn._discriminator import LinearDiscriminator

from skdpsynth import DPCGANSynthesizer, DPGANSynthesizer
from skdpsynth.nn import _discriminator, _dp_sgd, _discriminator
from skdpsynth.nn._discriminator import Discriminator
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.privacy import _aggregators, _tables
from skdpsynth.privacy._calibration import gdp_mu
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import TableSchema
from skdpsynth.synthesizers import _adversarial

pytestmark = [
    pytest.mark.usefixtures("pairs_for_all"),  # however small the tables
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
CLIP = 0.5
SMALL = {
    "n_iter": 3,
    "n_generator_steps": 2,
    "latent_dim": 2,
    "max_grad_norm": CLIP,
    "random_state": 0,
    "delta": DELTA,
}
# What makes discriminators look at scores, and not at cells of three columns.
SCORES = {
    "pairs": {"init": "measured", "n_discriminator_steps": 2},
    "marginals": {"init": "marginals", "n_discriminator_steps": 2},
}
# What training changes in a generator.
LEARNT = {"pairs": "generator.0.weights", "marginals": "generator.0.loadings"}
CLASSES = [DPCGANSynthesizer, DPGANSynthesizer]
MODES = [
    {},
    {"init": "marginals"},
    {"init": "random"},
    {"hidden_dims": (4,)},
    {"batch_size": 20},
    {"n_discriminator_steps": 2},
    {"init": "random", "generator_hidden_dims": (5,), "hidden_dims": (4,)},
]


# Scores of bins are bounded: here they are clipped all the same.
TIGHT = {"max_grad_norm": 0.02}


def fit(table, cls=DPCGANSynthesizer, **parameters):
    return cls(**(SMALL | {"schema": COUNTED} | parameters)).fit(table)


# --- Influence -------------------------------------------------------------------


def sums_of(table, cls, **parameters):
    """Fit with frozen secrets and history; give (class, private sum) in order.

    The releases are replaced by a fixed sequence that moves the networks, so that two
    tables have equal histories.
    """
    sums, max_grad_norm = [], parameters.get("max_grad_norm", CLIP)

    def frozen(total, clip, reservation):
        sums.append((reservation.scope, total.copy()))
        return np.random.default_rng(len(sums)).normal(0, 30 * clip, total.shape)

    def frozen_whole(total, reservation):
        unit = 2.0**20 / max_grad_norm  # in whole numbers, for one clipping norm
        assert total.dtype == np.int64
        assert reservation.sensitivity == 2**20
        return np.rint(unit * frozen(total / unit, max_grad_norm, reservation))

    with frozen_start() as patch, insecure_randomness(7):
        patch.setattr(_dp_sgd, "release_float_gaussian", frozen)
        patch.setattr(_discriminator, "release_gaussian", frozen_whole)
        fit(table, cls, **parameters)
    return sums


def assert_small_influence(before, after, label, clip=CLIP):
    """Sums of the row's class move by at most C, the others not by one bit.

    Gives the number of sums that moved.
    """
    assert len(before) == len(after) > 0
    moved = 0
    for (scope, ours), (other_scope, theirs) in zip(before, after, strict=True):
        assert scope == other_scope
        if scope != label:
            np.testing.assert_array_equal(ours, theirs)
            continue
        distance = np.linalg.norm(ours - theirs)
        assert distance <= clip * (1 + 1e-12)
        moved += distance > 1e-3 * clip
    return moved


def neighbours(table, label, *, sampled):
    """Tables with one row of a class more or less, by name.

    Where rows are sampled, a row is removed or added at the end: a row in between has
    a draw of its own too, but the test's frozen draws go by place.
    """
    rows = np.flatnonzero(table["y"] == label)
    extreme = pd.DataFrame({"a": [1e6], "b": [-1e6], "c": ["never seen"], "y": [label]})
    missing = pd.DataFrame({"a": [-5.0], "b": [np.nan], "c": ["r"], "y": [label]})
    found = {
        "last removed": table.drop(index=rows[-1]),
        "extreme added": pd.concat([table, extreme], ignore_index=True),
        "one added": pd.concat([table, missing], ignore_index=True),
    }
    if not sampled:
        found["first removed"] = table.drop(index=rows[0])
    return found


def influences(cls, label, before=None, **mode):
    table = make_table()
    before = sums_of(table, cls, **mode) if before is None else before
    for other in neighbours(table, label, sampled="batch_size" in mode).values():
        yield before, sums_of(other, cls, **mode)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "mode",
    [*(m | {"batch_size": 55} if "batch_size" in m else m for m in MODES), TIGHT],
    ids=str,
)
def test_one_row_moves_the_sums_of_its_class_by_the_clipping_norm(mode, cls):
    clip, before = mode.get("max_grad_norm", CLIP), sums_of(make_table(), cls, **mode)
    for label in ("u", "v"):
        pairs = influences(cls, label, before, **mode)
        assert sum(assert_small_influence(*pair, label, clip) for pair in pairs) > 0


@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_a_class_without_rows_releases_all_the_same(init):
    """Noise around zeros: whether it has rows is private."""
    table = make_table()
    sums = sums_of(table[table["y"] == "u"], DPCGANSynthesizer, init=init)
    of_none = [total for scope, total in sums if scope == "v"]
    assert len(of_none) == 3
    assert not np.any(of_none)


def standardised_together(scores):
    return ((scores - scores.mean(axis=0)) / np.float32(scores.std())).astype("f4")


def clipped_pairs(gradients, clip):
    """Microbatches of two rows: the thesis with m = B / 2."""
    n_pairs = len(gradients[0]) // 2
    means = [2 * g[: 2 * n_pairs].unflatten(0, (-1, 2)).mean(1) for g in gradients]
    return clipped_sums(means, 2 * clip)


def shuffled(n_rows, rate, rng):
    return rng.permutation(n_rows)[: int(rate * n_rows)]


def twice_the_rows(self, cells):
    """A row is in two cells of a triple."""
    self._rows = self._rows.map(np.repeat, 2, 0)
    return release_of_cells(self, cells)


def sorted_together(self, bins):
    """Groups by rank among the rows."""
    ranks = bins.argsort(axis=0).argsort(axis=0)
    return (ranks * 2 // max(len(bins), 1)).astype(np.uint8)


clipped_sums, release_of_cells = _dp_sgd.clipped_sums, LinearDiscriminator.release


@pytest.mark.parametrize(
    ("where", "name", "twin", "mode"),
    [
        (PrivateRows, "of_class", all_rows, {}),
        (PrivateRows, "of_class", all_rows, {"init": "marginals"}),
        (_dp_sgd, "clipped_sums", clipped_pairs, TIGHT | SCORES["pairs"]),
        (_dp_sgd, "clipped_sums", clipped_pairs, TIGHT | SCORES["marginals"]),
        (LinearDiscriminator, "release", twice_the_rows, {"init": "marginals"}),
        (_discriminator, "poisson_sample", shuffled, {"batch_size": 45}),
        (
            _discriminator,
            "poisson_sample",
            shuffled,
            SCORES["pairs"] | {"batch_size": 45},
        ),
        (LinearDiscriminator, "release", twice_the_rows, {}),
        (SeenCells, "encode", sorted_together, {}),
        *(
            (*twin, TIGHT | SCORES[init])
            for init, twin in after_encoding(standardised_together).items()
        ),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_broken_twins_move_more(where, name, twin, mode, monkeypatch):
    monkeypatch.setattr(where, name, twin)
    caught = 0
    for before, after in influences(DPCGANSynthesizer, "u", **mode):
        try:
            assert_small_influence(before, after, "u", mode.get("max_grad_norm", CLIP))
        except AssertionError:
            caught += 1
    assert caught > 0


def samples_of(monkeypatch, init, home):
    """Rows drawn in two fits with equal `random_state`."""
    drawn = []

    def keep(n_rows, rate, rng):
        drawn.append(poisson_sample(n_rows, rate, rng))
        return drawn[-1]

    poisson_sample = home.poisson_sample
    monkeypatch.setattr(home, "poisson_sample", keep)
    for _ in range(2):
        fit(make_table(), batch_size=20, init=init, n_iter=1)
    return drawn[0], drawn[2]


HOMES = [("random", _discriminator), ("pairs", _discriminator)]


@pytest.mark.parametrize(("init", "home"), HOMES)
def test_samples_are_secret(init, home, monkeypatch):
    ours, theirs = samples_of(monkeypatch, init, home)
    assert not np.array_equal(ours, theirs)


@pytest.mark.parametrize(("init", "home"), HOMES)
def test_the_twin_that_seeds_them_is_caught(init, home, monkeypatch):
    twin = lambda: np.random.default_rng(0)  # noqa: E731
    monkeypatch.setattr(_adversarial, "secret_generator", twin)
    ours, theirs = samples_of(monkeypatch, init, home)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("init", "name"), LEARNT.items())
def test_equal_random_state_gives_another_fit(init, name):
    first, second = (
        fit(make_table(), init=init, epsilon=50.0).generator_.to_state()[1]
        for _ in range(2)
    )
    assert not np.array_equal(first[name], second[name])


# --- Flow ------------------------------------------------------------------------


def everything_public(synthesizer):
    """Whatever a fitted synthesizer shows."""
    return {
        "arrays": list(synthesizer.generator_.to_state()[1].values()),
        "sample": synthesizer.sample(100, random_state=3),
        "stream": synthesizer.sample(20),
        "schema": synthesizer.schema_.to_dict(),
        "report": synthesizer.privacy_report().to_dict(),
        "n_iter": synthesizer.n_iter_,
    }


def fit_twice(monkeypatch, **parameters):
    """Fit one table; then quite another one, but with the releases of the first."""
    homes = [
        (_aggregators, "release_gaussian"),
        (_tables, "release_gaussian"),
        (_discriminator, "release_gaussian"),
        (_dp_sgd, "release_float_gaussian"),
    ]
    released = []

    def recording(real):
        def record(values, *others):
            noisy = real(values, *others)
            released.append(noisy)
            return noisy

        return record

    def replaying(real):
        def replay(values, *others):
            real(values, *others)
            noisy = released.pop(0)
            assert noisy.shape == values.shape
            return noisy

        return replay

    originals = [getattr(home, name) for home, name in homes]
    for (home, name), real in zip(homes, originals, strict=True):
        monkeypatch.setattr(home, name, recording(real))
    ours = fit(make_table(4000, seed=1), **parameters)
    for (home, name), real in zip(homes, originals, strict=True):
        monkeypatch.setattr(home, name, replaying(real))
    theirs = fit(make_table(2500, seed=2), **parameters)
    assert not released
    return everything_public(ours), everything_public(theirs)


NOTHING_GIVEN = {"schema": None, "target": "y", "epsilon": 8.0}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("mode", [*MODES, {"n_iter": "auto"}], ids=str)
def test_the_result_is_a_function_of_the_releases(mode, cls, monkeypatch):
    """Other rows, another number of rows, other secrets: the same result to the bit.

    Nothing private reaches the generator, the plan, the schema, the report or a public
    stream but through a mechanism.
    """
    parameters = NOTHING_GIVEN | mode | {"cls": cls}
    assert_equal_results(*fit_twice(monkeypatch, **parameters))


def exact_sum(total, clip, reservation):
    release_float_gaussian(total, clip, reservation)
    return total


release_float_gaussian = _dp_sgd.release_float_gaussian


class RealisedDivisor(Discriminator):
    """Divides by the number of rows, as `make_private` does."""

    def __init__(self, rows, *, expected_batch_size, **settings):
        size = max(len(rows), 1)
        super().__init__(rows, expected_batch_size=size, **settings)


class DivisorOfCells(LinearDiscriminator):
    """Divides by the number of rows, as `make_private` does."""

    def __init__(self, rows, *, expected_batch_size, **settings):
        size = max(sum(map(len, rows.each())), 1)
        super().__init__(rows, expected_batch_size=size, **settings)


class ExactCells(LinearDiscriminator):
    """Gives the shares of the rows beside the noisy sum."""

    def release(self, cells):
        _, noise = super().release(cells)
        rows = torch.from_numpy(np.concatenate([*self._rows.each()]))
        return cells.sums(rows) / max(len(rows), 1), noise


class FakesOfTheBatch(Discriminator):
    """L^t = Y^t: as many fakes of the class as the real batch has rows of it."""

    def follow(self, fakes, features):
        super().follow(fakes[: 1 + len(self._rows) % 400], features)


class PublicDrawsByRow(Discriminator):
    """Uses the public stream once per row; the latent draws come from it later."""

    def __init__(self, rows, *, generator, **settings):
        torch.randn(len(rows), generator=generator)
        super().__init__(rows, generator=generator, **settings)


@pytest.mark.parametrize(
    ("where", "name", "twin"),
    [
        (_dp_sgd, "release_float_gaussian", exact_sum),
        (_adversarial, "Discriminator", RealisedDivisor),
        (_adversarial, "Discriminator", FakesOfTheBatch),
        (_adversarial, "Discriminator", PublicDrawsByRow),
        (_adversarial, "LinearDiscriminator", DivisorOfCells),
        (_adversarial, "LinearDiscriminator", ExactCells),
    ],
)
@pytest.mark.parametrize("init", LEARNT)
def test_flow_round_the_mechanism_is_caught(where, name, twin, init, monkeypatch):
    mode = {} if name == "LinearDiscriminator" else SCORES[init]
    if twin is exact_sum:  # round the record: what is recorded is noisy
        monkeypatch.setattr(
            _dp_sgd.ReservedOptimizer, "add_noise", add_noise_of(exact_sum)
        )
    else:
        monkeypatch.setattr(where, name, twin)
    ours, theirs = fit_twice(monkeypatch, **mode, **NOTHING_GIVEN)
    with pytest.raises(AssertionError):
        assert_equal_results(ours, theirs)


def add_noise_of(release):
    """The optimizer's method, with another release beside the recorded one."""

    def add_noise(self):
        before = [p.summed_grad.clone() for p in self.params]
        original(self)
        for p, total in zip(self.params, before, strict=True):
            p.grad = total.reshape(p.shape).to(p)

    original = _dp_sgd.ReservedOptimizer.add_noise
    return add_noise


@pytest.mark.parametrize("init", LEARNT)
def test_real_rows_never_reach_the_generator(init, monkeypatch):
    """Scores of real rows are marked; what fakes are made of has no mark."""
    mark, marked = 2.71828, []

    def mark_all(scores):
        marked.append(len(scores))
        return np.full_like(scores, mark)

    def check(self, fakes, features):
        assert not (fakes == np.float32(mark)).any()
        assert len(fakes) == 512
        follow(self, fakes, features)

    follow = Discriminator.follow
    monkeypatch.setattr(*after_encoding(mark_all)[init])
    monkeypatch.setattr(Discriminator, "follow", check)
    fit(make_table(), **SCORES[init])
    assert sum(marked) == 150


# --- Ledger ----------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_release_is_in_the_plan_and_used_up(mode, cls, monkeypatch):
    """Steps drawn = reserved = planned, at the planned noise, in every class."""
    drawn, reservations = [], {}

    def keeping(real):
        def keep(total, *others):
            reservation = others[-1]
            drawn.append((reservation.scope, len(total)))
            reservations[reservation.scope] = reservation
            return real(total, *others)

        return keep

    for home, name in (
        (_dp_sgd, "release_float_gaussian"),
        (_discriminator, "release_gaussian"),
    ):
        monkeypatch.setattr(home, name, keeping(getattr(home, name)))
    synthesizer = fit(make_table(), cls, **mode)
    plan = synthesizer.plan().set_index("class")
    per_round = mode.get("n_discriminator_steps", 1)
    for label in ("u", "v"):
        reservation = reservations[label]
        assert reservation.count == reservation.used == 3 * per_round
        assert sum(scope == label for scope, _ in drawn) == 3 * per_round
        assert plan.loc[label, "n_iter"] == 3
        noise = plan.loc[label, "step_noise_std"]
        found = reservation.noise_std / reservation.sensitivity
        assert found == pytest.approx(noise, rel=1e-6)
    names = [entry.name for entry in synthesizer.privacy_report().entries]
    assert sum("discriminator" in name for name in names) == 2
    assert synthesizer.epsilon_ <= 1


@pytest.mark.parametrize("batch_size", ["auto", 20])
@pytest.mark.parametrize(
    ("mode", "discrete"),
    [({}, True), ({"init": "marginals"}, True), ({"hidden_dims": (4,)}, False)],
    ids=str,
)
def test_sums_of_whole_numbers_have_discrete_noise(mode, discrete, batch_size):
    """And the report says which noise was drawn, of whole classes and of samples."""
    seen = []
    with observe_releases(seen.append):
        report = fit(make_table(), batch_size=batch_size, **mode).privacy_report()
    steps = [release for release in seen if "discriminator" in release.what[0]]
    assert len(steps) == 6
    for release in steps:
        whole = release.exact.dtype == release.noisy.dtype == np.int64
        assert whole == discrete
        assert not np.any(release.noisy == release.exact)
    lines = [entry for entry in report.entries if "discriminator" in entry.name]
    kind = "gaussian" if discrete else "sampled gaussian"
    assert {line.kind for line in lines} == {kind}
    assert any(line.sampling_rate < 1 for line in lines) == (batch_size == 20)
    assert any("floating-point" in note for note in report.notes) != discrete
    printed = [row for row in str(report).splitlines() if row.startswith("discrimin")]
    assert len(printed) == 2
    assert all(("discrete Gaussian" in row) == discrete for row in printed)


@pytest.mark.parametrize("mode", [{}, {"batch_size": 20}], ids=str)
def test_the_certified_epsilon_uses_the_budget(mode):
    synthesizer = fit(make_table(), **mode)
    assert 0.98 <= synthesizer.epsilon_ <= 1


def test_what_is_printed_does_not_depend_on_the_run():
    """The number of steps follows a noisy count, and 2 fits of 14 once said 0.472."""
    table = make_table()[:30]
    reports = [
        DPCGANSynthesizer(
            epsilon=1,
            init="random",
            batch_size=4,
            noise_multiplier=2,
            n_generator_steps=1,  # the price is that of the discriminator's
            target="y",
        )
        .fit(table)
        .privacy_report()
        for _ in range(4)
    ]
    prices = {(r.epsilon, r.epsilon_replace_one, r.epsilon_by_delta) for r in reports}
    assert len(prices) == 1
    assert reports[0].epsilon == pytest.approx(0.9995, abs=1e-4)


@pytest.mark.parametrize("base", [LinearDiscriminator, Discriminator])
def test_the_divisor_is_rate_times_the_planned_count(base, monkeypatch):
    seen = {}

    class Seen(base):
        def __init__(self, rows, *, expected_batch_size, reservation, **settings):
            seen[reservation.scope] = expected_batch_size, reservation.sampling_rate
            super().__init__(
                rows,
                expected_batch_size=expected_batch_size,
                reservation=reservation,
                **settings,
            )

    monkeypatch.setattr(_adversarial, base.__name__, Seen)
    mode = {} if base is LinearDiscriminator else SCORES["pairs"]
    fit(make_table(), batch_size=75, n_iter=3, epsilon=0.5, **mode)
    (size_u, rate_u), (size_v, rate_v) = seen["u"], seen["v"]
    assert rate_u == pytest.approx(75 / 90)
    assert rate_v == 1.0
    assert (size_u, size_v) == (pytest.approx(75), pytest.approx(60))


@pytest.mark.parametrize("n_rows", [1_000, 10**5, 10**7])
def test_noise_of_a_sampled_step_is_at_least_3_clipping_norms(n_rows):
    """Otherwise samples are larger: the mean is as good, the accounting tighter."""
    synthesizer = DPCGANSynthesizer(
        epsilon=8.0, schema=TableSchema(COLUMNS, target="y"), batch_size=100
    )
    plans = synthesizer._plan_classes(
        ["u"], np.array([float(n_rows)]), 2, 1, gdp_mu(8.0, DELTA)
    )
    for plan in plans:
        assert plan.sampling_rate == 1 or plan.step_noise_std >= 3
        assert plan.sampling_rate >= 100 / n_rows


def test_auto_batches_claim_no_amplification():
    """Noise 1 / mu at any rate, so that whole classes are exact."""
    schema = TableSchema(COLUMNS, target="y")
    synthesizer = DPCGANSynthesizer(schema=schema, **SCORES["marginals"])
    (plan,) = synthesizer._plan_classes(["u"], np.array([1e7]), 2, 1, 0.25)
    assert plan.sampling_rate == pytest.approx(2**18 / 1e7)
    assert plan.step_noise_std == pytest.approx(1 / plan.mu_step)
    start = plan.mu_marginals**2 + plan.mu_pairs**2
    assert math.sqrt(2 * plan.n_iter * plan.mu_step**2 + start) == pytest.approx(0.25)
