"""Watched fits: what one row moves, what results follow from, and what they cost.

By the worlds that the audit's replay compares.
"""

import math
import re
import warnings

import numpy as np
import pandas as pd
from dp_accounting.pld import privacy_loss_distribution as pld
from sklearn.base import clone

# Private: the comparison of a replay, on fits that are kept. Tests take it from here.
from skdpsynth.audit._worlds import (
    compare,
    compare_releases as compare_releases,
    differences,
    enter,
    entries_of,
    observed,
)
from skdpsynth.privacy.testing import coupled_rows, insecure_randomness

GRID = 2**20  # units of a count, or of a clipping norm, in sums of whole numbers
UNLABELLED = "rows without a label"


def name_of(line):
    return re.sub(r"second moments of .*", "second moments", line.name)


def family_of(line):
    """Give its name without the numbers of the table."""
    return re.sub(r"\d+ tables? of (\d) columns?, .*", r"tables of \1", name_of(line))


def payer_of(line):
    """Give the name of the class whose rows pay; None if all do."""
    scope = line.scope
    return scope if scope is None or isinstance(scope, str) else scope.value


class Seen:
    """A release, and what it is called in the ledger."""

    def __init__(self, release):
        self.release, self.line = release, release.reservation
        self.name, self.family = name_of(self.line), family_of(self.line)
        self.payer = payer_of(self.line)


def watched(synthesizer, table, *, history=None, secrets=None):
    """Fit a clone; give it, and its releases in order.

    `secrets` seeds what is secret, equal rows drawing alike. With the releases of
    another fit as `history`, they are released in place of its own.
    """
    told = observed(history and [seen.release for seen in history])
    with warnings.catch_warnings(), told as seen:
        warnings.simplefilter("ignore")
        if secrets is None:
            fitted = clone(synthesizer).fit(table)
        else:
            with insecure_randomness(secrets), coupled_rows():
                fitted = clone(synthesizer).fit(table)
    assert history is None or len(history) == len(seen)
    return fitted, [*map(Seen, seen)]


def neighbours(table, target="y"):
    """Tables with one row more or less: name, whose row it is, and the table."""

    def added(place, label, **values):
        row = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"]}).assign(**values)
        parts = table.iloc[:place], row.assign(**{target: label}), table.iloc[place:]
        return pd.concat(parts, ignore_index=True)

    extreme, n_rows = {"a": 1e6, "b": np.nan, "c": "never seen"}, len(table)
    yield "first added", "u", added(0, "u")
    yield "extreme added", "u", added(n_rows, "u", **extreme)
    rows = np.flatnonzero(table[target] == "v")
    yield "removed", "v", table.drop(index=table.index[rows[len(rows) // 2]])
    if table[target].isna().any():
        yield "unlabelled added", UNLABELLED, added(n_rows // 2, None)


def influence(synthesizer, table, first=None, until=""):
    """Fit a table and its neighbours with equal releases: families moved, findings.

    `first` is the fit of the table, if it was made. Only findings that match the
    pattern `until` count, and the first neighbour that has one is the last.
    """
    first = first or enter(synthesizer, table, 7, coupled=True)
    moved, findings = set(), []
    for name, payer, other in neighbours(table):
        second = enter(synthesizer, other, 7, first.releases, coupled=True)
        shifts, found = compare(first, second, "the row")
        for line, shift in zip(entries_of(first.releases), shifts, strict=False):
            if shift > 1e-3:
                moved.add(family_of(line))
            if shift > 0 and payer_of(line) not in (None, payer):
                found.append(f"{line.name} moves with a row of {payer}")
        # A clipped sum may stay where a teacher's vector changes.
        for ours, theirs in zip(first.releases, second.releases, strict=False):
            of = payer_of(ours.reservation)
            if ours.teachers != theirs.teachers and of not in (None, payer):
                found.append(f"a teacher of {of} moves with a row of {payer}")
        findings += [f"{name}: {words}" for words in found if re.search(until, words)]
        if until and findings:
            break
    return moved, findings


def unequal(ours, theirs):
    """Name what two fits hold and show differently."""
    shows = (
        [own, own.sample(60, random_state=3), own.privacy_report().to_dict()]
        for own in (ours, theirs)
    )
    return differences(*shows)


def flow(synthesizer, table, other):
    """Fit a table, then another with the releases of the first and other secrets.

    Gives what differs: nothing, if all results follow from releases and public seeds.
    """
    first = enter(synthesizer, table, 1, coupled=True)
    second = enter(synthesizer, other, 2, first.releases, coupled=True)
    assert len(second.releases) == len(first.releases)
    return unequal(first.fitted, second.fitted)


_STEP = 3e-4  # of losses; what is rounded up adds to the sum


def discrete_tails(scale, noise):
    """P(noise >= j) for all j near 0, summed from the masses."""
    values = np.arange(-int(60 * scale) - 200, int(60 * scale) + 201)
    power = (values / scale) ** 2 / 2 if noise == "gaussian" else np.abs(values) / scale
    mass = np.exp(-power)
    return dict(zip(values, np.cumsum((mass / mass.sum())[::-1])[::-1], strict=True))


def cost(lines, proven, delta):
    """Epsilon of (reservation, releases, proven sensitivity) by dp-accounting.

    Gaussian costs add up in squares, of sigma^2 less the 4 of whole numbers. A vote is
    charged as if about a tie, where one more tells most.
    """
    squared, parts = 0.0, []
    for line, n_releases in lines:
        if line.kind.endswith("vote"):
            tails = discrete_tails(line.noise_std, line.kind.split()[0])
            half = line.n_teachers // 2
            few, many = (tails[half + 1 - n] for n in (half, half + 1))
            logs = [{1: math.log(p), 0: math.log1p(-p)} for p in (few, many)]
            one = pld.from_two_probability_mass_functions(
                *logs, value_discretization_interval=_STEP, symmetric=False
            )
            parts.append(one.self_compose(n_releases))
        elif line.sampling_rate < 1:
            one = pld.from_gaussian_mechanism(
                line.noise_std,
                sampling_prob=line.sampling_rate,
                value_discretization_interval=_STEP,
            )
            parts.append(one.self_compose(n_releases))
        else:
            variance = line.noise_std**2 - (4 if line.kind == "gaussian" else 0)
            squared += n_releases * proven(line) ** 2 / variance
    if squared:
        whole = pld.from_gaussian_mechanism(
            squared**-0.5, value_discretization_interval=_STEP
        )
        parts.append(whole)
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total.get_epsilon_for_delta(delta)
