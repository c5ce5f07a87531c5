"""Agents meet environments: studies, runs and their records."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treebandit.experiments.events import Event
    from treebandit.experiments.records import (
        RunRecord,
        load_plan,
        load_records,
        load_runs,
        read_record,
        write_record,
    )
    from treebandit.experiments.run import play
    from treebandit.experiments.spec import RunSpec, Study, load_study, shipped_studies
    from treebandit.experiments.study import execute

_HOMES = {
    "Event": "events",
    "RunRecord": "records",
    "RunSpec": "spec",
    "Study": "spec",
    "execute": "study",
    "load_plan": "records",
    "load_records": "records",
    "load_runs": "records",
    "load_study": "spec",
    "play": "run",
    "read_record": "records",
    "shipped_studies": "spec",
    "write_record": "records",
}

__all__ = [
    "Event",
    "RunRecord",
    "RunSpec",
    "Study",
    "execute",
    "load_plan",
    "load_records",
    "load_runs",
    "load_study",
    "play",
    "read_record",
    "shipped_studies",
    "write_record",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"treebandit.experiments.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
