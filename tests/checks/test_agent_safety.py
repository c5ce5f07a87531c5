"""Contracts of agents on threads, interruptions and files can fail: broken on purpose, each class is caught."""

import threading
import time

import pytest
from checks.plain import UNSAVED, Plain

from treebandit.checks import check_agent
from treebandit.errors import CheckError


class Racy(Plain):
    def learn(self, chosen, rewards):
        with self.lock:
            total, count = self.learned
        time.sleep(1e-4)
        with self.lock:
            self.learned = total + rewards.sum(), count + len(rewards)


class OneThread(Plain):
    def learn(self, chosen, rewards):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("not from here")
        super().learn(chosen, rewards)


class HalfChanged(Plain):
    def add(self, rewards):
        self.learned = self.learned[0] + rewards.sum(), self.learned[1]
        self.learned = self.learned[0], self.learned[1] + len(rewards)


class HalfDecided(Plain):
    def score(self, candidates):
        scores = super().score(candidates)
        self.learned = self.learned[0] + 1.0, self.learned[1]
        self.learned = self.learned[0] - 1.0, self.learned[1]
        return scores


@pytest.mark.parametrize(
    ("agent", "seen"),
    [
        (Racy, "several threads, but 24 rows learned by 4 threads"),
        (OneThread, "several threads, but a call ended in .RuntimeError"),
        (HalfChanged, "interrupted in learn is as before or as after, but it is neither"),
        (HalfDecided, "interrupted in score is as before or as after, but it is neither"),
    ],
)
def test_half_and_lost_changes_are_caught(agent, seen):
    skip = ("bad_input",) if agent is Racy else ()
    with pytest.raises(CheckError, match=seen) as caught:
        check_agent(agent, skip=(*UNSAVED, *skip))
    assert str(caught.value).startswith(f"{agent.__name__}: ")


def test_a_saved_agent_needs_both_methods():
    class Unsaved(Plain):
        pass

    with pytest.raises(CheckError, match="it has no method save and no method load"):
        check_agent(Unsaved, skip=["description"])
