"""Saved agents in the store: snapshots that deciders load, checkpoints that the learner goes on from, uploads."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from treebandit import registry, saving
from treebandit.agents.base import BaseAgent
from treebandit.errors import SavedFileError, StoreError, TreebanditError
from treebandit.service import queries
from treebandit.service.config import check_description
from treebandit.service.database import Connection, transaction
from treebandit.service.entries import NewEntry, Stored, decision_body
from treebandit.service.features import candidate_rows
from treebandit.service.log import Group
from treebandit.service.saved_agents import loaded, publishable
from treebandit.service.store import BanditRow, Store

ModelKind = Literal["snapshot", "checkpoint", "upload"]
_CHECKPOINTS = 4
#: Of each power of two, snapshots whose version is one of its last so many multiples: an evaluation needs a model that
#: is older than the wait, however often new ones are published.
_SNAPSHOTS = 4


class Published(msgspec.Struct):
    """The body of a `publish` entry: which version, what was learned for it, and when t was there."""

    version: int
    learned: int
    t: int
    rows: int = 0
    rebuilds: int = 0
    rebuild_seconds: float = 0.0
    bytes: int = 0
    skipped: int = 0


class Closed(msgspec.Struct):
    """The body of a `close` entry: waits that ended in (after, until]."""

    after: int
    until: int


class Uploaded(msgspec.Struct):
    """The body of an `upload` entry."""

    model: int
    agent: str


class RolledBack(msgspec.Struct):
    """The body of a `rollback` entry: the state is what had been learned up to a place."""

    version: int
    learned: int


class Erased(msgspec.Struct):
    """The body of an `erasure` entry: how many decisions are gone from the log, and up to when all are."""

    decisions: int
    before: int = 0


class Model(NamedTuple):
    """A saved agent; `version` is a checkpoint's place, and an upload's number."""

    kind: ModelKind
    version: int
    place: int
    time: int
    note: dict[str, Any]
    data: bytes


def publish(store: Store, connection: Connection, bandit: int, data: bytes, what: Published) -> int:
    """Make a snapshot the newest version, and log it; the version."""

    with transaction(connection):
        row = locked(store, connection, bandit, "version")
        what.version = row[0] + 1
        what.bytes = len(data)
        stored = store.log(connection, bandit, "publish", msgspec.json.encode(what))
        _insert(connection, bandit, "snapshot", what.version, what.learned, stored.time, {}, data)
        connection.rows(
            "DELETE FROM models WHERE bandit = ? AND kind = 'snapshot' "
            f"AND version + {_SNAPSHOTS} * (version & -version) <= ?",
            (bandit, what.version),
        )
        connection.rows("UPDATE bandits SET version = ? WHERE id = ?", (what.version, bandit))
    return what.version


def checkpoint(
    store: Store, connection: Connection, bandit: int, data: bytes, place: int, note: dict[str, Any]
) -> None:
    """Keep the whole agent as it was after the entry at `place`."""
    with transaction(connection):
        time = locked(store, connection, bandit, "time")[0]
        connection.rows(
            "DELETE FROM models WHERE bandit = ? AND kind = 'checkpoint' AND version = ?", (bandit, place)
        )
        _insert(connection, bandit, "checkpoint", place, place, time, note, data)
        of_bandit = "FROM models WHERE bandit = ? AND kind = 'checkpoint'"
        connection.rows(
            f"DELETE {of_bandit} AND version <= "
            f"(SELECT version {of_bandit} ORDER BY version DESC LIMIT 1 OFFSET {_CHECKPOINTS})",
            (bandit, bandit),
        )


def close_waits(store: Store, connection: Connection, bandit: int) -> bool:
    """Log the end of all waits that have ended by the store's clock; whether there were any."""
    with transaction(connection):
        after, time = locked(store, connection, bandit, "closed_until, time")
        until = store.clock.now(connection.wall(), time)
        sql = "SELECT min(due) FROM entries WHERE bandit = ? AND due > ?"
        ((due,),) = connection.rows(sql, (bandit, after))
        if due is None or due > until:
            return False
        store.log(connection, bandit, "close", msgspec.json.encode(Closed(after, until)))
        connection.rows("UPDATE bandits SET closed_until = ? WHERE id = ?", (until, bandit))
    return True


def upload(store: Store, bandit: int, data: bytes) -> Stored:
    """Log a model from outside; the learner goes on from it."""
    agent = loaded(data, max_bytes=saving.MAX_BYTES)
    if not isinstance(agent, BaseAgent):
        raise SavedFileError(f"the model is a {type(agent).__name__}; upload an agent")
    if agent.decide_only:
        raise SavedFileError(
            "the model has no history, so that it can decide but not learn; download one with history=true"
        )

    check_description(registry.describe(agent))
    _check_decides(store, bandit, agent)
    publishable(agent)

    def work(connection: Connection) -> Stored:
        locked(store, connection, bandit, "id")
        sql = "SELECT coalesce(max(version), 0) + 1 FROM models WHERE bandit = ? AND kind = 'upload'"
        ((number,),) = connection.rows(sql, (bandit,))
        body = msgspec.json.encode(Uploaded(number, type(agent).__name__))
        stored = store.log(connection, bandit, "upload", body)
        _insert(connection, bandit, "upload", number, stored.place, stored.time, {}, data)
        return stored

    return store.write(work)  # type: ignore[no-any-return]


def uploads(store: Store, bandit: int) -> int:
    """How many uploaded models there are."""
    sql = "SELECT count(*) FROM models WHERE bandit = ? AND kind = 'upload'"
    return int(store.rows(sql, (bandit,))[0][0])


def _check_decides(store: Store, bandit: int, agent: BaseAgent) -> None:
    """Raise unless an agent can make decisions as requests ask for them, the newest of the log among them."""
    needed = (
        "here rows have named columns, of which new ones may come, and arms have names: upload an agent made with "
        "new_columns=True that has learned frames or dicts, and arms that are text"
    )
    if not agent.new_columns:
        raise SavedFileError(f"the model takes no new columns; {needed}")
    tries: list[tuple[Any, list[str]]] = [({}, ["an arm"])]
    newest = queries.newest_decision(store, bandit)
    tries += [] if newest is None else [candidate_rows(decision_body(newest))]
    for rows, arms in tries:
        try:
            agent.decide(rows, arms)
        except TreebanditError as error:
            which = "the newest decision of the log" if rows else "requests"
            raise SavedFileError(f"the model cannot decide {which}: {error}; {needed}") from error


def roll_back(store: Store, bandit: int, version: int) -> Stored | None:
    """Log that the state is what version `version` was made of; None where there is no such version."""
    found = published(store, bandit, version)
    if found is None:
        return None
    body = msgspec.json.encode(RolledBack(version, found.learned))
    return store.append_now(Group(bandit, [NewEntry("rollback", body)]))[0]


def kept(store: Store, bandit: int) -> dict[int, int]:
    """The versions whose models are there, and when each was published."""
    sql = "SELECT version, time FROM models WHERE bandit = ? AND kind = 'snapshot'"
    return dict(store.rows(sql, (bandit,)))


def published(store: Store, bandit: int, version: int) -> Published | None:
    """What a version was made of."""
    # Versions are logged in their order: the n-th `publish` entry is version n, unless one was purged.
    after = 0
    while entries := store.entries(bandit, after, 500, kind="publish"):
        last = msgspec.json.decode(entries[-1].body, type=Published)
        if last.version >= version:
            all_of = [msgspec.json.decode(entry.body, type=Published) for entry in entries]
            return next((each for each in all_of if each.version == version), None)
        after = entries[-1].place
    return None


def newest_published(store: Store, row: BanditRow) -> Published | None:
    """What the newest version was made of."""
    found = queries.versions(store, row, 1)
    return msgspec.json.decode(found[0][1], type=Published) if found else None


def newest(
    store: Store, bandit: int, kind: ModelKind, *, through: int | None = None, least: int = 0
) -> Model | None:
    """The newest model of a kind whose place is from `least` to `through`."""
    where = "place >= ? AND place <= ? ORDER BY version DESC LIMIT 1"
    return _found(store, bandit, kind, where, least, (1 << 62) if through is None else through)


def newest_readable(
    store: Store, bandit: int, *, above: int = 0
) -> tuple[Model, Any, SavedFileError | None] | None:
    """The newest snapshot that can be loaded, its agent, and why no newer one can; None where there is no snapshot.

    above: only versions after this one count.
    """
    failed: SavedFileError | None = None
    sql = "SELECT version FROM models WHERE bandit = ? AND kind = 'snapshot' AND version > ? ORDER BY version DESC"
    for (version,) in store.rows(sql, (bandit, above)):
        found = model(store, bandit, "snapshot", version)
        if found is None:  # deleted meanwhile
            continue
        try:
            return found, loaded(found.data), failed
        except SavedFileError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return None


def model(store: Store, bandit: int, kind: ModelKind, version: int) -> Model | None:
    """One model."""
    return _found(store, bandit, kind, "version = ?", version)


def _found(store: Store, bandit: int, kind: ModelKind, where: str, *values: int) -> Model | None:
    sql = "SELECT version, place, time, note, data FROM models WHERE bandit = ? AND kind = ? AND "
    for version, place, time, note, data in store.rows(sql + where, (bandit, kind, *values)):
        return Model(kind, version, place, time, msgspec.json.decode(note), bytes(data))
    return None


def forget_before(connection: Connection, bandit: int, place: int) -> None:
    """Delete snapshots and checkpoints made of entries before a place, of which some were erased."""
    with transaction(connection):
        connection.rows(
            "DELETE FROM models WHERE bandit = ? AND kind IN ('snapshot', 'checkpoint') AND place < ?",
            (bandit, place),
        )


def _insert(
    connection: Connection,
    bandit: int,
    kind: ModelKind,
    version: int,
    place: int,
    time: int,
    note: dict[str, Any],
    data: bytes,
) -> None:
    connection.rows(
        "INSERT INTO models (bandit, kind, version, place, time, note, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (bandit, kind, version, place, time, msgspec.json.encode(note).decode(), data),
    )


def locked(store: Store, connection: Connection, bandit: int, columns: str) -> tuple[Any, ...]:
    """The bandit's row, which nobody else changes until the transaction ends: so nothing is logged meanwhile."""
    rows = connection.rows(
        f"SELECT {columns} FROM bandits WHERE id = ? AND deleted IS NULL {store.for_update}",
        (bandit,),
    )
    if not rows:
        raise StoreError("the bandit has been deleted")
    return rows[0]
