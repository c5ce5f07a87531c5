"""Warehouse picking on a networkx graph: learn the fastest way, whose aisles are crowded at some hours."""

import networkx as nx
import numpy as np

from treebandit.agents import TEUCB
from treebandit.oracles import ShortestPath
from treebandit.trees import XGBoostTrees


def main(rounds=300):
    random = np.random.default_rng(0)
    graph = nx.grid_2d_graph(6, 6, create_using=nx.DiGraph)  # a node is (aisle, bay)
    starts, ends = zip(*graph.edges, strict=True)
    places = np.hstack([starts, ends]).astype(np.float32)
    shortest_path = ShortestPath(starts, ends, source=(0, 0), target=(5, 5))
    agent = TEUCB(XGBoostTrees(n_trees=50, max_depth=5), random_start="rounds", seed=0)
    regrets = []
    for _ in range(rounds):
        hour = random.uniform(8, 20)
        contexts = np.column_stack([places, np.full(len(places), hour, dtype=np.float32)])
        path = agent.choose(contexts, oracle=shortest_path)  # rows of the edges to walk, in order
        expected = crowded_seconds(places, hour)
        seconds = random.gamma(20, expected[path] / 20)
        agent.learn(contexts[path], -seconds)
        regrets.append(expected[path].sum() - expected[shortest_path(-expected)].sum())
    first, last = np.mean(regrets[:50]), np.mean(regrets[-50:])
    print(f"seconds lost per walk: {first:.1f} in the first 50 walks, {last:.1f} in the last 50")
    return first, last


def crowded_seconds(places, hour):
    """The truth that the agent does not know: before noon low aisles are crowded, then high ones."""
    aisle = places[:, 0]
    crowded = aisle < 3 if hour < 12 else aisle >= 3
    return np.where(crowded, 25.0, 10.0) + 3.0 * (places[:, 1] == 2)


if __name__ == "__main__":
    main()
