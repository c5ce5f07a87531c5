from treebandit.evaluation.log import DecisionLog as DecisionLog
