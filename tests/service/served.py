"""The service in this process, on a port of its own."""

import asyncio
import socket
import threading
import time

import httpx

from treebandit.service.serve import make_server
from treebandit.service.store import Store


class Served:
    """A running service, and a client of it."""

    def __init__(self, url, **options):
        self.store = Store.open(url)
        self.server = make_server(self.store, **options)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(
            target=lambda: asyncio.run(self.server.serve(sockets=[self.socket])), daemon=True
        )
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def __enter__(self):
        self.thread.start()
        deadline = time.monotonic() + 30
        while not self.server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.http.close()
        self.server.should_exit = True
        self.thread.join(30)

    @property
    def runtime(self):
        return self.server.config.app.runtime

    def call(self, method, path, body=None, status=200, **options):
        answer = self.http.request(method, path, json=body, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.headers.get("content-type") == "application/json" else answer

    def make(self, name="shop", status=201, **settings):
        return self.call("PUT", f"/v1/bandits/{name}", settings, status)

    def decide(self, id=None, name="shop", status=200, **request):
        request.setdefault("arms", ["a", "b", "c"])
        request.setdefault("context", {"x": 1.0})
        body = request if id is None else {"id": id, **request}
        return self.call("POST", f"/v1/bandits/{name}/decisions", body, status)

    def reward(self, id, value=1.0, name="shop", status=200, **more):
        return self.call(
            "POST", f"/v1/bandits/{name}/decisions/{id}/reward", {"value": value, **more}, status
        )

    def until(self, true, seconds=20):
        """Wait for something."""
        deadline = time.monotonic() + seconds
        while not (found := true()):
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.02)
        return found

    def learned(self, name="shop"):
        """Wait until the learner has read the whole log; its fold."""
        row = self.store.bandit(name)
        learner = self.runtime.learner

        def there():
            found = learner._learners.get(row.id)
            return found if found is not None and found.fold.place >= row.place else None

        return self.until(there).fold
