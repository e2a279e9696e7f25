"""Tests of the privacy claim that anybody can run, on any synthesizer."""

from skdpsynth.audit._bounds import (
    epsilon_lower_bound,
    guessing_lower_bound,
    mu_lower_bound,
    one_run_lower_bound,
)
from skdpsynth.audit._generator import audit_generator
from skdpsynth.audit._ledger import LedgerAudit, ReleaseCheck, audit_ledger
from skdpsynth.audit._mechanism import MechanismAudit, audit_mechanism
from skdpsynth.audit._replay import Replay, ReplayedPair, ReplayedTwin, replay
from skdpsynth.audit._results import GeneratorAudit

__all__ = [
    "GeneratorAudit",
    "LedgerAudit",
    "MechanismAudit",
    "ReleaseCheck",
    "Replay",
    "ReplayedPair",
    "ReplayedTwin",
    "audit_generator",
    "audit_ledger",
    "audit_mechanism",
    "epsilon_lower_bound",
    "guessing_lower_bound",
    "mu_lower_bound",
    "one_run_lower_bound",
    "replay",
]
