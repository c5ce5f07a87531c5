"""The learner's state as a fold over the log: an agent, and the place that it has read up to.

Whatever else a step needs (decisions, earlier rewards, ends of waits) is read from the log, so that the agent after a
place depends on the log alone, not on when or in how large steps it was read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from treebandit.errors import SavedFileError, StoreError, TreebanditError
from treebandit.service import models
from treebandit.service.config import BanditConfig, build_agent
from treebandit.service.entries import Entry, decision_body, reward_body
from treebandit.service.features import candidate_rows
from treebandit.service.models import Closed, RolledBack, Uploaded
from treebandit.service.outcomes import About, aggregated, decision_in, due_of, fits, is_first, rewards_of
from treebandit.service.saved_agents import loaded, saved_bytes
from treebandit.service.store import Store

_log = logging.getLogger("treebandit.learner")

_BATCH = 500
#: Members of a Fold that a checkpoint keeps.
_NOTED = ("t", "offset", "rows", "skipped", "offered", "changed")
_LAST = 1 << 62


class _State(NamedTuple):
    """What a roll-back goes back to. agent: as `saved_bytes` has it."""

    agent: bytes
    offset: int
    rows: int
    offered: bool


class Fold:
    """An agent and how far it has read.

    changed: the place of the last entry that changed the agent, or was skipped. t: decisions logged so far. offset:
    what an uploaded agent's clock is ahead of t. rows: learned so far. skipped: rewards that the agent could not take,
    such as those of a feature whose type had changed.
    """

    def __init__(self, store: Store, bandit: int, config: BanditConfig) -> None:
        self.store, self.bandit, self.config = store, bandit, config
        self.agent = build_agent(config)
        self.place = self.t = self.offset = self.rows = self.skipped = self.changed = 0
        #: Whether the arms of the first decision were offered to the agent.
        self.offered = False
        #: The place of the checkpoint that this fold began with.
        self.taken_up = 0
        #: Erasures up to this place were in the log before this fold read it: what they erased was never learned here.
        self.erased = 0
        #: Places that later entries roll back to, in their order; and the states there, once they were passed.
        self._targets: list[int] = []
        self._passed: dict[int, _State] = {}
        #: How far the log is read.
        self._through = _LAST

    @classmethod
    def at(
        cls,
        store: Store,
        bandit: int,
        place: int,
        *,
        from_checkpoint: bool = True,
        passed: dict[int, _State] | None = None,
        until: int | None = None,
    ) -> Fold:
        """The state after the entry at `place`: from the newest checkpoint before it, or from the beginning.

        passed: states at places that entries roll back to, known from another fold of the same log. Each is made once,
        so that the cost is at most that of one reading of the log per such place. until: how far the log is read
        in the end; an uploaded model that cannot be read may be one that another takes the place of until then.
        """
        first = store.entries(bandit, 0, 1, kind="config")
        if not first:
            raise StoreError("the bandit has no settings in its log")
        fold = cls(store, bandit, msgspec.json.decode(first[0].body, type=BanditConfig))
        erased = store.last_entry(bandit, ["erasure"], _LAST)
        fold.erased = 0 if erased is None else erased.place
        if from_checkpoint:
            # A checkpoint from before an erasure still holds the rows that were erased.
            found = models.newest(store, bandit, "checkpoint", through=place, least=fold.erased)
            if found is not None:
                fold._take_up(found)
        fold._passed = {} if passed is None else passed
        fold._through = place if until is None else until
        fold._targets = sorted(
            {target for target in _rolled_back_to(store, bandit, place) if target >= fold.place}
            - fold._passed.keys()
        )
        while fold.advance(through=place):
            pass
        fold._passed, fold._through = {}, _LAST
        return fold

    def note(self) -> dict[str, int]:
        """What a checkpoint keeps beside the agent."""
        return {name: getattr(self, name) for name in _NOTED}

    def _take_up(self, found: models.Model) -> None:
        try:
            self.agent = loaded(found.data)
        except SavedFileError:  # of another version of treebandit: the log has it all
            return
        self.place = self.taken_up = found.place
        vars(self).update({name: found.note[name] for name in _NOTED})
        config = self.store.last_entry(self.bandit, ["config"], found.place)
        if config is not None:
            self.config = msgspec.json.decode(config.body, type=BanditConfig)

    def advance(self, *, through: int | None = None, limit: int = _BATCH) -> int:
        """Read on; how many entries there were."""
        entries = self.store.entries(self.bandit, self.place, limit)
        if through is not None:
            entries = [entry for entry in entries if entry.place <= through]
        about = self.store.about(
            self.bandit, [entry.decision for entry in entries if entry.decision is not None]
        )
        read = 0
        for entry in entries:
            while self._targets and self._targets[0] < entry.place:
                self._keep_state(self._targets.pop(0), self)
            before = self.rows, self.skipped
            _STEPS[entry.kind](self, entry, about)
            self.place, read = entry.place, read + 1
            if (self.rows, self.skipped) != before or entry.kind in ("upload", "rollback", "erasure"):
                self.changed = entry.place
            if entry.kind == "erasure":
                break  # what follows was read before it, and may hold what is erased by now
        if through is None:
            self._passed.clear()
        return read

    def _config(self, entry: Entry, about: About) -> None:
        self.config = msgspec.json.decode(entry.body, type=BanditConfig)

    def _decision(self, entry: Entry, about: About) -> None:
        self.t = entry.t or self.t
        if not self.offered and entry.body:
            self._register(entry)
        # A reward may have come before its decision.
        if entry.body:
            known = about.get(str(entry.decision), ())
            early = [each for each in known if each.kind == "reward" and each.place < entry.place]
            self.skipped += sum(not fits(each, entry) for each in early if each.body)
        if entry.due is not None:
            self._learn_first(entry, about, before=entry.place)

    def _register(self, entry: Entry) -> None:
        """Offer the arms of the first decision, as the agent's random start is for them."""
        body = decision_body(entry.body)
        rows, arms = candidate_rows(body)
        try:
            self.agent.choose(rows, arms)
        except TreebanditError:
            return
        self.offered = True

    def _activation(self, entry: Entry, about: About) -> None:
        decision = decision_in(about, entry)
        if decision is not None:
            self._learn_first(decision, about, before=entry.place)

    def _reward(self, entry: Entry, about: About) -> None:
        decision = decision_in(about, entry)
        if decision is None or not decision.body:
            return
        if not fits(entry, decision):
            self.skipped += 1
        elif is_first(decision):
            due = due_of(decision, about, before=entry.place)
            on_time = due is not None and entry.time < due
            if on_time and not any(rewards_of(decision, about, before=entry.place, due=due)):
                self._learn(decision, [entry])

    def _learn_first(self, decision: Entry, about: About, *, before: int) -> None:
        if is_first(decision):
            self._learn(decision, list(islice(rewards_of(decision, about, before=before, due=None), 1)))

    def _close(self, entry: Entry, about: About) -> None:
        closed = msgspec.json.decode(entry.body, type=Closed)
        last = (closed.after, _LAST)
        while ended := self.store.due(self.bandit, closed.after, closed.until, last, _BATCH):
            last = (ended[-1].due or 0, ended[-1].place)
            ended = [each for each in ended if each.place < entry.place and each.decision is not None]
            about = self.store.about(self.bandit, [str(each.decision) for each in ended])
            for each in ended:
                decision = decision_in(about, each)
                if decision is not None:
                    self._ended(decision, list(rewards_of(decision, about, before=entry.place, due=each.due)))

    def _ended(self, decision: Entry, rewards: list[Entry]) -> None:
        if not rewards:
            self._learn_value(decision, self.config.reward_default)
        elif not is_first(decision):
            self._learn(decision, rewards)

    def _learn(self, decision: Entry, rewards: Sequence[Entry]) -> None:
        values = [reward_body(each.body).value for each in rewards]
        if values:
            self._learn_value(decision, aggregated(values, decision_body(decision.body).aggregation))

    def _learn_value(self, decision: Entry, value: float | list[float] | None) -> None:
        if value is None or not decision.body or not self.config.learning:
            return
        body = decision_body(decision.body)
        if body.mode == "log-only":
            return
        chosen = body.chosen
        rows, arms = candidate_rows(body, chosen)
        rewards = value if isinstance(value, list) else [value] * len(chosen)
        self.agent.clock = self.t + self.offset
        try:
            self.agent.learn(rows, rewards, arms=arms, new_arms=True)
        except TreebanditError:
            self.skipped += 1
        else:
            self.rows += len(chosen)

    def _upload(self, entry: Entry, about: About) -> None:
        if not entry.body:  # erased: what was learned before it counts
            return
        number = msgspec.json.decode(entry.body, type=Uploaded).model
        found = models.model(self.store, self.bandit, "upload", number)
        try:
            if found is None:
                raise SavedFileError("it is missing from the store")
            self.agent = loaded(found.data)
        except SavedFileError as error:
            self._pass_over(entry, error)
            return
        self.offset = max(self.agent.clock - self.t, 0)
        self.offered = True

    def _pass_over(self, entry: Entry, error: SavedFileError) -> None:
        """Go on without an uploaded model where a later one takes its place; no state between the two can be made."""
        later = self.store.last_entry(self.bandit, ["upload"], self._through)
        if later is None or later.place <= entry.place or not later.body:
            raise SavedFileError(
                f"the model uploaded at entry {entry.place} cannot be read: {error}; upload it again as this version "
                'of treebandit saves it, or erase uploaded models ("uploads": true)'
            ) from error
        self._targets = [each for each in self._targets if each >= later.place]
        _log.warning(
            "the model uploaded at entry %d of bandit %d is passed over, as it cannot be read: %s",
            entry.place,
            self.bandit,
            error,
        )

    def _rollback(self, entry: Entry, about: About) -> None:
        what = msgspec.json.decode(entry.body, type=RolledBack)
        try:
            self._go_back(what.learned)
        except SavedFileError as error:  # of an uploaded model that it rests on
            _log.warning(
                "the roll-back to version %d, entry %d of bandit %d, is skipped, as its model cannot be made: %s",
                what.version,
                entry.place,
                self.bandit,
                error,
            )

    def _go_back(self, target: int) -> None:
        """Take up the state at a place: one that was kept when it was passed, or one made from the log."""
        then = self._passed.get(target)
        if then is not None:
            with suppress(SavedFileError):
                self.agent = loaded(then.agent)
                self.offset, self.rows, self.offered = then.offset, then.rows, then.offered
                return
        before = Fold.at(self.store, self.bandit, target, passed=self._passed)
        self._keep_state(target, before)
        self.agent = before.agent
        self.offset, self.rows, self.offered = before.offset, before.rows, before.offered

    def _keep_state(self, target: int, fold: Fold) -> None:
        """Keep a state for entries that roll back to it; one that cannot be saved is made from the log for each."""
        with suppress(SavedFileError):
            data = saved_bytes(fold.agent)
            self._passed[target] = _State(data, fold.offset, fold.rows, fold.offered)

    def _erasure(self, entry: Entry, about: About) -> None:
        if entry.place <= self.erased:
            return
        # What was erased is in the agent: make it anew from the log, where it is no more. The new one has read nothing
        # of what later erasures, up to the last of now, have taken from the log.
        anew = Fold.at(self.store, self.bandit, entry.place - 1, from_checkpoint=False, until=self._through)
        self.agent, self.offset, self.rows = anew.agent, anew.offset, anew.rows
        self.skipped, self.offered, self.erased = anew.skipped, anew.offered, anew.erased
        self._passed.clear()

    def _nothing(self, entry: Entry, about: About) -> None:
        """Tells others; changes nothing here."""


_STEPS: dict[str, Callable[[Fold, Entry, About], None]] = {
    "config": Fold._config,
    "decision": Fold._decision,
    "activation": Fold._activation,
    "reward": Fold._reward,
    "close": Fold._close,
    "upload": Fold._upload,
    "rollback": Fold._rollback,
    "erasure": Fold._erasure,
    "publish": Fold._nothing,
    "event": Fold._nothing,
}


def _rolled_back_to(store: Store, bandit: int, through: int) -> list[int]:
    """The places that entries up to `through` roll back to."""
    found: list[int] = []
    after = 0
    while entries := store.entries(bandit, after, _BATCH, kind="rollback"):
        after = entries[-1].place
        found += [
            msgspec.json.decode(each.body, type=RolledBack).learned
            for each in entries
            if each.place <= through
        ]
    return found
