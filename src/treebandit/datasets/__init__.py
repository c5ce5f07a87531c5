"""What environments are made of: the shipped data sets, and tables of your own."""

from importlib import import_module
from typing import Any

_HOMES = {
    "CATALOGUE": "catalogue",
    "DataSet": "catalogue",
    "LabelledTable": "labelled",
    "load": "catalogue",
    "read_labelled": "labelled",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
