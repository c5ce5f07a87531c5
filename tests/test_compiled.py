"""Compiled code on machines where nothing can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import treebandit

KERNEL = """
from treebandit.compiled import njit

@njit(cache=True)
def double(x):
    return x + x
"""
USE = """
import sys, warnings
import numba.core.event as event

compiled = []

class Listener(event.Listener):
    def on_start(self, happened): compiled.append(happened.data["args"])
    def on_end(self, happened): pass

event.register("numba:compile", Listener())
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    from kernel import double
    for value in map(eval, sys.argv[1:]):
        assert double(value) == value + value
print(len(compiled), len(warned), *(str(each.message) for each in warned))
"""


#: Root may write everywhere, whatever the permissions say, unless it gives that up.
GIVE_UP = """
import ctypes
if ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()):
    raise SystemExit("capset")
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with one kernel in it."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "__pycache__").mkdir()
    yield tmp_path
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def lock(folder):
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)


def run(code, folder, *arguments, **environment):
    """Run code as somebody who may write only where permissions allow it."""
    source = Path(treebandit.__file__).parents[1]
    home = {"HOME": f"{folder}/home", "PYTHONPATH": f"{folder}:{source}"}
    done = subprocess.run(
        [sys.executable, "-c", (GIVE_UP if os.getuid() == 0 else "") + code, *arguments],
        env={"PATH": os.environ["PATH"], **home, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.stderr.strip() == "capset":
        pytest.skip("root cannot give up its capabilities here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_where_nothing_can_be_written_it_is_compiled_in_memory_and_said_once(folder):
    lock(folder)
    compiled, warned, *words = run(USE, folder, "1", "1.5").split()
    assert (compiled, warned) == ("2", "1")
    assert "NUMBA_CACHE_DIR" in words
    assert "warm-up`" in words


def test_what_was_compiled_before_is_read_where_nothing_can_be_written(folder):
    assert run(USE, folder, "1").split() == ["1", "0"]
    lock(folder)
    assert run(USE, folder, "1").split() == ["0", "0"]
    assert run(USE, folder, "1", "1.5").split()[:2] == ["1", "1"]


def test_a_folder_for_compiled_code_may_be_read_only_too(folder):
    kept = folder / "kept"
    kept.mkdir()
    (folder / "__pycache__").chmod(0o555)
    assert run(USE, folder, "1", NUMBA_CACHE_DIR=str(kept)).split() == ["1", "0"]
    lock(folder)
    assert run(USE, folder, "1", NUMBA_CACHE_DIR=str(kept)).split() == ["0", "0"]


def test_damaged_compiled_code_is_compiled_anew(folder):
    run(USE, folder, "1")
    for path in (folder / "__pycache__").glob("*.nb[ci]"):
        path.write_bytes(b"nonsense")
    assert run(USE, folder, "1").split()[0] == "1"


def test_signatures_compiled_at_the_same_time_do_not_share_a_file(folder):
    """Each of two processes may read an index that lacks the signature of the other."""
    for value in ("1", "1.5"):
        for index in (folder / "__pycache__").glob("*.nbi"):
            index.unlink()
        run(USE, folder, value)
    assert len(list((folder / "__pycache__").glob("*.nbc"))) == 2


def test_the_package_can_be_imported_where_nothing_can_be_written(folder):
    shutil.copytree(
        Path(treebandit.__file__).parent,
        folder / "treebandit",
        ignore=shutil.ignore_patterns("__pycache__", "data"),
    )
    lock(folder)
    code = "import treebandit; print(treebandit.__file__, treebandit.Bandit(seed=0).choose([1.0, 2.0], arms=[0, 1]))"
    assert run(code, folder).startswith(str(folder))


PARTS = """
from treebandit.compiled import part

@part()
def scaled(x):
    return {scale} * x
"""
CALLER = """
from shop.parts import scaled
from treebandit.compiled import njit

@njit()
def total(x):
    return scaled(x) + scaled(x)
"""


def test_code_is_compiled_anew_when_the_file_of_one_of_its_parts_changes(folder):
    """numba looks at the file of the kernel only, so that an update would run what was compiled before it."""
    package = folder / "shop"
    package.mkdir()
    for name, text in (("__init__", ""), ("kernel", CALLER), ("parts", PARTS.format(scale=1))):
        (package / f"{name}.py").write_text(text)
    code = "from shop.kernel import total; print(total(3), sum(total.stats.cache_hits.values()))"
    results = [run(code, folder).split() for _ in range(2)]
    (package / "parts.py").write_text(PARTS.format(scale=10))
    results += [run(code, folder).split() for _ in range(2)]
    assert results == [["6", "0"], ["6", "1"], ["60", "0"], ["60", "1"]]
    assert len(list(package.rglob("*.nbc"))) == 1


PAUSED = """
import gc
import numba
import numba.core.event as event

seen = []

class Listener(event.Listener):
    def on_start(self, happened): seen.append(gc.isenabled())
    def on_end(self, happened): seen.append(gc.isenabled())

from treebandit.compiled import helper, njit

@helper
def twice(x):
    return 2 * x

@njit()
def four_times(x):
    return twice(twice(x))

@njit()
def fails(x):
    return x.no_such_thing

def tried(kernel, value):
    seen.clear()
    try:
        kernel(value)
    except numba.TypingError:
        pass
    return [*map(int, seen), int(gc.isenabled())]

four_times(1)
event.register("numba:compile", Listener())
print(*tried(four_times, 1.0), "/", *tried(fails, 1), "/", *tried(numba.njit(lambda x: x), 1), end=" / ")
gc.disable()
print(*tried(four_times, 1j))
"""


def test_the_garbage_collector_pauses_only_while_a_kernel_of_ours_is_compiled(tmp_path):
    """Also where compiling fails; it stays off where it was."""
    printed = run(PAUSED, tmp_path, NUMBA_CACHE_DIR=str(tmp_path))
    ours, failing, other, off = ([int(flag) for flag in part.split()] for part in printed.split("/"))
    assert ours == [0, 0, 0, 1, 1]  # the kernel, the helper in it, its end, the kernel's end, afterwards
    assert failing == [0, 1, 1]
    assert other == [1, 1, 1]
    assert not any(off)
