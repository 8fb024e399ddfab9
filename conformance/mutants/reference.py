"""The reference server in this process, over memory streams, whole or broken by a mutant."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio
from trio.testing import memory_stream_pair

from conformance.embedded import landed
from conformance.mutants.middle import Middle, MiddleStream
from conformance.offer import Config, Features, Unavailable, read_profiles
from conformance.target import Endpoint
from responses_ref.model.streamer import profile
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.settings import ALL_PROFILES
from responses_ref.server.accept import Server
from responses_ref.server.app import App
from responses_ref.server.http import Request
from responses_ref.serving import Options, build

if TYPE_CHECKING:
    from conformance.mutants.harness import Mutant

KEYS: Final = ("key-of-one", "key-of-another")

# token of `needs:` -> (name in `Options`, what makes the value)
_OPTIONS: Final[dict[str, tuple[str, Any]]] = {
    "lifetime": ("max_connection_seconds", float),
    "idle": ("idle_seconds", float),
    "heartbeat": ("heartbeat_seconds", float),
    "grace": ("grace_seconds", float),
    "max-message": ("max_message_bytes", int),
    "max-connections": ("max_connections", int),
    "models": ("models", lambda text: tuple(text.split(","))),
    "speed": ("speed", lambda text: profile(text, None)),
    "grid": ("grid", float),
    "agent-turns": ("agent_turns", int),
    "seed": ("seed", int),
    "dialect": ("dialect", str),
    "classify-ns-per-byte": ("classify_ns_per_byte", float),
    "hops": ("hops", int),
    "hop-latency": ("hop_latency", float),
}


def options(config: Config, more: dict[str, Any]) -> Options:
    """The options of a configuration; raises `Unavailable`."""
    out: dict[str, Any] = {"speed": profile("instant", None)}
    for token in config:
        name, _, value = token.partition("=")
        if name in _OPTIONS and value:
            key, make = _OPTIONS[name]
            out[key] = make(value)
        elif name == "without" and value:
            out["profiles"] = ALL_PROFILES - {one.lower() for one in read_profiles(value) - {"CORE"}}
        elif name not in ("api-key", "stoppable", "handshake"):
            raise Unavailable(f"the reference server has no configuration {token}")
    return Options(**{**out, **more})


@attrs.frozen
class BrokenApp(App):
    """The application with a mutant's patch on the core of each connection."""

    patch: Any = None

    def core(self, request: Request) -> Connection:
        core = super().core(request)
        self.patch(core)
        return core


@attrs.define
class MemoryTarget:
    """One server; ``connect`` gives the client's end of a fresh pair of memory streams."""

    server: Server
    endpoint: Endpoint
    nursery: trio.Nursery
    middle: type[Middle]

    async def connect(self) -> trio.abc.Stream:
        client, server = memory_stream_pair()
        stream = server if self.middle is Middle else MiddleStream(server, self.middle())
        self.nursery.start_soon(self.server.serve_stream, stream)
        await trio.lowlevel.checkpoint()
        return client

    async def stop(self) -> None:
        """As a signal does: drain, and cut off what is left after the grace time."""
        self.server.drain()


@attrs.define
class Reference:
    """An offer of all configurations, each made when first needed."""

    nursery: trio.Nursery
    mutant: Mutant | None = None
    features: Features = attrs.field(factory=lambda: Features(profiles=landed()))
    name: str = "the reference server, in this process"
    own_servers: bool = True
    _running: dict[Config, MemoryTarget] = attrs.Factory(dict)

    async def target(self, config: Config) -> MemoryTarget:
        if "stoppable" in config:
            return await self._start(config)
        if config not in self._running:
            self._running[config] = await self._start(config)
        return self._running[config]

    async def _start(self, config: Config) -> MemoryTarget:
        made = self.mutant
        server = build(options(config, dict(made.options) if made else {}))
        if "api-key" in config:
            server.keys = KEYS
        handshake = [float(token.partition("=")[2]) for token in config if token.startswith("handshake=")]
        if handshake:
            server.limits = attrs.evolve(server.limits, handshake_seconds=handshake[0])
        if made and made.core and isinstance(server.app, App):
            server.app = BrokenApp(server.app.rooms, made.core)
        if made and made.server:
            made.server(server)
        await self.nursery.start(_keep_running, server)
        key, other = KEYS if "api-key" in config else (None, None)
        endpoint = Endpoint(key=key, other_key=other)
        return MemoryTarget(server, endpoint, self.nursery, made.middle if made else Middle)


async def _keep_running(server: Server, task_status: trio.TaskStatus[None]) -> None:
    # A broken server complains about what a mutant does to it; that is no news.
    log, silence = logging.getLogger("responses_ref"), lambda record: False
    log.addFilter(silence)
    try:
        async with server.running():
            task_status.started()
            await trio.sleep_forever()
    finally:
        log.removeFilter(silence)
