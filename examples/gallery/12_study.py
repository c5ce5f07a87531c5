"""
A study from Python
===================

A study is a grid of agents, environments and seeds. On the command line ``treebandit run`` plays one and
``treebandit report`` shows it; the same from Python takes a few lines, and its records are polars frames.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl

from treebandit.experiments import load_records, load_study, play, write_record

STUDY = """
title = "Depth of the forest"
rounds = 600
seeds = 3
environments = [{ name = "known", class = "Synthetic", problem = "interactions", arms = 3 }]

[[agents]]
name = "TETS-RF"
class = "TETS"
trees = { class = "HistogramForest", n_trees = 50 }

[vary]
parameter = "agent.trees.max_depth"
values = [1, 2, 4, 8]
"""

# %%
# Every run is one file in the folder. ``treebandit run`` does the same with several processes, and goes on where
# it was stopped.

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "depth.toml"
    file.write_text(STUDY)
    for spec in load_study(file).runs():
        write_record(play(spec), Path(folder) / "results")
    runs, rounds = load_records(Path(folder) / "results")

means = (
    rounds.join(runs.select("run_id", "value"), on="run_id")
    .group_by("value", "round")
    .agg(pl.col("cumulative").mean())
    .sort("round")
)
figure, axis = plt.subplots()
for depth in ("1", "2", "4", "8"):
    part = means.filter(pl.col("value") == depth)
    axis.plot(part["round"], part["cumulative"], label=f"depth {depth}")
axis.set(title="TETS with a forest, mean of three seeds", xlabel="round", ylabel="regret so far")
axis.legend()
plt.show()
