"""What all synthesizers share: the order of a fit, sampling and plans.

`fit` checks the table, releases what the schema leaves out, allocates the budget, runs
the algorithm, and closes the ledger. An algorithm is one file that fills in `_fit`,
`_allocate` and `_ranks`.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdpsynth.card import model_card
from skdpsynth.exceptions import DegradedResultWarning, InvalidSchemaError
from skdpsynth.measure import (
    SMALL_SHARE,
    Allocation,
    Discovery,
    Measurements,
    Outline,
    TableModel,
    guess_table,
    remarks,
    weak_claims,
)
from skdpsynth.persistence import Savable
from skdpsynth.privacy import (
    PrivacyAccountant,
    PrivacyBudget,
    PrivacyReport,
    claim,
    cost_of_failure,
    scope_words,
)
from skdpsynth.sampling import Sampler
from skdpsynth.schema import NOTHING_STATED, TableSchema
from skdpsynth.table import (
    Metadata,
    TableLayout,
    TableRows,
    agreed_target,
    declared_metadata,
    in_container_of,
    is_source,
    limit_rows,
    modelled_columns,
    open_table,
)
from skdpsynth.utils import Document
from skdpsynth.utils.dtypes import same_name
from skdpsynth.utils.sklearn_compat import (
    InstanceOf,
    Interval,
    Options,
    fit_context,
    public_seed,
)

__all__ = ["BaseSynthesizer"]

_LOG = logging.getLogger("skdpsynth")


def _in_full(cls: type) -> str:
    """Return a docstring with what bases say in the place of "name, other : shared"."""
    known = {
        entry.partition(" ")[0]: entry
        for base in reversed(cls.__mro__)
        for entry in re.split(r"\n(?=\w)", vars(base).get("_shared_docs", ""))
    }

    def entries(names: re.Match[str]) -> str:
        shared = (known.get(name, names[0]) for name in names[1].split(", "))
        return "\n".join(entry.rstrip() for entry in shared)

    lines = r"^(\w+(?:, \w+)*) : shared$"
    return re.sub(lines, entries, inspect.cleandoc(cls.__doc__ or ""), flags=re.M)


@dataclass(eq=False, repr=False)  # these are scikit-learn's
class BaseSynthesizer(OneToOneFeatureMixin, Savable, Sampler, metaclass=ABCMeta):
    """Base class of all synthesizers.

    A subclass fills in ``_fit``, which measures or trains, and returns the marginals;
    ``_allocate``, which says what a budget allows; and ``_ranks``, which draws
    where synthetic rows stand in the marginals.

    See Also
    --------
    skdpsynth.GPATESynthesizer : Private aggregation of teachers' gradients.
    skdpsynth.IndependentSynthesizer : Noisy marginals per class, no network.

    Examples
    --------
    >>> from skdpsynth import GPATESynthesizer
    >>> from skdpsynth.base import BaseSynthesizer
    >>> issubclass(GPATESynthesizer, BaseSynthesizer)
    True
    """

    # What all have as parameters; a subclass is a dataclass too, and adds its own.
    epsilon: float = 1.0
    delta: float = 1e-5
    target: Hashable = None
    schema: TableSchema | None = None
    budget: PrivacyBudget | None = None

    # What docstrings of synthesizers say alike, in the place of "name : shared".
    _shared_docs = """\
epsilon : float, default=1.0
    Total epsilon of a fit, in (0, inf]. Infinite means without noise.
delta : float, default=1e-5
    Total delta of a fit, in (0, 1).
target : column name, optional
    The label column; or one of floats or times, which is a measurement.
schema : TableSchema, optional
    What is public about the table; what it leaves out is measured.
budget : PrivacyBudget, optional
    A budget shared by several fits; it is charged ``(epsilon, delta)``.
device : str or torch.device, default="auto"
    Where the generator is fitted and networks are trained; "auto" takes a GPU if
    there is one.
epsilon_ : float
    Certified epsilon, at most `epsilon`.
delta_ : float
    Delta of the guarantee.
schema_ : TableSchema
    What was declared and what was measured.
classes_ : ndarray of shape (n_classes,)
    The labels; only with a target that has classes.
measurements_ : Measurements
    All noisy tables that were released; public. Empty with ``init="random"``, where
    no table is measured.
n_features_in_ : int
    Number of columns without the target.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Their names, where all are strings.
"""
    # Whether plan and report judge by the measured tables how it learns dependence.
    _dependent: ClassVar[bool] = True
    # Whether it has a loop of training.
    _adversarial: ClassVar[bool] = False
    # Part of the squared mu of a fit that it may spend; the rest is of other tables.
    _share: ClassVar[float] = 1.0
    # What a class may release as one block, with a tail: see `privacy._calibration`.
    _block: ClassVar[Literal["votes", "sampled steps"] | None] = None
    # What is known of the columns from another table, so need not be released.
    _known: ClassVar[Metadata | None] = None
    # Tables that hang on the one that is fitted, for its card.
    _children: ClassVar[Mapping[str, TableSchema] | None] = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        # Outside these limits the certificate of dp-accounting loses its precision.
        "epsilon": [
            Interval(Real, 1e-9, 1e6, closed="both"),
            Options(Real, {math.inf}),
        ],
        "delta": [Interval(Real, 1e-12, 1, closed="left")],
        "target": [object],  # `agreed_target` has the better message
        "schema": [InstanceOf(TableSchema), None],
        "budget": [InstanceOf(PrivacyBudget), None],
        "random_state": ["random_state"],
    }

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401
        super().__init_subclass__(**options)
        if cls.__doc__ is not None:  # with python -OO
            cls.__doc__ = _in_full(cls)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | pd.DataFrame, y: ArrayLike | None = None) -> Self:
        """Learn a private generator of tables like `X`.

        Everything is checked before the budget is touched. The total spent is at most
        ``(epsilon, delta)``, whatever `fit` has to learn about the table. A fit that is
        interrupted keeps nothing and stays charged; a note on the exception says so.

        Parameters
        ----------
        X : DataFrame, Arrow table or array-like of shape (n_rows, n_columns), or path
            The private table: of pandas, of polars, or of whatever has Arrow's
            ``__arrow_c_stream__``. Its column names and dtypes are public, also the
            dtypes that pandas infers from a list or an object array: set them in a
            DataFrame where the values must not choose them. A table that is not in
            memory is read in blocks: the path of a CSV file, whose columns the schema
            describes, of a Parquet file or of a folder of these; a Dataset of pyarrow;
            an iterable of its record batches; or a DataFrame of Dask.
        y : array-like of shape (n_rows,), optional
            The labels, where they are not a column of X; also a table of one column.
            Rows whose label is missing are in no class, and no label comes out missing
            if any could be released. Floats and times are measurements: modelled, with
            missing ones, as a column of X is.

        Returns
        -------
        self : object
            The fitted synthesizer.

        Raises
        ------
        InvalidTableError
            If the structure of the table is refused.
        InvalidSchemaError
            If the schema contradicts the table, or leaves nothing to model.
        BudgetExceededError
            If a shared `budget` has too little left.

        Warns
        -----
        DegradedResultWarning
            If the result will be poor, and why: too few rows for the budget (``plan``
            says so in advance), labels or categories that were not frequent enough to
            be released, ranges that are a guess. The report has all names.
        """
        self._check_parameters()
        schema = self.schema or NOTHING_STATED
        table, layout = open_table(X, y, target=self.target, schema=schema)
        known = self._known
        domains = known.domains_of(modelled_columns(layout, schema)) if known else ()
        if weak := weak_claims(self.epsilon, self.delta, schema.n_rows):
            words = " ".join(map(": ".join, weak.items()))
            warnings.warn(words, DegradedResultWarning, stacklevel=3)
        seed = public_seed(self.random_state)
        discovery = Discovery(layout, schema, domains)
        # What an algorithm may not ask for is refused before anything is charged.
        columns = [*discovery.declared.values()]
        self._allocate(Outline((None,), (1.0,), columns), math.inf)
        accountant = self._accountant(layout, schema, self.epsilon, self.budget)
        _LOG.info(
            "Fit of %s to %d columns, target %r, within epsilon %s and delta %s",
            *(type(self).__name__, len(layout.columns), layout.target),
            *map(claim, (self.epsilon, self.delta)),
        )
        try:
            self._forget()  # the earlier fit
            limited = limit_rows(table, schema)
            metadata, rows = discovery.run(limited.rows, accountant, limited.sizes)
            accountant.limit_scopes(metadata.classes.scopes)
            # Discovery left the same to every class.
            left = self._left(accountant, metadata.classes.scopes[0])
            self._plans = plans = self._allocate(Outline.of(metadata), left)
            for plan in plans:
                _LOG.info(
                    "Plan of %s: about %g rows, %d bins, %d tables of 2 columns, "
                    "%d steps, %d teachers",
                    *(scope_words(plan.label), plan.n_rows, plan.n_bins),
                    *(plan.n_tables, plan.n_iter, plan.n_teachers),
                )
            model = self._fit(rows, metadata, plans, accountant, seed)
            accountant.close()
            report = replace(accountant.report(), declared=declared_metadata(schema))
            costs = discovery.costs(accountant, float(metadata.classes.counts.sum()))
            measured = getattr(self, "measurements_", Measurements(metadata))
            told = model, plans, schema, report, costs, measured
            poor, notes = remarks(*told, dependent=self._dependent)
            for note in self._remarks(plans):
                notes.append(note)
                _LOG.info(note)
            report = replace(report, notes=(*report.notes, *notes))
            complete = metadata.schema(schema)
            measured.conclude(accountant, complete, report)
        except BaseException as error:
            self._forget()
            error.add_note(cost_of_failure(self.epsilon, self.delta, self.budget))
            raise
        self._model, self._report, self.schema_ = model, report, complete
        self._make_ready([seed, 1])
        spent = map(claim, (report.epsilon, report.delta))
        _LOG.info("Fitted, at epsilon %s and delta %s", *spent)
        if poor:
            warnings.warn(poor, DegradedResultWarning, stacklevel=3)
        return self

    def fit_resample(
        self, X: ArrayLike | pd.DataFrame, y: ArrayLike | None = None
    ) -> tuple[Any, Any]:
        """Fit, and return a purely synthetic table in the containers that came.

        Unlike the samplers of imbalanced-learn it returns no real row.

        Parameters
        ----------
        X : DataFrame, Arrow table or array-like of shape (n_rows, n_columns)
            The private table, as in `fit`.
        y : array-like of shape (n_rows,), optional
            The labels, where they are not a column of X.

        Returns
        -------
        X_synthetic : DataFrame, Table, ndarray, list or tuple
            As many rows as the noisy (or declared) number of rows with a label. Of
            another library than pandas or polars, a Table or an array of pyarrow.
        y_synthetic : Series, Index, ExtensionArray, ndarray, list, tuple or None
            Their labels as y came; None if there is no target.
        """
        self.fit(X, y)
        metadata = self._model.metadata
        layout, n_rows = metadata.layout, int(np.rint(metadata.classes.counts.sum()))
        table = self.sample(max(n_rows, 1), output="pandas")
        labels = None if layout.target is None else table.pop(layout.target)
        if layout.y_given and labels is not None:
            labels = in_container_of(y, labels)
        return table if is_source(X) else in_container_of(X, table), labels

    def privacy_report(self) -> PrivacyReport:
        """List every mechanism that touched the data, and the total.

        Returns
        -------
        PrivacyReport
            Prints as a table.
        """
        check_is_fitted(self)
        return self._report

    def model_card(self) -> Document:
        """Write the page that goes with a release: what it is, and what it is good for.

        Returns
        -------
        Document
            What was protected and how much, what was declared, what was measured and
            how well, and what the tables are good and bad for. It prints as text,
            shows in a notebook, and has ``to_markdown(path)`` and ``to_html(path)``.
            It follows from what the fit released, so it may be published with it.
        """
        check_is_fitted(self)
        metadata = self._model.metadata
        plans = self._plans[: len(metadata.classes)]  # without `UNLABELLED`
        # Of those of a design, what was chosen by other rows is not known.
        plans = [plan for plan in plans if not plan.designed]
        return model_card(
            type(self).__name__,
            self.privacy_report(),
            self.schema_,
            metadata,
            plans,
            children=self._children,
            dependent=self._dependent and len(metadata.columns) > 1,
        )

    def get_epsilon(self, delta: float) -> float:
        """Return the epsilon that the fit guarantees at another delta.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Epsilon; infinite for a fit without noise.
        """
        check_is_fitted(self)
        return self._report.get_epsilon(delta)

    def plan(
        self,
        n_rows: int | Mapping[int, int] | None = None,
        *,
        dtypes: Mapping[Hashable, Any] | pd.Series | None = None,
        schema: TableSchema | None = None,
        class_counts: Mapping[Hashable, int] | None = None,
    ) -> pd.DataFrame:
        """Return what the budget allows, before any data is touched.

        Parameters
        ----------
        n_rows : int or mapping of int to int, optional
            A guess of the number of rows, at least 1, with a `privacy_unit` of those
            that are used; by default what the schema or `class_counts` say. To choose
            `max_rows_per_unit`, a guess for several of them, such as ``{1: 4_000, 2:
            7_000, 5: 11_000}``.
        dtypes : Series, Arrow schema or mapping of column name to dtype, optional
            ``df.dtypes``, or ``df.schema`` of pyarrow or polars. Columns that the
            schema leaves out are planned as undeclared. By default the columns are
            those of `schema`, of the last fit, or of the constructor's schema; then
            what a schema leaves out is not planned for.
        schema : TableSchema, optional
            What is public; by default the schema of the constructor.
        class_counts : mapping of class to int, optional
            A guess of the rows of every class; by default what the schema declares,
            or all classes equal.

        Returns
        -------
        DataFrame
            One row per class: its rows, the bins and the noise of its marginals,
            their signal-to-noise ratio, the tables of two columns and their noise, the
            noise of correlations of normal scores where second moments are measured,
            whether the dependence between columns will be "kept", "weak", "borrowed"
            (from a larger class) or "lost", what training adds, the rows that an
            undeclared label or category needs to be found (0 where none is), the least
            of a few epsilons up to 20 at which no budget would improve on its notes,
            dependence aside (NaN if none is), and a note where the result will be poor.
            For several `max_rows_per_unit` they are an outer level of the index.

        Raises
        ------
        InvalidSchemaError
            If nothing says what the columns or the classes are, or the schema
            contradicts the dtypes.
        ValueError
            If a parameter or a guess is out of range, or contradicts the schema.
        """
        self._validate_params()
        self._check_parameters()
        if schema is not None and not isinstance(schema, TableSchema):
            msg = f"schema must be a TableSchema. Got {type(schema).__name__} instead."
            raise ValueError(msg)
        given = schema or self.schema or NOTHING_STATED
        if isinstance(n_rows, Mapping):
            if given.privacy_unit is None or not n_rows:
                raise ValueError(
                    "Guesses of n_rows for several max_rows_per_unit need a schema"
                    f" with a privacy_unit, and one of them at least. Got {n_rows!r};"
                    " give one number, or name the unit in the schema."
                )
            each = {
                most: self.plan(
                    n,
                    dtypes=dtypes,
                    schema=replace(given, max_rows_per_unit=most),
                    class_counts=class_counts,
                )
                for most, n in n_rows.items()
            }
            return pd.concat(each, names=["max_rows_per_unit"])
        target = agreed_target(self.target, given)
        metadata = self._model.metadata if hasattr(self, "_model") else None
        if metadata and not same_name(target, metadata.layout.target):
            # Labels that came as y have a name of their own.
            metadata = metadata if target is None and metadata.layout.y_given else None
        last = metadata.layout if metadata and schema is None else None
        labels = metadata.classes.labels if metadata else ()
        known = self._known.domains if self._known else ()
        guess = guess_table(
            dtypes, given, target, last, n_rows, class_counts, labels, known=known
        )
        # Whether a class trains depends on the rows of a unit.
        planner = self if schema is None else clone(self).set_params(schema=given)
        if self._adversarial:
            planner._check_parameters()
        return guess.plan(
            planner._allocate,
            lambda epsilon: self._accountant(guess.layout, given, epsilon),
            self.epsilon,
            dependent=self._dependent,
            adversarial=self._adversarial,
        )

    @abstractmethod
    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        """Measure or train, set `generator_`, and return the marginals."""

    @abstractmethod
    def _allocate(self, table: Outline, mu: float) -> list[Allocation]:
        """Allocate what each class may spend (mu) to measurements and training."""

    @staticmethod
    def _left(accountant: PrivacyAccountant, scope: Hashable) -> float:
        """Return the mu that the rows of a class have left, but for rounding."""
        return accountant.remaining_mu(scope) * (1 - 1e-9)

    def _accountant(
        self,
        layout: TableLayout,
        schema: TableSchema,
        epsilon: float,
        budget: PrivacyBudget | None = None,
    ) -> PrivacyAccountant:
        """Open the ledger of a fit, or of a plan."""
        if schema.order_by is not None:
            raise InvalidSchemaError(
                f"Rows are ordered by {schema.order_by!r}. Expected no 'order_by', as"
                f" rows of {type(self).__name__} have no order; leave it out, or take"
                " LinkedSynthesizer."
            )
        keys_delta = self.delta * Discovery(layout, schema).delta_share
        return PrivacyAccountant(
            epsilon,
            self.delta,
            discovery_delta=keys_delta + self._tail_delta,
            amplified=self._block == "sampled steps",
            rows_per_unit=schema.max_rows_per_unit or 1,
            unit=schema.privacy_unit,
            budget=budget,
            share=self._share,
        )

    @property
    def _tail_delta(self) -> float:
        """Delta of a class's block beside the Gaussian curve; public."""
        return self.delta * SMALL_SHARE if self._block else 0.0

    def _remarks(self, plans: Sequence[Allocation]) -> list[str]:
        """Return what the report says of a loop of training."""
        del plans
        return []

    def _check_parameters(self) -> None:
        """Raise for parameters that contradict each other."""

    def _forget(self) -> None:
        """Delete what a fit set."""
        for name in list(vars(self)):
            if re.fullmatch("[^_].*_|_model|_plans|_report|_stream", name):
                delattr(self, name)

    def _make_ready(self, seed: Sequence[int] | None = None) -> None:
        """Open the stream of samples, and set what users read off a fitted object."""
        self._stream = np.random.default_rng(seed)
        self.epsilon_, self.delta_ = self._report.epsilon, self._report.delta
        metadata = self._model.metadata
        layout = metadata.layout
        names = [column.name for column in layout.feature_columns]
        self.n_features_in_ = len(names)
        if not layout.from_array and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        if layout.label_column is not None:
            self.classes_ = np.array(metadata.classes.labels)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags
