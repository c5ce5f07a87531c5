"""Deleting from the log: decisions of one person, those that are older than the retention, and deleted bandits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treebandit.service import models
from treebandit.service.config import BanditConfig
from treebandit.service.database import Connection
from treebandit.service.entries import early_subject, event_of, slot_id, slot_names
from treebandit.service.log import in_chunks
from treebandit.service.models import Erased
from treebandit.service.store import BanditRow, Store

#: The retention is kept to within this share of it, so that models are not made anew all the time.
_SLACK = 0.05
#: Decisions, or other entries, that are deleted in one transaction: others who write wait for no longer.
_PART = 2000
#: The kind as an expression, and what is ordered too: else SQLite looks through all of that kind, or by that order, and
#: not by the decision.
_OF_DECISION = (
    "SELECT 1 FROM entries x WHERE x.bandit = e.bandit AND x.decision = e.decision AND (x.kind || '')"
)
#: Decisions whose wait, or that of their activation, is not going on at a time, given twice.
_OLD = (
    "FROM entries e WHERE bandit = ? AND kind = 'decision' AND (due IS NULL OR due + 0 <= ?) "
    f"AND NOT EXISTS ({_OF_DECISION} = 'activation' AND x.due + 0 > ?)"
)
#: Bodies of decisions may be large, and are not needed.
_FOUND = (
    "SELECT kind, decision, length(body), CASE WHEN kind = 'event' THEN body END FROM entries "
    "WHERE bandit = ? AND kind IN ('decision', 'event')"
)


def erase(
    store: Store, bandit: int, *, ids: Sequence[str] = (), subject: str | None = None, uploads: bool = False
) -> int:
    """Empty decisions by their ids, or all of a subject, with their rewards; how many there were.

    The entries keep their places, times and ids, so that nothing is stored under these ids again. The learner then
    makes its model anew without them. Rewards that still wait for such an id, or for a slot that its event does not
    have, are deleted: no model knows them. uploads: models that were uploaded go, too, and are not gone on from.
    """

    def work(connection: Connection) -> int:
        # Else a reward that another replica is just storing would be left.
        models.locked(store, connection, bandit, "id")
        rows = in_chunks(connection, f"{_FOUND} AND decision IN ({{marks}})", bandit, sorted(set(ids)))
        if subject is not None:
            rows += connection.rows(f"{_FOUND} AND subject = ?", (bandit, subject))
        # An event's slots are decisions with ids of their own.
        slots = [
            slot_id(event, slot)
            for kind, event, size, body in rows
            if kind == "event" and size
            for slot in slot_names(bytes(body))
        ]
        rows += in_chunks(connection, f"{_FOUND} AND decision IN ({{marks}})", bandit, slots)
        found = {row[1] for row in rows}
        count = len({row[1] for row in rows if row[0] == "decision" and row[2]})
        changed = _empty(store, connection, bandit, sorted(found))
        if uploads and _delete_uploads(store, connection, bandit):
            changed = True
        if changed:
            store.log(connection, bandit, "erasure", msgspec.json.encode(Erased(count)))
        _delete_early(connection, bandit, found, {*ids, *found})
        return count

    count = int(store.write(work))
    store.scrub()
    return count


def _empty(store: Store, connection: Connection, bandit: int, decisions: Sequence[str]) -> bool:
    """Empty all entries about decisions; whether any was not empty yet."""
    empty = f"CAST('' AS {store.database.dialect['bytes']})"
    about = "WHERE bandit = ? AND decision IN ({marks})"
    full = in_chunks(
        connection, f"SELECT count(*) FROM entries {about} AND body <> {empty}", bandit, decisions
    )
    emptied = f"body = {empty}, value = NULL, arm = NULL, subject = NULL"
    in_chunks(connection, f"UPDATE entries SET {emptied} {about}", bandit, decisions)
    return any(each[0] for each in full)


def _delete_uploads(store: Store, connection: Connection, bandit: int) -> bool:
    """Delete uploaded models, and empty their entries; whether there were any."""
    there = "FROM models WHERE bandit = ? AND kind = 'upload'"
    ((count,),) = connection.rows(f"SELECT count(*) {there}", (bandit,))
    connection.rows(f"DELETE {there}", (bandit,))
    connection.rows(
        f"UPDATE entries SET body = CAST('' AS {store.database.dialect['bytes']}) "
        "WHERE bandit = ? AND kind = 'upload'",
        (bandit,),
    )
    return bool(count)


def _delete_early(connection: Connection, bandit: int, found: set[str], named: set[str]) -> None:
    """Delete rewards of named ids, and of their slots, that have no decision."""
    rewards = "DELETE FROM entries WHERE bandit = ? AND kind = 'reward'"
    in_chunks(connection, f"{rewards} AND decision IN ({{marks}})", bandit, sorted(named - found))
    events = [early_subject(each) for each in sorted(named) if "#" not in each]
    in_chunks(connection, f"{rewards} AND subject IN ({{marks}})", bandit, events)


def purge_part(store: Store, row: BanditRow) -> int | None:
    """Go on deleting, in a transaction that is soon over; how many decisions. None where nothing is to be done.

    While a deletion is under way, the bandit's `purged` is the negative of the time before which all goes: whoever
    learns next goes on. Where the retention was taken back or made longer since, what it leaves stays. The erasure is
    logged at its end, with the time that was reached.
    """
    under_way = store.rows("SELECT 1 FROM bandits WHERE id = ? AND purged < 0", (row.id,))
    if not under_way and not _is_due(store, row):
        return None

    def work(connection: Connection) -> int | None:
        purged, last, settings = models.locked(store, connection, row.id, "purged, time, config")
        kept = _kept(msgspec.json.decode(bytes(settings), type=BanditConfig))
        now = store.clock.now(connection.wall(), last)
        limit = 0 if kept is None else now - kept
        before = min(-purged, limit) if purged < 0 else limit
        # Rewards may be younger than their decision: they go by its age.
        old = connection.rows(
            f"SELECT decision {_OLD} AND time < ? ORDER BY time, t LIMIT {_PART}", (row.id, now, now, before)
        )
        if old:
            if purged >= 0:
                connection.rows("UPDATE bandits SET purged = ? WHERE id = ?", (-before, row.id))
            sql = "DELETE FROM entries WHERE bandit = ? AND decision IN ({marks})"
            ids = {each[0] for each in old}
            in_chunks(connection, sql, row.id, sorted(ids | set(map(event_of, ids))))
        elif purged >= 0:
            return None
        elif not _delete_others(connection, row.id, before):
            reached = _reached(connection, row.id, -purged, now)
            connection.rows("UPDATE bandits SET purged = ? WHERE id = ?", (reached, row.id))
            count = _gone_by_age(connection, row.id, reached)
            store.log(connection, row.id, "erasure", msgspec.json.encode(Erased(count, reached)))
        return len(old)

    part: int | None = store.write(work)
    return part


def deleted(store: Store) -> list[int]:
    """Deleted bandits of which something is left in the store."""
    rows = store.rows("SELECT id FROM bandits WHERE deleted IS NOT NULL AND purged < 0 ORDER BY id")
    return [row[0] for row in rows]


def delete_part(store: Store, bandit: int) -> bool:
    """Delete a part of what a deleted bandit has left, in a transaction that is soon over; whether there was any."""

    def work(connection: Connection) -> bool:
        # A model may be large, and goes alone.
        for table, key, most in (
            ("entries", "place", _PART),
            ("models", "kind, version", 1),
            ("jobs", "id", _PART),
        ):
            sql = f"SELECT {key} FROM {table} WHERE bandit = ? ORDER BY {key} LIMIT {most}"
            if found := connection.rows(sql, (bandit,)):
                marks = ", ".join("?" * len(found[-1]))
                sql = f"DELETE FROM {table} WHERE bandit = ? AND ({key}) <= ({marks})"
                connection.rows(sql, (bandit, *found[-1]))
                return True
        connection.rows("UPDATE bandits SET purged = 0 WHERE id = ?", (bandit,))
        return False

    more = bool(store.write(work))
    if not more:
        store.scrub()
    return more


def _kept(config: BanditConfig) -> int | None:
    """The retention in microseconds; None where all is kept."""
    return None if config.retention is None else round(config.retention * 86_400e6)


def _reached(connection: Connection, bandit: int, before: int, now: int) -> int:
    """The time up to which a deletion that should go up to `before` has come."""
    oldest = connection.rows(f"SELECT min(time) {_OLD} AND time < ?", (bandit, now, now, before))[0][0]
    return before if oldest is None else int(oldest)


def _is_due(store: Store, row: BanditRow) -> bool:
    """Whether there are decisions that should be gone by now."""
    kept = _kept(row.config)
    if kept is None:
        return False
    with store.session() as connection:
        now = store.clock.now(connection.wall(), row.time)
        oldest = connection.rows(
            f"SELECT min(time) {_OLD} AND body <> CAST('' AS {store.database.dialect['bytes']})",
            (row.id, now, now),
        )[0][0]
    return oldest is not None and oldest <= now - round((1 + _SLACK) * kept)


def _delete_others(connection: Connection, bandit: int, before: int) -> bool:
    """Delete some of the other entries before a time that are of no use without decisions; whether there were any.

    A reward that came before its decision stays as long as that. The last `close` and the last `publish` tell how far
    waits are closed, and which version is the newest.
    """
    last = [
        connection.rows("SELECT max(place) FROM entries WHERE bandit = ? AND kind = ?", (bandit, kind))[0][0]
        for kind in ("close", "publish")
    ]
    old = connection.rows(
        "SELECT place FROM entries e WHERE bandit = ? AND kind IN ('reward', 'close', 'publish') "
        f"AND time < ? AND place NOT IN (?, ?) AND NOT EXISTS ({_OF_DECISION} = 'decision') LIMIT {_PART}",
        (bandit, before, *(place or 0 for place in last)),
    )
    sql = "DELETE FROM entries WHERE bandit = ? AND place IN ({marks})"
    in_chunks(connection, sql, bandit, [each[0] for each in old])
    return bool(old)


def _gone_by_age(connection: Connection, bandit: int, before: int) -> int:
    """How many decisions are gone since the last such erasure: they are numbered, and few before a time are left."""
    decisions = "FROM entries WHERE bandit = ? AND kind = 'decision' AND time"
    sql = (
        f"SELECT coalesce((SELECT min(t) - 1 {decisions} = (SELECT min(time) {decisions} >= ?)), decisions) "
        f"- (SELECT count(*) {decisions} < ?) FROM bandits WHERE id = ?"
    )
    gone = int(connection.rows(sql, (bandit, bandit, before, bandit, before, bandit))[0][0])
    told = connection.rows("SELECT body FROM entries WHERE bandit = ? AND kind = 'erasure'", (bandit,))
    earlier = [msgspec.json.decode(bytes(each[0]), type=Erased) for each in told]
    return gone - sum(each.decisions for each in earlier if each.before)
