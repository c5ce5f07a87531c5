"""Contracts that anyone can run on a class of their own; a broken one ends in a CheckError that names it."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
