import math

import numpy as np
import pytest
from playing import SMALL, make_agent, play

from treebandit import (
    TETS,
    TEUCB,
    ExtraTrees,
    HistogramForest,
    LightGBMTrees,
    RandomForestTrees,
    TopK,
    XGBoostTrees,
    play_round,
)
from treebandit.core import Candidates, Columns
from treebandit.environments import Classification
from treebandit.errors import NotFittedError, ParameterError, SavedFileError


def leaf_sums(agent, contexts, arms):
    """μ, σ² and c of Algorithm 1, lines 10 to 18, from the leaf table, one leaf at a time."""
    leaves = agent.model.leaves
    features = np.column_stack((arms, contexts)).astype(np.float32)
    sums = []
    for reached in leaves.forest.find_leaves(features):
        mean, variance, count = leaves.forest.base, 0.0, 0.0
        for leaf in reached:
            output, spread, c, _ = leaves.table[leaf]
            mean, variance, count = mean + output, variance + spread, count + c
        scale = agent.model.scale
        sums.append((scale.mean + scale.deviation * mean, scale.deviation**2 * variance, count))
    return np.array(sums).T


@pytest.mark.parametrize("bonus", ["printed", "undivided"])
def test_teucb_follows_algorithm_1(small_trees, bonus):
    agent = make_agent(TEUCB, small_trees, exploration=2.0, bonus=bonus)
    play(agent, 80)
    contexts, arms = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32), np.arange(6) % 2
    mean, variance, count = leaf_sums(agent, contexts, arms)
    scores = agent.score(Candidates(contexts, arms, Columns.numeric(4)))
    t = agent.clock
    assert t == 81
    divisor = count if bonus == "printed" else 1.0
    np.testing.assert_allclose(scores, mean + np.sqrt(4.0 * variance * math.log(t - 1) / divisor), rtol=1e-9)


@pytest.mark.parametrize("sampling", ["candidates", "leaves"])
def test_tets_draws_from_the_normal_of_algorithm_1(small_trees, sampling):
    agent = make_agent(TETS, small_trees, exploration=0.5, sampling=sampling)
    play(agent, 80)
    contexts, arms = np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32), np.arange(4) % 2
    mean, variance, _ = leaf_sums(agent, contexts, arms)
    candidates = Candidates(contexts, arms, Columns.numeric(4))
    draws = np.array([agent.score(candidates) for _ in range(4000)])
    deviation = 0.5 * np.sqrt(variance)
    assert (np.abs(draws.mean(0) - mean) <= 5 * deviation / math.sqrt(4000) + 1e-9).all()
    np.testing.assert_allclose(draws.std(0), deviation, rtol=0.08)


def test_leaf_sampling_gives_equal_draws_where_leaves_are_equal():
    agent = make_agent(TETS, sampling="leaves")
    play(agent, 60)
    row = np.ones((1, 4), np.float32)
    twins = Candidates(np.repeat(row, 2, axis=0), np.array([1, 1]), Columns.numeric(4))
    first, second = agent.score(twins)
    assert first == second
    assert agent.score(twins)[0] != first


def test_greedy_with_exploration_0(kind):
    agent = make_agent(kind, exploration=0.0)
    play(agent, 60)
    candidates = Candidates(np.ones((2, 4), np.float32), np.array([0, 1]), Columns.numeric(4))
    np.testing.assert_array_equal(agent.score(candidates), agent.estimate(candidates).mean)


@pytest.mark.parametrize(
    "trees",
    [
        XGBoostTrees(**SMALL),
        RandomForestTrees(**SMALL),
        ExtraTrees(**SMALL),
        LightGBMTrees(**SMALL),
        LightGBMTrees(**SMALL, mode="forest"),
    ],
)
def test_every_tree_library_learns_which_arm_is_better(kind, trees):
    agent = make_agent(kind, trees, seed=3)
    play(agent, 500, seed=0)
    random = np.random.default_rng(9)
    rows = random.normal(size=(100, 4)).astype(np.float32)
    best = [agent.estimate(x[None].repeat(2, 0), arms=[0, 1]).mean.argmax() for x in rows]
    assert np.mean(best == (rows[:, 0] > 0)) > 0.75


class TestRandomStart:
    def first_choices(self, agent, rounds, arms=(0, 1, 2)):
        return play(agent, rounds, arms=arms)

    def test_per_arm_counts_rounds_times_arms(self):
        agent = make_agent(random_rounds=4)
        self.first_choices(agent, 11)
        assert agent.start_rounds == 12
        assert agent.model.leaves is None
        self.first_choices(agent, 1)
        assert agent.model.leaves is not None

    def test_rounds_counts_rounds(self):
        agent = make_agent(random_rounds=5, random_start="rounds")
        self.first_choices(agent, 4)
        assert agent.model.leaves is None
        self.first_choices(agent, 1)
        assert agent.model.leaves is not None

    def test_in_turn_plays_each_arm_equally_often(self):
        agent = make_agent(random_rounds=4, random_start="in_turn")
        choices = self.first_choices(agent, 12)
        assert np.bincount(choices).tolist() == [4, 4, 4]

    def test_random_choices_are_uniform(self):
        counts = np.zeros(3)
        for seed in range(40):
            agent = make_agent(random_rounds=20, seed=seed)
            counts += np.bincount(self.first_choices(agent, 30), minlength=3)
        assert (np.abs(counts / counts.sum() - 1 / 3) < 0.05).all()

    def test_without_rewards_the_start_goes_on(self):
        agent = make_agent(random_rounds=1)
        for _ in range(50):
            agent.choose(np.ones(4), arms=[0, 1])
        assert agent.model.leaves is None
        with pytest.raises(
            NotFittedError, match="in round 50; learn rewards after the random start of 2 rounds"
        ):
            agent.estimate(np.ones((2, 4)), arms=[0, 1])
        with pytest.raises(NotFittedError, match="in round 0; learn rewards first"):
            make_agent().estimate(np.ones((2, 4)), arms=[0, 1])


class TestRebuild:
    def rebuild_rounds(self, **arguments):
        agent, rounds, random = make_agent(random_rounds=2, **arguments), [], np.random.default_rng(0)
        forest = None
        for t in range(1, 61):
            row = agent.choose(np.ones(4), arms=[0, 1])
            agent.learn(random.normal(size=4), random.random(), arms=row)
            if agent.model.leaves is not None and agent.model.leaves.forest is not forest:
                forest = agent.model.leaves.forest
                rounds.append(t + 1)
        return rounds

    def test_when_8_ln_t_grows(self):
        levels = {t: math.ceil(8 * math.log(t)) for t in range(1, 70)}
        grown = [t for t in range(6, 62) if levels[t] > levels[t - 1]]
        assert self.rebuild_rounds() == [5, *grown]

    def test_every_k(self):
        assert self.rebuild_rounds(rebuild="every 20") == [5, 20, 40, 60]

    def test_never_means_once(self):
        assert self.rebuild_rounds(rebuild="never") == [5]

    def test_a_path_of_many_rows_is_one_round(self):
        agent = make_agent(random_rounds=2, random_start="rounds", rebuild="every 10")
        builds, forest = [], None
        for t in range(1, 25):
            rows = agent.choose(np.random.default_rng(t).normal(size=(20, 4)), oracle=TopK(7))
            agent.learn(np.ones((7, 4)), np.arange(7.0))
            assert len(rows) == 7
            if agent.model.leaves is not None and agent.model.leaves.forest is not forest:
                forest = agent.model.leaves.forest
                builds.append(t + 1)
        assert builds == [3, 10, 20]

    def test_a_late_batch_is_taken_in_at_once(self):
        agent = make_agent(random_rounds=2)
        play(agent, 200, learn_each=100)
        assert len(agent.model.history) == 200
        assert agent.clock == 200

    def test_rows_learned_before_the_first_decision_count_one_round_each(self):
        agent = make_agent(random_rounds=10)
        random = np.random.default_rng(0)
        x, arms = random.normal(size=(500, 4)), random.integers(0, 3, 500)
        agent.learn(x, (x[:, 0] > 0) == (arms == 1), arms=arms)
        assert agent.clock == 500
        assert agent.start_rounds == 30
        assert agent.model.leaves is not None
        agent.choose(np.ones(4), arms=[0, 1, 2])
        assert agent.clock == 501


def test_between_rebuilds_leaves_take_in_each_row():
    agent = make_agent(rebuild="never")
    play(agent, 30)
    before = agent.estimate(np.ones((1, 4)), arms=[1])
    for _ in range(40):
        agent.learn(np.ones(4), 5.0, arms=[1])
    after = agent.estimate(np.ones((1, 4)), arms=[1])
    assert after.mean[0] > before.mean[0] + 1
    assert after.count[0] == before.count[0] + 40 * agent.trees.n_trees


@pytest.mark.parametrize("statistics", ["all", "held_out", "out_of_bag"])
@pytest.mark.parametrize("leaf_output", ["library", "average"])
def test_every_source_of_statistics_plays(kind, statistics, leaf_output):
    agent = make_agent(kind, RandomForestTrees(**SMALL), statistics=statistics, leaf_output=leaf_output)
    play(agent, 120)
    estimate = agent.estimate(np.random.default_rng(0).normal(size=(5, 4)), arms=np.arange(5) % 2)
    assert np.isfinite(estimate.mean).all()
    assert (estimate.variance >= 0).all()
    assert (estimate.count > 0).all()


@pytest.mark.parametrize("statistics", ["all", "held_out", "out_of_bag"])
def test_calibrated_variances_cover_the_means_of_arms_between_rebuilds_too(statistics):
    """Two arms, rows of which come in batches; leaf variances hold far fewer means than they say."""
    agent, plain = (
        make_agent(
            TETS, HistogramForest(n_trees=40), variance=variance, statistics=statistics, rebuild="every 3"
        )
        for variance in ("calibrated", "leaf")
    )
    random = np.random.default_rng(0)
    rows, arms = random.uniform(-1, 1, (1500, 4)).astype(np.float32), random.integers(0, 2, 1500)
    mean = np.where(arms == 1, np.sin(3 * rows[:, 0]), rows[:, 1])
    rewards = mean + 0.5 * random.standard_normal(1500)
    for start in range(0, 1000, 125):
        batch = slice(start, start + 125)
        for each in (agent, plain):
            each.learn(rows[batch], rewards[batch], arms=arms[batch])
    held = {}
    for each in (agent, plain):
        estimate = each.estimate(rows[1000:], arms=arms[1000:])
        held[each.variance] = np.mean(
            np.abs(estimate.mean - mean[1000:]) <= 1.96 * np.sqrt(estimate.variance)
        )
    assert held["leaf"] < 0.7
    assert 0.85 < held["calibrated"] <= 1.0


def test_saved_trees_that_are_not_as_the_agent_says_are_refused():
    agents = [
        make_agent(TETS, HistogramForest(**SMALL), variance=variance) for variance in ("leaf", "calibrated")
    ]
    for agent in agents:
        play(agent, 40)
    states = [agent.model.state() for agent in agents]
    for agent, other in zip(agents, reversed(states), strict=True):
        with pytest.raises(SavedFileError, match="the saved trees do not fit variance="):
            agent.model.restore(other)


def test_out_of_bag_counts_about_a_third_of_all_rows():
    counts = {}
    for statistics in ("all", "out_of_bag"):
        agent = make_agent(TEUCB, RandomForestTrees(n_trees=40), statistics=statistics, rebuild="never")
        random = np.random.default_rng(0)
        agent.learn(random.normal(size=(300, 4)), random.random(300), arms=random.integers(0, 2, 300))
        table = agent.model.leaves.table
        counts[statistics] = table[:, 2].sum()
    assert counts["all"] == 300 * 40
    assert 0.3 < counts["out_of_bag"] / counts["all"] < 0.44


def test_held_out_rows_are_kept_away_from_the_trees():
    class Recorder:
        def __init__(self):
            self.seen = []

        def fit(self, features, targets, *, seed):
            self.seen.append(features.copy())
            return XGBoostTrees(**SMALL).fit(features, targets, seed=seed)

    recorder = Recorder()
    agent = make_agent(TEUCB, recorder, statistics="held_out", held_out_share=0.3, rebuild="never")
    random = np.random.default_rng(0)
    agent.learn(random.normal(size=(100, 4)), random.random(100), arms=random.integers(0, 2, 100))
    assert len(recorder.seen[0]) == 70
    assert agent.model.leaves.table[:, 2].sum() == 30 * SMALL["n_trees"]


def test_out_of_bag_needs_a_bootstrap_and_says_so_at_once(kind):
    whole = HistogramForest(bootstrap=False), RandomForestTrees(bootstrap=False)
    for trees in (XGBoostTrees(), LightGBMTrees(mode="forest"), ExtraTrees(), *whole):
        with pytest.raises(ParameterError, match="each of whose trees sees all rows"):
            make_agent(kind, trees, statistics="out_of_bag")
    for trees in (HistogramForest(subsample=0.5, bootstrap=False), ExtraTrees(bootstrap=True, **SMALL)):
        play(make_agent(kind, trees, statistics="out_of_bag"), 30)


def test_out_of_bag_with_a_learner_of_ones_own_is_told_when_it_fits(kind):
    class Boosting:
        def fit(self, features, targets, *, seed):
            return XGBoostTrees(**SMALL).fit(features, targets, seed=seed)

    agent = make_agent(kind, Boosting(), statistics="out_of_bag")
    with pytest.raises(ParameterError, match="out-of-bag"):
        play(agent, 30)


def test_candidates_may_change_from_round_to_round_and_arms_may_be_new(kind):
    agent = make_agent(kind, random_start="rounds")
    random = np.random.default_rng(0)
    for t in range(80):
        arms = random.integers(0, 5 + t, size=random.integers(1, 9))
        row = agent.choose(random.normal(size=(len(arms), 4)), arms=arms)
        agent.learn(random.normal(size=4), random.normal(), arms=arms[row])
    assert len(agent.choose(np.ones((1, 4)), arms=[10_000])) == 1


def test_arms_may_be_names(kind):
    agent = make_agent(kind)
    random = np.random.default_rng(3)
    for _ in range(200):
        x = random.normal(size=3)
        row = agent.choose(x, arms=["red", "green"])
        agent.learn(x, float((x[0] > 0) == (row[0] == 0)), arms=[["red", "green"][row[0]]])
    red, green = agent.estimate([[2.0, 0, 0], [2.0, 0, 0]], arms=["red", "green"]).mean
    assert red > green
    assert len(agent.choose(x, arms=["red", "green", "blue"])) == 1


def test_the_same_seed_gives_the_same_choices(kind):
    assert play(make_agent(kind), 100) == play(make_agent(kind), 100)
    assert play(make_agent(kind), 100) != play(make_agent(kind, seed=2), 100)


@pytest.mark.parametrize("categories", ["codes", "one_hot"])
def test_learns_a_table_of_categories(kind, categories):
    agent = make_agent(kind, XGBoostTrees(n_trees=30, max_depth=6), categories=categories)
    environment = Classification("mushroom", seed=0)
    regret = sum(play_round(agent, environment)[1].regret for _ in range(600))
    assert regret < 120


@pytest.mark.parametrize(
    "arguments",
    [
        {"exploration": -1.0},
        {"exploration": math.nan},
        {"random_rounds": -1},
        {"random_start": "later"},
        {"rebuild": "sometimes"},
        {"arm_encoding": "number"},
        {"categories": "dummies"},
        {"leaf_output": "median"},
        {"statistics": "some"},
        {"held_out_share": 1.0},
        {"variance": "wide"},
        {"trees": "xgboost"},
    ],
)
def test_bad_arguments_are_named(kind, arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments)).replace("rebuild", "rebuild schedule")):
        kind(**arguments)


def test_bad_rules_are_named():
    with pytest.raises(ParameterError, match="bonus is 'double'; give one of printed, undivided"):
        TEUCB(bonus="double")
    with pytest.raises(ParameterError, match="sampling is 'twice'; give one of candidates, leaves"):
        TETS(sampling="twice")
