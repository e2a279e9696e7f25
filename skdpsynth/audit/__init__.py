"""Tests of the privacy claim that anybody can run, on any synthesizer.

- `audit_ledger` compares every release of a fit with its line of the ledger;
- `replay` compares fits of tables that differ in one row;
- `audit_mechanism` compares one mechanism with a reservation;
- `audit_generator` attacks what any object with `fit` and `sample` gives out;
- `epsilon_lower_bound`, `mu_lower_bound`, `guessing_lower_bound` and
  `one_run_lower_bound` turn the errors of an attack into a bound of the leak,
  `curve_lower_bound` its scores.

They find violations and prove nothing. The other names are of results.
"""

from skdpsynth.audit._bounds import (
    curve_lower_bound,
    epsilon_lower_bound,
    guessing_lower_bound,
    mu_lower_bound,
    one_run_lower_bound,
)
from skdpsynth.audit._generator import GeneratorAudit, audit_generator
from skdpsynth.audit._ledger import (
    LedgerAudit,
    ReleaseCheck,
    audit_ledger,
    audit_mechanism,
)
from skdpsynth.audit._replay import Replay, ReplayedPair, replay
from skdpsynth.utils import warn_deprecated

__all__ = [
    "GeneratorAudit",
    "LedgerAudit",
    "ReleaseCheck",
    "Replay",
    "ReplayedPair",
    "audit_generator",
    "audit_ledger",
    "audit_mechanism",
    "curve_lower_bound",
    "epsilon_lower_bound",
    "guessing_lower_bound",
    "mu_lower_bound",
    "one_run_lower_bound",
    "replay",
]


def __getattr__(name: str) -> object:
    if name != "MechanismAudit":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    remedy = "`audit_mechanism` returns a LedgerAudit."
    warn_deprecated(name, since="0.3", removed_in="0.5", remedy=remedy)
    return LedgerAudit
