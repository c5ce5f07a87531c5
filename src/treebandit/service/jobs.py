"""Off-policy evaluations as jobs: a process of its own reads the log, evaluates, and writes the result."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from treebandit.errors import InputError, TreebanditError
from treebandit.evaluation.estimators import ESTIMATORS, check_estimators
from treebandit.service import export, models, queries
from treebandit.service.bodies import END
from treebandit.service.config import LARGEST_REWARD
from treebandit.service.database import Connection
from treebandit.service.ids import IDS
from treebandit.service.queries import Window
from treebandit.service.refusals import Refused
from treebandit.service.saved_agents import loaded
from treebandit.service.store import BanditRow, Store
from treebandit.service.threads import in_store
from treebandit.service.times import iso, microseconds

_CODE = "from treebandit.service.jobs import main; main()"
_PAGE = 10_000
_PREFIX = "treebandit-job-"
#: Seconds after which a folder without a lock is nobody's: one that was just made may not have it yet.
_YOUNG = 60.0
_LONGEST_SECONDS = 3600.0
#: For the store to take a job.
_STORE_SECONDS = 10.0
#: A job whose process died with its machine is not running any more.
_LOST_AFTER = round(2 * _LONGEST_SECONDS * 1e6)
_POLICY = f"^(uniform|logging|agent|arm:[^\\x00-\\x1f\\x7f]{{1,512}}|version:[0-9]{{1,18}}){END}"
#: Described in full here, and checked by `Jobs.check`, which says what to give.
_PolicyName = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": _POLICY})]
_EstimatorName = Annotated[str, msgspec.Meta(max_length=100, extra_json_schema={"enum": list(ESTIMATORS)})]


class EvaluationRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which policies to evaluate on the log.

    policies: `uniform`, `logging` (the one that decided), `arm:NAME`, `agent` (the newest model), `version:N`. Only
    decisions count whose reward is final; for a model, those that came after what it has learned.
    estimators, interval, level, missing_reward: as in `treebandit.evaluation`. since, until: decisions of this time.
    """

    policies: Annotated[list[_PolicyName], msgspec.Meta(min_length=1, max_length=20)]
    estimators: Annotated[list[_EstimatorName], msgspec.Meta(max_length=len(ESTIMATORS))] = []
    interval: Literal["normal", "bootstrap", "time-uniform"] = "normal"
    level: Annotated[float, msgspec.Meta(gt=0.0, le=0.9999)] = 0.95
    missing_reward: Annotated[float, msgspec.Meta(ge=-LARGEST_REWARD, le=LARGEST_REWARD)] | None = None
    since: str | None = None
    until: str | None = None


class JobAnswer(msgspec.Struct, omit_defaults=True):
    """An evaluation: running, done with its result, or failed with the reason."""

    id: str
    state: Literal["running", "done", "failed", "lost"]
    created: str
    request: dict[str, Any]
    finished: str | None = None
    result: dict[str, Any] | None = None
    reason: str | None = None


class JobsAnswer(msgspec.Struct):
    """The newest evaluations first, without their results."""

    evaluations: list[JobAnswer]


class Jobs:
    """Starts evaluations of one process, one after the other; at most `most` run or wait."""

    def __init__(self, store: Store, most: int) -> None:
        self._store = store
        self._most = most
        self._taken = 0
        self._turn = asyncio.Semaphore(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, asked: EvaluationRequest) -> None:
        """Raise where a request cannot be run, before it is taken."""
        for policy in asked.policies:
            if not re.match(_POLICY, policy):
                raise InputError(
                    f"the policy {policy[:60]!r}; give uniform, logging, agent, arm:NAME or version:N"
                )
        check_estimators(asked.estimators)
        for moment in (asked.since, asked.until):
            if moment is not None:
                microseconds(moment)

    def check_models(self, row: BanditRow, asked: EvaluationRequest) -> None:
        """Raise where the model of a policy is not there."""
        kept = models.kept(self._store, row.id)
        for policy in asked.policies:
            if _is_model(policy) and (not kept if policy == "agent" else _version(policy) not in kept):
                raise _no_model(policy)

    async def start(self, row: BanditRow, asked: EvaluationRequest) -> str:
        """Take a request; its id. Refuse it where too many wait."""
        if self._taken >= self._most:
            raise Refused(
                429,
                "TooManyEvaluations",
                f"{self._taken} evaluations run or wait already; ask again when one has ended",
                {"Retry-After": "10"},
            )
        number = IDS.new()

        def work(connection: Connection) -> None:
            connection.rows(
                "INSERT INTO jobs (id, bandit, state, created, request) VALUES (?, ?, 'running', ?, ?)",
                (number, row.id, self._store.clock.now(connection.wall()), msgspec.json.encode(asked)),
            )

        self._taken += 1
        try:
            await in_store(_STORE_SECONDS, self._store.write, work)
        except BaseException:
            self._taken -= 1
            raise
        task = asyncio.create_task(self._run(number, row))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return number

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._taken -= 1

    async def stop(self) -> None:
        """End what runs or waits for its turn; it counts as failed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, number: str, row: BanditRow) -> None:
        reason: str | None = "the service was stopped"
        with contextlib.suppress(asyncio.CancelledError):
            async with self._turn:
                try:
                    reason = await self._ended(number, row)
                except OSError as error:  # no room, no memory, or too many open files
                    reason = f"it could not run: {error}"
        if reason is not None:
            await in_store(_STORE_SECONDS, finish, self._store, number, "failed", {"reason": reason})

    async def _ended(self, number: str, row: BanditRow) -> str | None:
        """Run a job's process to its end; why it has failed, if it did not say so itself."""
        with scratch_folder() as (folder, lock):
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _CODE,
                stdin=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(lock,),
            )
            given = json.dumps([self._store.secret_url, row.name, number, str(folder)]).encode()
            try:
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await child.communicate(given)
                return None if child.returncode == 0 else f"its process ended with {child.returncode}"
            except TimeoutError:
                return f"it took longer than {_LONGEST_SECONDS:g} seconds"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()  # it writes to the folder


@contextlib.contextmanager
def scratch_folder() -> Iterator[tuple[Path, int]]:
    """A folder for the parts of a log, gone at the end; and its lock, held while this or a child's process lives."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, lock
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep() -> None:
    """Remove the folders of processes that were killed; they hold contexts of decisions."""
    found: list[Path] = []
    with contextlib.suppress(OSError):  # where no folder can be written to, there is nothing to remove
        found += Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")
    for folder in found:
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < _YOUNG:
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def finish(store: Store, number: str, state: str, result: dict[str, Any]) -> None:
    """Write how a job ended, once."""
    # json, as estimates are numbers of numpy, which msgspec does not take.
    text = json.dumps(result, allow_nan=False).encode()
    store.write(
        lambda connection: connection.rows(
            "UPDATE jobs SET state = ?, finished = ?, result = ? WHERE id = ? AND state = 'running'",
            (state, store.clock.now(connection.wall()), text, number),
        )
    )


def find(store: Store, row: BanditRow, number: str | None = None) -> list[JobAnswer]:
    """One job with its result, or the newest hundred without."""
    only, values = ("", (row.id,)) if number is None else (" AND id = ?", (row.id, number))
    rows = store.rows(
        f"SELECT id, state, created, finished, request, result FROM jobs WHERE bandit = ?{only} "
        "ORDER BY created DESC LIMIT 100",
        values,
    )
    with store.session() as connection:
        now = store.clock.now(connection.wall(), row.time)
    return [_answer(each, now, whole=number is not None) for each in rows]


def _answer(row: tuple[Any, ...], now: int, *, whole: bool) -> JobAnswer:
    number, state, created, finished, request, data = row
    if state == "running" and now - created > _LOST_AFTER:
        state = "lost"
    reply = JobAnswer(number, state, iso(created), msgspec.json.decode(bytes(request)))
    if finished is not None:
        reply.finished = iso(finished)
        result = msgspec.json.decode(bytes(data))
        reply.reason = result.get("reason") if state == "failed" else None
        reply.result = result if whole and state == "done" else None
    return reply


def evaluated(store: Store, row: BanditRow, asked: EvaluationRequest, folder: Path) -> dict[str, Any]:
    """The result of an evaluation; logs are written to `folder` a page at a time.

    Policies are judged on decisions whose reward is final; a model, only on those that it has not learned.
    """
    found = {policy: _model(store, row, policy) for policy in asked.policies}
    groups: dict[int, dict[str, Any]] = {}
    for policy, model in found.items():
        target = policy if model is None else loaded(model.data)
        groups.setdefault(0 if model is None else model.place, {})[policy] = target
    results: dict[int, dict[str, Any]] = {}
    reasons: dict[int, str] = {}
    for place, policies in sorted(groups.items()):
        log = folder / f"log-{place}"
        try:
            results[place] = _judged(store, row, asked, policies, log, place)
        except TreebanditError as error:
            reasons[place] = _judged_on(place) + str(error).replace(str(log), "the log")
    if not results:
        raise InputError(next(iter(reasons.values())))
    first = next(iter(results.values()))
    places = {policy: 0 if model is None else model.place for policy, model in found.items()}
    return {
        **first,
        "log": row.name,
        "notes": list(dict.fromkeys(note for each in results.values() for note in each["notes"])),
        "policies": [_line(policy, place, results, reasons) for policy, place in places.items()],
    }


def _line(
    policy: str, place: int, results: dict[int, dict[str, Any]], reasons: dict[int, str]
) -> dict[str, Any]:
    """What was found of one policy, and on which decisions."""
    if place in reasons:
        unknown: dict[str, Any] = {"diagnostics": {}, "warnings": [], "estimates": {}}
        line = {"policy": policy, "enough_evidence": False, "reason": reasons[place], **unknown, "used": 0}
    else:
        result = results[place]
        line = {
            **next(each for each in result["policies"] if each["policy"] == policy),
            "used": result["used"],
        }
    return {**line, "learned": place} if place else line


def _judged(
    store: Store, row: BanditRow, asked: EvaluationRequest, policies: dict[str, Any], log: Path, place: int
) -> dict[str, Any]:
    """Policies on the final decisions behind a place."""
    from treebandit.evaluation import DecisionLog, evaluate

    log.mkdir()
    since = 0 if asked.since is None else microseconds(asked.since)
    until = 1 << 62 if asked.until is None else microseconds(asked.until)
    after: int | None = place
    number = written = 0
    while after is not None:
        found, after = export.records(
            store, row, after=after, limit=_PAGE, since=since, until=until, closed=True
        )
        if found:
            (log / f"part-{number:06}.parquet").write_bytes(export.parquet(found))
            number, written = number + 1, written + len(found)
    still_open = max(0, queries.decided_between(store, row, Window(since, until), after=place) - written)
    if not number:
        raise InputError(
            f"there are no decisions with a final reward in the log at this time, and {still_open:,} whose wait is not "
            "over; decide and reward first, or ask again when waits have ended"
        )
    settings: dict[str, Any] = {"interval": asked.interval, "level": asked.level, "floor": row.config.floor}
    if asked.estimators:
        settings["estimators"] = tuple(asked.estimators)
    if asked.missing_reward is not None:
        settings["missing_reward"] = asked.missing_reward
    result = evaluate(DecisionLog.scan(log), policies, **settings).as_dict()
    notes = [f"{still_open:,} decisions whose reward is not final are left out."] if still_open else []
    notes += [f"{', '.join(policies)}: {_judged_on(place)}{written:,} decisions."] if place else []
    return {**result, "notes": [*result["notes"], *notes]}


def _judged_on(place: int) -> str:
    """What a model may be judged on: it knows the rewards that it has learned."""
    return (
        f"a model is judged on decisions after what it has learned, entry {place:,} of the log: "
        if place
        else ""
    )


def _model(store: Store, row: BanditRow, policy: str) -> models.Model | None:
    """The model that a policy names; None where it names none."""
    if not _is_model(policy):
        return None
    if policy == "agent":
        found = models.newest(store, row.id, "snapshot")
    else:
        found = models.model(store, row.id, "snapshot", _version(policy))
    if found is None:
        raise _no_model(policy)
    return found


def _is_model(policy: str) -> bool:
    return policy == "agent" or policy.startswith("version:")


def _version(policy: str) -> int:
    return int(policy.partition(":")[2])


def _no_model(policy: str) -> InputError:
    return InputError(
        f"no model is kept for {policy!r}; versions are listed at /v1/bandits/NAME/model/versions, where `kept` tells "
        "which models are there"
    )


def main() -> None:
    """The process of one job: the store's URL, the bandit, the job's id and a folder come as its input."""
    url, name, number, folder = json.loads(sys.stdin.read())
    with contextlib.suppress(OSError):
        os.nice(10)
    store = Store.open(url)
    row = store.bandit(name)
    if row is None:
        return
    request = store.rows("SELECT request FROM jobs WHERE id = ?", (number,))[0][0]
    asked = msgspec.json.decode(bytes(request), type=EvaluationRequest)
    try:
        finish(store, number, "done", evaluated(store, row, asked, Path(folder)))
    except (TreebanditError, OSError) as error:
        finish(store, number, "failed", {"reason": str(error).replace(folder, "the log")})
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # its owner may have been killed
    store.close()
