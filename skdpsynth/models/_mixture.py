"""A mixture fitted to measured tables: post-processing, no private row comes here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from skdpsynth.models._generator import AdamSteps
from skdpsynth.utils import in_order_of_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


_RAKINGS = 50  # rounds until the shares of lent levels are right
_TINY = 1e-12


@dataclass(frozen=True)
class Mixture:
    """The generator of one class.

    `weights` are the probabilities of the codes, with sum 1, `probabilities` the
    distributions over the bins of each column, given the code; the bins of all columns,
    D of them, stand one after the other. `ranks` say where each bin begins and ends
    among the ranks of its column, in [0, 1].
    """

    weights: NDArray[np.float64]  # (n_components,)
    probabilities: NDArray[np.float32]  # (n_components, D)
    ranks: NDArray[np.float64]  # (2, D)

    @classmethod
    def independent(
        cls, shares: NDArray[np.float64], ranks: NDArray[np.float64]
    ) -> Mixture:
        """One component: the columns of a class have nothing to do with each other."""
        return cls(np.ones(1), shares[None].astype(np.float32), ranks)

    def lent(
        self, own: Mixture, starts: NDArray[np.int64], categories: Sequence[bool]
    ) -> Mixture:
        """Give the same dependence to a class with marginals of its own.

        Every column of the borrower has its own marginal, as `own` has it. `levels`
        says which columns have no order: there the odds of the bins are changed alike
        in all components until the shares are right. Of other columns bins become
        intervals of the ranks that this mixture itself draws.
        """
        probabilities, ranks = self.probabilities.copy(), own.ranks.copy()
        wanted = np.maximum(own.weights @ own.probabilities, _TINY)
        for j, (start, end) in enumerate(pairwise(starts.tolist())):
            given = np.maximum(self.probabilities[:, start:end].astype(float), _TINY)
            if categories[j]:
                odds = np.ones(end - start)
                for _ in range(_RAKINGS):
                    tilted = given * odds
                    tilted /= tilted.sum(axis=1, keepdims=True)
                    odds *= wanted[start:end] / (self.weights @ tilted)
                probabilities[:, start:end] = tilted
                continue
            order = start + np.lexsort(self.ranks[::-1, start:end])
            ends = np.cumsum((self.weights @ given)[order - start])
            ranks[1, order] = ends / ends[-1]
            ranks[0, order] = np.concatenate(([0.0], ends[:-1] / ends[-1]))
        return replace(self, probabilities=probabilities, ranks=ranks)

    def within(
        self, spans: Mapping[int, NDArray[np.float64]], starts: NDArray[np.int64]
    ) -> tuple[Mixture, float]:
        """Restrict the ranks of some columns; give the share of rows that are kept too.

        A bin keeps what is between its first and its last allowed rank, so where it has
        several spans some other rows are left.
        """
        weights, probabilities = self.weights.copy(), self.probabilities.astype(float)
        ranks = self.ranks.copy()
        for j, allowed in spans.items():
            bins = slice(starts[j], starts[j + 1])
            low, high = ranks[:, bins]
            begin = np.maximum(low, allowed[:, :1])
            end = np.minimum(high, allowed[:, 1:])
            first = np.where(end > begin, begin, np.inf).min(axis=0, initial=np.inf)
            last = np.where(end > begin, end, -np.inf).max(axis=0, initial=-np.inf)
            some = last > first
            kept = np.where(some, last - first, 0.0) / np.maximum(high - low, _TINY)
            ranks[:, bins] = np.where(some, (first, last), (low, high))
            given = probabilities[:, bins]
            left = given * kept
            share = left.sum(axis=1, keepdims=True)
            weights *= share[:, 0] / given.sum(axis=1)
            probabilities[:, bins] = np.where(
                share > 0, left / np.maximum(share, _TINY), 1.0
            )
        total = float(weights.sum())
        weights = weights / total if total > 0 else self.weights
        return Mixture(weights, probabilities.astype(np.float32), ranks), total


class MixtureGenerator:
    """The generators of all classes: public, initial values and what was released."""

    def __init__(self, mixtures: list[Mixture], starts: NDArray[np.int64]) -> None:
        self.mixtures = mixtures
        self.starts = starts

    def draw(
        self, class_codes: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of rows of given classes: in [0, 1), (n_rows, n_columns)."""
        ranks = np.empty((len(class_codes), len(self.starts) - 1))
        order, places_of = in_order_of_class(class_codes, len(self.mixtures))
        for mixture, own in zip(self.mixtures, places_of, strict=True):
            rows = order[own]
            # In the order of their codes: the tables below are then read in order.
            codes = np.repeat(
                np.arange(len(mixture.weights)),
                rng.multinomial(len(rows), mixture.weights),
            )
            rows = rng.permutation(rows)
            low, width = mixture.ranks[0], mixture.ranks[1] - mixture.ranks[0]
            found = np.empty((ranks.shape[1], len(rows)))
            for j, (start, end) in enumerate(pairwise(self.starts.tolist())):
                ends = mixture.probabilities[:, start:end].cumsum(1, dtype=np.float64)
                ends /= ends[:, -1:]
                table = (ends + np.arange(len(ends))[:, None]).ravel()
                places = np.searchsorted(table, codes + rng.random(len(rows)), "right")
                bins = np.minimum(places - codes * (end - start), end - start - 1)
                rng.random(out=found[j])
                found[j] *= width[start:end].take(bins)
                found[j] += low[start:end].take(bins)
            ranks[rows] = found.T
        return ranks

    def within(
        self, spans: Sequence[Mapping[int, NDArray[np.float64]]]
    ) -> tuple[MixtureGenerator, NDArray[np.float64]]:
        """Restrict the ranks of each class; see `Generator`."""
        own = zip(self.mixtures, spans, strict=True)
        found = [mixture.within(part, self.starts) for mixture, part in own]
        shares = np.array([share for _, share in found])
        return MixtureGenerator([mixture for mixture, _ in found], self.starts), shares

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into JSON-safe facts and arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {"generator.starts": self.starts}
        for c, mixture in enumerate(self.mixtures):
            arrays[f"generator.{c}.weights"] = mixture.weights
            arrays[f"generator.{c}.probabilities"] = mixture.probabilities
            arrays[f"generator.{c}.ranks"] = mixture.ranks
        return {"form": "mixture", "n_classes": len(self.mixtures)}, arrays

    @classmethod
    def from_state(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> MixtureGenerator:
        """Rebuild what `to_state` split."""
        fields = ("weights", "probabilities", "ranks")
        mixtures = [
            Mixture(*(arrays[f"generator.{c}.{name}"] for name in fields))
            for c in range(document["n_classes"])
        ]
        return cls(mixtures, arrays["generator.starts"])


_LEAST_CELL = 1e-9  # of a cell
_LEAST_INFORMATION = 1e-6  # nats: less is rounding


def draw_from_tree(
    shares: NDArray[np.float64],
    noisy: NDArray[np.floating],
    measured: NDArray[np.bool_],
    std: float,
    starts: NDArray[np.int64],
    n_rows: int,
    generator: torch.Generator,
) -> NDArray[np.int64]:
    """Draw bins of shape (n_rows, n_columns) from what was released of a class.

    `shares` (D,) are those of the bins in their columns; `noisy` (D, D), with noise
    `std`, those of pairs of bins above the diagonal, where they were `measured`.
    """
    columns = [slice(start, end) for start, end in pairwise(starts.tolist())]
    tables: dict[tuple[int, int], NDArray[np.float64]] = {}
    information = np.zeros((len(columns), len(columns)))
    for a, b in combinations(range(len(columns)), 2):
        place = columns[a], columns[b]
        if measured[place].any():
            apart = np.outer(shares[columns[a]], shares[columns[b]])
            table = _beyond_noise(noisy[place].astype(np.float64), apart, std)
            tables[a, b], tables[b, a] = table, table.T
            sides = np.outer(table.sum(axis=1), table.sum(axis=0))
            information[a, b] = (table * np.log(table / sides)).sum()
    information[information < _LEAST_INFORMATION] = 0.0
    tree = minimum_spanning_tree(-information)
    drawn = np.zeros((n_rows, len(columns)), dtype=np.int64)
    seen: set[int] = set()
    for root in range(len(columns)):
        if root in seen:
            continue
        order, parents = breadth_first_order(tree, root, directed=False)
        seen.update(order.tolist())
        for j in order:
            given = shares[None, columns[j]]
            if parents[j] >= 0:
                given = tables[int(parents[j]), int(j)][drawn[:, parents[j]]]
            # One place in each n-th of the line, so that few rows hold a column well.
            steps = torch.randperm(n_rows, generator=generator)
            places = (steps + torch.rand(n_rows, generator=generator)).numpy()
            ends = given.cumsum(axis=1)
            below = ends < places[:, None] / max(n_rows, 1) * ends[:, -1:]
            drawn[:, j] = np.minimum(below.sum(axis=1), given.shape[1] - 1)
    return drawn


def _beyond_noise(
    noisy: NDArray[np.float64], apart: NDArray[np.float64], std: float
) -> NDArray[np.float64]:
    """Keep the cells that noise cannot explain; the rest is as if columns were apart.

    Of shape (n_bins, n_bins). No cell of noise is kept, but for one table in a few
    (Donoho, Johnstone 1994: the universal threshold).
    """
    threshold = std * math.sqrt(2.0 * math.log(noisy.size + 1))
    kept = np.abs(noisy - apart) > threshold
    found = np.where(kept, np.maximum(noisy, 0.0), 0.0)
    rest = np.where(kept, 0.0, apart)
    rest *= max(1.0 - found.sum(), 0.0) / max(rest.sum(), _LEAST_CELL)
    table: NDArray[np.float64] = np.maximum(found + rest, _LEAST_CELL)
    return table / table.sum()


_LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers


class TripleLoss:
    """The distance of a mixture to the tables of triples that were measured of a class.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int64
        Where the bins of each column begin, and the last ones end.
    groups : ndarray of shape (D,), int64
        The group of each bin.
    triples : ndarray of shape (T, 3), int64
        Columns i < j < k.
    counts : ndarray of shape (T, G, G, G)
        Noisy counts of groups.
    noise_std : float
        Of a count, in rows.
    n_rows : float
        Rows of the class as known otherwise: tables with less than half of them count
        as much as half.
    device : torch.device
        Where the loss is computed.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        groups: NDArray[np.int64],
        triples: NDArray[np.int64],
        counts: NDArray[np.floating],
        noise_std: float,
        *,
        n_rows: float,
        device: torch.device,
    ) -> None:
        self._n_groups = n_groups = counts.shape[-1]
        n_columns = len(starts) - 1
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        member = torch.zeros((len(groups), n_columns * n_groups))
        member[np.arange(len(groups)), column * n_groups + groups] = 1.0
        self._member = member.to(device)
        whole = max(float(counts.sum(dtype=np.float64)) / len(triples), n_rows / 2)
        # By second column, first column, their groups, third column, and its group.
        shape = n_columns, n_columns, n_groups, n_groups, n_columns, n_groups
        self._shares = torch.zeros(shape, device=device)
        self._per_share = torch.zeros(shape, device=device)
        first, second, third = torch.from_numpy(triples).to(device).T
        place = second, first, slice(None), slice(None), third
        shares = torch.from_numpy(np.asarray(counts / whole, dtype=np.float32))
        self._shares[place] = shares.to(device)
        self._per_share[place] = whole / max(noise_std, _LEAST_NOISE)

    def __call__(
        self, weights: torch.Tensor, probabilities: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Give the squared distance of a mixture's shares, in noise variances.

        Beside it its slopes by the weights and the probabilities, in closed form.
        """
        by_group = self._member.T @ probabilities.T  # components last, as memory goes
        n, n_components = self._n_groups, len(weights)
        groups = by_group.reshape(-1, n, n_components)
        by_groups, by_weights = torch.zeros_like(groups), torch.zeros_like(weights)
        total = torch.zeros((), device=weights.device)
        for j in range(1, len(groups) - 1):  # the second columns of triples
            first, second, third = groups[:j], groups[j], by_group[(j + 1) * n :]
            pairs = (first[:, :, None] * second).reshape(-1, n_components)
            found = pairs @ (third * weights).T
            per_share, shares = (
                whole[j, :j, :, :, j + 1 :].reshape(found.shape)
                for whole in (self._per_share, self._shares)
            )
            off = per_share * (found - shares)
            total += off.square().sum()
            by_found = 2.0 * per_share * off
            by_third = by_found.T @ pairs
            by_weights += (by_third * third).sum(0)
            by_groups[j + 1 :] += by_third.reshape(-1, n, n_components)
            by_pairs = (by_found @ third).reshape(j, n, n, n_components)
            by_groups[:j] += (by_pairs * second).sum(2)
            by_groups[j] += (by_pairs * first[:, :, None]).sum((0, 1))
        by_groups *= weights
        by_probabilities = (self._member @ by_groups.reshape(by_group.shape)).T
        return total, by_weights, by_probabilities


# At least and at most, and for each bin: components of all classes together, and steps.
_COMPONENTS, _COMPONENTS_PER_BIN = (100, 1000), 4.0
_BLOCKS = 8  # of the tables of all pairs, by rows
_HALVED_FROM = 128  # bins: every second block makes a step
# Pairs of bins, of all components and classes, by the number of columns.
_MOST_CELLS = (15, 20), (2.5e8, 1.6e8)
_STEPS, _STEPS_PER_BIN = (300, 600), 2.5
# By the number of columns: a step of a wide table costs much, so it is longer.
_LEARNING_RATE = (15, 20), (0.05, 0.08)
_TRIPLE_STEPS = 100  # with tables of three columns, before the rate falls
_LOGIT, _BUMP = 3.0, 0.6  # units of parameters: logits of levels, and of intervals
_SURE = 0.8  # first weight of the bins that a component begins with, against its class
_EVEN = 0.2  # share of components that belong to all classes alike
_SPREAD = 0.2  # of the first parameters, so that no two components are equal
_ELSEWHERE = -6.0  # first log-weight of a component in other classes than its own
_ENTROPY = 500.0  # noise variances that dependence of one nat costs all classes
_LEAST_SHARE = 1e-6  # of a bin
_LEAST_WEIGHT = 1e-5  # of a component that a class keeps
_WIDTHS = (-4.0, 2.0)  # logarithms, of a component in normal scores

_FAR = 60.0  # of a logit, which float32 can exponentiate


class Heads:
    """The form of a component: what its parameters make of every column.

    Every bin has a logit, which is added to that of the marginal of the component's
    class. The intervals of a number have a mean m and the logarithm of a width s
    besides, on the scale z of normal scores, which add ``z^2 / 2 - (z - m)^2 / (2
    s^2)``: a component is then about a normal distribution where the marginal is one,
    and the intervals' own logits, in small units, say where it is not.

    `starts` (n_columns + 1,) is where the bins of each column begin, and the last ones
    end; `scores` (D,) are normal scores of the intervals of numbers, NaN elsewhere.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        scores: NDArray[np.float64],
        device: torch.device,
    ) -> None:
        tensor = partial(torch.as_tensor, dtype=torch.float32, device=device)
        n_columns, n_bins = len(starts) - 1, int(starts[-1])
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        smooth = np.isfinite(scores)
        self.starts, self.smooth_columns = starts, np.unique(column[smooth])
        self.means = slice(n_bins, n_bins + len(self.smooth_columns))
        self.widths = slice(self.means.stop, self.means.stop + len(self.smooth_columns))
        self.n_parameters = self.widths.stop
        self._units = tensor(np.where(smooth, _BUMP, _LOGIT))
        self._members = tensor(np.eye(n_columns)[column])
        # Coefficients of z^2, z and 1 give what normals add, in one product.
        own = (column == self.smooth_columns[:, None]) & smooth
        z = np.where(smooth, scores, 0.0)
        self._powers = tensor(0.5 * np.concatenate([own * z**2, own * z, own]))
        self._smooth, self._scores = tensor(smooth), tensor(z)

    def __call__(self, parameters: torch.Tensor, home: torch.Tensor) -> torch.Tensor:
        """Give the probabilities of the bins, (n_components, D), by column.

        Of parameters of shape (n_components, n_parameters), and the logarithms of the
        shares of the class of each component.
        """
        return self.shares(home + self.changes(parameters))

    def changes(self, parameters: torch.Tensor) -> torch.Tensor:
        """Give what parameters add to the logarithms of the shares."""
        means, precisions = self._normals(parameters)
        squares = [1.0 - precisions, 2.0 * means * precisions, -(means**2) * precisions]
        normals = torch.cat(squares, 1) @ self._powers.to(parameters)
        units = self._units.to(parameters)
        return torch.addcmul(normals, units, parameters[:, : self.means.start])

    def shares(self, logits: torch.Tensor) -> torch.Tensor:
        """Give the softmax of every column."""
        odds = logits.clamp(-_FAR, _FAR).exp()
        return odds / self.by_column(odds)

    def by_column(self, values: torch.Tensor) -> torch.Tensor:
        """Give every bin the sum of its column."""
        class_codes = self._members.to(values)
        return values @ class_codes @ class_codes.T

    def slopes(
        self, parameters: torch.Tensor, by_changes: torch.Tensor
    ) -> torch.Tensor:
        """Turn slopes by the changes into slopes by the parameters.

        In closed form: a graph costs more than the products of matrices.
        """
        means, precisions = self._normals(parameters)
        widths = parameters[:, self.widths]
        sums = (by_changes @ self._powers.to(by_changes).T).tensor_split(3, dim=1)
        by_squares, by_lines, by_ones = sums
        by_means = 2.0 * precisions * (by_lines - means * by_ones)
        by_precisions = means * (2.0 * by_lines - means * by_ones) - by_squares
        inside = (widths >= _WIDTHS[0]) & (widths <= _WIDTHS[1])
        by_widths = -2.0 * precisions * by_precisions * inside
        by_logits = self._units.to(by_changes) * by_changes
        return torch.cat([by_logits, by_means, by_widths], 1)

    def _normals(self, parameters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give the means and the precisions of the intervals of numbers."""
        widths = parameters[:, self.widths].clamp(*_WIDTHS)
        return parameters[:, self.means], (-2.0 * widths).exp()

    def at(self, bins: NDArray[np.int64], home: torch.Tensor) -> torch.Tensor:
        """Give parameters of components about some bins, (n_components, n_columns).

        Normals stand there, and what is no interval has most of the probability.
        """
        device = home.device
        ones = torch.zeros_like(home)
        ones.scatter_(1, torch.from_numpy(bins + self.starts[:-1]).to(device), 1.0)
        shares = home.exp()
        mixed = (1.0 - _SURE) * shares + _SURE * ones
        of_columns = self._members * self._smooth[:, None]
        # What intervals have together, with the columns of levels as they are.
        together, at_home = (
            (part @ of_columns).clamp_min(_LEAST_SHARE) for part in (mixed, shares)
        )
        beside = (mixed / shares).log() - (together / at_home).log() @ self._members.T
        first = torch.zeros((len(bins), self.n_parameters), device=device)
        first[:, : self.means.start] = beside * (1.0 - self._smooth) / self._units
        numbers = torch.from_numpy(self.smooth_columns).to(device)
        first[:, self.means] = (ones * self._scores) @ self._members[:, numbers]
        return first


class Components(NamedTuple):
    """The components of one class, with the parameters that `Heads` reads."""

    log_weights: torch.Tensor  # (n_components,), of probabilities, up to a constant
    parameters: torch.Tensor  # (n_components, n_parameters)
    home: torch.Tensor  # (n_components, D), logarithms of the shares they start from
    n_classes: int  # that were fitted together

    def mixture(self, heads: Heads, ranks: NDArray[np.float64]) -> Mixture:
        """Give the generator of the class."""
        weights = self.log_weights.double().softmax(0).cpu().numpy()
        probabilities = heads(self.parameters, self.home).float().cpu().numpy()
        return Mixture(weights, probabilities, ranks)


class ReleasedClass:
    """What was measured of one class, as the fit reads it.

    `shares` (D,) are those of the bins in their columns, by the marginals, whose counts
    have noise `share_std`; `counts` and `measured` (D, D) are those of `PairTables`,
    with `noise_std`. Noise is in rows. Tables of three columns join the loss once
    `with_triples` is set: they cost most of a step, and say little before pairs fit.
    `chosen` is the share of the planned tables of pairs that was measured: the fewer,
    the less noise there is to be fitted.
    """

    def __init__(
        self,
        n_rows: float,
        shares: NDArray[np.float64],
        share_std: float,
        counts: NDArray[np.float32],
        measured: NDArray[np.bool_],
        noise_std: float,
        triples: TripleLoss | None,
        device: torch.device,
    ) -> None:
        tensor = partial(torch.as_tensor, dtype=torch.float32, device=device)
        n_rows = max(n_rows, 1.0)
        self.tables = shares, counts / n_rows, measured, noise_std / n_rows
        self.n_rows, self.chosen = n_rows, 1.0
        self.triples, self.with_triples = triples, False
        self.shares = tensor(shares)
        self._per_share = n_rows / max(share_std, _LEAST_NOISE)
        noise_std = max(noise_std, _LEAST_NOISE)
        self._per_cell = tensor(measured * (n_rows / noise_std))
        self._counts = tensor(counts / noise_std)

    def distance(
        self,
        weights: torch.Tensor,
        probabilities: torch.Tensor,
        half: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Give the squared distance to all that was measured, in noise variances.

        Of weights of shape (n_components,) with sum 1, and probabilities of shape
        (n_components, D) as in `Mixture`. Beside it its slopes by both. Of the tables
        of pairs, `half` 0 or 1 takes every second block of rows, and counts it twice.
        """
        beside = (weights @ probabilities - self.shares) * self._per_share
        total = beside.square().sum()
        by_shares = 2.0 * self._per_share * beside
        by_both = by_shares.repeat(len(weights), 1)
        weighted = (weights[:, None] * probabilities).T
        first, every = (0, 1) if half is None else (half, 2)
        height = -(-len(weighted) // _BLOCKS)
        for start in range(first * height, len(weighted), every * height):
            rows, right = slice(start, start + height), slice(start, None)
            per_cell = self._per_cell[rows, right]  # no cell is below
            off = weighted[rows] @ probabilities[:, right]
            off.mul_(per_cell).sub_(self._counts[rows, right])
            total += every * off.square().sum()
            off.mul_(per_cell).mul_(2.0 * every)
            by_both[:, right].addmm_(probabilities[:, rows], off)
            by_both[:, rows].addmm_(probabilities[:, right], off.T)
        of_shares = probabilities @ by_shares
        by_weights = 0.5 * (torch.linalg.vecdot(probabilities, by_both) + of_shares)
        by_probabilities = by_both.mul_(weights[:, None])
        if self.triples is not None and self.with_triples:
            more = self.triples(weights, probabilities)
            total += more[0]
            by_weights += more[1]
            by_probabilities += more[2]
        return total, by_weights, by_probabilities


def slopes_of_loss(
    released: Sequence[ReleasedClass],
    heads: Heads,
    parameters: torch.Tensor,
    log_weights: torch.Tensor,
    home: torch.Tensor,
    n_classes: int,
    half: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give the distances of some classes, and the slopes of the loss.

    By the parameters and by the log-weights, one row per class. The loss is the
    distances and the relative entropy to `home`, per cell. Without the entropy, which
    is that of a mean class of all `n_classes` of the table, noise would be fitted too.
    With `half`, 0 or 1, half of the pairs stand for all: see `ReleasedClass.distance`.
    """
    n_cells = home.shape[1] ** 2
    changes, weights = heads.changes(parameters), log_weights.softmax(1)
    probabilities = heads.shares(home + changes)
    # The slopes of the entropy are the changes: what is constant in a column is lost.
    n_rows = [one.n_rows for one in released]
    chosen = np.average([one.chosen for one in released], weights=n_rows)
    per_cell = float(_ENTROPY * chosen / n_classes / n_cells)
    by_shares = changes.mul_(per_cell * weights.sum(0)[:, None])
    distances, by_log_weights = [], torch.zeros_like(weights)
    for one, own, by_logs in zip(released, weights, by_log_weights, strict=True):
        # What the class will not keep does not matter to it now.
        kept = torch.nonzero(own >= _LEAST_WEIGHT).squeeze(1)
        own = own[kept] / own[kept].sum()
        of_kept = probabilities.index_select(0, kept)
        distance, by_own, by_all = one.distance(own, of_kept, half)
        by_shares.index_add_(0, kept, by_all, alpha=1 / n_cells)
        by_logs[kept] = own * (by_own - own @ by_own) / n_cells
        distances.append(distance)
    by_changes = by_shares.mul_(probabilities)
    by_changes -= probabilities * heads.by_column(by_changes)
    by_parameters = heads.slopes(parameters, by_changes)
    return torch.stack(distances), by_parameters, by_log_weights


class Fit:
    """One set of components for all classes, each with weights of its own.

    Minimises the squared distances in units of the noise's variance, and, for each
    component, the relative entropy of its columns to the marginals of the class that
    it starts in. `prior` (n_classes,) are the shares of the classes.
    """

    def __init__(
        self,
        released: Sequence[ReleasedClass],
        prior: NDArray[np.float64],
        heads: Heads,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        n_classes, n_bins = len(released), int(heads.starts[-1])
        least, most = _COMPONENTS
        n_columns = len(heads.starts) - 1
        most_cells = np.interp(n_columns, *_MOST_CELLS)
        wanted = min(_COMPONENTS_PER_BIN * n_bins, most_cells / n_bins**2 / n_classes)
        n_components = int(np.clip(wanted, least, most))
        ends = np.cumsum((1.0 - _EVEN) * prior / prior.sum() + _EVEN / n_classes)
        homes = np.searchsorted(ends, (np.arange(n_components) + 0.5) / n_components)
        own = torch.from_numpy(np.minimum(homes, n_classes - 1))
        home = torch.stack([one.shares for one in released])[own]
        self._home = home.clamp_min(_LEAST_SHARE).log()
        spread = torch.randn((n_components, heads.n_parameters), generator=generator)
        spread[:, n_bins:] = 0.0
        bins = [
            draw_from_tree(*one.tables, heads.starts, int((own == c).sum()), generator)
            for c, one in enumerate(released)
        ]
        parameters = heads.at(np.concatenate(bins), self._home)
        self._parameters = parameters + _SPREAD * spread.to(device)
        first = torch.full((n_classes, n_components), _ELSEWHERE)
        first[own, torch.arange(n_components)] = 0.0
        self._log_weights = first.to(device)
        self._released, self._heads = released, heads
        self._step = AdamSteps([self._parameters, self._log_weights])
        self._rate = float(np.interp(n_columns, *_LEARNING_RATE))
        n_steps = np.clip(_STEPS_PER_BIN * n_bins, *_STEPS)
        half = int(n_steps * _LEARNING_RATE[1][0] / self._rate) // 2
        self._descend(half)
        if any(one.triples is not None for one in released):
            for one in released:
                one.with_triples = True
            self._descend(min(_TRIPLE_STEPS, half))
        self._descend(half, falling=True)

    def _descend(self, n_steps: int, *, falling: bool = False) -> None:
        """Take some steps of Adam, with a rate that stays or falls to 0.

        Where a step costs much, it sees half of the pairs, and the next one the other.
        """
        in_halves = self._home.shape[1] >= _HALVED_FROM
        for step in range(n_steps):
            _, *slopes = slopes_of_loss(
                self._released,
                self._heads,
                self._parameters,
                self._log_weights,
                self._home,
                len(self._released),
                step % 2 if in_halves else None,
            )
            rate = self._rate * (1.0 - step / n_steps if falling else 1.0)
            self._step(slopes, rate)

    def components(self) -> list[Components]:
        """Give each class the components that matter to it."""
        parameters, n_classes = self._parameters.detach(), len(self._released)
        found = []
        for logs in self._log_weights.detach().log_softmax(1):
            kept = logs >= np.log(_LEAST_WEIGHT)
            own = parameters[kept], self._home[kept]
            found.append(Components(logs[kept], *own, n_classes))
        return found
