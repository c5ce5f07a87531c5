"""Studies: agents play environments; runs, their records and provenance."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
