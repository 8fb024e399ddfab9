"""HTTP/1.1 on one connection: h11 parses and frames; this module reads, waits and writes.

Apps see a :class:`Request` and a :class:`Responder`; :class:`Http` behind them is the
connection, a request at a time.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import attrs
import h11
import trio

from responses_ref.protocol.errors import Problem, Refused, problem
from responses_ref.server.outbox import READ_BYTES, Outbox, half_close
from responses_ref.server.trace import Trace

RESPONSES = "/v1/responses"
ALIASES = (RESPONSES, "/responses", "/openai/v1/responses", "/v1/codex/responses")
# Headers that are compared or computed with; in others, bytes beyond ASCII are nobody's business.
ASCII_HEADERS = (b"host", b"connection", b"upgrade", b"authorization", b"content-type", b"sec-websocket-")
DONE = {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}
Pairs = Iterable[tuple[str, str]]


@attrs.frozen
class Headers:
    """Header fields in the order they came: names in lower case, text as Latin-1."""

    raw: tuple[tuple[bytes, bytes], ...]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self.raw)

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self if key == name]

    def get(self, name: str, default: str = "") -> str:
        """The first value of a header."""
        return next(iter(self.all(name)), default)

    def tokens(self, name: str) -> set[str]:
        """The comma-separated words of a header, in lower case."""
        return {word.strip().lower() for value in self.all(name) for word in value.split(",")}


@attrs.frozen
class Request:
    """One request's head. ``tenant`` tells apart who may see whose responses."""

    method: str  # a HEAD is shown as GET; its answer goes without the body
    path: str  # canonical: all aliases of the responses path are the same place
    query: str
    headers: Headers
    connection: int
    remote: str
    _http: Http
    tenant: int = 0

    async def body(self) -> bytes:
        """Read the whole body; raises Refused when it is too large, too late or no HTTP."""
        return await self._http.body()


def canonical(path: str) -> str:
    """The one name of a path."""
    for alias in ALIASES:
        if path == alias or path.startswith(alias + "/"):
            return RESPONSES + path[len(alias) :]
    return path


@attrs.define(eq=False)
class Http:
    """The plain side of one TCP connection."""

    out: Outbox
    number: int
    remote: str
    draining: trio.Event
    trace: Trace | None = None
    over: bool = False  # no further request will come
    final: bool = False  # the answer on its way is the last one
    _wire: h11.Connection = attrs.field(init=False)
    _head: h11.Request | None = attrs.field(default=None, init=False)
    _body: bytes | None = attrs.field(default=None, init=False)
    _waiting: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self._wire = h11.Connection(h11.SERVER, self.out.limits.head_bytes)

    async def request(self) -> Request | None:
        """The next request's head; None when there will be none: then the connection is ``over``."""
        seconds = self.out.limits.handshake_seconds
        if self._head is not None and not self.final and self._wire.states == DONE:
            self._wire.start_next_cycle()
            seconds, self._head, self._body = self.out.limits.keepalive_seconds, None, None
        if not self.final and self._head is None:
            with trio.move_on_after(seconds) as self._waiting:
                event = await self._event()
                if isinstance(event, h11.Request):
                    self._head = event
                    return self._request(event)
        self.over = True
        return None

    def _request(self, head: h11.Request) -> Request:
        headers = Headers(tuple((bytes(name), bytes(value)) for name, value in head.headers))
        for name, value in headers.raw:
            if not value.isascii() and name.startswith(ASCII_HEADERS):
                raise Refused(problem("bad_request", why=f"the header {name.decode()} is not ASCII"))
        target, method = head.target.decode("ascii"), head.method.decode("ascii")
        if not target.startswith("/"):  # the absolute form, which a proxy may send
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        if method == "HEAD" and not headers.get("upgrade"):
            method = "GET"
        return Request(method, canonical(path), query, headers, self.number, self.remote, self)

    async def body(self) -> bytes:
        """The request's body."""
        if self._body is None:
            with trio.move_on_after(self.out.limits.body_seconds):
                self._body = await self._read_body(self.out.limits.max_message_bytes)
        if self._body is None:
            late = problem("bad_request", why="its body did not arrive in time")
            raise Refused(attrs.evolve(late, status=408))
        return self._body

    async def _read_body(self, limit: int) -> bytes:
        declared = dict(self._head.headers if self._head else ()).get(b"content-length", b"0")
        too_large = Refused(problem("request_body_too_large", limit=limit))
        if int(declared) > limit:
            raise too_large
        if self._wire.they_are_waiting_for_100_continue:
            await self.send(self._wire.send(h11.InformationalResponse(status_code=100, headers=[])))
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > limit:
                raise too_large
        return bytes(body)

    async def _event(self) -> Any:
        """The next event of the request; an unfinished head may hold ``head_bytes``, not more."""
        await trio.lowlevel.checkpoint()  # many small chunks may come in one read
        limit = self.out.limits.head_bytes
        try:
            while (event := self._wire.next_event()) is h11.NEED_DATA:
                self._wire.receive_data(await self.receive(limit + 1 - len(self.rest())))
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                raise Refused(problem("request_head_too_large", limit=limit)) from None
            raise Refused(problem("bad_request", why="it cannot be parsed")) from None
        return event

    async def receive(self, size: int) -> bytes:
        """Read some bytes; none at the end, however it came."""
        reset = False
        try:
            data = await self.out.stream.receive_some(size)
        except trio.ClosedResourceError:
            return b""
        except trio.BrokenResourceError:
            data, reset = b"", True
        if not data and self.trace is not None:
            self.trace.eof(reset)
        return bytes(data)

    def rest(self) -> bytes:
        """What has come and is not parsed yet."""
        return self._wire.trailing_data[0]

    def start(self, status: int, headers: Pairs) -> bytes:
        """The head of the answer. What has not come of the request's body costs the connection."""
        with suppress(h11.RemoteProtocolError):
            while isinstance(self._wire.next_event(), h11.Data):
                pass
        unread = self._wire.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR)
        self.final = self.final or unread or self.draining.is_set()
        self.log_request()
        fields = [*headers, ("connection", "close")] if self.final else headers
        reason = HTTPStatus(status).phrase.encode()
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in fields]
        return self._wire.send(h11.Response(status_code=status, headers=pairs, reason=reason))

    def chunk(self, data: bytes) -> bytes:
        """A part of the answer's body, framed; nothing when only the head was asked for."""
        head_only = self._head is not None and self._head.method == b"HEAD"
        return b"" if head_only else self._wire.send(h11.Data(data=data))

    def end(self) -> bytes:
        """The end of the answer."""
        return self._wire.send(h11.EndOfMessage())

    async def send(self, data: bytes) -> None:
        """Send a part of the answer and wait until it has left, or cannot."""
        self.out.send(data)
        await self.out.flushed()

    def log_request(self) -> None:
        """Write the request into the trace."""
        if self.trace is not None and (head := self._head) is not None:
            line = b"%b %b HTTP/%b" % (head.method, head.target, head.http_version)
            fields = [name + b": " + value for name, value in head.headers]
            self.trace.http("c2s", b"\r\n".join([line, *fields, b"", b""]), self._body or b"")

    @asynccontextmanager
    async def while_connected(self) -> AsyncIterator[None]:
        """Cancel the block when the client goes away."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            yield
            nursery.cancel_scope.cancel()

    async def _watch(self, block: trio.CancelScope) -> None:
        """Keep reading: requests sent ahead wait in h11, and only a read notices the end."""
        while len(self.rest()) <= self.out.limits.head_bytes:
            data = await self.receive(READ_BYTES)
            self._wire.receive_data(data)
            if not data:
                self.over = True
                block.cancel()
                return

    async def finish(self) -> None:
        """After the last answer shut our end and wait for theirs: a reset could overtake it."""
        if self.final:
            with trio.move_on_after(self.out.limits.close_seconds):
                await half_close(self.out.stream)
                while await self.receive(READ_BYTES):
                    pass

    def drain(self) -> None:
        """End the wait for a next request."""
        self._waiting.cancel()


@attrs.define(eq=False)
class EventStream:
    """An answer whose body comes in pieces; sent as on a WebSocket."""

    _http: Http
    _sent: list[bytes] = attrs.field(factory=list, init=False)  # for the trace

    @property
    def gone(self) -> bool:
        """Whether the client went away before the end."""
        return self._http.over or self._http.out.gone

    def send(self, data: bytes) -> None:
        """Send some bytes of the body; never waits."""
        if self._http.trace is not None:
            self._sent.append(data)
        self._http.out.send(self._http.chunk(data))

    async def drained(self) -> None:
        """Wait until the outbox is below its low-water mark, or the client is gone."""
        await trio.lowlevel.checkpoint()
        while self._http.out.congested:
            await self._http.out.moved()

    def log(self, head: bytes) -> None:
        """Write the whole answer into the trace."""
        if self._http.trace is not None:
            self._http.trace.http("s2c", head, b"".join(self._sent))


@attrs.define(eq=False)
class Responder:
    """The answer to one request: ``json``, ``problem`` or ``stream``, once."""

    _http: Http
    started: bool = attrs.field(default=False, init=False)

    @property
    def trace(self) -> Trace | None:
        """The connection's trace, if it has one."""
        return self._http.trace

    def while_connected(self) -> AbstractAsyncContextManager[None]:
        """A block that is cancelled when the client goes away."""
        return self._http.while_connected()

    async def json(self, status: int, body: object, headers: Pairs = ()) -> None:
        """Answer with a JSON body; bytes are taken as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = [("content-type", "application/json"), ("content-length", str(len(data))), *headers]
        self.started = True
        head = self._http.start(status, fields)
        if self.trace is not None:
            self.trace.http("s2c", head, data)
        await self._http.send(head + self._http.chunk(data) + self._http.end())

    async def problem(self, problem: Problem) -> None:
        """Answer with an error in its JSON shape."""
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
        try:
            async with self._http.while_connected():
                self._http.out.send(head)
                yield events
                await self._http.send(self._http.end())
        finally:
            events.log(head)
