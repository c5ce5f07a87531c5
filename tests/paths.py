"""Scores and graphs for oracles."""

from __future__ import annotations

from hypothesis import strategies as st

from treebandit.oracles import ShortestPath

finite = st.floats(-20, 20, allow_nan=False)


def grid_path(size=3):
    nodes = [(i, j) for i in range(size) for j in range(size)]
    steps = [((i, j), b) for i, j in nodes for b in ((i + 1, j), (i, j + 1)) if b in nodes]
    return ShortestPath(*zip(*steps, strict=True), (0, 0), (size - 1, size - 1)), len(steps)
