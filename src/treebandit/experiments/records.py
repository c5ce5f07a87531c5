"""RunRecord on disk, one parquet file with its provenance per run; all of a folder as two frames.

A folder holds `<run id>.parquet` per finished run, and `plan/<key>.json` per run asked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from treebandit.core import Floats
from treebandit.errors import DamagedRecordError, SavedFileError
from treebandit.experiments.provenance import CurrentCode
from treebandit.experiments.spec import Study, value_text

FORMAT = 2
PLAN = "plan"
#: The header starts with a checksum of the whole file, taken while these digits were zeros.
_SEAL = b'{"record_sha256": "'
_NO_SEAL = b"0" * 64
#: Files under a temporary name that are older belong to a command that was killed.
LEFTOVER_SECONDS = 600.0

#: Whatever a file with the wrong bytes in it may raise.
_UNREADABLE = (
    *(OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError),
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
)

_PARTS = ("choosing", "learning", "rebuilding")
_LISTS = {"arms": pl.List(pl.Int32()), "rewards": pl.List(pl.Float32())}
#: One round of a record.
SCHEMA = pl.Schema(
    {"round": pl.Int32(), **_LISTS, "regret": pl.Float64(), **dict.fromkeys(_PARTS, pl.Float32())}
)

#: A column that some records have more: null but in the last round.
ESTIMATES = "estimates"

_NAMES = dict.fromkeys(("run_id", "study", "agent", "environment"), pl.String())
_RUN = {**_NAMES, "seed": pl.Int64(), "rounds": pl.Int64()}
#: One row of `load_runs`, of the rounds of `load_records`, and of `load_plan`.
RUNS_SCHEMA = pl.Schema(
    {
        **_RUN,
        **dict.fromkeys(("final_regret", "cpu_seconds", "duration"), pl.Float64()),
        "started": pl.String(),
        **dict.fromkeys(_PARTS, pl.Float64()),
        **dict.fromkeys(("spec", "provenance", "note", "varied", "value"), pl.String()),
        **dict.fromkeys(("planned", "stale"), pl.Boolean()),
        "other_code": pl.String(),
    }
)
ROUNDS_SCHEMA = pl.Schema(
    {
        "run_id": pl.String(),
        "round": pl.Int32(),
        **dict.fromkeys(("regret", "cumulative"), pl.Float64()),
        **dict.fromkeys(_PARTS, pl.Float32()),
    }
)
PLAN_SCHEMA = pl.Schema(
    {
        **_RUN,
        **dict.fromkeys(("varied", "value", "title", "source"), pl.String()),
        "folders": pl.List(pl.String()),
    }
)
#: What tells two planned runs apart; a run with the same label and another id is the same run with other settings.
_LABEL = ("study", "agent", "environment", "seed", "rounds", "varied", "value")


@dataclass(frozen=True)
class RunRecord:
    """What one run left behind: its spec with its run id, where and when it ran, and one row per round.

    spec: everything that decided the run, and its run id.
    provenance: versions, code, machine, start, seconds.
    frame: one row per round.
    estimates: (arms,) what the agent believed each arm pays in the end, for environments that ask; else None.

    >>> from treebandit.experiments import RunSpec, play
    >>> agent = {"name": "LinUCB", "class": "LinUCB"}
    >>> environment = {"name": "mushroom", "class": "Classification", "data": "mushroom"}
    >>> record = play(RunSpec(agent, environment, seed=0, rounds=20))
    >>> record.frame["regret"].sum() >= 0
    True
    """

    spec: dict[str, Any]
    provenance: dict[str, Any]
    frame: pl.DataFrame
    estimates: Floats | None = None

    @property
    def run_id(self) -> str:
        """The name of the record's file, without its ending."""
        return str(self.spec["run_id"])


def record_path(folder: str | Path, run_id: str) -> Path:
    """Where the record of a run lies."""
    return Path(folder) / f"{run_id}.parquet"


def write_record(record: RunRecord, folder: str | Path) -> Path:
    """Write a record under a temporary name and rename it, so that a file is there in full or not at all."""
    path = record_path(folder, record.run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = record.frame.select(list(SCHEMA)).cast(SCHEMA)
    totals = frame.select(pl.col("regret", *_PARTS).cast(pl.Float64).sum()).row(0, named=True)
    header = {
        "record_sha256": _NO_SEAL.decode(),
        "format": FORMAT,
        "spec": record.spec,
        "provenance": record.provenance,
        "totals": {"rounds": frame.height, **totals},
    }
    if record.estimates is not None:
        last = [None] * (frame.height - 1) + [record.estimates.tolist()]
        frame = frame.with_columns(pl.Series(ESTIMATES, last, dtype=pl.List(pl.Float32)))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", metadata={"treebandit": json.dumps(header)})
    content = buffer.getvalue()
    start = content.index(_SEAL) + len(_SEAL)
    seal = hashlib.sha256(content).hexdigest().encode()
    _replace(path, content[:start] + seal + content[start + len(seal) :])
    return path


def read_record(path: str | Path) -> RunRecord:
    """Read one record in full."""
    path = Path(path)
    content, header = _open(path)
    try:
        frame = pl.read_parquet(io.BytesIO(content))
        estimates = frame[ESTIMATES][-1].to_numpy() if ESTIMATES in frame.columns else None
        return RunRecord(header["spec"], header["provenance"], frame.select(list(SCHEMA)), estimates)
    except _UNREADABLE as error:
        raise _damaged(path, error) from error


def read_provenance(path: str | Path) -> dict[str, Any]:
    """Where and when a run was played."""
    provenance: dict[str, Any] = _open(Path(path))[1]["provenance"]
    return provenance


def load_runs(folder: str | Path) -> pl.DataFrame:
    """One row per finished run of a folder.

    `planned` is false for a run that no study of the folder asks for any more, because its spec has changed;
    `stale` is true for a run that other code made, and `other_code` tells which: `treebandit 0.1.0`,
    `my_agents has changed`.
    """
    plan = load_plan(folder)
    wanted = set(plan["run_id"])
    code, rows = _PlannedCode(plan), []
    for path in _files(folder):
        header = _open(path)[1]
        planned = path.stem in wanted or not wanted
        other = code.of(path.stem).stale_reason(header["provenance"])
        rows.append((*_run_row(header), planned, bool(other), other))
    order = ("study", "environment", "agent", "varied", "value", "seed")
    return _frame(rows, RUNS_SCHEMA, Path(folder)).sort(*order, maintain_order=True)


class _PlannedCode:
    """The code as it is now, for each run of a plan where its studies look for it."""

    def __init__(self, plan: pl.DataFrame) -> None:
        self._folders: dict[str, list[str]] = {}
        for run_id, source, folders in plan.select("run_id", "source", "folders").iter_rows():
            if folders is None:
                folders = [str(Path(source).absolute().parent)] if source and source.endswith(".toml") else []
            self._folders.setdefault(run_id, []).extend(folders)
        self._every = tuple({folder for folders in self._folders.values() for folder in folders})
        self._codes: dict[tuple[str, ...], CurrentCode] = {}

    def of(self, run_id: str) -> CurrentCode:
        """For one run; one that is no longer planned is looked for in the folders of all."""
        key = tuple(dict.fromkeys(self._folders[run_id])) if run_id in self._folders else self._every
        return self._codes.setdefault(key, CurrentCode(key))


def load_records(folder: str | Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All records of a folder: one row per finished run, and one row per round of each of them."""
    runs = load_runs(folder)
    frames = [pl.DataFrame(schema=ROUNDS_SCHEMA)]
    for run_id in runs["run_id"]:
        path = record_path(folder, run_id)
        try:
            frame = pl.read_parquet(path, glob=False, columns=["round", "regret", *_PARTS])
        except _UNREADABLE as error:
            raise _damaged(path, error) from error
        total = pl.col("regret").cum_sum().alias("cumulative")
        frames.append(frame.select(pl.lit(run_id).alias("run_id"), "round", "regret", total, *_PARTS))
    return runs, pl.concat(frames)


def load_plan(folder: str | Path) -> pl.DataFrame:
    """All runs that were asked for in a folder, finished or not: one row per study and run."""
    rows = []
    for path in sorted((Path(folder) / PLAN).glob("*.json")):
        try:
            run = json.loads(path.read_bytes())
            run = {"folders": None} | run  # version 0.2.0 wrote none
            rows.append(tuple(run[name] for name in PLAN_SCHEMA))
        except _UNREADABLE as error:
            raise _damaged(path, error) from error
    return _frame(rows, PLAN_SCHEMA, Path(folder) / PLAN)


def merge_plan(folder: str | Path, runs: Iterable[dict[str, Any]]) -> None:
    """Add runs (rows of `load_plan`) to the folder's plan: one file per run, named by what tells runs apart.

    A run takes the place of one of the same study, agent, environment, seed, rounds and value with another
    run id: its spec has changed since.
    """
    folder = Path(folder) / PLAN
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        label = json.dumps([run[name] for name in _LABEL])
        path = folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.json"
        content = json.dumps({name: run.get(name) for name in PLAN_SCHEMA}).encode()
        if not path.is_file() or path.read_bytes() != content:
            _replace(path, content)


def trim_plan(folder: str | Path, study: Study) -> None:
    """Remove from the folder's plan what a study asked for and does not any more; other studies' runs stay."""
    for path in (Path(folder) / PLAN).glob("*.json"):
        try:
            if study.has_dropped(json.loads(path.read_bytes())):
                path.unlink(missing_ok=True)
        except _UNREADABLE:
            continue


def remove_leftovers(folder: str | Path) -> None:
    """Remove files that commands left behind under temporary names when they were killed."""
    for path in (*Path(folder).glob(".*.tmp"), *(Path(folder) / PLAN).glob(".*.tmp")):
        try:
            if abs(time.time() - path.stat().st_mtime) > LEFTOVER_SECONDS:
                path.unlink()
        except OSError:
            continue


def _frame(rows: list[tuple[Any, ...]], schema: pl.Schema, folder: Path) -> pl.DataFrame:
    try:
        return pl.DataFrame(rows, schema=schema, orient="row")
    except _UNREADABLE as error:
        text = " ".join(str(error).split())[:200]
        raise SavedFileError(
            f"{folder} holds files that treebandit did not write ({text}); delete them"
        ) from error


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _files(folder: str | Path) -> list[Path]:
    folder = Path(folder)
    if not folder.is_dir():
        raise SavedFileError(f"no folder {folder}; give the folder that `treebandit run --into` wrote")
    return sorted(folder.glob("*.parquet"))


def _open(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a record, found to be what was written, and its header.

    Records of format 1, which version 0.1.0 wrote, have no checksum.
    """
    if not path.is_file():
        raise SavedFileError(f"no record {path}")
    try:
        content = path.read_bytes()
        start = content.find(_SEAL) + len(_SEAL)
        sealed = start >= len(_SEAL)
        if sealed:
            seal, unsealed = content[start : start + 64], content[:start] + _NO_SEAL + content[start + 64 :]
            if hashlib.sha256(unsealed).hexdigest().encode() != seal:
                raise ValueError("its checksum does not match")
        text = pl.read_parquet_metadata(io.BytesIO(content)).get("treebandit")
        if text is None:
            raise SavedFileError(f"{path} is a parquet file, but no record of treebandit; move it elsewhere")
        header: dict[str, Any] = json.loads(text)
        if header["format"] > FORMAT:
            raise SavedFileError(
                f"{path} has record format {header['format']}, this version reads up to {FORMAT}; "
                "run: pip install --upgrade treebandit"
            )
        if not sealed and header["format"] != 1:
            raise ValueError("it has no checksum")
        if (run_id := _run_row(header)[0]) != path.stem:
            raise ValueError(f"it is the record of run {run_id}")
    except _UNREADABLE as error:
        raise _damaged(path, error) from error
    return content, header


def _run_row(header: dict[str, Any]) -> tuple[Any, ...]:
    spec, provenance, totals = header["spec"], header["provenance"], header["totals"]
    return (
        str(spec["run_id"]),
        str(spec["study"]),
        str(spec["agent"]["name"]),
        str(spec["environment"]["name"]),
        int(spec["seed"]),
        int(totals["rounds"]),
        float(totals["regret"]),
        float(provenance["cpu_seconds"]),
        float(provenance["duration"]),
        str(provenance["started"]),
        *(float(totals[name]) for name in _PARTS),
        json.dumps(spec),
        json.dumps(provenance),
        str(provenance.get("note", "")),
        spec.get("varied"),
        value_text(spec.get("value")),
    )


def _damaged(path: Path, error: BaseException) -> DamagedRecordError:
    text = " ".join(str(error).split()) or type(error).__name__
    return DamagedRecordError(f"{path} cannot be read ({text}); run the study again, or delete the file")
