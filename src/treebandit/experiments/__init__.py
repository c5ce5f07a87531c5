"""Agents meet environments: studies, runs and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
