import gzip
import shutil

import numpy as np
import pytest

from treebandit.datasets.catalogue import CATALOGUE, FILES, find, load, read
from treebandit.errors import DataError


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_shipped_sets_are_what_the_catalogue_says(entry):
    table = load(entry.name)
    assert table.contexts.shape == (entry.rows, entry.features)
    assert table.contexts.dtype == np.float32
    assert len(table.classes) == entry.classes
    numeric = {
        name for name, count in zip(table.columns.names, table.columns.categories, strict=True) if not count
    }
    assert numeric == set(entry.numeric)
    assert entry.licence == "CC BY 4.0"
    assert "doi.org" in entry.citation


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("adult", [37_155, 11_687]),
        ("magic", [12_332, 6_688]),
        ("mushroom", [4_208, 3_916]),
        ("shuttle", [45_586, 50, 171, 8_903, 3_267, 10, 13]),
    ],
)
def test_class_counts(name, counts):
    assert np.bincount(load(name).labels).tolist() == counts


def test_codes_are_those_of_the_file_and_question_marks_a_category():
    table = load("adult")
    with gzip.open(FILES / "adult.csv.gz", "rt") as lines:
        header, *rows = [line.strip().split(",") for line in lines]
    column = header.index("workclass")
    values = [row[column] for row in rows]
    names = sorted(set(values))
    assert "?" in names
    assert table.columns.categories[column] == len(names)
    assert table.contexts[:, column].tolist() == [names.index(value) for value in values]
    age = header.index("age")
    assert table.contexts[:, age].tolist() == [float(row[age]) for row in rows]


def test_tables_are_read_once_and_cannot_be_changed():
    table = load("mushroom")
    assert load("mushroom") is table
    with pytest.raises(ValueError, match="read-only"):
        table.contexts[0, 0] = 1


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(DataError, match="adult, magic, mushroom, shuttle"):
        find("iris")
    for name in ("iris", 3, None, ["adult"], {"adult"}, np.array(["adult"])):
        with pytest.raises(DataError, match="no data set .*there are adult"):
            load(name)


def test_damaged_file_is_told_by_its_checksum(tmp_path):
    entry = find("mushroom")
    shutil.copy(FILES / entry.file, tmp_path)
    content = bytearray((tmp_path / entry.file).read_bytes())
    content[1000] ^= 1
    (tmp_path / entry.file).write_bytes(content)
    with pytest.raises(DataError, match="damaged or was changed"):
        read(entry, tmp_path)


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match="cannot be opened"):
        read(find("mushroom"), tmp_path)
