"""Privacy: budgets, ledgers, mechanisms. No torch and no pandas here.

Importing this package loads neither dp-accounting nor OpenDP; the first release and
the first certificate do.
"""

from skdpsynth.privacy._accountant import PrivacyAccountant
from skdpsynth.privacy._budget import PrivacyBudget
from skdpsynth.privacy._report import PrivacyReport
from skdpsynth.privacy._reservation import Reservation

__all__ = ["PrivacyAccountant", "PrivacyBudget", "PrivacyReport", "Reservation"]
