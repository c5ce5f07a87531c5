import asyncio

from service.served import Served

from treebandit.service import demo


def test_the_demo_makes_decisions_and_rewards(tmp_path):
    with Served(f"sqlite:///{tmp_path}/store.db") as served:
        made = asyncio.run(demo.run(served.url, rate=20, seconds=6, seed=1))
        assert made > 20
        log = served.http.get(f"/v1/bandits/{demo.BANDIT}/log", params={"limit": 10_000}).text
        assert '"reward":1.0' in log
        assert '"holdout":true' in log


def test_the_best_arm_depends_on_the_visitor():
    shop = demo.Shop()
    visitors = [shop.visitor() for _ in range(300)]
    best = {max((shop.chance(each, arm), arm) for arm in demo.ARMS)[1] for each in visitors}
    assert len(best) >= 3
