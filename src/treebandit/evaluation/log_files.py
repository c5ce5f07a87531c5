"""The forms of a decision log on disk: a Parquet file, NDJSON, or a folder of parts of either."""

from __future__ import annotations

import gzip
import json
import os
import re
import reprlib
import uuid
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from treebandit.errors import LogError, TreebanditError
from treebandit.evaluation.columns import conform, from_json
from treebandit.evaluation.ndjson import opened, scan_lines, scan_part
from treebandit.files import locked, replacing

_NDJSON = (".ndjson", ".jsonl", ".ndjson.gz", ".jsonl.gz")
_PARQUET = (".parquet", ".pq")
_FORMS = "a .parquet file, an .ndjson or .jsonl file (also with .gz), or a folder of such files"
#: How `add_part` names parts.
_PART_NAME = re.compile(r"part-\d{8}T\d{12}Z-[0-9a-f]{8}\.parquet")
#: Rows that are in memory at once while a log is written.
_BATCH = 50_000
#: Lines that are read at once in the search for one that cannot be read.
_SEARCHED = 10_000


def scan_files(path: str | os.PathLike[str]) -> pl.LazyFrame:
    """All rows of a log, late rewards among them, in the order in which they were written."""
    if not os.fspath(path):
        raise LogError(f"the path of the log is empty; give {_FORMS}")
    place = Path(path)
    if place.is_dir():
        parts = _data_files(place)
        if not parts:
            raise LogError(f"{place} holds no part of a decision log; give {_FORMS}")
        return pl.concat([_scan_file(part) for part in parts])
    if not place.exists():
        raise LogError(f"{place} does not exist; give {_FORMS}")
    return _scan_file(place)


def write_files(frame: pl.LazyFrame, path: str | os.PathLike[str]) -> None:
    """Write a log whole: the file, or the folder's only part, takes the place of what was there.

    Only parts that were written here are removed from a folder; one that holds other data is refused.
    """
    place = Path(path)
    if _is_folder(place):
        old = _data_files(place) if place.exists() else []
        others = [each.name for each in old if not _PART_NAME.fullmatch(each.name)]
        if others:
            raise LogError(
                f"{place} holds {reprlib.repr(others)[1:-1]}, which treebandit did not write; give another folder"
            )
        add_part(frame, place)
        for part in old:
            part.unlink()
        return
    with _locked(place):
        _write_file(frame, place)


def append_files(frame: pl.LazyFrame, path: str | os.PathLike[str]) -> None:
    """Add rows to a log: a part to a folder, lines to NDJSON; a Parquet file is written anew, a batch at a time.

    Whoever else appends to the same file waits, so that no row is lost.
    """
    place = Path(path)
    if _is_folder(place):
        add_part(frame, place)
        return
    form = _form(place)
    with _locked(place):
        if not place.exists():
            _write_file(frame, place)
        elif form == "parquet":
            _write_parquet(pl.concat([scan_files(place), frame]), place)
        else:
            # A writer that was cut short left half a line: it must not swallow ours. What cannot be unpacked to its end
            # is refused here: nothing behind it would ever be read.
            size = place.stat().st_size
            whole = size == 0 or _last_byte(place) == b"\n"
            try:
                with gzip.open(place, "ab") if place.suffix == ".gz" else open(place, "ab") as file:
                    file.write(b"" if whole else b"\n")
                    _write_lines(frame, file)
            except BaseException:
                os.truncate(place, size)  # half a line would make the whole log unreadable
                raise


def _is_folder(place: Path) -> bool:
    """Whether a path to write to is a folder of parts, there already or not; a LogError where it is no log at all."""
    # Not `exists`: another writer may make the folder between two questions.
    if place.is_dir():
        return True
    if _form(place) is not None:
        return False
    ending = place.suffix.removeprefix(".")
    if place.is_file() or (ending and not ending.isdigit()):
        raise LogError(
            f"{place} has no form of a decision log; give {_FORMS}, without an ending or made before"
        )
    return True


def _data_files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if _form(each) and not each.name.startswith("."))


def _locked(place: Path) -> AbstractContextManager[None]:
    """Only one writer at a time to the files of a folder; the folder, since a file that is replaced loses its lock."""
    folder = Path(os.path.realpath(place)).parent
    return locked(folder) if folder.is_dir() else nullcontext()  # `replacing` tells that there is none


def _write_file(frame: pl.LazyFrame, place: Path) -> None:
    if _form(place) == "parquet":
        _write_parquet(frame, place)
        return
    packed = place.suffix == ".gz"
    with replacing(place) as file, gzip.open(file, "wb") if packed else nullcontext(file) as lines:
        _write_lines(frame, lines)


def add_part(frame: pl.LazyFrame, folder: Path) -> Path:
    """Add one Parquet part to a folder, whole or not at all; parts sort by the time they were written."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    part = folder / f"part-{stamp}-{uuid.uuid4().hex[:8]}.parquet"
    _write_parquet(frame, part)
    return part


#: What libraries raise where a file is not what its name says, or cannot be opened at all.
_UNREADABLE = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    RecursionError,
)


@contextmanager
def reading(source: str, what: str = "read as a decision log") -> Iterator[None]:
    """What cannot be read, cast or written becomes a LogError that names the log, and the line where there is one."""
    try:
        yield
    except TreebanditError:
        raise
    except _UNREADABLE as error:
        known = error.strerror if isinstance(error, OSError) else None
        reason = (known or str(error)).strip().partition("\n")[0]
        raise LogError(f"{source} cannot be {what}: {reason}{_bad_line(source)}") from error


def _scan_file(path: Path) -> pl.LazyFrame:
    with reading(str(path)):
        if _form(path) == "parquet":
            return conform(pl.scan_parquet(path, glob=False), str(path))
        if _form(path) == "ndjson":
            return conform(scan_lines(path), str(path))
    raise LogError(f"{path} has no form of a decision log; give {_FORMS}")


def scan_text(lines: str) -> pl.LazyFrame:
    """NDJSON that is in memory already."""
    return conform(scan_part(lines.encode()), "the records")


def _form(path: Path) -> str | None:
    name = path.name.lower()
    return "ndjson" if name.endswith(_NDJSON) else "parquet" if name.endswith(_PARQUET) else None


def _write_parquet(frame: pl.LazyFrame, path: Path) -> None:
    with replacing(path) as file:
        frame.sink_parquet(file, row_group_size=_BATCH, statistics=True)


def _write_lines(frame: pl.LazyFrame, file: Any) -> None:
    for batch in frame.collect_batches(chunk_size=_BATCH, maintain_order=True):
        lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records(batch))
        file.write("".join(f"{line}\n" for line in lines).encode())


def records(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as the dicts that NDJSON has: contexts as objects, times as text, without what is null."""
    times = [pl.col(name).dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ") for name in ("time", "reward_time")]
    for row in frame.with_columns(times).iter_rows(named=True):
        record = {name: value for name, value in row.items() if value is not None}
        if "context" in record:
            record["context"] = from_json(record["context"])
        if "arm_contexts" in record:
            record["arm_contexts"] = [
                None if text is None else from_json(text) for text in record["arm_contexts"]
            ]
        yield record


def lines_of(path: Path, wanted: str = _FORMS) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, packed with gzip or not, and their numbers from 1. wanted: where there is none."""
    if not path.exists():
        raise LogError(f"{path} does not exist; give {wanted}")
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            yield number, line.removeprefix(BOM_UTF8) if number == 1 else line


def _last_byte(path: Path) -> bytes:
    with opened(path) as file:
        file.seek(-1, os.SEEK_END)
        last: bytes = file.read(1)
    return last


def _bad_line(source: str) -> str:
    """Which line of an NDJSON file cannot be read; nothing where that is unknown."""
    path = Path(source)
    with suppress(OSError, EOFError, ValueError):
        if _form(path) != "ndjson" or not path.is_file():
            return ""
        lines = lines_of(path)
        while part := list(islice(lines, _SEARCHED)):
            if _readable(part):
                continue
            while len(part) > 1:
                half = part[: len(part) // 2]
                part = part[len(half) :] if _readable(half) else half
            ((number, line),) = part
            start = line[:80].decode(errors="replace").strip()
            return f" (line {number}: {''.join(each if each.isprintable() else '?' for each in start)})"
    return ""


def _readable(lines: list[tuple[int, bytes]]) -> bool:
    try:
        conform(scan_part(b"".join(line for _, line in lines)), "lines").collect()
    except _UNREADABLE:
        return False
    return True
