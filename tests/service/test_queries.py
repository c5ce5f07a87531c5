from service.test_fold import Shop

from treebandit.service import queries


def test_what_the_dashboard_reads(store):
    shop = Shop(store)
    for number in range(10):
        shop.decide(f"d{number}", arm=number % 2)
        if number < 4:
            shop.reward(f"d{number}", float(number))
    span = (0, 1 << 60)
    buckets = queries.rewards_over_time(store, shop.now, *span, 1 << 59)
    assert sum(each.decisions for each in buckets) == 10
    assert sum(each.rewards for each in buckets) == 4
    assert sum(each.total for each in buckets) == 6.0
    assert sum(each.squares for each in buckets) == 14.0
    arms = {each.arm: each for each in queries.arms(store, shop.now, *span)}
    assert (arms["a"].decisions, arms["b"].total) == (5, 4.0)
    assert len(queries.delays(store, shop.now, *span)) == 4
    assert queries.probabilities(store, shop.now, *span, 1 << 59)[0][1:] == (0.5, 10)
    assert queries.versions(store, shop.now) == []
    assert queries.counts(store, shop.now) == {"config": 1, "decision": 10, "reward": 4}
