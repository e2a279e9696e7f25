"""The white-box audit of classes that are not the package's own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from skdpsynth import IndependentSynthesizer
from skdpsynth.audit import audit_ledger
from skdpsynth.privacy._mechanisms import release_gaussian


class OfSomebodyElse(IndependentSynthesizer):
    """Buys one number by a mechanism that this module has imported."""

    def _fit(self, rows, facts, plans, accountant, seed):
        line = accountant.reserve_gaussian("own", mu=0.02, sensitivity=1.0)
        release_gaussian(np.array([len(rows.units)]), line)
        return super()._fit(rows, facts, plans, accountant, seed)

    def _plan_classes(self, labels, counts, n_continuous, n_discrete, mu):
        return super()._plan_classes(labels, counts, n_continuous, n_discrete, 0.9 * mu)


def test_a_synthesizer_of_somebody_else_agrees_with_its_ledger(
    small_table, canary, public_schema
):
    found = audit_ledger(OfSomebodyElse(schema=public_schema), small_table, canary)
    assert found.findings == ()
    (own,) = (line for line in found.lines if line.name == "own")
    assert own.drawn == own.reserved == 1
    assert own.shift == 1


class ReleasesUnseen(OfSomebodyElse):
    """Charges its release, but draws it in a thread of its own."""

    def _fit(self, rows, facts, plans, accountant, seed):
        line = accountant.reserve_gaussian("own", mu=0.02, sensitivity=1.0)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(release_gaussian, np.array([len(rows.units)]), line).result()
        return IndependentSynthesizer._fit(self, rows, facts, plans, accountant, seed)


def test_charges_for_releases_that_are_not_seen_are_found(
    small_table, canary, public_schema
):
    found = audit_ledger(ReleasesUnseen(schema=public_schema), small_table, canary)
    (finding,) = found.findings
    assert "'own' (all rows): 1 releases were charged, but 0 were seen" in finding


class HidesRows(IndependentSynthesizer):
    """Keeps rows where neither a pickle nor a file shows them."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self._rows = X
        return self

    def __getstate__(self):  # not that of scikit-learn: it is the object's own dict
        return {name: value for name, value in vars(self).items() if name != "_rows"}


def test_rows_that_no_pickle_shows_are_found(small_table, canary, public_schema):
    found = audit_ledger(HidesRows(schema=public_schema), small_table, canary)
    assert "the fitted object depends on the canary" in " ".join(found.findings)
