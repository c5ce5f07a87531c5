import hashlib
import json
import os
import sys
import threading
import time
from importlib import metadata

import numpy as np
import polars as pl
import pytest

from treebandit.errors import DamagedRecordError, SavedFileError
from treebandit.experiments.records import (
    PLAN_SCHEMA,
    ROUNDS_SCHEMA,
    RUNS_SCHEMA,
    SCHEMA,
    RunRecord,
    load_plan,
    load_records,
    load_runs,
    merge_plan,
    read_record,
    remove_leftovers,
    write_record,
)
from treebandit.experiments.spec import RunSpec


def make(seed=0, rounds=4, **changes):
    spec = RunSpec({"name": "A", "class": "A"}, {"name": "e"}, seed, rounds, study="s", **changes)
    frame = pl.DataFrame(
        {
            "round": range(1, rounds + 1),
            "arms": [[i, i + 1] for i in range(rounds)],
            "rewards": [[0.5, 1.0]] * rounds,
            "regret": [float(i % 3) for i in range(rounds)],
            "choosing": [0.25] * rounds,
            "learning": [0.5] * rounds,
            "rebuilding": [0.125] * rounds,
        },
        schema=SCHEMA,
    )
    provenance = {"cpu_seconds": 1.5, "duration": 2.5, "started": "2026-01-01T00:00:00+00:00", "note": "fine"}
    return RunRecord(spec.to_dict(), provenance, frame)


def test_a_record_comes_back_as_it_was(tmp_path):
    record = make()
    path = write_record(record, tmp_path)
    assert path.name == f"{record.run_id}.parquet"
    back = read_record(path)
    assert (back.spec, back.provenance) == (record.spec, record.provenance)
    assert back.frame.equals(record.frame)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_provenance_is_plain_json_that_other_tools_can_read(tmp_path):
    header = json.loads(pl.read_parquet_metadata(write_record(make(), tmp_path))["treebandit"])
    assert header["format"] == 2
    assert header["spec"]["agent"] == {"name": "A", "class": "A"}


def test_a_folder_as_two_frames(tmp_path):
    for seed in range(3):
        write_record(make(seed, rounds=4 + seed, varied="agent.x", value=seed), tmp_path)
    runs, rounds = load_records(tmp_path)
    assert runs.schema == RUNS_SCHEMA
    assert rounds.schema == ROUNDS_SCHEMA
    assert runs["seed"].to_list() == [0, 1, 2]
    assert runs["rounds"].to_list() == [4, 5, 6]
    assert runs["final_regret"].to_list() == [3.0, 4.0, 6.0]
    assert runs["choosing"].to_list() == [1.0, 1.25, 1.5]
    assert runs["value"].to_list() == ["0", "1", "2"]
    assert runs["note"].unique().to_list() == ["fine"]
    assert runs.equals(load_runs(tmp_path))
    for run_id, final in runs.select("run_id", "final_regret").iter_rows():
        part = rounds.filter(pl.col("run_id") == run_id)
        assert part["cumulative"].to_list() == part["regret"].cum_sum().to_list()
        assert part["cumulative"][-1] == final


def test_an_empty_folder_and_no_folder(tmp_path):
    runs, rounds = load_records(tmp_path)
    assert (runs.height, rounds.height) == (0, 0)
    assert load_plan(tmp_path).schema == PLAN_SCHEMA
    with pytest.raises(SavedFileError, match="no folder"):
        load_runs(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"PAR1 rubbish PAR1"])
def test_a_damaged_record_is_named(tmp_path, content):
    path = write_record(make(), tmp_path)
    path.write_bytes(content)
    with pytest.raises(DamagedRecordError, match=f"{path.name} cannot be read.*run the study again"):
        load_runs(tmp_path)


def test_a_truncated_record_is_named(tmp_path):
    path = write_record(make(rounds=500), tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedRecordError, match="cannot be read"):
        read_record(path)


def test_every_flipped_bit_is_found(tmp_path):
    written = RunRecord(make().spec, make().provenance, make().frame, np.array([-1.5, np.nan, -3.0]))
    path, random = write_record(written, tmp_path), np.random.default_rng(0)
    content = path.read_bytes()
    for place in random.choice(8 * len(content), 600, replace=False):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedRecordError):
            read_record(path)
        with pytest.raises(DamagedRecordError):
            load_runs(tmp_path)


def test_a_record_under_another_name_is_damaged(tmp_path):
    path = write_record(make(), tmp_path)
    path.rename(tmp_path / "abc.parquet")
    with pytest.raises(DamagedRecordError, match=f"it is the record of run {path.stem}"):
        load_runs(tmp_path)


@pytest.mark.parametrize("part", ["spec", "provenance", "totals"])
@pytest.mark.parametrize("content", [None, [], {}, "x", {"run_id": 1, "agent": 2}, {"duration": "long"}])
def test_a_foreign_header_is_refused(tmp_path, part, content):
    """A record of format 1 has no checksum, so that anybody could write one."""
    path = write_record(make(), tmp_path)
    header = json.loads(pl.read_parquet_metadata(path)["treebandit"])
    del header["record_sha256"]
    header |= {"format": 1}
    pl.read_parquet(path).write_parquet(path, metadata={"treebandit": json.dumps(header)})
    assert load_runs(tmp_path).height == 1, "version 0.1.0 wrote it"
    header |= {part: content}
    pl.read_parquet(path).write_parquet(path, metadata={"treebandit": json.dumps(header)})
    with pytest.raises(SavedFileError):
        load_runs(tmp_path)


def test_foreign_and_newer_files(tmp_path):
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "foreign.parquet")
    with pytest.raises(SavedFileError, match="no record of treebandit"):
        read_record(tmp_path / "foreign.parquet")
    pl.DataFrame({"x": [1]}).write_parquet(
        tmp_path / "new.parquet", metadata={"treebandit": '{"format": 99}'}
    )
    with pytest.raises(SavedFileError, match=r"record format 99.*pip install --upgrade"):
        read_record(tmp_path / "new.parquet")


def row(seed=0, run_id="a", **changes):
    values = {"run_id": run_id, "study": "s", "agent": "A", "environment": "e", "seed": seed, "rounds": 4}
    return {**values, "varied": None, "value": None, "title": "", "source": "", **changes}


def test_plans_are_merged_and_changed_specs_replaced(tmp_path):
    merge_plan(tmp_path, [row(0, "a"), row(1, "b")])
    merge_plan(tmp_path, [row(1, "c"), row(1, "d", study="t")])
    assert sorted(load_plan(tmp_path)["run_id"]) == ["a", "c", "d"]


def test_runs_that_are_no_longer_asked_for_are_marked(tmp_path):
    old, new = make(0), make(1)
    write_record(old, tmp_path)
    write_record(new, tmp_path)
    assert load_runs(tmp_path)["planned"].all()
    merge_plan(tmp_path, [row(run_id=new.run_id)])
    assert dict(load_runs(tmp_path).select("run_id", "planned").iter_rows()) == {
        old.run_id: False,
        new.run_id: True,
    }


def test_many_commands_may_merge_at_once(tmp_path):
    def merge(part):
        for seed in range(5):
            merge_plan(tmp_path, [row(seed, f"{part}-{seed}", study=str(part))])

    threads = [threading.Thread(target=merge, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load_plan(tmp_path).height == 20
    assert [file.name for file in tmp_path.iterdir()] == ["plan"]
    assert len(list((tmp_path / "plan").iterdir())) == 20


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "{}", "[" * 100_000, '{"run_id": 1}'])
def test_a_damaged_plan_is_named_and_written_anew(tmp_path, content):
    merge_plan(tmp_path, [row()])
    (path,) = (tmp_path / "plan").iterdir()
    path.write_text(content)
    with pytest.raises(SavedFileError, match=f"{path.name} cannot be read"):
        load_plan(tmp_path)
    merge_plan(tmp_path, [row()])
    assert load_plan(tmp_path).height == 1


def test_leftovers_of_killed_commands_are_removed(tmp_path):
    merge_plan(tmp_path, [row()])
    write_record(make(), tmp_path)
    kept = set(tmp_path.rglob("*"))
    ages = {".a-1.tmp": 1e6, ".b-2.tmp": 0, "plan/.c-3.tmp": 1e6, ".d-4.tmp": -1e6, "own.tmp": 1e6}
    for name, age in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    remove_leftovers(tmp_path)
    assert set(tmp_path.rglob("*")) - kept == {tmp_path / ".b-2.tmp", tmp_path / "own.tmp"}


def test_runs_made_by_other_code_are_stale(tmp_path):
    (tmp_path / "study").mkdir()
    agents = tmp_path / "study" / "agents_of_mine.py"
    agents.write_text("class Mine: pass")
    hashed = hashlib.sha256(agents.read_bytes()).hexdigest()[:12]
    now = {"treebandit": metadata.version("treebandit"), "code": {"agents_of_mine": hashed, "unknown": "1"}}
    made = [now, {**now, "treebandit": "0.0.1"}, {**now, "code": {"agents_of_mine": "other"}}, {"code": 3}]
    for seed, provenance in enumerate(made):
        record = make(seed)
        write_record(RunRecord(record.spec, record.provenance | provenance, record.frame), tmp_path)
    merge_plan(tmp_path, [row(run_id=record.run_id, source=str(agents.with_name("s.toml")))])
    runs = load_runs(tmp_path)
    assert runs["other_code"].to_list() == ["", "treebandit 0.0.1", "agents_of_mine has changed", ""]
    assert runs["stale"].to_list() == [False, True, True, False]
    assert "agents_of_mine" not in sys.modules, "nothing is imported"


def test_estimates_are_kept_where_there_are_some(tmp_path):
    plain = make(seed=1)
    written = RunRecord(make().spec, make().provenance, make().frame, np.array([-1.5, np.nan, -3.0]))
    read = read_record(write_record(written, tmp_path))
    np.testing.assert_array_equal(read.estimates, [-1.5, np.nan, -3.0])
    assert read.frame.equals(written.frame)
    assert read_record(write_record(plain, tmp_path)).estimates is None
    assert load_records(tmp_path)[1].schema == ROUNDS_SCHEMA


@pytest.mark.parametrize(
    "source", [None, "", "quick", "s.toml", "/nowhere/s.toml", "a\0b/s.toml", "x" * 5000 + "/s.toml"]
)
@pytest.mark.parametrize("module", ["", ".", "a..b", "\0", "../x", "os.path", "x" * 5000])
def test_odd_names_of_studies_and_modules_make_nothing_stale(tmp_path, source, module):
    record = make()
    write_record(RunRecord(record.spec, record.provenance | {"code": {module: "1"}}, record.frame), tmp_path)
    merge_plan(tmp_path, [row(run_id=record.run_id, source=source)])
    assert load_runs(tmp_path).height == 1


def test_brackets_in_the_name_of_a_folder_are_no_pattern(tmp_path):
    write_record(make(rounds=4), tmp_path / "a[1]")
    assert load_records(tmp_path / "a[1]")[1].height == 4
