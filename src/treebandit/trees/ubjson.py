"""A reader of UBJSON, the binary form in which XGBoost saves a model; number arrays come as numpy arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from treebandit.errors import SavedFileError

_NUMBERS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_DTYPES = {mark: np.dtype(code) for mark, code in _NUMBERS.items()}
_STRUCTS = {mark: struct.Struct(code) for mark, code in _NUMBERS.items()}
_LONG = _STRUCTS[b"L"]
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

    def value(self) -> Any:
        return self.of(self.mark())

    def of(self, mark: bytes) -> Any:
        if mark == b"S":
            return self.text()
        if mark == b"[":
            return self.array()
        if mark == b"{":
            return self.object()
        if mark in _STRUCTS:
            return self.number(mark)
        if mark == b"C":
            return self.take(1).decode()
        return _CONSTANTS[mark]

    def mark(self) -> bytes:
        return self.take(1)

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise IndexError(f"ends at byte {len(self.data)}")
        self.at += size
        return taken

    def number(self, mark: bytes) -> Any:
        kind = _STRUCTS[mark]
        (value,) = kind.unpack_from(self.data, self.at)
        self.at += kind.size
        return value

    def length(self) -> int:
        return int(self.number(self.mark()))

    def text(self) -> str:
        if self.data.startswith(b"L", self.at):
            (length,) = _LONG.unpack_from(self.data, self.at + 1)
            self.at += 9
        else:
            length = self.length()
        return self.take(length).decode()

    def header(self) -> tuple[bytes | None, int | None]:
        """Type and count of a container, where it names them."""
        kind = None
        if self.data[self.at : self.at + 1] == b"$":
            self.at += 1
            kind = self.mark()
        if self.data[self.at : self.at + 1] == b"#":
            self.at += 1
            return kind, self.length()
        return kind, None

    def array(self) -> Any:
        kind, count = self.header()
        if kind in _DTYPES and count is not None:
            dtype = _DTYPES[kind]
            return np.frombuffer(self.take(dtype.itemsize * count), dtype)
        if count is not None:
            return [self.of(kind) if kind else self.value() for _ in range(count)]
        values = []
        while (mark := self.mark()) != b"]":
            values.append(self.of(mark))
        return values

    def object(self) -> dict[str, Any]:
        kind, count = self.header()
        members: dict[str, Any] = {}
        if count is not None:
            for _ in range(count):
                key = self.text()
                members[key] = self.of(kind) if kind else self.value()
            return members
        while self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            members[key] = self.numbers() if self.data.startswith(b"[$", self.at) else self.value()
        self.at += 1
        return members

    def numbers(self) -> Any:
        """An array that names type and 64-bit length, the bulk of a model: the same as `value`, in one step."""
        head = self.data[self.at : self.at + _TYPED.size]
        mark, sign, length = _TYPED.unpack(head)
        if sign != b"#L" or mark not in _DTYPES:
            return self.value()
        dtype, start = _DTYPES[mark], self.at + _TYPED.size
        self.at = start + dtype.itemsize * length
        return np.frombuffer(self.data, dtype, length, start) if length else np.empty(0, dtype)
