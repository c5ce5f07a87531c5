"""The tables of the store, and how an older store becomes a newer one."""

from __future__ import annotations

from treebandit.errors import StoreError
from treebandit.service.database import Connection, Database, transaction

#: Each step takes a store from its number to the next. Never change a step that was released: add one.
_STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE bandits (
            id {identity}, name TEXT NOT NULL, config {bytes} NOT NULL, revision BIGINT NOT NULL,
            created BIGINT NOT NULL, deleted BIGINT, place BIGINT NOT NULL, decisions BIGINT NOT NULL,
            time BIGINT NOT NULL, closed_until BIGINT NOT NULL, version BIGINT NOT NULL,
            purged BIGINT NOT NULL DEFAULT 0)""",
        "CREATE UNIQUE INDEX bandits_by_name ON bandits (name) WHERE deleted IS NULL",
        """CREATE TABLE entries (
            bandit BIGINT NOT NULL, place BIGINT NOT NULL, time BIGINT NOT NULL, kind TEXT NOT NULL,
            decision TEXT, reward_key TEXT, due BIGINT, t BIGINT, value DOUBLE PRECISION, arm TEXT,
            probability DOUBLE PRECISION, version BIGINT, holdout SMALLINT, subject TEXT, body {bytes} NOT NULL,
            PRIMARY KEY (bandit, place))""",
        """CREATE UNIQUE INDEX entries_by_decision ON entries (bandit, decision, kind, reward_key)
            WHERE decision IS NOT NULL""",
        "CREATE INDEX entries_by_due ON entries (bandit, due) WHERE due IS NOT NULL",
        "CREATE INDEX entries_by_subject ON entries (bandit, subject) WHERE subject IS NOT NULL",
        "CREATE INDEX entries_by_kind ON entries (bandit, kind, time)",
        """CREATE TABLE models (
            bandit BIGINT NOT NULL, kind TEXT NOT NULL, version BIGINT NOT NULL, place BIGINT NOT NULL,
            time BIGINT NOT NULL, note TEXT NOT NULL, data {bytes}, PRIMARY KEY (bandit, kind, version))""",
        """CREATE TABLE keys (
            hash TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, roles TEXT NOT NULL, bandit TEXT,
            created BIGINT NOT NULL)""",
        """CREATE TABLE jobs (
            id TEXT PRIMARY KEY, bandit BIGINT NOT NULL, state TEXT NOT NULL, created BIGINT NOT NULL,
            finished BIGINT, request {bytes} NOT NULL, result {bytes})""",
        "CREATE INDEX jobs_by_bandit ON jobs (bandit, created)",
    ),
)
VERSION = len(_STEPS)


def migrate(database: Database) -> int:
    """Bring the tables to this version; what version they had. One process at a time does it."""
    connection = database.connect()
    try:
        with transaction(connection):
            connection.rows(database.dialect["lock_tables"])
            connection.rows("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
            connection.rows("INSERT INTO meta VALUES ('version', 0) ON CONFLICT (name) DO NOTHING")
            before = _version(connection, database.dialect["for_update"])
            if before > VERSION:
                raise StoreError(
                    f"the store has tables of version {before}, and this treebandit knows them up to {VERSION}; "
                    "install the newer treebandit here too"
                )
            for number in range(before, VERSION):
                for statement in _STEPS[number]:
                    connection.rows(statement.format(**database.dialect))
            connection.rows("UPDATE meta SET value = ? WHERE name = 'version'", (VERSION,))
        return before
    finally:
        connection.close()


def _version(connection: Connection, for_update: str) -> int:
    return int(connection.rows(f"SELECT value FROM meta WHERE name = 'version' {for_update}")[0][0])
