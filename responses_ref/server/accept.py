"""The server around its connections: who may come in, what they become, and the firewall.

Each stream is one task.  h11 reads its requests and ``app.http`` answers them, until the
connection ends or one of them asks for an upgrade; then ``app.websocket`` has it, in a
nursery of its own.  What must still be written after a crash (the rest of the outbox, a
Close) is the affair of tasks in the server's nursery, which end with the stream.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import attrs
import trio
from wsproto.utilities import generate_accept_token

from responses_ref.protocol.errors import Refused, problem
from responses_ref.server.http import RESPONSES, Headers, Http, Request, Responder, refuse
from responses_ref.server.limits import ConfigError, Limits, Stats
from responses_ref.server.link import Link
from responses_ref.server.timer import Timers
from responses_ref.server.trace import TraceDir
from responses_ref.server.websocket import CRASHED, NORMAL, WebSocket

log = logging.getLogger("responses_ref")
TURN_STATE = "x-codex-turn-state"
KEY = re.compile("[A-Za-z0-9+/]{22}==")  # 16 bytes in base64
END, CRASH = (NORMAL, ""), (CRASHED, "internal error")  # RWS-CLS-014
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
T = TypeVar("T")
Upgraded = tuple[WebSocket, list[Request]]  # a list, so that whoever takes its one request can drop it
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
    if port == 0:  # each address of a name has got a port of its own: the first one stays
        listeners, others = listeners[:1], listeners[1:]
        for listener in others:
            await listener.aclose()
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


def wants_websocket(headers: Headers) -> bool:
    """Whether the client asks to leave HTTP."""
    upgrade, connection = headers.get("upgrade", "").lower(), headers.get("connection", "").lower()
    return "websocket" in upgrade and "upgrade" in connection


def answer_upgrade(request: Request) -> list[tuple[str, str]]:
    """The headers of the 101; Refused when the request is no proper upgrade (RWS-HS-001)."""
    headers, body = request.headers, {"content-length", "transfer-encoding"} & request.headers.keys()
    if request.method != "GET":  # RWS-HS-026
        raise refuse("method_not_allowed", {"Allow": "GET, POST"}, method=request.method[:32])
    if not wants_websocket(headers) or headers.get("sec-websocket-version") != "13":
        raise refuse("upgrade_required", UPGRADE)  # RWS-HS-015, RWS-HS-016, RWS-HS-017
    key = headers.get("sec-websocket-key", "")
    if not KEY.fullmatch(key) or (body and headers.get("content-length") != "0"):
        raise Refused(problem("bad_request", why="its upgrade is malformed"))  # RWS-HS-018
    accept = ("Sec-WebSocket-Accept", generate_accept_token(key.encode()).decode())
    echo = [(TURN_STATE, headers[TURN_STATE])] if TURN_STATE in headers else []
    # No subprotocol and no extension: RWS-HS-010, RWS-HS-013.
    return [("Upgrade", "websocket"), ("Connection", "Upgrade"), accept, *echo]


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
    nursery: trio.Nursery = attrs.field(init=False)  # while running
    _left: trio.Event = attrs.field(factory=trio.Event, init=False)  # set when a connection ends

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Nursery]:
        """Run the timers, and what is started in the nursery, until the block ends."""
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self.timers.run)
            if self.traces is not None:
                self.nursery.start_soon(self.traces.run)
            yield self.nursery
            self.nursery.cancel_scope.cancel()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Everything for one TCP, TLS or in-memory stream; no exception of it gets out."""
        self.stats.accepted += 1
        self.stats.open += 1
        try:
            await self._guard(self.stats.accepted, self._connection, stream, self.stats.accepted)
        finally:
            self.stats.open -= 1
            self._left.set()
            await trio.aclose_forcefully(stream)

    def drain(self) -> None:
        """Let idle connections go now and the others when they are done (RWS-CLS-008, RWS-CLS-009)."""
        self.draining.set()
        for peer in self._peers:
            peer.drain()

    async def empty(self) -> None:
        """Wait until no connection is open."""
        while self.stats.open:
            self._left = trio.Event()
            await self._left.wait()

    async def _guard(self, number: int, work: Callable[..., Awaitable[T]], *args: Any) -> T | None:
        """The firewall: an exception of one connection ends here, and only that connection (RWS-HS-029)."""
        try:
            return await work(*args)
        except* Exception as group:
            self.stats.crashed += 1
            for leaf in leaves(group):
                log.error("connection %d crashed", number, exc_info=leaf)
        return None

    def spawn(self, number: int, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Start a task for a connection that outlives a crash of it, but not its stream."""
        self.nursery.start_soon(self._guard, number, work, *args)

    async def _connection(self, stream: trio.abc.Stream, number: int) -> None:
        link = Link(stream, number, self)
        if self.traces is not None:
            link.trace = self.traces.open(number)
        try:
            upgraded = await self._requests(Http(link))
            if upgraded is not None:
                sane = await self._guard(number, self._converse, *upgraded)
                await upgraded[0].close(*(END if sane else CRASH))
        finally:
            if self.traces is not None:
                self.traces.end(number)

    async def _requests(self, http: Http) -> Upgraded | None:
        """Answer plain requests until there are no more, or one is upgraded."""
        upgraded = None
        self._peers.add(http)
        try:
            if self.stats.open > self.limits.max_connections:
                await self._turn_away(http)
            while not http.over and upgraded is None:
                respond = Responder(http)
                upgraded = await self._guard(http.link.number, self._answer, http, respond)
                if not (respond.started or upgraded or http.over):
                    await respond.problem(problem("server_error"))
            if upgraded is None:  # else the 101 may still be on its way, and nobody waits for that
                await http.finish()
        finally:
            self._peers.discard(http)
        return upgraded

    async def _turn_away(self, http: Http) -> None:
        self.stats.refused += 1
        http.over = True
        if self.stats.open <= self.limits.max_connections + self.limits.overflow_connections:
            await Responder(http).problem(problem("too_many_connections"))  # RWS-LIM-019

    async def _answer(self, http: Http, respond: Responder) -> Upgraded | None:
        try:
            request = await http.request()
            if request is not None:
                request.tenant = self._tenant(request)
                asks = request.method == "GET" or wants_websocket(request.headers)
                if request.path == RESPONSES and asks:
                    if self.draining.is_set():
                        raise Refused(problem("server_shutting_down"))
                    return http.switch(answer_upgrade(request)), [request]
                await self.app.http(request, respond)
        except* Refused as group:
            self.stats.refused += 1
            for leaf in leaves(group):
                if isinstance(leaf, Refused) and not respond.started:
                    http.final |= leaf.problem.code == "bad_request"  # RWS-HS-027
                    await respond.problem(leaf.problem)
        return None

    def _tenant(self, request: Request) -> int:
        """Whose key it is. All keys are compared, each in constant time."""
        if not self.keys:
            return 0
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in self.keys]
        if scheme.lower() == "bearer" and any(same):  # RWS-HS-002, RWS-HTTP-021
            return same.index(True)
        if request.path != "/healthz":  # RWS-HTTP-020
            raise refuse("invalid_api_key", {"WWW-Authenticate": "Bearer"})  # RWS-HS-003, RWS-HS-005
        return 0

    async def _converse(self, socket: WebSocket, request: list[Request]) -> bool:
        async with trio.open_nursery() as socket.nursery:
            self._peers.add(socket)
            try:
                await self.app.websocket(socket, request.pop())  # an idle connection need not keep it
            finally:
                self._peers.discard(socket)
            socket.nursery.cancel_scope.cancel()
        return True
