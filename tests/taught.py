"""Agents that have learned a small problem, and all that an agent keeps, to compare."""

import numpy as np
from every import EVERY

random = np.random.default_rng(0)
X = random.normal(size=(700, 4)).astype(np.float32)
Y = (X[:, 0] > 0) * 1.0
ARMS = random.integers(0, 3, 700)
OFFERS = ["coffee", "tea", "water"]


def fingerprint(agent):
    """All that an agent keeps, but for the time it took."""
    return repr_of(agent._whole_state())


def inputs_of(agent):
    """What an agent remembers of its inputs: `columns` as [categories, names], `labels` of arms."""
    return fingerprint(agent)["inputs"]


def repr_of(value):
    if isinstance(value, dict):
        return {key: repr_of(member) for key, member in value.items() if key != "rebuild_seconds"}
    if isinstance(value, list | tuple):
        return [repr_of(member) for member in value]
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def taught(name):
    agent = EVERY[name]()
    agent.learn(X[:300], Y[:300], arms=ARMS[:300])
    agent.choose(X[0], arms=[0, 1, 2])
    return agent


class Interrupted(BaseException):
    """Comes from a signal, as Ctrl-C does."""
