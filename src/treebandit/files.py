"""Files that appear whole or not at all, whoever else writes to the same path."""

from __future__ import annotations

import os
import reprlib
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from treebandit.errors import SavedFileError

#: What a killed process left behind is deleted after as many seconds: nobody writes one file for so long.
LEFT_OVER_AFTER = 3600.0
#: File names have at most 255 bytes, and the unfinished file needs some of them for itself.
_LONGEST_PREFIX = 48


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that takes the place of `path` when the block ends without an error.

    The new content is written under a name of its own in the same folder, is on the disk before it is renamed, and
    keeps the permissions of the file it replaces. A path that cannot be written raises a SavedFileError.
    """
    try:
        target = Path(os.path.realpath(path))
        partial = target.with_name(f"{_prefix(target)}{uuid.uuid4().hex}.part")
    except (TypeError, ValueError) as error:
        raise SavedFileError(f"{reprlib.repr(path)} is no path of a file ({error})") from error
    try:
        mode = _mode(target)
        with _created(partial) as file:
            if mode is not None:
                os.chmod(partial, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise SavedFileError(
            f"{path} cannot be written ({error.strerror or error}); give a path in a folder that exists and may be "
            "written to, on a disk with space left"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    _remove_left_overs(target)


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file by `replacing`, in a folder that is made where it is missing; gives the path."""
    with suppress(OSError, ValueError):  # `replacing` tells what is wrong with a path
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the system's lock of a folder, which ends with its process; where there is none, go without."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _prefix(target: Path) -> str:
    return f".{target.name.encode()[:_LONGEST_PREFIX].decode(errors='ignore')}."


def _mode(target: Path) -> int | None:
    """Permissions of the file to replace; None for a new one, which gets those that any new file gets."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise OSError(None, "it is a folder or a device")
    return stat.S_IMODE(found)


def _created(partial: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.fdopen(os.open(partial, flags, 0o666), "wb")


def _sync_folder(folder: Path) -> None:
    """Make the renaming last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_left_overs(target: Path) -> None:
    """Delete unfinished files of this target whose writer was killed long ago."""
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            if entry.name.startswith(_prefix(target)) and entry.name.endswith(".part"):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFT_OVER_AFTER:
                        os.unlink(entry.path)
