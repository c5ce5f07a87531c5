"""Decision logs: what is written is read again, late rewards are joined, and impossible rows are reported."""

import errno
import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

from treebandit.errors import LogError
from treebandit.evaluation import DecisionLog, from_columns, log_files
from treebandit.evaluation.columns import SCHEMA
from treebandit.evaluation.validation import LogSummary


def record(number=0, **changes):
    return {
        "id": f"d{number}",
        "time": f"2026-11-16T18:00:{number % 60:02d}.123456Z",
        "arms": ["tea", "coffee", "water"],
        "context": {"age": 31 + number, "city": "Köln \"x\"\n", "new": True, "deep": {"a": [1, None]}},
        "arm_contexts": [{"price": 1.5}, None, {"price": 2}],
        "chosen": [number % 3],
        "probability": 0.5 if number % 3 == 0 else 0.25,
        "probabilities": [0.5, 0.25, 0.25],
        "reward": float(number % 2),
        "reward_time": "2026-11-16T18:01:00Z",
        "policy": "shop",
        "version": 7,
        "holdout": False,
    } | changes  # fmt: skip


def as_text(records):
    return "".join(json.dumps(each) + "\n" for each in records)


FORMS = ["log.parquet", "log.ndjson", "log.jsonl.gz", "folder"]


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_as_it_was_written(tmp_path, form):
    log = DecisionLog.from_records(map(record, range(10)))
    log.write(tmp_path / form)
    again = DecisionLog.read(tmp_path / form)
    assert again.frame.collect().equals(log.frame.collect())
    assert dict(again.frame.collect_schema()) == SCHEMA
    assert next(again.records()) == record(version="7", reward_time="2026-11-16T18:01:00.000000Z")
    assert len(again) == 10


@pytest.mark.parametrize("form", FORMS)
def test_the_order_of_decisions_is_kept_over_many_batches(tmp_path, monkeypatch, form):
    asked = []
    collect = pl.LazyFrame.collect_batches
    monkeypatch.setattr(log_files, "_BATCH", 10)
    monkeypatch.setattr(
        pl.LazyFrame, "collect_batches", lambda self, **given: asked.append(given) or collect(self, **given)
    )
    log = DecisionLog.from_records(map(record, range(300)))
    DecisionLog(log.frame.filter(pl.col("id") != "d7")).write(tmp_path / form)
    ids = DecisionLog.read(tmp_path / form).frame.collect()["id"].to_list()
    assert ids == [f"d{number}" for number in range(300) if number != 7]
    assert all(given["maintain_order"] for given in asked)


@pytest.mark.parametrize("form", FORMS)
def test_appending_adds_decisions_at_the_end(tmp_path, form):
    for start in (0, 4, 8):
        DecisionLog.from_records(map(record, range(start, start + 4))).append(tmp_path / form)
    ids = DecisionLog.read(tmp_path / form).frame.collect()["id"].to_list()
    assert ids == [f"d{number}" for number in range(12)]


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_writers_at_the_same_time_are_all_kept(tmp_path, form):
    def append(number):
        DecisionLog.from_records([record(number)]).append(tmp_path / form)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(40)))
    ids = DecisionLog.read(tmp_path / form).frame.collect()["id"]
    assert sorted(ids) == sorted(f"d{number}" for number in range(40))


def test_a_folder_written_anew_holds_the_new_log_alone(tmp_path):
    DecisionLog.from_records(map(record, range(4))).append(tmp_path / "log")
    DecisionLog.from_records(map(record, range(2))).write(tmp_path / "log")
    assert len(DecisionLog.read(tmp_path / "log")) == 2


def test_half_a_line_left_by_a_killed_writer_does_not_swallow_the_next_and_is_told(tmp_path):
    file = tmp_path / "log.ndjson"
    file.write_text(as_text([record(0)]) + '{"id": "d1", "cho')
    DecisionLog.from_records([record(2)]).append(file)
    with pytest.raises(LogError, match=r'line 2: \{"id": "d1", "cho'):
        DecisionLog.read(file)


@pytest.mark.parametrize("bad", [1, 12_345, 25_001])
def test_the_line_that_cannot_be_read_is_found_by_halves(tmp_path, monkeypatch, bad):
    """Line by line the search took a minute for 50,000 decisions."""
    lines = as_text(
        {"id": f"d{number}", "chosen": [0], "arms": ["a"]} for number in range(25_000)
    ).splitlines()
    lines.insert(bad - 1, '{"id": "d1", "cho')
    (tmp_path / "log.ndjson").write_text("\n".join(lines))
    read = []
    scan = log_files.scan_part
    monkeypatch.setattr(log_files, "scan_part", lambda part: read.append(len(part)) or scan(part))
    with pytest.raises(LogError, match=rf'line {bad}: \{{"id": "d1", "cho'):
        DecisionLog.read(tmp_path / "log.ndjson")
    assert len(read) < 25


def test_lines_are_added_to_a_packed_file_whose_last_has_no_end(tmp_path):
    file = tmp_path / "log.ndjson.gz"
    file.write_bytes(gzip.compress(as_text([record(0)]).rstrip().encode()))
    DecisionLog.from_records([record(1)]).append(file)
    assert [each["id"] for each in DecisionLog.read(file).records()] == ["d0", "d1"]


def test_nothing_is_added_to_a_packed_file_that_is_cut_short(tmp_path):
    """What would stand behind the cut could never be read."""
    file = tmp_path / "log.ndjson.gz"
    DecisionLog.from_records(map(record, range(50))).write(file)
    file.write_bytes(cut := file.read_bytes()[:-20])
    with pytest.raises(LogError, match="cannot be written: Compressed file ended before"):
        DecisionLog.from_records([record(99)]).append(file)
    assert file.read_bytes() == cut


@pytest.mark.parametrize("name", ["log.ndjson", "log.jsonl.gz"])
def test_lines_that_cannot_be_written_to_their_end_are_taken_back(tmp_path, monkeypatch, name):
    DecisionLog.from_records([record(0)]).append(tmp_path / name)

    def full(frame, file):
        file.write(b'{"id": "d1", "cho')
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log_files, "_write_lines", full)
        with pytest.raises(LogError, match="cannot be written: No space left"):
            DecisionLog.from_records([record(1)]).append(tmp_path / name)
    DecisionLog.from_records([record(2)]).append(tmp_path / name)
    assert [each["id"] for each in DecisionLog.read(tmp_path / name).records()] == ["d0", "d2"]


def test_late_rewards_are_joined_by_id(tmp_path):
    file = tmp_path / "log.ndjson"
    waiting = [record(number, reward=None, reward_time=None) for number in range(4)]
    late = [
        {"id": "d2", "reward": 5, "reward_time": "2026-11-16T19:00:00Z"},
        {"id": "d2", "reward": 3, "reward_time": "2026-11-16T18:30:00Z"},
        {"id": "d0", "reward": 1.5},
        {"id": "nobody", "reward": 1},
    ]
    file.write_text(as_text([waiting[0], late[0], *waiting[1:], *late[1:]]))
    log = DecisionLog.read(file)
    assert log.frame.collect()["reward"].to_list() == [1.5, None, 5.0, None]
    assert (log.late, log.lost, log.repeated) == (4, 1, 1)
    assert len(log.rewarded()) == 2
    more = log.with_rewards([{"id": "d1", "reward": 2.0}, {"id": "d2", "reward": 7.0}])
    # A reward without a time does not know whether it is later; the last one given counts.
    assert more.frame.collect()["reward"].to_list() == [1.5, 2.0, 7.0, None]


def test_an_older_late_reward_does_not_replace_the_decisions_own():
    log = DecisionLog.from_records(
        [record(1), {"id": "d1", "reward": 9, "reward_time": "2026-11-16T18:00:30Z"}]
    )
    assert log.frame.collect()["reward"].to_list() == [1.0]
    assert log.repeated == 1


def test_rewards_of_a_set_are_one_per_chosen_row_and_reward_is_their_sum():
    decision = record(0, chosen=[2, 0], probabilities=[0.9, 0.3, 0.8], probability=0.2, reward=None)
    log = DecisionLog.from_records([decision, {"id": "d0", "rewards": [1, 0.5]}])
    assert log.frame.collect().select("reward", "rewards").row(0) == (1.5, [1.0, 0.5])


def test_rewards_alone_are_a_reward():
    decision = record(
        0, chosen=[2, 0], probabilities=[0.9, 0.3, 0.8], probability=0.2, reward=None, rewards=[1, 0.5]
    )
    log = DecisionLog.from_records([decision])
    assert log.check().rewarded == 1
    assert next(log.records())["reward"] == 1.5


@pytest.mark.parametrize("numbers", [[1_760_000_000], [1.76e9], [True]])
@pytest.mark.parametrize("column", ["time", "reward_time"])
def test_numbers_are_no_times(numbers, column):
    """They may be seconds, or thousandths or millionths of them."""
    frame = pl.DataFrame({"id": ["1"], "arms": [["a"]], "chosen": [0], "probability": [1.0], column: numbers})
    with pytest.raises(
        LogError, match=f"in the column {column}; give Datetime.*pl.from_epoch makes times of numbers"
    ):
        DecisionLog.from_frame(frame)
    if column == "time":
        with pytest.raises(LogError, match="pl.from_epoch makes times of numbers"):
            from_columns({"arm": ["a"], "r": [1.0], "t": numbers}, arm="arm", reward="r", time="t")


def test_frames_of_other_types_are_brought_to_the_schema():
    frame = pl.DataFrame(
        {
            "id": [1, 2],
            "context": [{"x": 1.0}, {"x": None}],
            "arm_contexts": [[{"p": 1}, None], [{"p": 2}, {"p": 3}]],
            "chosen": [0, 1],
            "probability": [1, 0.5],
            "reward": [1, 0],
            "unknown": ["a", "b"],
        },
        strict=False,
    )
    log = DecisionLog.from_frame(frame)
    log.check()
    rows = log.frame.collect()
    assert rows["id"].to_list() == ["1", "2"]
    assert rows["context"].to_list() == ['{"x":1.0}', '{"x":null}']
    assert rows["arm_contexts"].to_list() == [['{"p":1}', None], ['{"p":2}', '{"p":3}']]
    assert rows["chosen"].to_list() == [[0], [1]]


IMPOSSIBLE = {
    "with a reward that is not the sum of rewards": {"reward": 5.0, "rewards": [1.0]},
    "without a chosen row": {"chosen": []},
    "without arms and without arm_contexts": {"arms": None, "arm_contexts": None, "probabilities": None},
    "of different length": {"arms": ["a", "b"]},
    "with an arm that is null": {"arms": ["a", None, "c"]},
    "that was not offered": {"chosen": [3]},
    "row chosen twice": {"chosen": [0, 0], "probabilities": None},
    r"probability outside \(0, 1\]": {"probability": 0, "probabilities": None},
    "of another number than the candidates": {"probabilities": [0.5, 0.5]},
    r"probabilities outside \[0, 1\]": {"probabilities": [0.5, -0.25, 0.75]},
    "do not sum to the number of chosen": {"probabilities": [0.5, 0.1, 0.1]},
    "unlike the one in probabilities": {"probability": 0.9},
    "rewards of another number": {"rewards": [1, 2]},
}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("problem", "change"), IMPOSSIBLE.items())
def test_impossible_rows_are_counted_and_the_first_is_named(problem, change, plain):
    """Plain: without arm_contexts, as most logs are."""
    if plain and "length" in problem:
        return
    own = {"arm_contexts": None} if plain else {}
    records = [record(1, **own), record(0, **(own | change)), record(2, **own)]
    with pytest.raises(LogError, match=rf"of 3 decisions .*1 .*{problem}.*id 'd0'"):
        DecisionLog.from_records(records)


def test_right_rows_are_seen_to_be_right():
    for listed in ([0.5, 0.25, 0.25], None):
        rows = [record(number, arm_contexts=None, probabilities=listed) for number in range(9)]
        rows[4]["reward"] = None
        log = DecisionLog.from_records(rows)
        assert log.check() == LogSummary(9, 8, 9, 3, False)
    wrong = [("reward", float("inf")), ("probability", 1.5), ("probability", float("nan")), ("id", None)]
    for column, value in wrong:
        with pytest.raises(LogError, match=rf"of 9 decisions 9 .*{column}"):
            DecisionLog.from_frame(log.frame.with_columns(pl.lit(value).alias(column))).check()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("column", ["probability", "reward"])
def test_numbers_that_are_not_finite_are_refused(column, value):
    frame = DecisionLog.from_records([record()]).frame.with_columns(pl.lit(value).alias(column))
    with pytest.raises(LogError, match=column):
        DecisionLog.from_frame(frame).check()


def test_duplicates_are_told_and_the_first_can_be_kept(tmp_path):
    file = tmp_path / "log.ndjson"
    file.write_text(as_text([record(0), record(1), record(0, reward=9.0)]))
    with pytest.raises(LogError, match=r"1 rows repeat the id .*'d0'.*duplicates='first'"):
        DecisionLog.read(file)
    log = DecisionLog.read(file, duplicates="first")
    assert log.frame.collect()["reward"].to_list() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.ndjson", b'{"id": "a", "chosen": "x"}\n', r"line 1"),
        ("log.ndjson", b'{"id": "a", "chosen": [0], "arms": ["a"], "reward": "much"}\n', r"line 1"),
        ("log.parquet", b"no parquet", "cannot be read"),
        ("log.csv", b"id,chosen", "has no form of a decision log"),
        ("log.ndjson", b'{"id": "a", "reward": null}\n', "no late rewards"),
    ],
)
def test_files_that_are_no_logs_are_told(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=message):
        DecisionLog.read(tmp_path / name)


def test_foreign_columns_and_missing_files_are_told(tmp_path):
    pl.DataFrame({"action": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(LogError, match="neither id nor chosen"):
        DecisionLog.read(tmp_path / "x.parquet")
    for path in (tmp_path / "none.parquet", tmp_path):
        (tmp_path / "x.parquet").unlink(missing_ok=True)
        with pytest.raises(LogError, match="give a .parquet file"):
            DecisionLog.read(path)


def test_empty_files_are_empty_logs(tmp_path):
    (tmp_path / "log.ndjson").write_text("")
    assert len(DecisionLog.read(tmp_path / "log.ndjson")) == 0
    with gzip.open(tmp_path / "log.ndjson.gz", "wb"):
        pass
    assert len(DecisionLog.from_records([])) == 0


def test_records_must_be_plain():
    with pytest.raises(LogError, match="what JSON cannot"):
        DecisionLog.from_records([record(reward=float("nan"))])


def test_batches_keep_the_order_and_the_columns(tmp_path):
    DecisionLog.from_records(map(record, range(50))).write(tmp_path / "log.parquet")
    batches = list(DecisionLog.scan(tmp_path / "log.parquet").batches(["id", "reward"], rows=7))
    assert max(batch.height for batch in batches) <= 7
    assert pl.concat(batches)["id"].to_list() == [f"d{number}" for number in range(50)]
    assert batches[0].columns == ["id", "reward"]


@pytest.mark.parametrize("name", ["log", "log.ndjson", "log.ndjson.gz", "log.parquet"])
def test_late_rewards_can_be_appended(tmp_path, name):
    place = tmp_path / name
    DecisionLog.from_records([record(1, reward=None, reward_time=None)]).append(place)
    DecisionLog.from_records([{"id": "d1", "reward": 2.5}]).append(place)
    assert [each["reward"] for each in DecisionLog.read(place).records()] == [2.5]
    copied = tmp_path / "rewards.parquet"
    DecisionLog.from_records([{"id": "d1", "reward": 2.5}]).write(copied)
    assert DecisionLog.read(copied).lost == 1


@pytest.mark.parametrize("name", ["log.ndjson", "log.jsonl.gz"])
def test_the_mark_of_an_editor_before_utf8_is_no_line(tmp_path, name):
    plain, marked = tmp_path / f"plain-{name}", tmp_path / name
    DecisionLog.from_records([record(number) for number in range(3)]).write(plain)
    unpacked = gzip.decompress(plain.read_bytes()) if name.endswith(".gz") else plain.read_bytes()
    text = b"\xef\xbb\xbf" + unpacked
    marked.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert list(DecisionLog.read(marked).records()) == list(DecisionLog.read(plain).records())


@pytest.mark.parametrize("name", ["sales.parquet", "part-1.parquet", "other.ndjson", "more.jsonl.gz"])
def test_a_folder_of_other_data_is_not_written_to(tmp_path, name):
    log = DecisionLog.from_records([record()])
    log.append(tmp_path / "folder")
    (tmp_path / "folder" / name).write_bytes(b"mine")
    before = sorted((tmp_path / "folder").iterdir())
    with pytest.raises(LogError, match=f"holds '{name}', which treebandit did not write"):
        log.write(tmp_path / "folder")
    assert sorted((tmp_path / "folder").iterdir()) == before
    assert (tmp_path / "folder" / name).read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["shop.json", "shop.csv", "shop.parquet.gz", "shop.txt"])
@pytest.mark.parametrize("use", [DecisionLog.write, DecisionLog.append])
def test_names_with_an_ending_of_another_format_are_no_folders(tmp_path, use, name):
    log = DecisionLog.from_records([record()])
    with pytest.raises(LogError, match="has no form of a decision log"):
        use(log, tmp_path / name)
    assert not (tmp_path / name).exists()
    (tmp_path / name).mkdir()
    use(log, tmp_path / name)
    use(log, tmp_path / "log-2026.11")
    assert len(DecisionLog.read(tmp_path / name)) == len(DecisionLog.read(tmp_path / "log-2026.11")) == 1


def of_many(size, probability, listed, chosen=(0,)):
    arms = [str(arm) for arm in range(size)]
    own = {"chosen": list(chosen), "probability": probability, "probabilities": listed}
    return DecisionLog.from_records([{"id": "1", "arms": arms, "context": {}, **own}])


def test_probabilities_of_many_arms_are_compared_as_shares_of_themselves():
    size = 2_000
    with pytest.raises(LogError, match="unlike the one in probabilities"):
        of_many(size, 0.0014, [1 / size] * size)
    with pytest.raises(LogError, match="do not sum to the number of chosen rows"):
        of_many(size, 1e-6, [1e-6] * size)
    with pytest.raises(LogError, match="do not sum to the number of chosen rows"):
        of_many(size, None, [1 / size] * size, chosen=(0, 1, 2))


@pytest.mark.parametrize("size", [3, 7, 70, 2_000, 30_000])
@pytest.mark.parametrize("form", [np.float32, lambda each: round(each, 6), lambda each: float(f"{each:.3g}")])
def test_probabilities_of_few_digits_are_right(size, form):
    random = np.random.default_rng(size)
    spread = random.dirichlet(np.ones(size))
    top = int(spread.argmax())
    even = [1 / size] * size
    for exact, row in ((spread.tolist(), top), (even, 0)):
        rounded = [float(form(each)) for each in exact]
        assert len(of_many(size, exact[row], rounded, chosen=(row,))) == 1
        assert len(of_many(size, rounded[row], exact, chosen=(row,))) == 1


def test_late_rewards_stand_beside_decisions_with_a_whole_number_for_the_chosen_row():
    frame = pl.DataFrame(
        {
            "id": ["1", "2", "1"],
            "arms": [["a", "b"], ["a", "b"], None],
            "chosen": [0, 1, None],
            "probability": [0.5, 0.5, None],
            "reward": [None, 0.0, 1.0],
        }
    )
    log = DecisionLog.from_frame(frame)
    log.check()
    assert (len(log), log.late, log.lost) == (2, 1, 0)
    assert log.frame.collect()["reward"].to_list() == [1.0, 0.0]


TIMES = {
    "2026-11-16T18:00:05": "2026-11-16T18:00:05.000000Z",
    "2026-11-16 18:00:05": "2026-11-16T18:00:05.000000Z",
    "2026-11-16T18:00:05.25": "2026-11-16T18:00:05.250000Z",
    "2026-11-16": "2026-11-16T00:00:00.000000Z",
    "2026-11-16T18:00:05Z": "2026-11-16T18:00:05.000000Z",
    "2026-11-16T18:00:05.5+02:00": "2026-11-16T16:00:05.500000Z",
    "2026-11-16T18:00:05-02:30": "2026-11-16T20:30:05.000000Z",
}


def test_times_without_a_zone_are_in_utc(tmp_path):
    rows = [record(number, time=text, reward_time=text) for number, text in enumerate(TIMES)]
    (tmp_path / "log.ndjson").write_text(as_text(rows))
    plain = pl.DataFrame({"id": [row["id"] for row in rows], "time": list(TIMES)})
    frame = DecisionLog.from_records(rows).frame.collect().drop("time").join(plain, on="id")
    for log in (DecisionLog.read(tmp_path / "log.ndjson"), DecisionLog.from_frame(frame)):
        read = list(log.records())
        assert [each["time"] for each in read] == list(TIMES.values())
        assert [each["reward_time"] for each in read] == list(TIMES.values())


@pytest.mark.parametrize("text", ["", "noon", "12:00:00", "16.11.2026", "2026-11-16T25:00:00"])
def test_other_texts_are_no_times(text):
    with pytest.raises(LogError):
        DecisionLog.from_records([record(time=text)])
