"""The store in one file: SQLite in WAL mode, every commit on disk before it is acknowledged."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from treebandit.errors import ParameterError
from treebandit.service.database import Connection, LearnerSession, Row

_BUSY_SECONDS = 5.0
#: Others who write wait for so long at most until nobody reads what is being emptied.
_SCRUB_SECONDS = 0.5
#: FULL: the log is flushed at every commit. A page cache of 32 MB keeps the indexes near. secure_delete: what is
#: deleted is overwritten.
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "cache_size=-32768",
    "foreign_keys=ON",
    "secure_delete=ON",
)
#: In one statement; SQLite takes 32,766.
_MOST_VALUES = 4096


class SqliteDatabase:
    """A file; readers never wait for writers, and writers wait for each other."""

    local = True
    dialect: dict[str, str] = {  # noqa: RUF012
        "identity": "INTEGER PRIMARY KEY",
        "bytes": "BLOB",
        "for_update": "",
        "greatest": "max",
        "lock_tables": "SELECT 1",  # a transaction has the whole file
    }
    unavailable: tuple[type[BaseException], ...] = (sqlite3.OperationalError, sqlite3.DatabaseError, OSError)
    collision: tuple[type[BaseException], ...] = (sqlite3.IntegrityError,)

    def __init__(self, url: str) -> None:
        path = url.removeprefix("sqlite:///")
        if path == url or not path or path == ":memory:":
            raise ParameterError(f"store {url!r}; give a file, such as sqlite:///treebandit.db")
        self.path = Path(path)

    def is_lost(self, error: BaseException) -> bool:
        """The driver has classes of their own for what is wrong with a statement or its values."""
        return isinstance(error, sqlite3.OperationalError | OSError) or type(error) is sqlite3.DatabaseError

    def connect(self) -> Connection:
        """A session of its own; a new file is for its owner only, as are those that SQLite makes beside it."""
        with suppress(OSError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        return SqliteConnection(self.path)

    def learner_session(self) -> LearnerSession:
        """Locks on files beside the database: the system frees them when the process ends, however it ends."""
        return SqliteLearnerSession(self)


class SqliteLearnerSession:
    """One locked file per bandit."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._files: dict[int, int] = {}
        self.connection: Connection = database.connect()

    def hold(self, bandit: int) -> bool:
        """Lock the bandit's file, if nobody else has."""
        if bandit in self._files:
            return True
        path = self._path(bandit)
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.fstat(file), path.stat())  # else it was removed in the meantime
        except (BlockingIOError, FileNotFoundError):
            held = False
        if held:
            self._files[bandit] = file
        else:
            os.close(file)
        return held

    def keep(self, bandits: Collection[int]) -> None:
        """Remove and unlock the files of others."""
        for bandit in self._files.keys() - bandits:
            with suppress(OSError):
                self._path(bandit).unlink(missing_ok=True)
            os.close(self._files.pop(bandit))

    def _path(self, bandit: int) -> Path:
        path = self._database.path
        return path.with_name(f"{path.name}-learner-{bandit}")

    def close(self) -> None:
        """Unlock all."""
        self.connection.close()
        for file in self._files.values():
            os.close(file)
        self._files.clear()


class SqliteConnection:
    """A session; transactions take the write lock at once, so that they cannot fail half way for another's sake."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._patience = _BUSY_SECONDS
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def begin(self) -> None:
        """Take the write lock."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Write and flush."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo what was begun, if anything was."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement."""
        return self._connection.execute(sql, values).fetchall()

    def many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Insert rows by a statement that ends in the marks of one.

        A few statements for 1, 2, 4, ... rows each: the driver gives other threads their turn at every statement, and
        waits for its own turn afterwards; and what it has prepared before it need not read again.
        """
        head, _, marks = sql.rpartition(" VALUES ")
        start = 0
        while start < len(values):
            size = min(1 << (len(values) - start).bit_length() - 1, _MOST_VALUES // len(values[0]))
            part = values[start : start + size]
            self._connection.execute(
                f"{head} VALUES {', '.join([marks] * size)}", [value for row in part for value in row]
            )
            start += size

    def wait_for_others(self, seconds: float) -> None:
        """How long a transaction waits for the write lock."""
        if seconds != self._patience:
            self._connection.execute(f"PRAGMA busy_timeout={1000 * seconds:.0f}").fetchall()
            self._patience = seconds

    def scrub(self) -> None:
        """Write the WAL into the database, and empty it. Where others hold it for too long, a later one does."""
        patience = self._patience
        self.wait_for_others(_SCRUB_SECONDS)
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.wait_for_others(patience)

    def wall(self) -> int:
        """The machine's clock."""
        return time.time_ns() // 1000

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
