"""`LinkedSynthesizer`: tables that hang on one another, with one guarantee."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdpsynth.linked._root import Root, planned_model, share_of_pairs
from skdpsynth.linked._rows import Rows
from skdpsynth.linked._schema import LinkedSchema
from skdpsynth.linked._tree import Tree
from skdpsynth.persistence import Savable
from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, PrivacyReport
from skdpsynth.schema import Column, Continuous, TableSchema
from skdpsynth.synthesizers import MarginalSynthesizer
from skdpsynth.utils import Document
from skdpsynth.utils.containers import converter
from skdpsynth.utils.sklearn_compat import InstanceOf, fit_context, public_seed


class LinkedSynthesizer(Savable):
    """Synthetic tables that hang on one another, with one guarantee per root row.

    A patient with all visits and prescriptions, or a household with its persons, is
    protected as a whole. Keys fit together, each child has a parent, parents have as
    many children as real ones, also none, and rows keep their order: each depends on
    its parent, on the row before it and on all earlier ones.

    Parameters
    ----------
    epsilon : float, default=1.0
        Total epsilon of a fit, in (0, inf]. Infinite means without noise.
    delta : float, default=1e-5
        Total delta of a fit, in (0, 1).
    schema : LinkedSchema or TableSchema
        The tables, and how they hang together. What it leaves out of the root is
        measured; of the others it must describe all columns. A `TableSchema` with
        `privacy_unit` and `order_by` is that of one table whose units have rows in
        order; its `per_unit` columns are those of the root.
    random_state : int, RandomState instance or None, default=None
        Seeds what is drawn from the noisy tables, and `sample`, never the noise.
    budget : PrivacyBudget, optional
        A budget shared by several fits; it is charged ``(epsilon, delta)``.

    Attributes
    ----------
    epsilon_ : float
        Certified epsilon, at most `epsilon`.
    delta_ : float
        Delta of the guarantee.
    measurements_ : dict of str to Measurements, or list of Measurement
        All noisy tables that were released, by table; public. Not after `load`.

    See Also
    --------
    skdpsynth.linked.LinkedSchema : What is public.
    MarginalSynthesizer : One table; it learns the root.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row of the root with the rows that hang on it and on no other, at any
    depth. A row hangs on several where a key of a table between names rows of each;
    keep such keys unique, or these rows are protected by no unit. Root rows of one key
    are one unit, of which one row is used. Keys are compared, and never released. A row
    that moves from one unit to another touches both. All rows of a unit in a table
    weigh 1 together: a row of the root weighs 1, and a child the weight of its parent
    divided by the number of its siblings. So any number of rows moves a noisy table by
    1 at most (L2), and `max_rows` costs no noise. Of a unit that has rows in several
    tables, the squared mu of all add up. The first `max_rows` rows in order are used,
    ties by a keyed hash of the row's own cells; rows that hang on no row are left out
    in silence. Chains of softmax regressions are fitted to the noisy tables, given
    synthetic rows: no private row is read again.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsynth import Link, LinkedSchema, LinkedSynthesizer, TableSchema
    >>> from skdpsynth.schema import Boolean, Continuous
    >>> schema = LinkedSchema(
    ...     {
    ...         "patients": TableSchema({"smoker": Boolean()}),
    ...         "visits": TableSchema({"day": Continuous(0, 365, integer=True)}),
    ...     },
    ...     [Link("visits", parent="patients", key="patient", order_by="day")],
    ... )
    >>> rng = np.random.default_rng(0)
    >>> patient, smoker = np.arange(500), rng.random(500) < 0.3
    >>> patients = pd.DataFrame({"patient": patient, "smoker": smoker})
    >>> visits = {"patient": patient.repeat(2), "day": rng.integers(0, 366, 1_000)}
    >>> tables = {"patients": patients, "visits": pd.DataFrame(visits)}
    >>> synth = LinkedSynthesizer(epsilon=3.0, schema=schema, random_state=0)
    >>> drawn = synth.fit(tables).sample(100, random_state=0)
    >>> len(drawn["patients"]), bool(drawn["visits"]["patient"].isin(range(100)).all())
    (100, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: MarginalSynthesizer._parameter_constraints[name]
            for name in ("epsilon", "delta", "budget", "random_state")
        },
        "schema": [InstanceOf(LinkedSchema), InstanceOf(TableSchema)],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        schema: LinkedSchema | TableSchema,
        random_state: int | np.random.RandomState | None = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.random_state = random_state
        self.budget = budget

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: object, y: None = None) -> Self:
        """Learn a private generator of tables like these.

        Parameters
        ----------
        X : dict of str to table, or table
            Each table of the schema, in any order of rows: of pandas, polars or Arrow,
            or the path of a CSV or Parquet file; all are read into memory. With a
            `TableSchema` the one table that it describes.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted synthesizer.

        Raises
        ------
        InvalidTableError
            If a table or a key is not there, or the structure of one is refused.
        InvalidSchemaError
            If the schema contradicts a table, or leaves out a column of a child.
        BudgetExceededError
            If a shared `budget` has too little left.

        Warns
        -----
        DegradedResultWarning
            If the result will be poor, of the root, and why.
        """
        del y
        rows = None
        if isinstance(self.schema, TableSchema):
            rows, X = Rows.parted(X, self.schema)
        tree, name = Tree(X, self._linked), self._linked.root
        more = {own.name: own.column for own in tree.hidden[name]}
        tree.frames[name] = tree.frames[name].assign(**more)
        root = self._new_root({own.name: own.spec for own in tree.hidden[name]})
        root.tree, root.rows = tree, rows
        for old in ("_root", "epsilon_", "delta_", "measurements_"):
            self.__dict__.pop(old, None)
        try:
            root.fit(tree.frames[name])
        finally:
            root.tree = None
        return self._keep(root)

    def sample(
        self,
        n_roots: int = 1,
        *,
        random_state: int | np.random.RandomState | None = None,
    ) -> Any:  # noqa: ANN401 - tables, or a table
        """Draw synthetic tables. It costs no privacy, however much is drawn.

        Parameters
        ----------
        n_roots : int, default=1
            Number of rows of the root, at least 1.
        random_state : int, RandomState instance or None, default=None
            None continues the stream of the fitted object, an int repeats.

        Returns
        -------
        dict of str to table, or table
            Each with columns, order of columns, dtypes and container of what was
            fitted. Keys are new, from 0 on. Rows come parent by parent, in order. Of
            one table: all rows of so many units.

        Raises
        ------
        ValueError
            If `n_roots` is out of range.
        """
        check_is_fitted(self)
        rng = self._stream
        if random_state is not None:
            rng = np.random.default_rng(public_seed(random_state))
        drawn, rows = [*self._root.draw(n_roots, rng)], self._root.rows
        if rows is not None:
            (_, units, *_), (_, own, _, place) = drawn
            return converter(rows.container)(rows.joined(units, own, place))
        return {name: converter(form.container)(own) for name, own, form, _ in drawn}

    def plan(self, n_roots: int) -> pd.DataFrame:
        """Return what the budget allows, before any data is touched.

        Parameters
        ----------
        n_roots : int
            A guess of the number of rows of the root.

        Returns
        -------
        DataFrame
            By table: ``tables``, of two columns, which are measured, and
            ``table_noise_std``, the noise of a count, in rows of the root: of a table
            that hangs on another all rows of a unit weigh 1 together. The noise does
            not depend on how many they are.
        """
        schema, hidden, listed = self._linked, dict[Hashable, Any](), {}
        for link in schema._links_of(schema.root):
            hidden[link._count] = Continuous(0, link.max_rows, integer=True)
            kinds = schema.tables[link.child].columns
            hidden |= {link._summary(name): kinds[name] for name in link.summaries}
        root = self._new_root(hidden)
        planned = root.plan(n_roots)[["tables", "table_noise_std"]]
        listed[schema.root] = planned.max().tolist()
        accountant = PrivacyAccountant(self.epsilon, self.delta)
        for link in schema.links:
            model = planned_model(schema, link)
            mu = accountant.mu_cap * math.sqrt(share_of_pairs(len(schema.links)))
            norm = math.hypot(*(pair.power for pair in model.pairs.values()))
            listed[link.child] = [len(model.pairs), norm / mu]
        columns = planned.columns
        return pd.DataFrame.from_dict(listed, orient="index", columns=columns)

    def privacy_report(self) -> PrivacyReport:
        """List every mechanism that touched the data, and the total.

        Returns
        -------
        PrivacyReport
            Prints as a table.
        """
        check_is_fitted(self)
        return self._root.privacy_report()

    def model_card(self) -> Document:
        """Write the page that goes with a release, as those of one table do.

        Returns
        -------
        Document
            It prints as text, shows in a notebook, and has ``to_markdown(path)`` and
            ``to_html(path)``. It follows from what the fit released.
        """
        check_is_fitted(self)
        return self._root.model_card()

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self._root._state()

    @classmethod
    def _restored(cls, document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        root = Root._restored(document, arrays)
        given = root.epsilon, root.delta
        schema = root.rows.schema if root.rows else root.linked
        self = cls(*given, schema=schema, random_state=root.random_state)
        self._keep(root)
        self.sample(1, random_state=0)  # what cannot be drawn is refused here
        return self

    def _new_root(self, hidden: Mapping[Hashable, Column]) -> Root:
        """Return what learns all tables, not fitted; the root has hidden columns."""
        stated = self._linked.schema_of(self._linked.root)
        root = Root(
            self.epsilon,
            self.delta,
            schema=replace(stated, columns={**stated.columns, **hidden}),
            budget=self.budget,
            random_state=self.random_state,
        )
        root.linked = self._linked
        return root

    @property
    def _linked(self) -> LinkedSchema:
        """What is public, as of several tables."""
        own = self.schema
        return own if isinstance(own, LinkedSchema) else LinkedSchema.of_rows(own)

    def _keep(self, root: Root) -> Self:
        """Keep what was fitted, and set what users read off it."""
        self._root = root
        self._stream = np.random.default_rng([public_seed(self.random_state), 1])
        self.epsilon_, self.delta_ = root.epsilon_, root.delta_
        if hasattr(root, "measurements_"):  # a file has none
            own = {root.linked.root: root.measurements_}
            self.measurements_: dict[str, Any] = {**root.measured, **own}
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_root")
