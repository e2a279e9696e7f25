"""The student generator: normal scores from a few shared factors per class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr

from skdpsynth.nn._products import Products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.nn._teachers import TeacherEnsemble

__all__ = ["FactorGenerator", "Student", "teacher_gradients"]

_ALIKE = 0.01  # rows of a class that borrows loadings, of those of the lender

# What noise can do at most: beyond, rows would overflow.
_BOUNDS = {"loadings": 100.0, "location": 3.0, "log_scale": 5.0}

Parameters = dict[str, torch.Tensor]
Features = Callable[[torch.Tensor], torch.Tensor]


class FactorGenerator:
    """A generator of normal scores whose columns depend through shared factors.

    In class c, column j of a row is ``location_j + scale_j * t_j`` with
    ``t_j = (e_j + sum_k B_jk f_k) / sqrt(1 + |B_j|^2)``: its own noise e_j and the
    factors f of the row, all standard normal. Whatever the loadings B, every t_j stays
    standard normal, so loadings bring dependence without touching the marginals.

    Parameters
    ----------
    parameters : list of n_classes dicts of str to ndarray
        ``loadings`` of shape (n_columns, n_factors); ``location`` and ``log_scale`` of
        shape (n_columns,).

    Notes
    -----
    Everything here is public: initial values, and what aggregators released.
    """

    def __init__(self, parameters: list[dict[str, NDArray[np.float64]]]) -> None:
        self.parameters = parameters

    @classmethod
    def initial(
        cls, n_classes: int, n_columns: int, n_factors: int, seed: int
    ) -> FactorGenerator:
        """Start with weak random loadings, so that gradients see each factor."""
        rng = np.random.default_rng([seed, 2])
        parameters = [
            {
                "loadings": 0.1 * rng.standard_normal((n_columns, n_factors)),
                "location": np.zeros(n_columns),
                "log_scale": np.zeros(n_columns),
            }
            for _ in range(n_classes)
        ]
        return cls(parameters)

    def lend_loadings(self, trained: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Give classes that trained nothing the loadings of the largest that did.

        Dependence in one class and none in another is a difference between the classes
        that the rows do not have, and classifiers learn it. A class that is rarer than
        one in a hundred of the lender's rows is taken for something else than that.

        Parameters
        ----------
        trained : sequence of n_classes bools
            Which classes learnt loadings.
        n_rows : sequence of n_classes floats
            Planned numbers of rows; public.
        """
        lenders = [c for c, learnt in enumerate(trained) if learnt]
        if not lenders:
            return
        lender = max(lenders, key=lambda c: n_rows[c])
        for c, parameters in enumerate(self.parameters):
            if not trained[c] and n_rows[c] >= _ALIKE * n_rows[lender]:
                parameters["loadings"] = self.parameters[lender]["loadings"].copy()

    def draw(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of rows of given classes; see `scores`."""
        return np.asarray(ndtr(self.scores(members, rng)))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into JSON-safe facts and arrays, for saving."""
        arrays = {
            f"generator.{c}.{name}": value
            for c, own in enumerate(self.parameters)
            for name, value in own.items()
        }
        return {"form": "factors", "n_classes": len(self.parameters)}, arrays

    @classmethod
    def from_state(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> FactorGenerator:
        """Rebuild what `to_state` split."""
        names = ("loadings", "location", "log_scale")
        return cls(
            [
                {name: arrays[f"generator.{c}.{name}"] for name in names}
                for c in range(document["n_classes"])
            ]
        )

    def scores(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw scores for rows of given classes.

        Parameters
        ----------
        members : ndarray of shape (n_rows,), int64
            Class of each row.
        rng : numpy.random.Generator
            Public stream.

        Returns
        -------
        ndarray of shape (n_rows, n_columns), float64
            Scores.
        """
        n_columns, n_factors = self.parameters[0]["loadings"].shape
        scores = rng.standard_normal((len(members), n_columns))
        factors = rng.standard_normal((len(members), n_factors))
        for c, own in enumerate(self.parameters):
            rows = np.flatnonzero(members == c)
            if len(rows) == 0:
                continue
            shared = scores[rows] + factors[rows] @ own["loadings"].T
            shared /= np.sqrt(1.0 + (own["loadings"] ** 2).sum(axis=1))
            scores[rows] = own["location"] + np.exp(own["log_scale"]) * shared
        return scores


class Draws(NamedTuple):
    """Standard normal draws for some rows: one per score, and the shared factors."""

    noise: torch.Tensor
    factors: torch.Tensor


class Student:
    """The generator of one class while it is trained. It never sees a private row.

    Parameters
    ----------
    parameters : dict of str to ndarray
        Initial values, as in `FactorGenerator`.
    trained : tuple of str
        Names of the parameters that are trained.
    n_steps : int
        Planned number of steps; the result is the mean over the second half of them.
    learning_rate : float
        Step per unit of advice, positive; it falls linearly to 0.
    generator : torch.Generator
        Public stream of latent draws, on the CPU.
    device : torch.device
        Where it is trained.
    """

    def __init__(
        self,
        parameters: dict[str, NDArray[np.float64]],
        trained: tuple[str, ...],
        *,
        n_steps: int,
        learning_rate: float,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.parameters: Parameters = {
            name: torch.tensor(value, dtype=torch.float32, device=device)
            for name, value in parameters.items()
        }
        self.trained = trained
        self._sum = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        self._step, self._n_steps = 0, n_steps
        self._learning_rate = learning_rate
        self._generator = generator
        self._device = device

    @property
    def scales(self) -> torch.Tensor:
        """Present scale of each column, of shape (n_columns,)."""
        return torch.exp(self.parameters["log_scale"])

    @property
    def units(self) -> torch.Tensor:
        """Unit in which each trained parameter moves, of shape (n_parameters,).

        A location moves in scales of its column, so that a narrow column is not
        thrown about by the steps that a wide one needs.
        """
        by_name = {"location": self.scales}
        return torch.cat(
            [
                by_name.get(name, torch.ones_like(self.parameters[name])).flatten()
                for name in self.trained
            ]
        )

    @property
    def n_parameters(self) -> int:
        """Number of trained parameters."""
        return sum(self.parameters[name].numel() for name in self.trained)

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` fakes are made of."""
        n_columns, n_factors = self.parameters["loadings"].shape
        both = self.latent(n_rows, n_columns + n_factors)
        noise, factors = both.split([n_columns, n_factors], dim=1)
        return Draws(noise, factors)

    def latent(self, *shape: int) -> torch.Tensor:
        """Draw standard normal numbers from the public stream."""
        return torch.randn(shape, generator=self._generator).to(self._device)

    def rows(self, draws: Draws, parameters: Parameters | None = None) -> torch.Tensor:
        """Make fakes of shape (n_rows, n_columns) as `FactorGenerator` does."""
        own = self.parameters if parameters is None else parameters
        norm = torch.sqrt(1.0 + (own["loadings"] ** 2).sum(dim=1))
        shared = (draws.noise + draws.factors @ own["loadings"].T) / norm
        return own["location"] + torch.exp(own["log_scale"]) * shared

    def features(self) -> Products:
        """Say what teachers look at: each score times the factors seen in the row.

        Returns
        -------
        Products
            Map from scores of shape (..., n_columns) to features of shape
            (..., `n_features`), row by row, as they are at present; public.

        Notes
        -----
        A factor as seen in a row is its score along one column of the loadings,
        without the score that it is multiplied by. Where the dependence is right, real
        and fake rows agree in the mean of each product; where it is wrong, the
        difference says how to turn the loadings. A teacher can learn that from a
        handful of rows. Where location and scale are trained too, scores are first
        standardised by the present ones, and teachers also look at each score and its
        square.
        """
        loadings = self.parameters["loadings"]
        directions = loadings / loadings.norm(dim=0).clamp_min(1e-6)
        if "location" not in self.trained:
            return Products(directions)
        return Products(directions, self.parameters["location"], self.scales)

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        n_columns, n_factors = self.parameters["loadings"].shape
        return n_columns * (n_factors + (2 if "location" in self.trained else 0))

    def pull_back(self, draws: Draws, directions: torch.Tensor) -> torch.Tensor:
        """Turn a wanted change of every fake into one of the parameters.

        Parameters
        ----------
        draws : Draws
            What the fakes are made of.
        directions : torch.Tensor of shape (n_rows, n_columns)
            Wanted changes; released.

        Returns
        -------
        torch.Tensor of shape (n_parameters,)
            Negative gradient of half the mean squared distance of the fakes to the
            changed fakes (G-PATE, Equation 2), with respect to the parameters in
            their `units`.
        """
        pull = torch.func.vjp(lambda own: self.rows(draws, own), self.parameters)[1]
        pulled = pull(directions / len(directions))[0]
        return self.units * torch.cat([pulled[name].flatten() for name in self.trained])

    def ascend(self, advice: torch.Tensor) -> None:
        """Take one step along released advice of shape (n_parameters,)."""
        sizes = [self.parameters[name].numel() for name in self.trained]
        rate = self._learning_rate * (1.0 - self._step / self._n_steps)
        changes = (rate * self.units * advice.to(self.units)).split(sizes)
        for name, change in zip(self.trained, changes, strict=True):
            value, bound = self.parameters[name], _BOUNDS[name]
            moved = value + change.reshape(value.shape)
            self.parameters[name] = moved.clamp(-bound, bound)
        self._step += 1
        if 2 * self._step > self._n_steps:
            for name, value in self.parameters.items():
                self._sum[name] += value

    def result(self) -> dict[str, NDArray[np.float64]]:
        """Give the mean parameters over the second half of the steps."""
        n_summed = self._step - self._n_steps // 2
        return {
            name: (value / n_summed).cpu().double().numpy()
            for name, value in self._sum.items()
        }


def teacher_gradients(
    teachers: TeacherEnsemble, student: Student, draws: Draws, features: Features
) -> NDArray[np.float32]:
    """Give each teacher's advice to the student, one vector per teacher.

    Parameters
    ----------
    teachers : TeacherEnsemble
        Trained on private rows.
    student : Student
        The generator of the class.
    draws : Draws
        What the fakes are made of.
    features : callable
        What teachers look at.

    Returns
    -------
    ndarray of shape (n_teachers, n_parameters), float32
        Mean over the fakes of the gradient of log D(G(z)) with respect to the trained
        parameters in their `units`. Private: row i is computed from teacher i alone.
    """
    moving = {name: student.parameters[name] for name in student.trained}

    def fake_features(moving: Parameters) -> torch.Tensor:
        return features(student.rows(draws, {**student.parameters, **moving}))

    pull_back = torch.func.vjp(fake_features, moving)[1]
    parts = []
    fakes = student.rows(draws)
    for _, gradients in teachers.iter_feature_gradients(fakes, features):
        pulled = torch.func.vmap(pull_back)(gradients / len(fakes))[0]
        flat = [pulled[name].flatten(1) for name in student.trained]
        parts.append((student.units * torch.cat(flat, dim=1)).cpu().numpy())
    return np.concatenate(parts)
