"""An attack on what is released of linked tables, by a canary: a unit of many rows."""

import math

import numpy as np
import pandas as pd
import pytest
from linked.test_tree import clinic, tables, tree_of
from mutations import planted

from skdpsynth.audit import mu_lower_bound
from skdpsynth.linked._columns import Column
from skdpsynth.linked._release import SHAPES_SHARE, measure_link
from skdpsynth.linked._root import new_model
from skdpsynth.linked._tree import pairs_of, values_of
from skdpsynth.privacy import GRID, PrivacyAccountant
from skdpsynth.table import NumericDomain

pytestmark = pytest.mark.statistical

N_RUNS, MU = 100, 3.0


def canary_bound() -> float:
    """Return a lower bound of the mu of the shapes of visits.

    The canary is a patient with 100 equal visits. The attack projects noisy counts on
    what these move without noise, and reports it beyond half of the way.
    """
    given, link = tables(), clinic(max_rows=100).links[0]
    visits = pd.DataFrame({"visit": "w", "patient": [5] * 100, "day": 999, "kind": "c"})
    patient = pd.DataFrame({"patient": [5], "age": [0]})
    more = {"patients": patient, "visits": visits, "drugs": given["drugs"][:0]}
    both = {name: pd.concat([own, more[name]]) for name, own in given.items()}

    def world(given):
        tree = tree_of(given, max_rows=100)
        count = Column(link._count, NumericDomain(0.0, 100.0, False, True, False))
        parents = np.array([tree.hidden["patients"][0].numbers]).T
        own = values_of(tree.frames["visits"], pairs_of(tree.metadata["visits"], "day"))
        own = np.column_stack((own, *[h.numbers for h in tree.hidden["visits"]]))
        private = own, tree.parents["visits"], parents, np.full(len(parents), GRID)
        known = parents, parents[:, 0].astype(int), np.ones(len(parents))

        def released(epsilon, mu) -> np.ndarray:
            accountant = PrivacyAccountant(epsilon, 1e-5)
            model = new_model(link, tree, [count])
            given = private, known, accountant, mu
            (shapes, _), _ = measure_link(model, "visits", *given)
            counts = shapes.query.tables(shapes).values()
            return np.concatenate([cells for cells, _ in counts])

        return released

    worlds = world(given), world(both)
    without, with_it = (released(math.inf, math.inf) for released in worlds)
    moved, middle = with_it - without, (with_it + without) / 2
    told = [
        sum(released(100.0, MU) @ moved > middle @ moved for _ in range(N_RUNS))
        for released in worlds
    ]
    return mu_lower_bound(told[0], N_RUNS - told[1], N_RUNS, alpha=1e-6)


def test_a_unit_of_many_rows_shows_no_more_than_is_charged():
    """100 runs of each world; the bound is above the true mu at a rate of 1e-6."""
    assert canary_bound() <= MU * math.sqrt(SHAPES_SHARE)


def test_the_attack_sees_weights_that_do_not_add_up():
    """100 rows of weight 1 move counts by 100 deviations: no error in 100 runs."""
    with planted("child_weighs_as_its_parent"):
        assert canary_bound() > MU * math.sqrt(SHAPES_SHARE)
