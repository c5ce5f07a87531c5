"""Write the tables of docs/default-agent.md that are made, not collected, and a study of them, into a folder.

python benchmarks/made_tables.py results/made
treebandit run results/made/made.toml --into results/made/runs
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_digits, make_classification

STUDY = """title = "The default agent on made tables"
rounds = 10000
seeds = 2
environments = [
    { csv = "digits.csv", label = "label" },
    { csv = "letters.csv", label = "label" },
    { csv = "sparse.csv", label = "label" },
    { csv = "mixed.csv", label = "label" },
]

[[agents]]
name = "treebandit"
class = "Bandit"

[[agents]]
name = "no linear score"
class = "Bandit"
linear = false
trees = { class = "HistogramForest", bootstrap = false, subsample = 0.8 }

[[agents]]
name = "LinUCB"
class = "LinUCB"
"""


def digits(random: np.random.Generator) -> pl.DataFrame:
    """scikit-learn's digits four times over, 64 pixels with noise, 10 classes."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = np.tile(pixels, (4, 1))
    return _frame(pixels + random.standard_normal(pixels.shape), np.tile(labels, 4))


def letters(random: np.random.Generator) -> pl.DataFrame:
    """26 classes of two clusters each in 16 columns of whole numbers from 0 to 15."""
    centres = random.uniform(2, 13, (26, 2, 16))
    labels = random.integers(0, 26, 10_000)
    points = centres[labels, random.integers(0, 2, 10_000)] + 2.2 * random.standard_normal((10_000, 16))
    return _frame(np.round(points).clip(0, 15), labels)


def sparse(random: np.random.Generator) -> pl.DataFrame:
    """4 classes that 5 of 50 columns tell apart, one label in 20 wrong."""
    features, labels = make_classification(
        10_000, 50, n_informative=5, n_redundant=0, n_classes=4, flip_y=0.05, random_state=3
    )
    return _frame(features, labels)


def mixed(random: np.random.Generator) -> pl.DataFrame:
    """5 classes from 4 columns of categories and 6 of numbers, a tenth of these missing, drawn by a softmax."""
    n, counts = 6_000, (5, 12, 30, 3)
    codes = random.integers(0, counts, (n, 4))
    numbers = random.standard_normal((n, 6))
    numbers[random.random((n, 6)) < 0.1] = np.nan
    effects = [random.standard_normal((count, 5)) for count in counts]
    scores = np.sum([effects[j][codes[:, j]] for j in range(4)], axis=0)
    scores = scores + np.nan_to_num(numbers) @ random.standard_normal((6, 5)) + random.gumbel(size=(n, 5))
    categories = {f"c{j}": [f"v{code}" for code in codes[:, j]] for j in range(4)}
    return pl.DataFrame(categories).hstack(_frame(numbers, scores.argmax(1)))


def _frame(features: np.ndarray, labels: np.ndarray) -> pl.DataFrame:
    frame = pl.DataFrame(features, schema=[f"x{j}" for j in range(features.shape[1])]).fill_nan(None)
    return frame.with_columns(label=pl.Series([f"class {label}" for label in labels]))


def main(folder: Path) -> None:
    """Write the four tables and the study."""
    folder.mkdir(parents=True, exist_ok=True)
    for make in (digits, letters, sparse, mixed):
        make(np.random.default_rng(7)).write_csv(folder / f"{make.__name__}.csv")
    (folder / "made.toml").write_text(STUDY)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
