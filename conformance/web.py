"""Plain HTTP as the suite speaks it: h11 over a stream, answers with their heads recorded, SSE."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs
import h11
import trio

from conformance.target import Endpoint, Unreachable
from conformance.trace import Recorder, redact

HEAD_LIMIT: Final = 256 * 1024
Headers = list[tuple[str, str]]


class BadAnswer(Exception):
    """What came is no HTTP answer, or it ended too early; the text says which."""


@attrs.frozen
class Head:
    """Status and headers of an answer; header names in lower case, repeated ones joined by a comma."""

    status: int
    headers: dict[str, str]


def request_headers(endpoint: Endpoint, options: dict[str, Any], standard: Headers) -> Headers:
    """The headers of a request: the standard ones, the key, and what ``options`` says (section 3.3)."""
    headers = [("Host", endpoint.host), *standard]
    key = _key(endpoint, options.get("auth", True))
    if key:
        headers.append(("Authorization", f"Bearer {key}"))
    for name, value in options.get("headers", {}).items():
        headers = [(key, kept) for key, kept in headers if key.lower() != name.lower()]
        if value is not None:
            headers += [(name, str(one)) for one in (value if isinstance(value, list) else [value])]
    return headers


def _key(endpoint: Endpoint, auth: Any) -> str | None:
    if auth == "wrong":
        return "wrong-key"
    if auth == "other":
        if endpoint.other_key is None:
            raise Unreachable("the case needs a second API key (two keys, joined by a comma)")
        return endpoint.other_key
    return endpoint.key if auth else None


def request_head(method: str, path: str, headers: Headers) -> str:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines) + "\r\n\r\n"


class Exchange:
    """The client's side of one HTTP/1.1 connection. Requests are written as text, answers read by h11."""

    def __init__(self, name: str, stream: trio.abc.Stream, recorder: Recorder) -> None:
        self.name, self.stream, self.recorder = name, stream, recorder
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
        self.head_record = -1
        self._sse = ""
        self._ended = self._closed = False

    async def send(self, head: str, body: bytes = b"") -> None:
        """Write a request. A connection that is already broken shows in the answer, not here."""
        text = body.decode("utf-8", "surrogateescape")
        self.recorder.add(self.name, "c2s", "http", head=redact(head), body=text)
        try:
            await self.stream.send_all(head.encode("utf-8", "surrogateescape") + body)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    def expect_answer(self, *, upgrade: bool, method: str = "GET") -> None:
        """Tell h11 what was asked, so that it reads the answer rightly; what was really sent may differ."""
        headers = [("host", "x")]
        if upgrade:
            headers += [("connection", "upgrade"), ("upgrade", "websocket")]
        self._h11.send(h11.Request(method="HEAD" if method == "HEAD" else "GET", target="/", headers=headers))
        self._h11.send(h11.EndOfMessage())

    def reusable(self) -> bool:
        """Begin a new exchange on the connection if it was kept alive."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self._sse, self._ended = "", False
            return True
        return False

    async def head(self) -> Head:
        """Status and headers of the answer; raises `BadAnswer`."""
        while True:
            event = await self._event()
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                continue
            if not isinstance(event, h11.Response | h11.InformationalResponse):
                raise BadAnswer("the connection ended without an answer")
            return self._head(event)

    def _head(self, event: h11.Response | h11.InformationalResponse) -> Head:
        joined: dict[str, str] = {}
        for raw_name, raw_value in event.headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        reason = bytes(event.reason).decode("latin-1")
        lines = [f"HTTP/1.1 {event.status_code} {reason}".rstrip()]
        lines += [f"{name}: {value}" for name, value in joined.items()]
        head = redact("\r\n".join(lines) + "\r\n\r\n")
        self.head_record = self.recorder.add(self.name, "s2c", "http", head=head)
        return Head(event.status_code, joined)

    async def body(self) -> str:
        """The rest of the answer as text."""
        parts: list[bytes] = []
        while (data := await self._data()) is not None:
            parts.append(data)
        text = b"".join(parts).decode("utf-8", "surrogateescape")
        self.recorder.add(self.name, "s2c", "http", body=text)
        return text

    async def sse(self) -> tuple[int, Any]:
        """The next event of a streamed answer: (index of its record, its data); raises `BadAnswer`."""
        while True:
            block, mark, rest = self._sse.partition("\n\n")
            if mark:
                self._sse = rest
                data = sse_data(block)
                if data is not None:
                    record = self.recorder.add(self.name, "s2c", "http", body=block + mark)
                    return record, from_json(data)
                continue
            data_bytes = await self._data()
            if data_bytes is None:
                raise BadAnswer("the event stream ended")
            self._sse += data_bytes.decode("utf-8", "surrogateescape").replace("\r\n", "\n")

    def trailing(self) -> bytes:
        """What came behind a 101: already WebSocket."""
        return bytes(self._h11.trailing_data[0])

    async def _data(self) -> bytes | None:
        while not self._ended:
            event = await self._event()
            if isinstance(event, h11.Data):
                return bytes(event.data)
            if isinstance(event, h11.EndOfMessage):
                self._ended = True
            elif isinstance(event, h11.ConnectionClosed):
                raise BadAnswer("the answer ended too early")
        return None

    async def _event(self) -> Any:
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as exc:
                # At the end of TCP h11 complains of its own state, which means nothing to others.
                why = "the connection ended" if self._closed else exc
                raise BadAnswer(f"no HTTP answer ({why})") from None
            if event is not h11.NEED_DATA:
                return event
            try:
                data = await self.stream.receive_some(65536)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise BadAnswer("the connection broke") from None
            self._closed = not data
            try:
                self._h11.receive_data(bytes(data))
            except h11.RemoteProtocolError as exc:
                raise BadAnswer(f"no HTTP answer ({exc})") from None


def sse_data(block: str) -> str | None:
    """The data of one block of an event stream, or None for a comment."""
    lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
    return "\n".join(lines) if lines else None


def from_json(text: str) -> Any:
    """The JSON value, or the text itself if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
