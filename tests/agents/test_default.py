import numpy as np
import pytest
from playing import play

import treebandit
from treebandit import Bandit, play_round
from treebandit.environments import Classification, DescribedArms, Synthetic
from treebandit.errors import ParameterError
from treebandit.oracles import TopK


def regret(agent, environment, rounds):
    return sum(play_round(agent, environment)[1].regret for _ in range(rounds))


def test_it_is_what_the_package_gives():
    agent = treebandit.Bandit()
    assert repr(agent) == repr(Bandit())
    assert isinstance(agent, treebandit.TETS)


def test_linear_scores_help_where_rewards_are_linear():
    def at(**arguments):
        return np.mean(
            [
                regret(
                    Bandit(seed=s, **arguments),
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


def test_integer_codes_are_refused():
    with pytest.raises(ParameterError, match="categories='codes'.*TETS"):
        Bandit(categories="codes")


def test_prior_rows_out_of_range_are_named():
    with pytest.raises(ParameterError, match="prior_rows=-1"):
        Bandit(prior_rows=-1.0)
