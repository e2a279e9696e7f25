"""All that a fit measures of the rows once the metadata is known, in one place.

Tables of one, two and three columns per class, and second moments of scores where the
columns are too many for tables. Everything else follows from these: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skdpsynth.measure._allocation import (
    Allocation,
    Outline,
    table_bins,
    with_unlabelled,
)
from skdpsynth.measure._bins import TableBins, choose_bins, finer_bins
from skdpsynth.measure._marginals import measure_marginals
from skdpsynth.measure._measurements import Measurements
from skdpsynth.measure._query import (
    QUERIES,
    Ask,
    Cells,
    Marginals,
    Moments,
    Pairs,
    Ranks,
    Triples,
)
from skdpsynth.measure._shares import (
    BESIDE_SHARE,
    LEAST_NOISE,
    MOST_TABLES,
    N_CELLS,
    ROWS_FROM,
    SMALL_SHARE,
)
from skdpsynth.privacy import UNLABELLED, PrivacyAccountant
from skdpsynth.privacy.statistics import noisy_counts, noisy_pair_distances
from skdpsynth.table import Metadata, TableRows, place_labels
from skdpsynth.utils.arrays import Floats, Ints


def measure(
    rows: TableRows,
    metadata: Metadata,
    plans: Sequence[Allocation],
    accountant: PrivacyAccountant,
    design: Measurements | None = None,
    *,
    pairs: bool = True,
) -> Measurements:
    """Measure every class as planned; classes compose in parallel.

    `rows` are encoded and private, `metadata` says what is public of the table, `plans`
    how much of the budget of each class each release has, and the ledger is charged for
    it. With a `design`, the measurements of another table, the same queries are asked.
    Without `pairs` only single columns are measured.
    """
    mus = np.array([plan.marginals.mu for plan in plans])
    ask, again = Ask(rows, metadata.classes, accountant), None
    if design is not None:
        again = [answers[-1].query for answers in design.rounds_by_class]
    released, edges = measure_marginals(ask, metadata.domains, mus, again)
    edges = edges if design is None else design.opened_edges
    stds = [plan.marginals.noise_std for plan in plans]
    measured = Measurements(metadata, released, stds, edges)
    if design is not None:
        return _ask_design(measured, design, plans, ask)
    if not pairs:
        return measured
    if any(plan.pairs.mu for plan in plans):
        measured = _two_columns(_with_bins(measured, plans), plans, ask)
        measured = _related_columns(measured, plans, ask)
    more, related = [], any(isinstance(answer.query, Cells) for answer in measured)
    for c, plan in enumerate(plans):
        if plan.triples.mu:
            groups = measured.bins.groups(measured.bin_shares[c], plan.n_groups)
            triples = Triples(measured.bins, groups, plan.n_groups)
            unspent = 0.0 if related else plan.relations.mu
            mu = math.hypot(plan.triples.mu, unspent)
            more.append(ask.of_each(triples, [mu], [c]))
        if plan.moments.mu:
            moments = Moments.of(measured.model, c, float(measured.sizes[c]))
            more.append(ask.of_each(moments, [plan.moments.mu], [c]))
    return measured.and_more(*more)


def add_unlabelled(
    rows: TableRows,
    metadata: Metadata,
    plans: list[Allocation],
    accountant: PrivacyAccountant,
    share: float = 1.0,
    order: int = 3,
) -> tuple[Metadata, list[Allocation]]:
    """Add rows without a label as one more class to what is measured.

    With a share of the squared mu of their budget, in tables of at most `order`, if
    labels may be missing, some class has tables of two columns and these rows can
    afford them too. They are counted and charged whether or not there are any, as the
    dtype, which is public, says whether labels may be missing.
    """
    target, of_pairs = metadata.layout.label_column, [plan.pairs.mu for plan in plans]
    may_lack = target is not None and target.can_be_missing
    # Without a class every row is charged for the plans, which leave nothing.
    if not (may_lack and metadata.classes.labels and any(of_pairs)):
        return metadata, plans
    mu = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9) * math.sqrt(share)
    of_size = accountant.reserve_gaussian(
        "rows without a label",
        mu=mu * math.sqrt(SMALL_SHARE),
        sensitivity=1.0,
        scope=UNLABELLED,
        answer=False,
    )
    # They are in one place, in which they are counted.
    places = rows.parts_of_class(-1).map(place_labels, None, ())
    (n_rows,) = noisy_counts(places, 1, of_size).tolist()
    classes = metadata.classes.and_unlabelled(max(n_rows, 1.0), of_size.noise_std)
    counted = replace(metadata, classes=classes)
    table = Outline([UNLABELLED], [float(classes.planned[-1])], metadata.domains)
    more = with_unlabelled(plans, table, mu, order)
    return (metadata if more is plans else counted), more


def _with_bins(measured: Measurements, plans: Sequence[Allocation]) -> Measurements:
    """Choose the bins of all columns in tables of two, from tables of one.

    The `plans` of the classes say how many are above the noise.
    """
    metadata, prior = measured.metadata, measured.metadata.classes.prior
    n_bins = table_bins(plans, Outline.of(metadata))
    # Rare codes of one value of a column that they decide are in one bin.
    rules, columns = metadata.rules, enumerate(metadata.columns)
    alike = {j: rules.alike(column.name) for j, column in columns}
    bins, _ = choose_bins(metadata.domains, measured.estimates, prior, n_bins, alike)
    chosen = measured.and_more()
    chosen.bins = bins
    return chosen


def _two_columns(
    measured: Measurements, plans: Sequence[Allocation], ask: Ask
) -> Measurements:
    """Measure tables of two columns: of several classes together, then of each."""
    mus = np.array([plan.pairs.mu for plan in plans])
    joined = ask.classes.joined(mus > 0)
    positions = np.flatnonzero(joined).tolist()
    query = _choose_pairs(measured, plans, ask, positions)
    together = plans[positions[0]].together.mu
    answers = [ask.of_all(query, together, positions)] if together else []
    answers.append(ask.of_each(query, mus[joined].tolist(), positions))
    for c in np.flatnonzero(~joined & (mus > 0)).tolist():  # rows without a label
        query = _choose_pairs(measured, plans, ask, [c])
        answers.append(ask.of_each(query, [plans[c].pairs.mu], [c]))
    return measured.and_more(*answers)


def _choose_pairs(
    measured: Measurements,
    plans: Sequence[Allocation],
    ask: Ask,
    positions: Sequence[int],
) -> Pairs:
    """Choose the pairs of columns to measure; all, if the plan has no `choice`.

    Of a wide table, or of few rows, those of a target that is a number, and those that
    differ most from what independent columns would have, beyond the noise that their
    tables would get. Bins, and their shares in each class, were released before.
    """
    plan, target = plans[positions[0]], measured.metadata.measured
    bins, shares = measured.bins, measured.bin_shares
    pairs = _all_pairs(bins)
    if not (mu := plan.choice.mu):
        return Pairs(bins, pairs)
    counts = ask.classes.counts
    expected = sum(counts[c] * np.outer(shares[c], shares[c]) for c in positions)
    distances = _distances(ask, bins, expected, mu, positions)
    # Of a count, in the L1 distance of a table that has the rest of the budget.
    rest = mu * math.sqrt(1.0 / BESIDE_SHARE - 1.0)
    noise_std = math.sqrt(2.0 / math.pi) / rest
    if plan.few_rows:
        noise_std /= 2
        # The mean distance of independent columns is no dependence.
        mean = np.sqrt(2.0 / math.pi * np.maximum(np.rint(expected), 0))
        starts = bins.starts[:-1]
        by_chance = np.add.reduceat(np.add.reduceat(mean, starts, 0), starts, 1)
        distances -= by_chance[tuple(pairs.T)]
    first = np.any(pairs == (-1 if target is None else target), axis=1)
    # Of a table that is measured alone. It grows with the root of their number, so the
    # gain of the best ones together has a maximum.
    noise = noise_std * np.array(bins.sizes)[pairs].prod(axis=1)
    chosen, best = np.empty(0, dtype=np.int64), -math.inf
    least = max(first.sum(), 1)
    most = max(min(len(pairs), MOST_TABLES), least)
    for n_tables in np.unique(np.geomspace(least, most, 60).astype(np.int64)):
        gains = distances - noise * math.sqrt(n_tables)
        some = np.lexsort((-gains, ~first))[:n_tables]
        if (total := float(gains[some].sum())) > best:
            chosen, best = some, total
    return Pairs(bins, pairs[np.sort(chosen)])


def _all_pairs(bins: TableBins) -> Ints:
    return np.stack(np.triu_indices(len(bins.sizes), 1), axis=1)


def _distances(
    ask: Ask, bins: TableBins, expected: Floats, mu: float, positions: Sequence[int]
) -> Floats:
    """Release the L1 distance of each pair's table to whole numbers near `expected`."""
    rows, scope = ask.of(*positions)
    sensitivity = math.sqrt(math.comb(len(bins.sizes), 2))
    line = ask.accountant.reserve_gaussian(
        "choice of pairs", mu=mu, sensitivity=sensitivity, scope=scope, answer=False
    )
    whole, codes = np.rint(expected).astype(np.int64), rows.map(bins.encode)
    return noisy_pair_distances(codes, bins.sizes, whole, line).astype(float)


def choose_worst(
    measured: Measurements,
    plans: Sequence[Allocation],
    place: int,
    ask: Ask,
    expected: Floats | None = None,
) -> Pairs:
    """Choose the pair of columns whose table in a class a model explains worst.

    Of the pairs that were not measured, by the noisy distance of the table to what is
    expected, less that of the noise that it would get. `expected`, of shape (n_bins,
    n_bins), are shares of the rows in pairs of bins, by default of independent columns.
    Each of the `n_tables` choices of a class, which is at `place` among the `plans`,
    has an equal part of the mu of its `choice`.

    Sensitivity: the distances of all P pairs are released. A row changes one cell of
    each table by 1, and so its distance to whole numbers by at most 1: ``sqrt(P)``, if
    these follow from releases alone.
    """
    plan = plans[place]
    measured = measured if measured.has_pairs.any() else _with_bins(measured, plans)
    bins, shares = measured.bins, measured.bin_shares[place]
    expected = np.outer(shares, shares) if expected is None else expected
    mu = plan.mu_of("choice", plan.n_tables)
    distances = _distances(ask, bins, measured.sizes[place] * expected, mu, [place])
    pairs, of_noise = _all_pairs(bins), math.sqrt(2.0 / math.pi) * plan.pairs.noise_std
    gains = distances - of_noise * np.array(bins.sizes)[pairs].prod(axis=1)
    if measured.has_pairs[place]:
        gains[measured.pairs.asked[place][tuple(pairs.T)]] = -math.inf
    return Pairs(bins, pairs[[gains.argmax()]])


def _related_columns(
    measured: Measurements, plans: Sequence[Allocation], ask: Ask
) -> Measurements:
    """Measure finer cells of columns that nearly determine each other, by pairs."""
    joined, relations = np.flatnonzero(measured.joined).tolist(), measured.relations
    mu = plans[joined[0]].relations.mu
    if not mu:
        return measured
    domains, bins = measured.metadata.domains, measured.bins
    n_strong = sum(one.strong for one in relations.each)
    n_bins, noise_std = max(bins.sizes), max(math.sqrt(n_strong) / mu, LEAST_NOISE)
    # Seven deviations in each of about three cells of a bin that have rows.
    clear = sum(plans[c].n_rows for c in joined) / (ROWS_FROM / 2 * noise_std * n_bins)
    n_parts = int(np.clip(clear, 1, N_CELLS // n_bins))  # marginals know no more
    prior, marginals = measured.metadata.classes.prior, measured.model.marginals
    finer = finer_bins(domains, marginals, prior, bins, n_parts)
    # Of some column, whose bins have several cells.
    cut = np.not_equal(finer.bins.sizes, bins.sizes)
    strong = [o for o in relations.each if o.strong and cut[[o.parent, o.child]].any()]
    if not strong:
        return measured
    pairs = np.array([(one.parent, one.child) for one in strong], dtype=np.int64)
    plan = plans[joined[0]]
    cells = Cells(finer, pairs, [one.shares > 0 for one in strong])
    measured = measured.and_more(ask.of_all(cells, plan.mu_of("cells"), joined))
    if len(domains) == 2:  # there is no third column
        return measured
    # In a wide table only third columns that share most information with the child.
    most = max(MOST_TABLES // len(strong), 1)
    sets, groups = [], []
    for one in measured.relations.measured:
        order = np.argsort(-relations.information[one.child], kind="stable")
        third = [j for j in order.tolist() if j not in (one.parent, one.child)][:most]
        sets += [(one.parent, one.child, j) for j in sorted(third)]
        groups += [one.groups.astype(np.uint8)] * len(third)
    ranks = Ranks(bins, finer, np.array(sets, dtype=np.int64), groups)
    return measured.and_more(ask.of_all(ranks, plan.mu_of("ranks"), joined))


def _ask_design(
    measured: Measurements, design: Measurements, plans: Sequence[Allocation], ask: Ask
) -> Measurements:
    """Ask the queries of a design again, but for its marginals, which were asked."""
    kinds = [*QUERIES]
    joined, answers = np.flatnonzero(design.joined).tolist(), []
    for answer in sorted(design, key=lambda answer: kinds.index(answer.query.kind)):
        query, places = answer.query, design._places(answer)
        if isinstance(query, Marginals):
            continue
        if isinstance(query, Moments):
            (c,) = places
            query = Moments.of(measured.model, c, float(measured.sizes[c]))
        alike = [o.scopes for o in design if o.query.kind == query.kind]
        mus = []
        for c, scope in zip(places or joined[:1], answer.scopes, strict=True):
            kind = query.kind if places or query.kind != "pairs" else "together"
            n_answers = sum(scope in scopes for scopes in alike)
            mus.append(plans[c].mu_of(kind, n_answers))
        if places:
            answers.append(ask.of_each(query, mus, places))
        else:
            answers.append(ask.of_all(query, mus[0], joined))
    return measured.and_more(*answers)
