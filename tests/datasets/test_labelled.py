import hashlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.datasets.labelled import encode, read_labelled
from treebandit.errors import DataError

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
    assert table.columns.categories == (0, 3, 2)
    np.testing.assert_array_equal(table.contexts, np.float32([[1.5, 2, 1], [np.nan, 1, 0], [3, 0, 1]]))


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
        ({"x": [1.0, float("inf")], "y": ["a", "b"]}, "'x' of .* holds inf in row 2"),
        ({"x": [1.0, 1e300], "y": ["a", "b"]}, r"holds 1e\+300 in row 2"),
        ({"x": [1.0, 2.0], "y": ["a", "a"]}, "has one class, 'a'"),
        ({"x": [1.0, 2.0], "y": ["a", None]}, "is missing in 1 rows"),
        ({"x": [1.0, 2.0], "y": [1.0, float("nan")]}, "is missing in 1 rows"),
        ({"x": [1.0, 2.0], "y": [0.5, 1.0]}, "holds fractions"),
        ({"x": [[1], [2]], "y": ["a", "b"]}, "'x' of .* is of type List"),
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
