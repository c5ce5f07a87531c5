"""Reward models: what a row will pay, and how sure that is."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
