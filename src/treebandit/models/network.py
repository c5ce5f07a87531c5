"""A small network in torch that knows the gradient of its output: what NeuralUCB and NeuralTS learn with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Features, Floats, Indices
from treebandit.errors import MissingExtraError, ParameterError, SavedFileError
from treebandit.parameters import check_number

if TYPE_CHECKING:
    from torch import Generator, Tensor

#: U starts as λI in 32 bits, and must stay invertible there.
_SMALLEST_REGULARISATION = 1e-12
_FULL_LIMIT = 5000
#: Up to as many blocks, one product over all of them is faster than one per block.
_FEW_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What a neural model is made of; the arguments of the agents that have one, under the same names."""

    regularisation: float = 1e-3
    hidden: Sequence[int] = (100,)
    dropout: float = 0.2
    arm_encoding: Literal["disjoint", "none"] = "disjoint"
    rebuild: str = "8 ln t"
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimiser: Literal["adam", "sgd"] = "adam"
    early_stopping: bool = False
    matrix: Literal["diagonal", "full"] = "diagonal"
    standardise: bool = True
    #: Not 'raw': gradient steps on numbers of any size run off to infinity.
    features: Literal["scaled", "unit"] = "scaled"

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ParameterError("hidden is empty; give the units of each hidden layer, such as (100,)")
        for units in self.hidden:
            check_number("hidden", units, least=1, whole=True)
        check_number("regularisation", self.regularisation, least=_SMALLEST_REGULARISATION)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("dropout", self.dropout, least=0, below=1)
        for name in ("epochs", "batch_size"):
            check_number(name, getattr(self, name), least=1, whole=True)


class GradientNetwork:
    """Layers of ReLU units with one output, its parameters in one flat vector, and the matrix U of its gradients.

    inputs: features of a row. blocks: weight matrices of the first layer, one per arm row, row 0 for arms not seen yet;
    None for a single one. The vector holds all biases and later layers first and the first layer's blocks last, so that
    a new arm only makes it longer.
    """

    def __init__(
        self, inputs: int, settings: NetworkSettings, *, blocks: int | None, generator: Generator
    ) -> None:
        torch = load_torch()
        self._settings, self._sizes, self._generator = settings, (inputs, *settings.hidden, 1), generator
        self._prior, self._full = settings.regularisation, settings.matrix == "full"
        self._disjoint = blocks is not None
        self.inputs = inputs
        self.blocks = 0
        self.steps = 0
        self.vectors = torch.zeros((4, 0))
        self._matrix = torch.zeros((0, 0), dtype=torch.float64)
        self._lengthen(self._initial_upper())
        self.grow(1 if blocks is None else blocks)

    def __getstate__(self) -> dict[str, Any]:
        # Arrays alone: torch hands tensors over to a spawned process as files, views and generators by ones that it
        # cannot open. The model gives the generator back.
        left_out = ("_weights", "_curvature", "_generator")
        own = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**own, "vectors": self.vectors.numpy(), "_matrix": self._matrix.numpy()}

    def __setstate__(self, members: dict[str, Any]) -> None:
        vars(self).update(members)
        self.vectors, self._matrix = map(load_torch().from_numpy, (members["vectors"], members["_matrix"]))
        self._renew_views()

    def grow(self, blocks: int) -> None:
        """See to it that there are so many blocks; new ones have random weights and have seen nothing."""
        bound = 1.0 / math.sqrt(self._sizes[0])
        size = self._sizes[0] * self._sizes[1]
        if self.blocks >= blocks:
            return
        while self.blocks < blocks:
            self.blocks += 1
            self._lengthen(self._uniform(size, bound))
        self._renew_views()

    def _initial_upper(self) -> Tensor:
        """First biases, then weights and biases of each later layer, uniform by the number of inputs."""
        parts = [self._uniform(self._sizes[1], 1.0 / math.sqrt(self._sizes[0]))]
        for inputs, units in pairwise(self._sizes[1:]):
            parts += [self._uniform(units * (inputs + 1), 1.0 / math.sqrt(inputs))]
        joined: Tensor = load_torch().cat(parts)
        return joined

    def _uniform(self, length: int, bound: float) -> Tensor:
        drawn: Tensor = load_torch().rand(length, generator=self._generator)
        return (drawn * 2.0 - 1.0) * bound

    def _lengthen(self, weights: Tensor) -> None:
        torch, old = load_torch(), self.vectors.shape[1]
        new = torch.zeros((4, len(weights)))
        new[0], new[1] = weights, self._prior
        self.vectors = torch.cat((self.vectors, new), 1)
        if self._full:
            length = old + len(weights)
            if length > _FULL_LIMIT:
                raise ParameterError(
                    f"matrix='full' for {length} parameters; use matrix='diagonal', or a smaller network "
                    f"of at most {_FULL_LIMIT}"
                )
            matrix = torch.eye(length, dtype=torch.float64) / self._prior
            matrix[:old, :old] = self._matrix
            self._matrix = matrix

    def _renew_views(self) -> None:
        """Renew the views of weights and U after the vectors have moved."""
        self._weights, self._curvature = self.layers(self.vectors[0]), self.layers(self.vectors[1])

    def layers(self, vector: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views of a flat vector as (weights, biases) of each layer; the first layer's weights are (blocks, h, d)."""
        inputs, units = self._sizes[:2]
        end = len(vector) - self.blocks * inputs * units
        first = vector[end:].view(self.blocks, units, inputs)
        layers = [(first, vector[:units])]
        place = units
        for inputs, units in pairwise(self._sizes[1:]):
            weights = vector[place : place + inputs * units].view(units, inputs)
            place += inputs * units
            layers.append((weights, vector[place : place + units]))
            place += units
        return layers

    def _forward(
        self, rows: Tensor, arm_rows: Tensor | None, dropout: float = 0.0
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Output (n,), the inputs of each layer, and the slope of each hidden unit."""
        torch = load_torch()
        (first, bias), later = self._weights[0], self._weights[1:]
        inputs, slopes = [rows], []
        sums = _apply_blocks(first, rows, arm_rows) + bias
        for weights, biases in later:
            slope = (sums > 0).float()
            if dropout:
                kept = torch.rand(slope.shape, generator=self._generator) >= dropout
                slope *= kept * (1.0 / (1.0 - dropout))
            slopes.append(slope)
            inputs.append(sums * slope)
            sums = torch.addmm(biases, inputs[-1], weights.T)
        output: Tensor = sums[:, 0]
        return output, inputs, slopes

    def _backward(self, top: Tensor, slopes: list[Tensor]) -> list[Tensor]:
        """Derivative of each row's output, times (n,) `top`, by the sums that enter each layer's units."""
        deltas = [top[:, None]]
        for (weights, _), slope in zip(self._weights[:0:-1], slopes[::-1], strict=True):
            deltas.insert(0, (deltas[0] @ weights) * slope)
        return deltas

    def predict(self, rows: Features, arm_rows: Indices | None) -> tuple[Floats, Floats]:
        """Output and g'U⁻¹g of each row, both (n,)."""
        torch = load_torch()
        x, place = torch.from_numpy(rows), _tensor(arm_rows)
        output, inputs, slopes = self._forward(x, place)
        deltas = self._backward(torch.ones(len(rows)), slopes)
        if self._full:
            gradients = self._gradients(deltas, inputs, place)
            leverage = ((gradients @ self._matrix) * gradients).sum(1)
        else:
            leverage = self._diagonal_leverage(deltas, inputs, place)
        return output.numpy().astype(np.float64), leverage.numpy().astype(np.float64)

    def _diagonal_leverage(
        self, deltas: list[Tensor], inputs: list[Tensor], arm_rows: Tensor | None
    ) -> Tensor:
        """Σ g²/U: the gradient by a weight is its unit's delta times its input, by a bias the delta alone."""
        layers = self._curvature
        leverage: Tensor = load_torch().zeros(deltas[0].shape[0])
        for place, ((weights, biases), delta, entering) in enumerate(
            zip(layers, deltas, inputs, strict=True)
        ):
            squared, entered = delta.square(), entering.square()
            if place:
                by_input = squared @ weights.reciprocal()
            else:
                by_input = _apply_blocks(weights.reciprocal().transpose(1, 2), squared, arm_rows)
            leverage += (by_input * entered).sum(1) + squared @ biases.reciprocal()
        return leverage

    def _gradients(self, deltas: list[Tensor], inputs: list[Tensor], arm_rows: Tensor | None) -> Tensor:
        """The gradients themselves, in the order of the flat vector: (n, parameters)."""
        torch = load_torch()
        n = len(deltas[0])
        parts = [deltas[0]]
        for delta, entering in zip(deltas[1:], inputs[1:], strict=True):
            parts += [torch.einsum("nh,nd->nhd", delta, entering).reshape(n, -1), delta]
        blocks = torch.zeros((n, self.blocks, self._sizes[1], self._sizes[0]))
        place = torch.zeros(n, dtype=torch.long) if arm_rows is None else arm_rows
        blocks[torch.arange(n), place] = torch.einsum("nh,nd->nhd", deltas[0], inputs[0])
        gradients: Tensor = torch.cat([*parts, blocks.reshape(n, -1)], 1).double()
        return gradients

    def add_gradients(self, rows: Features, arm_rows: Indices | None) -> None:
        """Add the gradients at these rows to U."""
        torch = load_torch()
        x, place = torch.from_numpy(rows), _tensor(arm_rows)
        _, inputs, slopes = self._forward(x, place)
        deltas = self._backward(torch.ones(len(rows)), slopes)
        if self._full:
            for gradient in self._gradients(deltas, inputs, place):
                turned = self._matrix @ gradient
                self._matrix -= torch.outer(turned, turned) / (1.0 + gradient @ turned)
            return
        squares = [delta.square() for delta in deltas], [entering.square() for entering in inputs]
        self._add_products(self.vectors[1], *squares, place)

    def _add_products(
        self, vector: Tensor, deltas: list[Tensor], inputs: list[Tensor], arm_rows: Tensor | None
    ) -> None:
        """Add Σ over the rows of (delta x input) to the weights and of delta to the biases in a flat vector."""
        layers = self.layers(vector)
        for (weights, biases), delta, entering in zip(layers[1:], deltas[1:], inputs[1:], strict=True):
            weights.addmm_(delta.T, entering)
            biases += delta.sum(0)
        first, bias = layers[0]
        bias += deltas[0].sum(0)
        if arm_rows is None:
            first[0].addmm_(deltas[0].T, inputs[0])
            return
        if len(first) > _FEW_BLOCKS or len(arm_rows) == 1:
            for arm_row in set(arm_rows.tolist()):
                chosen = arm_rows == arm_row
                first[arm_row].addmm_(deltas[0][chosen].T, inputs[0][chosen])
            return
        n, units = deltas[0].shape
        by_block = load_torch().zeros((n, len(first), units))
        by_block[load_torch().arange(n), arm_rows] = deltas[0]
        first.view(-1, first.shape[2]).addmm_(by_block.view(n, -1).T, inputs[0])

    def copy(self, generator: Generator) -> GradientNetwork:
        """A network that changes on its own from here on, with a generator of its own."""
        twin = copy(self)
        twin._generator = generator
        twin.vectors, twin._matrix = self.vectors.clone(), self._matrix.clone()
        twin._renew_views()
        return twin

    def train(self, rows: Features, arm_rows: Indices | None, targets: Features) -> None:
        """Passes of mini-batch steps down the squared error, from the weights as they are."""
        torch, settings = load_torch(), self._settings
        x, y, place = torch.from_numpy(rows), torch.from_numpy(targets), _tensor(arm_rows)
        decay = self._prior / len(rows)
        best = math.inf
        for _ in range(settings.epochs):
            order = torch.randperm(len(rows), generator=self._generator)
            error = 0.0
            for batch in order.split(settings.batch_size):
                batch_arm_rows = None if place is None else place[batch]
                output, inputs, slopes = self._forward(x[batch], batch_arm_rows, settings.dropout)
                residual = output - y[batch]
                if settings.early_stopping:
                    error += float(residual.square().sum())
                deltas = self._backward(residual * (2.0 / len(batch)), slopes)
                gradient = self.vectors[0] * decay
                self._add_products(gradient, deltas, inputs, batch_arm_rows)
                self.step(gradient)
            if settings.early_stopping and error >= best:
                break
            best = min(best, error)

    def step(self, gradient: Tensor) -> None:
        """One step of Adam (first and second moments in rows 2 and 3) or of plain gradient descent."""
        self.steps += 1
        rate, (weights, _, first, second) = self._settings.learning_rate, self.vectors
        if self._settings.optimiser == "sgd":
            weights.sub_(gradient, alpha=rate)
            return
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        correction = math.sqrt(1.0 - 0.999**self.steps)
        size = rate * correction / (1.0 - 0.9**self.steps)
        weights.addcdiv_(first, second.sqrt().add_(1e-8 * correction), value=-size)

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, the optimiser's moments are zeros."""
        vectors = self.vectors.numpy()
        if not history:
            vectors = vectors.copy()
            vectors[2:] = 0.0
        return {
            "blocks": self.blocks if self._disjoint else None,
            "steps": self.steps,
            "vectors": vectors,
            "matrix": self._matrix.numpy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` holds."""
        vectors = schema.array(state, "vectors", np.float32, tuple(self.vectors.shape))
        if not (vectors[1] > 0).all() or (vectors[3] < 0).any():
            raise SavedFileError("the saved matrix U of the network, or its second moments, are not positive")
        matrix = schema.array(state, "matrix", np.float64, tuple(self._matrix.shape))
        self.steps = schema.whole(state, "steps")
        self.vectors, self._matrix = load_torch().from_numpy(vectors), load_torch().from_numpy(matrix)
        self._renew_views()


def count_parameters(sizes: tuple[int, ...], blocks: int) -> int:
    """How many parameters a network of these layers has."""
    return (blocks - 1) * sizes[0] * sizes[1] + sum((inputs + 1) * units for inputs, units in pairwise(sizes))


def restore_generator(generator: Generator, state: NDArray[np.uint8]) -> None:
    """Let torch's generator go on from a saved state, if torch would not read beyond its numbers."""
    # A Mersenne twister: seed, numbers left and whether it was seeded, the next one, then 624 numbers.
    left, following = int(state[8:12].view(np.int32)[0]), int(state[16:24].view(np.uint64)[0])
    if (left, following) != (1, 0) and not (1 <= left <= 624 and left + following == 625):
        raise SavedFileError("the saved state of the random generator is damaged")
    generator.set_state(load_torch().from_numpy(state))


def _apply_blocks(blocks: Tensor, rows: Tensor, arm_rows: Tensor | None) -> Tensor:
    """Each row (n, d) times its arm_row's block of (blocks, h, d): (n, h)."""
    if arm_rows is None:
        return rows @ blocks[0].T
    if len(rows) <= len(blocks):
        return (blocks[arm_rows] @ rows[:, :, None])[:, :, 0]
    products = rows @ blocks.reshape(-1, blocks.shape[2]).T
    places = arm_rows[:, None, None].expand(-1, 1, blocks.shape[1])
    return products.view(len(rows), len(blocks), -1).gather(1, places)[:, 0]


def _tensor(arm_rows: Indices | None) -> Tensor | None:
    return None if arm_rows is None else load_torch().from_numpy(np.asarray(arm_rows, np.int64))


def load_torch() -> Any:
    """The torch module, or a MissingExtraError."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "neural") from error
    return torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread here: its matrices are small, and threads that wait take the others' time."""
    torch = load_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
