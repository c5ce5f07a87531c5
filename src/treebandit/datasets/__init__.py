"""What environments are made of: the shipped data sets, and tables of your own."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
