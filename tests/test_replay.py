"""The replay in short: hooks couple rows, and sound fits are equal.

`tests/audit/test_replays.py` plants every twin, and has more tables and synthesizers;
`make replay` has all.
"""

import functools
import math
import pkgutil
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from _releases import compare, compare_releases, differences, enter, observed
from _reserve import release_gaussian
from replay.matrix import CHANGES, PLACES, SYNTHESIZERS, Group, groups, pairs_of
from replay.odd_tables import ALL_SOURCES, odd_tables
from replay.twins import TWINS

from skdpsynth import IndependentSynthesizer
from skdpsynth.audit import replay
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy import GRID, LocalParts, PrivacyAccountant, of_rows, telling
from skdpsynth.privacy.statistics import MIN_KEY_COUNT, gaussian_sum, thresholded_counts
from skdpsynth.privacy.testing import (
    coupled_rows,
    insecure_randomness,
    observe_releases,
)
from skdpsynth.schema import Boolean, Identifier, TableSchema

ROWS = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def test_threads_that_read_parts_are_watched():
    """They copy the context of the fit, and without one draw as before."""
    parts = LocalParts(lambda: iter([ROWS[:9], ROWS[9:]]))

    def key(number, part):
        rng = of_rows(np.random.default_rng(5), part)
        return Counter(rng.random(len(part)).tolist())

    with insecure_randomness(0), coupled_rows():
        first = parts.total(key, numbered=True)
    whole = LocalParts(lambda: iter([ROWS]))
    with insecure_randomness(0), coupled_rows():
        assert whole.total(key, numbered=True) == first
    assert whole.total(key, numbered=True) != parts.total(key, numbered=True)


def line(sensitivity=1.0, delta=0.0, name="line"):
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6)
    return accountant.reserve_gaussian(
        name, mu=0.05, sensitivity=sensitivity, delta=delta
    )


def test_a_sum_has_the_parts_of_its_teachers():
    """Of private rows digests are kept; parts that do not add up are noticed."""
    vectors, parts = np.random.default_rng(0).normal(size=(4, 3)), []
    with observe_releases(lambda release: parts.append(release.by_teacher())):
        gaussian_sum(vectors, 1.0, line(2 * GRID))
    assert parts[0].shape == (4, 3)
    with observed() as seen:
        gaussian_sum(vectors, 1.0, line(2 * GRID))
        with telling(by_teacher=lambda: np.ones((3, 2), np.int64)):
            release_gaussian(np.array([3, 3]), line())
            release_gaussian(np.array([3, 4]), line())
    assert [release.adds_up for release in seen] == [True, True, False]
    assert len(seen[0].teachers) == 4
    assert seen[0].by_teacher is None


BIG = 10**6


def found_keys(keys, history=None, least=MIN_KEY_COUNT):
    """Release keys of one column, maybe with the answers of another release."""
    with insecure_randomness(0), observed(history, edge=True) as seen:
        ((kept, _),) = thresholded_counts(
            [np.array([*keys.values()])],
            line(1.0, 1e-6),
            1e-6,
            lambda: [[*keys]],
            least=least,
        )
    return seen, [[*keys][place] for place in kept]


@pytest.mark.parametrize(
    ("first", "second", "least", "words"),
    [
        ({"a": BIG, "b": 1, "c": BIG}, {"a": BIG, "b": 2, "c": BIG}, MIN_KEY_COUNT, ""),
        ({"a": BIG, "b": 2}, {"a": BIG, "b": 1}, MIN_KEY_COUNT, ""),
        ({"a": BIG, "b": 6}, {"a": BIG, "b": 7}, 7, ""),
        ({"a": BIG, "b": 2}, {"a": BIG, "b": 3}, 7, ""),  # neither is considered
        ({"a": BIG}, {"a": BIG, "b": 8}, 7, "a key of more than 7 rows"),
        ({"a": BIG}, {"a": BIG, "b": 7, "c": 7}, 7, "several keys to a column"),
        ({"a": 9}, {"b": 2}, MIN_KEY_COUNT, "that the other lacks"),
        ({1: 9}, {True: 9}, MIN_KEY_COUNT, "that the other lacks"),  # which equals 1
    ],
)
def test_a_key_that_reaches_the_least_count_does_not_pass(first, second, least, words):
    """And is found by its name, although the places of others move; all else is told.

    The least count is that of the release.
    """
    history, passed = found_keys(first, least=least)
    answered, again = found_keys(second, history, least=least)
    assert history[0].least == answered[0].least == least
    shifts, findings = compare_releases(history, answered, "the row")
    if words:
        assert any(words in finding for finding in findings)
    else:
        assert passed == again == [key for key in first if first[key] == BIG]
        assert findings == []
        assert shifts == [0.0]


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def cyclic(value):
    own = [value]
    own.append(own)
    return own


SAME = {
    "arrays": lambda v: np.array([v, math.nan, -0.0]),
    "objects in arrays": lambda v: np.array([str(v), None], dtype=object),
    "parameters": lambda v: torch.nn.Parameter(torch.tensor([float(v)])),
    "generators": lambda v: np.random.default_rng(int(v)),
    "tables": lambda v: pd.DataFrame({"a": [v, None]}),
    "categories": lambda v: pd.Series(pd.Categorical(["a"], categories=["a", str(v)])),
    "slots": Slotted,
    "partials": lambda v: functools.partial(print, v),
    "closures": lambda v: lambda: v,
    "cycles": cyclic,
    "sets": lambda v: {v, "x"},
    "synthesizers": lambda v: IndependentSynthesizer(float(v)),
    "types": lambda v: np.float32(v) if v == 1 else np.float64(v),
}


EQUAL = [(0.0, -0.0), (1, 1.0), (True, 1), ("\ud800", "\\ud800")]
EQUAL += [({"a": 1, "b": 2}, {"b": 2, "a": 1}), (np.zeros(2), np.zeros((2, 1)))]
EQUAL += [(np.zeros(2, "f4"), np.zeros(2, "f8"))]
OBJECTS = [(made(1), made(1), made(2)) for made in SAME.values()]


@pytest.mark.parametrize(
    ("own", "same", "other"), OBJECTS + [(one, one, other) for one, other in EQUAL]
)
def test_equal_and_other_objects(own, same, other):
    """By what they hold; that two are one object does not count."""
    assert differences([own], [same]) == []
    assert differences([own], [other]) != []
    assert differences([own, own], [own, same]) == []


def test_a_place_is_named_and_no_value():
    twice = IndependentSynthesizer(), IndependentSynthesizer()
    twice[1].rows_ = ["secret"]
    twice[0].rows_ = ["public"]
    assert differences(*twice) == [".rows_[0]"]


PLAIN = odd_tables()["plain"]
FRAME = pd.DataFrame({"a": [1.5, 2.5, 3.5, 9.0], "c": ["p", "q", "p", "q"]})
VISITS = TableSchema(
    {"who": Identifier(), "y": Boolean()}, privacy_unit="who", max_rows_per_unit=2
)


@pytest.mark.parametrize(
    ("synthesizer", "table", "source"),
    [
        ("independent", "undeclared", "pandas"),
        *(("independent", "plain", s) for s in ALL_SOURCES if s != "pandas"),
        ("gpate", "cells", "batches"),  # teachers' rows in parts
        ("dpcgan sampled", "plain", "pandas"),
    ],
)
def test_sound_synthesizers_are_silent(synthesizer, table, source):
    ready, own = SYNTHESIZERS[synthesizer], odd_tables()[table]
    pairs = [*pairs_of(Group(synthesizer, ready, own, source), ["first"])]
    assert [pair.outcome for pair in pairs] == ["equal"] * 2
    assert all(0 < pair.shift <= 1 + 1e-9 for pair in pairs)


def test_all_is_replayed():
    """A row more changes no dtype where dtypes are stated."""
    assert (6 * len(groups()), len(TWINS)) == (4488, 16)  # pairs, and twins
    assert {group.name for group in groups()} == {*SYNTHESIZERS}
    for table in odd_tables().values():
        if "dictionary" not in table.dtypes.values() and table.sources != ("csv",):
            more = table.frame((*table.rows, table.extra))
            pd.testing.assert_frame_equal(more[:-1], table.frame(table.rows))


class Leaky(IndependentSynthesizer):
    def _fit(self, rows, *args):
        self.rows_ = len(rows.of_class(0))
        return super()._fit(rows, *args)


@pytest.mark.parametrize("leaky", [False, True])
def test_a_synthesizer_of_your_own(leaky):
    found = replay((Leaky if leaky else IndependentSynthesizer)(50.0), FRAME)
    tried = [(pair.place, pair.change) for pair in found.pairs]
    assert tried == [*product(PLACES, CHANGES)]
    assert all(("(.rows_)" in str(pair.findings)) == leaky for pair in found.pairs)
    assert found.violated == leaky == ("finding" in str(found))


def test_all_rows_of_a_person_go():
    """Of three rows two may take part: without that limit they move it too far."""
    who = ["a", "a", "a", "b", "c", "d"]
    table = pd.DataFrame({"who": who, "y": [True, True, True, False, True, False]})
    made = IndependentSynthesizer(50.0, schema=VISITS)
    assert not replay(made, table, rows=["first"]).violated
    with TWINS["no limit of rows"].planted():
        found = replay(made, table, rows=["first"])
    assert [pair.change for pair in found.pairs if pair.findings] == ["removed"]
    assert "the person" in found.findings[0]


def test_bad_arguments():
    synth = IndependentSynthesizer()
    with pytest.raises(InvalidTableError, match="3 rows"):
        replay(synth, FRAME[:2])
    with pytest.raises(ValueError, match="second"):
        replay(synth, FRAME, rows=["second"])
    with pytest.raises(
        TypeError, match=r"a DataFrame\. Got IndependentSynthesizer and"
    ):
        replay(synth, "table.csv")


def test_an_error_of_one_world_is_a_finding_and_of_both_is_not():
    ready = IndependentSynthesizer(50.0, schema=PLAIN.schema)
    infinite = PLAIN.frame((*PLAIN.rows, (math.inf, 0.0, "p", "u")))
    first = enter(ready, PLAIN.frame(PLAIN.rows), 0, coupled=True)
    second = enter(ready, infinite, 0, first.releases, coupled=True)
    found = compare(first, second, "the row")[1]
    assert "the row decides whether there is an error, or which." in found
    both = [enter(ready, infinite, 0, coupled=True) for _ in range(2)]
    assert both[0].error is not None
    assert compare(*both, "the row")[1] == []
    found = replay(ready, infinite, rows=["first"])  # nothing was compared
    assert "the table without the row is refused" in found.findings[0]


def test_a_row_may_be_refused_if_it_is_so_wherever_it_stands(monkeypatch):
    """An infinite number is; looked for from the second row on, it is not at first."""
    own = odd_tables()["infinite floats"]
    group = Group("independent", SYNTHESIZERS["independent"], own)
    pairs = [*pairs_of(group, ["first", "last"])]
    outcomes = {(pair.change, pair.outcome) for pair in pairs}
    assert outcomes == {("added", "refused"), ("removed", "equal")}
    where = "skdpsynth.table._sources._checked"
    real = pkgutil.resolve_name(where)
    monkeypatch.setattr(where, lambda frame, *how: real(frame[1:], *how))
    assert any(pair.findings for pair in pairs_of(group))
