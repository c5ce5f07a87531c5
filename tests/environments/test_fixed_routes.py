import numpy as np
import pytest

from treebandit.environments import Navigation
from treebandit.environments.fixed_routes import expected_over_the_day, fixed_routes


@pytest.fixture(scope="module")
def problem():
    return Navigation("B2", "K3", roads="small-town", seed=0)


def test_regret_is_the_mean_over_the_day_of_what_the_route_takes_longer(problem):
    for route in fixed_routes(problem):
        lost = [
            problem.expected_times(time)[route.edges].sum()
            - problem.expected_times(time)[problem.best_path(time)].sum()
            for time in np.arange(0.0, 86400.0, 600.0)
        ]
        assert route.regret == pytest.approx(np.mean(lost))
        assert min(lost) >= -1e-6


def test_no_best_path_of_the_day_is_a_better_fixed_route(problem):
    free, best = fixed_routes(problem)
    assert (free.name, best.name) == ("free-flow route", "best fixed route")
    assert 0.0 <= best.regret <= free.regret
    mean = expected_over_the_day(problem).mean(axis=0)
    for time in np.arange(0.0, 86400.0, 3600.0):
        assert mean[problem.best_path(time)].sum() >= mean[best.edges].sum() - 1e-6


def test_the_free_flow_route_is_the_shortest_by_speed_limits(problem):
    network = problem.network
    free = network.lengths / network.speed_limits
    route = fixed_routes(problem)[0]
    assert network.starts[route.edges[0]] == network.node("B2")
    assert network.ends[route.edges[-1]] == network.node("K3")
    assert free[route.edges].sum() <= free[problem.best_path(0.0)].sum() + 1e-9
