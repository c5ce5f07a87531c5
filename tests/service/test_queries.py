"""The dashboard's queries against a slow reference: a loop over the entries of a small log."""

import numpy as np
import pytest
from service.shop import SECOND, Shop

from treebandit.service import erasure, export, queries
from treebandit.service.config import changed
from treebandit.service.outcomes import outcome
from treebandit.service.queries import Window

ALL = Window(0, 1 << 60)


def busy_shop(store, **settings):
    """Decisions with rewards in time, several, late, early, none; deferred ones, erased ones, waits over and not."""
    shop = Shop(store, **settings)
    chance = np.random.default_rng(1)
    for number in range(60):
        id, deferred = f"d{number}", number % 7 == 0
        if number % 11 == 0:
            shop.reward(id, 5.0)
        shop.decide(id, arm=int(chance.integers(3)), deferred=deferred)
        if deferred and number % 2:
            shop.activate(id)
        for _ in range(int(chance.integers(3))):
            shop.reward(id, float(chance.normal()))
        if number % 10 == 9:
            shop.wait(4)
            shop.reward(f"d{number - 9}", 100.0)
            shop.reward(f"d{number - 1}", 2.0)
    erasure.erase(store, shop.row.id, ids=["d3", "d41"])
    return shop


def reference(store, row, since, step):
    """Cells by reading everything: (bucket, holdout, arm) -> decisions, answered, final, sums of powers."""
    found = {}
    for entry in store.entries(row.id, 0, 10_000, "decision"):
        about = store.about(row.id, [entry.decision])[entry.decision]
        if not entry.body:
            continue
        arm = store.rows("SELECT arm FROM entries WHERE bandit = ? AND place = ?", (row.id, entry.place))[0][
            0
        ]
        value, _ = outcome(about)
        due = entry.due or next((each.due for each in about if each.kind == "activation"), None)
        over = due is not None and due <= row.closed_until
        default = row.config.reward_default
        reward = None
        if over:
            reward = default if value is None else value
        elif default is None and row.config.aggregation == "first":
            reward = value
        cell = found.setdefault(
            ((entry.time - since) // step, entry.holdout, arm), [0, 0, 0, 0.0, 0.0, 0.0, 0.0]
        )
        cell[0] += 1
        cell[1] += value is not None
        if reward is not None:
            cell[2] += 1
            for power in (1, 2, 3, 4):
                cell[2 + power] += reward**power
    return found


@pytest.mark.parametrize("aggregation", ["first", "last", "sum", "mean"])
@pytest.mark.parametrize("default", [0.0, -1.0, None])
def test_cells_are_those_of_a_loop_over_the_log(store, aggregation, default):
    shop = busy_shop(store, aggregation=aggregation, reward_default=default)
    seen, capped = queries.window(store, shop.now, *ALL, 1000)
    assert not capped
    step = 3 * SECOND
    expected = reference(store, shop.now, seen.since, step)
    found = {each[:3]: each for each in queries.cells(store, shop.now, seen, step)}
    assert found.keys() == expected.keys()
    for key, cell in expected.items():
        each = found[key]
        got = (each.decisions, each.answered, each.final, each.total, each.squares, each.cubes, each.fourths)
        assert got == pytest.approx(tuple(cell))
    assert sum(each.probability for each in found.values()) == pytest.approx(0.5 * 58)


@pytest.mark.parametrize("aggregation", ["first", "sum"])
def test_early_rewards_count_what_their_decision_makes_of_them(store, aggregation):
    shop = Shop(store, aggregation=aggregation, wait=10.0)
    shop.reward("a", [1.0, 2.0, 3.0])
    shop.decide("a")
    shop.reward("a", 4.0, key="again")
    shop.reward("b", 1.0)
    shop.decide("b", chosen=[0, 1])
    shop.wait(11)
    cells = queries.cells(store, shop.now, ALL, 1 << 61)
    assert sum(each.total for each in cells) == 4.0 + 2.0


def test_delays_sample_and_counts(store):
    shop = busy_shop(store, aggregation="first")
    row = shop.now
    delays = queries.delays(store, row, ALL)
    expected = []
    for entry in store.entries(row.id, 0, 10_000, "decision"):
        about = store.about(row.id, [entry.decision])[entry.decision]
        came = [each.time for each in about if each.kind == "reward"]
        due = entry.due or next((each.due for each in about if each.kind == "activation"), None)
        if came and entry.body:
            expected.append((max(0, min(came) - entry.time), due is not None and min(came) < due))
    assert sorted(map(tuple, delays)) == sorted(expected)
    assert any(not each.counted for each in delays)
    assert len(list(queries.sample(store, row, ALL, 1))) == 58
    thinned = list(queries.sample(store, row, ALL, 5))
    assert 10 <= len(thinned) <= 12
    assert [each.time for each in thinned] == sorted(each.time for each in thinned)
    assert queries.decided_between(store, row, ALL) == 58  # two are erased
    assert queries.last_time(store, row, "reward") == max(
        each.time for each in store.entries(row.id, 0, 10_000, "reward")
    )
    assert queries.last_time(store, row, "publish") is None
    assert queries.versions(store, row) == []
    entries = store.entries(row.id, 0, 10_000)
    due = [each.due for each in entries if each.due is not None and each.decision not in ("d3", "d41")]
    assert queries.awaiting(store, row, ALL) == sum(each > row.closed_until for each in due) > 0


def test_erased_decisions_do_not_wait_for_their_reward(store):
    shop = Shop(store)
    for id in ("at once", "erased at once"):
        shop.decide(id)
    for id in ("activated", "erased after activation", "not activated"):
        shop.decide(id, deferred=True)
    for id in ("activated", "erased after activation"):
        shop.activate(id)
    assert queries.awaiting(store, shop.now, ALL) == 4
    erasure.erase(store, shop.row.id, ids=["erased at once", "erased after activation"])
    assert queries.awaiting(store, shop.now, ALL) == 2


def test_rewards_whose_powers_are_too_small_for_a_float_are_counted(store):
    """PostgreSQL refuses to round such a product to 0."""
    shop = Shop(store, wait=1.0)
    for number, value in enumerate((1e-90, -1e-170, 5e-324, 1e30)):
        shop.decide(f"d{number}")
        shop.reward(f"d{number}", value)
    shop.wait(2)
    (cell,) = queries.cells(store, shop.now, ALL, 1 << 59)
    assert (cell.final, cell.total, cell.fourths) == (4, 1e30, pytest.approx(1e120))


def test_a_window_holds_no_more_than_it_may(store):
    shop = busy_shop(store)
    times = [each.time for each in store.entries(shop.row.id, 0, 10_000, "decision")]
    seen, capped = queries.window(store, shop.now, *ALL, 20)
    assert capped
    assert queries.decided_between(store, shop.now, seen) <= 20
    assert queries.window(store, shop.now, times[30], 1 << 60, 100)[0].since == times[30]
    nothing = queries.window(store, shop.now, 1 << 59, 1 << 60, 100)[0]
    assert queries.cells(store, shop.now, nothing, SECOND) == []
    place = queries.place_before(store, shop.now, 1 << 60, 5)
    assert sum(each.kind == "decision" for each in store.entries(shop.row.id, place, 10_000)) == 5
    assert queries.place_before(store, shop.now, 1 << 60, 100) == 0


def test_a_default_reward_stays_what_it_was_when_the_wait_ended(store):
    shop = Shop(store)

    def rewards():
        found = {each["id"]: each.get("reward") for each in export.records(store, shop.now)[0]}
        cells = queries.cells(store, shop.now, ALL, 1 << 60)
        known = [value for value in found.values() if value is not None]
        assert sum(cell.final for cell in cells) == len(known)
        assert sum(cell.total for cell in cells) == sum(known)
        return found

    wanted = {}
    for default in (0.0, -1.0, 0.5, None, 2.0):
        store.put_bandit("shop", lambda before, new=default: changed(before, {"reward_default": new}))
        assert rewards() == wanted
        shop.decide(f"default {default}")
        shop.wait(20)
        wanted[f"default {default}"] = default
        assert rewards() == wanted
    shop.decide("open")
    store.put_bandit("shop", lambda before: changed(before, {"reward_default": 3.0}))
    assert rewards() == {**wanted, "open": None}
    shop.wait(20)
    assert rewards() == {**wanted, "open": 3.0}
    assert shop.learned() == [0.0, -1.0, 0.5, 2.0, 3.0]


def test_rewards_count_by_the_aggregation_that_their_decision_was_made_under(store):
    shop = Shop(store, reward_default=0.0)
    for number, how in enumerate(("first", "sum", "last", "mean", "first")):
        store.put_bandit("shop", lambda before, how=how: changed(before, {"aggregation": how}))
        shop.decide(f"d{number}")
        for value in (1.0, 3.0, 8.0):
            shop.reward(f"d{number}", value, key=f"{value}")
    shop.wait(11)
    wanted = [1.0, 12.0, 8.0, 4.0, 1.0]
    assert [each["reward"] for each in export.records(store, shop.now)[0]] == wanted
    cells = queries.cells(store, shop.now, ALL, 1 << 60)
    assert sum(cell.total for cell in cells) == sum(wanted)
    assert sum(cell.squares for cell in cells) == sum(value**2 for value in wanted)


def test_a_default_reward_is_earned_by_each_chosen_arm(store):
    shop = Shop(store, reward_default=0.5)
    shop.decide("three", chosen=[2, 0, 1])
    shop.decide("one")
    shop.decide("rewarded", chosen=[0, 1])
    shop.reward("rewarded", 2.0)
    shop.wait(11)
    wanted = {"three": 1.5, "one": 0.5, "rewarded": 4.0}
    assert {each["id"]: each["reward"] for each in export.records(store, shop.now)[0]} == wanted
    cells = queries.cells(store, shop.now, ALL, 1 << 60)
    assert sum(cell.total for cell in cells) == sum(wanted.values())
    assert sum(cell.squares for cell in cells) == sum(value**2 for value in wanted.values())
    assert sum(cell.answered for cell in cells) == 1
