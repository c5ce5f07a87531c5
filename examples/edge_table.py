"""Network routing on an edge table: send packets over links whose delay grows with their load."""

import numpy as np
import pandas as pd

from treebandit.agents import TETS
from treebandit.oracles import ShortestPath
from treebandit.trees import RandomForestTrees

LINKS = pd.DataFrame(
    [
        ("home", "north", "fibre", 40),
        ("home", "south", "copper", 10),
        ("home", "south", "radio", 15),  # a second link between the same two: parallel edges stay apart
        ("north", "hub", "copper", 30),
        ("south", "hub", "fibre", 25),
        ("north", "south", "fibre", 5),
        ("hub", "server", "fibre", 20),
        ("north", "server", "radio", 60),
    ],
    columns=["from", "to", "medium", "km"],
)


def main(rounds=150):
    random = np.random.default_rng(1)
    shortest_path = ShortestPath(LINKS["from"], LINKS["to"], source="home", target="server")
    agent = TETS(RandomForestTrees(n_trees=30), random_start="rounds", seed=1)
    regrets = []
    for _ in range(rounds):
        contexts = LINKS[["medium", "km"]].assign(load=random.random(len(LINKS)))
        path = agent.choose(contexts, oracle=shortest_path)
        expected = delay(contexts)
        agent.learn(contexts.iloc[path], -expected[path] * random.uniform(0.8, 1.2, len(path)))
        regrets.append(expected[path].sum() - expected[shortest_path(-expected)].sum())
    first, last = np.mean(regrets[:50]), np.mean(regrets[-50:])
    print(f"milliseconds lost per packet: {first:.1f} in the first 50, {last:.1f} in the last 50")
    return first, last


def delay(contexts):
    """The truth that the agent does not know."""
    slow = contexts["medium"].map({"fibre": 1.0, "copper": 2.0, "radio": 3.0})
    return (slow * contexts["km"] * (1 + 2 * contexts["load"] ** 2) / 10).to_numpy()


if __name__ == "__main__":
    main()
