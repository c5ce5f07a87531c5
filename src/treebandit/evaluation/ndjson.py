"""Lines of JSON as frames of text columns, a part of the file at a time."""

from __future__ import annotations

import gzip
import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from treebandit.evaluation.columns import TEXT_SCHEMA

#: Bytes of a file that are in memory at once.
_PART = 1 << 23


def scan_lines(path: Path) -> pl.LazyFrame:
    """The lines of a file, packed with gzip or not, in the columns of `TEXT_SCHEMA`; nothing is read yet."""

    def parts(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for part in _parts(path):
            frame = scan_part(part)
            if predicate is not None:
                frame = frame.filter(predicate)
            if with_columns is not None:
                frame = frame.select(with_columns)
            found = (frame if n_rows is None else frame.head(n_rows)).collect()
            yield found
            if n_rows is not None:
                n_rows -= len(found)
                if n_rows <= 0:
                    return

    return register_io_source(parts, schema=TEXT_SCHEMA)


def scan_part(lines: bytes) -> pl.LazyFrame:
    """Lines that are in memory.

    polars prints objects in text columns without escaping what is inside: contexts of lines that have an escape are
    made text before.
    """
    if b"\\" in lines:
        lines = b"\n".join(_with_text(line) if b"\\" in line else line for line in lines.split(b"\n"))
    if not lines or lines.isspace():
        return pl.LazyFrame(schema=TEXT_SCHEMA)
    return pl.scan_ndjson(lines, schema=TEXT_SCHEMA)


def opened(path: Path) -> Any:
    """The bytes of a file, unpacked where it is packed."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _parts(path: Path) -> Iterator[bytes]:
    """Whole lines, without the mark that some editors put before UTF-8."""
    with opened(path) as file:
        start = True
        while part := file.read(_PART):
            part += file.readline()
            yield part.removeprefix(BOM_UTF8) if start else part
            start = False


def _with_text(line: bytes) -> bytes:
    """A line whose contexts are JSON text; as it is where it is no JSON, which polars tells."""
    try:
        record = json.loads(line, parse_constant=_refused)
    except (ValueError, RecursionError):
        return line
    if not isinstance(record, dict):
        return line
    if "context" in record:
        record["context"] = _text(record["context"])
    if isinstance(record.get("arm_contexts"), list):
        record["arm_contexts"] = [_text(each) for each in record["arm_contexts"]]
    return json.dumps(record).encode()


def _text(context: Any) -> str | None:
    if context is None or isinstance(context, str):
        return context
    return json.dumps(context, ensure_ascii=False, separators=(",", ":"))


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
