"""Saved files that somebody else has written: what they may not do."""

import io
import json
import os
import subprocess
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pytest

import treebandit
from treebandit import LinUCB, Uniform
from treebandit.errors import SavedFileError
from treebandit.saving import FORMAT, VERSION, read


def npy(shape, content=b"", dtype="<f8"):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue() + content


def document(state, agent=None):
    agent = agent or {"class": "LinUCB"}
    return json.dumps({"format": FORMAT, "version": VERSION, "agent": agent, "state": state})


def forge(path, text, members=None, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        archive.writestr("agent.json", text)
        for name, content in (members or {}).items():
            archive.writestr(name, content)
    return path


def array(number=0):
    return {"$array": number}


def test_a_class_named_in_a_file_is_not_called(tmp_path):
    mark = tmp_path / "mark"
    for name in ("os:system", "posix:system", "subprocess:Popen", "treebandit.saving:os.system"):
        path = forge(tmp_path / "a", document({}, {"class": name, "command": f"touch {mark}"}))
        with pytest.raises(SavedFileError, match="no class of treebandit"):
            treebandit.Bandit.load(path)
        nested = {"class": "TEUCB", "trees": {"class": name, "args": ["touch", str(mark)]}}
        with pytest.raises(SavedFileError, match="no class of treebandit"):
            treebandit.load(forge(path, document({}, nested)))
    assert not mark.exists()


def test_arrays_and_texts_come_back(tmp_path):
    state = {"a": array(), "b": [array(1), {"$$array": 2}]}
    members = {"0.npy": npy((2,), np.arange(2.0).tobytes()), "1.npy": npy((0, 3))}
    _, found = read(forge(tmp_path / "a", document(state), members))
    assert found["a"].tolist() == [0.0, 1.0]
    assert found["b"][0].shape == (0, 3)
    assert found["b"][1] == {"$array": 2}


@pytest.mark.parametrize(
    ("state", "members"),
    [
        pytest.param({"a": array()}, {"0.npy": npy((2**60,))}, id="shape 2**60"),
        pytest.param({"a": array()}, {"0.npy": npy((2**33,))}, id="64 GB and no data"),
        pytest.param({"a": array()}, {"0.npy": npy((2**40, 0))}, id="no data, but 2**40 rows"),
        pytest.param({"a": array()}, {"0.npy": npy((-5,))}, id="negative shape"),
        pytest.param({"a": array()}, {"0.npy": npy((2,), bytes(8))}, id="too short"),
        pytest.param({"a": array()}, {"0.npy": npy((2,), bytes(24))}, id="too long"),
        pytest.param({"a": array()}, {"0.npy": npy((1,), bytes(8), "|O")}, id="objects"),
        pytest.param({"a": array()}, {"0.npy": npy((1,), bytes(8), "<M8[s]")}, id="dates"),
        pytest.param({"a": array()}, {"0.npy": npy((1,), bytes(8), "<U2")}, id="text"),
        pytest.param({"a": array()}, {"0.npy": npy((1,), bytes(8), [("x", "<f4", (2,))])}, id="nested type"),
        pytest.param({"a": array()}, {"0.npy": b"\x93NUMPY\x09\x00"}, id="npy version"),
        pytest.param({"a": array()}, {"0.npy": b"nonsense"}, id="no npy"),
        pytest.param({"a": array()}, {}, id="array missing"),
        pytest.param({"a": [array()] * 2}, {"0.npy": npy((1,), bytes(8))}, id="used twice"),
        pytest.param({}, {"0.npy": npy((1,), bytes(8))}, id="not used"),
        pytest.param({"a": array(1)}, {"1.npy": npy((1,), bytes(8))}, id="other name"),
        pytest.param({"a": array(True)}, {"0.npy": npy((0,)), "1.npy": npy((0,))}, id="true is no number"),
        pytest.param({"a": array("../../etc/passwd")}, {"0.npy": npy((0,))}, id="a path"),
        pytest.param({"a": array([1])}, {"0.npy": npy((0,))}, id="a list"),
        pytest.param({}, {"agent.json.bak": b""}, id="another member"),
    ],
)
def test_forged_arrays_and_members_are_refused(tmp_path, state, members):
    with pytest.raises(SavedFileError):
        read(forge(tmp_path / "a", document(state), members))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        document({"a": 1})[:-1],
        "",
        "\xff",
        "3",
        json.dumps({"format": FORMAT, "version": VERSION}),
        json.dumps({"format": FORMAT, "version": VERSION, "agent": {}, "state": []}),
        document({"clock": 1}).replace("1", "9" * 10_000),
        f'{{"format": "{FORMAT}", "version": {VERSION}, "agent": {{}}, "state": {"[" * 20_000}{"]" * 20_000}}}',
    ],
    ids=["lists", "tables", "cut", "empty", "bytes", "number", "parts", "list", "digits", "state"],
)
def test_forged_json_is_refused(tmp_path, text):
    with pytest.raises(SavedFileError):
        treebandit.load(forge(tmp_path / "a", text))


def saved(tmp_path):
    agent = LinUCB(seed=0)
    agent.learn(np.random.default_rng(0).normal(size=(30, 3)), np.arange(30.0), arms=np.arange(30) % 3)
    agent.save(tmp_path / "a")
    return (tmp_path / "a").read_bytes()


def test_a_file_needs_no_more_memory_than_allowed(tmp_path):
    saved(tmp_path)
    with pytest.raises(SavedFileError, match="load it with a larger max_bytes"):
        treebandit.load(tmp_path / "a", max_bytes=1000)
    with pytest.raises(SavedFileError, match="load it with a larger max_bytes"):
        LinUCB.load(tmp_path / "a", max_bytes=1000)
    assert LinUCB.load(tmp_path / "a", max_bytes=1 << 20).clock == 30


def test_a_flipped_bit_is_noticed(tmp_path):
    content = saved(tmp_path)
    random = np.random.default_rng(0)
    for place in random.integers(len(content), size=150):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(random.integers(8))
        (tmp_path / "b").write_bytes(flipped)
        try:
            LinUCB.load(tmp_path / "b")
        except SavedFileError:
            continue
        # Dates, permissions and the like of a member may be anything; the content is the same.
        before, after = (zipfile.ZipFile(io.BytesIO(bytes(c))) for c in (content, flipped))
        assert [before.read(n) for n in before.namelist()] == [after.read(n) for n in after.namelist()]


def test_damaged_headers_are_own_errors(tmp_path):
    """Signatures, flags, sizes and offsets of the zip itself, each set to something else."""
    content = saved(tmp_path)
    places = [i for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for i in _places(content, mark)]
    random = np.random.default_rng(0)
    for _ in range(300):
        forged = bytearray(content)
        place = int(random.choice(places)) + int(random.integers(46))
        for offset in range(int(random.integers(1, 9))):
            if place + offset < len(forged):
                forged[place + offset] = int(random.choice([0, 1, 0x7F, 0xFF, random.integers(256)]))
        (tmp_path / "b").write_bytes(forged)
        with suppress(SavedFileError):
            treebandit.load(tmp_path / "b")


def _places(content, mark):
    place = content.find(mark)
    while place >= 0:
        yield place
        place = content.find(mark, place + 1)


def test_encrypted_and_oddly_packed_members_are_refused(tmp_path):
    saved(tmp_path)
    with zipfile.ZipFile(tmp_path / "a") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "b", "w", method) as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        with pytest.raises(SavedFileError, match="encrypted or packed in another way"):
            treebandit.load(tmp_path / "b")
    content = bytearray((tmp_path / "a").read_bytes())
    for place in _places(bytes(content), b"PK\x01\x02"):
        content[place + 8] |= 1
    (tmp_path / "b").write_bytes(content)
    with pytest.raises(SavedFileError, match="encrypted or packed in another way"):
        treebandit.load(tmp_path / "b")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    forge(tmp_path / "a", document({"a": array()}), {"0.npy": npy((0,))})
    with zipfile.ZipFile(tmp_path / "a", "a") as archive:
        archive.writestr("0.npy", npy((1,), bytes(8)))
    with pytest.raises(SavedFileError, match="members are not those"):
        treebandit.load(tmp_path / "a")


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero"):
        with pytest.raises(SavedFileError, match="no regular file"):
            treebandit.load(path)
    with pytest.raises(FileNotFoundError):
        treebandit.load(tmp_path / "missing")


def bomb(path):
    """Half a gigabyte of zeros in two megabytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("agent.json", document({"a": array()}))
        with archive.open("0.npy", "w", force_zip64=True) as member:
            member.write(npy((1 << 26,)))
            block = bytes(1 << 24)
            for _ in range(32):
                member.write(block)


def lying(path):
    """The same, but the file says that it unpacks to little."""
    bomb(path)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("0.npy").file_size
    short = len(npy((1,), bytes(8)))
    for old in (size.to_bytes(4, "little"), size.to_bytes(8, "little")):
        for place in _places(bytes(content), old):
            content[place : place + len(old)] = short.to_bytes(len(old), "little")
    path.write_bytes(content)


def wide(path):
    """JSON that takes many times its length in memory."""
    forge(path, document({"a": 0}).replace("0}}", "[" + "{}," * 2_000_000 + "0]}}"), compresslevel=1)


def crowded(path):
    """A list of a million members."""
    entry = b"PK\x01\x02" + bytes(24) + (1).to_bytes(2, "little") + bytes(16) + b"x"
    directory = entry * 1_000_000
    end = b"PK\x05\x06" + bytes(4) + b"\xff\xff\xff\xff" + len(directory).to_bytes(4, "little") + bytes(6)
    path.write_bytes(directory + end)


@pytest.mark.parametrize("make", [bomb, lying, wide, crowded])
def test_small_files_do_not_take_much_memory(tmp_path, make):
    make(tmp_path / "a")
    code = (
        "import resource, sys, treebandit\n"
        "from treebandit import LinUCB\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: treebandit.load(sys.argv[1], max_bytes=1 << 26)\n"
        "except treebandit.errors.SavedFileError as error: print('refused', error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True, timeout=120
    )
    assert "refused" in done.stdout, done.stderr
    assert int(done.stdout.split()[-1]) < (1 << 26) / 1024


def test_files_that_are_open_are_written_and_read(tmp_path):
    agent = LinUCB(seed=0)
    agent.learn(np.ones((3, 2)), [1.0, 0.0, 1.0], arms=["a", "b", "a"])
    agent.save(tmp_path / "agent")
    memory = io.BytesIO()
    agent.save(memory)
    assert memory.getvalue() == (tmp_path / "agent").read_bytes()
    assert LinUCB.load(memory).clock == agent.clock
    with open(tmp_path / "agent", "rb") as file:
        assert treebandit.load(file).clock == agent.clock
        assert not file.closed
    with pytest.raises(SavedFileError, match="the file is damaged"):
        treebandit.load(io.BytesIO(b"nonsense"))
    with pytest.raises(SavedFileError, match="the file holds a LinUCB, not a Uniform"):
        Uniform.load(memory)
    with pytest.raises(SavedFileError, match="no path of a file"):
        treebandit.load(io.StringIO("text"))
    with pytest.raises(SavedFileError, match="no path of a file"):
        agent.save(io.StringIO())


def test_equal_agents_give_equal_files(tmp_path):
    for name in ("a", "b"):
        Uniform(seed=3).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
