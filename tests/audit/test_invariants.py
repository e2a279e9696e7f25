"""What holds for every synthesizer when its secrets and its releases are frozen.

The tests of single synthesizers are of single teachers and gradients; these are of
whole fits, so that a new synthesizer is covered before it has such tests. That equal
`random_state` gives other noise, and that the ledger is used up, is in the battery
(`skdpsynth.utils.estimator_checks`).
"""

from __future__ import annotations

import zlib
from collections import Counter, namedtuple
from contextlib import contextmanager
from functools import partial, partialmethod, wraps
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES
from _twins import in_place_of_the_mechanisms
from sklearn.base import clone

import skdpsynth
from skdpsynth import GPATESynthesizer
from skdpsynth.audit import audit_ledger
from skdpsynth.audit._worlds import SequenceError, recorded, replayed
from skdpsynth.privacy import secret_generator
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import TableSchema
from skdpsynth.synthesizers import _pate_triplegan
from skdpsynth.training import (
    TeacherEnsemble,
    _clipping,
    _discriminator,
    _teachers,
    _unlabelled,
)


def ready(synthesizer, schema):
    return clone(synthesizer).set_params(schema=schema, random_state=0)


def extreme(table):
    """Make one row as extreme as the dtypes allow, but for its class."""
    changed = table.copy()
    changed.loc[31, ["a", "b", "c"]] = [1e6, np.nan, "never seen"]
    return changed


def appended(table):
    extra = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"], "y": ["u"]})
    return pd.concat([table, extra], ignore_index=True)


@contextmanager
def added_noise():
    """Keep what every mechanism adds to its exact values.

    It is read off the addition and not off the answer, which for votes is a bit; or
    off the comparison with what is left to half of the votes.
    """
    kept = []

    class Exact(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **named):
            plain = [np.asarray(values) for values in inputs]
            compared = ufunc is np.less and isinstance(inputs[0], Left)
            if ufunc is np.add or compared:
                kept.append(plain[isinstance(inputs[0], Exact)].copy())
            made = getattr(ufunc, method)(*plain, **named)
            return made.view(Left) if ufunc is np.subtract else made

    class Left(Exact):
        """Votes that are left to half of them."""

    def watch(real):
        @wraps(real)
        def watched(values, *others):
            return np.asarray(real(values.view(Exact), *others))

        return watched

    with in_place_of_the_mechanisms(watch):
        yield kept


Fit = namedtuple("Fit", ["fitted", "releases", "noise"])  # the noise of each release


def two_fits(synthesizer, schema, tables, *, seeds=(7, 7)):
    """Fit two tables, the second with the releases of the first."""
    fits, observed = [], recorded()
    for seed, table in zip(seeds, tables, strict=True):
        with insecure_randomness(seed), added_noise() as noise, observed as releases:
            fitted = ready(synthesizer, schema).fit(table)
        fits.append(Fit(fitted, releases, noise))
        observed = replayed(releases)
    return fits


def is_same_but_for(label, first, second):
    """Whether a row of a class shows in the releases of its class, and of all rows."""
    moved = {
        mine.reservation.scope
        for mine, other in zip(first.releases, second.releases, strict=True)
        if not np.array_equal(mine.exact, other.exact)
    }
    lines = [
        [(r.what, r.reservation.noise_std, r.unit, r.n_releases) for r in fit.releases]
        for fit in (first, second)
    ]
    fitted = joblib.hash(first.fitted) == joblib.hash(second.fitted)
    return fitted and lines[0] == lines[1] and moved <= {label, None}


def has_same_noise(first, second):
    """Whether every release of both fits gets the same noise.

    Bit for bit: what is compared are the summands, not differences of rounded sums.
    """
    assert len(first.noise) == len(first.releases) > 0  # each addition was seen
    assert any(noise.any() for noise in first.noise)
    pairs = zip(first.noise, second.noise, strict=True)
    return all(np.array_equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("change", [extreme, appended])
def test_one_row_shows_in_its_releases_only(change, audited, case):
    """Equal releases: the fitted objects are equal, whatever the row was.

    The releases charged to other classes are computed from equal numbers. There are
    equally many, with equal noise: class counts are public, and every release has a
    stream of its own, apart from those for teachers and samples, which draw per row.
    """
    table, _, schema = case
    label = table.loc[31, "y"] if change is extreme else "u"
    first, second = two_fits(audited, schema, (table, change(table)))
    assert is_same_but_for(label, first, second)
    assert has_same_noise(first, second)


def seeded_by_a_value(real):
    """Noise from a generator that the exact values seed."""

    @wraps(real)
    def twin(values, *others):
        with insecure_randomness(zlib.crc32(np.asarray(values).tobytes())):
            return real(values, *others)

    return twin


def draws_more_for_some_values(real):
    """A value decides how many streams are made before that of the noise."""

    @wraps(real)
    def twin(values, *others):
        for _ in range(zlib.crc32(np.asarray(values).tobytes()) % 5):
            secret_generator()
        return real(values, *others)

    return twin


@pytest.mark.parametrize(
    ("twin", "name"),
    [
        (seeded_by_a_value, "independent"),  # sums of whole numbers
        (seeded_by_a_value, "dpcgan"),  # and of gradients
        (seeded_by_a_value, "pategan laplace"),  # votes
        (draws_more_for_some_values, "independent"),
    ],
)
def test_noise_that_depends_on_a_row_is_caught(twin, name, case):
    """And only by the noise itself: all else of the two fits is equal."""
    table, _, schema = case
    with in_place_of_the_mechanisms(twin):
        first, second = two_fits(INSTANCES[name], schema, (table, appended(table)))
    assert is_same_but_for("u", first, second)
    assert not has_same_noise(first, second)


def test_another_table_shows_in_its_releases_only(audited, small_table, public_schema):
    """Other rows, fewer of them, other secrets: the same fitted object to the bit."""
    other = small_table.sample(97, random_state=1).assign(c="p")
    other["a"] = other["a"] * 0.3 - 2
    tables = (small_table, other.reset_index(drop=True))
    first, second = two_fits(audited, public_schema, tables, seeds=(7, 8))
    assert joblib.hash(first.fitted) == joblib.hash(second.fitted)
    assert not has_same_noise(first, second)  # it is that of the secrets
    ours, theirs = first.fitted.sample(30), second.fitted.sample(30)
    pd.testing.assert_frame_equal(ours, theirs)


def watch(patch):
    """Keep samples as they are drawn, and the rows of every teacher by content."""
    samples, parts, init = [], [], TeacherEnsemble.__init__

    def keep_sample(real, n_rows, *others):
        samples.append((n_rows, real(n_rows, *others)))
        return samples[-1][1]

    def keep_parts(self, *given, **named):
        init(self, *given, **named)
        for start, count in zip(self._starts, self._counts, strict=True):
            parts.append(Counter(map(bytes, self._rows.numpy()[start : start + count])))

    for module in (_clipping, _discriminator, _unlabelled):
        if real := getattr(module, "poisson_sample", None):
            patch.setattr(module, "poisson_sample", partial(keep_sample, real))
    patch.setattr(TeacherEnsemble, "__init__", keep_parts)
    return samples, parts


def in_pairs(drawn):
    return zip(drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :], strict=True)


def other_rows_stay(synthesizer, case, monkeypatch, change=appended):
    """Whether a row that joins or changes leaves what is drawn for the others.

    Where there are teachers, one of them has another row, and nothing else differs.
    """
    table, _, schema = case
    changed = change(table)
    with monkeypatch.context() as patch:
        samples, parts = watch(patch)
        try:
            two_fits(synthesizer, schema, (table, changed))
        except SequenceError:
            return False
    for (n_rows, ours), (n_more, theirs) in in_pairs(samples):
        same = np.array_equal(ours, theirs[theirs < n_rows])
        if n_more - n_rows not in (0, 1) or not same:
            return False
    pairs = [(ours - theirs, theirs - ours) for ours, theirs in in_pairs(parts)]
    moved = [(lost.total(), won.total()) for lost, won in pairs if lost or won]
    taught = parts and change is not appended_unlabelled
    return moved == ([(1 + len(table) - len(changed), 1)] if taught else [])


@pytest.mark.parametrize("change", [extreme, appended])
def test_a_row_leaves_what_is_drawn_for_the_others(change, audited, case, monkeypatch):
    assert other_rows_stay(audited, case, monkeypatch, change)


def slices(n_units, n_teachers, rng):
    """B3, N4: parts are slices of the table."""
    return np.arange(n_units) * n_teachers // n_units


def round_robin_after_shuffling(n_units, n_teachers, rng):
    """A permutation of all rows, dealt out."""
    return rng.permutation(n_units) % n_teachers


def shuffled(n_rows, rate, rng):
    """Batches of a shuffled table."""
    return rng.permutation(n_rows)[: int(rate * n_rows)]


@pytest.mark.parametrize("twin", [slices, round_robin_after_shuffling])
def test_parts_that_depend_on_other_rows_are_caught(twin, case, monkeypatch):
    monkeypatch.setattr(_teachers, "assign_teachers", twin)
    assert not other_rows_stay(INSTANCES["gpate random"], case, monkeypatch)


def test_samples_that_depend_on_other_rows_are_caught(case, monkeypatch):
    monkeypatch.setattr(_discriminator, "poisson_sample", shuffled)
    assert not other_rows_stay(INSTANCES["dpcgan sampled"], case, monkeypatch)


def after_sorting(self, real, rows, *others, **named):
    """Parts are drawn after sorting the rows by their first column."""
    real(self, rows[np.argsort(rows[:, 0])], *others, **named)


SORTED = partialmethod(after_sorting, TeacherEnsemble.__init__)


@pytest.mark.parametrize(
    "name", ["gpate random", "gpate votes", "pategan", "triplegan"]
)
def test_parts_after_sorting_are_caught(name, case, monkeypatch):
    """An extreme row moves others: no release shows it, and no draw by its position."""
    monkeypatch.setattr(TeacherEnsemble, "__init__", SORTED)
    (table, _, schema), synthesizer = case, INSTANCES[name]
    first, second = two_fits(synthesizer, schema, (table, extreme(table)))
    assert is_same_but_for(table.loc[31, "y"], first, second)
    assert has_same_noise(first, second)
    assert not other_rows_stay(synthesizer, case, monkeypatch, extreme)


def appended_unlabelled(table):
    return appended(table).assign(y=[*table["y"], None])


@pytest.mark.parametrize("change", [appended_unlabelled, appended])
def test_shuffled_batches_of_the_triple_gan_are_caught(change, case, monkeypatch):
    """At a rate below 1: by default only classes of more than 2^18 rows have that."""
    monkeypatch.setattr(_pate_triplegan, "SAMPLE_ROWS", 400.0)
    table, _, schema = case
    table = table.assign(y=table["y"].mask(np.arange(150) % 3 == 0))
    counts = {"u": 900, "v": 600}
    case = table, None, TableSchema(schema.columns, target="y", class_counts=counts)
    synthesizer = clone(INSTANCES["triplegan"]).set_params(epsilon=4.0)
    assert other_rows_stay(synthesizer, case, monkeypatch, change)
    monkeypatch.setattr(_unlabelled, "poisson_sample", shuffled)
    assert not other_rows_stay(synthesizer, case, monkeypatch, change)


class StreamByRow(GPATESynthesizer):
    """The fitted stream of `sample` moves with every row."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self._stream.random(len(X))
        return self


class KeepsNumberOfRows(GPATESynthesizer):
    """An attribute from the number of rows."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.n_samples_fit_ = len(X)
        return self


@pytest.mark.parametrize("twin", [StreamByRow, KeepsNumberOfRows])
def test_objects_that_know_the_number_of_rows_are_caught(twin, case):
    synthesizer = twin(init="random", n_iter=2, n_teachers=4)
    table, _, schema = case
    first, second = two_fits(synthesizer, schema, (table, appended(table)))
    assert joblib.hash(first.fitted) != joblib.hash(second.fitted)


def make_private_settings(n_rows):
    """What Opacus's `make_private` derives from the table, before any noise."""
    import torch
    from opacus import PrivacyEngine

    model = torch.nn.Linear(2, 1)
    rows = torch.utils.data.TensorDataset(torch.zeros(n_rows, 2))
    _, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=100),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    return loader.sample_rate, optimizer.expected_batch_size, len(loader)


@pytest.mark.filterwarnings("ignore:Secure RNG turned off")
def test_make_private_of_opacus_shows_the_number_of_rows():
    """Why the package never calls it: rate, steps and divisor follow the exact N."""
    first, second = make_private_settings(1000), make_private_settings(1001)
    assert all(ours != theirs for ours, theirs in zip(first, second, strict=True))


def test_the_package_never_calls_make_private():
    for source in Path(skdpsynth.__file__).parent.rglob("*.py"):
        assert "make_private(" not in source.read_text(encoding="utf-8")


def test_the_ledger_audit_sees_parts_after_sorting_if_the_canary_comes_first(
    case, monkeypatch
):
    """The other audits' canary has the largest value: sorted or not, it is the last."""
    plain = clone(INSTANCES["pategan"]).set_params(init="marginals")
    table, canary, schema = case
    arguments = (ready(plain, schema), table, canary | {"a": -6.0})
    assert not audit_ledger(*arguments).violated
    monkeypatch.setattr(TeacherEnsemble, "__init__", SORTED)
    assert "times its sensitivity" in str(audit_ledger(*arguments))
