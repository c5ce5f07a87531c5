import numpy as np
import pytest
import toys

from treebandit.core import optional, play_round
from treebandit.environments import Classification, Delayed, Synthetic
from treebandit.errors import ShapeError


def test_what_agents_and_environments_may_have_besides_is_declared():
    table = Classification("mushroom", seed=0)
    assert optional(table, "horizon") == optional(Delayed(table, batch=3), "horizon") == 8124
    assert optional(table, "columns") == table.columns
    assert optional(Synthetic(), "horizon") is None
    assert optional(toys.Means(noise=0.5), "note", "") == "noise 0.5"
    assert optional(table, "final_candidates") is None
    assert optional(object(), "rebuild_seconds", 0.0) == 0.0
    with pytest.raises(AssertionError, match="secret is not declared"):
        optional(table, "secret")


@pytest.mark.parametrize("given", [1, 5])
def test_an_agent_gives_one_score_per_candidate(given):
    class Wrong:
        def score(self, candidates):
            return np.zeros(given)

        def learn(self, chosen, rewards):
            raise AssertionError("nothing was chosen")

    with pytest.raises(ShapeError, match=f"{given} scores for 4 candidates; give one per candidate"):
        play_round(Wrong(), Synthetic(arms=4, seed=0))
