"""Write scikit-learn's digits as a table, and a study of it, into a folder; other made tables come with the package.

python benchmarks/made_tables.py results/made
treebandit run results/made/made.toml --into results/made/runs
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_digits

STUDY = """title = "The default agent on digits"
rounds = 10000
seeds = 2
environments = [{ csv = "digits.csv", label = "label" }]

[[agents]]
name = "treebandit"
class = "Bandit"

[[agents]]
name = "no linear model"
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
    noisy = pixels + random.standard_normal(pixels.shape)
    frame = pl.DataFrame(noisy, schema=[f"x{j}" for j in range(noisy.shape[1])])
    return frame.with_columns(label=pl.Series([f"class {label}" for label in np.tile(labels, 4)]))


def main(folder: Path) -> None:
    """Write the table and the study."""
    folder.mkdir(parents=True, exist_ok=True)
    digits(np.random.default_rng(7)).write_csv(folder / "digits.csv")
    (folder / "made.toml").write_text(STUDY)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
