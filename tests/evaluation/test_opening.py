"""Logs by path or name."""

import gzip

import pytest

from treebandit.errors import LogError
from treebandit.evaluation import open_log, shop_log, write_dsjson, write_open_bandit, write_vw_text


def test_the_name_tells_the_format(tmp_path):
    log = shop_log(30, seed=0)
    log.write(tmp_path / "log.parquet")
    log.write(tmp_path / "log.ndjson")
    log.append(tmp_path / "folder")
    write_dsjson(log, tmp_path / "log.dsjson")
    write_vw_text(log, tmp_path / "log.vw")
    for name in ("log.parquet", "log.ndjson", "folder", "log.dsjson", "log.vw"):
        assert len(open_log(tmp_path / name)) == 30, name
    (tmp_path / "log.dsjson").rename(tmp_path / "other.json")
    assert len(open_log(tmp_path / "other.json", form="dsjson")) == 30
    with pytest.raises(LogError, match="arms must be whole numbers"):
        write_open_bandit(log, tmp_path / "log.csv")


def test_real_logs_that_are_not_there_are_told(monkeypatch, tmp_path):
    monkeypatch.delenv("TREEBANDIT_LOGS", raising=False)
    with pytest.raises(LogError, match="TREEBANDIT_LOGS is not set"):
        open_log("hillstrom")
    monkeypatch.setenv("TREEBANDIT_LOGS", str(tmp_path))
    with pytest.raises(LogError, match=r"has no hillstrom\.csv\.gz"):
        open_log("hillstrom:spend")
    with pytest.raises(LogError, match="hillstrom has no reward 'money'"):
        open_log("hillstrom:money")
    with pytest.raises(LogError, match="zozo has no log"):
        open_log("zozo:bts")


@pytest.mark.parametrize(
    "name", ["log[1].ndjson", "log[1].ndjson.gz", "log[1].parquet", "log[1]", "log*.ndjson", "log?.jsonl"]
)
def test_brackets_and_stars_in_names_are_no_patterns(tmp_path, name):
    other = name.replace("[1]", "1").replace("*", "1").replace("?", "1")
    shop_log(5, seed=0).append(tmp_path / other)
    shop_log(7, seed=1).append(tmp_path / name)
    assert len(open_log(tmp_path / name)) == 7
    assert len(open_log(tmp_path / other)) == 5


def test_folders_of_real_logs_may_have_brackets(tmp_path, monkeypatch):
    columns = (
        "recency,history_segment,history,mens,womens,zip_code,newbie,channel,segment,visit,conversion,spend\n"
    )
    row = "10,2) $100 - $200,142.44,1,0,Surburban,0,Phone,{},0,0,0\n"
    folder = tmp_path / "logs[1]"
    folder.mkdir()
    rows = "".join(map(row.format, ("Mens E-Mail", "Womens E-Mail", "No E-Mail")))
    (folder / "hillstrom.csv.gz").write_bytes(gzip.compress((columns + rows).encode()))
    monkeypatch.setenv("TREEBANDIT_LOGS", str(folder))
    assert len(open_log("hillstrom")) == 3
