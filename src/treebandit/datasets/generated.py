"""Generated tables: problems of kinds that the shipped data sets are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treebandit.core import Columns, Floats, Indices, Random
from treebandit.datasets.labelled import LabelledTable

_SEED = 7


def letters(random: Random) -> LabelledTable:
    """26 classes of two clusters each, in 16 columns of whole numbers from 0 to 15; 10,000 rows."""
    centres = random.uniform(2, 13, (26, 2, 16))
    labels = random.integers(0, 26, 10_000)
    points = centres[labels, random.integers(0, 2, 10_000)] + 2.2 * random.standard_normal((10_000, 16))
    return _table(np.round(points).clip(0, 15), labels, 26)


def sparse(random: Random) -> LabelledTable:
    """4 classes of two clusters each that 5 of 50 columns tell apart, one label in 20 drawn anew; 10,000 rows."""
    n = 10_000
    corners = random.permutation(32)[:8].reshape(4, 2)
    labels = random.integers(0, 4, n)
    corner = corners[labels, random.integers(0, 2, n)]
    points = random.standard_normal((n, 50))
    points[:, :5] += 2.0 * ((corner[:, None] >> np.arange(5)) & 1) - 1.0
    anew = random.random(n) < 0.05
    labels[anew] = random.integers(0, 4, int(anew.sum()))
    return _table(points[:, random.permutation(50)], labels, 4)


def mixed(random: Random) -> LabelledTable:
    """5 classes from 4 columns of categories and 6 of numbers, a tenth of these missing, by a softmax; 6,000 rows."""
    n, counts = 6_000, (5, 12, 30, 3)
    codes = random.integers(0, counts, (n, 4))
    numbers = random.standard_normal((n, 6))
    numbers[random.random((n, 6)) < 0.1] = np.nan
    effects = [random.standard_normal((count, 5)) for count in counts]
    scores = np.sum([effects[j][codes[:, j]] for j in range(4)], axis=0)
    scores = scores + np.nan_to_num(numbers) @ random.standard_normal((6, 5)) + random.gumbel(size=(n, 5))
    return _table(np.hstack([codes, numbers]), scores.argmax(1), 5, categories=(*counts, *(0,) * 6))


def _table(
    contexts: Floats, labels: Indices, classes: int, *, categories: tuple[int, ...] = ()
) -> LabelledTable:
    kinds = categories or (0,) * contexts.shape[1]
    columns = Columns(kinds, tuple(f"x{j}" for j in range(len(kinds))))
    names = tuple(f"class {label}" for label in range(classes))
    return LabelledTable(contexts.astype(np.float32), labels.astype(np.intp), names, columns)


#: What `load` knows beside the catalogue.
GENERATED: dict[str, Callable[[np.random.Generator], LabelledTable]] = {
    "letters": letters,
    "mixed": mixed,
    "sparse": sparse,
}


def generate(name: str) -> LabelledTable:
    """The generated table of this name, the same each time."""
    return GENERATED[name](np.random.default_rng(_SEED))
