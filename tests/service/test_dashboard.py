"""Headline, alerts and the other parts of the dashboard, on logs made by hand."""

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from service.served import Served
from service.shop import SECOND, Shop

from treebandit.service.config import BanditConfig
from treebandit.service.dashboard import dashboard, lateness
from treebandit.service.dashboard_alerts import Silence, silent
from treebandit.service.dashboard_policies import other_policies
from treebandit.service.dashboard_recent import quantiles
from treebandit.service.dashboard_sums import arm_lines, headline, points
from treebandit.service.entries import DecisionBody, NewDecision, NewReward, RewardBody
from treebandit.service.log import Group
from treebandit.service.queries import Cell, Delay

CONFIG = BanditConfig(holdout=0.5)


def cell(rewards, *, holdout=False, arm="a", bucket=0, decisions=None):
    values = np.asarray(rewards, float)
    count = len(values) if decisions is None else decisions
    return Cell(
        bucket,
        holdout,
        arm,
        count,
        len(values),
        *((values**n).sum() for n in (1, 2, 3, 4)),
        len(values),
        0.5 * count,
    )


def test_the_headline_tells_more_and_less_with_the_interval_of_two_means():
    chance = np.random.default_rng(0)
    high, low = chance.random(400) < 0.5, chance.random(100) < 0.2
    reply = headline([cell(high), cell(low, holdout=True)], CONFIG, 0)
    error = math.sqrt(np.var(high, ddof=1) / 400 + np.var(low, ddof=1) / 100)
    difference = high.mean() - low.mean()
    assert reply.verdict == "more"
    assert reply.title == "The bandit earns more than the holdout"
    found = (reply.difference.mean, reply.difference.low, reply.difference.high)
    assert found == pytest.approx(
        (difference, difference - 1.96 * error, difference + 1.96 * error), abs=1e-4
    )
    assert headline([cell(low), cell(high, holdout=True)], CONFIG, 0).verdict == "less"


def test_the_headline_tells_how_many_rewards_are_missing():
    few = headline([cell([0, 1] * 50), cell([1, 0] * 5, holdout=True)], CONFIG, 7)
    assert (few.verdict, few.missing) == ("unclear", 20)
    assert "20 of the holdout" in few.detail
    assert "7 more wait for their reward" in few.detail
    close = headline([cell([0, 1] * 50 + [1]), cell([1, 0] * 50, holdout=True)], CONFIG, 0)
    assert close.verdict == "unclear"
    assert close.missing > 10_000
    same = headline([cell([1] * 50), cell([1] * 50, holdout=True)], CONFIG, 0)
    assert (same.verdict, same.missing) == ("unclear", None)


@pytest.mark.parametrize("usual", [0.0, 1.0])
@pytest.mark.parametrize(
    ("share", "count"), [(0.003, 3000), (0.01, 1000), (0.03, 400), (0.1, 400), (0.3, 1000)]
)
def test_who_earns_the_same_seldom_seems_to_earn_more_or_less(usual, share, count):
    """Also where a reward other than the usual one is rare, and the holdout small."""
    chance, verdicts = np.random.default_rng(0), Counter()
    for _ in range(400):
        rewards = np.abs(usual - (chance.random(count) < share))
        cells = [cell(rewards[count // 10 :]), cell(rewards[: count // 10], holdout=True)]
        verdicts[headline(cells, CONFIG, 0).verdict] += 1
    assert verdicts["more"] + verdicts["less"] <= 0.08 * 400


def test_rare_rewards_tell_who_earns_more_once_there_are_enough_of_them():
    chance = np.random.default_rng(0)
    bought, not_bought = chance.random(9000) < 0.03, chance.random(1000) < 0.005
    assert headline([cell(bought), cell(not_bought, holdout=True)], CONFIG, 0).verdict == "more"
    few = headline([cell([1] * 3 + [0] * 900), cell([0] * 100, holdout=True)], CONFIG, 0)
    assert (few.verdict, few.missing, few.difference.low) == ("unclear", None, None)
    assert "too few of them differ" in few.detail
    # Rewards that are nearly alike on both sides are compared all the same.
    near = chance.normal(1e6, 1.0, 500)
    assert headline([cell(near + 1), cell(near[:100], holdout=True)], CONFIG, 0).verdict == "more"


@pytest.mark.parametrize("count", [50, 100, 300, 1000])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.99])
def test_intervals_of_arms_and_spans_are_seldom_wrong(share, count):
    """Also where clicks are rare: a few of them do not tell how far rewards deviate."""
    chance, wrong = np.random.default_rng(0), Counter()
    for _ in range(400):
        cells = [cell(chance.random(count) < share)]
        (line,), (point,) = arm_lines(cells, 1), points(cells, 0, 1_000_000, 1)
        for name, mean in (("arm", line.reward), ("span", point.policy)):
            wrong[name] += mean.low is not None and not mean.low <= share <= mean.high
    assert max(wrong.values()) <= 0.08 * 400


def test_rewards_that_tell_enough_have_an_interval():
    def limits(rewards):
        (line,) = arm_lines([cell(rewards)], 1)
        return line.reward.low, line.reward.high

    assert limits([1] * 9 + [0] * 900) == limits([0.1] * 50) == (None, None)
    low, high = limits([1] * 10 + [0] * 990)
    assert 0 < low < 0.01 < high < 0.02
    assert None not in limits(np.random.default_rng(0).normal(5, 1, 100))


def test_spans_are_so_long_that_most_have_an_interval():
    chance = np.random.default_rng(0)
    clicks = [cell(chance.random(300) < 0.03, bucket=bucket) for bucket in range(36)]
    told = points(clicks, 0, 1_000_000, 36)
    assert len(told) == 12
    assert sum(point.policy.low is not None for point in told) >= 11
    sales = [cell(chance.random(300) < 0.5, bucket=bucket) for bucket in range(36)]
    assert len(points([*sales, cell([0] * 300, holdout=True)], 0, 1_000_000, 36)) == 36


def test_a_span_with_far_fewer_rewards_than_usual_has_no_mean():
    full = [cell([0, 1] * 20, bucket=bucket, holdout=side) for bucket in range(3) for side in (False, True)]
    newest = [cell([1], bucket=3, holdout=True), cell([0, 1] * 10, bucket=3)]
    told = points([*full, *newest], 0, 1_000_000, 4)
    assert [point.holdout.mean for point in told] == [0.5, 0.5, 0.5, None]
    assert [point.policy.mean for point in told] == [0.5] * 4
    assert points([cell([1])], 0, 1_000_000, 1)[0].policy.mean == 1.0


def test_the_headline_without_holdout_and_without_decisions():
    assert headline([cell([1, 0])], BanditConfig(), 0).verdict == "no holdout"
    assert headline([], CONFIG, 0).verdict == "no decisions"


class Filled(Shop):
    """A shop whose log is filled with made-up decisions, each with probabilities of its own."""

    def fill(self, count, *, arm=None, reward=None, context=None, sure=0.6, holdout=False, floor=0.01):
        chance, entries, rewards = self.random, [], []
        start = self.now.decisions
        for number in range(start, start + count):
            best = int(chance.integers(3)) if arm is None else arm(number)
            spread = [(1 - sure) / 2] * 3
            spread[best] = sure
            chosen = int(chance.choice(3, p=np.array(spread) / sum(spread)))
            features = {"x": float(chance.normal()), "city": str(chance.choice(["rome", "paris"]))}
            features |= context(number) if context else {}
            body = DecisionBody(features, ["a", "b", "c"], [chosen], spread[chosen], spread)
            entries.append(
                NewDecision(f"d{number}", msgspec.json.encode(body), "abc"[chosen], spread[chosen], 0, holdout,
                            self.row.config.wait_us)
            )  # fmt: skip
            value = None if reward is None else reward(number, "abc"[chosen])
            if value is not None:
                rewards.append(
                    NewReward(f"d{number}", "", value, msgspec.json.encode(RewardBody(value)), True)
                )
        for start in range(0, count, 50):
            self.store.append_now(Group(self.row.id, entries[start : start + 50]))
            ids = {each.id for each in entries[start : start + 50]}
            self.store.append_now(Group(self.row.id, [each for each in rewards if each.decision in ids]))
            self.store.clock.now(0, self.now.time + SECOND // 5)

    def looked(self):
        return dashboard(self.store, self.now, 0, now=max(self.now.time, self.store.clock.now(0)))

    def alerts(self):
        return {each.kind: each for each in self.looked().alerts}


@pytest.fixture
def quiet(tmp_path):
    """SQLite is enough: the queries are tested on both."""
    from treebandit.service.store import Store

    made = Store.open(f"sqlite:///{tmp_path}/store.db")
    yield made
    made.close()


def test_a_steady_shop_has_no_alerts(quiet):
    shop = Filled(quiet, wait=2.0)
    shop.fill(1200, reward=lambda number, arm: float(number % 3 == 0))
    shop.wait(3)
    reply = shop.looked()
    assert reply.alerts == []
    assert reply.decisions == 1200
    assert sum(each.decisions for each in reply.arms) == 1200
    assert sum(each.share for each in reply.arms) == pytest.approx(1)
    assert reply.awaiting == 0
    tried = np.mean([each.not_best for each in reply.exploration])
    assert tried == pytest.approx(0.4, abs=0.06)


def test_an_arm_that_collapses(quiet):
    shop = Filled(quiet, wait=2.0)
    shop.fill(1200, reward=lambda number, arm: float(number % 2 and (arm != "b" or number < 600)))
    shop.wait(3)
    alert = shop.alerts()["arm"]
    assert "The arm b earns 0 per decision" in alert.says
    assert alert.do


def test_features_that_change(quiet):
    shop = Filled(quiet)
    shop.fill(
        1200,
        reward=lambda number, arm: 1.0,
        context=lambda number: {
            "age": float(number > 800) + shop.random.normal() / 10,
            "kind": 1 if number < 800 else "one",
            **({"gone": 1} if number < 800 else {}),
            "steady": number % 5,
        },
    )
    says = " ".join(each.says for each in shop.looked().alerts)
    assert "The feature age has changed" in says
    assert "The feature kind was a number and is now a text" in says
    assert "The feature gone was there in 100% of decisions, and now in 0%" in says
    assert "steady" not in says


def test_rewards_that_stop(quiet):
    shop = Filled(quiet)
    shop.fill(400, reward=lambda number, arm: 1.0)
    assert "rewards" not in shop.alerts()
    shop.fill(100)
    shop.wait(60)
    assert "No reward has come for" in shop.alerts()["rewards"].says
    assert silent(Silence(60, 100, 0.5))
    assert not silent(Silence(60, 100, 0.01))
    assert not silent(Silence(60, 0, 0.9))


def test_the_floor_that_binds(quiet):
    shop = Filled(quiet, floor=0.03)
    shop.fill(300, sure=0.98)
    assert "only the floor of 3.0% tries other arms" in shop.alerts()["floor"].says


def test_features_that_decide(quiet):
    shop = Filled(quiet)
    shop.fill(
        900, arm=lambda number: number % 3, context=lambda number: {"which": "uvw"[number % 3]}, sure=0.9
    )
    first, *others = shop.looked().features
    assert first.feature == "which"
    assert first.share > 0.95
    assert all(each.share < 0.1 for each in others)


def test_other_policies_agree_with_weights_made_by_hand(quiet):
    shop = Filled(quiet, wait=2.0)
    shop.fill(900, reward=lambda number, arm: {"a": 1.0, "b": 0.5, "c": 0.0}[arm], sure=0.5)
    shop.wait(3)
    found = other_policies(quiet, shop.now, ["a", "b", "c"])
    values = {each.policy: each.value for each in found.policies}
    assert found.decisions == 900
    assert values["always a"] == pytest.approx(1.0)
    assert values["always c"] == pytest.approx(0.0)
    assert values["uniform"] == pytest.approx(0.5, abs=0.05)
    shop = Filled(quiet)
    assert other_policies(quiet, shop.now._replace(closed_until=0), ["a"]).problem is not None


def test_warnings_about_other_policies_are_told(quiet):
    shop = Filled(quiet, wait=2.0)
    shop.fill(300, reward=lambda number, arm: number % 2, arm=lambda number: number % 3, sure=1.0)
    shop.wait(3)
    lines = {each.policy: each for each in other_policies(quiet, shop.now, ["a"]).policies}
    assert any("probability 0 in the log" in each for each in lines["uniform"].warnings)
    assert lines["what was done"].warnings == []


def test_lateness_and_quantiles():
    reply = lateness([Delay(500_000, True)] * 9 + [Delay(60 * SECOND, False)])
    assert (reply.rewards, reply.late, reply.median) == (10, 1, 0.5)
    assert sum(count for _, count in reply.bins) == 10
    assert lateness([Delay(0, True)]).rewards == 1
    assert quantiles((1.0, 2.0, math.inf), (50, 50, 0), (0.5, 0.75)) == [1.0, 1.5]
    assert quantiles((1.0, 2.0, math.inf), (0, 0, 5), (0.99,)) == [2.0]


def test_what_the_service_answers(tmp_path):
    with Served(f"sqlite:///{tmp_path}/store.db") as served:
        served.make(wait=0.05, holdout=0.5)
        assert served.call("GET", "/v1/bandits/shop/dashboard")["headline"]["verdict"] == "no decisions"
        served.decide("x")
        served.reward("x")
        reply = served.until(
            lambda: (
                found
                if (found := served.call("GET", "/v1/bandits/shop/dashboard?span=all"))["decisions"]
                else None
            )
        )
        assert reply["name"] == "shop"
        served.call("GET", "/v1/bandits/none/dashboard", status=404)
        served.call("GET", "/v1/bandits/shop/dashboard?span=9", status=400)
        page = served.http.get("/")
        assert page.headers["content-type"].startswith("text/html")
        assert "unsafe" not in page.headers["content-security-policy"]
        for name in ("page.js", "charts.js", "page.css"):
            assert served.http.get(f"/dashboard/{name}").status_code == 200
        served.call("GET", "/dashboard/page.html", status=404)
        served.call("GET", "/dashboard/..%2f..%2fapp.py", status=404)
