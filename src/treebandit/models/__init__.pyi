from treebandit.models.model import RewardModel as RewardModel
