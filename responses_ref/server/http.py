"""HTTP/1.1 on one connection: h11 parses and frames; this module reads, waits and writes.

Apps see a :class:`Request` and a :class:`Responder`; :class:`Http` behind them is the
connection, a request at a time.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import attrs
import h11
import trio

from responses_ref.protocol.errors import Problem, Refused, problem
from responses_ref.server.link import Link
from responses_ref.server.trace import Trace
from responses_ref.server.websocket import WebSocket

RESPONSES = "/v1/responses"
ALIASES = (RESPONSES, "/responses", "/openai/v1/responses", "/v1/codex/responses")
# Headers that are compared or computed with; in others, bytes beyond ASCII are nobody's business.
ASCII_HEADERS = (b"host", b"connection", b"upgrade", b"authorization", b"content-type", b"sec-websocket-")
DONE = {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}
REASONS = {status.value: status.phrase for status in HTTPStatus}  # a script may name others
Pairs = Iterable[tuple[str, str]]


class Headers(dict[str, str]):
    """Header fields, names in lower case, text as Latin-1; repeated ones are joined by commas."""


@attrs.define(eq=False)
class Request:
    """One request's head. ``tenant`` tells apart who may see whose responses.

    ``body`` reads the whole body; it raises Refused when that is too large, too late or no HTTP.
    """

    method: str  # a HEAD is shown as GET; its answer goes without the body
    path: str  # canonical: all aliases of the responses path are the same place
    query: str
    headers: Headers
    connection: int  # its number on this server
    ordinal: int  # the request's on that connection, from 1
    body: Callable[[], Awaitable[bytes]]
    tenant: int = 0


def refuse(code: str, headers: dict[str, str], **arguments: object) -> Refused:
    """A refusal that carries header fields."""
    return Refused(attrs.evolve(problem(code, **arguments), headers=headers))


def canonical(path: str) -> str:
    """The one name of a path (RWS-HS-025)."""
    for alias in ALIASES:
        if path == alias or path.startswith(alias + "/"):
            return RESPONSES + path[len(alias) :]
    return path


@attrs.define(eq=False)
class Http:
    """The plain side of one TCP connection."""

    link: Link
    over: bool = False  # no further request will come
    final: bool = False  # the answer on its way is the last one
    _wire: h11.Connection = attrs.field(init=False)
    _head: h11.Request | None = attrs.field(default=None, init=False)
    _body: bytes | None = attrs.field(default=None, init=False)
    _count: int = attrs.field(default=0, init=False)  # of requests so far
    _waiting: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._wire = h11.Connection(h11.SERVER, self.link.shell.limits.head_bytes)

    async def request(self) -> Request | None:
        """The next request's head; None when there will be none: then the connection is ``over``."""
        seconds = self.link.shell.limits.handshake_seconds  # RWS-HS-030
        if self._head is not None and not self.final and self._wire.states == DONE:
            self._wire.start_next_cycle()
            seconds, self._head, self._body = self.link.shell.limits.keepalive_seconds, None, None
        leaving = self.link.shell.draining.is_set() and not self.rest()
        if not self.final and self._head is None and not leaving:
            event = await self._await_head(trio.current_time() + seconds)
            if isinstance(event, h11.Request):
                self._head = event
                self._count += 1
                return self._request(event)
        self.over = True
        return None

    async def _await_head(self, deadline: float) -> Any:
        shell, key = self.link.shell, (self.link.number, "head")
        shell.timers.deadlines.set(key, deadline, self.link.abort, shell.nursery)
        self._waiting = True
        try:
            if not self.rest():  # h11 has nothing to look for yet
                self._wire.receive_data(await self.link.receive(self.link.shell.limits.head_bytes + 1))
            return await self._event()
        finally:
            self._waiting = False
            shell.timers.deadlines.clear(key)

    def _request(self, head: h11.Request) -> Request:
        if head.http_version not in (b"1.0", b"1.1"):
            raise Refused(problem("bad_request", why="its version is not spoken here"))
        headers = Headers()
        for raw, value in head.headers.raw_items():
            key = raw.lower()
            if not value.isascii() and key.startswith(ASCII_HEADERS):
                raise Refused(problem("bad_request", why=f"the header {key.decode()} is not ASCII"))
            name, text = key.decode("ascii"), value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        if {"content-length", "transfer-encoding"} <= headers.keys():  # a second request may hide in it
            raise Refused(problem("bad_request", why="it says its length in two ways"))
        if head.http_version == b"1.0":
            headers.pop("upgrade", None)  # RFC 9110, 7.8
        target, method = head.target.decode("ascii"), head.method.decode("ascii")
        if not target.startswith("/"):  # the absolute form, which a proxy may send
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")  # RWS-HS-007
        if method == "HEAD" and "upgrade" not in headers:
            method = "GET"
        number, ordinal = self.link.number, self._count
        return Request(method, canonical(path), query, headers, number, ordinal, self.body)

    async def body(self) -> bytes:
        """The request's body."""
        if self._body is None:
            with trio.move_on_after(self.link.shell.limits.body_seconds):
                self._body = await self._read_body(self.link.shell.limits.max_message_bytes)
        if self._body is None:
            late = problem("bad_request", why="its body did not arrive in time")
            raise Refused(attrs.evolve(late, status=408))
        return self._body

    async def _read_body(self, limit: int) -> bytes:
        declared = dict(self._head.headers if self._head else ()).get(b"content-length", b"0")
        too_large = Refused(problem("request_body_too_large", limit=limit))  # RWS-HTTP-024
        if int(declared) > limit:
            raise too_large
        if self._wire.they_are_waiting_for_100_continue:
            await self.send(self._wire.send(h11.InformationalResponse(status_code=100, headers=[])))
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            await trio.lowlevel.checkpoint()  # many small chunks may come in one read
            body += event.data
            if len(body) > limit:
                raise too_large
        return bytes(body)

    async def _event(self) -> Any:
        """The next event of the request; an unfinished head may hold ``head_bytes``, not more."""
        limit = self.link.shell.limits.head_bytes
        try:
            while (event := self._wire.next_event()) is h11.NEED_DATA:
                self._wire.receive_data(await self.link.receive(limit + 1 - len(self.rest())))
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:  # RWS-HS-027
                raise Refused(problem("request_head_too_large", limit=limit)) from None
            raise Refused(problem("bad_request", why="it cannot be parsed")) from None
        return event

    def rest(self) -> bytes:
        """What has come and is not parsed yet."""
        return self._wire.trailing_data[0]

    def start(self, status: int, headers: Pairs) -> bytes:
        """The head of the answer. What has not come of the request's body costs the connection."""
        with suppress(h11.RemoteProtocolError):
            while isinstance(self._wire.next_event(), h11.Data):
                pass
        unread = self._wire.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR)
        self.final = self.final or unread or self.link.shell.draining.is_set()
        self._log_request()
        fields = [*headers, ("connection", "close")] if self.final else headers
        reason = REASONS.get(status, "").encode()
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in fields]
        return self._wire.send(h11.Response(status_code=status, headers=pairs, reason=reason))

    def switch(self, headers: Pairs) -> WebSocket:
        """Say 101 and leave HTTP; what has come behind the request are frames already."""
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
        head = f"HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n".encode("latin-1")
        self._log_request()
        self.log_answer(head)
        self.link.send(head)
        socket = WebSocket(self.link)
        if rest := self.rest():
            socket.feed(rest)
        return socket

    def chunk(self, data: bytes) -> bytes:
        """A part of the answer's body, framed; nothing when only the head was asked for."""
        head_only = self._head is not None and self._head.method == b"HEAD"
        return b"" if head_only else self._wire.send(h11.Data(data=data))

    def end(self) -> bytes:
        """The end of the answer."""
        return self._wire.send(h11.EndOfMessage())

    async def send(self, data: bytes) -> None:
        """Send a part of the answer and wait until it has left, or cannot."""
        self.link.send(data)
        await trio.lowlevel.checkpoint()  # many requests may come in one read
        await self.link.flushed()

    def _log_request(self) -> None:
        if self.link.trace is not None and (head := self._head) is not None:
            line = b"%b %b HTTP/%b" % (head.method, head.target, head.http_version)
            fields = [name + b": " + value for name, value in head.headers]
            self.link.trace.http("c2s", b"\r\n".join([line, *fields, b"", b""]), self._body or b"")

    def log_answer(self, head: bytes, body: bytes = b"") -> None:
        """Write the answer into the trace."""
        if self.link.trace is not None:
            self.link.trace.http("s2c", head, body)

    @asynccontextmanager
    async def while_connected(self) -> AsyncIterator[None]:
        """Cancel the block when the client goes away."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            yield
            nursery.cancel_scope.cancel()

    async def _watch(self, block: trio.CancelScope) -> None:
        """Keep reading: requests sent ahead wait in h11, and only a read notices the end."""
        while len(self.rest()) <= self.link.shell.limits.head_bytes:
            data = await self.link.receive()
            self._wire.receive_data(data)
            if not data:
                self.over = True
                block.cancel()
                return

    async def finish(self) -> None:
        """After the last answer shut our end and wait for theirs: a reset could overtake it."""
        await self.link.flushed()
        if self.final:
            with trio.move_on_after(self.link.shell.limits.close_seconds):
                await self.link.half_close()
                while await self.link.receive():
                    pass

    def drain(self) -> None:
        """End the wait for a next request."""
        if self._waiting:
            self.link.abort()


@attrs.define(eq=False)
class EventStream:
    """An answer whose body comes in pieces; sent as on a WebSocket."""

    _http: Http

    def send(self, data: bytes) -> None:
        """Send whole events; never waits."""
        if self._http.link.trace is not None:
            for event in data.split(b"\n\n")[:-1]:
                self._http.link.trace.http("s2c", None, event + b"\n\n")
        self._http.link.send(self._http.chunk(data))

    async def drained(self) -> None:
        """Wait until the outbox is below its low-water mark, or the client is gone."""
        await trio.lowlevel.checkpoint()
        while self._http.link.congested:
            await self._http.link.moved()


@attrs.define(eq=False)
class Responder:
    """The answer to one request: ``json``, ``problem`` or ``stream``, once."""

    _http: Http
    started: bool = attrs.field(default=False, init=False)

    @property
    def trace(self) -> Trace | None:
        """The connection's record, if one is kept."""
        return self._http.link.trace

    def while_connected(self) -> AbstractAsyncContextManager[None]:
        """A block that is cancelled when the client goes away."""
        return self._http.while_connected()

    async def json(self, status: int, body: object, headers: Pairs = ()) -> None:
        """Answer with a JSON body; bytes are taken as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = [("content-type", "application/json"), ("content-length", str(len(data))), *headers]
        self.started = True
        head = self._http.start(status, fields)
        self._http.log_answer(head, data)
        await self._http.send(head + self._http.chunk(data) + self._http.end())

    async def problem(self, problem: Problem) -> None:
        """Answer with an error in its JSON shape (RWS-HS-004, RWS-HTTP-007)."""
        error = {name: getattr(problem, name) for name in ("type", "code", "message", "param")}
        await self.json(problem.status, {"error": error}, (problem.headers or {}).items())

    @asynccontextmanager
    async def stream(self, status: int = 200, headers: Pairs = ()) -> AsyncIterator[EventStream]:
        """Answer with a stream of events. The block is cancelled when the client goes away.

        An exception in it cuts the connection without the last chunk.
        """
        self.started = True
        fields = [("content-type", "text/event-stream"), ("cache-control", "no-cache"), *headers]
        head, events = self._http.start(status, fields), EventStream(self._http)
        self._http.log_answer(head, b"")
        async with self._http.while_connected():
            self._http.link.send(head)
            yield events
            await self._http.send(self._http.end())  # RWS-HTTP-027
