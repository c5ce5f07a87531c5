"""The agents: TEUCB, TETS, the default agent and the baselines of the paper."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
