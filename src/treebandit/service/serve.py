"""Running the service: uvicorn, loopback only without keys, slow clients cut off."""

from __future__ import annotations

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
from treebandit.service.runtime import LearnerPlace, Limits, Runtime
from treebandit.service.store import Store

_log = logging.getLogger("treebandit.service")

#: Seconds in which the head of a request has to be there.
_HEAD_SECONDS = 10.0


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which gives up clients that send the head of a request too slowly, or nothing at all."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._head_timer.cancel()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for the next one; idle connections have a time limit of uvicorn's own."""
        super().on_response_complete()
        self._head_timer.cancel()
        if not self.transport.is_closing():
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
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
        h11_max_incomplete_event_size=64 << 10,
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
            "keys": "required" if _has_keys(store) else "none: this machine only",
        },
    )
    if demo:
        if _has_keys(store):
            raise ParameterError(
                "the store has keys, and the demo's visitors have none; give --demo another --store"
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


def _has_keys(store: Store) -> bool:
    return bool(store.rows("SELECT 1 FROM keys LIMIT 1"))
