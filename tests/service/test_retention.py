"""What is deleted in parts: decisions that are older than the retention, and deleted bandits."""

import msgspec
import pytest
from service.test_store import decision, kinds, made, reward, stored

from treebandit.errors import StoreError
from treebandit.service import erasure, models
from treebandit.service.config import changed
from treebandit.service.entries import NewActivation, NewEntry, NewEvent
from treebandit.service.export import records
from treebandit.service.fold import Fold
from treebandit.service.learner import Learner


def purge(store, row):
    """Delete what is too old to the end; how many decisions."""
    count = 0
    while (part := erasure.purge_part(store, row)) is not None:
        count += part
    return count


def test_old_decisions_are_purged_with_their_rewards(store):
    row = made(store, retention=1.0)
    stored(store, row.id, decision("old"), reward("old"))
    assert purge(store, row) == 0
    store.clock.now(0, row.time + 2 * 86_400_000_000)
    stored(store, row.id, decision("new"), reward("old", key="more"))
    assert purge(store, store.bandit("shop")) == 1
    assert {entry.decision for entry in store.entries(row.id, 0, 99) if entry.decision} == {"new"}


def aged(store, count, **settings):
    """A bandit with old decisions and their rewards, and one that is new."""
    row = made(store, retention=1.0, **settings)
    for number in range(count):
        stored(store, row.id, decision(f"d{number}"), reward(f"d{number}"))
    store.clock.now(0, row.time + 2 * 86_400_000_000)
    stored(store, row.id, decision("new"), reward("d0", key="more"))
    return store.bandit("shop")


def test_old_decisions_go_in_parts_and_the_rest_goes_after_a_failure(store, monkeypatch):
    monkeypatch.setattr(erasure, "_PART", 3)
    row = aged(store, 10)
    write, parts = store.write, []

    def counted(work):
        before = kinds(store, row.id).count("decision")
        if len(parts) == 2:
            parts.append(0)
            raise StoreError("away")
        write(work)
        parts.append(before - kinds(store, row.id).count("decision"))
        return parts[-1]

    monkeypatch.setattr(store, "write", counted)
    with pytest.raises(StoreError, match="away"):
        purge(store, row)
    assert "erasure" not in kinds(store, row.id)
    assert purge(store, store.bandit("shop")) == 4
    assert max(parts) == 3
    assert sorted(kinds(store, row.id)) == ["config", "decision", "erasure"]
    told = store.last_entry(row.id, ["erasure"], 1 << 62)
    assert msgspec.json.decode(told.body)["decisions"] == 10
    assert store.bandit("shop").purged == msgspec.json.decode(told.body)["before"] > 0
    assert purge(store, store.bandit("shop")) == 0


def test_retention_leaves_the_last_close_and_publish_only(store):
    row = made(store, retention=1.0)
    for number in range(4):
        stored(store, row.id, decision(f"d{number}"), NewEntry("close", b"{}"), NewEntry("publish", b"{}"))
    store.clock.now(0, row.time + 2 * 86_400_000_000)
    stored(store, row.id, decision("new"), NewEntry("close", b"{}"))
    purge(store, store.bandit("shop"))
    assert kinds(store, row.id) == ["config", "publish", "decision", "close", "erasure"]
    assert [entry.place for entry in store.entries(row.id, 0, 99, kind="publish")] == [row.place + 12]


def test_a_purge_that_fails_is_a_matter_of_its_bandit(sqlite, monkeypatch):
    aged(sqlite, 3)
    other = made(sqlite, "other")
    purge, tried = erasure.purge_part, []

    def fail(store, row):
        tried.append(row.name)
        if row.name == "shop":
            raise StoreError("canceling statement due to statement timeout")
        return purge(store, row)

    monkeypatch.setattr(erasure, "purge_part", fail)
    learner = Learner(sqlite)
    for _ in range(3):
        learner._round()
    assert learner.places == {"shop": sqlite.bandit("shop").place, "other": other.place}
    assert list(learner.failures) == [("retention", "shop")]
    learner._learners.clear()  # as after any failure: its state is read anew
    learner._round()
    assert tried.count("shop") == 1, "not again at once"
    learner._finish()


def test_a_learner_deletes_what_is_too_old(sqlite, monkeypatch):
    monkeypatch.setattr(erasure, "_PART", 2)
    row = aged(sqlite, 5)
    learner = Learner(sqlite)
    while "erasure" not in kinds(sqlite, row.id):
        learner._round()
    assert {entry.decision for entry in sqlite.entries(row.id, 0, 99) if entry.decision} == {"new"}
    learner._finish()


def test_a_reward_that_came_early_stays_as_long_as_its_decision(store):
    row = made(store, retention=1.0)
    stored(store, row.id, decision("old"), reward("E", 7.0), reward("never", 8.0))
    store.clock.now(0, row.time + 43_200_000_000)
    stored(store, row.id, decision("E"))
    store.clock.now(0, row.time + 100_000_000_000)
    assert purge(store, store.bandit("shop")) == 1
    kept = [(entry.kind, entry.decision) for entry in store.entries(row.id, 0, 99) if entry.decision]
    assert kept == [("reward", "E"), ("decision", "E")]
    found, _ = records(store, store.bandit("shop"))
    assert [each["reward"] for each in found] == [7.0]
    fold = Fold.at(store, row.id, store.bandit("shop").place)
    assert fold.rows == 1
    store.clock.now(0, row.time + 200_000_000_000)
    assert purge(store, store.bandit("shop")) == 1
    assert kinds(store, row.id) == ["config", "erasure", "erasure"]


@pytest.mark.parametrize(("retention", "left"), [(None, 7), (9.0, 7), (2.5, 4)])
def test_a_retention_that_is_taken_back_ends_the_deletion(store, monkeypatch, retention, left):
    monkeypatch.setattr(erasure, "_PART", 3)
    row, day = made(store, retention=1.0), 86_400_000_000
    for number in range(10):
        store.clock.now(0, row.time + (0 if number < 6 else day))
        stored(store, row.id, decision(f"d{number}"), reward(f"d{number}"), reward(f"early{number}"))
    store.clock.now(0, row.time + 3 * day)
    assert erasure.purge_part(store, store.bandit("shop")) == 3
    store.put_bandit("shop", lambda before: changed(before, {"retention": retention}))
    purge(store, row)
    assert kinds(store, row.id).count("decision") == left
    assert kinds(store, row.id).count("reward") == left + (4 if left == 4 else 10)
    oldest = next(entry for entry in store.entries(row.id, 0, 99) if entry.kind == "decision")
    told = msgspec.json.decode(store.last_entry(row.id, ["erasure"], 1 << 62).body)
    assert told["decisions"] == 10 - left
    assert store.bandit("shop").purged == told["before"] == oldest.time
    assert purge(store, store.bandit("shop")) == 0
    assert kinds(store, row.id).count("erasure") == 1
    # It can be set again.
    store.put_bandit("shop", lambda before: changed(before, {"retention": 1.0}))
    assert purge(store, store.bandit("shop")) == left
    assert [each for each in kinds(store, row.id) if each != "config"] == ["erasure", "erasure"]


def test_a_decision_stays_until_its_wait_is_over(store):
    row, day = made(store, retention=1.0), 86_400_000_000
    stored(store, row.id, decision("gone"), decision("long", wait=3 * day), decision("never", wait=None))
    stored(
        store,
        row.id,
        NewEvent("e", ["top", "side"]),
        *(decision(f"e#{x}", wait=None) for x in ("top", "side")),
    )
    stored(store, row.id, decision("late", wait=None))
    stored(
        store,
        row.id,
        NewActivation("late", 3 * day),
        *(NewActivation(f"e#{x}", 3 * day) for x in ("top", "side")),
    )
    stored(store, row.id, reward("e#top"), NewEvent("old", ["top"]), decision("old#top"))

    def left():
        entries = store.entries(row.id, 0, 99)
        return {each.decision for each in entries if each.kind in ("decision", "event", "reward")} - {"new"}

    store.clock.now(0, row.time + 2 * day)
    stored(store, row.id, decision("new", wait=9 * day))
    assert purge(store, store.bandit("shop")) == 3
    assert left() == {"long", "e", "e#top", "e#side", "late"}
    assert purge(store, store.bandit("shop")) == 0
    assert stored(store, row.id, reward("late"))[0].status == "counted"
    assert stored(store, row.id, decision("late"))[0].repeated
    store.clock.now(0, row.time + 4 * day)
    assert purge(store, store.bandit("shop")) == 4
    assert left() == set()
    told = [
        msgspec.json.decode(each.body)["decisions"] for each in store.entries(row.id, 0, 99, kind="erasure")
    ]
    assert told == [3, 4]


def counts(store, bandit):
    sql = "SELECT count(*) FROM {} WHERE bandit = ?"
    return [store.rows(sql.format(table), (bandit,))[0][0] for table in ("entries", "models", "jobs")]


def test_a_deleted_bandit_goes_in_parts_and_is_gone_at_once(store, monkeypatch):
    monkeypatch.setattr(erasure, "_PART", 3)
    row, other = made(store, retention=1.0), made(store, "other")
    for number in range(10):
        stored(store, row.id, decision(f"d{number}"))
    stored(store, other.id, decision("d0"))
    learner = Learner(store)
    learner._round()  # it has looked for old decisions, and will not do so again for a while
    job = "INSERT INTO jobs (id, bandit, state, created, request) VALUES ('j', ?, 'done', 0, '')"
    store.write(lambda connection: connection.rows(job, (row.id,)))
    with store.session() as connection:
        for place in (1, 2):
            models.checkpoint(store, connection, row.id, b"", place, {})
    before, kept = counts(store, row.id), counts(store, other.id)
    assert before[0] >= 11
    assert min(before) > 0
    assert store.delete_bandit("shop")
    assert counts(store, row.id) == before, "not in the transaction of the request"
    new = made(store)
    assert not stored(store, new.id, decision("d0"))[0].repeated
    assert [each["id"] for each in records(store, store.bandit("shop"))[0]] == ["d0"]
    write, parts = store.write, []

    def counted(work):
        left = sum(counts(store, row.id))
        done = write(work)
        parts.append(left - sum(counts(store, row.id)))
        return done

    monkeypatch.setattr(store, "write", counted)
    while erasure.deleted(store):
        learner._round()
    assert counts(store, row.id) == [0, 0, 0]
    assert max(parts) == 3
    assert counts(store, other.id)[0] >= kept[0]
    assert [each["id"] for each in records(store, store.bandit("shop"))[0]] == ["d0"]
    learner._finish()


def test_what_goes_while_the_log_is_read_is_left_out(store, monkeypatch):
    row, about = made(store), store.about
    stored(store, row.id, *(decision(each) for each in "abc"), reward("b"))

    def late(*given):
        erasure.erase(store, row.id, ids=["b"])
        sql = "DELETE FROM entries WHERE decision = 'a'"
        store.write(lambda connection: connection.rows(sql))
        return about(*given)

    monkeypatch.setattr(store, "about", late)
    assert [each["id"] for each in records(store, row)[0]] == ["c"]
