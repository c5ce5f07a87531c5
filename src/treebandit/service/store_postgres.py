"""The store in PostgreSQL, by psycopg 3: any number of replicas, one learner per bandit."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from treebandit.errors import MissingExtraError, ParameterError
from treebandit.service.database import Connection, LearnerSession, Row

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as error:
    raise MissingExtraError("psycopg", "service") from error

#: Distinguishes our advisory locks from those of others in the same database.
_LOCKS = 0x7EEB
#: Where the URL says nothing else. A connection that hears nothing for so long is given up, so that a replica which is
#: cut off says so.
_SETTINGS: dict[str, Any] = {
    "connect_timeout": 3,
    "tcp_user_timeout": 4000,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "fallback_application_name": "treebandit",
}
#: Of the session; the server takes the last of two that are the same.
_OPTIONS = "-c lock_timeout=4000 -c statement_timeout=30000 -c synchronous_commit=on -c timezone=UTC"


#: How states begin that would meet any statement: the connection, read-only servers, who may enter, conflicts with
#: others (40, 55P03), no room, statements cut off and servers that stop (57), the system.
_LOST = ("08", "25", "28", "40", "53", "55P03", "57", "58")


class PostgresDatabase:
    """A database on a server."""

    local = False
    dialect: dict[str, str] = {  # noqa: RUF012
        "identity": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "for_update": "FOR UPDATE",
        "greatest": "greatest",
        # Until the transaction ends: two processes that create one table at once would collide. No bandit has -1.
        "lock_tables": f"SELECT pg_advisory_xact_lock({_LOCKS}, -1)",
    }
    unavailable: tuple[type[BaseException], ...] = (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        psycopg.InternalError,
        OSError,
    )
    collision: tuple[type[BaseException], ...] = (psycopg.errors.UniqueViolation,)

    def __init__(self, url: str) -> None:
        given: dict[str, Any] = {}
        try:
            given = conninfo_to_dict(url)
            ports = str(given.get("port") or "")
        except psycopg.Error:
            ports = "none"
        if ports.strip("0123456789,"):
            # What the driver would say may quote a part of the password.
            raise ParameterError(
                "the store's URL cannot be read; write postgresql://user:password@host:port/name, and special "
                "characters of the password as %XX"
            )
        self._given = given

    def is_lost(self, error: BaseException) -> bool:
        """By the server's state; errors without one are of the connection."""
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        return state is None or state.startswith(_LOST)

    def connect(self) -> Connection:
        """A session of its own."""
        return PostgresConnection(
            psycopg.connect(make_conninfo("", **_settings(self._given)), autocommit=True)
        )

    def learner_session(self) -> LearnerSession:
        """Advisory locks of a session: the server frees them when the session ends, however it ends."""
        return PostgresLearnerSession(self.connect())


class PostgresLearnerSession:
    """A session with one advisory lock per bandit."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._held: set[int] = set()

    def hold(self, bandit: int) -> bool:
        """Take the bandit's lock, if nobody else has."""
        if bandit in self._held:
            return True
        # Two numbers of 32 bits name a lock.
        held = self.connection.rows("SELECT pg_try_advisory_lock(?, ?)", (_LOCKS, bandit & 0x7FFFFFFF))[0][0]
        if held:
            self._held.add(bandit)
        return bool(held)

    def keep(self, bandits: Collection[int]) -> None:
        """Free the locks of others."""
        for bandit in self._held - set(bandits):
            self.connection.rows("SELECT pg_advisory_unlock(?, ?)", (_LOCKS, bandit & 0x7FFFFFFF))
            self._held.discard(bandit)

    def close(self) -> None:
        """End the session, and with it all locks."""
        self.connection.close()
        self._held.clear()


class PostgresConnection:
    """A session; outside of `begin` every statement is a transaction of its own."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def begin(self) -> None:
        """Start a transaction."""
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        """Make it durable."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo what was begun; a session that is gone has nothing to undo."""
        try:
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement."""
        cursor = self._connection.execute(_marked(sql), values)
        return cursor.fetchall() if cursor.description else []

    def many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values, in one round trip."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(sql), values)

    def wait_for_others(self, seconds: float) -> None:
        """The server's settings tell."""

    def scrub(self) -> None:
        """The server's own matter."""

    def wall(self) -> int:
        """The server's clock."""
        return int(self.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """What the URL and the environment say, ours where they say nothing; options of the session are joined."""
    ours = dict(_SETTINGS)
    if os.environ.get("PGCONNECT_TIMEOUT"):
        del ours["connect_timeout"]
    options = (_OPTIONS, os.environ.get("PGOPTIONS"), given.get("options"))
    return {**ours, **given, "options": " ".join(each for each in options if each)}


def _marked(sql: str) -> str:
    """Statements are ours and hold neither `?` nor `%` but as marks."""
    return sql.replace("?", "%s")
