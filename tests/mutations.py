"""Planted faults: mistakes of a refactoring, each of which a test should see.

Each breaks what users are promised, in a few lines, where an interface is. So a suite
can be measured: ``SKDPSYNTH_MUTATION=name pytest tests/privacy`` plants one for all
tests of the session, and some of these should fail. `MUTATIONS` has them all, and a
test plants one by ``with planted(name)``.

They were written without a look at the tests.
"""

import copy
import functools
import inspect
import math
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from skdpsynth.exceptions import InvalidTableError


class Mutation(NamedTuple):
    """A function, method or property, and what takes its place."""

    where: str  # the module, or ``module:Class``, that has it
    name: str
    broken: Callable[..., Any]  # takes the real one first; says what is wrong with it


MUTATIONS: dict[str, Mutation] = {}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Break the package in one way, wherever the name was imported to."""
    where, attribute, broken = MUTATIONS[name]
    owner = pkgutil.resolve_name(where)
    real = inspect.getattr_static(owner, attribute)
    fake = _in_place_of(real, broken)
    if isinstance(owner, type):
        setattr(owner, attribute, fake)
    else:
        _swap(real, fake)
    try:
        yield
    finally:
        if isinstance(owner, type):
            setattr(owner, attribute, real)
        else:  # modules that were imported meanwhile have it too
            _swap(fake, real)


def _in_place_of(real: Any, broken: Callable[..., Any]) -> Any:
    """Make a function, or a property, that looks like the real one."""
    if isinstance(real, property):
        return property(functools.partial(broken, real.fget), doc=real.__doc__)

    @functools.wraps(real)
    def fake(*args: Any, **kwargs: Any) -> Any:
        return broken(real, *args, **kwargs)

    return fake


def _swap(old: Any, new: Any) -> None:
    """Put one object in the place of another in all loaded modules of the package."""
    for module in [*sys.modules.values()]:
        if getattr(module, "__name__", "").partition(".")[0] != "skdpsynth":
            continue
        for name, value in [*vars(module).items()]:
            if value is old:
                setattr(module, name, new)


def mutation(where: str, name: str) -> Callable[[Any], Any]:
    """List a function as a mutation, under its own name."""

    def listed(broken: Callable[..., Any]) -> Callable[..., Any]:
        MUTATIONS[broken.__name__] = Mutation(where, name, broken)
        return broken

    return listed


# --- Noise, sensitivity, thresholds -------------------------------------------------


@mutation("skdpsynth.privacy._mechanisms", "release_gaussian")
def noise_of_floats(real, values, reservation, n_releases=1):
    """Round floating-point noise, which `numpy.random.seed` makes known."""
    from skdpsynth.privacy._random import insecure_randomness_active

    released = real(values, reservation, n_releases)
    if insecure_randomness_active():
        return released
    noise = np.random.normal(0.0, reservation.noise_std, values.shape)  # noqa: NPY002
    return values + np.rint(noise).astype(np.int64)


@mutation("skdpsynth.privacy.statistics", "centred_sensitivity")
def number_of_rows_for_free(real, n_cells, size_weight=0.0):
    """Forget in the sensitivity that the number of rows is released beside counts."""
    return real(n_cells)


@mutation("skdpsynth.privacy.statistics", "noisy_pair_tables")
def empty_cells_without_noise(real, codes, n_bins, pairs, reservation, scale=1):
    """Add noise only to cells that some row is in: the others stay 0."""
    # Private: counts without noise are no interface.
    from skdpsynth.privacy.statistics import exact_pair_counts

    released = real(codes, n_bins, pairs, reservation, scale)
    return np.where(exact_pair_counts(codes, n_bins) > 0, released, 0)


@mutation("skdpsynth.privacy.statistics", "key_threshold")
def delta_of_all_for_each(real, noise_std, threshold_delta, n_columns, *args, **kwargs):
    """Give each column the delta of all of them: keys pass that are too rare."""
    return real(noise_std, threshold_delta, 1, *args, **kwargs)


@mutation("skdpsynth.privacy.statistics", "gnmax")
def plurality_without_noise(real, votes, reservation):
    """Answer by the exact votes; the noise is drawn for nothing."""
    real(votes, reservation)
    return votes.argmax(axis=1)


@mutation("skdpsynth.privacy._mechanisms", "_discrete")
def scale_taken_for_deviation(real, scale, *, laplace=False):
    """Take the scale of Laplace noise for its standard deviation."""
    return real(scale / math.sqrt(2) if laplace else scale, laplace=laplace)


@mutation("skdpsynth.privacy._mechanisms", "release_float_gaussian")
def noise_without_the_norm(real, total, clip, reservation):
    """Draw the noise of sums of gradients as if they were clipped to a norm of 1."""
    return real(total, 1.0, reservation)


@mutation("skdpsynth.privacy._random", "secret_generator")
def one_secret_for_all(real, kept=[]):  # noqa: B006
    """Draw one secret per process: all noise of floats is the same, and all samples."""
    from skdpsynth.privacy._random import insecure_randomness_active

    if insecure_randomness_active():
        return real()
    kept[:] = kept or [real()]
    return copy.deepcopy(kept[0])


@mutation("skdpsynth.privacy.statistics", "centred_sensitivity")
def sensitivity_rounded_down(real, n_cells, size_weight=0.0):
    """Round the root of a squared sensitivity down, by a millionth."""
    return max(real(n_cells, size_weight) - 1, 1)


@mutation("skdpsynth.privacy.statistics", "key_threshold")
def least_count_left_out(real, noise_std, delta, n_columns, least=2, rows_per_unit=1):
    """Place the threshold of keys of many rows as if those of two were considered."""
    return real(noise_std, delta, n_columns, rows_per_unit=rows_per_unit)


# --- Accounting, budget, report -----------------------------------------------------


@mutation("skdpsynth.privacy:PrivacyAccountant", "mu_cap")
def unit_charged_as_a_row(real, self):
    """Let a row spend what a unit of k rows may spend."""
    return real(self) * self.rows_per_unit


@mutation("skdpsynth.privacy._budget", "cost_of_failure")
def failed_fit_refunded(real, epsilon, delta, budget):
    """Take the charge of a fit that failed out of the budget again."""
    words = real(epsilon, delta, budget)
    if budget is not None:
        with budget._connection() as file:
            last = "(SELECT max(id) FROM skdpsynth_charges)"
            file.execute(f"DELETE FROM skdpsynth_charges WHERE id = {last}")
    return words


@mutation("skdpsynth.privacy:PrivacyReport", "get_epsilon")
def delta_set_aside_forgotten(real, self, delta):
    """State the epsilon as if nothing of delta were set aside for keys and tails."""
    from skdpsynth.privacy import gdp_epsilon

    stated = real(self, delta)
    return gdp_epsilon(self.mu, float(delta)) if self.private else stated


@mutation("skdpsynth.privacy:PrivacyBudget", "charge")
def refit_not_charged(real, self, epsilon, delta, **words):
    """Take a charge of the same size as an earlier one for that one, made again."""
    earlier = self.charges
    if not ((earlier["epsilon"] == epsilon) & (earlier["delta"] == delta)).any():
        real(self, epsilon, delta, **words)


@mutation("skdpsynth.privacy._accountant", "_charged")
def all_rows_after_classes(real, sums, scope):
    """Let a release of all rows spend what those of classes have spent already."""
    return sums.get(None, 0.0) if scope is None else real(sums, scope)


@mutation("skdpsynth.privacy._report", "claim")
def claim_to_the_nearest(real, value):
    """Round a printed bound to four digits, down as well as up."""
    return f"{value:.4g}"


# --- Measurements -------------------------------------------------------------------


@mutation("skdpsynth.measure._discovery:Discovery", "run")
def exact_rows_in_a_note(real, self, table, accountant, *args, **kwargs):
    """Say in the report how many rows were fitted, without noise."""
    from skdpsynth.privacy import Parts

    found = real(self, table, accountant, *args, **kwargs)
    n_rows = sum(len(part) for part in Parts.of(table).each())
    accountant.remark(f"Fitted to {n_rows:,} rows.")
    return found


@mutation("skdpsynth.measure._steps:Ranges", "run")
def range_cut_to_the_values(real, self, rows, *args):
    """End a released range where the private values end."""
    from skdpsynth.privacy import Parts
    from skdpsynth.table import numeric_values

    domains = real(self, rows, *args)
    frame = pd.concat([*Parts.of(rows).each()])
    for column, domain in domains.items():
        values, missing = numeric_values(frame[column.name], column)
        if domain.step is None and not missing.all():
            ends = values[~missing].min(), values[~missing].max()
            low, high = np.clip(ends, domain.low, domain.high).tolist()
            domains[column] = replace(domain, low=low, high=high)
    return domains


@mutation("skdpsynth.measure._sites", "_sum_of_sites")
def deviation_of_a_mean(real, sites):
    """State the noise of sums over sites as if it were that of their mean."""
    from skdpsynth.measure import Measurements

    found, root = real(sites), math.sqrt(len(sites))
    released = [
        replace(own, noise_std=own.noise_std / root)
        if own.query.kind == "pairs"
        else own
        for own in found
    ]
    return Measurements(found.metadata, released, found.planned_stds, found.edges)


@mutation("skdpsynth.measure._steps:Categories", "run")
def categories_as_they_appear(real, self, rows, *args):
    """List found categories in the order of the rows, which is private."""
    from skdpsynth.privacy import Parts
    from skdpsynth.utils.dtypes import plain

    domains = real(self, rows, *args)
    frame = pd.concat([*Parts.of(rows).each()])
    for column, domain in domains.items():
        seen = dict.fromkeys(map(plain, frame[column.name].dropna()))
        first = tuple(key for key in seen if key in domain.categories)
        rest = tuple(key for key in domain.categories if key not in seen)
        domains[column] = replace(domain, categories=first + rest)
    return domains


@mutation("skdpsynth.measure._sites", "_report_of_all")
def claim_of_the_first_site(real, reports):
    """Claim for all sites what the first one claims, though others may spend more."""
    names = "epsilon", "delta", "mu", "epsilon_replace_one"
    return replace(real(reports), **{name: vars(reports[0])[name] for name in names})


@mutation("skdpsynth.measure._measurements:Measurements", "_check")
def design_unchecked(real, own):
    """Take the measurements of a stranger's file as they come."""


# --- Tables -------------------------------------------------------------------------


@mutation("skdpsynth.table._units", "limit_rows")
def limit_per_part(real, table, schema):
    """Limit the rows of a unit within each part of a table, not in all of it."""
    from skdpsynth.privacy import LocalParts

    limited = real(table, schema)
    if schema is None or schema.privacy_unit is None:
        return limited
    if not isinstance(table, LocalParts):
        return limited
    return limited._replace(rows=table.map(lambda part: real(part, schema).rows))


@mutation("skdpsynth.table.csv_files", "typed_cells")
def whole_numbers_by_way_of_floats(real, *cells_and_column):
    """Let one missing cell round all whole numbers of its block to doubles."""
    series, refused = real(*cells_and_column)
    if series.dtype != "Int64" or not series.isna().any():
        return series, refused
    floats = series.to_numpy(np.float64, na_value=np.nan)
    within = np.clip(floats, -(2.0**63), np.nextafter(2.0**63, 0))
    return pd.Series(pd.array(within, dtype="Float64")).astype("Int64"), refused


@mutation("skdpsynth.table:PrivateRows", "of_class")
def unlabelled_in_the_first_class(real, self, *positions):
    """Count rows without a label among those of the first class as well."""
    return real(self, *positions, *[-1] * (0 in positions))


@mutation("skdpsynth.utils._numbers", "in_chunks")
def last_chunk_overlaps(real, n_rows, *step):
    """Fill up the last chunk of rows with some of the one before: counted twice."""
    chunks = [*real(n_rows, *step)]
    if len(chunks) > 1:
        chunks[-1] = slice(n_rows - chunks[0].stop, n_rows)
    return iter(chunks)


@mutation("skdpsynth.table.csv_files:CsvFile", "typed")
def cell_behind_an_error(real, self, table):
    """Raise the error about a cell while another is handled, whose words have it."""
    try:
        return real(self, table)
    except InvalidTableError as error:
        raise error from ValueError(str(table))


@mutation("skdpsynth.table._sources", "_blocks")
def row_in_two_blocks(real, source, names):
    """Begin each block of a source with the last row of the one before."""
    import pyarrow as pa

    last = []
    for block in real(source, names):
        yield pa.concat_tables([*last, block])
        last = [block[-1:]]


@mutation("skdpsynth.utils.dtypes", "is_missing")
def nan_that_is_not_missing(real, series):
    """Take a NaN for a number where a dtype has another value for missing ones."""
    return series.isna().to_numpy(dtype=bool, copy=True)


@mutation("skdpsynth.table:ColumnLayout", "from_wall")
def summer_time_forgotten(real, column, seconds):
    """Turn clocks of a zone to UTC by its offset at the start of 1970, always."""
    return seconds - column.to_wall(np.zeros(1))


@mutation("skdpsynth.utils.dtypes", "encode_dtype")
def order_lost_in_a_file(real, dtype):
    """Forget in a saved file that categories have an order."""
    found = real(dtype)
    return found | {"ordered": False} if "ordered" in found else found


@mutation("skdpsynth.table:Gap", "read")
def gap_to_the_row_before(real, self, frame):
    """Count a gap from the value of the row before where the earlier one is missing."""
    return real(self, frame.ffill())


@mutation("skdpsynth.table._metadata:RowRules", "keep")
def totals_before_order(real, self, cells):
    """Compute totals first, and put their parts in order afterwards."""
    late = sorted(self.rules, key=lambda rule: rule in self.orders)
    real(replace(self, rules=tuple(late)), cells)


@mutation("skdpsynth.sampling._where:Condition", "holds")
def where_without_rules(real, self, model, *drawn):
    """Leave out, of what is asked of rows, columns that a rule changes."""
    changed = model.metadata.rules.changed
    left = {name: own for name, own in self.columns.items() if name not in changed}
    return real(replace(self, columns=left), model, *drawn)


# --- Training -----------------------------------------------------------------------


@mutation("skdpsynth.training._dp_sgd", "sampled")
def batches_of_fixed_size(real, rows, reservation, rng):
    """Draw as many rows as a Poisson sample has on average, from a shuffled order."""
    order = np.argsort(rng.random(len(rows)), kind="stable")
    return rows[np.sort(order[: round(reservation.sampling_rate * len(rows))])]


@mutation("skdpsynth.training._dp_sgd:ClippedSums", "__call__")
def clipped_layer_by_layer(real, self, values, *rest):
    """Clip the gradient of each layer to the norm that all together may have."""
    norm_of_all, parts = self._module.get_norm_sample, []
    for p in self._params:
        self._module.get_norm_sample = lambda own=p: own._norm_sample
        total = real(self, values, *rest).split([q.numel() for q in self._params])
        parts.append(total[len(parts)])
    self._module.get_norm_sample = norm_of_all
    return torch.cat(parts)


@mutation("skdpsynth.training._dp_sgd", "release_mean")
def gradient_replaced_by_noise(real, total, *rest):
    """Release the noise of a step of DP-SGD without the gradients of any row."""
    return real(0.0 * total, *rest)


@mutation("skdpsynth.privacy.statistics", "gaussian_sum")
def sum_replaced_by_noise(real, vectors, clip, reservation):
    """Release the noise of a sum of teachers' vectors without the vectors."""
    return real(0.0 * vectors, clip, reservation)


@mutation("skdpsynth.privacy.statistics", "noisy_votes")
def votes_replaced_by_noise(real, counts, n_teachers, reservation):
    """Answer as if the teachers were always of two minds: by the noise alone."""
    return real(np.full_like(counts, n_teachers // 2), n_teachers, reservation)


@mutation("skdpsynth.training._unlabelled:Classifier", "train_step")
def classifier_replaced_by_noise(real, self):
    """Take a step of the classifier by its noise, without the gradient of any row."""
    self._rows = [rows[:0] for rows in self._rows]
    real(self)


@mutation("skdpsynth.training._unlabelled:UnlabelledBranch", "release")
def branch_replaced_by_noise(real, self, sums):
    """Release the noise of rows without a label without their gradients."""
    return real(
        self, {c: lambda rows, own=own: 0.0 * own(rows) for c, own in sums.items()}
    )


@mutation("skdpsynth.training._teachers", "assign_teachers")
def teachers_of_equal_size(real, n_units, n_teachers, rng):
    """Deal shuffled rows out in turn, so that a row that joins moves others."""
    order = np.argsort(rng.random(n_units), kind="stable")
    return np.argsort(order, kind="stable") % n_teachers


@mutation("skdpsynth.synthesizers._gpate:GPATESynthesizer", "_sum")
def mean_over_teachers_with_rows(real, self, own, teachers, *asked):
    """Divide a sum by the number of teachers that have a row, which is private."""
    with_rows = max(int(teachers._has_rows.sum()), 1)
    training = replace(own.training, n_teachers=with_rows)
    return real(self, own._replace(training=training), teachers, *asked)


@mutation("skdpsynth.saved", "write")
def saved_in_single_precision(real, path, document, arrays):
    """Round doubles, so that a loaded synthesizer draws other rows."""
    with np.errstate(over="ignore"):
        kept = {
            name: own.astype(np.float32).astype(own.dtype)
            if own.dtype == float
            else own
            for name, own in arrays.items()
        }
    return real(path, document, kept)


@mutation("skdpsynth.audit._bounds", "_rates")
def whole_alpha_for_each_rate(real, n_runs, alpha):
    """Give each of two error rates the probability that both have together."""
    return real(n_runs, min(2 * alpha, 1.0))


@mutation("skdpsynth.metrics._encode", "standardize")
def scaled_by_test_rows(real, train, other):
    """Standardise features by the rows that are tested on as well."""
    both, others = real(np.vstack([train, other]), other)
    return both[: len(train)], others


# --- Linked tables ------------------------------------------------------------------


@mutation("skdpsynth.linked._tree", "weights_of")
def child_weighs_as_its_parent(real, above, parent):
    """Give each child the weight of its parent: a unit weighs as many as it has."""
    _, steps = real(above, parent)
    return above[parent], steps


@mutation("skdpsynth.linked._tree", "row_hashes")
def ties_by_place_in_the_file(real, frame, *args):
    """Order rows that are equal in `order_by` as the file has them."""
    return np.arange(len(frame), dtype=np.uint64)


@mutation("skdpsynth.linked._tree", "_matched")
def orphans_of_the_first_parent(real, own, other, secret):
    """Let rows whose key names no parent hang on the first one."""
    ours, theirs = real(own, other, secret)
    return np.where(np.isin(ours, theirs), ours, theirs[0]), theirs


@mutation("skdpsynth.linked._root:Root", "_learn")
def contexts_of_private_parents(real, self, tree, drawn, *args):
    """Fit chains to real parents, and their numbers of children."""
    return real(self, tree, tree.frames[self.linked.root], *args)
