"""Errors and warnings of the package.

Every error inherits from `SkdpsynthError` and from the builtin exception that a
caller would expect, so that both ``except SkdpsynthError`` and ``except ValueError``
work. No message holds a data value: a message may reach people who may see the
synthetic table but not the private one.
"""


class SkdpsynthError(Exception):
    """Root of all errors that the package raises on purpose."""


class InvalidTableError(SkdpsynthError, ValueError, TypeError):
    """The structure of a table is refused before any budget is spent.

    Examples are infinities, an absent target, fewer than two rows or a column of mixed
    types, which scikit-learn's estimators refuse by a TypeError.
    """


class InvalidSchemaError(SkdpsynthError, ValueError):
    """A schema contradicts itself or the dtypes of the table it is used with."""


class BudgetExceededError(SkdpsynthError, ValueError):
    """A request would spend more privacy budget than is left.

    Nothing is spent and no noise is drawn when a request raises this error. A finished
    fit that exceeds what ``PrivacyReport.assert_within`` allows raises it too; what
    that fit spent stays spent.
    """


class ReservationError(SkdpsynthError, RuntimeError):
    """A release was asked for without a valid reservation.

    The reservation is forged, copied, exhausted, too small for the release, or
    belongs to a fit that has ended.
    """


class PersistenceError(SkdpsynthError, ValueError):
    """A saved synthesizer cannot be written, or a file cannot be read as one."""


class FolderNotFoundError(PersistenceError, FileNotFoundError):
    """The folder that something is to be written to does not exist."""


class DatasetUnavailableError(SkdpsynthError, OSError):
    """A dataset is neither on disk nor reachable, or is not what it should be."""


class MissingDependencyError(SkdpsynthError, ImportError):
    """A library that the requested feature needs is not installed."""


class DegradedResultWarning(UserWarning):
    """The call succeeded, but with a result that says less than usual."""


class TiedScoresWarning(UserWarning):
    """Tied scores make a ranking, and hence its agreement, ambiguous."""
