"""What is asked about the log of the generated shop: a policy by age, and a reward model that is quick to fit."""

from treebandit.trees import HistogramForest

QUICK = HistogramForest(n_trees=10, max_depth=5, min_samples_leaf=20)


def by_age(context, arms, own):
    return [0, 1, 0] if context["age"] >= 50 else [0, 0, 1]
