"""More bugs that others had: noise that is not the ledger's, and numbers from exact n.

As in `test_bugs_of_others`: each test names the thread, and is seen to catch the bug.
"""

from __future__ import annotations

import inspect
import math
import re
import sqlite3
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import opendp.measurements
import pandas as pd
import pytest
from _instances import PLAIN_PRIVATE, PRIVATE
from _releases import moved_by_a_row, watched
from _rules import SCHEMA as RULED
from _rules import TABLE as RULED_TABLE
from _twins import in_place_of_the_mechanisms
from _ways import WAYS, table_of, without_schema
from opacus.optimizers import DPOptimizer
from sklearn.base import clone
from tables import COLUMNS, small_table

import skdpsynth
from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
    TableSchema,
)
from skdpsynth.audit._worlds import SequenceError
from skdpsynth.exceptions import BudgetExceededError, InvalidTableError
from skdpsynth.privacy import PrivacyAccountant, _budget, _mechanisms
from skdpsynth.table import MISSING, MarginalTransform, NumericDomain
from skdpsynth.training import _dp_sgd

pytestmark = pytest.mark.usefixtures("short_fits")

bug_or_not = pytest.mark.parametrize("planted", [False, True], ids=["ours", "planted"])
SCHEMA = TableSchema(COLUMNS, target="y")
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 180, "v": 120})


# --- Noise that is issued -----------------------------------------------------------


@contextmanager
def scales_of_draws():
    """Collect the scale of every draw, as OpenDP and numpy are asked for it."""
    drawn = []
    secret = _mechanisms.secret_generator

    def noting(make):
        def made(domain, metric, scale):
            measure = make(domain, metric, scale=scale)
            return lambda values: drawn.append(scale) or measure(values)

        return made

    def generator():
        def normal(mean, std, shape):
            drawn.append(std)
            return secret().normal(mean, std, shape)

        return SimpleNamespace(normal=normal)

    kept = _mechanisms._measurement, _mechanisms._laplace_measurement
    with pytest.MonkeyPatch.context() as patch:
        for name in ("make_gaussian", "make_laplace"):
            own = noting(getattr(opendp.measurements, name))
            patch.setattr(opendp.measurements, name, own)
        patch.setattr(_mechanisms, "secret_generator", generator)
        for one in kept:
            one.cache_clear()
        yield drawn
    for one in kept:
        one.cache_clear()


def issued_by(synthesizer, table):
    """Fit; give the fit, and scale, unit, number and line of all releases."""
    with scales_of_draws() as drawn:
        fitted, seen = watched(synthesizer, table)
    assert len(drawn) == len(seen)
    return fitted, [
        (scale, own.release.unit, own.release.n_releases, own.line)
        for scale, own in zip(drawn, seen, strict=True)
    ]


def squared_mu(issued):
    """Add up (sensitivity / sigma)^2 of issued noise, of the class that pays most.

    Of whole numbers sigma^2 less 4, as `grid_noise_std` proves. A vote tells less than
    the noisy number of votes, and has the mu of its line. In steps on a sample a row
    counts by its chance to be there, which is right in the limit of many.
    """
    sums = {}
    for scale, unit, n, line in issued:
        less = 4.0 if line.kind == "gaussian" else 0.0
        own = line.sampling_rate * line.sensitivity
        each = own**2 / ((scale / unit) ** 2 - less)
        each = line.mu**2 if line.kind.endswith("vote") else each
        sums[line.scope] = sums.get(line.scope, 0.0) + n * each
    return sums.pop(None, 0.0) + max(sums.values(), default=0.0)


def half_for_marginals(real):
    """Draw the noise of one-way marginals with half the sigma."""

    def noisy(values, line, *more):
        if line.name == "marginals":
            line = SimpleNamespace(noise_std=line.noise_std / 2)
        return real(values, line, *more)

    return noisy


@pytest.mark.parametrize("n_iter", ["auto", 2])
@pytest.mark.parametrize("name", PLAIN_PRIVATE)
def test_issued_noise_is_that_of_the_ledger(name, n_iter):
    """google/dpsynth 8ecc1a1: the sigma of one-way marginals was wrong in MST.

    From the scales that are drawn, not from the ledger's: they add up to the mu of the
    whole fit. One draw of noise is in each release. With declared counts no plan
    follows from noise.
    """
    synth = clone(PLAIN_PRIVATE[name]).set_params(epsilon=0.5, schema=COUNTED)
    if "n_iter" in synth.get_params():
        synth.set_params(n_iter=n_iter)
    elif n_iter != "auto":
        pytest.skip("it has no loop")
    fitted, issued = issued_by(synth, small_table(300))
    for scale, unit, _, line in issued:
        assert scale == pytest.approx(line.noise_std * unit, rel=1e-12)
    assert squared_mu(issued) == pytest.approx(fitted.privacy_report().mu ** 2)


def test_a_wrong_sigma_of_one_release_is_caught():
    synth = clone(PLAIN_PRIVATE["MarginalSynthesizer"]).set_params(schema=COUNTED)
    with in_place_of_the_mechanisms(half_for_marginals):
        fitted, issued = issued_by(synth, small_table(300))
    assert squared_mu(issued) > 1.1 * fitted.privacy_report().mu ** 2


# --- Options that might take noise away ---------------------------------------------

PERSONS = TableSchema(COLUMNS, target="y", privacy_unit="who", max_rows_per_unit=2)
ROWS = small_table(200)
TABLES = {
    "declared": ({"schema": SCHEMA}, ROWS),
    "found": ({"target": "y"}, ROWS),
    "no target": ({}, ROWS),
    "a number": ({"target": "a"}, ROWS),
    "persons": ({"schema": PERSONS}, ROWS.assign(who=np.arange(len(ROWS)) // 3)),
    "rules": ({"schema": RULED}, RULED_TABLE),
    "counts": ({"schema": COUNTED}, ROWS),
}
_ALL = [(MarginalSynthesizer(**options), rows) for options, rows in TABLES.values()]
_ALL += [
    (kind.set_params(delta=delta, **TABLES[name][0]), ROWS)
    for delta, name in ((1e-12, "declared"), (1e-3, "found"))
    for kind in (IndependentSynthesizer(), MarginalSynthesizer(order=1))
]
_ALL += [
    (clone(synth).set_params(schema=SCHEMA, init=init or synth.init), ROWS)
    for synths, inits in (
        (PRIVATE, [None]),
        (PLAIN_PRIVATE, ["marginals", "random"]),
    )
    for synth, init in product(synths.values(), inits)
    if "init" in synth.get_params()
]


class Ignores(MarginalSynthesizer):
    """Fits within another epsilon than it was asked for."""

    def fit(self, X, y=None):
        asked, self.epsilon = self.epsilon, 10.0
        super().fit(X, y)
        self.epsilon = asked
        return self


def kept_by(synthesizer, table):
    """Give the squared mu of issued noise at epsilon 0.01 over that at 10."""
    found = {}
    for epsilon in (0.01, 10.0):
        ready = clone(synthesizer).set_params(epsilon=epsilon, random_state=0)
        _, issued = issued_by(ready, table)
        found[epsilon] = squared_mu(issued)
    return found[0.01] / found[10.0]


def test_no_option_takes_the_noise_away():
    """dataxid-python#19: `privacy_enabled=True` did nothing.

    For all options that touch privacy, by the noise that is issued: sigma at epsilon
    0.01 is at least 50 times that at 10, over all releases together.
    """
    assert len(_ALL) >= 30
    for synthesizer, table in _ALL:
        assert kept_by(synthesizer, table) < 50**-2, synthesizer


def test_an_option_without_effect_is_caught():
    assert kept_by(Ignores(schema=SCHEMA), ROWS) > 0.9


# --- Numbers that follow from the exact number of rows ------------------------------


def planted_size(planted, n, monkeypatch):
    """Let a number of the plan follow from `n`, the exact number of rows."""
    reserve, start = PrivacyAccountant.reserve_sampled_gaussian, DPOptimizer.__init__

    def by_rows(self, name, *, sampling_rate, **more):
        return reserve(self, name, sampling_rate=min(1.0, 2 / n[0]), **more)

    def of_batch(self, *args, expected_batch_size, **more):
        start(self, *args, expected_batch_size=n[0], **more)

    if planted == "rate":
        monkeypatch.setattr(PrivacyAccountant, "reserve_sampled_gaussian", by_rows)
    if planted == "divisor":
        monkeypatch.setattr(DPOptimizer, "__init__", of_batch)


@pytest.mark.parametrize(
    ("kind", "batch_size", "planted"),
    [
        (DPCGANSynthesizer, 2, None),
        (DPGANSynthesizer, "auto", None),
        *((DPCGANSynthesizer, "auto", own) for own in ("rate", "divisor", "steps")),
    ],
)
def test_dp_sgd_knows_no_exact_number_of_rows(kind, batch_size, planted, monkeypatch):
    """meta-pytorch/opacus#571, #813, #819: batches from the number of private rows.

    On two tables that differ in a row, of 2,000 rows and of 3, with equal releases:
    rate, steps, noise and divisor are the same, as Opacus is given them.
    """
    n, divisors = [0], []
    planted_size(planted, n, monkeypatch)
    start = DPOptimizer.__init__

    def noting(self, *args, **more):
        start(self, *args, **more)
        divisors.append((self.expected_batch_size, self.noise_multiplier))

    monkeypatch.setattr(DPOptimizer, "__init__", noting)
    same = []
    for n_rows in (2000, 3):
        table, history, plans = small_table(n_rows).assign(y=["u"] * n_rows), None, []
        for rows in (table, table[1:]):
            n[0], divisors[:] = len(rows), []
            synth = kind(9.0, schema=SCHEMA, init="random", hidden_dims=(3,))
            steps = 2 if planted != "steps" else 1 + len(rows) % 2
            synth.set_params(batch_size=batch_size, n_iter=steps, n_generator_steps=1)
            try:
                _, seen = watched(synth, rows, history=history, secrets=5)
            except SequenceError:  # other releases are made
                continue
            lines = [
                (s.line.sampling_rate, s.line.count, s.line.noise_std) for s in seen
            ]
            plans.append((lines, [*divisors]))
            history = history or seen
        same.append(len(plans) == 2 and plans[0] == plans[1])
        assert planted or len(plans[0][1]) == 2
    assert all(same) == (planted is None)


def exact_numbers_in(text):
    """Find sentences that take delta from the number of rows, unless a rough one."""
    flat = re.sub(r"[*`\s]+", " ", text)
    rows = r"1 ?/ ?(n\b|len|n_rows|number of)|one over the number|1e?-?\d* ?/ ?len"
    return [
        words
        for words in re.split(r"(?<=[.;:]) ", flat)
        if re.search(r"\bdelta\b", words, re.IGNORECASE)
        and re.search(rows, words)
        and "public number" not in words
    ]


def test_delta_does_not_follow_from_the_number_of_rows():
    """NeMo Safe-Synthesizer: delta was 1 / n^1.2 of the private n.

    The default is a constant of all constructors, and of fits of 10 and of 10^5 rows;
    and no page or docstring has users take it from the exact number.
    """
    for synth in PLAIN_PRIVATE.values():
        assert inspect.signature(type(synth)).parameters["delta"].default == 1e-5
    for n_rows in (10, 10**5):
        fitted = IndependentSynthesizer(schema=SCHEMA).fit(small_table(n_rows))
        assert fitted.delta_ == fitted.privacy_report().delta == 1e-5
    package = Path(skdpsynth.__file__).parent
    docs = [*package.parent.glob("docs/*.md"), *package.parent.glob("*.md")]
    for path in [*docs, *package.rglob("*.py")]:
        assert exact_numbers_in(path.read_text(encoding="utf-8")) == [], path
    for words in ("Set delta=1/n.", "A **delta** of 1 / len(table) is\nusual."):
        assert exact_numbers_in(words)


# --- Budgets -----------------------------------------------------------------------


@bug_or_not
def test_spends_below_the_tolerance_add_up(planted, monkeypatch):
    """openmed, pull request 2457: a subnormal spend after exhaustion was lost.

    A budget that is spent takes spends of 1e-13 as long as its rounding of 1e-12
    lasts: ten of them, and none of those after. Planted are sums without them.
    """
    budget, real = PrivacyBudget(1.0, 0.5), _budget._sums

    def rounded(connection):
        epsilon, delta = real(connection)
        return min(epsilon, 1.0), delta

    if planted:
        monkeypatch.setattr(_budget, "_sums", rounded)
    budget.charge(1.0, 1e-9)
    accepted = 0
    for _ in range(200):
        try:
            budget.charge(1e-13, 1e-300)
        except BudgetExceededError:
            continue
        accepted += 1
    spent = math.fsum(budget.charges["epsilon"])
    assert (spent <= 1 + 1e-12) != planted
    assert (accepted <= 10) != planted


@pytest.mark.parametrize("known", [9_990, pytest.param(0, marks=pytest.mark.nightly)])
def test_ten_thousand_spends_end_at_the_total(known, tmp_path):
    """Of 1e-13 each from 1e-9; the first of them are written into the file at once."""
    budget = PrivacyBudget(1e-9, 0.5, path=tmp_path / "b")
    with closing(sqlite3.connect(tmp_path / "b")) as file, file:
        file.executemany(
            "INSERT INTO skdpsynth_charges (charged_at, label, epsilon, delta)"
            " VALUES ('then', 'fit', 1e-13, 1e-300)",
            [()] * known,
        )
    for _ in range(known, 10_000):
        budget.charge(1e-13, 1e-300)
    for _ in range(20):
        with pytest.raises(BudgetExceededError):
            budget.charge(1e-13, 1e-300)
    assert len(budget.charges) == 10_000
    assert math.fsum(budget.charges["epsilon"]) <= 1e-9 * (1 + 1e-12)


# --- A row without a number ---------------------------------------------------------


def with_row(table, label):
    row = pd.DataFrame({"a": [np.nan], "b": [np.nan], "c": [None], "y": [label]})
    row = row.astype({"c": object, "y": object})
    return pd.concat([table, row], ignore_index=True)


def scores_of_nan(patch):
    """Give a missing number the score NaN, which discriminators then see."""
    real = MarginalTransform.encode

    def encode(self, uniforms, codes):
        gone = isinstance(self.domain, NumericDomain) & (codes == MISSING)
        return np.where(gone, np.nan, real(self, uniforms, codes))

    patch.setattr(MarginalTransform, "encode", encode)


def clipped_as_usual(gradients, clip):
    """Clip and add up, as if every gradient were finite."""
    flat = [g.flatten(1).double() for g in gradients]
    norms = sum(g.square().sum(1) for g in flat).sqrt()
    factors = (clip / (norms + 1e-6)).clamp(max=1.0)
    pairs = zip(flat, gradients, strict=True)
    return [(factors @ g).reshape(own.shape[1:]) for g, own in pairs]


@pytest.mark.parametrize("label", ["u", None])
@pytest.mark.parametrize(
    ("way", "planted"),
    [
        *((way, None) for way in ("pairwise", "found", "gpate factors")),
        *(("dpcgan factors", own) for own in (None, "scores", "sums too")),
    ],
)
def test_a_row_of_missing_values_spoils_nothing(way, planted, label, monkeypatch):
    """PySyft#6956, #7008: one NaN made the whole result NaN.

    With equal releases and secrets it moves those of its class alone, by at most the
    sensitivity; all are finite. Planted are scores of NaN, which clipping by itself
    keeps out of sums, and a sum that does not.
    """
    if planted:
        scores_of_nan(monkeypatch)
    if planted == "sums too":
        monkeypatch.setattr(_dp_sgd, "clipped_sums", clipped_as_usual)
    own = "pairwise" if way == "found" else way
    table = table_of(own).dropna(subset=["b"])
    synth = without_schema(WAYS[own]) if way == "found" else clone(WAYS[own])
    if way == "dpcgan factors":
        synth.set_params(batch_size="auto")  # so that the row is in every sample
    _, before = watched(synth, table, secrets=7)
    payer = label or "rows without a label"
    _, after = watched(synth, with_row(table, label), history=before, secrets=7)
    assert moved_by_a_row(before, after, payer)[1] == []
    finite = all(np.isfinite(own.release.exact).all() for own in after)
    assert finite != bool(planted == "sums too" and label)


def test_a_row_of_infinite_values_is_refused_before_the_charge(untouched):
    row = small_table(1).assign(a=np.inf, b=-np.inf)
    synth = IndependentSynthesizer(schema=SCHEMA, budget=untouched)
    with pytest.raises(InvalidTableError, match="infinite"):
        synth.fit(pd.concat([small_table(99), row]))
