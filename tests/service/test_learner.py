"""The learner of all bandits: what it holds, and what the deletion of one is to the others."""

import pytest

from treebandit.service import erasure, learner
from treebandit.service.config import BanditConfig, checked
from treebandit.service.learner import Learner


def made(store, *names):
    return [store.put_bandit(name, lambda before: checked(BanditConfig()))[0] for name in names]


@pytest.fixture
def learning(store):
    found = Learner(store)
    yield found
    found._finish()


def test_deleted_bandits_are_let_go(store, learning, tmp_path):
    (kept, gone), other = made(store, "kept", "gone"), store.database.learner_session()
    learning._round()
    assert not any(other.hold(each.id) for each in (kept, gone))
    store.delete_bandit("gone")
    while learning._round() or erasure.deleted(store):
        assert not other.hold(gone.id), "it is being deleted"
    learning._round()
    assert [each.name for each in tmp_path.glob("*-learner-*")] in ([], [f"store.db-learner-{kept.id}"])
    assert other.hold(gone.id)
    assert not other.hold(kept.id)
    other.close()


def test_a_bandit_deleted_while_it_is_learned_is_nothing_to_the_others(store, learning, monkeypatch):
    rows = made(store, "first", "second", "third")
    learning._round()
    before, session = dict(learning._learners), learning._session
    close_waits = learner.models.close_waits

    def late(store, connection, bandit):
        if bandit == rows[1].id:
            store.delete_bandit("second")
        return close_waits(store, connection, bandit)

    monkeypatch.setattr(learner.models, "close_waits", late)
    learning._round()
    assert learning._session is session
    assert {id: each for id, each in before.items() if id != rows[1].id} == learning._learners
    assert not learning.failures
