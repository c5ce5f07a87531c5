"""One small agent of every kind, for promises that all of them keep."""

from treebandit import (
    TETS,
    TEUCB,
    UCB1,
    Bandit,
    BanditForest,
    BartTS,
    EnsembleSampling,
    EpsilonGreedy,
    HistogramForest,
    LightGBMTrees,
    LinTS,
    LinUCB,
    NeuralTS,
    NeuralUCB,
    RandomForestTrees,
    TreeBootstrap,
    UCB1Normal,
    UCB1Tuned,
    XGBoostTrees,
)

SMALL = {"n_trees": 10, "max_depth": 4}

EVERY = {
    "Bandit": lambda seed=0: Bandit(HistogramForest(**SMALL, bootstrap=False, subsample=0.8), seed=seed),
    "Bandit-auto": lambda seed=0: Bandit(
        HistogramForest(**SMALL, bootstrap=False, subsample=0.8), memory="auto", seed=seed
    ),
    "TEUCB-XGBoost": lambda seed=0: TEUCB(XGBoostTrees(**SMALL), random_rounds=2, seed=seed),
    "TETS-RF": lambda seed=0: TETS(RandomForestTrees(**SMALL), random_rounds=2, seed=seed),
    "TETS-LightGBM": lambda seed=0: TETS(LightGBMTrees(**SMALL), random_rounds=2, seed=seed),
    "TETS-leaves": lambda seed=0: TETS(HistogramForest(**SMALL), sampling="leaves", seed=seed),
    "LinUCB": lambda seed=0: LinUCB(seed=seed),
    "LinUCB-newest": lambda seed=0: LinUCB(memory=100, seed=seed),
    "LinUCB-shared": lambda seed=0: LinUCB(shared=True, seed=seed),
    "LinTS": lambda seed=0: LinTS(seed=seed),
    "LinTS-shared": lambda seed=0: LinTS(shared=True, seed=seed),
    "EnsembleSampling": lambda seed=0: EnsembleSampling(members=5, seed=seed),
    "BartTS": lambda seed=0: BartTS(n_trees=5, draws=3, burn_in=2, random_rounds=2, seed=seed),
    "NeuralUCB": lambda seed=0: NeuralUCB(hidden=(8,), epochs=2, seed=seed),
    "NeuralTS": lambda seed=0: NeuralTS(hidden=(8,), epochs=2, seed=seed),
    "TreeBootstrap": lambda seed=0: TreeBootstrap(random_rounds=2, seed=seed),
    "TreeBootstrap-replicates": lambda seed=0: TreeBootstrap(
        HistogramForest(**SMALL), mode="replicates", replicates=2, random_rounds=2, seed=seed
    ),
    "UCB1": lambda seed=0: UCB1(seed=seed),
    "UCB1-Tuned": lambda seed=0: UCB1Tuned(seed=seed),
    "UCB1-Normal": lambda seed=0: UCB1Normal(seed=seed),
    "EpsilonGreedy": lambda seed=0: EpsilonGreedy(seed=seed),
    "BanditForest": lambda seed=0: BanditForest(n_trees=10, bin_rows=30, seed=seed),
}
