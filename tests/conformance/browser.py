"""A real browser for the tests of pages: Chromium without a window, driven over its own protocol."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio_websocket import WebSocketConnection, open_websocket_url

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str:
    """The browser; without one the test is skipped by name, and fails where everything has to be there."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    if os.environ.get("REQUIRE_ALL") == "1":
        pytest.fail("chromium is not installed")
    pytest.skip("chromium is not installed")


class Page:
    """One tab."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        self._session: str | None = None
        self._number = 0
        self.complaints: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_message(json.dumps(message))
        while True:
            got = json.loads(await self._socket.get_message())
            if got.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(got["params"]))
            if got.get("id") == self._number:
                assert "error" not in got, got
                result: dict[str, Any] = got["result"]
                return result

    async def begin(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def open(
        self, path: Path, *, width: int, height: int = 900, dark: bool = False, place: str = ""
    ) -> None:
        """Show a file at a width, in light or dark, at a place such as ``#id``."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=path.as_uri() + place)
        await self.run("new Promise((done) => document.readyState === 'complete' ? done() : onload = done)")

    async def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def picture(self) -> bytes:
        """What is to be seen, as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Start a browser; it ends with the block."""
    command = [
        find(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
    ]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(_keep, command)
        with trio.fail_after(60):
            url = await _address(process.stderr)
        nursery.start_soon(_drain, process.stderr)
        async with open_websocket_url(url, max_message_size=64 * 1024 * 1024) as socket:
            page = Page(socket)
            with trio.fail_after(120):
                await page.begin()
                yield page
        nursery.cancel_scope.cancel()


async def _keep(command: list[str], task_status: trio.TaskStatus[trio.Process]) -> None:
    process = await trio.lowlevel.open_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        task_status.started(process)
        await trio.sleep(math.inf)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _address(stderr: trio.abc.ReceiveStream) -> str:
    text = b""
    while not (found := re.search(rb"DevTools listening on (\S+)", text)):
        more = await stderr.receive_some(4096)
        assert more, text
        text += bytes(more)
    return found[1].decode()


async def _drain(stream: trio.abc.ReceiveStream) -> None:
    while await stream.receive_some(65536):
        pass
