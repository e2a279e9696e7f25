"""A mixture fitted to measured tables: post-processing, no private row comes here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from skdpsynth.generators import Mixture
from skdpsynth.measure import strongest_tree
from skdpsynth.models._generator import AdamSteps, one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def draw_from_tree(
    shares: Floats,
    noisy: NDArray[np.floating],
    measured: NDArray[np.bool_],
    std: float,
    starts: Ints,
    n_rows: int,
    generator: torch.Generator,
) -> Ints:
    """Draw bins (n_rows, n_columns) from a tree of measured pairs (Chow, Liu 1968).

    `shares` (D,) are those of the bins in their columns; `noisy` (D, D), with noise
    `std`, those of pairs of bins above the diagonal, where they were `measured`.
    """
    order, tables, _ = strongest_tree(noisy, measured, std, shares, starts)
    drawn = np.zeros((n_rows, len(starts) - 1), dtype=np.int64)
    for parent, j in order:
        given = shares[None, starts[j] : starts[j + 1]]
        if parent is not None:
            given = tables[parent, j][drawn[:, parent]]
        # One place in each n-th of the line, so that few rows hold a column well.
        steps = torch.randperm(n_rows, generator=generator)
        places = (steps + torch.rand(n_rows, generator=generator)).numpy()
        ends = given.cumsum(axis=1)
        below = ends < places[:, None] / max(n_rows, 1) * ends[:, -1:]
        drawn[:, j] = np.minimum(below.sum(axis=1), given.shape[1] - 1)
    return drawn


_LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers


class TripleLoss:
    """The distance of a mixture to the tables of triples that were measured of a class.

    `starts` (n_columns + 1,) is where the bins of each column begin, and the last ones
    end; the others are those of `TripleTables`. `n_rows` of the class are known
    otherwise: tables with less than half of them count as much as half.
    """

    def __init__(
        self,
        starts: Ints,
        groups: Ints,
        triples: Ints,
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
        self, weights: Tensor, probabilities: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
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
_STEPS, _STEPS_PER_BIN = (300, 600), 2.5
_BLOCKS = 8  # of the tables of all pairs, by rows: few cells below the diagonal
_HALVED_FROM = 128  # bins, from which a step is by every second block: it costs much
# Pairs of bins, of all components and classes, by the number of columns: bounds time.
_MOST_CELLS = (15, 20), (2.5e8, 1.6e8)
# By the number of columns: a step of a wide table costs much, so it is longer.
_LEARNING_RATE = (15, 20), (0.05, 0.08)
_TRIPLE_STEPS = 100  # with tables of three columns, before the rate falls
# Units of parameters, so that equal steps suit logits of categories, and of intervals.
_LOGIT, _BUMP = 3.0, 0.6
_SURE = 0.8  # first weight of the bins that a component begins with, against its class
_EVEN = 0.2  # share of components that belong to all classes alike, the rare ones too
_SPREAD = 0.2  # of the first parameters, so that no two components are equal
_ELSEWHERE = -6.0  # first log-weight of a component in other classes than its own
# Noise variances that dependence of one nat costs all classes. With 50 to 1500 no part
# of Adult and Diamonds (2,000 to 5,000 rows) was better at epsilon 1 and 3.
_ENTROPY = 500.0
_LEAST_SHARE = 1e-6  # of a bin, so that logarithms are finite
_LEAST_WEIGHT = 1e-5  # of a component that a class keeps: a row of 100,000
_WIDTHS = (-4.0, 2.0)  # logarithms, of a component in normal scores: a spike, and even
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
        starts: Ints,
        scores: Floats,
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

    def __call__(self, parameters: Tensor, home: Tensor) -> Tensor:
        """Give the probabilities of the bins by column, (n_components, D).

        Of parameters (n_components, n_parameters) and the logarithms of the shares that
        components start from, (n_components, D).
        """
        return self.shares(home + self.changes(parameters))

    def changes(self, parameters: Tensor) -> Tensor:
        """Give what parameters add to the logarithms of the shares."""
        means, precisions = self._normals(parameters)
        squares = [1.0 - precisions, 2.0 * means * precisions, -(means**2) * precisions]
        normals = torch.cat(squares, 1) @ self._powers.to(parameters)
        units = self._units.to(parameters)
        return torch.addcmul(normals, units, parameters[:, : self.means.start])

    def shares(self, logits: Tensor) -> Tensor:
        """Give the softmax of every column."""
        odds = logits.clamp(-_FAR, _FAR).exp()
        return odds / self.by_column(odds)

    def by_column(self, values: Tensor) -> Tensor:
        """Give every bin the sum of its column."""
        members = self._members.to(values)
        return values @ members @ members.T

    def slopes(self, parameters: Tensor, by_changes: Tensor) -> Tensor:
        """Turn slopes by the changes into slopes by the parameters, in closed form."""
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

    def _normals(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Give the means and the precisions of the intervals of numbers."""
        widths = parameters[:, self.widths].clamp(*_WIDTHS)
        return parameters[:, self.means], (-2.0 * widths).exp()

    def at(self, bins: Ints, home: Tensor) -> Tensor:
        """Give parameters of components about some bins, (n_components, n_columns)."""
        device = home.device
        ones = torch.zeros_like(home)
        ones.scatter_(1, torch.from_numpy(bins + self.starts[:-1]).to(device), 1.0)
        shares = home.exp()
        mixed = (1.0 - _SURE) * shares + _SURE * ones
        of_columns = self._members * self._smooth[:, None]
        # What intervals have together, with the columns of categories as they are.
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

    log_weights: Tensor  # (n_components,), of probabilities, up to a constant
    parameters: Tensor  # (n_components, n_parameters)
    home: Tensor  # (n_components, D), logarithms of the shares they start from
    n_classes: int  # that were fitted together

    def mixture(self, heads: Heads, ranks: Floats) -> Mixture:
        """Give the generator of the class."""
        weights = self.log_weights.double().softmax(0).cpu().numpy()
        probabilities = heads(self.parameters, self.home).float().cpu().numpy()
        return Mixture(weights, probabilities, ranks)


class ReleasedClass:
    """What was measured of one class, as the fit reads it.

    `shares` (D,) are those of the bins in their columns, by the marginals, whose counts
    have noise `share_std`; `counts`, `measured` and `noise_std` are those of
    `PairTables`. Noise is in rows. Tables of three columns join the loss once
    `with_triples` is set: they cost most of a step, and help little before pairs fit.
    `chosen` is the share of the planned tables of pairs that was measured: the fewer,
    the less noise there is to be fitted. It is 0 for a class without such tables.
    """

    def __init__(
        self,
        n_rows: float,
        shares: Floats,
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
        self, weights: Tensor, probabilities: Tensor, half: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give the squared distance to all that was measured, in noise variances.

        Of weights and probabilities as in `Mixture`; beside it its slopes by both. Of
        the tables of pairs, `half` 0 or 1 takes every second block of rows, and counts
        it twice.
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
        found = total, by_weights, by_probabilities
        if self.triples is not None and self.with_triples:
            for part, more in zip(
                found, self.triples(weights, probabilities), strict=True
            ):
                part += more
        return found


class Together(NamedTuple):
    """Tables of several classes together, and the shares of the classes in them."""

    released: ReleasedClass
    prior: Floats  # (n_classes,), of those that are fitted; with sum 1


def slopes_of_loss(
    released: Sequence[ReleasedClass],
    heads: Heads,
    parameters: Tensor,
    log_weights: Tensor,
    home: Tensor,
    n_classes: int,
    half: int | None = None,
    together: Sequence[Together] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the distances of some classes, and the slopes of the loss.

    By the parameters and by the log-weights, one row per class. The loss is the
    distances, those of several classes `together` too, and the relative entropy to
    `home`, per cell. Without the entropy, which is that of a mean class of all
    `n_classes` of the table, noise would be fitted too.
    For `half` see `ReleasedClass.distance`.
    """
    n_cells = home.shape[1] ** 2
    changes, weights = heads.changes(parameters), log_weights.softmax(1)
    probabilities = heads.shares(home + changes)
    # The slopes of the entropy are the changes: what is constant in a column is lost.
    every = [*released, *(several.released for several in together)]
    n_rows = [one.n_rows * (one.chosen > 0) for one in every]
    chosen = np.average([one.chosen for one in every], weights=n_rows)
    per_cell = float(_ENTROPY * chosen / n_classes / n_cells)
    by_shares = changes.mul_(per_cell * weights.sum(0)[:, None])
    distances, by_log_weights = [], torch.zeros_like(weights)

    def add(one: ReleasedClass, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add a distance; give its slopes by the weights that matter, and which do."""
        # What the class will not keep does not matter to it now.
        kept = torch.nonzero(own >= _LEAST_WEIGHT).squeeze(1)
        own = own[kept] / own[kept].sum()
        of_kept = probabilities.index_select(0, kept)
        distance, by_own, by_all = one.distance(own, of_kept, half)
        by_shares.index_add_(0, kept, by_all, alpha=1 / n_cells)
        distances.append(distance)
        return by_own - own @ by_own, kept, own

    for one, weight, by_logs in zip(released, weights, by_log_weights, strict=True):
        by_own, kept, own = add(one, weight)
        by_logs[kept] = own * by_own / n_cells
    for several in together:
        prior = torch.as_tensor(several.prior).to(weights)
        by_own, kept, _ = add(several.released, prior @ weights)
        of_classes = prior[:, None] * weights[:, kept]
        by_classes = (of_classes * by_own).sum(1, keepdim=True)
        by_log_weights[:, kept] += of_classes * by_own / n_cells
        by_log_weights -= weights * by_classes / n_cells
    by_changes = by_shares.mul_(probabilities)
    by_changes -= probabilities * heads.by_column(by_changes)
    by_parameters = heads.slopes(parameters, by_changes)
    return torch.stack(distances), by_parameters, by_log_weights


class Fit:
    """One set of components for all classes, each with weights of its own.

    Minimises the loss of `slopes_of_loss` by Adam; components start from the marginals
    of a class and a tree of its pairs, or of those of the last part that was measured
    of several classes `together` where it has none. `prior` (n_classes,) are the
    classes' shares.
    """

    def __init__(
        self,
        released: Sequence[ReleasedClass],
        prior: Floats,
        heads: Heads,
        *,
        seed: int,
        device: torch.device,
        together: Sequence[Together] = (),
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        every = [*released, *(own.released for own in together)]
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
            draw_from_tree(
                *(one if one.chosen else every[-1]).tables,
                heads.starts,
                int((own == c).sum()),
                generator,
            )
            for c, one in enumerate(released)
        ]
        parameters = heads.at(np.concatenate(bins), self._home)
        self._parameters = parameters + _SPREAD * spread.to(device)
        first = torch.full((n_classes, n_components), _ELSEWHERE)
        first[own, torch.arange(n_components)] = 0.0
        self._log_weights = first.to(device)
        self._released, self._heads, self._together = released, heads, together
        self._step = AdamSteps([self._parameters, self._log_weights])
        self._rate = float(np.interp(n_columns, *_LEARNING_RATE))
        n_steps = np.clip(_STEPS_PER_BIN * n_bins, *_STEPS)
        half = int(n_steps * _LEARNING_RATE[1][0] / self._rate) // 2
        with one_thread():
            self._descend(half)
            if any(one.triples is not None for one in every):
                for one in every:
                    one.with_triples = True
                self._descend(min(_TRIPLE_STEPS, half))
            self._descend(half, falling=True)

    def _descend(self, n_steps: int, *, falling: bool = False) -> None:
        """Take some steps of Adam, with a rate that stays or falls to 0.

        Where a step costs much, it is by half of the pairs, and the next by the other.
        """
        start = self._parameters, self._log_weights, self._home, len(self._released)
        in_halves = self._home.shape[1] >= _HALVED_FROM
        for step in range(n_steps):
            half = step % 2 if in_halves else None
            _, *slopes = slopes_of_loss(
                self._released, self._heads, *start, half, self._together
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
