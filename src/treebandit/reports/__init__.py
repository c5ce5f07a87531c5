"""The table, the figures and the page of a folder of records."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
