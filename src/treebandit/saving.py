"""An agent on disk: a zip of arrays and JSON with a format version, and no pickle.

A file may come from anyone. It names only classes that are registered or that the caller hands over; nothing is
read that is larger than declared and allowed; and what it holds is checked before it is used.
"""

from __future__ import annotations

import io
import json
import math
import os
import reprlib
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from treebandit import registry
from treebandit.errors import MissingExtraError, ParameterError, SavedFileError
from treebandit.files import replacing
from treebandit.parameters import check_number, is_ours

FORMAT = "treebandit agent"
VERSION = 7
#: Bytes that a file may take in memory, unless the caller allows more.
MAX_BYTES = 1 << 30
#: For files that were written by the caller's own program.
NO_LIMIT = 1 << 62

#: Where an agent is saved: a path, or a file that is open for bytes, such as an `io.BytesIO`.
File = str | os.PathLike[str] | io.RawIOBase | io.BufferedIOBase

_OPEN = (io.RawIOBase, io.BufferedIOBase)
_DOCUMENT = "agent.json"
_ARRAY = "$array"
_KINDS: tuple[registry.Kind, ...] = ("agent", "tree learner")
#: A byte of JSON, or of the list of members, may take as many in memory.
_EXPANSION = 64
_CHUNK = 1 << 20


class Saved(Protocol):
    """What can be saved: a dataclass that gives its whole state and takes it up again, checking it."""

    def _whole_state(self, *, history: bool = True) -> dict[str, Any]:
        """All that it has learned, as plain values and arrays; without history, what decisions need of it."""

    def _resume(self, state: dict[str, Any]) -> None:
        """Take up the state of an object that was made with the same arguments."""


@dataclass(frozen=True)
class Captured:
    """What an object was at one moment: its document, its arrays, and the classes that it names."""

    name: str
    document: dict[str, Any]
    arrays: list[NDArray[Any]]
    classes: list[type]


def capture(thing: Saved, *, history: bool = True) -> Captured:
    """All that `write` needs of an object, which may change from now on; without history, to decide only."""
    with _refusing(type(thing).__name__):
        description = registry.describe(thing)
        arrays: list[NDArray[Any]] = []
        state = _take_out(thing._whole_state(history=history), arrays)
        document = {"format": FORMAT, "version": VERSION, "agent": description, "state": state}
        return Captured(type(thing).__name__, document, arrays, registry.classes_in(thing))


def write(captured: Captured, path: File) -> None:
    """Write to one file; a path appears whole or not at all. What could not be loaded is not written."""
    with _refusing(captured.name):
        text = json.dumps(captured.document)
        _verify(captured, json.loads(text))
    # Members opened by their name have no date, so that equal agents give equal files.
    target: AbstractContextManager[Any] = nullcontext(path) if isinstance(path, _OPEN) else replacing(path)
    with target as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open(_DOCUMENT, "w", force_zip64=True) as member:
            member.write(text.encode())
        for number, array in enumerate(captured.arrays):
            with archive.open(f"{number}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: File, *, classes: Iterable[type] = (), max_bytes: int = MAX_BYTES) -> Any:
    """The agent that a file holds, whichever it is; it goes on exactly as the saved one would have.

    path: of the file, or a file that is open for bytes and can be sought in. classes: classes of your own that it may
    name. max_bytes: what it may take in memory.
    """
    own = check_classes(classes)
    description, state = read(path, max_bytes=max_bytes)
    try:
        thing = registry.build(description, classes=own, kinds=_KINDS, where="agent")
        if not hasattr(thing, "_resume"):
            raise SavedFileError(f"it describes {type(thing).__name__}, which is no agent")
        thing._resume(state)
    except MissingExtraError:
        raise
    except Exception as error:
        raise SavedFileError(f"{shown(path)} does not hold a whole agent: {_words(error)}") from error
    return thing


def check_classes(classes: Any) -> list[type]:
    """The classes that a caller hands over, as a list."""
    try:
        own = list(classes)
    except Exception as error:
        raise ParameterError(f"classes is {reprlib.repr(classes)}; give a list of classes") from error
    for kind in own:
        if not isinstance(kind, type):
            raise ParameterError(
                f"classes hold {reprlib.repr(kind)}, which is no class; give a list of classes"
            )
    return own


def shown(path: File) -> str:
    """A file in the words of a message."""
    return "the file" if isinstance(path, _OPEN) else str(path)


def read(path: File, *, max_bytes: int = MAX_BYTES) -> tuple[Any, Any]:
    """Description and state in a file, in no more than `max_bytes` bytes of memory."""
    check_number("max_bytes", max_bytes, least=1, whole=True)
    if not isinstance(path, (str, os.PathLike, *_OPEN)):
        raise SavedFileError(f"{reprlib.repr(path)} is no path of a file; give text or a pathlib.Path")
    try:
        with _opened(path) as file, zipfile.ZipFile(_Source(file, max_bytes)) as archive:
            members = _members(archive, max_bytes)
            document = json.loads(_content(archive, members[_DOCUMENT]))
            _check_format(document)
            arrays = _Arrays(archive, members, max_bytes)
            state = _put_back(document["state"], arrays)
            if len(arrays.taken) + 1 != len(members):
                raise SavedFileError("it holds arrays that nothing refers to")
            return document["agent"], state
    except FileNotFoundError:
        raise
    except SavedFileError as error:
        raise SavedFileError(f"{shown(path)} cannot be loaded: {error}") from error
    except Exception as error:
        raise SavedFileError(
            f"{shown(path)} is damaged or was not written by treebandit ({_words(error)}); give a file that agent.save "
            "wrote"
        ) from error


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:
        raise SavedFileError(
            f"{name} cannot be saved in such a way that it could be loaded again: {_words(error)}"
        ) from error


def _verify(captured: Captured, document: dict[str, Any]) -> None:
    """Load what is about to be written, from memory."""
    twin = registry.build(document["agent"], classes=captured.classes, kinds=_KINDS, where=captured.name)
    if registry.classes_in(twin) != captured.classes:
        raise SavedFileError("two classes in it have the same name; give them names of their own")
    twin._resume(_put_back(document["state"], captured.arrays))


def _check_format(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SavedFileError("it was not written by treebandit; give a file that agent.save wrote")
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > VERSION
        raise SavedFileError(
            f"it has format version {version!r:.40}, this treebandit reads {VERSION}; "
            + ("install a newer treebandit" if newer else "load it with the treebandit that saved it")
        )


def _opened(path: File) -> AbstractContextManager[Any]:
    """A regular file to read from; one that is open already stays open."""
    if isinstance(path, _OPEN):
        return nullcontext(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise SavedFileError("it is no regular file")
    return io.FileIO(os.fspath(path))


class _Source:
    """A file, of which no more is read at once than may be kept."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file, self._most = file, max(max_bytes // _EXPANSION, _CHUNK)
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1, /) -> bytes:
        # zipfile reads the list of members in one piece, as long as the file says it is.
        if size > self._most:
            raise SavedFileError("its list of members is too long")
        return self._file.read(size) or b""


def _members(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, if they are those that `save` writes and their declared sizes are allowed."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    expected = {_DOCUMENT, *(f"{number}.npy" for number in range(len(infos) - 1))}
    if len(members) < len(infos) or set(members) != expected:
        raise SavedFileError("its members are not those of a saved agent")
    for info in infos:
        if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise SavedFileError(f"its member {info.filename} is encrypted or packed in another way")
    needed = sum(info.file_size for info in infos) + _EXPANSION * members[_DOCUMENT].file_size
    if needed > max_bytes:
        raise SavedFileError(
            f"it would take up to {needed:,} bytes of memory, and {max_bytes:,} are allowed; if you trust it, "
            "load it with a larger max_bytes"
        )
    return members


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A whole member, in steps, so that no more is unpacked than was declared."""
    with archive.open(info) as member:
        return b"".join(iter(lambda: member.read(_CHUNK), b""))


class _Arrays:
    """The arrays of an archive, each to be taken once."""

    def __init__(self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], max_bytes: int) -> None:
        self._archive, self._members, self._max_bytes = archive, members, max_bytes
        self.taken: set[int] = set()

    def __getitem__(self, number: int) -> NDArray[Any]:
        info = self._members.get(f"{number}.npy")
        if isinstance(number, bool) or not isinstance(number, int) or info is None or number in self.taken:
            raise SavedFileError(f"array {number!r:.40} is not there, or is used twice")
        self.taken.add(number)
        with self._archive.open(info) as member:
            _check_header(member, info.file_size, self._max_bytes)
        with self._archive.open(info) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
            if member.read(1):
                raise SavedFileError(f"array {number} is longer than it says")
        return array


def _check_header(member: Any, size: int, longest: int) -> None:
    """Raise where an array is not of plain numbers, or not as long as its member."""
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise SavedFileError(f"an array has npy version {version}; expected (1, 0)")
    shape, _, dtype = np.lib.format.read_array_header_1_0(member)
    _check_type(dtype)
    if any(not 0 <= length <= longest for length in shape):
        raise SavedFileError(f"an array has the shape {shape}")
    if math.prod(shape) * dtype.itemsize != size - member.tell():
        raise SavedFileError(f"an array of shape {shape} does not fit the {size} bytes of its member")


def _check_type(dtype: np.dtype[Any]) -> None:
    fields = [each[0] for each in dtype.fields.values()] if dtype.fields else [dtype]
    if any(each.kind not in "biuf" or each.shape for each in fields):
        raise SavedFileError(f"an array has the type {dtype}; expected plain numbers")


def _take_out(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """A state as JSON values; an array in it becomes {"$array": its number}, and no other key looks like that."""
    if isinstance(value, np.ndarray):
        _check_type(value.dtype)
        arrays.append(value.copy())
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, dict):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise SavedFileError(f"its state has the key {wrong[0]!r}; keys have to be text")
        return {_escaped(key): _take_out(member, arrays) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_take_out(member, arrays) for member in value]
    return value.item() if isinstance(value, np.generic) else value


def _put_back(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key.removeprefix("$"): _put_back(member, arrays) for key, member in value.items()}
    return [_put_back(member, arrays) for member in value] if isinstance(value, list) else value


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _words(error: Exception) -> str:
    """An error in the words of a message."""
    if isinstance(error, RecursionError):
        return "too many values in one another"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    return str(error) if is_ours(type(error)) else repr(error)
