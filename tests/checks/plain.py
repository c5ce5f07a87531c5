"""A sound agent without a base class."""

import threading

import numpy as np

from treebandit.errors import InputError


class Plain:
    """Neither a dataclass nor saved, but it decides and learns, whole and one caller at a time."""

    def __init__(self):
        self.lock, self.learned = threading.Lock(), (0.0, 0)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, members):
        vars(self).update(members, lock=threading.Lock())

    def score(self, candidates):
        if not len(candidates) or candidates.contexts.shape[1] != 4:
            raise InputError("4 columns")
        if candidates.arms is not None and len(candidates.arms) != len(candidates):
            raise InputError("one arm per row")
        total, count = self.learned
        return total / max(count, 1) * np.nan_to_num(candidates.contexts[:, 0]).astype(float)

    def learn(self, chosen, rewards):
        if rewards.dtype.kind != "f" or rewards.shape != (len(chosen),) or not np.isfinite(rewards).all():
            raise InputError("rewards")
        if chosen.contexts.shape[1] != 4 or np.isinf(chosen.contexts).any():
            raise InputError("contexts")
        with self.lock:
            self.add(rewards)

    def add(self, rewards):
        total, count = self.learned
        self.learned = total + rewards.sum(), count + len(rewards)


UNSAVED = ("description", "saving")
