"""Logs by path or name."""

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
