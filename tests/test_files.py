"""Files that appear whole or not at all."""

import os
import stat
import threading
import time

import pytest

from treebandit import files
from treebandit.errors import SavedFileError
from treebandit.files import LEFT_OVER_AFTER, replacing


def write(path, *contents):
    with replacing(path) as file:
        for content in contents or [b"new"]:
            file.write(content)


def test_a_file_that_fails_half_way_leaves_the_old_one_and_no_other(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(TypeError):
        write(tmp_path / "a", b"half", 3)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_many_threads_may_write_one_path(tmp_path):
    contents = [bytes([65 + i]) * 200_000 for i in range(8)]
    threads = [threading.Thread(target=write, args=(tmp_path / "a", content)) for content in contents * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_permissions_are_kept_and_those_of_a_new_file_are_the_usual_ones(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "like").write_bytes(b"")
    for name in ("old", "new"):
        write(tmp_path / name)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "new", "like")}
    assert modes["old"] == 0o640
    assert modes["new"] == modes["like"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "first").write_bytes(b"old")
    (tmp_path / "link").symlink_to("first")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "first").read_bytes() == b"new"


def test_what_a_killed_process_left_is_deleted_after_a_while(tmp_path):
    names = [".a.123.part", ".a.0123abc.part", ".b.1.part", "a.part"]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
        long_ago = time.time() - LEFT_OVER_AFTER - 60
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / ".a.99.part").write_bytes(b"being written")
    write(tmp_path / "a")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a.99.part", ".b.1.part", "a.part"}


def test_the_content_is_on_the_disk_before_the_file_is_renamed(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(files.os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(files.os, "replace", lambda a, b: (calls.append("rename"), replace(a, b)))
    write(tmp_path / "a")
    assert calls == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("name", ["nowhere/a", "folder", "a\0b", "x" * 300, "file/a"])
def test_what_cannot_be_written_is_told_in_a_sentence(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SavedFileError, match=r"cannot be written|is no path"):
        write(os.path.join(tmp_path, name))
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


def test_long_names_are_no_trouble(tmp_path):
    write(tmp_path / ("é" * 120))
    assert [path.name for path in tmp_path.iterdir()] == ["é" * 120]


def test_devices_are_not_replaced():
    with pytest.raises(SavedFileError, match="a folder or a device"):
        write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_full_disk_is_told_in_a_sentence(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(SavedFileError, match="No space left on device"):
        write(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", [3, None, b"agent", ["a"], object()], ids=["number", "None", "bytes", "list", "object"]
)
def test_what_is_no_path_is_told(path):
    with pytest.raises(SavedFileError, match="is no path of a file"):
        write(path)
