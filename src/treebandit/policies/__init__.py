"""Policies: how an estimate becomes a choice, and with which probability."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
