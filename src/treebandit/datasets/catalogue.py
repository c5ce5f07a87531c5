"""The shipped data sets: one entry each, with file, checksum, licence and citation."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from treebandit.datasets.generated import GENERATED, generate
from treebandit.datasets.labelled import LabelledTable, read_labelled
from treebandit.errors import DataError, nearest

FILES = Path(__file__).parent / "files"
LICENCE = "CC BY 4.0"


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set before its file is opened.

    name, file, sha256: what it is called, its file in the package, and what that must hash to.
    rows, features, classes: how many.
    numeric: names of the columns that are numbers; all others are categories.
    citation, licence: of whom it is, and on which terms.
    label: the column of classes.

    >>> from treebandit.datasets import CATALOGUE
    >>> [data.name for data in CATALOGUE if data.rows > 50_000]
    ['shuttle']
    """

    name: str
    file: str
    sha256: str
    rows: int
    features: int
    classes: int
    numeric: tuple[str, ...]
    citation: str
    label: str = "class"
    licence: str = LICENCE


#: Every data set that comes with the package; `treebandit data` lists them.
CATALOGUE: tuple[DataSet, ...] = (
    DataSet(
        name="adult",
        file="adult.csv.gz",
        sha256="23e41157d967368f596bcf711f5948a1c28d65667450829e918658a883e990a2",
        rows=48_842,
        features=14,
        classes=2,
        numeric=("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
        citation="Becker, B. & Kohavi, R. (1996). Adult [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5XW20",
    ),
    DataSet(
        name="magic",
        file="magic.csv.gz",
        sha256="1209f64a3ef705bc72765d9d37c907b5f2d7a28ab7ae3b45469de766804be18f",
        rows=19_020,
        features=10,
        classes=2,
        numeric=(
            *("fLength", "fWidth", "fSize", "fConc", "fConc1"),
            *("fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist"),
        ),
        citation="Bock, R. (2004). MAGIC Gamma Telescope [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C52C8B",
    ),
    DataSet(
        name="mushroom",
        file="mushroom.csv.gz",
        sha256="8d3bad4a836cef1358a8ffc0351b22c85c0cf086700e90de98038294e1903a72",
        rows=8_124,
        features=22,
        classes=2,
        numeric=(),
        citation="Mushroom [Dataset]. (1981). UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5959T",
    ),
    DataSet(
        name="shuttle",
        file="shuttle.csv.gz",
        sha256="9dc151eb3485b5a19671bbe00ccaefd45a1f4988d7cc65b986462bb01b47f436",
        rows=58_000,
        features=9,
        classes=7,
        numeric=tuple(f"a{number}" for number in range(1, 10)),
        citation="Statlog (Shuttle) [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5WS31",
    ),
)


def find(name: str) -> DataSet:
    """The catalogue's entry of a data set."""
    for entry in CATALOGUE:
        if isinstance(name, str) and entry.name == name:
            return entry
    names = [*(entry.name for entry in CATALOGUE), *GENERATED]
    raise DataError(
        f"no data set {reprlib.repr(name)}; {nearest(str(name), names)}there are {', '.join(names)}, "
        "or give a file of your own as csv or parquet"
    )


def load(name: str) -> LabelledTable:
    """A shipped data set, its checksum verified, or a generated table; once per process, its arrays read-only."""
    return _load(name) if isinstance(name, str) else read(find(name))


@lru_cache(maxsize=len(CATALOGUE) + len(GENERATED))
def _load(name: str) -> LabelledTable:
    return generate(name) if name in GENERATED else read(find(name))


def read(entry: DataSet, folder: Path = FILES) -> LabelledTable:
    """Read an entry's file and hold it against what the entry says."""
    path = folder / entry.file
    table = read_labelled(path, entry.label, sha256=entry.sha256, numeric=entry.numeric)
    found = (len(table), len(table.columns), len(table.classes))
    expected = (entry.rows, entry.features, entry.classes)
    if found != expected:
        raise DataError(f"{path} has (rows, features, classes) {found}, the catalogue says {expected}")
    return table
