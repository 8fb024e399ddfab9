"""The default target: the reference server, one process for each configuration, started when first needed.

This module and ``mutants/`` are the only ones of the suite that know the reference server.
"""

from __future__ import annotations

import math
import os
import secrets
import subprocess
import sys
from functools import partial
from typing import Any, Final

import attrs
import trio

from conformance.offer import Config, Features, Unavailable, config_name, read_profiles
from conformance.target import Address, Endpoint, TcpTarget, Unreachable, parse_url

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0
KEY_VARIABLE: Final = "RESPONSES_CONFORMANCE_KEY"

# token of `needs:` -> option of `responses-ref serve`
_OPTIONS: Final = {
    "lifetime": "--max-connection-seconds",
    "idle": "--idle-seconds",
    "heartbeat": "--heartbeat-seconds",
    "grace": "--grace-seconds",
    "max-message": "--max-message-bytes",
    "max-connections": "--max-connections",
    "models": "--models",
    "speed": "--speed",
    "ttft": "--ttft",
    "grid": "--grid",
    "agent-turns": "--agent-turns",
    "seed": "--seed",
    "dialect": "--dialect",
    "classify-ns-per-byte": "--classify-ns-per-byte",
    "hops": "--hops",
    "hop-latency": "--hop-latency",
}


def landed() -> frozenset[str]:
    """The profiles that the reference server has."""
    from responses_ref.protocol.settings import ALL_PROFILES

    return read_profiles(ALL_PROFILES)


def arguments(config: Config) -> list[str]:
    """The command line of a configuration; raises `Unavailable`."""
    out: list[str] = []
    for token in config:
        name, _, value = token.partition("=")
        if name in _OPTIONS and value:
            out += [_OPTIONS[name], value]
        elif name == "without" and value:
            out += ["--profiles", ",".join(sorted(landed() - read_profiles(value) | {"CORE"})).lower()]
        elif token == "api-key":
            out += ["--api-key-env", KEY_VARIABLE]
        elif name not in ("stoppable", "handshake"):
            raise Unavailable(f"the reference server has no configuration {token}")
    return out


@attrs.frozen
class OwnTarget:
    """A server process of ours."""

    address: Address
    endpoint: Endpoint
    process: trio.Process

    async def connect(self) -> trio.abc.Stream:
        return await TcpTarget(self.address, self.endpoint).connect()

    async def stop(self) -> None:
        self.process.terminate()


@attrs.define
class Embedded:
    """All configurations of the reference server; their processes end with ``nursery``."""

    features: Features
    nursery: trio.Nursery
    name: str = "the reference server"
    own_servers: bool = True
    _running: dict[Config, OwnTarget] = attrs.Factory(dict)
    _starting: dict[Config, trio.Lock] = attrs.Factory(dict)
    _key: str = attrs.field(factory=lambda: f"{secrets.token_hex(16)},{secrets.token_hex(16)}")

    async def target(self, config: Config) -> OwnTarget:
        """The server of a configuration; one that a case stops is never shared."""
        if "stoppable" in config:
            return await self._start(config)
        async with self._starting.setdefault(config, trio.Lock()):
            if config not in self._running:
                self._running[config] = await self._start(config)
            return self._running[config]

    async def _start(self, config: Config) -> OwnTarget:
        handshake = [token.partition("=")[2] for token in config if token.startswith("handshake=")]
        command = [sys.executable, "-m", "responses_ref"]
        if handshake:
            command = [sys.executable, "-m", "conformance.embedded", handshake[0]]
        process = await self.nursery.start(self._run, [*command, "serve", "--port", "0", *arguments(config)])
        line = b""
        with trio.move_on_after(START_SECONDS):
            while not line.endswith(b"\n") and (more := await process.stdout.receive_some(4096)):
                line += bytes(more)
        words = line.decode().split()
        if not words or words[0] != "serving":
            raise Unreachable(f"the reference server did not start ({config_name(config) or 'default'})")
        key = self._key if "api-key" in config else None
        return OwnTarget(*parse_url(words[-1], key), process)

    async def _run(self, command: list[str], task_status: trio.TaskStatus[Any]) -> None:
        """Keep a process for as long as the run lasts."""
        env = {**os.environ, KEY_VARIABLE: self._key}
        process = await trio.lowlevel.open_process(
            command, stdout=subprocess.PIPE, env=env, start_new_session=True
        )  # Ctrl-C is for the suite, which ends its servers itself
        try:
            task_status.started(process)
            await trio.sleep(math.inf)
        finally:
            await _end(process)


async def _end(process: trio.Process) -> None:
    with trio.CancelScope(shield=True):
        if process.returncode is None:
            process.terminate()
            with trio.move_on_after(STOP_SECONDS):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()


def main() -> None:
    """``python -m conformance.embedded SECONDS serve …``: a server with another handshake deadline.

    That deadline is no option of the server: nobody but a test wants another.
    """
    from responses_ref import cli, serving
    from responses_ref.server.limits import Limits

    seconds = float(sys.argv[1])
    vars(serving)["Limits"] = partial(Limits, handshake_seconds=seconds)
    cli.main(sys.argv[2:])


if __name__ == "__main__":
    main()
