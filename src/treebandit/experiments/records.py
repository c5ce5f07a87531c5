"""RunRecord on disk, one parquet file with its provenance per run; all of a folder as two frames.

A folder holds `<run id>.parquet` per finished run and `study.json`, the list of all runs asked for.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from treebandit.core import Floats
from treebandit.errors import SavedFileError
from treebandit.experiments.spec import value_text

FORMAT = 1
PLAN = "study.json"
STALE_LOCK_SECONDS = 20.0

SCHEMA = pl.Schema(
    {
        "round": pl.Int32(),
        "arms": pl.List(pl.Int32()),
        "rewards": pl.List(pl.Float32()),
        "regret": pl.Float64(),
        "choosing": pl.Float32(),
        "learning": pl.Float32(),
        "rebuilding": pl.Float32(),
    }
)

#: A column that some records have more: null but in the last round.
ESTIMATES = "estimates"

RUNS_SCHEMA = pl.Schema(
    {
        "run_id": pl.String(),
        "study": pl.String(),
        "agent": pl.String(),
        "environment": pl.String(),
        "seed": pl.Int64(),
        "rounds": pl.Int64(),
        "final_regret": pl.Float64(),
        "cpu_seconds": pl.Float64(),
        "duration": pl.Float64(),
        "started": pl.String(),
        "choosing": pl.Float64(),
        "learning": pl.Float64(),
        "rebuilding": pl.Float64(),
        "spec": pl.String(),
        "provenance": pl.String(),
        "note": pl.String(),
        "varied": pl.String(),
        "value": pl.String(),
        "planned": pl.Boolean(),
    }
)

ROUNDS_SCHEMA = pl.Schema(
    {
        "run_id": pl.String(),
        "round": pl.Int32(),
        "regret": pl.Float64(),
        "cumulative": pl.Float64(),
        "choosing": pl.Float32(),
        "learning": pl.Float32(),
        "rebuilding": pl.Float32(),
    }
)

PLAN_SCHEMA = pl.Schema(
    {
        "run_id": pl.String(),
        "study": pl.String(),
        "agent": pl.String(),
        "environment": pl.String(),
        "seed": pl.Int64(),
        "rounds": pl.Int64(),
        "varied": pl.String(),
        "value": pl.String(),
    }
)


@dataclass(frozen=True)
class RunRecord:
    """What one run left behind: its spec with its run id, where and when it ran, and one row per round.

    estimates: (arms,) what the agent believed each arm pays in the end, for environments that ask; else None.
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
    totals = frame.select(
        pl.col("regret").sum(), pl.col("choosing", "learning", "rebuilding").cast(pl.Float64).sum()
    ).row(0, named=True)
    header = {
        "format": FORMAT,
        "spec": record.spec,
        "provenance": record.provenance,
        "totals": {"rounds": frame.height, **totals},
    }
    if record.estimates is not None:
        last = [None] * (frame.height - 1) + [record.estimates.tolist()]
        frame = frame.with_columns(pl.Series(ESTIMATES, last, dtype=pl.List(pl.Float32)))
    temporary = path.with_name(f".{record.run_id}-{uuid.uuid4().hex}.tmp")
    try:
        frame.write_parquet(temporary, compression="zstd", metadata={"treebandit": json.dumps(header)})
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_record(path: str | Path) -> RunRecord:
    """Read one record in full."""
    header = _read_header(Path(path))
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(Path(path), error) from error
    estimates = frame[ESTIMATES][-1].to_numpy() if ESTIMATES in frame.columns else None
    return RunRecord(header["spec"], header["provenance"], frame.select(list(SCHEMA)), estimates)


def read_provenance(path: str | Path) -> dict[str, Any]:
    """Where and when a run was played, without reading its rounds."""
    provenance: dict[str, Any] = _read_header(Path(path))["provenance"]
    return provenance


def load_runs(folder: str | Path) -> pl.DataFrame:
    """One row per finished run of a folder, read from the files' metadata alone.

    `planned` is false for a run that no study of the folder asks for any more, because its spec has changed.
    """
    plan = _read_plan(Path(folder))
    wanted = {run["run_id"] for run in plan}
    rows = [_run_row(_read_header(path), planned=path.stem in wanted or not plan) for path in _files(folder)]
    return pl.DataFrame(rows, schema=RUNS_SCHEMA, orient="row").sort(
        "study", "environment", "agent", "varied", "value", "seed", maintain_order=True
    )


def load_records(folder: str | Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All records of a folder: one row per finished run, and one row per round of each of them."""
    runs = load_runs(folder)
    columns = ["round", "regret", "choosing", "learning", "rebuilding"]
    frames = []
    for run_id in runs["run_id"]:
        path = record_path(folder, run_id)
        try:
            frame = pl.read_parquet(path, columns=columns)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _damaged(path, error) from error
        frames.append(
            frame.select(
                pl.lit(run_id).alias("run_id"),
                "round",
                "regret",
                pl.col("regret").cum_sum().alias("cumulative"),
                "choosing",
                "learning",
                "rebuilding",
            )
        )
    return runs, pl.concat([pl.DataFrame(schema=ROUNDS_SCHEMA), *frames])


def load_plan(folder: str | Path) -> pl.DataFrame:
    """All runs that were asked for in a folder, finished or not: one row per study and run."""
    rows = [tuple(run[name] for name in PLAN_SCHEMA) for run in _read_plan(Path(folder))]
    return pl.DataFrame(rows, schema=PLAN_SCHEMA, orient="row")


def merge_plan(folder: str | Path, runs: Iterable[dict[str, Any]]) -> None:
    """Add runs (rows of `load_plan`) to the folder's plan.

    A run takes the place of one of the same study, agent, environment, seed, rounds and value with another
    run id: its spec has changed since.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / ".study.lock"):
        merged = {_label(run): run for run in _read_plan(folder)}
        merged.update({_label(run): {name: run[name] for name in PLAN_SCHEMA} for run in runs})
        temporary = folder / f".study-{uuid.uuid4().hex}.tmp"
        temporary.write_text(
            json.dumps({"format": FORMAT, "runs": list(merged.values())}, indent=1), encoding="utf-8"
        )
        os.replace(temporary, folder / PLAN)


def _label(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in PLAN_SCHEMA if name != "run_id")


def _files(folder: str | Path) -> list[Path]:
    folder = Path(folder)
    if not folder.is_dir():
        raise SavedFileError(f"no folder {folder}; give the folder that `treebandit run --into` wrote")
    return sorted(folder.glob("*.parquet"))


def _read_plan(folder: Path) -> list[dict[str, Any]]:
    path = folder / PLAN
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        _check_format(path, content["format"])
        runs: list[dict[str, Any]] = content["runs"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from error
    return runs


def _read_header(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise SavedFileError(f"no record {path}")
    try:
        text = pl.read_parquet_metadata(path).get("treebandit")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(path, error) from error
    if text is None:
        raise SavedFileError(f"{path} is a parquet file, but no record of treebandit; move it elsewhere")
    header: dict[str, Any] = json.loads(text)
    _check_format(path, header["format"])
    return header


def _run_row(header: dict[str, Any], *, planned: bool) -> tuple[Any, ...]:
    spec, provenance, totals = header["spec"], header["provenance"], header["totals"]
    return (
        spec["run_id"],
        spec["study"],
        spec["agent"]["name"],
        spec["environment"]["name"],
        spec["seed"],
        totals["rounds"],
        totals["regret"],
        provenance["cpu_seconds"],
        provenance["duration"],
        provenance["started"],
        totals["choosing"],
        totals["learning"],
        totals["rebuilding"],
        json.dumps(spec),
        json.dumps(provenance),
        provenance.get("note", ""),
        spec.get("varied"),
        value_text(spec.get("value")),
        planned,
    )


def _check_format(path: Path, found: int) -> None:
    if found > FORMAT:
        raise SavedFileError(
            f"{path} has record format {found}, this version reads up to {FORMAT}; "
            "run: pip install --upgrade treebandit"
        )


def _damaged(path: Path, error: Exception) -> SavedFileError:
    return SavedFileError(f"{path} cannot be read ({error}); delete it and run the study again")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file; one that a killed process left behind is taken over after a while."""
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            try:
                stale = time.time() - path.stat().st_mtime > STALE_LOCK_SECONDS
            except FileNotFoundError:
                continue
            if stale:
                path.unlink(missing_ok=True)
            else:
                time.sleep(0.02)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
