import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.datasets.labelled import encode, read_labelled
from treebandit.errors import DataError
from treebandit.features.inputs import Inputs

CSV = "size,colour,old,y\n1.5,red,true,b\n,green,false,a\n3,,true,b\n"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text(CSV)
    return path


def test_a_users_csv(csv):
    table = read_labelled(csv, "y")
    assert table.classes == ("a", "b")
    assert table.labels.tolist() == [1, 0, 1]
    assert table.columns.names == ("size", "colour", "old")
    assert table.columns.categories == (0, 2, 2)
    np.testing.assert_array_equal(table.contexts, np.float32([[1.5, 1, 1], [np.nan, 0, 0], [3, np.nan, 1]]))


def test_a_study_and_an_agent_give_the_same_codes(csv):
    table = read_labelled(csv, "y")
    for frame in (pl.read_csv(csv).drop("y"), pd.read_csv(csv).drop(columns="y")):
        candidates, _ = Inputs().enter(frame)
        np.testing.assert_array_equal(candidates.contexts, table.contexts)
        assert candidates.columns == table.columns


def test_large_numbers_of_small_spread_keep_their_digits():
    seconds = 1.7e9 + np.arange(100.0)
    table = encode(pl.DataFrame({"seconds": seconds, "y": np.arange(100) % 2}), "y")
    assert len(np.unique(table.contexts)) == 100


@pytest.mark.parametrize("mark", ["NA", "?", "null", "", " n/a "])
def test_marks_of_missing_numbers_are_missing(tmp_path, mark):
    path = tmp_path / "my.csv"
    path.write_text(f"age,kind,y\n31,{mark},a\n{mark},x,b\n1e3,x,a\n-2.5,z,a\n")
    table = read_labelled(path, "y")
    assert table.columns.categories[0] == 0
    np.testing.assert_array_equal(table.contexts[:, 0], np.float32([31, np.nan, 1000, -2.5]))
    assert table.columns.categories[1] == (2 if mark == "" else 3)


@pytest.mark.parametrize("mark", ["NA", "?", "null", "", " n/a "])
def test_marks_of_missing_labels_are_refused_as_empty_cells_are(tmp_path, mark):
    path = tmp_path / "t.csv"
    path.write_text(f"x,y\n1,0\n2,{mark}\n3,1\n")
    with pytest.raises(DataError, match="label 'y' of .* is missing in 1 rows; drop them"):
        read_labelled(path, "y")


@pytest.mark.parametrize("labels", [("none", "some"), ("?", "!"), ("1", "other", "none")])
def test_marks_among_words_are_classes(tmp_path, labels):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{n},{label}\n" for n, label in enumerate(labels)))
    assert read_labelled(path, "y").classes == tuple(sorted(labels))


def test_text_among_numbers_is_named_and_text_stays_text(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("age,code,y\n31,12,a\nold,B1,b\n1e3,C1,a\n")
    with pytest.raises(DataError, match="'age' of .*my.csv holds numbers, but 'old' in row 2; correct it"):
        read_labelled(path, "y")
    path.write_text("mark,code,y\n?,12,a\nNA,B1,b\n?,C1,a\n")
    assert read_labelled(path, "y").columns.categories == (2, 3)


def test_parquet_equals_csv(csv, tmp_path):
    pl.read_csv(csv).write_parquet(tmp_path / "my.parquet")
    one, other = read_labelled(csv, "y"), read_labelled(tmp_path / "my.parquet", "y")
    np.testing.assert_array_equal(one.contexts, other.contexts)
    assert one.columns == other.columns
    assert one.labels.tolist() == other.labels.tolist()


def test_checksum(csv):
    right = hashlib.sha256(CSV.encode()).hexdigest()
    assert len(read_labelled(csv, "y", sha256=right)) == 3
    with pytest.raises(DataError, match=f"has sha256 {right}, expected 0000"):
        read_labelled(csv, "y", sha256="0000")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, 2.0]}, "no column 'y'; its columns are x"),
        ({"x": [1.0, float("inf")], "y": ["a", "b"]}, "'x' is infinite in row 1, .*rows count from 0"),
        ({"x": [1.0, 1e300], "y": ["a", "b"]}, "'x' is infinite in row 1, or too large"),
        ({"x": [1.0, 2.0], "y": ["a", "a"]}, "has one class, 'a'"),
        ({"x": [1.0, 2.0], "y": ["a", None]}, "is missing in 1 rows"),
        ({"x": [1.0, 2.0], "y": [1.0, float("nan")]}, "is missing in 1 rows"),
        ({"x": [1.0, 2.0], "y": [0.5, 1.0]}, "holds fractions"),
        ({"x": [[1], [2]], "y": ["a", "b"]}, "'x' holds values of type list"),
        ({"x": [1.0, 2.0], "y": [[1], [2]]}, "label 'y' of .* is of type List"),
        ({"y": ["a", "b"]}, "2 rows and 1 columns"),
    ],
)
def test_what_cannot_be_used_is_named(columns, message):
    with pytest.raises(DataError, match=message):
        encode(pl.DataFrame(columns), "y")


def test_a_file_that_is_no_table(tmp_path):
    path = tmp_path / "my.parquet"
    path.write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match="cannot be read as a table"):
        read_labelled(path, "y")


@given(st.lists(st.tuples(st.text("ab?", max_size=2), st.integers(-5, 5)), min_size=2, max_size=30))
def test_codes_and_labels_against_sorted_lists(rows):
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    if len(set(labels)) < 2:
        return
    table = encode(pl.DataFrame({"x": texts, "y": labels}), "y")
    assert table.contexts[:, 0].tolist() == [sorted(set(texts)).index(text) for text in texts]
    assert [int(table.classes[label]) for label in table.labels] == labels
    assert table.classes == tuple(str(label) for label in sorted(set(labels)))
