"""Watched fits: what one row moves, what results follow from, and what noise is.

A second reading of releases that the audit's replay records.
"""

import math
import re
import warnings
from dataclasses import dataclass
from functools import cached_property

import joblib
import numpy as np
import pandas as pd
from _reserve import is_noise
from dp_accounting.pld import privacy_loss_distribution as pld
from sklearn.base import clone

# Private: it reads again what the replay of the audit records.
from skdpsynth.audit._worlds import Observed, SequenceError, recorded, replayed
from skdpsynth.privacy.testing import coupled_rows, insecure_randomness

GRID = 2**20  # units of a count, or of a clipping norm, in sums of whole numbers
UNLABELLED = "rows without a label"


@dataclass(frozen=True, eq=False)
class Seen:
    """A release, with a digest of what each teacher added to it."""

    release: Observed

    @property
    def line(self):
        """The reservation."""
        return self.release.reservation

    @cached_property
    def counts(self):
        """Exact counts of the keys that were considered."""
        keys, exact = self.release.keys, self.release.exact.tolist()
        return dict(zip(keys, exact, strict=True))

    @property
    def teachers(self):
        """Digests, of the teachers that added anything."""
        return self.release.teachers or {}

    @property
    def family(self):
        """Its name without the numbers of the table."""
        return re.sub(r"\d+ tables? of (\d) columns?, .*", r"tables of \1", self.name)

    @property
    def name(self):
        """Its name in the ledger."""
        return re.sub(r"second moments of .*", "second moments", self.line.name)

    @property
    def payer(self):
        """Name of the class whose rows pay; None if all do."""
        scope = self.line.scope
        return scope if scope is None or isinstance(scope, str) else scope.value


def watched(synthesizer, table, *, history=None, secrets=None):
    """Fit a clone; give it, and its releases in order.

    `secrets` seeds what is secret, equal rows drawing alike. With the releases of
    another fit as `history`, they are released in place of its own.
    """
    told = recorded() if history is None else replayed([s.release for s in history])
    with warnings.catch_warnings(), told as seen:
        warnings.simplefilter("ignore")
        if secrets is None:
            fitted = clone(synthesizer).fit(table)
        else:
            with insecure_randomness(secrets), coupled_rows():
                fitted = clone(synthesizer).fit(table)
    assert history is None or len(history) == len(seen)
    return fitted, [*map(Seen, seen)]


# --- One row ----------------------------------------------------------------------


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


def exact_of_both(ours, theirs):
    """Give what two releases have exactly, of the keys that both have."""
    if ours.release.keys is None:
        return ours.release.exact, theirs.release.exact
    shared = sorted(ours.counts.keys() & theirs.counts.keys())
    return [np.array([s.counts[key] for key in shared], int) for s in (ours, theirs)]


def moved_by_a_row(before, after, payer):
    """Give the families that moved, and what no row of this payer may do."""
    moved, findings, teachers = set(), [], set()
    for ours, theirs in zip(before, after, strict=True):
        line, where = ours.line, f"{ours.name} of {ours.payer}"
        first, second = exact_of_both(ours, theirs)
        # Whole numbers are subtracted as such: they are beyond what doubles hold.
        change = (first - second).astype(np.float64) / ours.release.unit
        each = change.reshape(ours.release.n_releases, -1)
        shift = float(np.linalg.norm(each, axis=1).max(initial=0.0))
        each_teacher = ours.teachers.keys() | theirs.teachers.keys()
        changed = {
            t for t in each_teacher if ours.teachers.get(t) != theirs.teachers.get(t)
        }
        if ours.payer not in (None, payer) and (shift > 0 or changed):
            findings.append(f"{where} moves with a row of {payer}")
        if not shift <= line.sensitivity * (1 + 1e-9):  # nor is it NaN
            findings.append(f"{where} moves by {shift / line.sensitivity:.3g}")
        if not math.isclose(line.noise_std, theirs.line.noise_std, rel_tol=1e-12):
            findings.append(f"{where} has other noise")
        teachers |= {(ours.payer, t) for t in changed}
        if shift > 1e-3 * line.sensitivity:
            moved.add(ours.family)
    if len(teachers) > 1:
        findings.append(f"{len(teachers)} teachers change")
    return moved, findings


def influence(synthesizer, table, base=None, until=None):
    """Fit a table and its neighbours with equal releases: families moved, findings.

    `base` is what `base_fit` gives of the table, if it is known. Only findings that
    match the pattern `until` count, and the first neighbour that has one is the last.
    """
    public, before = base or base_fit(synthesizer, table)
    moved, findings = set(), []
    for name, payer, other in neighbours(table):
        try:
            fitted, after = watched(synthesizer, other, history=before, secrets=7)
        except (AssertionError, SequenceError):
            findings.append(f"{name}: other releases are made")
            continue
        families, found = moved_by_a_row(before, after, payer)
        moved |= families
        found += [f"{what} differs" for what in differences(public, shown(fitted))]
        found = [words for words in found if until is None or re.search(until, words)]
        findings += [f"{name}: {words}" for words in found]
        if until and found:
            break
    return moved, findings


def base_fit(synthesizer, table):
    """What a fit with frozen secrets shows, and its releases."""
    fitted, seen = watched(synthesizer, table, secrets=7)
    return shown(fitted), seen


# --- Flow -------------------------------------------------------------------------


def shown(fitted):
    """All that a fitted synthesizer holds and shows, each by a digest."""
    whole = joblib.hash(fitted)  # before samples are drawn, which move its stream
    arrays = fitted.generator_.to_state()[1] if hasattr(fitted, "generator_") else {}
    return {
        "the object": whole,
        "names": sorted(vars(fitted)),
        "the generator": {name: array.tobytes() for name, array in arrays.items()},
        "a sample": joblib.hash(fitted.sample(60, random_state=3)),
        "the stream": joblib.hash(fitted.sample(20)),
        "the schema": joblib.hash(fitted.schema_.to_dict()),
        "the report": repr(fitted.privacy_report().to_dict()),
    }


def differences(ours, theirs):
    """Name what two fits show differently."""
    return [what for what in ours if ours[what] != theirs[what]]


def flow(synthesizer, table, other):
    """Fit a table, then another with the releases of the first and other secrets.

    Gives what differs: nothing, if all results follow from releases and public seeds.
    """
    first, before = watched(synthesizer, table, secrets=1)
    second, _ = watched(synthesizer, other, history=before, secrets=2)
    return differences(shown(first), shown(second))


# --- Cost and noise ---------------------------------------------------------------

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


def noise_is_right(releases, alpha=1e-6):
    """Two-sided test that the noise of Gaussian releases of a line is the ledger's.

    Whole numbers are spread over their interval: noise of 0 is no accident.
    """
    spread, scaled = np.random.default_rng(0), []
    for seen in releases:
        noise = (seen.release.noisy - seen.release.exact).astype(np.float64).ravel()
        if seen.release.exact.dtype == np.int64:
            noise += spread.uniform(-0.5, 0.5, noise.size)
        scaled.append(noise / (seen.line.noise_std * seen.release.unit))
    return is_noise(np.concatenate(scaled), 1.0, alpha)
