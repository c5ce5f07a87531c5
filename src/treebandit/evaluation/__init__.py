"""Decision logs (read, write, convert) and off-policy evaluation of other policies from them."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
