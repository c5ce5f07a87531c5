"""A real browser without a window, driven over a pipe (Chrome DevTools protocol); no library needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless browser; `events` holds all that it reported so far."""

    def __init__(self, program: str, profile: Path, *, width: int = 1280, height: int = 900) -> None:
        their_input, self._output = os.pipe()
        self._input, their_output = os.pipe()
        arguments = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # The protocol has its ends of the pipes at 3 and 4, which only a shell can set.
        command = f"exec {shlex.join(arguments)} 3<&{their_input} 4>&{their_output}"
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command],
            pass_fds=(their_input, their_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(their_input)
        os.close(their_output)
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._output)
        os.close(self._input)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window's size, and whether its user prefers dark colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path) -> None:
        """Load a file."""
        self.call("Page.navigate", url=page.resolve().as_uri())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, expression: str, *, seconds: float = 60.0) -> Any:
        """Ask again until the expression is true; before the page is there it may fail."""
        end = time.monotonic() + seconds
        while True:
            failure = None
            try:
                if value := self.evaluate(expression):
                    return value
            except AssertionError as error:
                failure = error
            if time.monotonic() > end:
                said = f"still not true after {seconds} s: {expression}; {self.complaints()}"
                raise AssertionError(said) from failure
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Press the mouse on the middle of an element, as a user does."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{box}.scrollIntoView({{block: 'center'}})")
        x, y = self.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({box}.getBoundingClientRect())")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and anything asked for over a network."""
        found = []
        for event in self.events:
            method, details = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(details["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(details["args"]))
            elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
                found.append(details["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = details["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:", "about:")):
                    found.append(f"asked for {url}")
        return found

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """A picture of the page as PNG."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(picture["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self, seconds: float = 120.0) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._input], [], [], seconds)[0]:
                raise AssertionError(f"no answer from the browser for {seconds} s")
            piece = os.read(self._input, 1 << 20)
            if not piece:
                raise AssertionError("the browser has ended")
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message


def open_page(browser: Browser, page: Path) -> None:
    """Open a page anew, and wait until its charts are drawn."""
    browser.events.clear()
    browser.open(page)
    browser.wait_for("document.body?.dataset.drawn")


class Loads(HTMLParser):
    """Everything that a page loads from elsewhere."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in ("src", "href") and value != "data:,"]
