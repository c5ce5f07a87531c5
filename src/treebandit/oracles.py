"""Scores -> the feasible choice of greatest total score. An agent does not know which oracle is used.

A score of -inf marks what cannot be chosen. Every oracle takes a generator as `random` and breaks ties with it;
without one, the same scores always give the same choice.
"""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treebandit.core import Floats, Indices, Oracle, Random, checked_rows
from treebandit.errors import InputError, MissingExtraError, NoFeasibleChoiceError, ParameterError, ShapeError
from treebandit.parameters import check_number

_FEW_SCORES = 64
#: Pairs of greater scores are scaled down, so that their totals stay finite.
_LARGEST_SCORE = 1e290


def best_arm(scores: ArrayLike, random: Random | None = None) -> Indices:
    """The one row of greatest score, (1,); of equals a uniform draw from `random`, else the first."""
    plain = type(scores) is np.ndarray and scores.dtype == np.float64 and scores.ndim == 1 and len(scores)
    values: Floats = scores if plain else _checked(scores)  # type: ignore[assignment]
    row: np.intp = values.argmax()
    best = values[row]
    if best != best:  # argmax stops at the first NaN, so this sees them all
        raise _nan_error(int(row))
    if best == -np.inf:
        raise _nothing_feasible(len(values))
    if random is not None:
        _check_random(random)
        # Few numbers are counted faster by Python than by numpy.
        few = values.tolist() if len(values) <= _FEW_SCORES else None
        if few is None or few.count(few[row]) > 1:
            ties: Indices = (values == best).nonzero()[0]
            if len(ties) > 1:
                row = ties[random.integers(len(ties))]
    return np.array([row], dtype=np.intp)


@dataclass(frozen=True)
class TopK:
    """The `k` rows of greatest score, best first; all rows where there are fewer than `k`.

    k: how many.

    A row of score -inf cannot be chosen; where too few others are left, a NoFeasibleChoiceError says so. Of equal
    scores, `random` draws uniformly; without it the earlier rows win.

    >>> from treebandit import TopK
    >>> TopK(2)([0.1, 0.9, 0.5]).tolist()
    [1, 2]
    """

    k: int

    def __post_init__(self) -> None:
        check_number("k", self.k, least=1, whole=True)

    def __call__(self, scores: ArrayLike, random: Random | None = None) -> Indices:
        """Scores (n,) -> rows (min(k, n),)."""
        values = _checked(scores)
        _check_random(random)
        feasible = int(np.count_nonzero(values > -np.inf))
        if not feasible:
            raise _nothing_feasible(len(values))
        self.check_enough(feasible, len(values))
        order = np.argsort(-values, kind="stable")
        best = values[order[: self.k + 1]]
        if random is not None and (best[1:] == best[:-1]).any():
            order = np.lexsort((random.random(len(values)), -values))
        return order[: self.k]

    def check_enough(self, feasible: int, n: int) -> None:
        """Raise a NoFeasibleChoiceError if too few of n rows have a score above -inf."""
        if feasible < min(self.k, n):
            raise NoFeasibleChoiceError(
                f"{self.k} rows are to be chosen, but only {feasible} of {n} have a score above -inf; choose fewer or "
                "allow more"
            )


class ShortestPath:
    """The path from `source` to `target` of least cost, in a directed graph whose edges are the candidates.

    starts, ends: the nodes, any hashables, that candidate row i leads from and to; parallel edges stay apart.
    source, target: where paths begin and end.
    floor: the least cost of an edge.

    Scores are rewards, so an edge costs its negative score, raised to `floor` where that is not positive; an
    edge of score -inf is closed. Where no open edge has a negative score, as in random scores from 0 to 1, an
    edge costs what its score lacks of the greatest. The chosen rows come in driving order.

    Of paths whose costs agree to 12 digits, `random` draws one: going back from the target, the edges over which
    such a path may come are equally likely at every node. So each of them can be chosen, but not all need be
    equally likely.

    >>> from treebandit import ShortestPath
    >>> way = ShortestPath(["a", "a", "b", "c"], ["b", "c", "d", "d"], source="a", target="d")
    >>> way([-1.0, -5.0, -1.0, -1.0]).tolist()
    [0, 2]
    """

    def __init__(
        self,
        starts: Iterable[Hashable],
        ends: Iterable[Hashable],
        source: Hashable,
        target: Hashable,
        *,
        floor: float = 1e-6,
    ) -> None:
        heads, tails = _as_list("starts", starts), _as_list("ends", ends)
        if len(heads) != len(tails):
            raise ShapeError(f"{len(heads)} starts but {len(tails)} ends; give one of each per edge")
        check_number("floor", floor, above=0)
        number = _numbered(heads, tails)
        for role, node in (("source", source), ("target", target)):
            if not _is_hashable(node) or node not in number:
                raise ParameterError(
                    f"{role} {reprlib.repr(node)} is at no end of any of the {len(heads)} edges; give one of the nodes"
                )
        self.source, self.target, self.floor = source, target, floor
        self._edges, self._nodes = len(heads), len(number)
        self._source, self._target = number[source], number[target]
        if self._source == self._target:
            raise ParameterError(f"source and target are both {source!r}; a path needs two nodes")
        self._roots = np.array([self._source])
        self._group(np.array([number[n] for n in heads]), np.array([number[n] for n in tails]))

    def _group(self, heads: NDArray[np.int64], tails: NDArray[np.int64]) -> None:
        """Sort the edges by (start, end): one bundle of parallel edges per entry of the sparse matrix."""
        keys = heads * self._nodes + tails
        self._order = np.argsort(keys, kind="stable")
        self._heads, self._tails = heads[self._order], tails[self._order]
        self._keys, self._first, sizes = np.unique(keys[self._order], return_index=True, return_counts=True)
        self._single = bool(np.all(sizes == 1))
        self._sizes = sizes
        indices = (self._keys % self._nodes).astype(np.int32)
        counts = np.bincount(self._keys // self._nodes, minlength=self._nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        try:  # here, since scipy takes a second to load, and single arms need none of it
            from scipy.sparse import csr_array
            from scipy.sparse.csgraph import dijkstra
        except ImportError:
            raise MissingExtraError("scipy", "sklearn") from None
        self._dijkstra = dijkstra
        self._graph = csr_array((np.ones(len(indices)), indices, indptr), shape=(self._nodes, self._nodes))
        # What scipy checks and remembers now, every copy knows already.
        dijkstra(self._graph, indices=self._roots)

    def __call__(self, scores: ArrayLike, random: Random | None = None) -> Indices:
        """Scores (n,), one per edge -> rows of the path's edges, from source to target."""
        costs = self.costs(scores)[self._order]
        _check_random(random)
        cheapest = costs if self._single else np.minimum.reduceat(costs, self._first)
        graph = copy(self._graph)
        graph.data = cheapest
        distances, before = self._dijkstra(graph, indices=self._roots, return_predecessors=True)
        if distances[0, self._target] == np.inf:
            raise NoFeasibleChoiceError(
                f"no path leads from {self.source!r} to {self.target!r} over the open edges; "
                "open an edge or choose other nodes"
            )
        last = None if random is None else self._last_edges(costs, distances[0], random)
        previous = before[0] if last is None else np.where(last >= 0, self._heads[last], before[0])
        nodes = [self._target]
        while nodes[-1] != self._source:
            nodes.append(int(previous[nodes[-1]]))
        nodes.reverse()
        steps = np.array([a * self._nodes + b for a, b in pairwise(nodes)])
        places = self._cheapest_of(np.searchsorted(self._keys, steps), costs)
        if last is not None:
            places = np.where(last[nodes[1:]] >= 0, last[nodes[1:]], places)
        return self._order[places]

    def among(self, rows: ArrayLike) -> Oracle:
        """The same oracle where only the edges in `rows` are candidates (others are closed).

        rows: edge numbers, or a mask with one True or False per edge. The oracle takes one score per open edge,
        in that order, and returns positions among them.
        """
        return _OpenEdges(self, _open_rows(rows, self._edges))

    def costs(self, scores: ArrayLike) -> Floats:
        """What each edge costs, (n,): positive, and infinite where it is closed."""
        rewards = _checked(scores, self._edges)
        if np.all((rewards >= 0) | (rewards == -np.inf)):
            # Raised to the floor they would all cost the same, and what the scores say would be lost.
            rewards = rewards - rewards[np.isfinite(rewards)].max(initial=0.0)
        return np.maximum(-rewards, self.floor)

    def _last_edges(self, costs: Floats, distances: Floats, random: Random) -> Indices:
        """For each node, the place of an edge that ends a shortest path to it, drawn where there are several."""
        start, end = distances[self._heads], distances[self._tails]
        # Where a cost is lost in rounding, start equals end: such edges are left to Dijkstra's own tree (-1), since
        # drawn ones might form a circle.
        with np.errstate(over="ignore"):
            places = np.flatnonzero((start + costs <= end * (1 + 1e-12)) & (start < end))
        last = np.full(self._nodes, -1, dtype=np.intp)
        last[self._tails[places]] = places
        if len(places) > np.count_nonzero(last >= 0):
            random.shuffle(places)
            last[self._tails[places]] = places  # of edges to one node, the last in this order stays
        return last

    def _cheapest_of(self, bundles: Indices, costs: Floats) -> Indices:
        """The place of the cheapest edge of each bundle, in the order of `costs`."""
        places: Indices = self._first[bundles]
        for i in np.flatnonzero(self._sizes[bundles] > 1):
            first = places[i]
            places[i] = first + costs[first : first + self._sizes[bundles[i]]].argmin()
        return places


@dataclass(frozen=True, eq=False)
class _OpenEdges:
    """Shortest paths over some edges alone."""

    path: ShortestPath
    rows: Indices

    def __call__(self, scores: ArrayLike, random: Random | None = None) -> Indices:
        """Scores (k,), one per open edge -> positions of the path's edges among them."""
        everywhere = np.full(self.path._edges, -np.inf)
        everywhere[self.rows] = _checked(scores, len(self.rows))
        position = np.empty(len(everywhere), dtype=np.intp)
        position[self.rows] = np.arange(len(self.rows))
        return position[self.path(everywhere, random)]


class Assignment:
    """The one-to-one assignment of greatest total score; candidate row i would pair lefts[i] and rights[i].

    lefts, rights: the members, any hashables, of each candidate pair.

    Every member of the smaller side gets a partner; a pair of score -inf, or one that is no candidate, cannot
    be chosen; of repeated pairs the best counts. The chosen rows come in candidate order.

    With `random`, members of both sides are taken in random order, which decides among assignments of equal total:
    where all scores are equal, all assignments are equally likely.

    >>> from treebandit import Assignment
    >>> pairs = Assignment(["job 1", "job 1", "job 2", "job 2"], ["Ann", "Bob", "Ann", "Bob"])
    >>> pairs([0.9, 0.8, 0.7, 0.1]).tolist()
    [1, 2]
    """

    def __init__(self, lefts: Iterable[Hashable], rights: Iterable[Hashable]) -> None:
        left, right = _as_list("lefts", lefts), _as_list("rights", rights)
        if len(left) != len(right):
            raise ShapeError(f"{len(left)} lefts but {len(right)} rights; give one of each per pair")
        try:
            from scipy.optimize import linear_sum_assignment
        except ImportError:
            raise MissingExtraError("scipy", "sklearn") from None
        self._solve = linear_sum_assignment
        left_number, right_number = _numbered(left), _numbered(right)
        self._pairs = len(left)
        self._shape = (len(left_number), len(right_number))
        self._cells = np.array(
            [left_number[a] * self._shape[1] + right_number[b] for a, b in zip(left, right, strict=True)],
            dtype=np.intp,
        )

    def __call__(self, scores: ArrayLike, random: Random | None = None) -> Indices:
        """Scores (n,), one per pair -> rows of the chosen pairs."""
        values = _without_infinity(_checked(scores, self._pairs), min(self._shape))
        _check_random(random)
        rising = np.argsort(values, kind="stable")
        lefts, rights = (np.arange(size) for size in self._shape)
        if random is not None:
            rising = np.lexsort((random.random(len(values)), values))
            lefts, rights = random.permutation(lefts), random.permutation(rights)
        gain = np.full(self._shape[0] * self._shape[1], -np.inf)
        row = np.full(len(gain), -1, dtype=np.intp)
        gain[self._cells[rising]], row[self._cells[rising]] = values[rising], rising
        try:
            left, right = self._solve(gain.reshape(self._shape)[np.ix_(lefts, rights)], maximize=True)
        except ValueError as error:
            raise NoFeasibleChoiceError(
                f"the {self._pairs} candidate pairs cannot give each of the {min(self._shape)} members of "
                "the smaller side a partner of its own; add candidate pairs"
            ) from error
        return np.sort(row[lefts[left] * self._shape[1] + rights[right]])


def _without_infinity(values: Floats, picks: int) -> Floats:
    """Scores with +inf lowered to a number that outweighs any `picks` finite scores, and sums that do not overflow."""
    finite = np.abs(values[np.isfinite(values)])
    span = float(finite.max(initial=1.0))
    if span > _LARGEST_SCORE:
        values, span = values * (_LARGEST_SCORE / span), _LARGEST_SCORE
    return np.where(values == np.inf, 2.0 * (picks + 1) * (span + 1.0), values)


def _as_list(name: str, nodes: Iterable[Hashable]) -> list[Any]:
    """The nodes as a list; arrays give plain Python values."""
    listed = isinstance(nodes, Iterable) and not isinstance(nodes, bytes | Mapping | set | frozenset)
    if not listed or getattr(nodes, "ndim", 1) != 1:
        raise ParameterError(f"{name} is {reprlib.repr(nodes)}; give a list with one node per candidate")
    try:
        return list(nodes.tolist()) if isinstance(nodes, np.ndarray) else list(nodes)
    except Exception as error:
        raise ParameterError(f"{name} cannot be read ({error}); give one node per candidate") from error


def _numbered(*groups: list[Any]) -> dict[Any, int]:
    """A number from 0 for each distinct node, in order of appearance."""
    nodes = [node for group in groups for node in group]
    for node in nodes:
        # NaN differs from itself, so it would be another node each time.
        if not _is_hashable(node) or (isinstance(node, float | np.floating) and node != node):
            raise ParameterError(
                f"{reprlib.repr(node)} cannot name a node; give text, numbers or tuples of them"
            )
    return {node: i for i, node in enumerate(dict.fromkeys(nodes))}


def _is_hashable(node: Any) -> bool:
    try:
        hash(node)  # a tuple has a hash method even where a list is in it
    except TypeError:
        return False
    return True


def _open_rows(rows: ArrayLike, edges: int) -> Indices:
    """Edge numbers from numbers or from a mask, each at most once."""
    try:
        given = np.asarray(rows)
    except ValueError as error:
        raise ShapeError(
            f"rows cannot be read as a list of edges ({error}); give numbers or a mask"
        ) from error
    if given.ndim != 1:
        raise ShapeError(f"rows of shape {given.shape}; give a list of edge numbers or a mask")
    if given.dtype == np.bool_:
        if len(given) != edges:
            raise ShapeError(f"a mask of {len(given)} for {edges} edges; give one True or False per edge")
        given = np.flatnonzero(given)
    if not given.size:
        raise NoFeasibleChoiceError(f"none of the {edges} edges is open; open at least one")
    return checked_rows(given, edges, what="the open edges are").copy()


def _check_random(random: Random | None) -> None:
    if random is not None and not isinstance(random, np.random.Generator):
        raise ParameterError(f"random is {random!r}; give a numpy Generator: np.random.default_rng(seed)")


def _checked(scores: ArrayLike, expected: int | None = None) -> Floats:
    """Scores as a (n,) float64 array, or the error that says what is wrong with them."""
    if isinstance(scores, np.ma.MaskedArray):
        raise InputError(
            "scores are a masked array; give -inf for what cannot be chosen: scores.filled(-np.inf)"
        )
    try:
        given = np.asarray(scores)
        if given.dtype.kind not in "fiubO":
            raise TypeError(f"they are of type {given.dtype}")
        values = given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"scores cannot be read as numbers ({error}); give one number per candidate"
        ) from error
    if values.ndim != 1:
        raise ShapeError(f"scores of shape {values.shape}; give one number per candidate")
    if expected is not None and len(values) != expected:
        raise ShapeError(f"{len(values)} scores for {expected} candidates; give one score per candidate")
    if not values.size:
        raise NoFeasibleChoiceError("no scores, so nothing to choose from; give at least one candidate")
    if np.isnan(values).any():
        raise _nan_error(int(np.isnan(values).argmax()))
    return values


def _nan_error(row: int) -> InputError:
    return InputError(f"the score of candidate {row} is NaN; give a number (-inf for what cannot be chosen)")


def _nothing_feasible(candidates: int) -> NoFeasibleChoiceError:
    return NoFeasibleChoiceError(
        f"all {candidates} scores are -inf, so nothing can be chosen; give at least one candidate another score"
    )
