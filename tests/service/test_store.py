import asyncio
import os
import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from treebandit.errors import ParameterError, StoreError
from treebandit.service import erasure, tables
from treebandit.service.config import BanditConfig, changed, checked
from treebandit.service.database import StoreClock, open_database, shown_url
from treebandit.service.entries import (
    DecisionBody,
    NewActivation,
    NewDecision,
    NewEntry,
    NewEvent,
    NewReward,
    RewardBody,
)
from treebandit.service.log import Group, append
from treebandit.service.store import Store
from treebandit.service.writer import LogWriter

BODY = msgspec.json.encode(DecisionBody({"x": 1.0}, ["a", "b"], [0], 0.5, [0.5, 0.5]))


def made(store, name="shop", **settings):
    return store.put_bandit(name, lambda before: checked(BanditConfig(**settings)))[0]


def decision(id, wait=10_000_000, **more):
    return NewDecision(id, BODY, "a", 0.5, 0, False, wait, **more)


def reward(id, value=1.0, key=""):
    return NewReward(id, key, value, msgspec.json.encode(RewardBody(value)), True)


def stored(store, bandit, *entries):
    return store.append_now(Group(bandit, entries))


def kinds(store, bandit):
    return [entry.kind for entry in store.entries(bandit, 0, 1000)]


def test_places_have_no_gaps_and_times_do_not_go_back(store):
    bandit = made(store).id
    for number in range(5):
        stored(store, bandit, decision(f"d{number}"), reward(f"d{number}"))
    entries = store.entries(bandit, 0, 100)
    assert [entry.place for entry in entries] == list(range(1, 12))
    assert [entry.time for entry in entries] == sorted(entry.time for entry in entries)
    assert [entry.t for entry in entries if entry.kind == "decision"] == [1, 2, 3, 4, 5]


def test_the_same_id_is_stored_once_and_answers_the_same(store):
    bandit = made(store).id
    first, again = stored(store, bandit, decision("d"), decision("d")._replace(body=b"{}"))
    later = stored(store, bandit, decision("d")._replace(body=b"{}", version=9))[0]
    assert not first.repeated
    assert again.repeated
    assert later.repeated
    assert later.body == again.body == BODY
    assert later.place == first.place
    assert later.version == 0


def test_every_reward_has_its_status(store):
    bandit = made(store).id
    early = stored(store, bandit, reward("d"))[0]
    stored(store, bandit, decision("d"), decision("e"), decision("late", wait=0))
    assert early.status == "early"
    assert stored(store, bandit, reward("d"))[0].status == "repeated"
    assert stored(store, bandit, reward("d", key="other"))[0].status == "superseded"
    assert stored(store, bandit, reward("e"))[0].status == "counted"
    assert stored(store, bandit, reward("late"))[0].status == "late"
    assert stored(store, bandit, reward("e", key="k"))[0].status == "superseded"
    assert stored(store, bandit, reward("e", key="k"))[0].status == "repeated"


def test_a_deferred_decision_waits_for_its_activation(store):
    bandit = made(store).id
    stored(store, bandit, decision("d", wait=None))
    assert stored(store, bandit, NewActivation("no", 5))[0].status == "unknown"
    first = stored(store, bandit, NewActivation("d", 50_000_000))[0]
    assert (first.status, first.repeated) == ("active", False)
    assert stored(store, bandit, NewActivation("d", 50_000_000))[0].repeated
    assert stored(store, bandit, reward("d"))[0].status == "counted"


def test_writers_in_several_sessions_keep_one_order(url):
    stores = [Store.open(url) for _ in range(3)]
    bandit = made(stores[0]).id

    def write(number):
        for each in range(20):
            stored(stores[number], bandit, decision(f"{number}-{each}"), decision(f"same-{each}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = stores[0].entries(bandit, 1, 1000)
    assert [entry.place for entry in entries] == list(range(2, 82))
    assert len({entry.decision for entry in entries}) == 80
    for each in stores:
        each.close()


def test_settings_are_logged_and_patched(store):
    row = made(store, wait=5.0)
    assert row.config.agent["class"] == "Bandit"
    assert isinstance(row.config.agent["seed"], int)
    again, new = store.put_bandit("shop", lambda before: changed(before, {"wait": 7.0}))
    assert not new
    assert (again.config.wait, again.revision, again.config.agent) == (7.0, 2, row.config.agent)
    assert [entry.kind for entry in store.entries(row.id, 0, 9)] == ["config", "config"]
    with pytest.raises(ParameterError, match="cannot be changed"):
        store.put_bandit("shop", lambda before: changed(before, {"agent": {"class": "LinUCB"}}))
    assert store.bandit("shop").revision == 2
    assert [each.name for each in store.bandits()] == ["shop"]
    assert store.delete_bandit("shop")
    assert not store.delete_bandit("shop")
    assert store.bandit("shop") is None
    assert stored(store, row.id, decision("d"))[0].status == "deleted"
    assert made(store).id != row.id


def test_erasing_empties_decisions_and_keeps_their_ids(store):
    bandit = made(store).id
    stored(store, bandit, decision("a", subject="me"), decision("b", subject="you"), reward("a"))
    assert erasure.erase(store, bandit, subject="me") == 1
    assert erasure.erase(store, bandit, subject="me") == 0
    entries = {(entry.kind, entry.decision): entry for entry in store.entries(bandit, 0, 100)}
    assert entries["decision", "a"].body == entries["reward", "a"].body == b""
    assert entries["decision", "b"].body == BODY
    assert ("erasure", None) in entries
    assert stored(store, bandit, reward("a", key="late"))[0].status == "erased"
    assert stored(store, bandit, decision("a"))[0].body == b""
    assert erasure.erase(store, bandit, ids=["b", "never"]) == 1


def test_erasing_leaves_no_reward_that_came_early(store):
    bandit = made(store).id
    for id, value in (("e#side", 77.0), ("e#top", 78.0), ("never", 79.0), ("never#a", 80.0), ("other", 5.0)):
        assert stored(store, bandit, reward(id, value))[0].status == "early"
    stored(store, bandit, NewEvent("e", ["top"], "me"), decision("e#top", subject="me"))
    assert erasure.erase(store, bandit, ids=["e", "never"]) == 1
    rows = store.rows("SELECT decision, value, subject FROM entries WHERE kind = 'reward' ORDER BY place")
    assert rows == [("e#top", None, None), ("other", 5.0, None)]
    assert stored(store, bandit, reward("e#side"))[0].status == "erased"
    # What was never decided may still be.
    stored(store, bandit, decision("never"))
    assert stored(store, bandit, reward("never"))[0].status == "counted"


def test_an_erasure_that_changes_nothing_is_not_logged(store):
    bandit = made(store).id
    stored(store, bandit, decision("a"), reward("a"))
    assert [erasure.erase(store, bandit, ids=["a", "b"]) for _ in range(3)] == [1, 0, 0]
    assert kinds(store, bandit).count("erasure") == 1


def test_erasing_waits_for_what_another_replica_is_storing(cluster):
    store = Store.open(cluster.new())
    bandit = made(store).id
    stored(store, bandit, decision("a", subject="me"))
    other = store.database.connect()
    other.begin()
    append(other, [Group(bandit, [reward("a", 7.0)])], store.clock, store.for_update)
    with ThreadPoolExecutor(1) as thread:
        erased = thread.submit(erasure.erase, store, bandit, subject="me")
        waits = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        while not store.rows(waits):
            assert not erased.done()
        other.commit()
        assert erased.result() == 1
    other.close()
    assert store.rows("SELECT value FROM entries WHERE kind = 'reward'") == [(None,)]
    assert [entry.body for entry in store.entries(bandit, 0, 99, kind="reward")] == [b""]
    store.close()


def test_decisions_are_kept_at_least_for_their_wait():
    with pytest.raises(ParameterError, match="before their rewards count"):
        checked(BanditConfig(wait=8 * 86_400, retention=7.0))
    config = checked(BanditConfig(wait=7 * 86_400, retention=7.0))
    with pytest.raises(ParameterError, match="retention=1 days is shorter"):
        changed(config, {"retention": 1.0})


def test_a_request_that_is_alone_is_stored_on_its_thread_where_nobody_else_writes(store, monkeypatch):
    monkeypatch.setattr("treebandit.service.writer._QUICK", 1e9)
    monkeypatch.setattr("treebandit.service.writer._COMMITS", 2)
    bandit, writer = made(store).id, LogWriter(store)
    writer.start()
    assert writer.append_here(bandit, [decision("first")]) is None, "nothing is known of the disk yet"
    for each in ("first", "second"):
        asyncio.run(writer.append(bandit, [decision(each)]))
    here = writer.append_here(bandit, [decision("d1")])
    if not store.database.local:
        assert here is None
        writer.stop()
        return
    assert [each.decision for each in store.entries(bandit, here[0].place - 1, 10)] == ["d1"]
    assert writer.append_here(bandit, [decision("d1")])[0].repeated
    other, waits = store.database.connect(), []
    monkeypatch.setattr(type(other), "wait_for_others", lambda _, seconds: waits.append(seconds))
    other.begin()
    assert writer.append_here(bandit, [decision("d2")]) is None
    other.rollback()
    other.close()
    assert waits == [0.0], "it has waited for others in the event loop"
    assert not asyncio.run(writer.append(bandit, [decision("d2")]))[0].repeated
    monkeypatch.setattr("treebandit.service.writer._QUICK", 0.0)
    assert writer.append_here(bandit, [decision("d3")])[0].place == here[0].place + 2
    assert writer.append_here(bandit, [decision("d4")]) is None, "the commit before was slow"
    monkeypatch.setattr("treebandit.service.writer._QUICK", 1e9)
    asyncio.run(writer.append(bandit, [decision("d4")]))
    assert writer.append_here(bandit, [decision("d5")]) is None, "one quick commit is not enough"
    asyncio.run(writer.append(bandit, [decision("d5")]))
    assert writer.append_here(bandit, [decision("d6")])[0].place == here[0].place + 5
    writer.stop()
    assert writer.append_here(bandit, [decision("d7")]) is None


def test_the_writer_stores_what_waits_in_few_transactions(store):
    bandit = made(store).id
    sizes = []
    writer = LogWriter(store, observe=lambda size, seconds: sizes.append(size))
    writer.start()

    async def load():
        return await asyncio.gather(*(writer.append(bandit, [decision(f"d{n % 150}")]) for n in range(200)))

    answers = asyncio.run(load())
    writer.stop()
    assert sum(answer[0].repeated for answer in answers) == 50
    assert sum(sizes) == 200
    assert len(sizes) < 100
    with pytest.raises(StoreError, match="stopping"):
        asyncio.run(writer.append(bandit, [decision("x")]))


def test_a_group_that_cannot_be_stored_does_not_fail_the_others(cluster, monkeypatch):
    store = Store.open(cluster.new())
    bandit, sizes, sessions = made(store).id, [], []
    connect = store.database.connect
    monkeypatch.setattr(store.database, "connect", lambda: sessions.append(connect()) or sessions[-1])
    writer = LogWriter(store, observe=lambda size, seconds: sizes.append(size))
    chance = random.Random(0)  # what repeats itself would be compressed
    long = "".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(2000))

    async def load():
        waiting = [asyncio.ensure_future(writer.append(bandit, [decision(id)])) for id in ("a", long, "b")]
        await asyncio.sleep(0)
        writer.start()
        return await asyncio.gather(*waiting, return_exceptions=True)

    first, refused, last = asyncio.run(load())
    writer.stop()
    assert sizes == [3]
    assert [first[0].repeated, last[0].repeated] == [False, False]
    assert "could not be stored (ProgramLimitExceeded)" in str(refused)
    assert len(sessions) == 1
    store.close()


def test_an_error_of_one_statement_is_not_that_of_a_lost_store(tmp_path):
    psycopg = pytest.importorskip("psycopg")
    server, file = open_database("postgresql://host/db"), open_database(f"sqlite:///{tmp_path}/s.db")
    errors = psycopg.errors
    for lost in (errors.AdminShutdown, errors.DiskFull, errors.LockNotAvailable, errors.DeadlockDetected):
        assert server.is_lost(lost("said"))
    assert server.is_lost(errors.ReadOnlySqlTransaction("a standby"))
    assert server.is_lost(psycopg.OperationalError("the connection is closed"))
    assert server.is_lost(ConnectionResetError())
    assert not server.is_lost(errors.ProgramLimitExceeded("too long"))
    assert not server.is_lost(errors.IndexCorrupted("one page"))
    assert file.is_lost(sqlite3.OperationalError("disk I/O error"))
    assert file.is_lost(sqlite3.DatabaseError("malformed"))
    assert not file.is_lost(sqlite3.DataError("string or blob too big"))


def test_the_url_of_a_server_comes_before_our_settings(cluster, monkeypatch):
    url = cluster.new()
    shown = "SELECT current_setting(name) FROM unnest(?::text[]) AS name"
    names = ["search_path", "lock_timeout", "statement_timeout", "work_mem", "application_name"]

    def settings(more):
        store = Store.open(url + more)
        found = [row[0] for row in store.rows(shown, (names,))]
        schemas = store.rows("SELECT schemaname FROM pg_tables WHERE tablename = 'entries' ORDER BY 1")
        store.close()
        return found, [row[0] for row in schemas]

    connection = open_database(url).connect()
    connection.rows("CREATE SCHEMA tb")
    connection.close()
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=5MB -c statement_timeout=7s")
    found, schemas = settings("?options=-csearch_path%3Dtb%20-clock_timeout%3D2s&application_name=mine")
    assert schemas == ["tb"]
    assert found == ["tb", "2s", "7s", "5MB", "mine"]
    monkeypatch.delenv("PGOPTIONS")
    found, schemas = settings("")
    assert schemas == ["public", "tb"]
    assert found == ['"$user", public', "4s", "30s", "4MB", "treebandit"]


def test_an_older_treebandit_refuses_a_newer_store(url):
    store = Store.open(url)
    store.write(lambda connection: connection.rows("UPDATE meta SET value = 99 WHERE name = 'version'"))
    with pytest.raises(StoreError, match=r"version 99, and this treebandit knows them up to"):
        Store.open(url)
    store.write(lambda connection: connection.rows("UPDATE meta SET value = ?", (tables.VERSION,)))
    Store.open(url).close()
    store.close()


def test_a_store_that_cannot_be_reached_is_told_without_its_password():
    with pytest.raises(StoreError, match="cannot be used") as reply:
        Store.open("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(reply.value)
    assert shown_url("postgresql://me:secret@host/db") == "postgresql://me@host/db"
    shown = shown_url("postgresql://host/db?user=me&password=secret&sslpassword=secret&sslmode=require")
    assert shown == "postgresql://host/db?user=me&sslmode=require"
    for wrong in ("se/cret", "s@e:cret", "se%zzcret"):
        with pytest.raises(ParameterError, match="%XX") as raised:
            open_database(f"postgresql://me:{wrong}@host/db")
        assert "cret" not in str(raised.value)
    with pytest.raises(ParameterError, match="sqlite:///file"):
        open_database("mysql://x")
    with pytest.raises(ParameterError, match="give a file"):
        open_database("sqlite:///:memory:")


def test_the_clock_goes_on_where_the_wall_clock_is_set_back():
    clock = StoreClock()
    first = clock.now(1_000_000)
    second = clock.now(500)
    assert second >= first
    assert clock.now(0, least=5_000_000) == 5_000_000
    assert clock.now(6_000_000) == 6_000_000


def test_what_is_acknowledged_is_on_disk(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    bandit = made(store).id
    stored(store, bandit, decision("d"))
    with sqlite3.connect(tmp_path / "s.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert other.execute("SELECT count(*) FROM entries WHERE kind = 'decision'").fetchone() == (1,)
    with store.session() as connection:
        assert connection.rows("PRAGMA synchronous") == [(2,)]
    store.close()


def test_one_learner_at_a_time(store):
    first, second = store.database.learner_session(), store.database.learner_session()
    assert first.hold(7)
    assert first.hold(7)
    assert not second.hold(7)
    assert second.hold(8)
    first.close()
    deadline = time.monotonic() + 5  # a server ends a session a moment later
    while not second.hold(7):
        assert time.monotonic() < deadline
    second.close()


def test_entries_of_any_kind_are_kept_in_order(store):
    bandit = made(store).id
    stored(store, bandit, NewEntry("publish", b"{}"), decision("d"), NewEntry("close", b"{}"))
    assert [entry.kind for entry in store.entries(bandit, 1, 9)] == ["publish", "decision", "close"]
    assert store.last_entry(bandit, ["publish", "close"], 3).kind == "publish"


def test_several_processes_may_open_a_new_store_at_once(url):
    with ThreadPoolExecutor(8) as threads:
        stores = list(threads.map(Store.open, [url] * 8))
    assert [store.bandits() for store in stores] == [[]] * 8
    for store in stores:
        store.close()


def holding(folder, text):
    return [file.name for file in folder.iterdir() if text in file.read_bytes()]


def test_nothing_of_what_is_erased_is_left_in_the_files(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    bandit = made(store).id
    secret = msgspec.json.encode(DecisionBody({"mail": "SECRETPERSON"}, ["a", "b"], [0], 0.5, [0.5, 0.5]))
    for number in range(50):
        stored(
            store, bandit, decision(f"d{number}", subject="me")._replace(body=secret), reward(f"d{number}")
        )
    other = store.database.connect()
    assert holding(tmp_path, b"SECRETPERSON")
    # A reader in the middle of its work keeps the file from being emptied, and is not disturbed.
    other.rows("BEGIN")
    other.rows("SELECT count(*) FROM entries")
    assert erasure.erase(store, bandit, ids=["d0"]) == 1
    other.rollback()
    assert erasure.erase(store, bandit, subject="me") == 49
    assert holding(tmp_path, b"SECRETPERSON") == []
    assert stored(store, bandit, decision("next"))[0].place > 0
    other.close()
    store.close()


def test_a_deleted_bandit_leaves_nothing_in_the_files(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    bandit = made(store).id
    stored(store, bandit, decision("d")._replace(body=BODY.replace(b'"x"', b'"SECRETPERSON"')))
    store.delete_bandit("shop")
    while erasure.delete_part(store, bandit):
        pass
    assert holding(tmp_path, b"SECRETPERSON") == []
    store.close()


def test_the_files_of_a_new_store_are_for_their_owner_only(tmp_path):
    before = os.umask(0o022)
    try:
        store = Store.open(f"sqlite:///{tmp_path}/s.db")
        stored(store, made(store).id, decision("d"))
        session = store.database.learner_session()
        assert session.hold(1)
    finally:
        os.umask(before)
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == dict.fromkeys(
        ["s.db", "s.db-wal", "s.db-shm", "s.db-learner-1"], 0o600
    )
    session.close()
    store.close()
