"""Trees of decision stumps over binary variables that grow by successive elimination."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Floats, Indices, Random
from treebandit.errors import SavedFileError

Bits = NDArray[np.bool_]

_NODE_ARRAYS = ("variable", "children", "parent", "depth", "tree", "stump", "plays", "totals", "left")
_STUMP_ARRAYS = ("sums", "open")


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What trees are grown by: how many binary variables there are, depth and ε of each tree, (L,) each, and the rest
    as in BanditForest.
    """

    n_variables: int
    depths: Indices
    epsilons: Floats
    variable_share: float
    delta: float
    radius: float


class EliminationForest:
    """All nodes of all trees as arrays; node i < L is the root of tree i.

    An open node has a stump: `sums[stump, arm, variable]`, rewards of an arm where the variable is 1, and
    `open[stump]`, the variables not eliminated. A split node has a variable and two children. A leaf, at the
    tree's depth, has neither, and `left[node]` are the arms not eliminated there.
    Arms are columns; column 0 is that of every arm not seen yet: no plays, not eliminated.
    """

    def __init__(self, limits: Limits, random: Random) -> None:
        self.limits = limits
        self.nodes = 0
        self.variable = np.empty(0, np.intp)
        self.children = np.empty((0, 2), np.intp)
        self.parent, self.depth, self.tree, self.stump = np.empty((4, 0), np.intp)
        self.plays, self.totals = np.empty((2, 0, 1))
        self.left = np.empty((0, 1), np.bool_)
        self.sums = np.empty((0, 1, limits.n_variables))
        self.open = np.empty((0, limits.n_variables), np.bool_)
        self._free: list[int] = []
        for tree in range(len(limits.depths)):
            self._add(-1, tree, random)

    def copy(self) -> Self:
        """A forest that changes on its own from here on."""
        twin = copy(self)
        twin._free = list(self._free)
        for name in (*_NODE_ARRAYS, *_STUMP_ARRAYS):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def widen(self, arms: int) -> None:
        """Make the arrays hold this many arms."""
        more = arms - self.plays.shape[1]
        if more > 0:
            self.plays, self.totals = (
                np.pad(each, ((0, 0), (0, more))) for each in (self.plays, self.totals)
            )
            self.left = np.pad(self.left, ((0, 0), (0, more)), constant_values=True)
            self.sums = np.pad(self.sums, ((0, 0), (0, more), (0, 0)))

    def paths(self, bits: Bits) -> Indices:
        """The node that a context (m,) has come to in each tree, (L,)."""
        nodes = np.arange(len(self.limits.depths))
        while (split := self.variable[nodes] >= 0).any():
            inner = nodes[split]
            nodes[split] = self.children[inner, bits[self.variable[inner]].astype(np.intp)]
        return nodes

    def votes(self, bits: Bits, arm_rows: Indices, clock: int) -> Floats:
        """The share of trees that would play each of these arms, (n,), in this context and round.

        A tree takes the arms not eliminated in turn, round by round; where none of them is offered, the best.
        """
        nodes = self.paths(bits)[:, None]
        left = self.left[nodes, arm_rows]
        many = left.sum(axis=1)
        turn = clock % np.maximum(many, 1)
        picks = (left & (left.cumsum(axis=1) == turn[:, None] + 1)).argmax(axis=1)
        if not many.all():
            means = self.totals[nodes, arm_rows] / np.maximum(self.plays[nodes, arm_rows], 1.0)
            picks = np.where(many > 0, picks, means.argmax(axis=1))
        return np.bincount(picks, minlength=len(arm_rows)) / len(nodes)

    def learn(
        self, bits: Bits, arm_row: np.intp, reward: float, random: Random, *, unit: float = 1.0
    ) -> None:
        """Take in one play of an arm: every tree learns it, whoever voted for it. Rewards lie in [0, unit]."""
        nodes = self.paths(bits)
        self.plays[nodes, arm_row] += 1.0
        self.totals[nodes, arm_row] += reward
        stumps = self.stump[nodes]
        if reward:
            self.sums[stumps[stumps >= 0], arm_row] += reward * bits
        # A round of arms is complete where this one was the least played.
        least = np.where(self.left[nodes, 1:], self.plays[nodes, 1:], np.inf).min(axis=1)
        complete = self.plays[nodes, arm_row] == least
        self._eliminate_arms(nodes[complete & (stumps < 0)], unit)
        for node in self._eliminate_variables(nodes[complete & (stumps >= 0)], unit):
            self._split(node, random)

    def _radii(self, plays: Floats, hypotheses: float | Floats) -> Floats:
        """√(ln(4 · hypotheses · L · t² / δ) / 2t) after t plays, times `radius`."""
        chances = 4.0 * hypotheses * len(self.limits.depths) / self.limits.delta
        radii: Floats = self.limits.radius * np.sqrt(np.log(chances * plays**2) / (2.0 * plays))
        return radii

    def _eliminate_arms(self, nodes: Indices, unit: float) -> None:
        """Arms whose mean is surely lower than that of the best, or lower by nearly ε, leave these leaves."""
        if not len(nodes):
            return
        left, plays = self.left[nodes, 1:], np.maximum(self.plays[nodes, 1:], 1.0)
        means = np.where(left, self.totals[nodes, 1:] / plays, -np.inf)
        radii = self._radii(plays, plays.shape[1])
        best = means.argmax(axis=1)[:, None]
        gaps = (np.take_along_axis(means, best, 1) - means) / unit + self.limits.epsilons[self.tree[nodes]][
            :, None
        ]
        left &= gaps < radii + np.take_along_axis(radii, best, 1)
        np.put_along_axis(left, best, True, 1)
        self.left[nodes, 1:] = left

    def _eliminate_variables(self, nodes: Indices, unit: float) -> Indices:
        """Variables surely worse to split on than the best leave these open nodes; those with one left return.

        The gain of a split on a variable is Σ_v max_arm E[reward of arm · 1(variable = v)].
        """
        if not len(nodes):
            return nodes
        stumps, trees = self.stump[nodes], self.tree[nodes]
        plays = self.plays[nodes, 1:]
        ones = self.sums[stumps, 1:] / plays[:, :, None]
        zeros = (self.totals[nodes, 1:] / plays)[:, :, None] - ones
        arms = plays.shape[1]
        radii = self._radii(plays, arms * self.limits.n_variables * self.limits.depths[trees][:, None])
        gain = (ones.max(axis=1) + zeros.max(axis=1)) / unit
        radius = np.take_along_axis(radii, ones.argmax(axis=1), 1)
        radius += np.take_along_axis(radii, zeros.argmax(axis=1), 1)
        still = self.open[stumps]
        best = np.where(still, gain, -np.inf).argmax(axis=1)[:, None]
        gaps = np.take_along_axis(gain, best, 1) - gain + self.limits.epsilons[trees][:, None]
        still &= gaps < radius + np.take_along_axis(radius, best, 1)
        np.put_along_axis(still, best, True, 1)
        self.open[stumps] = still
        decided: Indices = nodes[still.sum(axis=1) == 1]
        return decided

    def _split(self, node: np.intp, random: Random) -> None:
        stump = int(self.stump[node])
        self.variable[node] = self.open[stump].argmax()
        self.stump[node] = -1
        self._free.append(stump)
        first, second = (self._add(int(node), int(self.tree[node]), random) for _ in range(2))
        self.children[node] = first, second

    def _add(self, parent: int, tree: int, random: Random) -> int:
        """A new node below `parent`: open with a draw of the variables not used above it, or a leaf."""
        node = self.nodes
        if node == len(self.variable):
            for name in _NODE_ARRAYS:
                self._grow(name)
        self.nodes += 1
        self.variable[node], self.parent[node], self.tree[node] = -1, parent, tree
        self.depth[node] = 0 if parent < 0 else self.depth[parent] + 1
        self.plays[node], self.totals[node], self.left[node] = 0.0, 0.0, True
        unused = self._unused(parent)
        at_end = self.depth[node] >= self.limits.depths[tree] or not len(unused)
        self.stump[node] = -1 if at_end else self._new_stump(unused, random)
        return node

    def _unused(self, node: int) -> Indices:
        """The variables that no split from this node up to the root uses."""
        unused = np.ones(self.limits.n_variables, np.bool_)
        while node >= 0:
            unused[self.variable[node]] = False
            node = int(self.parent[node])
        return np.flatnonzero(unused)

    def _new_stump(self, unused: Indices, random: Random) -> int:
        if not self._free:
            taken = len(self.open)
            for name in _STUMP_ARRAYS:
                self._grow(name)
            self._free = list(range(len(self.open) - 1, taken - 1, -1))
        stump = self._free.pop()
        drawn = random.choice(
            unused, max(1, math.ceil(self.limits.variable_share * len(unused))), replace=False
        )
        self.sums[stump], self.open[stump] = 0.0, False
        self.open[stump, drawn] = True
        return stump

    def _grow(self, name: str) -> None:
        array = getattr(self, name)
        capacity = max(16, len(array) // 4)
        setattr(self, name, np.concatenate([array, np.zeros((capacity, *array.shape[1:]), array.dtype)]))

    def estimate(self, bits: Bits, arm_row: np.intp) -> tuple[float, float, float]:
        """Mean over trees of the arm's mean reward here, the largest variance it can have, and its plays.

        A node where the arm was not played yet takes the value of the one above it. Rewards in [0, 1] have a
        variance of at most 1/4.
        """
        nodes = self.paths(bits)
        while (unplayed := (self.plays[nodes, arm_row] == 0) & (self.parent[nodes] >= 0)).any():
            nodes[unplayed] = self.parent[nodes[unplayed]]
        plays = np.maximum(self.plays[nodes, arm_row], 1.0)
        means = self.totals[nodes, arm_row] / plays
        return float(means.mean()), float((0.25 / plays).mean()), float(self.plays[nodes, arm_row].mean())

    def state(self) -> dict[str, Any]:
        """All that is needed to go on elsewhere."""
        arrays = {name: getattr(self, name) for name in (*_NODE_ARRAYS, *_STUMP_ARRAYS)}
        trees = {"depths": self.limits.depths, "epsilons": self.limits.epsilons}
        return {**arrays, **trees, "nodes": self.nodes, "free": self._free}

    @classmethod
    def restored(cls, state: Mapping[str, Any], limits: Limits, arms: int) -> Self:
        """The forest that `state` described, if its parts fit each other: every walk has to end."""
        forest = cls.__new__(cls)
        forest.limits, n_trees, n_variables = limits, len(limits.depths), limits.n_variables
        capacity = len(schema.array(state, "variable", np.intp, (None,)))
        forest.nodes = n = schema.whole(state, "nodes", least=n_trees, most=capacity)
        forest.open = schema.array(state, "open", np.bool_, (None, n_variables))
        stumps = len(forest.open)
        forest.sums = schema.array(state, "sums", np.float64, (stumps, arms, n_variables))
        forest.plays = schema.array(state, "plays", np.float64, (capacity, arms), least=0.0)
        forest.totals = schema.array(state, "totals", np.float64, (capacity, arms))
        forest.left = schema.array(state, "left", np.bool_, (capacity, arms))
        most = {"variable": n_variables, "parent": n, "depth": n + 1, "tree": n_trees, "stump": stumps}
        for name, count in most.items():
            values = schema.array(state, name, np.intp, (capacity,))
            schema.array({name: values[:n]}, name, np.intp, (n,), least=-1, most=count - 1)
            setattr(forest, name, values)
        forest.children = schema.array(state, "children", np.intp, (capacity, 2))
        forest._free = [int(stump) for stump in schema.items(state, "free", most=stumps)]
        forest._check_walks()
        return forest

    def _check_walks(self) -> None:
        """Raise where a node is not below its parent, or two open nodes share a stump."""
        n, trees = self.nodes, len(self.limits.depths)
        node, parent, tree = np.arange(n), self.parent[:n], self.tree[:n]
        inner = node[self.variable[:n] >= 0]
        children = self.children[inner]
        grown = np.sort(children.ravel())
        used = self.stump[:n][self.stump[:n] >= 0]
        stumps = np.concatenate([used, np.array(self._free, np.intp)])
        fits = (
            np.array_equal(grown, np.arange(trees, n))
            and (children > inner[:, None]).all()
            and (self.parent[children] == inner[:, None]).all()
            and (self.stump[inner] < 0).all()
            and (parent[:trees] == -1).all()
            and np.array_equal(tree, np.where(node < trees, node, tree[parent]))
            and (self.depth[:n] >= 0).all()
            and np.array_equal(np.sort(stumps), np.arange(len(self.open)))
            and self.open[used].any(axis=1).all()
        )
        if not fits:
            raise SavedFileError("the nodes of the trees do not fit each other")
