"""Deleting decisions from the log: those of one person, and those that are older than the retention."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treebandit.service.database import Connection
from treebandit.service.entries import slot_id, slot_names
from treebandit.service.log import in_chunks
from treebandit.service.models import Erased
from treebandit.service.store import BanditRow, Store

#: The retention is kept to within this share of it, so that models are not made anew all the time.
_SLACK = 0.05
_FOUND = "SELECT kind, decision, body FROM entries WHERE bandit = ? AND kind IN ('decision', 'event')"


def erase(store: Store, bandit: int, *, ids: Sequence[str] = (), subject: str | None = None) -> int:
    """Empty decisions by their ids, or all of a subject, with their rewards; how many there were.

    The entries keep their places, times and ids, so that nothing is stored under these ids again. The learner then
    makes its model anew without them.
    """

    def work(connection: Connection) -> int:
        rows = in_chunks(connection, f"{_FOUND} AND decision IN ({{marks}})", bandit, sorted(set(ids)))
        if subject is not None:
            rows += connection.rows(f"{_FOUND} AND subject = ?", (bandit, subject))
        # An event's slots are decisions with ids of their own.
        slots = [
            slot_id(event, slot)
            for kind, event, body in rows
            if kind == "event" and body
            for slot in slot_names(bytes(body))
        ]
        rows += in_chunks(connection, f"{_FOUND} AND decision IN ({{marks}})", bandit, slots)
        found = sorted({row[1] for row in rows})
        count = len({row[1] for row in rows if row[0] == "decision"})
        if found:
            in_chunks(
                connection,
                "UPDATE entries SET body = CAST('' AS {bytes}), value = NULL, arm = NULL, subject = NULL "
                "WHERE bandit = ? AND decision IN ({{marks}})".format(**store.database.dialect),
                bandit,
                found,
            )
            store.log(connection, bandit, "erasure", msgspec.json.encode(Erased(count)))
        return count

    return int(store.write(work))


def purge(store: Store, row: BanditRow) -> int:
    """Delete the decisions that are older than the bandit's retention, once enough are; how many."""
    if row.config.retention is None:
        return 0
    kept = round(row.config.retention * 86_400e6)
    oldest = store.rows(
        "SELECT min(time) FROM entries WHERE bandit = ? AND kind = 'decision' AND body <> CAST('' AS "
        f"{store.database.dialect['bytes']})",
        (row.id,),
    )[0][0]

    def work(connection: Connection) -> int:
        before = store.clock.now(connection.wall(), row.time) - kept
        if oldest is None or oldest > before - round(_SLACK * kept):
            return 0
        # Rewards may be younger than their decision: they go by its age.
        gone = (
            "FROM entries WHERE bandit = ? AND decision IN (SELECT decision FROM entries WHERE bandit = ? "
            "AND kind = 'decision' AND time < ?)"
        )
        count = connection.rows(
            "SELECT count(*) FROM entries WHERE bandit = ? AND kind = 'decision' AND time < ?",
            (row.id, before),
        )[0][0]
        connection.rows(f"DELETE {gone}", (row.id, row.id, before))
        connection.rows(
            "DELETE FROM entries WHERE bandit = ? AND kind IN ('reward', 'event') AND time < ?",
            (row.id, before),
        )
        connection.rows("UPDATE bandits SET purged = ? WHERE id = ?", (before, row.id))
        store.log(connection, row.id, "erasure", msgspec.json.encode(Erased(count, before)))
        return int(count)

    return int(store.write(work))
