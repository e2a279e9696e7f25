"""Synthetic rows of a fitted synthesizer: at once, or batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth.preprocessing._drawing import RowSource
from skdpsynth.preprocessing._sampling import public_seed
from skdpsynth.preprocessing._where import Condition
from skdpsynth.utils.containers import converter

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._model import TableModel
    from skdpsynth.preprocessing._where import DrawRanks


class Sampler:
    """What has `sample`: a model, a stream, and ranks that a subclass draws."""

    _model: TableModel
    _stream: np.random.Generator

    def sample(
        self,
        n_samples: int = 1,
        *,
        sampling_strategy: str | Mapping[Hashable, float] | None = None,
        where: Mapping[Hashable, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        output: Literal["pandas", "arrow", "polars"] = "pandas",
    ) -> Any:  # noqa: ANN401 - a table of the library asked for
        """Draw synthetic rows. It costs no privacy, however much is drawn.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, at least 1.
        sampling_strategy : {"balanced"}, dict or None, default=None
            Class shares: None for the bought ones, "balanced" for equal ones, or a
            dict from class to share (floats with sum 1) or to count (integers with
            sum `n_samples`). Only None where there are no classes but a measurement.
        where : dict, optional
            Draw only rows that satisfy all of it, from their distribution given that
            they do. From column name (the target too) to a value, to a list of which
            any will do, or, for numbers and times, to a tuple ``(low, high)``, both
            included, where None is an open end. Outside a tuple None is a missing
            value. It sets the class shares, so give no `sampling_strategy`.
        random_state : int, RandomState instance or None, default=None
            None continues the stream of the fitted object, an int repeats.
        output : {"pandas", "arrow", "polars"}, default="pandas"
            A DataFrame of pandas, a Table of pyarrow or a DataFrame of polars.

        Returns
        -------
        DataFrame or Table of shape (n_samples, n_columns)
            Columns, order and dtypes of the training table, in random row order. Of one
            that came through Arrow, pandas has Arrow's dtypes.

        Raises
        ------
        MissingDependencyError
            If polars is asked for and not installed.
        ValueError
            If `n_samples`, `sampling_strategy`, `where` or `output` is out of range, or
            rows that satisfy `where` are not found.
        """
        source = self._source(sampling_strategy, where, random_state, output)
        return source.table(n_samples)

    def sample_batches(
        self,
        n_samples: int,
        batch_size: int = 100_000,
        *,
        sampling_strategy: str | Mapping[Hashable, float] | None = None,
        where: Mapping[Hashable, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        output: Literal["pandas", "arrow", "polars"] = "pandas",
    ) -> Iterator[Any]:
        """Draw synthetic rows batch by batch, in the memory of one batch.

        Together the batches are a table as `sample` draws: they have the same
        distribution, the same number of rows of each class, and identifiers that are
        distinct. One batch for all rows is, for a seed, the very table of `sample`;
        several are other rows, which depend on `batch_size` too.

        Parameters
        ----------
        n_samples : int
            Number of rows of all batches, at least 1 and below 10**9.
        batch_size : int, default=100_000
            Rows of a batch, at least 1; the last one may have fewer.
        sampling_strategy : {"balanced"}, dict or None, default=None
            Class shares, or counts, of all batches together, as in `sample`.
        where : dict, optional
            Draw only rows that satisfy all of it, as in `sample`.
        random_state : int, RandomState instance or None, default=None
            None continues the stream of the fitted object as each batch is drawn, an
            int repeats.
        output : {"pandas", "arrow", "polars"}, default="pandas"
            A DataFrame of pandas, a Table of pyarrow or a DataFrame of polars.

        Returns
        -------
        generator of DataFrame or Table of shape (n_rows, n_columns)
            Tables as of `sample`. The categories of an identifier that is categorical
            are those of its batch.

        Raises
        ------
        MissingDependencyError
            If polars is asked for and not installed.
        ValueError
            If an argument is out of range, at the call; as the batches are drawn, if
            rows that satisfy `where` are not found.
        """
        source = self._source(sampling_strategy, where, random_state, output)
        return source.batches(n_samples, batch_size)

    def _source(
        self,
        sampling_strategy: str | Mapping[Hashable, float] | None,
        where: Mapping[Hashable, Any] | None,
        random_state: int | np.random.RandomState | None,
        output: str,
    ) -> RowSource:
        """Read the arguments that `sample` and `sample_batches` share."""
        check_is_fitted(self)
        convert = converter(output)
        layout = self._model.facts.layout
        if layout.measured and sampling_strategy is not None:
            raise ValueError(
                f"The target {layout.target!r} is a number, and sampling_strategy is "
                "about classes. Leave it out, or ask for rows by where."
            )
        rng = self._stream
        if random_state is not None:
            rng = np.random.default_rng(public_seed(random_state))
        condition, left = None, np.ones(len(self._model.marginals))
        draw: DrawRanks = self._ranks
        if where is not None:
            if sampling_strategy is not None:
                msg = "where sets the class shares: leave out sampling_strategy."
                raise ValueError(msg)
            condition = Condition.of(where, self._model.facts)
            draw, left = self._within(condition.spans(self._model))
        return RowSource(
            self._model, draw, rng, sampling_strategy, condition, left, convert
        )

    @abstractmethod
    def _ranks(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of synthetic rows of the given classes, in [0, 1]."""

    def _within(
        self, spans: Sequence[Mapping[int, NDArray[np.float64]]]
    ) -> tuple[DrawRanks, NDArray[np.float64]]:
        """Give `_ranks` restricted to spans of ranks, class by class and column.

        With it the share of each class's rows that are left. A subclass that can draw
        such rows says how; here all are drawn, and those outside are left out.
        """
        return self._ranks, np.ones(len(spans))
