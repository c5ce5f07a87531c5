"""What a store needs of a database: connections, transactions, a clock that never goes back, the learner's lock."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from treebandit.errors import ParameterError

Row = tuple[Any, ...]


class Connection(Protocol):
    """One session, used by one thread at a time. Statements have `?` for values."""

    def begin(self) -> None:
        """Start a transaction that may write."""

    def commit(self) -> None:
        """Make it durable."""

    def rollback(self) -> None:
        """Undo it; never fails."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement; its rows."""

    def many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Run an `INSERT ... VALUES (?, ...)` for each row of values."""

    def wait_for_others(self, seconds: float) -> None:
        """How long statements from now on wait for others who write, where the database is a local file."""

    def scrub(self) -> None:
        """Leave nothing of what was deleted in files beside a local database, if nobody reads or writes just now."""

    def wall(self) -> int:
        """Microseconds since 1970 by the database's own clock."""

    def close(self) -> None:
        """End the session."""


class Database(Protocol):
    """Opens sessions, and knows the dialect."""

    #: Whether it is a file of this machine, and no server.
    local: bool
    #: Words of the dialect that statements are formatted with.
    dialect: dict[str, str]
    #: Errors of the driver that mean: cannot be reached, or cannot be written now.
    unavailable: tuple[type[BaseException], ...]
    #: Errors that mean: another replica has stored the same thing a moment before.
    collision: tuple[type[BaseException], ...]

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error of `unavailable` would meet any statement now, and not only the one that it came from."""

    def connect(self) -> Connection:
        """A new session."""

    def learner_session(self) -> LearnerSession:
        """A session that may hold the right to learn for bandits."""


class LearnerSession(Protocol):
    """Holds bandits for one learner; they are free again when its process or its session ends, however it ends."""

    #: The session to write with: where it is lost, the bandits are lost with it.
    connection: Connection

    def hold(self, bandit: int) -> bool:
        """Whether this session has the right to learn for a bandit now."""

    def keep(self, bandits: Collection[int]) -> None:
        """Let all others go."""

    def close(self) -> None:
        """Let all go."""


class StoreClock:
    """Microseconds that only go forward: by the wall clock, and where that is set back, by the monotonic one."""

    def __init__(self) -> None:
        self._last = 0
        self._read = time.monotonic_ns()

    def now(self, wall: int, least: int = 0) -> int:
        """The time, at least `least`: what the store has seen last."""
        read = time.monotonic_ns()
        self._last = max(wall, self._last + (read - self._read) // 1000, least)
        self._read = read
        return self._last


@contextmanager
def transaction(connection: Connection) -> Iterator[Connection]:
    """Commit at the end, undo on any error."""
    connection.begin()
    try:
        yield connection
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def open_database(url: str) -> Database:
    """The database of a URL: `sqlite:///file.db` (relative), `sqlite:////absolute.db`, `postgresql://...`."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from treebandit.service.store_sqlite import SqliteDatabase

        return SqliteDatabase(url)
    if scheme in ("postgresql", "postgres"):
        from treebandit.service.store_postgres import PostgresDatabase

        return PostgresDatabase(url)
    raise ParameterError(f"store {shown_url(url)!r}; give sqlite:///file.db or postgresql://user@host/name")


def shown_url(url: str) -> str:
    """A URL for messages and logs: without password, be it before the host or among the options."""
    url, _, options = url.partition("?")
    head, at, tail = url.rpartition("@")
    scheme, slashes, user = head.partition("://")
    shown = f"{scheme}{slashes}{user.partition(':')[0]}{at}{tail}" if at else url
    kept = [each for each in options.split("&") if each and "password" not in each.partition("=")[0].lower()]
    return f"{shown}?{'&'.join(kept)}" if kept else shown
