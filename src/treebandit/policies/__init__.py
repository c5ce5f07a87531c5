"""Policies: how an estimate becomes a choice, and with which probability."""

from treebandit.policies.policy import Greedy, Policy
from treebandit.policies.thompson import Thompson
from treebandit.policies.ucb import UCB

__all__ = ["UCB", "Greedy", "Policy", "Thompson"]
