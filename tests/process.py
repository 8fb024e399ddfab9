"""`responses-ref serve` as a process of its own, for tests that need a real one."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import attrs

READY = re.compile(r"serving (?P<http>http://\S+:(?P<port>\d+)/v1) (?P<ws>ws://\S+/v1/responses)\n")
START_SECONDS = 60  # a busy machine; a start takes well under a second
STOP_SECONDS = 30


@attrs.frozen
class Server:
    """A server that is ready: its two addresses, its process, and where its traces go."""

    process: subprocess.Popen[str]
    http: str
    ws: str
    port: int
    traces: Path
    stderr: Path

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Ask it to go, by SIGTERM to its own pid; it has to leave in order and say nothing on stderr.

        The second call does nothing.
        """
        if self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            if self.process.stdout:
                self.process.stdout.close()
        complaints = self.stderr.read_text()
        assert (code, complaints) == (0, ""), f"exit code {code}, stderr: {complaints}"


def start(folder: Path, *flags: str, env: Mapping[str, str] | None = None) -> Server:
    """Start a server on a free port with these flags; its traces and its stderr go into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "responses_ref", "serve", "--port", "0", *flags]
    if "--trace" not in flags:
        command += ["--trace", str(folder / "traces")]
    stderr = folder / "stderr.txt"
    with stderr.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(env or {})},
        )
    line = _first_line(process)
    found = READY.fullmatch(line)
    if found is None:
        process.kill()
        process.wait()
        raise AssertionError(f"no ready line but {line!r}; stderr: {stderr.read_text()}")
    return Server(process, found["http"], found["ws"], int(found["port"]), folder / "traces", stderr)


def _first_line(process: subprocess.Popen[str]) -> str:
    """The first line of its stdout, or nothing when it does not come in time."""
    assert process.stdout is not None
    stdout, lines = process.stdout, queue.SimpleQueue[str]()
    threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
    try:
        return lines.get(timeout=START_SECONDS)
    except queue.Empty:
        return ""
