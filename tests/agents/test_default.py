from unittest import mock

import numpy as np
import pytest
from playing import play

import treebandit
from treebandit import Bandit, Candidates, Columns, load, play_round
from treebandit.environments import Classification, DescribedArms, Synthetic
from treebandit.errors import ParameterError
from treebandit.models import blend_kernels, linear_scores
from treebandit.models.linear_scores import LinearEncoder
from treebandit.oracles import TopK


def regret(agent, environment, rounds):
    return sum(play_round(agent, environment)[1].regret for _ in range(rounds))


def test_it_is_what_the_package_gives():
    assert treebandit.Bandit is Bandit
    assert repr(treebandit.Bandit()) == repr(Bandit())


def test_linear_scores_help_where_rewards_are_linear():
    def at(**arguments):
        return np.mean(
            [
                regret(
                    Bandit(seed=s, kernel=False, **arguments),
                    Synthetic("linear", rewards="continuous", noise=0.5, seed=s),
                    400,
                )
                for s in range(2)
            ]
        )

    assert at() < 0.6 * at(linear=False)


def test_trees_help_where_rewards_are_not_linear():
    problem = {"problem": "interactions", "arms": 2, "features": 4, "informative": 2}
    ours = regret(Bandit(seed=0), Synthetic(**problem, seed=3), 600)
    chance = regret(treebandit.Uniform(seed=0), Synthetic(**problem, seed=3), 600)
    assert ours < 0.6 * chance


def test_mushroom_is_learned_in_a_few_hundred_rounds():
    assert regret(Bandit(seed=1), Classification("mushroom", seed=1), 600) < 45


def test_estimates_are_right_where_contexts_repeat():
    random = np.random.default_rng(0)
    arms = random.integers(0, 3, 30_000)
    rewards = (random.random(30_000) < np.array([0.2, 0.5, 0.8])[arms]).astype(float)
    agent = Bandit(seed=0)
    agent.learn(np.zeros((30_000, 1)), rewards, arms=arms)
    mean = agent.estimate(np.zeros((3, 1)), arms=[0, 1, 2]).mean
    np.testing.assert_allclose(mean, [rewards[arms == arm].mean() for arm in range(3)], atol=0.01)


def test_estimates_are_right_for_segments_and_offers():
    random = np.random.default_rng(1)
    segments, arms = random.integers(0, 4, 10_000), random.integers(0, 3, 10_000)
    rates = random.uniform(0.1, 0.9, (4, 3))
    rewards = (random.random(10_000) < rates[segments, arms]).astype(float)
    columns = Columns((4,))
    agent = Bandit(seed=0)
    agent.learn(Candidates(segments[:, None].astype(np.float32), arms, columns), rewards)
    grid = Candidates(
        np.repeat(np.arange(4), 3)[:, None].astype(np.float32), np.tile(np.arange(3), 4), columns
    )
    seen = [rewards[(segments == s) & (arms == a)].mean() for s in range(4) for a in range(3)]
    np.testing.assert_allclose(agent.estimate(grid).mean, seen, atol=0.03)


@pytest.mark.parametrize("column", [0, 2])
def test_without_a_linear_model_trees_see_every_column(column):
    features = np.random.default_rng(0).normal(size=(2000, 3))
    agent = Bandit(linear=False, seed=0)
    agent.learn(features, (features[:, column] > 0).astype(float))
    asked = np.zeros((2, 3))
    asked[:, column] = -1.0, 1.0
    np.testing.assert_allclose(agent.estimate(asked).mean, [0.0, 1.0], atol=0.1)


@pytest.mark.parametrize("linear", [True, False])
def test_saved_and_loaded_it_goes_on_alike(tmp_path, linear):
    agent = Bandit(seed=5, linear=linear)
    play(agent, 60)
    agent.save(tmp_path / "agent.treebandit")
    again = Bandit.load(tmp_path / "agent.treebandit")
    assert play(agent, 60, seed=1) == play(again, 60, seed=1)
    rows = np.random.default_rng(2).normal(size=(5, 4))
    for mine, other in zip(
        *(vars_of(a.estimate(rows, arms=[0, 1, 0, 1, 2])) for a in (agent, again)), strict=True
    ):
        np.testing.assert_array_equal(mine, other)


def vars_of(estimate):
    return [estimate.mean, estimate.variance, estimate.count]


def test_described_arms_and_several_slots():
    environment = DescribedArms(30, offered=6, slots=2, seed=0)
    agent = Bandit(seed=0)
    chance = regret(treebandit.Uniform(seed=0), DescribedArms(30, offered=6, slots=2, seed=0), 300)
    assert regret(agent, environment, 300) < 0.7 * chance
    assert len(agent.choose(np.zeros((6, 8)), oracle=TopK(2))) == 2


def played(problem, rounds=400, **arguments):
    agent = Bandit(seed=0, **arguments)
    environment = Synthetic(problem, rewards="continuous", noise=0.3, seed=2)
    for _ in range(rounds):
        play_round(agent, environment)
    return agent, environment.observe().candidates


@pytest.mark.parametrize("boost", [True, False])
@pytest.mark.parametrize("shortfall", [0.0, 0.9, 3.0])
def test_the_score_is_a_blend_and_a_bonus(boost, shortfall):
    agent, candidates = played("linear", exploration=0.0, boost=boost, standardise=False, kernel=False)
    features, scores, leverage, _ = agent.model.encoder.look_up(candidates.contexts, candidates.arms)
    forest = agent.model.leaves.estimate(features).mean
    w, rewards = agent.linear_weight, agent.model.history.rewards
    encoder = agent.model.encoder
    assert 0.0 < w <= 1.0
    arms, width = 4, 9  # eight features and the level
    unlike = encoder.bonus_of(encoder.ridge.reward_sd)
    assert unlike == pytest.approx(np.std(rewards) * np.sqrt(np.log2(arms) / width))
    blend = (1.0 - w) * forest + w * scores
    np.testing.assert_allclose(agent.estimate(candidates).mean, blend, rtol=1e-12)
    bonus = 0.5 * unlike * np.sqrt(leverage / (1.0 + leverage))
    scored = agent.score(candidates)
    if shortfall:
        sd = encoder.ridge.reward_sd
        moments = property(lambda ridge: (blend.max() + shortfall * sd, sd))
        with mock.patch.object(type(encoder.ridge), "reward_moments", moments):
            scored = agent.score(candidates)
        bonus = bonus * (shortfall**2 if boost and shortfall > 1.0 else 1.0)
    like = width / leverage + width
    few = np.log(np.maximum(len(rewards) / arms / 4.0 / like, 1.0))
    np.testing.assert_allclose(scored, blend + bonus + 0.5 * np.std(rewards) * np.sqrt(few / like))


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize(("left_out", "counted"), [(0.0, 0.0), (2.5, 0.0), (2.5, 1.5)])
def test_many_draws_are_blended_like_one(layout, left_out, counted):
    random = np.random.default_rng(0)
    samples, scores = random.normal(size=(40, 3)), random.normal(size=3)
    leverage, rewards = random.random(3), (1.0, 0.4, 1.2)
    expected = samples + 0.3 * (scores - samples)
    missed = (rewards[0] - expected.max(axis=1)) / rewards[1]
    more = np.where(missed > 1.0, missed**2, 1.0)
    assert 0 < (missed > 1.0).sum() < 40
    like, room = 2.0 / leverage + 2.0, rewards[2] - expected.max(axis=1)
    assert 0 < (like < 8.0).sum() < 3
    counts = np.array([1.0, 3.0, 20.0])
    if left_out:
        like = np.clip(like - left_out, 2.0, 2.0 + counts + counted)
    assert (room < 0.0).any()
    assert (room > rewards[1]).any()
    rare = 0.6 * np.clip(room, 0.0, rewards[1])[:, None]
    expected += 0.7 * more[:, None] * np.sqrt(leverage / (1.0 + leverage))
    expected += rare * np.sqrt(np.log(np.maximum(8.0 / like, 1.0)) / like)
    explored = np.array(samples, order=layout)
    bonus = 0.7, 0.6, 8.0, 2.0, left_out, counted
    blend_kernels.explore(explored, scores, (leverage, counts), 0.3, bonus, rewards)
    np.testing.assert_allclose(explored, expected)


@pytest.mark.parametrize(
    ("columns", "most", "weight"), [(1, np.inf, "linear_weight"), (8, 0.0, "kernel_weight")]
)
def test_no_score_is_below_the_least_reward(columns, most, weight):
    random = np.random.default_rng(0)
    agent = Bandit(exploration=0.0, linear_exploration=0.0, seed=0)
    contexts, arms = random.normal(size=(400, columns)).astype(np.float32), np.arange(400) % 2
    rewards = 7.0 + np.minimum(contexts.sum(axis=1), most)
    agent.learn(contexts[:300], rewards[:300], arms=arms[:300])
    for t in range(300, 400):  # which weigh the models
        agent.learn(contexts[t], rewards[t], arms=arms[t : t + 1])
    assert getattr(agent.model, weight) > 0.3
    least = agent.model.history.rewards.min()
    rows = Candidates(np.full((2, columns), -100.0, np.float32), np.arange(2), Columns.numeric(columns))
    assert (agent.estimate(rows).mean < least - 1.0).all()
    assert (agent.score(rows) >= least - 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_an_arm_that_failed_at_first_is_tried_again(seed):
    def lead(failed):
        agent = Bandit(exploration=0.0, seed=seed)
        paid = np.r_[np.random.default_rng(seed).random(2000) < 0.1, np.zeros(failed)]
        contexts = np.arange(len(paid)).reshape(-1, 1) % 2
        agent.learn(contexts, paid, arms=np.repeat([0, 1], [2000, failed]))
        scores = agent.score(Candidates(np.zeros((2, 1), np.float32), np.arange(2), Columns.numeric(1)))
        return scores[1] - scores[0]

    tried, tried_often = lead(3), lead(100)
    assert tried > 0.0 > tried_often
    with mock.patch.object(LinearEncoder, "few_rows", (0.0, 2.0, 0.0, 0.0)):
        assert lead(3) < tried - 0.05
    with mock.patch.object(LinearEncoder, "bonus_of", return_value=0.0):
        assert lead(3) > 0.0


def test_the_weight_is_what_would_have_been_best():
    agent, candidates = played("linear", rounds=60, standardise=False)
    forest, linear, rewards = [], [], []
    agent.model.errors = np.zeros(2)
    random = np.random.default_rng(0)
    for _ in range(5):
        row = candidates[np.array([random.integers(4)])]
        features, scores, *_ = agent.model.encoder.look_up(row.contexts, row.arms)
        forest.append(agent.model.leaves.estimate(features).mean[0])
        linear.append(float(scores[0]))
        rewards.append(random.normal())
        agent.learn(row, np.array(rewards[-1:]))
    assert agent.model.level == agent.model._schedule.level(61)  # no rebuild in between
    f, z, r = (np.array(part) for part in (forest, linear, rewards))
    remembered = 0.999 ** np.arange(4, -1, -1)
    best = (remembered * (r - f) * (z - f)).sum() / (remembered * (z - f) ** 2).sum()
    assert agent.model.errors[0] / agent.model.errors[1] == pytest.approx(best, rel=1e-6)
    assert agent.linear_weight == min(max(agent.model.errors[0] / agent.model.errors[1], 0.0), 1.0)


def test_the_weight_follows_the_problem():
    assert played("linear")[0].linear_weight > 0.7
    assert played("interactions")[0].linear_weight < 0.5
    assert played("linear", blend=False)[0].linear_weight == 0.0
    assert played("linear", linear=False)[0].linear_weight == 0.0


def test_the_bonus_finds_the_good_ones_among_many_arms():
    def at(**arguments):
        return np.mean(
            [regret(Bandit(seed=s, **arguments), Classification("letters", seed=s), 900) for s in range(2)]
        )

    assert at() < at(linear=False)


def test_prior_rows_out_of_range_are_named():
    with pytest.raises(ParameterError, match="prior_rows is -1"):
        Bandit(prior_rows=-1.0)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_linear_exploration_out_of_range_is_named(wrong):
    with pytest.raises(ParameterError, match="linear_exploration is"):
        Bandit(linear_exploration=wrong)


class Articles:
    """100 arms with features that tell half of what they pay, and that many of them share."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.features = random.integers(-1, 2, size=(100, 2)).astype(np.float32)
        self.means = self.features[:, 0] + random.normal(size=100)
        self.random, self.columns = random, Columns.numeric(2)

    def regret(self, agent, rounds):
        total = 0.0
        for _ in range(rounds):
            offered = np.sort(self.random.choice(100, 20, replace=False))
            row = agent.choose(Candidates(self.features[offered], offered, self.columns))[0]
            total += self.means[offered].max() - self.means[offered[row]]
            reward = self.means[offered[row]] + 0.5 * self.random.normal()
            agent.learn(Candidates(self.features[offered[[row]]], offered[[row]], self.columns), [reward])
        return total


def nonlinear(n, arms, seed=0, columns=4):
    random = np.random.default_rng(seed)
    contexts, slopes = random.normal(size=(n, columns)), random.normal(size=(arms, columns))
    labels = random.integers(arms, size=n)
    rewards = 0.5 * (contexts * slopes[labels]).sum(1) + np.sign(contexts[:, 0] * contexts[:, 1])
    return contexts, labels, rewards


@pytest.mark.parametrize("worth", [-5.0, 5.0])
@pytest.mark.parametrize("columns", [4, 10])
def test_an_arm_that_comes_later_is_learned_by_itself(worth, columns, tmp_path):
    contexts, arms, rewards = nonlinear(3000, 3, columns=columns)
    agent = Bandit(seed=0)
    agent.learn(contexts, rewards, arms=arms)
    assert agent.linear_weight < 0.7
    others = [agent.estimate(contexts[:50], arms=arms[:50])]
    for start in (100, 101, 102):
        agent.learn(contexts[start : start + 7], np.full(7, worth), arms=[3] * 7)
    agent.save(tmp_path / "agent")
    again = load(tmp_path / "agent")
    for each in (agent, again):
        others.append(each.estimate(contexts[:50], arms=arms[:50]))
        late = each.estimate(contexts[100:107], arms=[3] * 7)
        assert (np.abs(late.mean - worth) < 2.0).all()
        assert (late.count == 21).all()
        explanation = each.explain(contexts[0], arms=[0, 3], draws=3)
        np.testing.assert_allclose(explanation.mean, each.estimate(contexts[0], arms=[0, 3]).mean)
    np.testing.assert_allclose(others[1].mean, others[0].mean, atol=0.05)
    np.testing.assert_array_equal(others[2].mean, others[1].mean)
    assert agent.choose(contexts[0], arms=[0, 1, 2, 3])[0] == again.choose(contexts[0], arms=[0, 1, 2, 3])[0]


def test_an_arm_that_comes_later_is_tried_among_many():
    contexts, arms, rewards = nonlinear(4000, 26, columns=10)
    agent = Bandit(seed=0)
    agent.learn(contexts, rewards, arms=arms)
    tried = []
    for t in range(200):
        arm = int(agent.choose(contexts[t], arms=np.arange(27))[0])
        agent.learn(contexts[t], 2.5 if arm == 26 else rewards[t], arms=[arm])
        tried.append(arm == 26)
    assert np.mean(tried) > 0.4


def test_wide_rows_tell_arms_apart_and_those_that_come_later_are_tried(monkeypatch):
    monkeypatch.setattr(linear_scores, "_MOST_NUMBERS", 2000)  # as 30 arms with 400 one-hot columns
    random, agent, worth = np.random.default_rng(0), Bandit(seed=0), np.append(np.linspace(0.0, 0.5, 30), 1.5)
    columns = Columns((20, 20))
    contexts, arms = random.integers(20, size=(2000, 2)).astype(np.float32), random.integers(30, size=2000)
    agent.learn(Candidates(contexts, arms, columns), worth[arms] + 0.5 * random.normal(size=2000))
    assert not agent.model.encoder.scored
    tried = 0
    for t in range(300):
        offered = Candidates(contexts[t : t + 1].repeat(31, 0), np.arange(31), columns)
        arm = int(agent.choose(offered)[0])
        agent.learn(offered[[arm]], worth[[arm]] + 0.5 * random.normal())
        tried += arm == 30
    assert tried > 150


def test_effects_help_where_arms_are_more_than_their_features():
    def at(**arguments):
        agents = [
            Bandit(seed=s, arm_encoding="none", random_start="rounds", random_rounds=100, **arguments)
            for s in range(2)
        ]
        return sum(Articles(s).regret(agent, 400) for s, agent in enumerate(agents))

    assert at() < 0.9 * at(effects=False)


def test_arms_never_tried_that_trees_cannot_tell_apart_are_tried_together():
    agent, articles = Bandit(seed=0, arm_encoding="none", random_start="rounds"), Articles(0)
    learned = np.random.default_rng(1).integers(0, 100, 500)
    agent.learn(
        Candidates(articles.features[learned], learned, articles.columns), articles.means[learned] + 7.0
    )
    arms = np.array([0, 1, 997, 998, 999])
    features = np.repeat(articles.features[:1], 5, axis=0)
    features[4] = 1000.0
    rows = Candidates(features, arms, articles.columns)
    draws = [
        agent.policy.draws(agent.model, rows, t=300, random=np.random.default_rng(s), size=1)[0]
        for s in range(300)
    ]
    tried, _, one, alike, other = np.array(draws).T
    np.testing.assert_array_equal(one, alike)
    assert tried.std() < one.std()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.9


def test_effects_are_saved_and_part_of_the_estimate(tmp_path):
    agent, articles = Bandit(seed=0, arm_encoding="none", random_start="rounds"), Articles(0)
    learned = np.random.default_rng(1).integers(0, 100, 500)
    agent.learn(
        Candidates(articles.features[learned], learned, articles.columns), 2.0 * articles.means[learned] + 7.0
    )
    model = agent.model
    assert model.encoder.effects.active
    arms = np.array([0, 0, 1, 999])
    rows = Candidates(np.repeat(articles.features[:1], 4, axis=0), arms, articles.columns)
    estimate = agent.estimate(rows)
    assert estimate.mean[0] == estimate.mean[1] != estimate.mean[2]
    assert estimate.variance[3] > estimate.variance[0]
    drawn = agent.policy.draws(model, rows, t=300, random=np.random.default_rng(0), size=500)
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, 1])
    agent.save(tmp_path / "agent.treebandit")
    again = Bandit.load(tmp_path / "agent.treebandit")
    np.testing.assert_array_equal(again.estimate(rows).mean, estimate.mean)
    again.learn(rows[:2], [50.0, 50.0])
    agent.learn(rows[:2], [50.0, 50.0])
    np.testing.assert_array_equal(again.estimate(rows).mean, agent.estimate(rows).mean)
    assert agent.estimate(rows).mean[0] > estimate.mean[0]


def wide_rows(n, seed):
    """200 columns, all of which tell a little of which of three arms pays."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 3, n)
    contexts = random.normal(size=(n, 200)) + 0.25 * random.normal(size=(3, 200))[kinds]
    return contexts.astype(np.float32), kinds


def test_the_kernel_helps_where_all_columns_matter(tmp_path):
    contexts, best = wide_rows(450, 0)
    wrong = {}
    for kernel in (True, False):
        agent = Bandit(seed=0, kernel=kernel)
        arms = np.arange(300) % 3
        agent.learn(contexts[:300], (arms == best[:300]).astype(float), arms=arms)
        for row, right in zip(contexts[300:400], best[300:400], strict=True):
            arm = agent.choose(row, arms=[0, 1, 2])
            agent.learn(row[None], [float(arm[0] == right)], arms=arm)
        mean = [
            agent.estimate(np.repeat(row[None], 3, axis=0), arms=[0, 1, 2]).mean for row in contexts[400:]
        ]
        wrong[kernel] = np.mean(np.argmax(mean, axis=1) != best[400:])
        assert (agent.model.kernel_weight > 0.3) == kernel
        explanation = agent.explain(contexts[0], arms=[0, 1, 2])
        estimate = agent.estimate(np.repeat(contexts[:1], 3, axis=0), arms=[0, 1, 2])
        np.testing.assert_allclose(explanation.contributions.sum(1), estimate.mean, atol=1e-4)
        agent.save(tmp_path / "agent.treebandit")
        again = Bandit.load(tmp_path / "agent.treebandit")
        asked = np.repeat(contexts[:1], 3, axis=0)
        np.testing.assert_array_equal(
            again.estimate(asked, arms=[0, 1, 2]).mean, agent.estimate(asked, arms=[0, 1, 2]).mean
        )
        for _ in range(5):
            assert agent.choose(asked, arms=[0, 1, 2]) == again.choose(asked, arms=[0, 1, 2])
    assert wrong[True] < wrong[False]


def test_a_kernel_without_weight_is_given_up():
    random = np.random.default_rng(0)
    contexts, arms = random.normal(size=(3000, 32)), np.arange(3000) % 2
    rewards = (arms == (contexts[:, 0] > 0.0)).astype(float)
    agent = Bandit(seed=0)
    agent.learn(contexts[:1500], rewards[:1500], arms=arms[:1500])
    assert agent.model.kernel_errors[2] == 750  # the second half was predicted by a model of the first
    assert agent.model.encoder.kernel is not None
    agent.learn(contexts[1500:], rewards[1500:], arms=arms[1500:])
    assert agent.model.kernel_errors[2] == 2250
    assert agent.model.encoder.kernel is None


def test_arms_that_columns_describe_have_no_kernel():
    """A regression per arm learns nothing from columns that are the same in all rows of the arm."""
    random = np.random.default_rng(0)
    described, arms = random.normal(size=(6, 12))[np.arange(300) % 6], np.arange(300) % 6
    for varying, kernel in ((7, False), (8, True)):
        contexts = described.copy()
        contexts[:, :varying] += random.normal(size=(300, varying))
        agent = Bandit(seed=0)
        agent.learn(contexts, contexts[:, 0], arms=arms)
        assert (agent.model.encoder.kernel is not None) == kernel
