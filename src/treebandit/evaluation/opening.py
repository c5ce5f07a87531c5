"""A log by its path or name, whatever its format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args

from treebandit.errors import LogError, MissingLogError
from treebandit.evaluation.converters.frames import from_columns
from treebandit.evaluation.converters.open_bandit import read_open_bandit
from treebandit.evaluation.converters.vw_json import read_dsjson
from treebandit.evaluation.converters.vw_text import read_vw_text
from treebandit.evaluation.log import DecisionLog, Duplicates
from treebandit.evaluation.log_files import reading

LogFormat = Literal["treebandit", "open-bandit", "dsjson", "vw-text"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
#: The folder of real logs that are not shipped.
FOLDER = "TREEBANDIT_LOGS"
_SUFFIXES: dict[str, LogFormat] = {
    ".dsjson": "dsjson",
    ".vw": "vw-text",
    ".ldf": "vw-text",
    ".csv": "open-bandit",
}
_READERS = {"open-bandit": read_open_bandit, "vw-text": read_vw_text}
_HILLSTROM = ("recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie", "channel")
_REWARDS = ("visit", "conversion", "spend")


def open_log(
    path: str | os.PathLike[str], *, form: LogFormat | None = None, duplicates: Duplicates = "refuse"
) -> DecisionLog:
    """The log in a file or folder; read lazily where its format allows that.

    path: also `hillstrom`, `hillstrom:conversion`, `hillstrom:spend` and `zozo:bts/men` and its like, which are looked
        for in the folder that the environment variable TREEBANDIT_LOGS names.
    form: the format; None tells it from the name: .dsjson, .vw and .ldf (--cb_adf text), .csv (Open Bandit), else ours.
    """
    text = os.fspath(path)
    with reading(text):
        return _opened(text, form, duplicates)


def _opened(text: str, form: LogFormat | None, duplicates: Duplicates) -> DecisionLog:
    name, _, part = text.partition(":")
    if form is None and not os.path.exists(text) and name in ("hillstrom", "zozo"):
        return _hillstrom(part or "visit") if name == "hillstrom" else _zozo(part)
    stem = text.removesuffix(".gz").lower()
    found = form or next((each for end, each in _SUFFIXES.items() if stem.endswith(end)), "treebandit")
    if found == "dsjson":
        return read_dsjson(text, duplicates=duplicates)
    # The others have no ids of their own.
    return _READERS[found](text) if found in _READERS else DecisionLog.scan(text, duplicates=duplicates)


def _hillstrom(reward: str) -> DecisionLog:
    import polars as pl

    if reward not in _REWARDS:
        raise LogError(f"hillstrom has no reward {reward!r}; give one of {', '.join(_REWARDS)}")
    table = pl.read_csv(_found("hillstrom.csv.gz"), glob=False, infer_schema_length=None)
    return from_columns(
        table,
        arm="segment",
        reward=reward,
        context=_HILLSTROM,
        probability=1 / 3,
        policy="randomised",
        source=f"hillstrom:{reward}",
    )


def _zozo(part: str) -> DecisionLog:
    policy, _, campaign = part.partition("/")
    if policy not in ("random", "bts") or campaign not in ("all", "men", "women"):
        raise LogError(
            f"zozo has no log {part!r}; give zozo:random/all, zozo:bts/men, zozo:bts/women and their like"
        )
    return read_open_bandit(_found(f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv"))


def _found(name: str) -> Path:
    folder = os.environ.get(FOLDER)
    if not folder or not (Path(folder) / name).exists():
        where = f"{folder} has no {name}" if folder else f"{FOLDER} is not set"
        raise MissingLogError(
            f"{where}; set it to the folder that holds {name} (docs/evaluation.md says where it comes from)"
        )
    return Path(folder) / name
