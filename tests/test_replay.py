"""The replay in short: hooks couple rows, sound fits are equal, exit codes, JSON.

`tests/audit/test_replays.py` plants every twin, and has more tables and synthesizers;
`python -m skdpsynth.audit replay` has all.
"""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer
from skdpsynth.audit import _planted, _replay, replay
from skdpsynth.audit.__main__ import main
from skdpsynth.audit._odd_tables import ALL_SOURCES, contained, odd_tables
from skdpsynth.audit._worlds import (
    NOT_PASSED,
    Observed,
    compare,
    compare_releases,
    differences,
    enter,
    recorded,
    replayed,
)
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy import (
    GRID,
    MIN_KEY_COUNT,
    LocalParts,
    PrivacyAccountant,
    gaussian_sum,
    of_rows,
    secret_generator,
    telling,
    thresholded_counts,
)
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy.testing import (
    coupled_rows,
    insecure_randomness,
    observe_releases,
)
from skdpsynth.table import _sources
from skdpsynth.training._clipping import poisson_sample
from skdpsynth.training._teachers import assign_teachers

ROWS = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
PLACES = (0, 9, 20)
N_WAYS = len(_replay.SYNTHESIZERS)


# --- Rows keep their draws ----------------------------------------------------------


def teachers_of(rows, rng):
    return assign_teachers(len(rows), 50, of_rows(rng, rows))


def drawn_of(rows, rng):
    chosen = np.zeros(len(rows), dtype=np.int64)
    chosen[poisson_sample(len(rows), 0.5, of_rows(rng, rows))] = 1
    return chosen


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("draw", [teachers_of, drawn_of])
@pytest.mark.parametrize("made", [np.asarray, torch.from_numpy])
def test_a_row_that_comes_leaves_the_draws_of_others(draw, made, place):
    """Coupled ones, bit for bit; of 20 rows that are not, some have other draws."""
    more = np.insert(ROWS, place, 7.0, axis=0)

    def draws(rows):
        with insecure_randomness(3):
            return draw(made(rows), secret_generator())

    with coupled_rows():
        kept = np.delete(draws(more), place)
        np.testing.assert_array_equal(kept, draws(ROWS))
        assert len(set(kept.tolist())) > 1
    if place < len(ROWS):
        assert not np.array_equal(np.delete(draws(more), place), draws(ROWS))


def test_rows_are_coupled_where_nothing_is_private_only():
    """And one number is drawn for each of them."""
    with coupled_rows():
        rng = secret_generator()
        assert of_rows(rng, ROWS) is rng
        with insecure_randomness(0), pytest.raises(ValueError, match="20 rows"):
            of_rows(secret_generator(), ROWS).random(19)


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


# --- What an observer is given ------------------------------------------------------


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
    with recorded() as seen:
        gaussian_sum(vectors, 1.0, line(2 * GRID))
        with telling(by_teacher=lambda: np.ones((3, 2), np.int64)):
            release_gaussian(np.array([3, 3]), line())
            release_gaussian(np.array([3, 4]), line())
    assert [release.adds_up for release in seen] == [True, True, False]
    assert len(seen[0].teachers) == 4
    assert seen[0].by_teacher is None


def found_keys(counts, history=None, names=None, least=MIN_KEY_COUNT):
    """Release keys of one column, maybe with the answers of another release."""
    names = names or [f"k{i}" for i in range(len(counts))]
    own = recorded(edge=True) if history is None else replayed(history)
    with insecure_randomness(0), own as seen:
        reservation = line(1.0, 1e-6)
        ((kept, _),) = thresholded_counts(
            [np.array(counts)], reservation, 1e-6, lambda: [names], least=least
        )
    return seen, [names[place] for place in kept]


def findings_of(first, second):
    return compare_releases(first, second, "the row")


def test_a_key_that_reaches_the_least_count_does_not_pass():
    """And is found by its name, although the places of all others move."""
    history, passed = found_keys([10**6, MIN_KEY_COUNT - 1, 10**6])
    answered, again = found_keys([10**6, MIN_KEY_COUNT, 10**6], history)
    assert passed == again == ["k0", "k2"]
    assert [release.exact.tolist() for release in answered] == [[10**6, 2, 10**6]]
    assert answered[0].noisy[1] == NOT_PASSED
    shifts, findings = findings_of(history, answered)
    assert findings == []
    assert shifts == [0.0]
    history, passed = found_keys([10**6, MIN_KEY_COUNT])  # and the other way round
    answered, again = found_keys([10**6, MIN_KEY_COUNT - 1], history)
    assert passed == again == ["k0"]
    assert findings_of(history, answered)[1] == []


@pytest.mark.parametrize(
    ("counts", "names", "words"),
    [
        ([9, 3], None, "a key of more than 2 rows"),
        ([9, 2, 2], None, "several keys to a column"),
        ([2], ["other"], "that the other lacks"),
        ([11], ["k0"], "2 times its sensitivity"),
        ([9], [True], "that the other lacks"),  # which equals 1
    ],
)
def test_other_differences_of_keys_are_findings(counts, names, words):
    first = [1] if names == [True] else None
    history, _ = found_keys([9], names=first)
    answered, _ = found_keys(counts, history, names)
    assert any(words in finding for finding in findings_of(history, answered)[1])


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([10**6, 6], [10**6, 7], ""),  # it reaches the least count, and does not pass
        ([10**6, 7], [10**6, 6], ""),
        ([10**6, 2], [10**6, 3], ""),  # neither is considered
        ([10**6], [10**6, 8], "a key of more than 7 rows"),
        ([10**6], [10**6, 7, 7], "several keys to a column"),
    ],
)
def test_the_least_count_is_that_of_the_release(first, second, words):
    history, passed = found_keys(first, least=7)
    answered, again = found_keys(second, history, least=7)
    assert history[0].least == answered[0].least == 7
    assert passed == again == ["k0"]
    findings = findings_of(history, answered)[1]
    assert len(findings) == bool(words)
    assert all(words in finding for finding in findings)


def test_noise_that_is_missing_is_noticed():
    """Twenty zeros of a noise of 20 have a probability below 1e-30."""
    with insecure_randomness(0), recorded() as seen:
        release_gaussian(np.arange(20), line())
    assert not seen[0].silent
    assert Observed.of(replace(seen[0], noisy=seen[0].exact)).silent


# --- Equal by what is held ----------------------------------------------------------


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
    "tensors": lambda v: torch.tensor([v]),
    "parameters": lambda v: torch.nn.Parameter(torch.tensor([float(v)])),
    "generators": lambda v: np.random.default_rng(int(v)),
    "generators of torch": lambda v: torch.Generator().manual_seed(int(v)),
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


@pytest.mark.parametrize("made", SAME.values(), ids=SAME)
def test_equal_and_other_objects(made):
    assert differences([made(1)], [made(1)]) == []
    assert differences([made(1)], [made(2)]) != []


def test_identity_does_not_count():
    text = "".join(["a", "b"])
    again = "".join(["a", "b"])
    assert text is not again
    assert differences([text, text], [text, again]) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (True, 1),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2, "f4"), np.zeros(2, "f8")),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_compares_equal_may_differ(first, second):
    assert differences(first, first) == []
    assert differences(first, second) != []


def test_a_place_is_named_and_no_value():
    twice = IndependentSynthesizer(), IndependentSynthesizer()
    twice[1].rows_ = ["secret"]
    twice[0].rows_ = ["public"]
    assert differences(*twice) == [".rows_[0]"]


# --- Pairs --------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """A replay of one table, and of two twins."""
    few = {n: _replay.PLANTED[n] for n in ("the number of rows kept", "slices")}
    monkeypatch.setattr(_replay, "PLANTED", few)
    tables = {"plain": odd_tables()["plain"]}
    monkeypatch.setattr(_replay, "odd_tables", lambda: tables)


@pytest.mark.parametrize(
    ("synthesizer", "table", "source"),
    [
        ("Independent", "undeclared", "pandas"),
        ("Independent", "plain", [s for s in ALL_SOURCES if s != "pandas"]),
        ("GPATE", "cells", "batches"),  # teachers' rows in parts
        ("GPATE, networks", "plain", "pandas"),
        ("DPCGAN, sampled", "plain", "pandas"),
    ],
)
def test_sound_synthesizers_are_silent(synthesizer, table, source):
    ready = _replay.SYNTHESIZERS[synthesizer]
    found = replay(ready, table, source=source, rows=["first"], twins=False)
    n_sources = 1 if isinstance(source, str) else len(source)
    assert len(found.pairs) + 2 * len(found.left_out) == 2 * n_sources
    assert {pair.outcome for pair in found.pairs} == {"equal"}
    assert all(0 < pair.shift <= 1 + 1e-9 for pair in found.pairs)
    assert not found.violated
    assert len(found.to_frame()) == len(found.pairs)


def test_every_table_has_what_is_odd_in_every_source(tmp_path):
    """At least 12 tables; a row more changes no dtype where dtypes are stated."""
    tables = odd_tables()
    assert len(tables) >= 12
    for table in tables.values():
        assert 20 <= len(table.rows) <= 300
        assert set(table.sources) <= set(ALL_SOURCES)
        if "dictionary" in table.dtypes.values() or table.sources == ("csv",):
            continue
        more = table.frame((*table.rows, table.extra))
        fewer = table.frame(table.rows)
        assert dict(more.dtypes) == dict(fewer.dtypes)
        pd.testing.assert_frame_equal(more[:-1], fewer)
    of_csv = contained("csv", tables["long texts"], tables["long texts"].rows, tmp_path)
    assert len(pd.read_csv(of_csv)) == len(tables["long texts"].rows)


def command(words, *more):
    """Call the command in this process; an option that is given again counts."""
    own = ["--synthesizer", "IndependentSynthesizer", "--jobs", "1", *words.split()]
    return main(["replay", *own, *more])


def test_the_command_is_silent_on_what_is_sound(small, capsys, tmp_path):
    """Exit code 0; a line per pair and twin; JSON has the same."""
    file = tmp_path / "found.json"
    assert command("--source pandas,arrow --json", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [text.split()[0] for text in lines[:-1]] == ["seen"] * 2 + ["equal"] * 12
    assert lines[-1].startswith("12 pairs (12 equal); 2 of 2 twins seen")
    held = json.loads(file.read_text(encoding="utf-8"))
    assert not held["violated"]
    assert len(held["pairs"]) == 12
    assert set(held["pairs"][0]) == set(_replay.ReplayedPair.__dataclass_fields__)
    assert {(p["change"], p["place"]) for p in held["pairs"]} == {
        (change, place) for change in _replay.CHANGES for place in _replay.PLACES
    }
    assert [twin["seen"] for twin in held["twins"]] == [True, True]


def test_a_finding_is_exit_code_1(small, capsys):
    with _planted.PLANTED["the number of rows kept"].planted():
        assert command("--rows middle --no-twins") == 1
    assert "past all releases (.n_rows_)" in capsys.readouterr().out


def test_a_twin_that_is_not_noticed_is_exit_code_1(small, capsys, monkeypatch):
    sound = _planted.PLANTED["the number of rows kept"]._replace(
        broken=lambda real, *args, **named: real(*args, **named)
    )
    monkeypatch.setattr(_replay, "PLANTED", {"a sound twin": sound})
    assert command("--rows first") == 1
    assert "NOT SEEN twin: a sound twin" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--synthesizer", "Nobody"],
        ["--table", "no such table"],
        ["--source", "paper"],
        ["--rows", "second"],
        ["--minutes", "0"],
    ],
)
def test_arguments_that_make_no_sense_are_exit_code_2(arguments, capsys):
    assert command("--no-twins", *arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_of_a_file(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.5, 9.0], "c": ["p", "q", "p", "q"]})
    file = tmp_path / f"own.{suffix}"
    frame.to_csv(file, index=False) if suffix == "csv" else frame.to_parquet(file)
    found = replay("Independent", file, rows=["last"], twins=False)
    assert [pair.outcome for pair in found.pairs] == ["equal", "equal"]
    assert {pair.table for pair in found.pairs} == {file.name}
    with pytest.raises(InvalidTableError, match="3 rows"):
        replay("Independent", frame[:2], twins=False)


def test_a_synthesizer_of_your_own():
    class Leaky(IndependentSynthesizer):
        def _fit(self, rows, *args):
            self.rows_ = len(rows)
            return super()._fit(rows, *args)

    found = replay(Leaky(50.0), "plain", rows=["last"], twins=False)
    assert all("(.rows_)" in pair.findings[0] for pair in found.pairs)
    assert "finding" in str(found)


def test_an_error_of_one_world_is_a_finding_and_of_both_is_not():
    table = odd_tables()["plain"]
    ready = IndependentSynthesizer(50.0, schema=table.schema)
    infinite = table.frame((*table.rows, (math.inf, 0.0, "p", "u")))
    sound = table.frame(table.rows)
    first = enter(ready, sound, 0, coupled=True)
    second = enter(ready, infinite, 0, first.releases, coupled=True)
    assert (
        "the row decides whether there is an error, or which."
        in compare(first, second, "the row")[1]
    )
    both = [enter(ready, infinite, 0, coupled=True) for _ in range(2)]
    assert both[0].error is not None
    assert compare(*both, "the row")[1] == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--table", "surrogates", "--source", "csv"], "does not come as that"),
        (["--table", "plain", "--source", "polars"], "polars is not installed"),
        (
            ["--table", "plain", "--minutes", "1e-9"],
            "6 pairs of Independent from pandas: 1e-09 minutes were over",
        ),
    ],
)
def test_no_pair_is_exit_code_2(arguments, reason, capsys, monkeypatch):
    monkeypatch.setattr(
        _replay,
        "missing_library",
        lambda source: "polars" * (source == "polars") or None,
    )
    assert command("--no-twins", *arguments) == 2
    left_out, said, total = capsys.readouterr().out.splitlines()
    assert reason in left_out
    assert said == "no pair was tried: nothing is known of any fit."
    assert total.startswith("0 pairs (none)")


def test_a_source_that_refuses_every_table_is_a_finding(small, capsys, monkeypatch):
    """Both fits of a pair raise the same error: they are equal, and say nothing."""
    monkeypatch.setattr(_replay, "contained", lambda *asked: 5)
    assert command("--source arrow --rows first --no-twins") == 1
    said = capsys.readouterr().out
    assert said.count("the table without the row is refused, InvalidTableError: ") == 4


@pytest.mark.parametrize(
    ("source", "n_trained"), [(None, 2), ("all", N_WAYS), (["csv"], N_WAYS)]
)
def test_only_the_default_leaves_out_synthesizers(small, source, n_trained):
    """Without a word: pandas for all, and all sources for two of them."""
    groups, _ = _replay._plan(None, None, source)
    by_source = Counter(group.source for group in groups)
    assert by_source.pop("pandas", N_WAYS) == N_WAYS
    assert set(by_source.values()) == {n_trained}
    assert len(_replay._plan(None, "plain", "all")[0]) == N_WAYS * len(ALL_SOURCES)


def test_a_warning_is_compared_and_not_shown():
    table = odd_tables()["plain"]
    ready = IndependentSynthesizer(50.0, schema=table.schema)
    rows = *table.rows, table.extra
    twin = _planted.PLANTED["a warning of values"].planted()
    with warnings.catch_warnings(action="error"), twin:
        world = enter(ready, table.frame(rows), 0, coupled=True)
    assert world.error is None
    assert set(world.warned) == {"UserWarning: large values"}


@pytest.mark.parametrize("name", ["no noise", "the number of rows kept"])
def test_another_thread_fits_soundly_while_a_twin_is_planted(name):
    """A function, and a method. It releases noise: 25 zeros are rarer than 1e-30."""
    table = odd_tables()["plain"]
    synthesizer = IndependentSynthesizer(1.0, schema=table.schema)
    frame = table.frame(table.rows)

    def fitted():
        releases = []
        with observe_releases(releases.append):
            made = clone(synthesizer).fit(frame)
        noise = np.concatenate([(r.noisy - r.exact).ravel() for r in releases])
        return made, noise

    with insecure_randomness(0), _planted.PLANTED[name].planted():
        broken, silence = fitted()
        with ThreadPoolExecutor(1) as pool:
            sound, noise = pool.submit(fitted).result()
    assert math.isinf(broken.epsilon_)
    assert hasattr(broken, "n_rows_") or not silence.any()
    assert sound.epsilon_ <= 1.0
    assert not hasattr(sound, "n_rows_")
    assert len(noise) >= 25
    assert noise.any()


def test_a_row_may_be_refused_if_it_is_so_wherever_it_stands(monkeypatch):
    """An infinite number is; looked for from the second row on, it is not at first."""
    ready = _replay.SYNTHESIZERS["Independent"]
    found = replay(ready, "infinite floats", rows=["first", "last"], twins=False)
    outcomes = {(pair.change, pair.outcome) for pair in found.pairs}
    assert outcomes == {("added", "refused"), ("removed", "equal")}
    real = _sources.count_infinite
    monkeypatch.setattr(
        _sources, "count_infinite", lambda frame, layout: real(frame[1:], layout)
    )
    assert replay(ready, "infinite floats", twins=False).violated
