"""What the default agent's model makes of how rows come."""

import numpy as np
import pytest

from treebandit import Bandit, HistogramForest
from treebandit.core import Candidates, Columns
from treebandit.models import blend

STAGES = 60
#: What the good road of a stage may take.
TIMES = (5.0, 10.0, 20.0)


def test_where_choices_are_paths_a_tree_sees_a_bounded_number_of_rows():
    model = Bandit(seed=0).model
    assert model._trees(100_000, 2_000).subsample == 16_384 / 100_000
    assert model._trees(10_000, 500) == model._trees(100_000, 100_000) == model.settings.trees


def test_paths_are_learned_by_trees_of_that_many_rows(monkeypatch):
    monkeypatch.setattr(blend, "_MOST_PATH_ROWS", 100)
    fitted, fit_steps = [], HistogramForest.fit_steps

    def noted(self, features, targets, **options):
        fitted.append((len(targets), round(self.subsample * len(targets))))
        return fit_steps(self, features, targets, **options)

    monkeypatch.setattr(HistogramForest, "fit_steps", noted)
    random = np.random.default_rng(0)
    agent = Bandit(seed=0, arm_encoding="none", random_start="rounds", random_rounds=1)
    for _ in range(20):
        rows = random.normal(size=(20, 3)).astype(np.float32)
        agent.choose(rows)
        agent.learn(rows, rows[:, 0].astype(float))
    assert max(fitted)[0] > 200
    assert all(seen == min(round(0.8 * n), 100) for n, seen in fitted)


def drive(agent, *, rounds, closed=10, seed=0):
    """Drive through sixty stages, each with two roads; all roads, those with a jam, and those driven in each round.

    One road of a stage takes 1.3 times as long as the other. Half of the good ones are closed at first, and the first
    drive on three of these takes 25 times as long as expected.
    """
    random = np.random.default_rng(seed)
    arms = np.arange(2 * STAGES)
    good = arms % 2 == np.repeat(random.integers(0, 2, STAGES), 2)
    times = np.repeat(random.choice(TIMES, STAGES), 2) * np.where(good, 1.0, 1.3)
    roads = Candidates(np.column_stack([times, times]).astype(np.float32), arms, Columns.numeric(2))
    new = random.choice(np.flatnonzero(good), STAGES // 2, replace=False)
    jams, taken, chosen = new[:3], np.zeros(len(arms)), []
    for t in range(rounds):
        scores = agent.score(roads).copy()
        if t < closed:
            scores[new] = -np.inf
        path = 2 * np.arange(STAGES) + (scores[1::2] > scores[0::2])
        rewards = -times[path] * (1.0 + 0.3 * random.normal(size=STAGES))
        rewards[(taken[path] == 0.0) & np.isin(path, jams)] *= 25.0
        taken[path] += 1
        agent.learn(roads[path], rewards)
        chosen.append(path)
    return roads, jams, np.array(chosen)


def driver(**arguments):
    return Bandit(seed=0, arm_encoding="none", random_start="rounds", random_rounds=10, **arguments)


@pytest.mark.parametrize("seed", range(3))
def test_one_jam_does_not_close_a_road(seed):
    _, jams, chosen = drive(driver(), rounds=60, seed=seed)
    assert np.isin(chosen[-20:], jams).sum() > 0.9 * 20 * len(jams)


def test_paths_have_units_and_other_choices_do_not():
    agent = driver()
    roads, *_ = drive(agent, rounds=30)
    assert agent.model.encoder.paths
    assert agent.model.encoder.effects.unit[:2].tolist() == [0.0, 0.0]
    single = driver()
    random = np.random.default_rng(0)
    for _ in range(300):
        row = roads[random.integers(0, len(roads), 1)]
        single.score(roads)
        single.learn(row, -row.contexts[:, 0] + random.normal(size=1))
    assert single.model.encoder.many_arms
    assert not single.model.encoder.paths


def test_what_is_drawn_on_paths():
    agent = driver()
    roads, *_ = drive(agent, rounds=60)
    estimate = agent.estimate(roads)
    explained = agent.explain(roads)
    np.testing.assert_allclose(explained.contributions.sum(1), estimate.mean, rtol=1e-6)
    still = agent.model.sample(roads, 100, np.random.default_rng(0), scale=0.0)
    np.testing.assert_allclose(still, np.tile(still[0], (100, 1)))
    drawn = agent.model.sample(roads, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), still[0], atol=0.1)
    sums = agent.model.leaves.leaf_sums(agent.model.encoder(roads.contexts, roads.arms))
    deviations = agent.model.scale.deviation * np.sqrt(sums.variance)
    assert (drawn.std(axis=0) > 2.5 * (1.0 - agent.linear_weight) * deviations).all()


def test_a_copy_saved_on_the_way_drives_on_alike(tmp_path):
    agent = driver()
    drive(agent, rounds=45)
    agent.save(tmp_path / "agent.treebandit")
    again = Bandit.load(tmp_path / "agent.treebandit")
    one, two = (drive(each, rounds=20, closed=0, seed=1)[2] for each in (agent, again))
    np.testing.assert_array_equal(one, two)


def test_without_exploration_paths_are_greedy():
    agent = driver(exploration=0.0, linear_exploration=0.0)
    roads, *_ = drive(agent, rounds=30)
    np.testing.assert_array_equal(agent.score(roads), agent.score(roads))


def test_the_newest_rows_of_each_arm():
    random = np.random.default_rng(0)
    arms = random.integers(0, 30, 500) * 7
    arms[-1] = 1000
    rows, counts = blend._newest(arms, 4)
    found = dict(zip(rows.tolist(), counts.tolist(), strict=True))
    wanted = {}
    for arm in np.unique(arms):
        own = np.flatnonzero(arms == arm)
        wanted |= dict.fromkeys(own[-4:].tolist(), len(own))
    assert found == wanted
