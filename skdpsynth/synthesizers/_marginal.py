"""Noisy tables of one, two and three columns, and a mixture fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import (
    Allocation,
    Measurements,
    Outline,
    TableModel,
    add_unlabelled,
    allocate,
    measure,
)
from skdpsynth.model import (
    NUMPY,
    Arrays,
    FactorGenerator,
    MixtureGenerator,
    fit_factors,
    fit_mixture,
    make_generator,
)
from skdpsynth.privacy import UNLABELLED, PrivacyAccountant
from skdpsynth.sampling import DrawRanks, drawn_within
from skdpsynth.table import Metadata, TableRows
from skdpsynth.utils import without
from skdpsynth.utils.arrays import Floats, Ints
from skdpsynth.utils.sklearn_compat import InstanceOf, Interval, public_seed

if TYPE_CHECKING:
    import torch

without_verbose = without(
    since="0.3", removed_in="0.5", verbose="It had no effect; leave it out."
)


_FORMS: dict[str, Any] = {"factors": FactorGenerator, "mixture": MixtureGenerator}


class GeneratedSynthesizer(BaseSynthesizer):
    """Base of the synthesizers whose columns depend on each other by `generator_`."""

    generator_: MixtureGenerator | FactorGenerator
    n_iter_: int

    def _fit_generator(
        self, measured: Measurements, seed: int, arrays: Arrays = NUMPY
    ) -> TableModel:
        """Fit `generator_` to measurements, keep both, and return the marginals.

        A mixture is fitted to tables of pairs, factors to second moments; with neither,
        columns are independent.
        """
        model = measured.model.labelled
        if measured.has_pairs.any():
            components = fit_mixture(measured, seed=seed, arrays=arrays)
            mixtures = components.mixtures(measured.ranks)
            self.generator_ = make_generator(mixtures, measured)
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


@without_verbose
@dataclass(eq=False, repr=False)
class MarginalSynthesizer(GeneratedSynthesizer):
    """Synthetic tables from noisy marginals of one, two and three columns.

    It measures, per class, how often values of one, of two and of three columns come
    together (k-way marginals), and fits a generator to what was measured: no teachers,
    no adversary, seconds. The synthesizers of the papers start from the same
    measurements, so it is what their training must beat.

    Parameters
    ----------
    epsilon, delta, target, schema, budget : shared
    order : int, default=3
        Columns of a table at most, from 1 to 3. Tables of three columns are measured
        where a class can afford them, in tables of 3 to 19 columns.
    design : Measurements, optional
        `measurements_` of another table, such as that of another hospital: the same
        tables are measured in the same bins, so that `combine_measurements` can add
        them up. `schema` is then ``design.schema``, and `order` that of the other fit.
    use_unlabelled : bool, default=False
        Whether rows whose label is missing are measured too, and fitted as a mixture of
        the classes. They are in no class, so they have the whole budget. Without effect
        if labels cannot be missing by their dtype, or no class has tables of pairs.
    device : str or torch.device, default="cpu"
        Where the generator is fitted: "cpu" (NumPy, without torch) or a device of torch
        such as "cuda"; "auto" takes a GPU if there is one. Without effect where no
        tables of two columns are measured, as in wide tables of numbers.
    random_state : int, RandomState instance or None, default=None
        Seeds the generator's first parameters and `sample`, never the noise.

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_ : shared
    measurements_ : Measurements
        All noisy tables that were released; public.
    generator_ : MixtureGenerator or FactorGenerator
        The fitted generator; public.
    n_features_in_, feature_names_in_ : shared

    See Also
    --------
    IndependentSynthesizer : Marginals of one column alone, which small tables can
        afford.
    GPATESynthesizer : Trains the same generator by teachers.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. A row is in one bin of every column, and so in one cell of the
    table of each pair, and of each triple: E tables have L2 sensitivity ``sqrt(E)``
    together. Bins are functions of the marginals released before. In a table of more
    than 25 columns, or of few rows, the pairs are chosen: by the noisy L1 distance of
    every pair's table to the whole numbers that independent columns would have by the
    released marginals, of which a row moves each by at most 1. Of K pairs in which one
    column nearly determines the other, as the released tables show, finer cells are
    counted inside pairs of bins, and all other rows in one cell: L2 sensitivity
    ``sqrt(K)``; and T tables of the rank of one, given the other, by the bins of
    another column: ``sqrt(T)``. Second moments (below) are sums of products of the
    normal scores of a row, which is shortened to a length of 4096 in whole numbers:
    their L2 sensitivity is ``4096**2 / sqrt(2)``. Classes are disjoint and compose in
    parallel. The noise is the discrete Gaussian. Labels, counts, ranges, decimals,
    categories and marginals come out of the same budget. The generator is fitted to
    what was released, so the number of its steps costs nothing.

    The generator draws a code, one of 1,000 at most, and given the code every column
    takes a bin by itself: a softmax per column, which is a network with a one-hot code
    and no hidden layer. Intervals of numbers are about normal given the code. Bins are
    then changed where they contradict a column that nearly determines them, or what is
    surely impossible, and a value is drawn from the finer cells that were measured, as
    in the second tree of a vine copula [5]_, or from the fine marginal of its class. A
    class with too few rows for tables of pairs has marginals alone, with all of its
    budget, and its columns depend on each other as those of the largest class with
    tables, each the less, the less of their marginals is common to both. Where no class
    affords tables, or the rows are few and without classes, or there are 20 numbers or
    more and rows are few for all their pairs, or 120 columns, the second moments of
    normal scores are measured, and a few normal factors fitted to them, which classes
    with too few rows borrow; or, with too few rows for that in all classes, marginals
    alone.

    GEM [1]_ fits a network to chosen marginals, RAP [2]_ a table of free rows, MargNet
    [3]_ a network to nearly all pairs; AIM [4]_ chooses by a graphical model. Here
    pairs are measured per class, all at once while the columns are few, and the
    weights of the components are free and differ by class, so that the label is not
    one column among many.

    References
    ----------
    .. [1] Liu, Vietri, Wu (2021). "Iterative Methods for Private Synthetic Data:
       Unifying Framework and New Methods". NeurIPS 2021. :arxiv:`2106.07153`
    .. [2] Aydore, Brown, Kearns, Kenthapadi, Melis, Roth, Siva (2021).
       "Differentially Private Query Release Through Adaptive Projection". ICML 2021.
       :arxiv:`2103.06641`
    .. [3] Chen, Gong, Wang (2025). MargNet. :arxiv:`2511.13893`
    .. [4] McKenna, Mullins, Sheldon, Miklau (2022). "AIM: An Adaptive and Iterative
       Mechanism for Differentially Private Synthetic Data". VLDB 2022.
       :arxiv:`2201.12677`
    .. [5] Bedford, Cooke (2002). "Vines: a New Graphical Model for Dependent Random
       Variables". The Annals of Statistics 30 (4).

    Examples
    --------
    >>> from skdpsynth import MarginalSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = MarginalSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    order: int = 3
    design: Measurements | None = None
    use_unlabelled: bool = False
    device: str | torch.device = "cpu"
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSynthesizer._parameter_constraints,
        "order": [Interval(Integral, 1, 3, closed="both")],
        "design": [InstanceOf(Measurements), None],
        "use_unlabelled": ["boolean"],
        "device": [object],  # `resolve_device` has the better message
    }

    @classmethod
    def from_measurements(
        cls,
        measurements: Measurements,
        *,
        device: str | torch.device = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ) -> Self:
        """Fit a generator to measurements: no table is needed, and nothing is spent.

        Parameters
        ----------
        measurements : Measurements
            `measurements_` of a fit, what `Measurements.load` read of it, or what
            `combine_measurements` made of several.
        device : str or torch.device, default="cpu"
            As in the constructor.
        random_state : int, RandomState instance or None, default=None
            As in the constructor. From the measurements of a fit with the same int the
            very generator of that fit comes.

        Returns
        -------
        MarginalSynthesizer
            Fitted. Its report has the claim of who made the measurements: that they are
            private can be seen from no file.

        Raises
        ------
        ValueError
            If these are not the measurements of a fit, or it measured nothing.
        """
        _require_marginals(measurements)
        report = measurements.report
        synth = cls(
            epsilon=report.epsilon_requested,
            delta=report.delta,
            target=measurements.metadata.layout.target,
            schema=measurements.schema,
            device=device,
            random_state=random_state,
        )
        seed = public_seed(random_state)
        synth._model = synth._fit_generator(measurements, seed, synth._arrays())
        synth._report, synth.schema_ = report, measurements.schema
        synth._make_ready([seed, 1])
        return synth

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        if self.design is not None:
            accountant.remark(
                "Measured in the tables of another table, whose domains and bins were"
                " public."
            )
        if self.use_unlabelled:
            metadata, self._plans = add_unlabelled(
                rows, metadata, plans, accountant, order=self.order
            )
        measured = measure(rows, metadata, self._plans, accountant, self.design)
        return self._fit_generator(measured, seed, self._arrays())

    def _allocate(self, table: Outline, mu: float) -> list[Allocation]:
        return allocate(
            table,
            mu,
            order=self.order,
            # Of rows without a label only tables are measured.
            tables_first=self.use_unlabelled,
            design=self.design,
        )

    def _arrays(self) -> Arrays:
        """Return those of the device; on the CPU NumPy is as fast as torch."""
        if self.device == "cpu":
            return NUMPY
        from skdpsynth.training import on_device, resolve_device

        device = resolve_device(self.device)
        return NUMPY if device.type == "cpu" else on_device(device)

    @property
    def _known(self) -> Metadata | None:  # type: ignore[override]
        return None if self.design is None else self.design.metadata

    def _check_parameters(self) -> None:
        self._arrays()
        if self.design is not None and self.schema != self.design.schema:
            raise InvalidSchemaError(
                "With a design the schema is that of the other table. Expected"
                " schema=design.schema. Got another one."
            )
        if self.design is None:
            return
        lacking = UNLABELLED in self.design.metadata.classes.scopes
        if self.use_unlabelled or lacking:
            raise ValueError(
                "A design has no rows without a label. Expected use_unlabelled=False,"
                " also of the fit whose measurements_ it is. Got True; leave it out."
            )
        _require_marginals(self.design)


def _require_marginals(measurements: Measurements) -> None:
    """Raise a ValueError unless something was measured of every class."""
    if not all(measurements.rounds_by_class):
        raise ValueError(
            "Expected measurements of the columns of a table. Got none; take"
            " measurements_ of a fit that measures, such as MarginalSynthesizer."
        )
