"""Lines of JSON: texts in contexts are read as they were written, whatever characters they hold."""

import gzip
import json

import polars as pl
import pytest

from treebandit import LinUCB
from treebandit.errors import LogError
from treebandit.evaluation import DecisionLog, log_decisions, ndjson, read_dsjson, write_dsjson

TEXTS = [r"C:\new", "red\tshoes", "two\nlines", "\x01 \x1f", '"quoted"', "\\", "Köln\\", "\u2028", "\\u0041"]
FORMS = ["log.ndjson", "log.ndjson.gz", "log.parquet", "folder"]


def record(text, number=0):
    return {
        "id": f"d{number}",
        "arms": ["a\\b", text],
        "context": {"query": text, text: [1.5, None]},
        "arm_contexts": [{"path": text}, None],
        "chosen": [0],
        "probability": 0.5,
    }


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_contexts_are_kept(tmp_path, form):
    wanted = [record(text, number) for number, text in enumerate(TEXTS)]
    DecisionLog.from_records(wanted).append(tmp_path / form)
    assert list(DecisionLog.read(tmp_path / form).records()) == wanted


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("part", [1, 100, 1 << 23])
def test_files_of_others_are_read_a_part_at_a_time(tmp_path, monkeypatch, part, packed):
    monkeypatch.setattr(ndjson, "_PART", part)
    wanted = [record(text, number) for number, text in enumerate(["plain", *TEXTS, "plain"])]
    lines = "\ufeff" + "\n\n".join(json.dumps(each, ensure_ascii=bool(packed)) for each in wanted)
    place = tmp_path / ("log.ndjson.gz" if packed else "log.ndjson")
    place.write_bytes(gzip.compress(lines.encode()) if packed else lines.encode())
    log = DecisionLog.scan(place)
    assert list(log.records()) == wanted
    assert log.frame.head(3).collect()["id"].to_list() == ["d0", "d1", "d2"]
    assert log.filter(pl.col("id") == "d4").frame.select("chosen").collect().height == 1


def test_contexts_that_are_text_already_stay_as_they_are(tmp_path):
    text = json.dumps({"query": "a\tb\\"})
    line = json.dumps(record("x") | {"context": text, "arm_contexts": [text, None]})
    (tmp_path / "log.ndjson").write_text(line)
    read = DecisionLog.read(tmp_path / "log.ndjson").frame.collect()
    assert read["context"].to_list() == [text]
    assert read["arm_contexts"].to_list() == [[text, None]]


@pytest.mark.parametrize("text", TEXTS)
def test_decisions_are_logged_with_the_texts_that_were_given(text):
    decision = LinUCB(seed=0).decide({"query": text}, arms=["x", "y"], id="w")
    assert next(log_decisions(decision).records())["context"] == {"query": text}


def test_texts_of_contexts_are_kept_in_dsjson(tmp_path):
    records = [record(text, number) | {"reward": 1.0} for number, text in enumerate(TEXTS)]
    write_dsjson(DecisionLog.from_records(records), tmp_path / "log.dsjson")
    read = list(read_dsjson(tmp_path / "log.dsjson").records())
    assert [each["context"]["query"] for each in read] == TEXTS


@pytest.mark.parametrize("column", ["context", "arm_contexts"])
@pytest.mark.parametrize("form", FORMS)
def test_contexts_that_cannot_be_read_are_not_appended(tmp_path, form, column):
    bad = '{"query": "red\tshoes"}'
    frame = DecisionLog.from_records([record("fine"), record("x", 1)]).frame.collect()
    given = pl.lit(bad) if column == "context" else pl.concat_list(pl.lit(bad), pl.lit(None))
    frame = frame.with_columns(pl.when(pl.col("id") == "d1").then(given).otherwise(column).alias(column))
    with pytest.raises(LogError, match="'d1' cannot be read as JSON"):
        DecisionLog.from_frame(frame).append(tmp_path / form)
    assert not (tmp_path / form).exists()
