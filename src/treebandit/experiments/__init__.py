"""Agents meet environments: studies, runs and their records."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
