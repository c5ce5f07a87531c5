from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from features.encoded import NAN, Table
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit import LinUCB
from treebandit.core import Columns
from treebandit.errors import InputError
from treebandit.features.frame_encoder import FrameEncoder

# Lone surrogates stay away: polars refuses them.
texts = st.sampled_from(["", "a", "b", "None", "nan", "ä", "1", "True"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=3
)
kinds = st.sampled_from(["number", "integer", "text", "boolean", "enum"])
values_of = {
    "number": st.floats(-(2.0**100), 2.0**100, width=32) | st.just(NAN),
    "integer": st.integers(-(2**24), 2**24),
    "text": texts,
    "boolean": st.booleans(),
    "enum": st.sampled_from(["low", "mid", "high"]),
}
LEVELS = ["high", "low", "mid", "never"]


@st.composite
def tables(draw, frames=2):
    """Kinds of columns, and for each of some frames the values of each column."""
    names = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    kind_of = {name: draw(kinds) for name in names}
    contents = []
    for _ in range(frames):
        n = draw(st.integers(1, 6))
        contents.append(
            {
                name: draw(st.lists(st.none() | values_of[kind], min_size=n, max_size=n))
                for name, kind in kind_of.items()
            }
        )
    return kind_of, contents


def as_pandas(kind_of, content):
    dtypes = {"number": "float64", "integer": "Int64", "text": "string", "boolean": "boolean"}
    return pd.DataFrame(
        {
            name: pd.Series(pd.Categorical(content[name], LEVELS))
            if kind == "enum"
            else pd.Series(content[name], dtype=dtypes[kind])
            for name, kind in kind_of.items()
        }
    )


def as_polars(kind_of, content):
    dtypes = {
        "number": pl.Float64,
        "integer": pl.Int64,
        "text": pl.String,
        "boolean": pl.Boolean,
        "enum": pl.Enum(LEVELS),
    }
    return pl.DataFrame(content, schema={name: dtypes[kind] for name, kind in kind_of.items()})


def missing(value):
    return value is None or value != value


def slow_codes(seen, values):
    """Codes by the frame that brought a category, and within one in its own order; `seen` grows."""
    for value in sorted(value for value in values if not missing(value)):
        if value not in seen:
            seen.append(value)
    return [NAN if missing(value) else seen.index(value) for value in values]


@settings(deadline=None)
@given(tables())
def test_both_libraries_give_the_slow_reference(table):
    kind_of, contents = table
    from_pandas, from_polars = Table(), Table()
    start = {"text": [], "boolean": [False, True], "enum": LEVELS}
    seen = {name: list(start[kind]) for name, kind in kind_of.items() if kind in start}
    for content in contents:
        expected = np.column_stack(
            [
                slow_codes(seen[name], values)
                if name in seen
                else [NAN if missing(value) else value for value in values]
                for name, values in content.items()
            ]
        ).astype(np.float32)
        for encoder, make in ((from_pandas, as_pandas), (from_polars, as_polars)):
            np.testing.assert_array_equal(encoder.learn(make(kind_of, content)).astype(np.float32), expected)
    assert from_pandas.state() == from_polars.state()
    assert from_pandas.categories == {name: tuple(values) for name, values in seen.items()}
    assert from_pandas.columns == Columns(
        tuple(max(1, len(seen[name])) if name in seen else 0 for name in kind_of), tuple(kind_of)
    )


@settings(deadline=None)
@given(tables(frames=1))
def test_decoding_gives_back_the_categories(table):
    kind_of, (content,) = table
    encoder = Table()
    features = encoder.learn(as_polars(kind_of, content))
    for place, name in enumerate(kind_of):
        if name in encoder.categories:
            categories = encoder.categories[name]
            decoded = [None if np.isnan(code) else categories[int(code)] for code in features[:, place]]
            assert decoded == content[name]


@settings(deadline=None)
@given(tables(), st.booleans())
def test_scoring_never_changes_a_table(table, learned):
    kind_of, contents = table
    encoder = Table()
    if learned:
        encoder.learn(as_pandas(kind_of, contents[0]))
    before, columns = json.dumps(encoder.state()), encoder.columns
    features = encoder.score(as_polars(kind_of, contents[1]))
    assert json.dumps(encoder.state()) == before
    assert encoder.columns == columns
    if learned:
        for place, (name, kind) in enumerate(kind_of.items()):
            if kind == "text":
                expected = slow_codes(list(encoder.categories[name]), contents[1][name])
                np.testing.assert_array_equal(features[:, place], expected)
    else:
        np.testing.assert_array_equal(features, Table().learn(as_pandas(kind_of, contents[1])))


@settings(deadline=None)
@given(tables(), st.data())
def test_order_of_columns_is_irrelevant(table, data):
    kind_of, contents = table
    straight, shuffled = Table(), Table()
    for encoder in (straight, shuffled):
        encoder.learn(as_pandas(kind_of, contents[0]))
    names = data.draw(st.permutations(list(kind_of)))
    make = data.draw(st.sampled_from([as_pandas, as_polars]))
    frame = make(kind_of, contents[1])
    np.testing.assert_array_equal(straight.learn(frame), shuffled.learn(frame[names]))
    assert straight.state() == shuffled.state()


@settings(deadline=None)
@given(tables())
def test_json_gives_back_the_table(table):
    kind_of, contents = table
    encoder = Table()
    encoder.learn(as_pandas(kind_of, contents[0]))
    restored = Table()
    restored.encoder = FrameEncoder.restored(json.loads(json.dumps(encoder.state())))
    assert restored.columns == encoder.columns
    assert repr(restored.categories) == repr(encoder.categories)
    frame = as_polars(kind_of, contents[1])
    np.testing.assert_array_equal(restored.learn(frame), encoder.learn(frame))
    assert restored.state() == encoder.state()


@settings(deadline=None)
@given(tables())
def test_dicts_are_rows_of_a_frame(table):
    kind_of, contents = table
    frames, dicts = Table(), Table()
    # The first frame tells the types, which a missing value in a dict cannot.
    for encoder in (frames, dicts):
        encoder.learn(as_polars(kind_of, contents[0]))
    frame = as_polars(kind_of, contents[1])
    rows = frame.rows(named=True)
    np.testing.assert_array_equal(frames.score(frame), dicts.score(rows))
    np.testing.assert_array_equal(
        frames.learn(frame), dicts.learn([dict(reversed(row.items())) for row in rows])
    )
    assert frames.state() == dicts.state()


def test_columns_of_a_record_batch_go_by_name():
    batch = pa.record_batch({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    agent, twin = LinUCB(seed=0), LinUCB(seed=0)
    for each, rows in ((agent, batch), (twin, pa.table({"b": [3.0, 4.0], "a": [1.0, 2.0]}))):
        each.learn(rows, [1.0, 0.0], arms=["x", "y"])
        decisions = each.decide_many(rows.select(["b", "a"]), arms=["x", "y"])
        each.learn(decisions, [1.0, 2.0])
    swapped = batch.select(["b", "a"])
    expected = twin.estimate(pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), arms=["x", "y"])
    np.testing.assert_allclose(agent.estimate(swapped, arms=["x", "y"]).mean, expected.mean)
    with pytest.raises(InputError, match="has learned rows with named columns"):
        agent.estimate([[1.0, 3.0], [2.0, 4.0]], arms=["x", "y"])


class Exchanged(np.ndarray):
    """An array that names its columns by a protocol."""

    def __dataframe__(self): ...


class Named(np.ndarray):
    column_names = ("a", "b")


class Streamed(np.ndarray):
    columns = ("a", "b")

    def __arrow_c_stream__(self): ...


@pytest.mark.parametrize("kind", [Exchanged, Named, Streamed])
def test_a_table_of_an_unknown_kind_is_not_read_by_position(kind):
    rows = np.ones((2, 2)).view(kind)
    for call in (LinUCB(seed=0).choose, LinUCB(seed=0).decide_many):
        with pytest.raises(InputError, match="is a table of a kind that is not known; give a pandas, polars"):
            call(rows, arms=["x", "y"])


def test_columns_alone_are_no_tables():
    agent = LinUCB(seed=0)
    for row in (pl.Series([1.0, 2.0]), pa.chunked_array([[1.0], [2.0]]), pa.array([1.0, 2.0])):
        agent.choose(row, arms=["x", "y"])
