"""Teachers: discriminators on disjoint parts of the rows, and what they answer.

A generator that starts from measurements has teachers that are linear in the features
of a row, so they can say no more than how mean features of real rows differ from those
of generated ones (`Told`). Teachers of generated rows show what a difference of 0 looks
like: features are skewed, and so are clipped vectors and votes of few rows. What was
told is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.special import ndtr

from skdpsynth.measure import RARE
from skdpsynth.privacy import HoldsPrivateRows, Parts, of_rows
from skdpsynth.training._generator import BATCH, N_KNOWN, Features, Trainer
from skdpsynth.utils.arrays import Ints

N_GENERATED = 512  # public rows of a step, or that minibatches are drawn from
_BATCH = 32  # real rows of a step of a network (A.5 of the G-PATE paper)
# Draws of a linear teacher from its rows, with replacement: their mean varies as if it
# were of all its rows, and a little more.
_READ = 128
# A step of a linear teacher from 0, at a rate of one half: each side has half a weight,
# and so has a row in doubt.
GAIN = 0.125
_NETWORK_RATE = 0.1  # of teachers with hidden layers: plain descent, not Adam's 1e-3
# Of the weights of a network that judges rows, by a step: else it and the generator
# chase each other.
FORGOTTEN = 1e-3
SAMPLE_ROWS = 2**18  # of a step, of all teachers too; more say nothing above the noise


def assign_teachers(n_units: int, n_teachers: int, rng: np.random.Generator) -> Ints:
    """Draw a teacher for every unit, a row, by an independent uniform draw.

    `rng` must be secret, from `secret_generator`. The draws are made in unit order, so
    a unit that joins at the end moves nobody. Slices, shuffled equal parts and
    round-robin are no substitutes: adding one unit shifts the data of every teacher.
    """
    return rng.integers(n_teachers, size=n_units, dtype=np.int64)


class TeacherRows(HoldsPrivateRows):
    """The private rows of one class, each assigned to a teacher.

    `rows` are of shape (n_rows, n_columns), float32, maybe none. Teachers may outnumber
    them. `n_read` counts the rows that each reads at a time. `rng` draws the assignment
    and these rows.

    *Privacy.* Adding or removing one row changes what one teacher reads, arbitrarily,
    and what all others read not by one bit. This needs:

    - `rng` secret (from `secret_generator`), and not used for anything else;
    - feature maps that act on each row alone and are public: no statistics over the
      leading dimensions, nothing learned from private rows;
    - shapes that follow from public numbers. Each teacher draws `n_read` rows with
      replacement; parts are never padded to the largest one, since another shape can
      change the rounding of every teacher's results.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        n_teachers: int,
        n_read: int,
        *,
        rng: np.random.Generator,
        device: torch.device | str,
    ) -> None:
        # Two streams: the draws must not start where the assignment ended, which is a
        # function of the number of rows.
        assignment_rng, self._batch_rng = rng.spawn(2)
        assigning = of_rows(assignment_rng, rows)
        assignment = assign_teachers(len(rows), n_teachers, assigning)
        self._n_teachers, self._n_read = n_teachers, n_read
        self._device = torch.device(device)
        # The parts lie one after the other. Row 0 is zero and belongs to nobody: it
        # is the only one that a teacher without rows reads.
        order = np.argsort(assignment, kind="stable")
        by_teacher = np.zeros((len(rows) + 1, rows.shape[1]), dtype=np.float32)
        by_teacher[1:] = rows[order]
        self._rows = torch.from_numpy(by_teacher).to(self._device)
        self._counts = np.bincount(assignment, minlength=n_teachers)
        begins = 1 + np.cumsum(self._counts) - self._counts
        self._starts = np.where(self._counts > 0, begins, 0)
        self._has_rows = torch.from_numpy(self._counts > 0).to(self._device)

    def _chunks(self, n_numbers_each: int) -> Iterator[slice]:
        """Cut the teachers into slices whose numbers are in memory together."""
        step = Parts.rows_at_once(n_numbers_each)
        for start in range(0, self._n_teachers, step):
            yield slice(start, min(start + step, self._n_teachers))

    def _draw(self, counts: Ints | int) -> Ints:
        """Draw positions below the count for every teacher, with replacement."""
        uniform = self._batch_rng.random((self._n_teachers, self._n_read))
        # A draw is at most 1 - 2**-53, and its product rounds to below the count: a
        # position cannot reach the part of the next teacher.
        return np.floor(uniform * counts).astype(np.int64)

    def _own(self) -> Ints:
        """Draw places of rows of every teacher."""
        return self._starts[:, None] + self._draw(self._counts[:, None])

    def _taken(self, rows: Tensor, index: Ints) -> Tensor:
        places = torch.from_numpy(index).to(self._device)
        return rows.index_select(0, places.flatten()).unflatten(0, index.shape)

    @torch.no_grad()
    def _features_of(self, rows: Tensor, features: Features) -> Tensor:
        """Apply the feature map, and leave the graph of a generator."""
        return features(rows.to(self._device)).detach()


class LinearTeachers(TeacherRows):
    """Linear discriminators of a generator that starts from measurements.

    In every round a teacher takes one step of logistic regression from 0. It leads
    along the difference of the mean features of its rows, which stay, from those of
    generated rows. `n_rows`, public, is about the number of `rows`.

    Privacy is that of `TeacherRows`. What the methods return is private until an
    aggregator has released it.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        n_teachers: int,
        generator: Trainer,
        n_rows: float,
        *,
        rng: np.random.Generator,
        device: torch.device | str,
    ) -> None:
        super().__init__(rows, n_teachers, _READ, rng=rng, device=device)
        self._generator, self._n_rows = generator, n_rows
        index, parts = self._own(), []
        width = rows.shape[1] + generator.n_features
        for chunk in self._chunks(_READ * width):
            real = self._taken(self._rows, index[chunk])
            parts.append(self._features_of(real, generator.features).mean(dim=1))
        self._means = torch.cat(parts)
        self._weights = torch.zeros_like(self._means)

    def learn(self, generated: Tensor) -> None:
        """Take the step of all teachers, by public mean features of generated rows."""
        weights = GAIN * (self._means - generated.to(self._means))
        self._weights = weights.where(self._has_rows[:, None], 0.0)

    def rehearse(self, public: torch.Generator) -> tuple[LinearTeachers, Tensor]:
        """Return teachers of generated rows, and what these have on average: public."""
        generator, n_teachers = self._generator, min(self._n_teachers, BATCH)
        # Of so many rows a teacher reads hardly any twice.
        each = min(self._n_rows / self._n_teachers, 4.0 * _READ)
        rows = generator.rows(generator.draw(max(int(each * n_teachers), 1)))
        seed = int(torch.randint(2**31, (), generator=public))
        beside = LinearTeachers(
            rows.cpu().numpy(),
            n_teachers,
            generator,
            each * n_teachers,
            rng=np.random.Generator(np.random.PCG64(seed)),
            device=self._device,
        )
        return beside, beside._means[beside._has_rows].double().mean(0)

    def logits(self, rows: Tensor) -> Tensor:
        """Return every teacher's log odds of "real" for public rows; 0 without rows."""
        queries = self._features_of(rows, self._generator.features)
        return (self._weights @ queries.T).where(self._has_rows[:, None], 0.0)

    def mean_gradients(self, rows: Tensor) -> NDArray[np.float32]:
        """Return each teacher's mean gradient of log D by features of public rows.

        Of shape (n_teachers, n_features). Entries that are not finite are 0.
        """
        doubts = (-self.logits(rows)).sigmoid().mean(dim=1, keepdim=True)
        gradients = torch.nan_to_num(doubts * self._weights, 0.0, 0.0, 0.0)
        return gradients.cpu().numpy()


class TeacherEnsemble(TeacherRows):
    """Discriminators by networks, of networks that learn everything by the loop.

    Hidden layers have ReLU; none of them means a logistic discriminator, which starts
    at zero. `n_read` counts real rows per teacher and step, and generated rows too. The
    public `generator` draws initial weights.

    Privacy is that of `TeacherRows`: a row changes the weights and answers of one
    teacher only. What the methods return is private until an aggregator has released
    it.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        n_teachers: int,
        *,
        n_features: int,
        hidden_dims: Sequence[int] = (),
        n_read: int = _BATCH,
        rng: np.random.Generator,
        generator: torch.Generator,
        device: torch.device | str,
    ) -> None:
        super().__init__(rows, n_teachers, n_read, rng=rng, device=device)
        self._n_features, self._hidden_dims = n_features, tuple(hidden_dims)
        self._parameters = self._initial_parameters(generator)

    def train_step(self, pool: Tensor, features: Features) -> None:
        """Take one step of every teacher, on its rows and as many of a public pool."""
        pool_features = self._features_of(pool, features)
        real_index, pool_index = self._own(), self._draw(len(pool))
        for chunk in self._chunks_of(2 * self._n_read):
            real = self._taken(self._rows, real_index[chunk])
            generated = self._taken(pool_features, pool_index[chunk])
            batch = torch.cat([self._features_of(real, features), generated], dim=1)
            self._descend(chunk, batch)

    def logits(self, rows: Tensor, features: Features) -> Tensor:
        """Return every teacher's log odds of "real" for public rows; 0 without rows."""
        queries = self._features_of(rows, features)
        answers = torch.zeros(self._n_teachers, len(rows), device=self._device)
        for chunk in self._chunks_of(len(rows)):
            with torch.no_grad():
                parameters = [parameter[chunk] for parameter in self._parameters]
                raw = _forward(parameters, _repeat(queries, len(parameters[0])))[-1]
                answers[chunk] = raw[..., 0].where(self._has_rows[chunk, None], 0.0)
        return answers

    def iter_feature_gradients(
        self, rows: Tensor, features: Features
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield slices of teachers, and gradients of log D by features of public rows.

        0 for a teacher without rows and in place of entries that are not finite. Chunks
        follow from the shapes of networks and `rows`, never from a private number.
        """
        queries = self._features_of(rows, features)
        for chunk in self._chunks_of(len(rows)):
            with torch.no_grad():
                parameters = [parameter[chunk] for parameter in self._parameters]
                alike = _repeat(queries, len(parameters[0]))
                *inputs, logits = _forward(parameters, alike)
                slopes = (-logits).sigmoid()
                for depth in reversed(range(len(inputs))):
                    slopes = _product(slopes, parameters[2 * depth].mT)
                    if depth > 0:
                        slopes *= inputs[depth] > 0
                slopes.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
                slopes[~self._has_rows[chunk]] = 0.0
            yield chunk, slopes

    def _initial_parameters(self, generator: torch.Generator) -> list[Tensor]:
        """Make weights and biases in turn; a teacher's are entry i of each."""
        parameters = []
        widths = self._n_features, *self._hidden_dims, 1
        for depth, (n_in, n_out) in enumerate(pairwise(widths)):
            # He's rule: the variance that leaves a ReLU is the one that came in.
            std = math.sqrt(2 / n_in)
            if depth == len(self._hidden_dims):
                std = math.sqrt(1 / n_in) if self._hidden_dims else 0.0
            weight = torch.zeros(self._n_teachers, n_in, n_out)
            if std > 0:
                torch.randn(weight.shape, generator=generator, out=weight).mul_(std)
            bias = torch.zeros(self._n_teachers, 1, n_out)
            parameters += [weight.to(self._device), bias.to(self._device)]
        return parameters

    def _chunks_of(self, n_rows_each: int) -> Iterator[slice]:
        """Cut the teachers into slices that handle `n_rows_each` rows in memory."""
        widths = self._rows.shape[1] + self._n_features + sum(self._hidden_dims) + 1
        weights = sum(parameter[0].numel() for parameter in self._parameters)
        return self._chunks(n_rows_each * widths + weights)

    @torch.no_grad()
    def _descend(self, chunk: slice, batch: Tensor) -> None:
        """Take the step of some teachers; the first half of the batch is real."""
        parameters = [parameter[chunk] for parameter in self._parameters]
        *inputs, logits = _forward(parameters, batch)
        # Slopes in closed form: a graph would cost as much as the products. No sum
        # joins two teachers.
        errors = logits.sigmoid()
        errors[:, : self._n_read] -= 1.0  # real rows should be answered by 1
        errors /= errors.shape[1]
        for depth in reversed(range(len(inputs))):
            weight, _ = layer = parameters[2 * depth : 2 * depth + 2]
            by_weight = _product(inputs[depth].mT, errors)
            slopes = by_weight, errors.sum(dim=1, keepdim=True)
            if depth > 0:
                errors = _product(errors, weight.mT)
                errors.mul_(inputs[depth] > 0)
            for parameter, slope in zip(layer, slopes, strict=True):
                parameter.mul_(1 - FORGOTTEN)
                parameter.sub_(slope, alpha=_NETWORK_RATE)


def _repeat(queries: Tensor, n_teachers: int) -> Tensor:
    """Return a copy for every teacher, in memory that torch aligned."""
    shape = (n_teachers, *queries.shape)
    return queries.expand(shape).clone(memory_format=torch.contiguous_format)


def _forward(parameters: list[Tensor], batch: Tensor) -> list[Tensor]:
    """Return the inputs of every layer, and the logits, (n_teachers, n, 1)."""
    values = [batch]
    for layer in range(0, len(parameters), 2):
        if layer > 0:
            values[-1] = values[-1].relu_()
        weight, bias = parameters[layer : layer + 2]
        values.append(_product(values[-1], weight).add_(bias))
    return values


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply the matrices of each teacher; one column alone the faster way."""
    if left.shape[2] == 1:
        return left * right
    if right.shape[2] == 1:
        return torch.bmm(right.mT, left.mT).mT
    return torch.bmm(left, right)


def random_projections(n_rows: int, n_dimensions: int, trainer: Trainer) -> Tensor:
    """Draw a public projection per generated row, of variance 1 / n_dimensions."""
    drawn = trainer.latent(n_rows, n_dimensions, trainer.n_columns)
    return drawn / n_dimensions**0.5


def ballots_of(
    teachers: TeacherEnsemble,
    generated: Tensor,
    features: Features,
    projections: Tensor,
    clip: float,
    n_bins: int,
) -> Iterator[Tensor]:
    """Yield the votes of some teachers, a 1 for each query in one bin.

    On every projected coordinate of public rows, clipped to [-clip, clip], an interval
    of `n_bins` equal bins, each teacher chooses one: (n_teachers, n_queries, n_bins).
    """
    pull_back = torch.func.vjp(features, generated)[1]
    for _, gradients in teachers.iter_feature_gradients(generated, features):
        by_row = torch.func.vmap(pull_back)(gradients)[0]
        projected = torch.einsum("tmd,mkd->tmk", by_row, projections).flatten(1)
        unit = (projected.clamp(-clip, clip) + clip) / (2 * clip)
        bins = (unit * n_bins).long().clamp_(0, n_bins - 1)
        yield torch.nn.functional.one_hot(bins, n_bins)


def decode_answers(answers: Ints, projections: Tensor, n_bins: int) -> Tensor:
    """Project the middles of winning bins back, in units of the largest coordinate."""
    answered = torch.from_numpy(answers).to(projections.device)
    midpoints = ((answered + 0.5) * (2.0 / n_bins) - 1.0).to(projections.dtype)
    by_row = midpoints.reshape(projections.shape[:2])
    return torch.einsum("mk,mkd->md", by_row, projections)


# --- What was told, once it is released -------------------------------------------

_RAREST = 1e-3  # probability of a label; rarer ones would weigh more than is known
# Noise of a vote per teacher, as which less is read: without it labels of rows that are
# far from the middle outweigh all. Cosines with the truth rose from .1 to .97.
_LEAST_NOISE = 0.15


class Told(NamedTuple):
    """What one release says of a difference of mean features.

    The inverse of its covariance, (n_features, n_features), and its product with it.
    """

    information: Tensor
    product: Tensor


def told_by_sum(
    released: Tensor, n_teachers: int, noise_std: float, rehearsed: Tensor, clip: float
) -> Told:
    """Read the released mean of teachers' vectors, clipped to length `clip`.

    `rehearsed` are the vectors of teachers of generated rows. Clipping keeps a part of
    a difference, and a gradient of log D is half the weight of a teacher in doubt.
    """
    norms = rehearsed.norm(dim=1, keepdim=True)
    kept = (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
    clipped, gain = kept * rehearsed, 0.5 * GAIN * float(kept.mean())
    n_errors = 1.0 / len(rehearsed) + 1.0 / n_teachers
    variance = n_errors * clipped.var(0, correction=0) + noise_std**2
    # A feature that is the same in all rows tells nothing. One that is nearly so must
    # not set the scale of all: without noise a lost table stayed lost.
    least = RARE * variance.max()
    precision = torch.where(variance > 0.0, 1.0 / variance.clamp_min(least), 0.0)
    product = gain * precision * (released - clipped.mean(0))
    return Told(torch.diag(gain**2 * precision), product)


def told_by_labels(
    labels: Tensor, seen: Tensor, n_teachers: int, noise_std: float, rehearsed: Tensor
) -> Told:
    """Read labels of generated rows with features `seen`, by noisy votes.

    A linear student in closed form. `rehearsed` are the log odds (n, n_rows) that
    teachers of generated rows give them. A label is a coin whose probability follows
    the votes to be expected, and changes with a difference of means by as much as these
    teachers are in doubt.
    """
    noise_std = max(noise_std, _LEAST_NOISE * n_teachers)
    # Means of few skewed features have another median than mean.
    middle = rehearsed.quantile(0.5, dim=0)
    spread = rehearsed.std(0, correction=0).clamp_min(1e-12)
    share = ndtr(middle / spread)
    coins = n_teachers * share * (1.0 - share) * (1.0 + n_teachers / len(rehearsed))
    std = (noise_std**2 + coins).sqrt().clamp_min(1e-12)
    above = n_teachers * (share - 0.5) / std
    expected = ndtr(above).clamp(_RAREST, 1.0 - _RAREST)
    votes = n_teachers * GAIN * _density(middle / spread) / spread
    slopes = (votes * _density(above) / std)[:, None] * seen
    weights, beyond = 1.0 / (expected * (1.0 - expected)), labels - expected
    slopes -= weights @ slopes / weights.sum()  # what moves all labels alike is a bias
    weighted = slopes.T * weights
    return Told(weighted @ slopes, weighted @ beyond)


class RealMeans:
    """The mean features of the real rows of a class, by all that was told of them.

    Rows stay the same while the generator moves, so what rounds say adds up.
    """

    def __init__(self) -> None:
        self._information = self._product = torch.zeros((), dtype=torch.float64)

    def add(self, told: Told, means: Tensor) -> None:
        """Add what was told of the difference from rows with these mean features."""
        information, means = told.information.to(self._product), means.to(self._product)
        self._information = self._information + information
        product = told.product.to(self._product) + information @ means
        self._product = self._product + product

    def beyond(self, means: Tensor) -> tuple[Tensor, float]:
        """Return how far they are from these `means`, and the share that is signal.

        Of noise alone, the squared length in standard deviations has as many degrees
        of freedom as there are features; what is above tells how large a difference is
        to be expected (James and Stein; Efron and Morris 1973), at most 1: features are
        products of scores of variance 1.
        """
        product = self._product - self._information @ means.to(self._product)
        sizes, axes = torch.linalg.eigh(self._information)
        along = axes.T @ product
        # Few labels tell of some directions only.
        told = sizes > 1e-12 * sizes[-1]
        n_told = int(told.sum())
        above = float((along[told].square() / sizes[told]).sum()) - n_told
        if not above > 0.0:
            return torch.zeros_like(means), 0.0
        variance = min(above / float(sizes.sum()), 1.0)
        expected = axes @ (along / (sizes.clamp_min(0.0) + 1.0 / variance))
        return expected.to(means), above / (above + n_told)


def move_means(
    generator: Trainer,
    real: RealMeans,
    n_steps: int,
    beside: Callable[[Tensor], Tensor] = lambda aim: aim,
) -> None:
    """Move mean features of generated rows towards real ones: post-processing.

    As far as what was told of these is signal, by steps that are as much shorter.
    `beside` adds to the aim what else was released.
    """
    means = generator.mean_features(generator.draw(N_KNOWN))
    wanted, share = real.beyond(means)
    aim = beside(means + wanted)
    for _ in range(n_steps):
        generator.approach(aim, generator.draw(N_GENERATED), share)


def _density(values: Tensor) -> Tensor:
    return (-0.5 * values.square()).exp() / math.sqrt(2.0 * math.pi)
