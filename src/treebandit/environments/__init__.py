"""Environments: tables, roads and synthetic problems as bandits."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
