"""A folder of real, short runs on the shipped road network."""

from __future__ import annotations

from treebandit.experiments.records import merge_plan, write_record
from treebandit.experiments.run import play
from treebandit.experiments.spec import RunSpec

AGENTS = {
    "LinUCB": {"class": "LinUCB", "exploration": 0.1},
    "Uniform": {"class": "Uniform"},
}
TOWN = {"name": "small-town", "class": "Navigation", "roads": "small-town", "start": "B2", "end": "K3"}


def drive(folder, *, environment=TOWN, seeds=2, rounds=6, agents=tuple(AGENTS)):
    """Play and write the runs; gives their specs."""
    specs = [
        RunSpec({"name": agent, **AGENTS[agent]}, environment, seed, rounds, study="drive")
        for agent in agents
        for seed in range(seeds)
    ]
    for spec in specs:
        write_record(play(spec), folder)
    merge_plan(folder, [spec.plan_row() for spec in specs])
    return specs
