"""A real browser without a window: Chromium, told what to do over a pipe by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--remote-debugging-pipe",
)  # fmt: skip
# the browser reads from descriptor 3 and writes to descriptor 4: that is how --remote-debugging-pipe is defined
_START = """
import fcntl, os, sys
reading, writing = (fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3])  # out of the way of 3 and 4
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 60.0
"""Seconds that an answer may take on a busy machine."""
Json = None | bool | float | str | list["Json"] | dict[str, "Json"]


class Browser:
    """A page in a browser.

    Args:
        commands: file descriptor to write to.
        answers: file descriptor to read from.

    Attributes:
        complaints: what the page wrote to the console, uncaught errors and refusals among it.
        requests: addresses that the page asked for.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = str(self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def open(
        self, file: Path, *, width: int = 1280, height: int = 800, scheme: str = "light", has_scripts: bool = True
    ) -> None:
        """Loads a page.

        Args:
            file: to show.
            width, height: of the window in CSS pixels.
            scheme: that the reader prefers: light | dark.
            has_scripts: whether the reader lets pages run scripts.
        """
        self.complaints.clear()
        self.requests.clear()
        is_phone = width < 500
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}  # no scrolling that takes time
        features: list[Json] = [{"name": name, "value": value} for name, value in wishes.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not has_scripts)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=file.absolute().as_uri())
        ends = time.monotonic() + _PATIENCE
        while self.run("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < ends, f"{file} does not load"
            time.sleep(0.02)

    def run(self, script: str) -> Json:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        result = answer["result"]
        assert isinstance(result, dict)
        return result.get("value")

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, by their names, such as Tab or ArrowRight."""
        for key in keys:
            text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
            name = " " if key == "Space" else key
            code = {"Tab": 9, "Enter": 13, "Space": 32, "Escape": 27}.get(key, 0)
            for kind in ("keyDown", "keyUp"):
                words: dict[str, Json] = {"type": kind, "key": name, "windowsVirtualKeyCode": code}
                if text and kind == "keyDown":
                    words["text"] = text
                self.call("Input.dispatchKeyEvent", **words)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """A mouse event at a place of the window: mouseMoved | mousePressed | mouseReleased."""
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def picture(self, file: Path, *, is_whole: bool = True) -> Path:
        """Writes what the page looks like; all of its length, or what the window shows."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        file.write_bytes(base64.b64decode(str(answer["data"])))
        return file

    def call(self, method: str, **words: Json) -> dict[str, Json]:
        """A command of the protocol and its answer; events in between are noted."""
        self._number += 1
        message: dict[str, Json] = {"id": self._number, "method": method, "params": words}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result = answer["result"]
                assert isinstance(result, dict)
                return result
            self._note(answer)
        raise AssertionError("the browser has ended")

    def _messages(self) -> Iterator[dict[str, Json]]:
        while True:
            while b"\0" not in self._buffer:
                part = os.read(self._answers, 1 << 16)
                if not part:
                    return
                self._buffer += part
            text, _, self._buffer = self._buffer.partition(b"\0")
            yield json.loads(text)

    def _note(self, event: Mapping[str, Json]) -> None:
        method, words = event.get("method"), event.get("params")
        assert isinstance(words, dict)
        if method == "Network.requestWillBeSent":
            request = words["request"]
            assert isinstance(request, dict)
            self.requests.append(str(request["url"]))
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(words))


@contextmanager
def browser(arguments: Sequence[str] = ()) -> Iterator[Browser]:
    """A browser for its time; its process and its profile are gone afterwards."""
    assert CHROMIUM is not None
    to_browser, from_browser = os.pipe(), os.pipe()
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        start = [sys.executable, "-c", _START, str(to_browser[0]), str(from_browser[1]), CHROMIUM]
        process = subprocess.Popen(
            [*start, *_ARGUMENTS, f"--user-data-dir={profile}", *arguments, "about:blank"],
            pass_fds=(to_browser[0], from_browser[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Browser(to_browser[1], from_browser[0])
        finally:
            os.close(to_browser[1])
            os.close(from_browser[0])
            process.kill()
            process.wait()
