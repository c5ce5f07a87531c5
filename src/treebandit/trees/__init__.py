"""Tree ensembles as flat leaves, and the tree libraries that grow them."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
