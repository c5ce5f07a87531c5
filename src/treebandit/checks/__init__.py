"""Contracts that anyone can run on a class of their own; a broken one ends in a CheckError that names it."""

from treebandit.checks.agents import check_agent
from treebandit.checks.environments import check_environment
from treebandit.checks.tree_learners import check_tree_learner

__all__ = ["check_agent", "check_environment", "check_tree_learner"]
