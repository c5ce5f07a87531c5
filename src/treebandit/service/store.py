"""The store: bandits, their log, and sessions with the database behind it. SQLite and PostgreSQL run the same SQL."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from treebandit.errors import StoreError
from treebandit.service import tables
from treebandit.service.config import BanditConfig
from treebandit.service.database import (
    Connection,
    Database,
    StoreClock,
    open_database,
    shown_url,
    transaction,
)
from treebandit.service.entries import Entry, Kind, NewEntry, Stored
from treebandit.service.log import Group, append, in_chunks

_ENTRY = "place, time, kind, decision, reward_key, due, t, version, holdout, body"
_BANDIT = "id, name, config, revision, created, place, decisions, time, closed_until, version, purged"
#: How often a transaction is tried again where another replica has stored the same id a moment before.
_TRIES = 3
_Made = TypeVar("_Made")


class BanditRow(NamedTuple):
    """A bandit as the store has it. Times are microseconds since 1970."""

    id: int
    name: str
    config: BanditConfig
    revision: int
    created: int
    place: int
    decisions: int
    time: int
    closed_until: int
    version: int
    purged: int


class Store:
    """Sessions with one database; every method may be called from any thread."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        #: For messages and logs, and for other processes: without and with a password.
        self.url, self.secret_url = shown_url(url), url
        self.clock = StoreClock()
        #: Bandits that the last look at all of them had to leave out, and why: settings of another version.
        self.unreadable: dict[str, str] = {}
        self._idle: queue.LifoQueue[Connection] = queue.LifoQueue(maxsize=8)

    @classmethod
    def open(cls, url: str) -> Store:
        """Open, and bring the tables to this version."""
        database = open_database(url)
        try:
            tables.migrate(database)
        except database.unavailable as error:
            raise StoreError(f"the store {shown_url(url)} cannot be used: {_words(error)}") from error
        return cls(database, url)

    def close(self) -> None:
        """End all idle sessions."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A session for a few statements; errors of the driver become a StoreError."""
        try:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self.database.connect()
        except self.database.unavailable as error:
            raise StoreError(f"the store {self.url} cannot be reached: {_words(error)}") from error
        try:
            yield connection
        except self.database.collision:
            connection.rollback()
            self._give_back(connection)
            raise
        except self.database.unavailable as error:
            connection.close()
            raise StoreError(f"the store {self.url} does not answer: {_words(error)}") from error
        except BaseException:
            connection.rollback()
            self._give_back(connection)
            raise
        self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        try:
            self._idle.put_nowait(connection)
        except queue.Full:
            connection.close()

    def ping(self) -> None:
        """Raise a StoreError where the database does not answer."""
        with self.session() as connection:
            connection.rows("SELECT value FROM meta WHERE name = 'version'")

    def append(self, groups: Sequence[Group], connection: Connection) -> list[list[Stored]]:
        """Store groups durably, in one transaction on this session."""

        def work() -> list[list[Stored]]:
            with transaction(connection):
                return append(connection, groups, self.clock, self.for_update)

        return self._tried(work)

    def _tried(self, work: Callable[[], _Made]) -> _Made:
        """Do it again where another replica has stored the same id a moment before."""
        for _ in range(_TRIES - 1):
            with suppress(*self.database.collision):
                return work()
        return work()

    @property
    def for_update(self) -> str:
        """What locks the rows of a SELECT until the transaction ends."""
        return self.database.dialect["for_update"]

    def log(self, connection: Connection, bandit: int, kind: Kind, body: bytes) -> Stored:
        """Store one entry in the transaction that is open."""
        return append(connection, [Group(bandit, [NewEntry(kind, body)])], self.clock, self.for_update)[0][0]

    def append_now(self, group: Group) -> list[Stored]:
        """Store one group in a transaction of its own; for callers that are in no hurry."""
        with self.session() as connection:
            return self.append([group], connection)[0]

    def write(self, work: Callable[[Connection], Any]) -> Any:
        """Run `work` in one transaction."""
        with self.session() as connection, transaction(connection):
            return work(connection)

    def scrub(self) -> None:
        """Leave nothing of what was deleted in files beside the database, if that is possible now."""
        with self.session() as connection:
            connection.scrub()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement that only reads."""
        with self.session() as connection:
            return connection.rows(sql, values)

    # Bandits

    def bandits(self) -> list[BanditRow]:
        """All that are not deleted, by name; without those whose settings cannot be read (`unreadable`)."""
        found: list[BanditRow] = []
        unreadable: dict[str, str] = {}
        for row in self.rows(f"SELECT {_BANDIT} FROM bandits WHERE deleted IS NULL ORDER BY name"):
            try:
                found.append(_bandit(row))
            except StoreError as error:
                unreadable[row[1]] = str(error)
        self.unreadable = unreadable
        return found

    def bandit(self, name: str) -> BanditRow | None:
        """One by its name."""
        rows = self.rows(f"SELECT {_BANDIT} FROM bandits WHERE deleted IS NULL AND name = ?", (name,))
        return _bandit(rows[0]) if rows else None

    def put_bandit(
        self, name: str, change: Callable[[BanditConfig | None], BanditConfig]
    ) -> tuple[BanditRow, bool]:
        """Make a bandit, or change the settings of one; whether it is new. `change` gets the settings until now."""

        def work(connection: Connection) -> bool:
            found = connection.rows(
                f"SELECT {_BANDIT} FROM bandits WHERE deleted IS NULL AND name = ? {self.for_update}", (name,)
            )
            before = _bandit(found[0]) if found else None
            config = change(before.config if before else None)
            body = msgspec.json.encode(config)
            if before is not None and body == msgspec.json.encode(before.config):
                return False
            if before is None:
                now = self.clock.now(connection.wall())
                connection.rows(
                    "INSERT INTO bandits (name, config, revision, created, place, decisions, time, closed_until, "
                    "version) VALUES (?, ?, 1, ?, 0, 0, ?, 0, 0)",
                    (name, body, now, now),
                )
                number = connection.rows(
                    "SELECT id FROM bandits WHERE deleted IS NULL AND name = ?", (name,)
                )[0][0]
            else:
                number = before.id
                connection.rows(
                    "UPDATE bandits SET config = ?, revision = revision + 1 WHERE id = ?", (body, number)
                )
            self.log(connection, number, "config", body)
            return before is None

        new = self._tried(lambda: self.write(work))
        row = self.bandit(name)
        if row is None:
            raise StoreError(f"the bandit {name!r} was deleted in the same moment")
        return row, new

    def delete_bandit(self, name: str) -> bool:
        """Delete a bandit; whether there was one. Callers see nothing of it any more.

        What it has logged is then deleted by the learner: a negative `purged` says that something is left.
        """

        def work(connection: Connection) -> bool:
            found = connection.rows(
                f"SELECT id FROM bandits WHERE deleted IS NULL AND name = ? {self.for_update}",
                (name,),
            )
            if not found:
                return False
            now = self.clock.now(connection.wall())
            connection.rows(
                "UPDATE bandits SET deleted = ?, config = ?, purged = -1 WHERE id = ?",
                (now, b"{}", found[0][0]),
            )
            return True

        return bool(self.write(work))

    # The log

    def entries(self, bandit: int, after: int, limit: int, kind: str | None = None) -> list[Entry]:
        """The entries behind a place, in their order."""
        only = "" if kind is None else "AND kind = ?"
        values = (bandit, after) if kind is None else (bandit, after, kind)
        rows = self.rows(
            f"SELECT {_ENTRY} FROM entries WHERE bandit = ? AND place > ? {only} ORDER BY place LIMIT {int(limit)}",
            values,
        )
        return [_entry(row) for row in rows]

    def about(self, bandit: int, decisions: Sequence[str]) -> dict[str, list[Entry]]:
        """All entries about these decisions, each in its order."""
        found: dict[str, list[Entry]] = {}
        with self.session() as connection:
            rows = in_chunks(
                connection,
                f"SELECT {_ENTRY} FROM entries WHERE bandit = ? AND decision IN ({{marks}}) ORDER BY place",
                bandit,
                sorted(set(decisions)),
            )
        for row in rows:
            found.setdefault(row[3], []).append(_entry(row))
        return found

    def due(self, bandit: int, after: int, until: int, last: tuple[int, int], limit: int) -> list[Entry]:
        """Decisions and activations whose wait ends in (after, until], by its end, behind (due, place) `last`."""
        rows = self.rows(
            f"SELECT {_ENTRY} FROM entries WHERE bandit = ? AND due > ? AND due <= ? "
            f"AND (due > ? OR (due = ? AND place > ?)) ORDER BY due, place LIMIT {int(limit)}",
            (bandit, after, until, last[0], last[0], last[1]),
        )
        return [_entry(row) for row in rows]

    def last_entry(self, bandit: int, kinds: Sequence[str], through: int) -> Entry | None:
        """The last entry of these kinds at or before a place."""
        marks = ", ".join("?" * len(kinds))
        rows = self.rows(
            f"SELECT {_ENTRY} FROM entries WHERE bandit = ? AND kind IN ({marks}) AND place <= ? "
            "ORDER BY place DESC LIMIT 1",
            (bandit, *kinds, through),
        )
        return _entry(rows[0]) if rows else None


def _bandit(row: Sequence[Any]) -> BanditRow:
    try:
        config = msgspec.json.decode(bytes(row[2]), type=BanditConfig)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"the settings of the bandit {row[1]!r} cannot be read: {error}; install the treebandit that wrote them"
        ) from error
    return BanditRow(row[0], row[1], config, *row[3:])


def _entry(row: Sequence[Any]) -> Entry:
    place, time, kind, decision, key, due, t, version, holdout, body = row
    return Entry(place, time, kind, decision, key, due, t, version, bool(holdout), bytes(body))


def _words(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
