"""Clients of the decision service: `Client`, and `AsyncClient` with the same methods to await."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from numpy.typing import NDArray

from treebandit.errors import MissingExtraError, NoAnswerError, ServiceError
from treebandit.service.client_values import arm_list, check_settings, checked_id, json_bytes, reward_value

try:
    import httpx
except ImportError as error:
    raise MissingExtraError("httpx", "service") from error

#: Answers after which the same request may succeed a moment later, besides those of 500 and more.
_AGAIN = (408, 429)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

Arms = Sequence[str | Mapping[str, Any]] | NDArray[Any]
#: A dict, or a pandas series.
Context = Mapping[str, Any] | Any
#: A number, or a sequence, an array or a series with one per chosen arm.
Reward = float | Sequence[float] | Any


@dataclass(frozen=True)
class Decided:
    """What the service decided; or, where it did not answer in time, the caller's fallback.

    id: of the decision, under which its reward is sent.
    arms: the chosen ones, most often one.
    probability: of this choice; None for a fallback.
    probabilities: of each arm that was offered.
    version: of the model that decided.
    holdout: whether the holdout's policy decided.
    fallback: True where the service did not decide; `reward` then sends nothing.
    slots: the arm of each slot, where slots were asked for.

    >>> treebandit.Decided("visit 1", ("tea",), 0.7).arm
    'tea'
    """

    id: str
    arms: tuple[str, ...]
    probability: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    version: int = 0
    holdout: bool = False
    fallback: bool = False
    slots: dict[str, str] = field(default_factory=dict)

    @property
    def arm(self) -> str:
        """The chosen arm; the first, where there are several."""
        return self.arms[0]


@dataclass(frozen=True)
class _Call:
    """One request, the same at every try. read: what to make of its answer; fails where that is none of the service."""

    method: str
    path: str
    content: bytes | None
    read: Callable[[Any], Any]


class _Calls:
    """What both clients share: requests, and what answers mean."""

    #: The class of httpx that sends requests.
    _sender: Any

    def __init__(
        self,
        url: str,
        bandit: str,
        *,
        key: str | None = None,
        timeout: float = 1.0,
        retries: int = 3,
        transport: Any = None,
    ) -> None:
        """A client of one bandit; its class tells what the arguments are."""
        check_settings(url, bandit, key=key, timeout=timeout, retries=retries)
        self.bandit, self.timeout, self.retries = bandit, timeout, retries
        headers = {"Content-Type": "application/json"}
        headers |= {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = self._sender(base_url=url.rstrip("/"), headers=headers, transport=transport)

    @property
    def _root(self) -> str:
        return f"/v1/bandits/{quote(self.bandit, safe='')}"

    def _decide_call(self, context: Context, arms: Arms, id: str, options: dict[str, Any]) -> _Call:
        body = {"id": id, "context": {} if context is None else context, "arms": arm_list(arms), **options}
        content = json_bytes({key: value for key, value in body.items() if value is not None})
        return _Call("POST", f"{self._root}/decisions", content, _decided)

    def _reward_call(
        self, decision: Decided | str, value: Reward, slot: str | None, key: str | None
    ) -> _Call:
        more = {} if slot is None else {"slot": slot}
        body = {"value": reward_value(value), "key": key or uuid.uuid4().hex, **more}
        return self._call_about(decision, "reward", json_bytes(body))

    def _call_about(self, decision: Decided | str, what: str, content: bytes | None = None) -> _Call:
        id = checked_id(decision.id if isinstance(decision, Decided) else decision)
        path = f"{self._root}/decisions/{quote(id, safe='')}/{what}"
        return _Call("POST", path, content, lambda answer: str(answer["status"]))


def _decided(answer: Any) -> Decided:
    slots = {each["slot"]: each["arm"] for each in answer.get("slots", ())}
    arms = tuple(answer.get("arms", ())) or tuple(slots.values())
    return Decided(
        answer["id"],
        (arms[0], *arms[1:]),
        answer.get("probability"),
        answer.get("probabilities", {}),
        answer.get("version", 0),
        answer.get("holdout", False),
        slots=slots,
    )


def _answered(call: _Call, response: httpx.Response, content: bytes) -> Any:
    """The answer; a ServiceError where the request is at fault, a _NoAnswer where another try may help."""
    status = response.status_code
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if response.is_success:
        try:
            return call.read(found)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise _NoAnswer(f"{status} with a body that is not the service's") from None
    problem = found.get("error", {}) if isinstance(found, dict) else {}
    said = problem.get("message", response.reason_phrase) if isinstance(problem, dict) else str(problem)
    if status >= 500 or status in _AGAIN:
        raise _NoAnswer(f"{said} ({status})")
    raise ServiceError(f"{said} ({status})")


class _NoAnswer(Exception):  # noqa: N818
    """One try has had no answer."""


def _pause(attempt: int, left: float) -> float:
    """Longer each time, and not the same for all clients."""
    return min(left, min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1.0))


def _no_answer(seconds: float, error: Exception | None) -> NoAnswerError:
    why = "" if error is None else f": {str(error) if isinstance(error, _NoAnswer) else type(error).__name__}"
    return NoAnswerError(f"the service has not answered within {seconds:g} seconds{why}; is it running?")


class Client(_Calls):
    """Decide and reward over HTTP. May be shared by threads; a `with` block closes it.

    url: of the service.
    bandit: its name there.
    key: needed where the service has keys.
    timeout: seconds for one call, all its tries together.
    retries: how often a call is tried again, always with the same id, so that it counts once.
    transport: of httpx.

    Nothing listens on port 9, so the fallback is taken:

    >>> with treebandit.Client("http://127.0.0.1:9", "shop", timeout=0.2) as client:
    ...     decision = client.decide({"age": 31}, ["coffee", "tea"], fallback="tea")
    ...     _ = client.reward(decision, 1.0)
    >>> decision.arm, decision.fallback
    ('tea', True)
    """

    _sender = httpx.Client

    def decide(
        self,
        context: Context,
        arms: Arms,
        *,
        fallback: str | None = None,
        id: str | None = None,
        **options: Any,
    ) -> Decided:
        """Ask for a decision.

        context: features that all arms share, a dict or a pandas series; numbers may be those of numpy, NaN is missing.
        arms: names, or {"name": ..., "features": {...}}. fallback: the arm to take where the service does not answer in
        time, or only with errors of its own (5xx) or what is no answer of the service, such as the page of a proxy;
        without one, that is a NoAnswerError. A request that is refused (4xx) is a ServiceError, what cannot be sent an
        InputError. id: made where left out. options: choose, slots, excluded, baseline, subject, deferred.
        """
        id = uuid.uuid4().hex if id is None else checked_id(id)
        try:
            decided: Decided = self._run(self._decide_call(context, arms, id, options))
            return decided
        except NoAnswerError:
            if fallback is None:
                raise
            return Decided(id, (fallback,), fallback=True)

    def reward(
        self,
        decision: Decided | str,
        value: Reward,
        *,
        slot: str | None = None,
        key: str | None = None,
    ) -> str:
        """Tell what a decision earned; what became of the reward ("counted", "repeated", "early", "late", ...).

        For a fallback, which the service has not decided, nothing is sent: "fallback".
        """
        if isinstance(decision, Decided) and decision.fallback:
            return "fallback"
        return str(self._run(self._reward_call(decision, value, slot, key)))

    def activate(self, decision: Decided | str) -> None:
        """Tell that a deferred decision was used."""
        self._run(self._call_about(decision, "activate"))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, call: _Call) -> Any:
        """On a thread of its own: names are looked up, and heads of answers read, without a limit for the whole."""
        deadline = time.monotonic() + self.timeout
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(self._tried(call, deadline))
            except BaseException as error:
                future.set_exception(error)

        try:
            threading.Thread(target=work, name="treebandit client", daemon=True).start()
        except RuntimeError:  # the interpreter ends
            work()
        try:
            return future.result(max(deadline - time.monotonic(), 0.0))
        except TimeoutError as error:
            raise _no_answer(self.timeout, error) from None

    def _tried(self, call: _Call, deadline: float) -> Any:
        last: Exception | None = None
        for attempt in range(self.retries + 1):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                return _answered(call, *self._sent(call, deadline))
            except (httpx.RequestError, _NoAnswer) as error:
                last = error
            time.sleep(_pause(attempt, max(deadline - time.monotonic(), 0.0)))
        raise _no_answer(self.timeout, last)

    def _sent(self, call: _Call, deadline: float) -> tuple[httpx.Response, bytes]:
        left, content = deadline - time.monotonic(), b""
        with self._http.stream(call.method, call.path, content=call.content, timeout=left) as response:
            for part in response.iter_bytes():
                content += part
                if time.monotonic() > deadline:
                    raise _NoAnswer("the answer comes too slowly")
        return response, content


class AsyncClient(_Calls):
    """`Client` with the same methods to await; an `async with` block closes it.

    url: of the service.
    bandit: its name there.
    key: needed where the service has keys.
    timeout: seconds for one call, all its tries together.
    retries: how often a call is tried again, always with the same id, so that it counts once.
    transport: of httpx.

    >>> import asyncio
    >>> async def decide():
    ...     async with treebandit.AsyncClient("http://127.0.0.1:9", "shop", timeout=0.2) as client:
    ...         return await client.decide({"age": 31}, ["coffee", "tea"], fallback="tea")
    >>> asyncio.run(decide()).arm
    'tea'
    """

    _sender = httpx.AsyncClient

    async def decide(
        self,
        context: Context,
        arms: Arms,
        *,
        fallback: str | None = None,
        id: str | None = None,
        **options: Any,
    ) -> Decided:
        """As `Client.decide`."""
        id = uuid.uuid4().hex if id is None else checked_id(id)
        try:
            decided: Decided = await self._run(self._decide_call(context, arms, id, options))
            return decided
        except NoAnswerError:
            if fallback is None:
                raise
            return Decided(id, (fallback,), fallback=True)

    async def reward(
        self,
        decision: Decided | str,
        value: Reward,
        *,
        slot: str | None = None,
        key: str | None = None,
    ) -> str:
        """As `Client.reward`."""
        if isinstance(decision, Decided) and decision.fallback:
            return "fallback"
        return str(await self._run(self._reward_call(decision, value, slot, key)))

    async def activate(self, decision: Decided | str) -> None:
        """As `Client.activate`."""
        await self._run(self._call_about(decision, "activate"))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: _Call) -> Any:
        deadline = time.monotonic() + self.timeout
        last: Exception | None = None
        for attempt in range(self.retries + 1):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    response = await self._http.request(
                        call.method, call.path, content=call.content, timeout=left
                    )
                return _answered(call, response, response.content)
            except (httpx.RequestError, TimeoutError, _NoAnswer) as error:
                last = error
            await asyncio.sleep(_pause(attempt, max(deadline - time.monotonic(), 0.0)))
        raise _no_answer(self.timeout, last)
