"""What several fits on the same private table share."""

from __future__ import annotations

import math
import os
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skdpsynth.exceptions import BudgetExceededError, PersistenceError
from skdpsynth.privacy._report import claim, read_only
from skdpsynth.utils import EXCESS, check_range

if TYPE_CHECKING:
    import pandas as pd

# Long enough for many processes that charge at once; a charge takes milliseconds.
_LOCK_TIMEOUT_S = 60.0

# As SQLite keeps them. A file with anything else is none of ours: reading a view or
# writing beside a trigger would run what a stranger wrote there.
_TABLES = {
    "skdpsynth_budget": (
        "CREATE TABLE skdpsynth_budget "
        "(id INTEGER PRIMARY KEY CHECK (id = 1), epsilon REAL NOT NULL, "
        "delta REAL NOT NULL)"
    ),
    "skdpsynth_charges": (
        "CREATE TABLE skdpsynth_charges "
        "(id INTEGER PRIMARY KEY, charged_at TEXT NOT NULL, label TEXT NOT NULL, "
        "epsilon REAL NOT NULL, delta REAL NOT NULL)"
    ),
}
# Beside them, in a budget of units: the column that identifies them.
_UNIT = {
    "skdpsynth_unit": (
        "CREATE TABLE skdpsynth_unit "
        "(id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL)"
    )
}


class PrivacyBudget:
    """A total (epsilon, delta) that several fits draw from.

    The file is the only state, so copies, scikit-learn clones and pickles of this
    object all charge the same budget. A process that cannot open the file gets an
    error, never a fresh budget. Fits compose by the plain sum of epsilon and of
    delta, valid also when later fits are chosen from what earlier ones gave.
    A fit that fails stays charged. All of them protect the same unit, a row or, say, a
    patient: a sum of both would be no claim about patients.

    Parameters
    ----------
    epsilon : float
        Total epsilon, positive and finite.
    delta : float
        Total delta, in (0, 1).
    path : str or path-like, optional
        The SQLite file that holds the budget. It is created when absent; when present
        it must be a budget of the same `epsilon` and `delta`, whose charges count.
        None: a private temporary file that lives as long as this object.

    Raises
    ------
    PersistenceError
        When the file cannot be opened or is another budget.

    See Also
    --------
    skdpsynth.privacy.PrivacyAccountant : The ledger of one fit, which charges it.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyBudget
    >>> budget = PrivacyBudget(epsilon=2.0, delta=1e-4)
    >>> budget.charge(0.5, 1e-5, label="first fit")
    >>> budget.remaining[0]
    1.5
    """

    def __init__(
        self, epsilon: float, delta: float, path: str | os.PathLike[str] | None = None
    ) -> None:
        check_range("epsilon", epsilon, 0 < epsilon < math.inf, "positive and finite")
        check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
        self._epsilon, self._delta = float(epsilon), float(delta)
        if path is None:
            handle, name = tempfile.mkstemp(prefix="skdpsynth-budget-", suffix=".db")
            os.close(handle)
            self._path = Path(name)
            weakref.finalize(self, _remove, self._path, os.getpid())
        else:
            self._path = Path(path).absolute()
            try:
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL, 0o666))
            except FileExistsError:
                self._refuse_short()
            except OSError:
                pass  # what is wrong is said where it is opened
        with self._connection() as connection, _locked(connection):
            if not _tables(connection):
                for create in _TABLES.values():
                    connection.execute(create)
                insert = "INSERT INTO skdpsynth_budget VALUES (1, ?, ?)"
                connection.execute(insert, (self.epsilon, self.delta))
            totals = _read(connection).totals
        if totals != (self.epsilon, self.delta):
            raise PersistenceError(
                f"The file {str(self.path)!r} holds a budget of epsilon = "
                f"{totals[0]!r} and delta = {totals[1]!r}, not {self.epsilon!r} and "
                f"{self.delta!r}. "
                "Use the totals that were agreed on, or another path."
            )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PrivacyBudget:
        """Open a budget that exists, whatever its totals; a file is never created.

        Parameters
        ----------
        path : path-like
            The SQLite file.

        Returns
        -------
        PrivacyBudget
            With the totals and charges that the file holds.

        Raises
        ------
        PersistenceError
            When the file cannot be opened or is no budget.
        """
        budget = object.__new__(cls)
        budget._path = Path(path).absolute()
        budget._epsilon, budget._delta = budget._contents().totals
        return budget

    epsilon: float = read_only("_epsilon", "Total epsilon.")
    delta: float = read_only("_delta", "Total delta.")
    path: Path = read_only("_path", "The file, absolute, that holds the budget.")

    @property
    def spent(self) -> tuple[float, float]:
        """Sums of epsilon and delta charged by anybody who shares the file."""
        return self._contents().spent

    @property
    def remaining(self) -> tuple[float, float]:
        """What is left of epsilon and delta."""
        epsilon, delta = self.spent
        return max(self.epsilon - epsilon, 0.0), max(self.delta - delta, 0.0)

    @property
    def charges(self) -> pd.DataFrame:
        """All, by age: ``charged_at`` (UTC), ``label``, ``epsilon``, ``delta``."""
        import pandas as pd

        columns = ["charged_at", "label", "epsilon", "delta"]
        table = pd.DataFrame(self._contents().charges, columns=columns)
        return table.astype({"epsilon": "float64", "delta": "float64"})

    @property
    def unit(self) -> str | None:
        """Whom it protects: `privacy_unit` of the first fit, or None, which is one row.

        Fits that protect another unit are refused.
        """
        return self._contents().unit

    def charge(
        self,
        epsilon: float,
        delta: float,
        *,
        label: str = "fit",
        unit: str | None = None,
    ) -> None:
        """Charge a part of the budget, or refuse and charge nothing.

        Parameters
        ----------
        epsilon : float
            Epsilon of one fit, positive.
        delta : float
            Delta of one fit, in (0, 1).
        label : str, default="fit"
            What it is charged for; kept in the file.
        unit : str, optional
            Whom it protects: the column that identifies units. None: one row.

        Raises
        ------
        BudgetExceededError
            When less than that is left, or earlier charges protect another unit.
        PersistenceError
            When the file cannot be opened.
        """
        check_range("epsilon", epsilon, epsilon > 0, "a number > 0")
        check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
        with self._connection() as connection, _locked(connection):
            _, known, _, (spent_epsilon, spent_delta) = _read(connection)
            if spent_epsilon and known != unit:
                ours, theirs = (
                    "one row" if name is None else f"all rows of one {name}"
                    for name in (known, unit)
                )
                raise BudgetExceededError(
                    f"The charges of this budget protect {ours}, but this fit protects "
                    f"{theirs}. Expected the same; use another budget for it."
                )
            for name, asked, spent, total in (
                ("epsilon", epsilon, spent_epsilon, self.epsilon),
                ("delta", delta, spent_delta, self.delta),
            ):
                if not spent + asked <= total * (1 + EXCESS):
                    raise BudgetExceededError(
                        f"The budget has {name} = {max(total - spent, 0.0):.6g} left "
                        f"of {total:.6g}, but this fit asks for {asked:.6g}. "
                        f"Fit with a smaller {name}, or agree on a larger budget."
                    )
            if unit is not None and known is None:
                connection.execute(*_UNIT.values())
                connection.execute("INSERT INTO skdpsynth_unit VALUES (1, ?)", (unit,))
            now = datetime.now(UTC).isoformat(timespec="seconds")
            insert = "INSERT INTO skdpsynth_charges VALUES (NULL, ?, ?, ?, ?)"
            connection.execute(insert, (now, label, float(epsilon), float(delta)))

    def __repr__(self) -> str:
        return (
            f"PrivacyBudget(epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"path={str(self.path)!r})"
        )

    def __sklearn_clone__(self) -> PrivacyBudget:
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict[int, object]) -> PrivacyBudget:
        return self

    def __reduce__(self) -> tuple[Callable[[str], PrivacyBudget], tuple[str]]:
        return PrivacyBudget.open, (str(self.path),)

    def _refuse_short(self) -> None:
        """Refuse a file that stays too short, which may have lost what was spent."""
        for seconds in 0, 1:  # one that is being created is short for milliseconds
            time.sleep(seconds)
            # SQLite takes a single byte for nothing too; others for no file of its own.
            if not self._path.is_file() or self._path.stat().st_size > 1:
                return
        raise PersistenceError(
            f"Expected a privacy budget in {str(self._path)!r}. Got an empty file, of"
            " which nobody knows whether something was spent. Restore it from a copy,"
            " or delete it if it never was a budget."
        )

    def _contents(self) -> _Contents:
        with self._connection() as connection:
            return _read(connection)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one operation; it is never created."""
        try:
            uri = f"{self.path.as_uri()}?mode=rw"
            connection = sqlite3.connect(
                uri, uri=True, timeout=_LOCK_TIMEOUT_S, isolation_level=None
            )
            with closing(connection):
                yield connection
        # SQLite quotes the file in some of its own errors, which is no text then.
        # And charges that have no sum overflow.
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            words = str(error) if self.path.exists() else "there is no such file"
            raise PersistenceError(
                f"The privacy budget in {str(self.path)!r} cannot be used ({words!r}). "
                "It must be a budget file that this process can read and write."
            ) from error


def cost_of_failure(epsilon: float, delta: float, budget: PrivacyBudget | None) -> str:
    """Return a paragraph, without a data value, what a fit that did not end cost."""
    if epsilon == math.inf:
        return "The fit did not end and left nothing behind. It was not private."
    cost = f"epsilon = {claim(epsilon)} and delta = {claim(delta)}"
    if budget is None:
        cost = f"No budget was given; where a sum is kept, add {cost}"
    else:
        cost = f"The budget in {str(budget.path)!r} stays charged with {cost}"
    return (
        f"The fit did not end and left nothing behind. {cost}: noise may have been "
        "drawn, and this exception may depend on the table."
    )


def _locked(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Take the write lock before reading; as a context it commits or rolls back."""
    connection.execute("BEGIN IMMEDIATE")
    return connection


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the tables of a whole and clean file: those of a budget, or none."""
    query = "SELECT name, sql FROM sqlite_master LIMIT 4"
    tables = dict(connection.execute(query).fetchall())
    if tables not in ({}, _TABLES, _TABLES | _UNIT):
        raise sqlite3.DatabaseError("it holds something else")
    # A page that several others name would be read as often as there are ways to it.
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError("it is damaged")
    return tables


class _Contents(NamedTuple):
    """What a file holds, and the sums of the charges."""

    totals: tuple[float, float]
    unit: str | None  # whom they protect; None: one row
    charges: list[list[Any]]  # oldest first
    spent: tuple[float, float]


def _read(connection: sqlite3.Connection) -> _Contents:
    """Return what a file holds, checked."""
    rows = {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
        for table in _tables(connection)
    }
    totals = rows.get("skdpsynth_budget", [])
    if len(totals) != 1 or not all(type(value) is float for value in totals[0][1:]):
        raise sqlite3.DatabaseError("it has no totals")
    _, total_epsilon, total_delta = totals[0]
    if not 0 < total_epsilon < math.inf or not 0 < total_delta < 1:
        raise sqlite3.DatabaseError("its totals are out of range")
    unit = None  # one row
    if "skdpsynth_unit" in rows:
        names = [name for _, name in rows["skdpsynth_unit"]]
        if len(names) != 1 or not isinstance(unit := names[0], str):
            raise sqlite3.DatabaseError("it does not say whom it protects")
    charges = [charge for _, *charge in rows["skdpsynth_charges"]]
    most = [total * (1 + EXCESS) for total in (total_epsilon, total_delta)]
    for *words, epsilon, delta in charges:
        numbers = type(epsilon) is type(delta) is float
        if not numbers or not 0 < epsilon <= most[0] or not 0 < delta <= most[1]:
            raise sqlite3.DatabaseError("a charge in it is out of range")
        if not all(isinstance(word, str) for word in words):
            raise sqlite3.DatabaseError("a charge in it has no time or no label")
    spent = math.fsum(c[-2] for c in charges), math.fsum(c[-1] for c in charges)
    return _Contents((total_epsilon, total_delta), unit, charges, spent)


def _remove(path: Path, owner: int) -> None:
    """Delete a temporary budget, unless in a forked child of its owner."""
    if os.getpid() == owner:
        path.unlink(missing_ok=True)
