"""Contextual bandits with tree ensembles: one ensemble scores all options, its leaves tell how sure it is."""

from treebandit.registry import exports

__version__ = "0.2.0"

__all__, __getattr__, __dir__ = exports(__name__)
