"""The server around its connections: who may come in, what they become, and the firewall.

Each TCP stream is one task of the handlers' nursery and owns one nursery, in which its
writer lives.  h11 reads its first request; plain requests go to ``app.http`` until the
connection ends or one of them asks for an upgrade, then ``app.websocket`` has it.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import logging
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import attrs
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection
from wsproto.utilities import RemoteProtocolError

from responses_ref.protocol.errors import OVERLOADED, Problem, Refused, problem
from responses_ref.server.http import RESPONSES, Headers, Http, Request, Responder
from responses_ref.server.limits import ConfigError as ConfigError
from responses_ref.server.limits import Limits, Stats
from responses_ref.server.outbox import Outbox
from responses_ref.server.timer import Timers
from responses_ref.server.trace import TraceDir
from responses_ref.server.websocket import CRASHED, NORMAL, WebSocket

log = logging.getLogger("responses_ref")
TURN_STATE = b"x-codex-turn-state"
END, CRASH = (NORMAL, ""), (CRASHED, "internal error")
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
T = TypeVar("T")
Upgraded = tuple[WebSocket, Request]
Listeners = list[Any]  # of trio.SocketListener or, with TLS, trio.SSLListener


class App(Protocol):
    """What the shell calls; both run inside the connection's firewall."""

    async def websocket(self, socket: WebSocket, request: Request) -> None:
        """Run one connection; whatever it leaves in ``socket.nursery`` is cancelled after it."""

    async def http(self, request: Request, respond: Responder) -> None:
        """Answer one request; ``Refused`` is answered as it says."""


def read_keys(variable: str | None) -> tuple[str, ...]:
    """The keys in an environment variable, separated by commas; none asked for, none needed."""
    if variable is None:
        return ()
    keys = tuple(key.strip() for key in os.environ.get(variable, "").split(",") if key.strip())
    if not keys or not all(key.isascii() for key in keys):
        raise ConfigError(f"the environment variable {variable} holds no key, or one that is not ASCII")
    return keys


def check_host(host: str, keys: Sequence[str]) -> None:
    """Without keys anybody may come in, so only this machine may."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback and not keys:
        raise ConfigError(f"without an API key only a loopback address may be served, not {host or 'all'}")


async def open_listeners(host: str, port: int, context: ssl.SSLContext | None = None) -> Listeners:
    """Listen on one port, with TLS if a context is given."""
    listeners = await trio.open_tcp_listeners(port, host=host)
    if context is None:
        return listeners
    return [trio.SSLListener(listener, context, https_compatible=True) for listener in listeners]


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions themselves, out of all groups around them."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def remote(stream: trio.abc.Stream) -> str:
    """The peer's address, where the stream has one."""
    inner = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    try:
        return str(inner.socket.getpeername()[0]) if isinstance(inner, trio.SocketStream) else "memory"
    except OSError:
        return "gone"


def wants_websocket(headers: Headers) -> bool:
    """Whether the client asks to leave HTTP."""
    return "websocket" in headers.tokens("upgrade") and "upgrade" in headers.tokens("connection")


def refuse(code: str, headers: dict[str, str], **arguments: object) -> Refused:
    """A refusal that carries header fields."""
    return Refused(attrs.evolve(problem(code, **arguments), headers=headers))


def switch(request: Request) -> tuple[bytes, Any]:
    """The 101 and wsproto's open connection; Refused when the request is no proper upgrade."""
    headers = request.headers
    if request.method != "GET":
        raise refuse("method_not_allowed", {"Allow": "GET, POST"}, method=request.method[:32])
    if not wants_websocket(headers) or headers.get("sec-websocket-version") != "13":
        raise refuse("upgrade_required", UPGRADE)
    wire = WSConnection(ConnectionType.SERVER)
    try:
        if len(base64.b64decode(headers.get("sec-websocket-key"), validate=True)) != 16:
            raise ValueError
        wire.initiate_upgrade_connection(list(headers.raw), request.path)
    except (RemoteProtocolError, ValueError):
        raise Refused(problem("bad_request", why="its upgrade is malformed")) from None
    echo = [(name, value) for name, value in headers.raw if name == TURN_STATE]
    return wire.send(AcceptConnection(extra_headers=echo)), wire.connection


@attrs.define(eq=False)
class Server:
    """Everything that the connections of one server share."""

    app: App
    limits: Limits = attrs.field(factory=Limits)
    keys: tuple[str, ...] = ()
    timers: Timers = attrs.field(factory=Timers)
    traces: TraceDir | None = None
    draining: trio.Event = attrs.field(factory=trio.Event)
    stats: Stats = attrs.field(factory=Stats)
    _peers: set[Http | WebSocket] = attrs.field(factory=set, init=False)
    _left: trio.Event = attrs.field(factory=trio.Event, init=False)  # set when a connection ends

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Nursery]:
        """Run the timers, and what is started in the nursery, until the block ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.timers.run)
            if self.traces is not None:
                nursery.start_soon(self.traces.run)
            yield nursery
            nursery.cancel_scope.cancel()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Everything for one TCP, TLS or in-memory stream; no exception of it gets out."""
        self.stats.accepted += 1
        self.stats.open += 1
        number = self.stats.accepted
        try:
            await self._guard(number, self._connection, stream, number)
        finally:
            self.stats.open -= 1
            self._left.set()
            await trio.aclose_forcefully(stream)

    def drain(self) -> None:
        """Let idle connections go now and the others when they are done."""
        self.draining.set()
        for peer in self._peers:
            peer.drain()

    async def empty(self) -> None:
        """Wait until no connection is open."""
        while self.stats.open:
            self._left = trio.Event()
            await self._left.wait()

    async def _guard(self, number: int, work: Callable[..., Awaitable[T]], *args: Any) -> T | None:
        """The firewall: an exception of one connection ends here, and only that connection with it."""
        try:
            return await work(*args)
        except* Exception as group:
            self.stats.crashed += 1
            for leaf in leaves(group):
                log.error("connection %d crashed", number, exc_info=leaf)
        return None

    async def _connection(self, stream: trio.abc.Stream, number: int) -> None:
        trace = self.traces.open(number) if self.traces is not None else None
        try:
            async with trio.open_nursery() as nursery:
                out = Outbox(stream, nursery, self.limits, self.stats)
                upgraded = await self._requests(Http(out, number, remote(stream), self.draining, trace))
                if upgraded is not None:
                    sane = await self._guard(number, self._converse, *upgraded)
                    await upgraded[0].close(*(END if sane else CRASH))
                nursery.cancel_scope.cancel()
        finally:
            if trace is not None and self.traces is not None:
                self.traces.end(trace)

    async def _requests(self, http: Http) -> Upgraded | None:
        """Answer plain requests until there are no more, or one is upgraded."""
        upgraded = None
        self._peers.add(http)
        try:
            if self.stats.open > self.limits.max_connections:
                await self._turn_away(http)
            while upgraded is None and not http.over:
                respond = Responder(http)
                upgraded = await self._guard(http.number, self._answer, http, respond)
                if not (respond.started or upgraded or http.over):
                    await respond.problem(problem("server_error"))
            await http.finish()
        finally:
            self._peers.discard(http)
        return upgraded

    async def _turn_away(self, http: Http) -> None:
        self.stats.refused += 1
        http.over = True
        if self.stats.open <= self.limits.max_connections + self.limits.overflow_connections:
            full = Problem(503, OVERLOADED, "too_many_connections", "The server is full. Please try again.")
            await Responder(http).problem(attrs.evolve(full, headers={"retry-after": "1"}))

    async def _answer(self, http: Http, respond: Responder) -> Upgraded | None:
        try:
            request = await http.request()
            if request is not None:
                request = attrs.evolve(request, tenant=self._tenant(request))
                asks = request.method == "GET" or wants_websocket(request.headers)
                if request.path == RESPONSES and asks:
                    return await self._upgrade(http, request), request
                await self.app.http(request, respond)
        except* Refused as group:
            self.stats.refused += 1
            for leaf in leaves(group):
                if isinstance(leaf, Refused) and not respond.started:
                    await respond.problem(leaf.problem)
        return None

    def _tenant(self, request: Request) -> int:
        """Whose key it is. All keys are compared, each in constant time."""
        scheme, _, given = request.headers.get("authorization").partition(" ")
        same = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in self.keys]
        if scheme.lower() == "bearer" and any(same):
            return same.index(True)
        if self.keys and request.path != "/healthz":
            raise refuse("invalid_api_key", {"WWW-Authenticate": "Bearer"})
        return 0

    async def _upgrade(self, http: Http, request: Request) -> WebSocket:
        if await request.body():
            raise Refused(problem("bad_request", why="an upgrade has no body"))
        if self.draining.is_set():
            raise Refused(problem("server_shutting_down"))
        head, wire = switch(request)
        if http.trace is not None:
            http.log_request()
            http.trace.http("s2c", head)
        await http.send(head)
        wire.receive_data(http.rest())  # a client need not, but may, have sent frames already
        return WebSocket(http.number, http.out, wire, http.trace)

    async def _converse(self, socket: WebSocket, request: Request) -> bool:
        async with trio.open_nursery() as socket.nursery:
            self._peers.add(socket)
            try:
                await self.app.websocket(socket, request)
            finally:
                self._peers.discard(socket)
            socket.nursery.cancel_scope.cancel()
        return True
