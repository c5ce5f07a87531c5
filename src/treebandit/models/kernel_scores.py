"""A kernel ridge regression per arm, on many numbers at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, Self

import numpy as np

from treebandit import schema
from treebandit.core import Features, Floats, Indices
from treebandit.errors import SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.features.values import LARGEST
from treebandit.steps import exhausted

#: Landmarks: at most so many, in steps of the second number, and their squares over all arms.
_MOST, _STEP, _MOST_NUMBERS = 512, 64, 1 << 22
#: λ of the regressions, where the kernel of a row with itself is 1 on average.
_RIDGE = 0.07
#: What the kernel is greater by everywhere: an arm's rewards may all be high or low.
_CONSTANT = 1.0 / 64.0
#: Leverage is told by the first landmarks, at most as many as this. Each of them differs from what those before it can
#: tell by this share of its kernel at least; 32-bit kernels of nearly equal rows are off by a tenth of that.
_FIRST, _DIFFERENT = 32, 1e-3
#: Scaled numbers are cut off here, in standard deviations.
_BOUND = 5.0
#: So many rows are compared with the landmarks at a time.
_BLOCK = 512


class KernelScores:
    """What a kernel ridge regression per arm says of each row, fitted once.

    The kernel of two rows x and y at an angle of φ is |x| |y| cos φ (1 - φ/π): the neural tangent kernel of the weights
    of one layer of rectified linear units (Jacot, Gabriel and Hongler, 2018), so the regression is about what a wide
    network would learn. It needs no width, and it is below 0 for rows of opposite kinds: rewards of one kind tell
    nothing good of the other. Functions are sums over some learned rows, the landmarks (Smola and Schölkopf, 2000);
    with fewer rows than landmarks they are exact.

    Numbers are centred and divided by their standard deviation, and by √(κ/3) where their kurtosis κ is above 3: a
    pixel that is rarely dark must not outweigh the others when it is. Rewards are centred, too: what is unlike all
    rows of an arm, or has an arm without rows, scores their mean.

    scale: (3, d), mean, factor and bound of each column. landmarks: (m, d), scaled. weights: (arms + 1, m).
    roots: (arms + 1, r, r), L⁻¹ of A = LL' of the first r landmarks, which are all different. rewards: (2,), their mean
    and standard deviation.
    """

    __slots__ = (
        "_arms",
        "_columns",
        "_directions",
        "_landmarks",
        "_lengths",
        "_newest",
        "_rewards",
        "_roots",
        "_scale",
        "_weights",
    )

    def __init__(
        self,
        arms: ArmIndex,
        scale: Features,
        landmarks: Features,
        weights: Floats,
        roots: Features,
        rewards: Floats,
    ) -> None:
        self._arms, self._scale, self._landmarks, self._rewards = arms, scale, landmarks, rewards
        self._weights, self._roots = weights, roots
        self._columns = _columns(scale)
        self._directions, self._lengths = _directions(landmarks)
        #: The newest row that came alone, as bytes, its kernel, and the scores that followed, by place of the arm: what
        #: was decided is learned next.
        self._newest: tuple[bytes, Features, dict[int, float]] = b"", landmarks[:0], {}

    @classmethod
    def fit(cls, contexts: Features, arms: Indices, targets: Floats, *, random: np.random.Generator) -> Self:
        """Regressions of (n,) rewards on (n, d) numbers, one per arm."""
        return exhausted(cls.fit_steps(contexts, arms, targets, random=random))

    @classmethod
    def fit_steps(
        cls, contexts: Features, arms: Indices, targets: Floats, *, random: np.random.Generator
    ) -> Generator[float, None, Self]:
        """The same in steps of a few milliseconds."""
        index = ArmIndex()
        places = index.register(arms)
        size = min(_MOST, max(_STEP, math.isqrt(_MOST_NUMBERS // len(index)) // _STEP * _STEP))
        chosen = random.permutation(len(contexts))[:size]
        scale = _scale(contexts)
        columns = _columns(scale)
        landmarks, rewards = _scaled(contexts[chosen], columns), _moments(targets)
        prior = _kernel(landmarks, *_directions(landmarks)).astype(np.float64)
        prior.flat[:: len(chosen) + 1] += 1e-6  # landmarks may be equal
        different = _different(prior)
        first = len(different)
        moved = np.concatenate([different, np.delete(np.arange(len(chosen)), different)])
        chosen, landmarks, prior = chosen[moved], landmarks[moved], prior[np.ix_(moved, moved)]
        weights, roots = np.zeros((len(index), len(chosen))), np.zeros((len(index), first, first), np.float32)
        scores, targets = cls(index, scale, landmarks, weights, roots, rewards), targets - rewards[0]
        unknown = _RIDGE * prior[:first, :first]
        roots[0] = _root(unknown)
        order = np.argsort(places, kind="stable")
        starts = np.searchsorted(places[order], np.arange(1, len(index) + 1))
        for place in range(1, len(index)):
            own = order[starts[place - 1] : starts[place]]
            if len(chosen) == len(contexts):  # a sum over the arm's own rows, all of which are landmarks
                mine = np.flatnonzero(places[chosen] == place)
                exact = prior[np.ix_(mine, mine)] + _RIDGE * np.eye(len(mine))
                weights[place, mine] = np.linalg.solve(exact, targets[chosen[mine]])
                known = unknown + prior[mine, :first].T @ prior[mine, :first]
                yield float(starts[place]) / len(order)
            else:
                gram, moment, known = _RIDGE * prior, np.zeros(len(chosen)), unknown.copy()
                for begin in range(0, len(own), _BLOCK):
                    rows = own[begin : begin + _BLOCK]
                    kernel = scores._compared(_scaled(contexts[rows], columns))
                    gram += kernel.T @ kernel
                    to_first = kernel[:, :first].astype(np.float64)
                    known += to_first.T @ to_first
                    moment += kernel.T @ targets[rows].astype(np.float32)
                    yield float(starts[place - 1] + begin) / len(order)
                weights[place] = np.linalg.solve(gram, moment)
            roots[place] = _root(known)
        return scores

    def __call__(self, contexts: Features, arms: Indices) -> Floats:
        """The scores of (n, d) numbers and (n,) arms."""
        places = self._arms.find(arms)
        if not _equal(contexts):
            return _in_blocks(self._scores, contexts, places)
        kernel, known = self._kernel_of_one(contexts[:1])
        if len(places) == 1 and (score := known.get(places.item())) is not None:
            return np.array([score])
        return self._summed(kernel, places)

    def with_leverage(self, contexts: Features, arms: Indices) -> tuple[Floats, Floats]:
        """The scores, and how unlike the rows of its arm each row is: k'A⁻¹k = |L⁻¹k|², k its kernel."""
        places = self._arms.find(arms)
        if _equal(contexts):
            kernel, known = self._kernel_of_one(contexts[:1])
            scores, leverage = self._summed(kernel, places), self._leverage(kernel, places)
            found = dict(zip(places.tolist(), scores.tolist(), strict=True))
            # Replaced, never changed: the agent may be copied meanwhile.
            self._newest = contexts[:1].tobytes(), kernel, {**known, **found}
            return scores, leverage
        scores, leverage = _in_blocks(self._with_leverage, contexts, places)
        return scores, leverage

    @property
    def reward_sd(self) -> float:
        """The standard deviation of the rewards that it was fitted to."""
        return float(self._rewards[1])

    def _scores(self, contexts: Features, places: Indices) -> Floats:
        return self._summed(self._compared(_scaled(contexts, self._columns)), places)

    def _with_leverage(self, contexts: Features, places: Indices) -> Floats:
        kernel = self._compared(_scaled(contexts, self._columns))
        return np.stack([self._summed(kernel, places), self._leverage(kernel, places)])

    def _summed(self, kernel: Features, places: Indices) -> Floats:
        """The scores that follow from the (n, m) kernel of rows and landmarks, or from that of one row, (1, m)."""
        scores: Floats = np.einsum("ij,ij->i", kernel, self._weights[places])
        scores += self._rewards[0]
        return scores

    def _leverage(self, kernel: Features, places: Indices) -> Floats:
        """The leverage that follows from the kernel."""
        roots = self._roots[places]
        found = np.matmul(roots, kernel[:, : roots.shape[1], None])[:, :, 0]
        leverage: Floats = np.einsum("ij,ij->i", found, found)
        return leverage

    def attribution(self, contexts: Features, arms: Indices) -> tuple[float, Floats]:
        """The mean reward, and what each number adds to it, (n, d); what is left of the score is the arm's constant.

        The kernel is Σ x_j y_j (1 - φ/π), with 1 - φ/π the share of units that are active for both rows: each product
        is what its number adds.
        """
        scaled, weights = _scaled(contexts, self._columns), self._weights[self._arms.find(arms)]
        active = _active(scaled, self._directions)[0] * weights
        return float(self._rewards[0]), scaled * (active @ self._landmarks)

    def _kernel_of_one(self, contexts: Features) -> tuple[Features, dict[int, float]]:
        """The (1, m) kernel of one row and all landmarks, and the scores that were found of it, by place of the arm."""
        row, (newest, kernel, known) = contexts.tobytes(), self._newest
        if row != newest:
            kernel, known = self._compared(_scaled(contexts, self._columns)), {}
            self._newest = row, kernel, known
        return kernel, known

    def _compared(self, scaled: Features) -> Features:
        """The kernel of (n, d) scaled rows and all landmarks, (n, m)."""
        return _kernel(scaled, self._directions, self._lengths)

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        return {
            "arms": self._arms.labels,
            "scale": self._scale,
            "landmarks": self._landmarks,
            "weights": self._weights,
            "roots": self._roots,
            "rewards": self._rewards,
        }

    @classmethod
    def restored(cls, state: dict[str, Any], width: int) -> Self:
        """The scores that `state` described, of `width` columns."""
        labels = schema.labels(state, "arms")
        landmarks = schema.array(state, "landmarks", np.float32, (None, width))
        if not 0 < len(landmarks) <= _MOST:
            raise SavedFileError(f"{len(landmarks)} landmarks are saved; save the agent again")
        scale = schema.array(state, "scale", np.float32, (3, width))
        weights = schema.array(state, "weights", np.float64, (len(labels) + 1, len(landmarks)))
        roots = schema.array(state, "roots", np.float32, (len(labels) + 1, None, None))
        if not 0 < roots.shape[1] == roots.shape[2] <= min(_FIRST, len(landmarks)):
            raise SavedFileError(f"roots are {roots.shape[1]} x {roots.shape[2]}; save the agent again")
        rewards = schema.array(state, "rewards", np.float64, (2,))
        return cls(ArmIndex(labels), scale, landmarks, weights, roots, rewards)


def _moments(targets: Floats) -> Floats:
    return np.array([targets.mean(), targets.std()])


def _kernel(scaled: Features, directions: Features, lengths: Features) -> Features:
    """The kernel of (n, d) scaled rows and (m, d) others of which directions and lengths are given, (n, m)."""
    kernel, cosines, own = _active(scaled, directions)
    kernel *= cosines
    kernel *= own[:, None]
    kernel *= lengths
    kernel += np.float32(_CONSTANT)
    return kernel


def _active(scaled: Features, others: Features) -> tuple[Features, Features, Features]:
    """1 - φ/π and cos φ of rows and directions, (n, m), and the lengths of the rows."""
    directions, lengths = _directions(scaled)
    cosines = directions @ others.T
    np.minimum(np.maximum(cosines, -1.0, out=cosines), 1.0, out=cosines)
    active: Features = np.arccos(cosines)
    active *= np.float32(-1.0 / math.pi)
    active += np.float32(1.0)
    return active, cosines, lengths


def _different(kernel: Floats) -> Indices:
    """The first landmarks that those before do not tell already, by (m, m) kernels: a Cholesky factorisation."""
    found: list[int] = []
    factor, left = np.zeros((len(kernel), _FIRST)), kernel.diagonal().copy()
    least = _DIFFERENT * left
    while len(found) < _FIRST and (left > least).any():
        place, size = int(np.argmax(left > least)), len(found)
        told = factor[:, :size] @ factor[place, :size]
        factor[:, size] = (kernel[:, place] - told) / math.sqrt(left[place])
        left -= np.square(factor[:, size])
        left[place] = 0.0
        found.append(place)
    return np.array(found)


def _root(gram: Floats) -> Floats:
    """L⁻¹ of gram = LL': its 32-bit rounding is that of a root, and what follows from it is never below 0."""
    return np.linalg.inv(np.linalg.cholesky(gram))


def _equal(contexts: Features) -> bool:
    """Whether all rows are one and the same, as those of most decisions are; not asked of many."""
    n = len(contexts)
    return n == 1 or (1 < n <= _BLOCK and contexts.tobytes() == contexts[0].tobytes() * n)


def _in_blocks(found: Callable[[Features, Indices], Floats], contexts: Features, places: Indices) -> Floats:
    """What is found of all rows, some of them at a time: each is compared with all landmarks."""
    starts = range(0, max(len(places), 1), _BLOCK)
    blocks = [found(contexts[start : start + _BLOCK], places[start : start + _BLOCK]) for start in starts]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=-1)


def _columns(scale: Features) -> tuple[Features, Features, Features, Features]:
    """Mean, factor, least and greatest value of all columns, by their scale."""
    mean, factor, bound = scale
    return mean, factor, -bound, bound


def _scaled(contexts: Features, columns: tuple[Features, Features, Features, Features]) -> Features:
    """(n, d) numbers centred, scaled and cut off; what is missing is the mean."""
    mean, factor, least, greatest = columns
    scaled: Features = contexts - mean
    scaled *= factor
    missing = np.isnan(scaled)
    if np.count_nonzero(missing):
        scaled[missing] = 0.0
    np.minimum(np.maximum(scaled, least, out=scaled), greatest, out=scaled)
    return scaled


def _directions(scaled: Features) -> tuple[Features, Features]:
    """(n, d) rows of length 1, or 0, and the (n,) lengths they had."""
    lengths: Features = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    directions: Features = np.divide(scaled, np.maximum(lengths, 1e-30)[:, None], dtype=np.float32)
    return directions, lengths


def _scale(contexts: Features) -> Features:
    """Mean, factor and bound of each of (n, d) columns; the mean square of a scaled row's length is 1."""
    values = contexts.astype(np.float64)
    missing = np.isnan(values)
    count = np.maximum((~missing).sum(axis=0), 1)
    mean = np.where(missing, 0.0, values).sum(axis=0) / count
    centred = np.where(missing, 0.0, values - mean)
    largest = np.maximum(np.abs(centred).max(axis=0), np.finfo(np.float64).tiny)
    shares = np.square(centred / largest)
    square, fourth = shares.sum(axis=0) / count, np.square(shares).sum(axis=0) / count
    varies = square > 1e-14
    kurtosis = fourth / np.where(varies, square, 1.0) ** 2
    factor = np.where(varies, 1.0 / (largest * np.sqrt(np.where(varies, square, 1.0))), 0.0)
    factor /= np.sqrt(np.maximum(kurtosis / 3.0, 1.0))
    length = float(np.sqrt(np.square(centred * factor).sum(axis=1).mean()))
    bound = np.full(len(mean), _BOUND / math.sqrt(max(int(varies.sum()), 1)))
    return np.stack([mean, np.minimum(factor / (length or 1.0), LARGEST), bound]).astype(np.float32)
