"""Running the service: uvicorn, loopback only without keys, slow clients cut off."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from treebandit.errors import ParameterError
from treebandit.service import logs
from treebandit.service.access import is_loopback
from treebandit.service.app import make_app
from treebandit.service.demo import in_background
from treebandit.service.exchange import error_answer
from treebandit.service.ids import IDS
from treebandit.service.keys import KeyRing
from treebandit.service.refusals import Refused
from treebandit.service.runtime import LearnerPlace, Limits, Runtime
from treebandit.service.store import Store

_log = logging.getLogger("treebandit.service")

#: Seconds in which the head of a request has to be there.
_HEAD_SECONDS = 10.0
#: Bytes and lines of a head; trailers behind a body count too.
_HEAD_BYTES, _HEAD_LINES = 64 << 10, 100
_TOO_LARGE = f"the head of the request is too large; send at most {_HEAD_BYTES} bytes, {_HEAD_LINES} headers"


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which gives up clients whose heads of requests come too slowly, or are too large."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        #: Runs while a head is awaited.
        self._head_timer: asyncio.TimerHandle | None = None
        #: Whether a request has begun and not ended.
        self._in_request = False
        #: Of the request that is being read: bytes and lines of its head; and bytes since the parser told anything.
        self._head_bytes = self._head_lines = self._untold = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Read on; what the parser keeps to itself is a header that has not ended."""
        self._untold += len(data)
        if not self._in_request:  # until then, an idle connection has a time limit of uvicorn's own
            self._wait_for_head()
        super().data_received(data)
        if self._untold > _HEAD_BYTES and not self.transport.is_closing():
            self._refuse_head()

    def on_message_begin(self) -> None:
        """The first byte of a request is there."""
        self._head_bytes = self._head_lines = self._untold = 0
        self._in_request = True
        self._wait_for_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the path."""
        self._count_head(len(url), 0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head, or a trailer."""
        self._count_head(len(name) + len(value), 1)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._untold = 0
        self._cancel_head_timer()
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """A part of the body begins."""
        self._untold = 0

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._untold = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        self._in_request = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._cancel_head_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What the parser could not take; also a head that was too large for us."""
        if self._is_too_large():
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _count_head(self, size: int, lines: int) -> None:
        self._untold = 0
        self._head_bytes += size
        self._head_lines += lines
        if self._is_too_large():
            raise Refused(
                431, "TooLarge", _TOO_LARGE
            )  # ends the parser, and uvicorn sends what follows on errors

    def _is_too_large(self) -> bool:
        return self._head_bytes > _HEAD_BYTES or self._head_lines > _HEAD_LINES

    def _refuse_head(self) -> None:
        """Close; with an answer, where it is about a head and no other answer is on its way."""
        if self._head_timer is not None and (self.cycle is None or self.cycle.response_complete):
            answer = error_answer(Refused(431, "TooLarge", _TOO_LARGE, {"Connection": "close"}), IDS.new())
            headers = [name + b": " + value for name, value in answer.raw_headers]
            status = b"HTTP/1.1 431 Request Header Fields Too Large"
            self.transport.write(b"\r\n".join([status, *headers, b"", bytes(answer.body)]))
        self.transport.close()

    def _wait_for_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_for_head()  # of a request that came before the answer to the one before it
        elif not self.transport.is_closing():
            self.transport.close()


def make_server(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    limits: Limits | None = None,
    learner: LearnerPlace = "thread",
) -> uvicorn.Server:
    """A server that is ready to run; refuses to listen to others without keys."""
    runtime = Runtime(store, limits=limits, learner=learner, keys_required=not is_loopback(host))
    if not len(runtime.keys) and not is_loopback(host):
        raise ParameterError(
            f"there are no keys, so the service listens to this machine only, and not on {host}; make a key first: "
            "treebandit keys add NAME --role admin --store URL"
        )
    config = uvicorn.Config(
        make_app(runtime),
        host=host,
        port=port,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing asks where a request came from
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


def serve(
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    limits: Limits | None = None,
    learner: LearnerPlace = "thread",
    level: str = "info",
    demo: bool = False,
) -> None:
    """Serve until the process is asked to stop; with a demo, visitors come to a shop at once."""
    logs.set_up(level)
    store = Store.open(url)
    server = make_server(store, host=host, port=port, limits=limits, learner=learner)
    listener = listening_socket(host, port)
    address = listener.getsockname()
    _log.info(
        "serving",
        extra={
            "url": f"http://{host}:{address[1]}",
            "store": store.url,
            "keys": "required" if _needs_keys(store) else "none: this machine only",
        },
    )
    if demo:
        if _needs_keys(store):
            raise ParameterError(
                "the store has, or had, keys, and the demo's visitors have none; give --demo another --store"
            )
        in_background(f"http://{host}:{address[1]}")
    server.run(sockets=[listener])


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; an answer on it is sent at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only on sockets that say they speak TCP; on others each answer waits 40 ms for the caller.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise ParameterError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port"
        ) from error
    listener.listen(2048)
    return listener


def _needs_keys(store: Store) -> bool:
    return KeyRing(store).required
