"""What the synthesizers share whose rows are drawn from a generator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.base import BaseSynthesizer
from skdpsynth.measure import (
    SMALL_SHARE,
    Allocation,
    Measurements,
    TableModel,
    and_unlabelled,
)
from skdpsynth.model import (
    NUMPY,
    Arrays,
    FactorGenerator,
    MixtureGenerator,
    fit_factors,
    fit_mixture,
)
from skdpsynth.privacy import UNLABELLED, PrivacyAccountant
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.sampling import DrawRanks, drawn_within
from skdpsynth.table import Metadata, PrivateRows, TableRows
from skdpsynth.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    import torch

_FORMS: dict[str, Any] = {"factors": FactorGenerator, "mixture": MixtureGenerator}


class GeneratedSynthesizer(BaseSynthesizer):
    """Base of the synthesizers whose columns depend on each other by `generator_`."""

    generator_: MixtureGenerator | FactorGenerator
    n_iter_: int

    def _fit_generator(
        self, measured: Measurements, seed: int, device: torch.device | None = None
    ) -> TableModel:
        """Fit `generator_` to measurements, keep both, and return the marginals.

        A mixture is fitted to tables of pairs, factors to second moments; with neither,
        columns are independent.
        """
        model = measured.model.labelled
        if measured.pairs:
            fit = fit_mixture(measured, seed=seed, arrays=arrays_on(device))
            self.generator_ = fit.generator(measured)
        else:
            planned = model.metadata.classes.planned
            self.generator_ = FactorGenerator.lent(fit_factors(measured), planned)
        self.measurements_ = measured
        return model

    def _ranks(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        return self.generator_.draw(class_codes, rng)

    def _within(
        self, spans: Sequence[Mapping[int, Floats]]
    ) -> tuple[DrawRanks, Floats]:
        if isinstance(self.generator_, MixtureGenerator):
            generator, shares = self.generator_.within(spans)
            return generator.draw, shares
        if self.generator_.loadings.any():  # all rows are drawn
            return self._ranks, np.ones(len(spans))
        lengths = [[np.diff(span).sum() for span in part.values()] for part in spans]

        def draw(class_codes: Ints, rng: np.random.Generator) -> Floats:
            ranks = self._ranks(class_codes, rng)
            for c, part in enumerate(spans):
                rows = np.flatnonzero(class_codes == c)
                for j, within in part.items():
                    ranks[rows, j] = drawn_within(ranks[rows, j], within)
            return ranks

        return draw, np.array([np.prod(of_class) for of_class in lengths])

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        document, arrays = self.generator_.to_state()
        if hasattr(self, "n_iter_"):
            document = {**document, "n_iter_": self.n_iter_}
        if hasattr(self, "n_teachers_"):
            arrays = {**arrays, "n_teachers": self.n_teachers_}
        return document, arrays

    def _restore_generator(
        self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        size = len(self._model.marginals), len(self._model.metadata.columns)
        if "form" not in document:  # of the independent baseline, up to 0.2
            self.generator_ = FactorGenerator(np.zeros((*size, 1)))
            return
        self.generator_ = _FORMS[document["form"]].from_state(document, arrays, *size)
        if "n_iter_" in document:
            self.n_iter_ = int(document["n_iter_"])
        if "n_teachers" in arrays:
            self.n_teachers_ = arrays["n_teachers"]


def arrays_on(device: torch.device | None) -> Arrays:
    """Return those of a fit: NumPy's on the CPU, where it is as fast as torch."""
    if device is None or device.type == "cpu":
        return NUMPY
    from skdpsynth.training import on_device

    return on_device(device)


def left_of_unlabelled(accountant: PrivacyAccountant) -> float:
    """Return the mu that rows without a label have left, but for rounding."""
    return accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)


def and_measured_unlabelled(
    rows: TableRows,
    metadata: Metadata,
    plans: list[Allocation],
    accountant: PrivacyAccountant,
    share: float = 1.0,
) -> tuple[Metadata, list[Allocation]]:
    """Add rows without a label as one more class to what is measured.

    With a share of the squared mu of their budget, if labels may be missing, some class
    has tables of two columns and these rows can afford them too. They are charged
    whether or not there are any: whether labels may be missing is in the dtype, which
    is public.
    """
    target = metadata.layout.label_column
    of_pairs = any(plan.pairs.mu for plan in plans)
    may_lack = target is not None and target.can_be_missing
    # Without a class every row is charged for the plans, which leave nothing.
    if not (may_lack and metadata.classes.labels and of_pairs):
        return metadata, plans
    left = left_of_unlabelled(accountant) * math.sqrt(share)
    of_size = accountant.reserve_gaussian(
        "rows without a label",
        mu=left * math.sqrt(SMALL_SHARE),
        sensitivity=1.0,
        scope=UNLABELLED,
    )
    places = rows.parts_of_class(-1).map(_one_place)
    (n_rows,) = noisy_counts(places, 1, of_size).tolist()
    left *= math.sqrt(1.0 - SMALL_SHARE)
    return and_unlabelled(metadata, plans, n_rows, of_size.noise_std, left)


def _one_place(rows: PrivateRows) -> Ints:
    """Return rows one code, to be counted by it."""
    return np.zeros(len(rows), dtype=np.int64)
