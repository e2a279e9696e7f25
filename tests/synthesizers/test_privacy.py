"""What every private synthesizer must satisfy.

Influence: with equal releases before it, one row moves what is released next by the
sensitivity in the ledger at most, and only what its own class pays for. Flow: results
follow from releases and public seeds. Cost: the ledger adds up to epsilon.
`_releases.py` does the sums, `_instances.py` has the fits. That noise has the size of
the ledger, and is drawn once, is in `privacy/test_bugs_of_others.py`.
"""

import functools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from _instances import DELTA, WAYS, table_of, without_schema
from _releases import (
    GRID,
    Seen,
    cost,
    enter,
    family_of,
    flow,
    influence,
    unequal,
    watched,
)
from mutations import planted
from sklearn.base import clone

from skdpsynth import GPATESynthesizer, PATEGANSynthesizer, PATETripleGANSynthesizer

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

MEASURED = {"coarse marginals", "marginals", "tables of 2", "tables of 3"}
SUMS, ANSWERS = "sums of teachers' gradients", "answers by vote"
LABELS, STEPS = "labels by vote", "discriminator's gradients"
CLASSIFIER = "classifier's gradients"
PSEUDO, BRANCH = "unlabelled rows of each class", "unlabelled rows' gradients"
SIZE = "rows without a label"
of_all_ways = pytest.mark.parametrize("way", WAYS)


def trained_of(way):
    """What the loop of a way releases, or else of rows without a label."""
    synthesizer = WAYS[way]
    if isinstance(synthesizer, GPATESynthesizer):
        return {ANSWERS if synthesizer.init == "random" else SUMS}
    if isinstance(synthesizer, PATEGANSynthesizer):
        return {LABELS}
    if isinstance(synthesizer, PATETripleGANSynthesizer):
        own = LABELS if synthesizer.desensitization == "hybrid" else STEPS
        beside = {SIZE} if synthesizer.init == "measured" else set()
        return {own, CLASSIFIER, PSEUDO, BRANCH} | beside
    if way == "pairwise unlabelled":
        return {SIZE}
    return {STEPS} if "n_iter" in synthesizer.get_params() else set()


def measured_of(way):
    """What `measure` releases in a way."""
    if "moments" in way:
        return {"coarse marginals", "marginals", "second moments"}
    if getattr(WAYS[way], "init", "measured") == "random":
        return set()
    return {"coarse marginals", "marginals"} if way == "independent" else MEASURED


@functools.cache
def base(way):
    return enter(WAYS[way], table_of(way), 7, coupled=True)


@of_all_ways
def test_one_row_moves_what_its_class_pays_for_by_the_sensitivity(way):
    """And nothing past the releases: objects, reports and samples are equal.

    Every release moves with some row, so none is exempt.
    """
    moved, findings = influence(WAYS[way], table_of(way), base(way))
    assert findings == []
    # At epsilon 1 nothing is found of so few rows.
    found = set() if WAYS[way].epsilon == 1.0 else {"frequent values"}
    known = found | measured_of(way) | trained_of(way)
    released = {family_of(own.reservation) for own in base(way).releases}
    assert moved == released == known


@of_all_ways
def test_results_follow_from_releases_and_public_seeds(way):
    """Another table of another size and index, nothing declared, other secrets.

    The same bits come out.
    """
    synthesizer, table = without_schema(WAYS[way]), table_of(way)
    other = table_of(way, seed=2, n_rows=len(table) * 3 // 4)
    other = other.set_axis([f"row {place}" for place in range(len(other))])
    assert flow(synthesizer, table, other) == []


@pytest.mark.parametrize("way", [w for w in WAYS if WAYS[w].schema.target])
def test_a_class_without_rows_releases_all_the_same(way):
    """Whether it has rows is private."""
    table = table_of(way)
    history = [*map(Seen, base(way).releases)]
    rest = table[table["y"] != "v"]
    for seen in watched(WAYS[way], rest, history=history, secrets=7)[1]:
        by_teachers = seen.family in (SUMS, ANSWERS, LABELS)  # without rows
        if seen.payer == "v" and not by_teachers:
            assert not seen.release.exact.any()


@pytest.mark.parametrize(
    ("fault", "way", "words"),
    [
        ("number_of_rows_for_free", "pairwise", "marginals.* moves a release by"),
        ("unlabelled_in_the_first_class", "pairwise", "moves with a row of"),
        ("teachers_of_equal_size", "pategan", "changes .* teachers"),
    ],
)
def test_a_row_that_moves_too_much_is_found(fault, way, words):
    with planted(fault):
        assert influence(WAYS[way], table_of(way), until=words)[1]


def test_relations_follow_from_releases():
    """Of a column that is nearly a function of another one; a third knows the rest."""

    def related(seed):
        table = table_of("pairwise", seed=seed).copy()
        noise = np.random.default_rng(seed).normal(size=len(table))
        rest = np.where(noise * (seed - 1) > 0, "p", "q")
        return table.assign(b=0.7 * table["a"] + 0.05 * noise, c=rest)

    synthesizer = clone(WAYS["pairwise"]).set_params(epsilon=20.0)
    released = " ".join(own.line.name for own in watched(synthesizer, related(0))[1])
    assert flow(synthesizer, related(0), related(2)) == []
    assert all(name in released for name in ("finer cells", "ranks given"))


@functools.cache
def secure_fit(way, declared=True):
    """A fit with secure noise, and what it released."""
    synthesizer = WAYS[way] if declared else without_schema(WAYS[way])
    return watched(synthesizer, table_of(way))


def proven(fitted, payer):
    """Sensitivities by the proofs, in units of the ledger, not the package's numbers.

    A row moves counts of B cells less their mean by ``sqrt(1 - 1/B)``, and the number
    of rows by its weight, which is the ratio of their noise.
    """
    tables = fitted.measurements_.tables() if hasattr(fitted, "measurements_") else ()
    own = [table for table in tables if table.class_label == payer]
    cells, of_size = {}, math.inf
    for measured in own[fitted.schema is None :]:  # after the count of the class
        std = GRID * measured.noise_std
        if measured.order == 0:
            of_size = std
        if measured.order == 1 and measured.values.size > 1:
            # Less the mean of the column, a count keeps so much of the noise.
            std = round(std / math.sqrt(1 - 1 / measured.values.size), 6)
            own_size = 0.0 if std in cells else (std / of_size) ** 2
            cells[std] = cells.get(std, 0.0) + own_size + 1 - 1 / measured.values.size
            of_size = math.inf

    def sensitivity(line):
        name = line.name
        if name in ("coarse marginals", "marginals"):
            return GRID * math.sqrt(
                cells[min(cells, key=lambda s: abs(s - line.noise_std))]
            )
        found = {
            "class labels and counts": 1.0,
            "categories": 1.0,  # a row is counted in one column of them
            "column ranges": math.sqrt(2.0),  # and in two of numbers
            "unsure ranges": line.sensitivity,  # of one of these, or both, by the noise
            "decimals": math.sqrt(2.0),
            "frequent values": math.sqrt(2.0),
            SUMS: 2.0 * GRID,  # from any vector of a teacher to any other
            ANSWERS: math.sqrt(2.0),
            STEPS: 1.0,
            CLASSIFIER: 1.0,
            SIZE: 1.0,
            BRANCH: 1.0,
            PSEUDO: 1.0,
        }
        if "columns, " in name:  # a cell of each table
            return GRID * math.sqrt(int(name.split()[0]))
        if "second moments" in name:  # half of |r|^4, of rows of length 2^12
            return 2.0**24 / math.sqrt(2.0)
        return found[name]

    return sensitivity


@pytest.mark.parametrize(
    ("way", "declared"),
    [*((w, True) for w in WAYS), ("pairwise", False), ("gpate", False)],
)
def test_the_ledger_adds_up_to_epsilon(way, declared):
    """What each kind of row pays, composed by dp-accounting from the noise drawn.

    Votes are exact against the worst questions, which leaves room; and what no
    Gaussian curve fits is rounded up.
    """
    synthesizer, (fitted, seen) = WAYS[way], secure_fit(way, declared)
    report = fitted.privacy_report()
    assert report.epsilon == fitted.epsilon_ <= synthesizer.epsilon
    assert all(entry.used == entry.releases > 0 for entry in report.entries)
    released = Counter[str]()
    for own in seen:
        released[own.line.name] += own.release.n_releases
    reported = Counter[str]()
    for entry in report.entries:
        reported[entry.name] += entry.used
    assert released == reported  # nothing is charged elsewhere
    payers, found = {own.payer for own in seen}, []
    for payer in payers - {None} or payers:
        lines = {}
        for own in seen:
            if own.payer in (None, payer):
                line, n = lines.get(id(own.line), (own.line, 0))
                lines[id(own.line)] = line, n + own.release.n_releases
        found.append(cost(lines.values(), proven(fitted, payer), DELTA))
    assert 0.9 * synthesizer.epsilon <= min(found)
    assert max(found) <= synthesizer.epsilon


@of_all_ways
def test_the_plan_is_what_is_released(way):
    """Steps, noise and tables of `plan`, and all of a run is reserved at first."""
    synthesizer, (fitted, seen) = WAYS[way], secure_fit(way)
    plan = synthesizer.plan().set_index("class")
    for own in seen:
        row = plan.loc[own.payer] if own.payer in plan.index else None
        if own.family in (SUMS, ANSWERS, LABELS, STEPS):
            std = own.line.noise_std / (GRID if own.family == SUMS else 1)
            if own.family == ANSWERS:  # of whole numbers
                std = math.sqrt(std**2 - 4)
            assert std == pytest.approx(row["step_noise_std"], rel=1e-6)
            assert own.line.count % row["n_iter"] == 0
            assert own.line.n_teachers in (0, row["n_teachers"])
        if own.family == "marginals" and row is not None:
            std = own.line.noise_std / GRID  # bins may fall together
            assert std == pytest.approx(row["noise_std"], rel=1e-2)
        if own.family == "tables of 2" and row is not None:
            std = own.line.noise_std / GRID
            assert std == pytest.approx(row["table_noise_std"], rel=1e-6)
            assert own.name.startswith(f"{row['tables']} table")
    names = [entry.name for entry in fitted.privacy_report().entries]
    for name in trained_of(way) - {PSEUDO, BRANCH}:  # whose numbers of rows are noisy
        assert names.index(name) < (names.index("marginals") if measured_of(way) else 9)


@of_all_ways
def test_random_state_fixes_all_but_the_secrets(way):
    """Equal secrets and seeds: equal to the bit. Global generators are left alone."""
    table = table_of(way)
    torch.random.default_generator.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = enter(WAYS[way], table, 7, coupled=True).fitted
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert unequal(base(way).fitted, again) == []
    other = clone(WAYS[way]).set_params(random_state=1)
    other = enter(other, table, 7, coupled=True).fitted
    assert not again.sample(20).equals(other.sample(20))


@of_all_ways
def test_random_state_fixes_no_noise(way):
    """Two fits with one seed: other noise in every release of 8 numbers and more.

    8 whole numbers with sigma 3 are equal with probability 1e-8.
    """
    once, again = secure_fit(way)[1], watched(WAYS[way], table_of(way))[1]
    for pair in zip(once, again, strict=True):
        if not pair[0].line.kind.endswith("vote") and pair[0].release.exact.size >= 8:
            ours, theirs = (own.release.noisy - own.release.exact for own in pair)
            assert ours.shape != theirs.shape or (ours != theirs).any()


@pytest.mark.parametrize(
    "way", ["gpate", "gpate random", "pategan", "dpcgan sampled", "triplegan"]
)
def test_teachers_and_samples_are_secret(way):
    """With other secrets and the same releases, training releases something else."""
    synthesizer, table = WAYS[way], table_of(way)
    _, before = watched(synthesizer, table, secrets=1)
    _, other = watched(synthesizer, table, history=before, secrets=2)
    moved = {
        ours.family
        for ours, theirs in zip(before, other, strict=True)
        if (ours.release.exact != theirs.release.exact).any()
    }
    assert moved >= trained_of(way) - {CLASSIFIER, PSEUDO, BRANCH, SIZE}
