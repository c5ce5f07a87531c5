"""A few of the faults that `faults.py` runs by the dozen."""

import pytest
from service import faults

from treebandit.service.store import Store


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_service_or_the_learner_is_killed(tmp_path):
    reply = faults.kills(f"sqlite:///{tmp_path}/store.db", 1, 3, 1, tmp_path)
    assert reply["decisions"] > 0


@pytest.mark.slow
def test_nor_with_two_replicas_on_postgresql(cluster, tmp_path):
    reply = faults.kills(cluster.new(), 2, 3, 2, tmp_path)
    assert reply["decisions"] > 0


@pytest.mark.slow
def test_a_full_disk_is_a_503_and_goes_by(tmp_path):
    assert faults.full_disk(tmp_path, 3)["decisions"] > 0


@pytest.mark.slow
def test_postgresql_may_be_restarted(tmp_path, cluster):
    own = faults.Cluster(port=cluster.port + 1)
    try:
        assert faults.postgres_restarts(own, 1, 4, tmp_path)["decisions"] > 0
    finally:
        own.remove()


def test_a_clock_that_is_set_back_between_two_starts(tmp_path):
    """The store remembers how late it was."""
    url = f"sqlite:///{tmp_path}/store.db"
    store = Store.open(url)
    from service.test_store import decision, made, stored

    bandit = made(store).id
    tomorrow = store.bandit("shop").time + 86_400_000_000
    store.clock.now(0, tomorrow)
    first = stored(store, bandit, decision("a"))[0]
    store.close()
    again = Store.open(url)  # its wall clock is a day behind what is stored
    second = stored(again, bandit, decision("b"))[0]
    third = stored(again, bandit, decision("c"))[0]
    assert tomorrow <= first.time <= second.time <= third.time
    again.clock.now(0, second.time + 1_000_000)
    assert stored(again, bandit, decision("d"))[0].time >= second.time + 1_000_000
    again.close()


@pytest.mark.parametrize("learner", ["thread", "none"])
def test_a_service_stops_when_it_is_told(tmp_path, learner):
    service = faults.Process(f"sqlite:///{tmp_path}/store.db", learner=learner).wait_ready()
    faults.make_bandit(service.url)
    service.stop()
    assert service.process.returncode in (0, -15)
