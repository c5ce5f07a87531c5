"""Agents meet environments: studies, runs and their records."""

from importlib import import_module
from typing import Any

_HOMES = {
    "RunRecord": "records",
    "load_plan": "records",
    "load_records": "records",
    "load_runs": "records",
    "read_record": "records",
    "write_record": "records",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
