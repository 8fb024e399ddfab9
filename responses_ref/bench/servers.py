"""Servers as processes of their own, on the server's core; each ends with its block."""

from __future__ import annotations

import importlib.util
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from .machine import SERVER_CORE, cpu_seconds, pin

OURS = "responses-ref"
# name -> the module it needs; trio-websocket is always there, the others are in the "bench" extra.
PEERS = {
    "trio-websocket": "trio_websocket",
    "websockets": "websockets",
    "aiohttp": "aiohttp",
    "picows": "picows",
    "uvicorn": "uvicorn",
}
START_SECONDS, STOP_SECONDS = 120, 30
PORT = re.compile(r"(?:http://127\.0\.0\.1:|port )(\d+)")


class CannotStart(Exception):
    """A server did not come up; the message says which."""


@attrs.frozen
class Server:
    """A server that is ready."""

    name: str
    port: int
    process: subprocess.Popen[str]

    def cpu(self) -> float:
        """CPU seconds so far."""
        return cpu_seconds(self.process.pid)

    def end(self) -> str:
        """Ask it to go; what it printed after its first line."""
        self.process.terminate()
        try:
            rest, _ = self.process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rest, _ = self.process.communicate()
        return rest


def missing() -> list[str]:
    """The peers that are not installed here."""
    return [name for name, module in PEERS.items() if importlib.util.find_spec(module) is None]


def ours(*flags: str) -> list[str]:
    """The command of ``responses-ref serve`` on a free port."""
    return [sys.executable, "-m", "responses_ref", "serve", "--port", "0", *flags]


def subject(*flags: str) -> list[str]:
    """The same server with the bench's switches (see ``subject.py``)."""
    return [sys.executable, "-m", "responses_ref.bench.subject", *flags]


def peer(name: str, *flags: str) -> list[str]:
    """The command of another library's server."""
    return [sys.executable, "-m", "responses_ref.bench.peers", name, *flags]


def spawn(name: str, command: Sequence[str], core: int | None = SERVER_CORE) -> Server:
    """Start a server, on one core if so wished, and wait until it says its port.

    Raises:
        CannotStart: it ended, or said nothing in time.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if name in PEERS else None,  # some complain about each client that leaves
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    if core is not None:
        pin(core, process.pid)
    found = PORT.search(_first_line(process))
    if found is None:
        process.kill()
        process.communicate()
        raise CannotStart(f"the server {name} did not start")
    return Server(name, int(found[1]), process)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    stdout, lines = process.stdout, queue.SimpleQueue[str]()
    threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
    try:
        return lines.get(timeout=START_SECONDS)
    except queue.Empty:
        return ""


@contextmanager
def running(commands: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Server]]:
    """Start all of them, and end each of them afterwards."""
    servers: dict[str, Server] = {}
    try:
        for name, command in commands.items():
            servers[name] = spawn(name, command)
        yield servers
    finally:
        for server in servers.values():
            server.end()
