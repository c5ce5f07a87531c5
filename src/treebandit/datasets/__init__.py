"""What environments are made of: the shipped data sets, and tables of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
