import tempfile
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from service.replay import state
from service.shop import Shop, play

import treebandit
from treebandit.errors import ParameterError, SavedFileError
from treebandit.service import erasure, models, saved_agents
from treebandit.service.api_models import _versions
from treebandit.service.config import BanditConfig, build_agent, changed, checked
from treebandit.service.entries import NewEntry
from treebandit.service.log import Group

ROWS = [{"x": 1.0, "city": "rome"}] * 3


def taught(rows, **more):
    new_columns = more.pop("new_columns", True)
    agent = treebandit.LinUCB(seed=0, new_columns=new_columns)
    agent.learn(rows, [1.0, 2.0, 3.0], **more)
    return agent


UNFIT = {
    "arrays": (lambda: taught(np.zeros((3, 2)), arms=list("aba")), "arrays"),
    "no contexts": (lambda: taught(None, arms=list("aba")), "no contexts"),
    "numbered arms": (lambda: taught(ROWS, arms=[1, 2, 1]), "arms with numbers"),
    "no arms": (lambda: taught(ROWS), "without arms"),
    "fixed columns": (lambda: taught(ROWS, arms=list("aba"), new_columns=False), "no new columns"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_model_that_could_not_decide_is_refused(sqlite, name):
    make, says = UNFIT[name]
    shop = Shop(sqlite)
    with pytest.raises(SavedFileError, match=f"{says}.*new_columns=True"):
        models.upload(sqlite, shop.row.id, saved_agents.saved_bytes(make()))
    assert shop.now.place == shop.row.place
    assert models.newest(sqlite, shop.row.id, "upload") is None


def test_an_uploaded_model_must_decide_the_newest_decision(sqlite):
    shop = Shop(sqlite)
    texts = saved_agents.saved_bytes(taught([{"x": "text"}] * 3, arms=list("aba")))
    models.upload(sqlite, shop.row.id, texts)
    shop.decide("d")
    with pytest.raises(SavedFileError, match=r"the newest decision.*'x'"):
        models.upload(sqlite, shop.row.id, texts)
    numbers = saved_agents.saved_bytes(taught(ROWS, arms=list("xyx")))
    assert models.upload(sqlite, shop.row.id, numbers).place == shop.now.place


def test_models_are_saved_and_loaded_without_scratch_files(monkeypatch, tmp_path):
    """A process that is killed meanwhile would leave them behind, with personal data."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    agent = taught(ROWS, arms=list("aba"))
    for history in (True, False):
        again = saved_agents.loaded(saved_agents.saved_bytes(agent, history=history))
        assert again.estimate(ROWS[:1], ["a"]).mean == agent.estimate(ROWS[:1], ["a"]).mean


def test_models_of_the_store_are_loaded_however_large_and_uploads_are_not(sqlite):
    """A file of a stranger may take 1 GiB of memory, and each byte of its texts counts 64 times."""
    rows = [{"page": f"{number} " + "word " * 250_000} for number in range(14)]
    agent = treebandit.LinUCB(seed=0, new_columns=True)
    agent.learn(rows, [1.0] * 14, arms=list("ab") * 7)
    data = saved_agents.saved_bytes(agent, history=False)
    assert saved_agents.loaded(data).clock == agent.clock
    with pytest.raises(SavedFileError, match="bytes of memory"):
        models.upload(sqlite, Shop(sqlite).row.id, saved_agents.saved_bytes(agent))


def publish(store, bandit, data):
    with store.session() as connection:
        return models.publish(store, connection, bandit, data, models.Published(0, 1, 0))


def test_the_newest_model_that_can_be_read(sqlite):
    bandit = Shop(sqlite).row.id
    assert models.newest_readable(sqlite, bandit) is None
    publish(sqlite, bandit, b"of an older version")
    with pytest.raises(SavedFileError):
        models.newest_readable(sqlite, bandit)
    good = saved_agents.saved_bytes(taught(ROWS, arms=list("aba")), history=False)
    publish(sqlite, bandit, good)
    found, agent, unreadable = models.newest_readable(sqlite, bandit)
    assert (found.version, agent.clock, unreadable) == (2, 3, None)
    publish(sqlite, bandit, b"of a newer version")
    publish(sqlite, bandit, b"the newest")
    found, _, unreadable = models.newest_readable(sqlite, bandit)
    assert (found.version, type(unreadable)) == (2, SavedFileError)
    with pytest.raises(SavedFileError):
        models.newest_readable(sqlite, bandit, above=2)
    assert models.newest_readable(sqlite, bandit, above=4) is None


def test_an_agent_that_could_not_be_published_is_refused(sqlite):
    with pytest.raises(ParameterError, match="exact mode"):
        Shop(sqlite, agent={"class": "TreeBootstrap"})
    shop = Shop(sqlite, agent={"class": "TreeBootstrap", "mode": "replicates"})
    exact = treebandit.TreeBootstrap(seed=0, new_columns=True)
    exact.learn(ROWS, [1.0, 2.0, 3.0], arms=list("aba"))
    with pytest.raises(SavedFileError, match="exact mode"):
        models.upload(sqlite, shop.row.id, saved_agents.saved_bytes(exact))
    assert models.newest(sqlite, shop.row.id, "upload") is None


def test_settings_of_a_bandit_that_was_made_before_its_agent_was_refused_can_change():
    before = BanditConfig(agent={"class": "TreeBootstrap", "seed": 1})
    assert changed(before, {"wait": 5.0}).wait == 5.0


AGENTS = [
    "Bandit",
    "BanditForest",
    "EnsembleSampling",
    "EpsilonGreedy",
    "LinTS",
    "NeuralUCB",
    "TETS",
    "UCB1",
    "Uniform",
]


@pytest.mark.parametrize("name", AGENTS)
def test_agents_that_can_be_published_are_taken(name):
    columns = {} if name == "UCB1" else {"an arm": "category", "x": "number"}
    assert checked(BanditConfig(agent={"class": name}, columns=columns)).agent["class"] == name


def test_an_uploaded_model_that_cannot_be_read_is_passed_over_where_another_was_uploaded(
    sqlite, tmp_path, caplog
):
    """The first is of another version of treebandit; what came between it and the second cannot be made."""
    shop = Shop(sqlite)
    play(shop, 10)
    models.upload(sqlite, shop.row.id, saved_agents.saved_bytes(shop.fold().agent))
    sqlite.write(lambda connection: connection.rows("UPDATE models SET data = ?", (b"unreadable",)))
    place = shop.now.place
    play(shop, 10, 10)
    between = shop.now.place
    with pytest.raises(SavedFileError, match=f"uploaded at entry {place} cannot be read: .* upload it again"):
        shop.fold()
    second = build_agent(shop.row.config)
    models.upload(sqlite, shop.row.id, saved_agents.saved_bytes(second))
    play(shop, 10, 20)
    expected = state(shop.fold().agent, tmp_path)
    body = msgspec.json.encode(models.RolledBack(1, between))
    for erased in ("d12", "d13"):
        sqlite.append_now(Group(shop.row.id, [NewEntry("rollback", body)]))
        assert state(shop.fold().agent, tmp_path) == expected
        assert "is skipped, as its model cannot be made" in caplog.text
        caplog.clear()
        # An erasure in the log: also what reads along makes the model anew.
        live = shop.fold()
        erasure.erase(sqlite, shop.row.id, ids=[erased])
        while live.advance():
            pass
        assert state(live.agent, tmp_path) == expected
    assert shop.fold().rows > 0


def test_of_older_versions_fewer_are_kept_and_all_of_them_are_listed(store):
    shop, session = Shop(store), store.database.learner_session()
    assert models.kept(store, shop.row.id) == {}
    for newest in range(1, 301):
        models.publish(store, session.connection, shop.row.id, b"", models.Published(0, newest, newest))
        ages = [newest - version for version in sorted(models.kept(store, shop.row.id), reverse=True)]
        assert ages[:4] == [0, 1, 2, 3][:newest]
        assert all(older <= 2 * younger for younger, older in pairwise(ages[1:]))
        assert 2 * (ages[-1] + 1) >= newest
    assert len(ages) < 20
    listed = _versions(store, shop.now).versions
    assert [300 - each.version for each in listed if each.kept] == ages
    assert [each.version for each in listed[:100]] == list(range(300, 200, -1))
    assert len(listed) == 100 + sum(age >= 100 for age in ages)
    assert all(each.learned == each.version for each in listed)
    session.close()
