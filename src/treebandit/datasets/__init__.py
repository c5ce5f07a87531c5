"""What environments are made of: the shipped data sets, and tables of your own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treebandit.datasets.catalogue import CATALOGUE, DataSet, load
    from treebandit.datasets.labelled import LabelledTable, read_labelled

_HOMES = {
    "CATALOGUE": "catalogue",
    "DataSet": "catalogue",
    "LabelledTable": "labelled",
    "load": "catalogue",
    "read_labelled": "labelled",
}

__all__ = [
    "CATALOGUE",
    "DataSet",
    "LabelledTable",
    "load",
    "read_labelled",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"treebandit.datasets.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
