from treebandit.checks.agents import check_agent as check_agent
from treebandit.checks.environments import check_environment as check_environment
from treebandit.checks.tree_learners import check_tree_learner as check_tree_learner
