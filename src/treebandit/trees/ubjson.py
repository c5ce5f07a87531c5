"""A reader of UBJSON, the binary form in which XGBoost saves a model; number arrays come as numpy arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from treebandit.errors import SavedFileError

_NUMBERS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_DTYPES = {mark: np.dtype(code) for mark, code in _NUMBERS.items()}
_STRUCTS = {mark: struct.Struct(code) for mark, code in _NUMBERS.items()}
_TYPED = struct.Struct(">2xc2sq")
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def read(data: bytes) -> Any:
    """The value that `data` holds."""
    try:
        return _Reader(data).value()
    except (IndexError, struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
        raise SavedFileError(f"not a complete UBJSON document: {error}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise IndexError(f"ends at byte {len(self.data)}")
        self.at += size
        return taken

    def value(self, mark: bytes | None = None) -> Any:
        """The value that comes next, of the type that `mark` names, or the next byte where none is given."""
        if mark is None:
            mark = self.data[self.at : self.at + 1]
            self.at += 1
        if mark in _STRUCTS:
            kind = _STRUCTS[mark]
            (number,) = kind.unpack_from(self.data, self.at)
            self.at += kind.size
            return number
        if mark in _READERS:
            return _READERS[mark](self)
        return _CONSTANTS[mark]

    def text(self) -> str:
        return self.take(self.value()).decode()

    def header(self) -> tuple[bytes | None, int | None]:
        """Type and count of a container, where it names them."""
        kind, data = None, self.data
        if data.startswith(b"$", self.at):
            kind = data[self.at + 1 : self.at + 2]
            self.at += 2
        if not data.startswith(b"#", self.at):
            return kind, None
        self.at += 1
        return kind, self.value()

    def array(self) -> Any:
        kind, count = self.header()
        if kind in _DTYPES and count is not None:
            dtype = _DTYPES[kind]
            return np.frombuffer(self.take(dtype.itemsize * count), dtype)
        if count is not None:
            return [self.value(kind) for _ in range(count)]
        values = []
        while (mark := self.take(1)) != b"]":
            values.append(self.value(mark))
        return values

    def object(self) -> dict[str, Any]:
        kind, count = self.header()
        if count is not None:
            return {self.text(): self.value(kind) for _ in range(count)}
        members: dict[str, Any] = {}
        while not self.data.startswith(b"}", self.at):
            key = self.text()
            members[key] = self.numbers() if self.data.startswith(b"[$", self.at) else self.value()
        self.at += 1
        return members

    def numbers(self) -> Any:
        """An array that names type and 64-bit length, the bulk of a model: the same as `value`, in one step."""
        mark, sign, length = _TYPED.unpack_from(self.data, self.at)
        if sign != b"#L" or mark not in _DTYPES:
            return self.value()
        self.at += _TYPED.size
        dtype = _DTYPES[mark]
        return np.frombuffer(self.take(dtype.itemsize * length), dtype)


_READERS: dict[bytes, Callable[[_Reader], Any]] = {
    b"S": _Reader.text,
    b"[": _Reader.array,
    b"{": _Reader.object,
    b"C": lambda reader: reader.take(1).decode(),
}
