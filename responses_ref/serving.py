"""``serve``: options to rooms, rooms to a server, until it is told to go."""

from __future__ import annotations

import gc
import signal
import ssl
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import attrs
import trio

from .model import ScriptedModel
from .model.streamer import Profile
from .model.tokens import TOKEN
from .pipeline import Pipeline
from .protocol.emitter import Ids
from .protocol.settings import Settings
from .server import accept, drain
from .server.app import App
from .server.ids import RandomIds, SeededIds
from .server.limits import ConfigError, Limits
from .server.session import Biller, Rooms, no_biller
from .server.timer import Timers
from .server.trace import TraceDir
from .store import MemoryStore

CORE, SHELL = Settings(), Limits()


@attrs.frozen(kw_only=True)
class Options:
    """The options of ``serve``, as the command line names them."""

    speed: Profile
    host: str = "127.0.0.1"
    port: int = 0
    grid: float = 0.002
    seed: int | None = None
    models: tuple[str, ...] = ()
    agent_turns: int = 1
    api_key_env: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    profiles: frozenset[str] = CORE.profiles
    dialect: str | None = None
    trace: Path | None = None
    max_connection_seconds: float = CORE.lifetime
    idle_seconds: float | None = None
    heartbeat_seconds: float = CORE.heartbeat
    grace_seconds: float = CORE.grace
    max_message_bytes: int = SHELL.max_message_bytes
    max_connections: int = SHELL.max_connections
    classify_ns_per_byte: float = 0.0
    hops: int = 0
    hop_latency: float = 0.0

    def settings(self) -> Settings:
        """What the core has to know of them."""
        return Settings(
            profiles=self.profiles,
            append_for_all=self.dialect == "append",
            models=self.models,
            lifetime=self.max_connection_seconds,
            idle=self.max_connection_seconds if self.idle_seconds is None else self.idle_seconds,
            heartbeat=self.heartbeat_seconds,
            grace=self.grace_seconds,
        )


# A connection is a hundred objects: at Python's own 700, a tenth of a handshake was garbage collection.
GC_THRESHOLD = (10_000, 20, 20)


def tokens(text: str) -> Iterator[str]:
    """The tokeniser, one token at a time: a long text is read in slices."""
    return (match[0] for match in TOKEN.finditer(text))


def _ids(seed: int | None, connection: int, request: int) -> Ids:
    if seed is None:
        return RandomIds()
    return SeededIds(seed, connection if request == 1 else f"{connection}.{request}")


def build(options: Options, biller: Biller = no_biller, stateless: bool = False) -> accept.Server:
    """Put a server together; it listens nowhere yet.

    Raises:
        ConfigError: the key variable is empty, or the trace folder cannot be written.
    """
    settings, timers, draining = options.settings(), Timers(options.grid), trio.Event()
    keys = accept.read_keys(options.api_key_env)
    model = ScriptedModel(options.speed, options.agent_turns, options.seed or 0)
    pipeline = Pipeline(
        model, tokens, stateless, options.classify_ns_per_byte * 1e-9, options.hops, options.hop_latency
    )
    ids = partial(_ids, options.seed)
    rooms = Rooms(settings, model, pipeline, MemoryStore(), timers, ids, draining, biller)
    dialects = [options.dialect] if options.dialect else []
    limits_told = {"lifetime": settings.lifetime}
    meta = {"profiles": sorted(settings.profiles), "limits": limits_told, "dialects": dialects}
    traces = TraceDir(options.trace, meta, keys) if options.trace else None
    limits = Limits(options.max_connections, max_message_bytes=options.max_message_bytes)
    return accept.Server(App(rooms), limits, keys, timers, traces, draining)


def _tls(options: Options) -> ssl.SSLContext | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise ConfigError("--tls-cert and --tls-key go together")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError:  # an SSLError is one too
        raise ConfigError("the certificate and its key cannot be read, or do not fit") from None
    return context


async def listen(server: accept.Server, options: Options) -> None:
    """Serve on the options' address until a signal, and say so when it is ready."""
    host, context = options.host, _tls(options)
    accept.check_host(host, server.keys)
    try:
        listeners = await accept.open_listeners(host, options.port, context)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}, port {options.port}: {error.strerror}") from None
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        inner = listeners[0] if context is None else listeners[0].transport_listener
        port, secure = inner.socket.getsockname()[1], "" if context is None else "s"
        host = f"[{host}]" if ":" in host else host
        gc.freeze()  # what is loaded by now stays: no full collection walks it again, which took 7 ms
        gc.set_threshold(*GC_THRESHOLD)
        print(f"serving http{secure}://{host}:{port}/v1 ws{secure}://{host}:{port}/v1/responses", flush=True)
        await drain.serve(server, listeners, signals, options.grace_seconds)


async def _serve(options: Options) -> None:
    await listen(build(options), options)


def serve(options: Options) -> int:
    """Serve until a signal; the exit code."""
    try:
        trio.run(_serve, options)
    except ConfigError as error:
        print(f"responses-ref serve: {error}", file=sys.stderr)
        return 2
    return 0
