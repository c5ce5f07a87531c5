import logging
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest
from service.replay import state
from service.shop import Shop, play

from treebandit.errors import SavedFileError
from treebandit.service import erasure, models, saved_agents
from treebandit.service import fold as fold_module
from treebandit.service import learner as learner_module
from treebandit.service.config import BanditConfig, changed, checked
from treebandit.service.failures import Failure
from treebandit.service.fold import Fold
from treebandit.service.learner import BanditLearner, Learner
from treebandit.service.outcomes import aggregated


@pytest.fixture
def shop(store):
    return Shop(store)


def test_the_first_reward_counts_at_once_and_once(shop):
    shop.decide("d")
    assert shop.reward("d", 2.0) == "counted"
    assert shop.learned() == [2.0]
    shop.reward("d", 3.0)
    shop.reward("d", 4.0, key="other")
    shop.wait(20)
    assert shop.learned() == [2.0]


def test_the_default_reward_comes_after_the_wait_once(shop):
    shop.decide("d")
    shop.wait(5)
    assert shop.learned() == []
    assert shop.wait(6)
    assert not shop.wait(100)
    assert shop.learned() == [0.0]
    assert shop.reward("d") == "late"
    assert shop.learned() == [0.0]


def test_no_default_where_none_is_set(store):
    shop = Shop(store, reward_default=None)
    shop.decide("d")
    shop.wait(20)
    assert shop.learned() == []


@pytest.mark.parametrize(("how", "value"), [("last", 5.0), ("sum", 9.0), ("mean", 3.0)])
def test_others_count_at_the_end_of_the_wait(sqlite, how, value):
    shop = Shop(sqlite, aggregation=how)
    shop.decide("d")
    for reward in (1.0, 3.0, 5.0):
        assert shop.reward("d", reward) == "counted"
    assert shop.learned() == []
    shop.wait(11)
    shop.reward("d", 100.0)
    assert shop.learned() == [value]


def test_an_early_reward_counts_when_its_decision_comes(shop):
    assert shop.reward("d", 7.0) == "early"
    assert shop.learned() == []
    shop.decide("d")
    assert shop.learned() == [7.0]
    shop.wait(20)
    assert shop.learned() == [7.0]


def test_a_deferred_decision_counts_only_when_activated(shop):
    shop.decide("never", deferred=True)
    shop.reward("never", 1.0)
    shop.decide("before", deferred=True)
    shop.reward("before", 2.0)
    shop.decide("after", deferred=True)
    shop.wait(50)
    assert shop.learned() == []
    shop.activate("before")
    shop.activate("after")
    assert shop.learned() == [2.0]
    assert shop.reward("after", 3.0) == "counted"
    shop.wait(50)
    assert shop.learned() == [2.0, 3.0]


def test_log_only_and_frozen_bandits_learn_nothing(sqlite):
    shop = Shop(sqlite)
    shop.decide("d", mode="log-only")
    shop.reward("d")
    shop.decide("e", mode="apprentice")
    shop.reward("e", 2.0)
    sqlite.put_bandit("shop", lambda before: changed(before, {"learning": False}))
    shop.decide("f")
    shop.reward("f")
    assert shop.learned() == [2.0]


def test_several_chosen_rows_have_one_reward_each_or_share_it(sqlite):
    shop = Shop(sqlite)
    shop.decide("d", chosen=[0, 2])
    shop.reward("d", [1.0, 5.0])
    shop.decide("e", chosen=[1, 2])
    shop.reward("e", 4.0)
    assert shop.learned() == [1.0, 5.0, 4.0, 4.0]


def test_what_the_agent_cannot_take_is_skipped(sqlite):
    shop = Shop(sqlite)
    shop.decide("d", context={"x": 1.0})
    shop.decide("e", context={"x": "text"})
    shop.reward("d")
    shop.reward("e")
    fold = shop.fold()
    assert (fold.rows, fold.skipped) == (1, 1)


def test_a_replay_is_the_same_bit_for_bit(store, tmp_path):
    shop = Shop(store)
    session = store.database.learner_session()
    live = None
    for part in range(4):
        play(shop, 25, 25 * part)
        if part == 2:  # a restart
            live = None
        if live is None:
            live = BanditLearner(store, session, shop.now)
        while live.step():
            pass
        live.publish()
        live.checkpoint()
    place = live.fold.place
    for options in ({"from_checkpoint": True}, {"from_checkpoint": False}):
        again = Fold.at(store, shop.row.id, place, **options)
        assert state(again.agent, tmp_path) == state(live.fold.agent, tmp_path)
        assert again.agent.clock == live.fold.agent.clock
    small = Fold(store, shop.row.id, shop.row.config)
    while small.advance(limit=7, through=place):
        pass
    assert state(small.agent, tmp_path) == state(live.fold.agent, tmp_path)
    session.close()


def test_rolling_back_is_what_was_learned_then(sqlite, tmp_path):
    shop = Shop(sqlite)
    session = sqlite.database.learner_session()
    play(shop, 30)
    learner = BanditLearner(sqlite, session, shop.now)
    learner.publish()
    version = shop.now.version
    before = state(learner.fold.agent, tmp_path)
    play(shop, 30, 30)
    while learner.step():
        pass
    assert state(learner.fold.agent, tmp_path) != before
    models.roll_back(sqlite, shop.row.id, version)
    while learner.step():
        pass
    assert state(learner.fold.agent, tmp_path) == before
    play(shop, 10, 60)
    while learner.step():
        pass
    again = shop.fold(from_checkpoint=False)
    assert state(again.agent, tmp_path) == state(learner.fold.agent, tmp_path)
    session.close()


def learned(store):
    """A shop with a snapshot and a checkpoint of forty decisions, its learner and the learner's session."""
    shop, session = Shop(store), store.database.learner_session()
    play(shop, 40)
    learner = BanditLearner(store, session, shop.now)
    learner.publish()
    learner.checkpoint()
    return shop, learner, session


def test_erased_rows_are_in_no_later_model(store, tmp_path):
    shop, learner, session = learned(store)
    before = learner.fold.rows
    assert erasure.erase(store, shop.row.id, subject="s1") == 10
    place = shop.now.place
    while learner.step():
        pass
    assert learner.fold.rows < before
    again = shop.fold(from_checkpoint=False)
    assert state(again.agent, tmp_path) == state(learner.fold.agent, tmp_path)
    kept = store.rows("SELECT min(place) FROM models WHERE bandit = ?", (shop.row.id,))[0][0]
    assert kept >= place
    session.close()


@pytest.mark.parametrize("during", ["stopped", "starting"])
def test_an_erasure_that_no_learner_has_seen_deletes_the_old_models_too(sqlite, monkeypatch, during):
    shop, _, session = learned(sqlite)
    row, made = shop.now, Fold.at

    def erase():
        monkeypatch.setattr(Fold, "at", made)
        assert erasure.erase(sqlite, shop.row.id, subject="s1") == 10

    if during == "stopped":
        erase()
        row = shop.now
    else:
        monkeypatch.setattr(Fold, "at", lambda *given: erase() or made(*given))
    learner = BanditLearner(sqlite, session, row)
    while learner.step():
        pass
    erased = sqlite.last_entry(shop.row.id, ["erasure"], 1 << 62).place
    kept = sqlite.rows("SELECT kind, place FROM models WHERE bandit = ?", (shop.row.id,))
    assert {kind for kind, _ in kept} == {"snapshot", "checkpoint"}
    assert min(place for _, place in kept) >= erased
    session.close()


def test_a_roll_back_keeps_the_versions_before_it(sqlite):
    shop = Shop(sqlite)
    session = sqlite.database.learner_session()
    play(shop, 20)
    learner = BanditLearner(sqlite, session, shop.now)
    learner.publish()
    models.roll_back(sqlite, shop.row.id, 1)
    while learner.step():
        pass
    assert shop.now.version == 2
    assert models.model(sqlite, shop.row.id, "snapshot", 1) is not None
    session.close()


def test_a_roll_back_whose_kept_state_cannot_be_loaded_is_made_from_the_log(sqlite, tmp_path, monkeypatch):
    shop, learner, session = learned(sqlite)
    before = state(learner.fold.agent, tmp_path)
    play(shop, 5, 100)
    models.roll_back(sqlite, shop.row.id, shop.now.version)
    with monkeypatch.context() as patch:
        patch.setattr(Fold, "_keep_state", lambda fold, place, _: fold._passed.update({place: UNREADABLE}))
        again = shop.fold(from_checkpoint=False)
    assert state(again.agent, tmp_path) == before
    session.close()


UNREADABLE = fold_module._State(b"unreadable", 0, 0, True)


def test_a_roll_back_that_cannot_be_applied_is_skipped_and_named(sqlite, caplog):
    shop = Shop(sqlite)
    session = sqlite.database.learner_session()
    play(shop, 10)
    models.upload(sqlite, shop.row.id, saved_agents.saved_bytes(shop.fold().agent))
    learner = BanditLearner(sqlite, session, shop.now)
    learner.publish()
    play(shop, 10, 10)
    while learner.step():
        pass
    # The version rests on an upload that this treebandit cannot read, and no checkpoint is that old.
    sqlite.write(
        lambda connection: connection.rows(
            "UPDATE models SET data = ? WHERE kind = 'upload'", (b"unreadable",)
        )
    )
    models.roll_back(sqlite, shop.row.id, 1)
    with caplog.at_level(logging.WARNING, "treebandit.learner"):
        while learner.step():
            pass
    assert f"the roll-back to version 1, entry {shop.now.place - 1}" in caplog.text
    rows = learner.fold.rows
    play(shop, 10, 20)
    while learner.step():
        pass
    assert learner.fold.rows > rows
    session.close()


def test_a_snapshot_that_cannot_be_loaded_is_not_published(sqlite, monkeypatch):
    shop, learner, session = learned(sqlite)
    with monkeypatch.context() as patch:
        patch.setattr(saved_agents, "saved_bytes", lambda *_, **__: b"unreadable")
        with pytest.raises(SavedFileError):
            learner.publish()
    assert shop.now.version == 1
    session.close()


def test_a_learner_that_cannot_read_the_newest_snapshot_publishes_another(sqlite):
    shop, learner, session = learned(sqlite)
    assert BanditLearner(sqlite, session, shop.now).published == learner.published > 0
    what = models.Published(version=0, learned=learner.fold.place, t=learner.fold.t)
    models.publish(sqlite, session.connection, shop.row.id, b"unreadable", what)
    BanditLearner(sqlite, session, shop.now).step()
    assert models.newest_readable(sqlite, shop.row.id)[0].version == shop.now.version == 3
    session.close()


@pytest.fixture
def replays(monkeypatch):
    """Counts how often a state is made from the log."""
    made, at = [], Fold.at.__func__
    monkeypatch.setattr(
        Fold, "at", classmethod(lambda *given, **named: made.append(1) or at(*given, **named))
    )
    return made


def erased_and_rolled_back(shop, rounds):
    """Entries that make the state anew, one after the other, each with rows before it; the fold that reads along."""
    live = shop.fold()
    session = shop.store.database.learner_session()
    for number in range(rounds):
        play(shop, 6, 6 * number)
        if number % 3 == 2:
            learned = live.place
            what = models.Published(version=0, learned=learned, t=live.t)
            version = models.publish(shop.store, session.connection, shop.row.id, b"", what)
            play(shop, 2, 1000 + 2 * number)
            models.roll_back(shop.store, shop.row.id, version)
        else:
            erasure.erase(shop.store, shop.row.id, ids=[f"d{6 * number + 1}", f"d{6 * number - 1}"])
        while live.advance():
            pass
    session.close()
    return live


def by_definition(monkeypatch, shop):
    """The state where every erasure and every roll-back reads the log from its beginning."""

    def anew(fold, entry, place):
        before = Fold.at(fold.store, fold.bandit, place, from_checkpoint=False)
        names = ("agent", "offset", "rows", "offered") + ("skipped",) * (entry.kind == "erasure")
        vars(fold).update({name: getattr(before, name) for name in names})

    def rollback(fold, entry, about):
        anew(fold, entry, msgspec.json.decode(entry.body, type=models.RolledBack).learned)

    with monkeypatch.context() as patch:
        patch.setitem(
            fold_module._STEPS, "erasure", lambda fold, entry, _: anew(fold, entry, entry.place - 1)
        )
        patch.setitem(fold_module._STEPS, "rollback", rollback)
        return shop.fold(from_checkpoint=False)


def test_erasures_and_roll_backs_lead_to_what_they_are_defined_by(sqlite, tmp_path, monkeypatch):
    shop = Shop(sqlite)
    live = erased_and_rolled_back(shop, 7)
    wanted = by_definition(monkeypatch, shop)
    again = shop.fold(from_checkpoint=False)
    small = Fold(sqlite, shop.row.id, shop.row.config)
    while small.advance(limit=5, through=live.place):
        pass
    for found in (live, again, small):
        assert state(found.agent, tmp_path) == state(wanted.agent, tmp_path)
        assert {**found.note(), "changed": 0} == {**wanted.note(), "changed": 0}
    assert wanted.rows > 0


def test_each_erasure_and_roll_back_reads_the_log_once(sqlite, replays):
    shop = Shop(sqlite, agent={"class": "LinUCB", "seed": 0})
    erased_and_rolled_back(shop, 12)
    assert len(replays) == 1 + 12  # where they are read as they come
    replays.clear()
    shop.fold(from_checkpoint=False)
    assert len(replays) == 1
    late = Fold(sqlite, shop.row.id, shop.row.config)
    replays.clear()
    while late.advance(limit=1000):
        pass
    assert len(replays) <= 2 + 4  # one for all erasures, and one for each roll-back


def test_what_is_erased_while_another_erasure_is_read_is_forgotten_too(sqlite, monkeypatch):
    shop = Shop(sqlite)
    for number in range(5):
        shop.decide(f"d{number}")
        shop.reward(f"d{number}", float(number))
    live = shop.fold()
    erasure.erase(sqlite, shop.row.id, ids=["d1"])
    for number in range(5, 10):
        shop.decide(f"d{number}")
        shop.reward(f"d{number}", float(number))
    made, erased = Fold.at, []

    def at(*arguments, **settings):
        if not erased:
            erased.append(erasure.erase(sqlite, shop.row.id, ids=["d7"]))
        return made(*arguments, **settings)

    monkeypatch.setattr(Fold, "at", at)
    while live.advance():
        pass
    assert sorted(live.agent.model.history.rewards) == [0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0]


def test_an_erased_first_decision_is_not_in_the_model_either(sqlite, tmp_path):
    shop = Shop(sqlite)
    live = shop.fold()
    shop.decide("d")
    live.advance()
    assert live.offered
    erasure.erase(sqlite, shop.row.id, ids=["d"])
    live.advance()
    assert not live.offered
    assert state(live.agent, tmp_path) == state(shop.fold(from_checkpoint=False).agent, tmp_path)


def test_a_learner_on_its_own_thread(store):
    shop = Shop(store)
    learner, second = Learner(store), Learner(store)
    learner.start()
    second.start()
    play(shop, 60)
    while sum(each.places.get("shop", 0) >= shop.now.place - 1 for each in (learner, second)) < 1:
        learner.wake()
    assert not learner.failures
    learner.stop()
    second.stop()
    assert models.newest(store, shop.row.id, "checkpoint") is not None
    assert shop.now.version > 0
    snapshot = saved_agents.loaded(models.newest(store, shop.row.id, "snapshot").data)
    assert snapshot.decide([{"x": 1.0, "city": "rome"}] * 2, ["a", "b"]).arm in "ab"


def test_a_bandit_that_fails_is_tried_more_and_more_rarely(sqlite, monkeypatch):
    shop, now, tries = Shop(sqlite), [1000.0], []
    other = sqlite.put_bandit("other", lambda _: checked(BanditConfig()))[0]
    play(shop, 10)
    monkeypatch.setattr(learner_module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def fail(learner):
        tries.append(now[0])
        raise SavedFileError("it cannot be saved")

    with monkeypatch.context() as patch:
        patch.setattr(BanditLearner, "publish", fail)
        learner = Learner(sqlite)
        for _ in range(4 * 200):
            learner._round()
            now[0] += 0.25
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert "cannot be saved" in learner.failures[Failure("learner", "shop")]
    # What was learned is kept all the same, and others go on.
    assert models.newest(sqlite, shop.row.id, "checkpoint").place > 10
    assert "other" in learner.places
    now[0] += 60.0
    learner._round()
    assert not learner.failures
    assert shop.now.version == 1
    assert other.version == 0
    learner._finish()


def test_aggregates():
    assert aggregated([1.0, [2.0, 3.0]], "sum") == [3.0, 4.0]
    assert aggregated([[1.0, 3.0], [2.0, 3.0]], "mean") == [1.5, 3.0]
    assert aggregated([1.0, 2.0], "last") == 2.0
