from treebandit.policies.floor import ScoreDraws as ScoreDraws
from treebandit.policies.policy import Greedy as Greedy
from treebandit.policies.policy import Policy as Policy
from treebandit.policies.thompson import Thompson as Thompson
from treebandit.policies.ucb import UCB as UCB
