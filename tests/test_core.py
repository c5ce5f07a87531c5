import pytest
import toys

from treebandit.core import optional
from treebandit.environments import Classification, Delayed, Synthetic


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
