"""A man in the middle: sits between the reference server and its stream, and breaks what passes.

A mutant is a `Middle`: one object per connection, whose methods see requests, answers, messages and frames as
data. It knows nothing of the server's inside, so most mutants would break any other server in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import attrs
import trio

from conformance import raw

HEAD_END: Final = b"\r\n\r\n"


@attrs.frozen
class Delay:
    """Wait so many seconds before what follows."""

    seconds: float


@attrs.frozen
class Drop:
    """End the TCP connection here."""


# What a hook may give back: an object is sent as JSON text, a string as it is, bytes untouched.
Out = dict[str, Any] | str | bytes | Delay | Drop


@attrs.define
class Head:
    """The head of a request, and its body: a WebSocket handshake, or plain HTTP. Header names as sent."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@attrs.define
class Answer:
    """The server's answer to a request; ``body`` is None where it is streamed (then see `Middle.sse`)."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes | None = b""

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def set(self, name: str, value: str | None) -> None:
        """Replace a header, or remove it."""
        self.headers = [(key, kept) for key, kept in self.headers if key.lower() != name.lower()]
        if value is not None:
            self.headers.append((name, value))

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")

    @json.setter
    def json(self, value: Any) -> None:
        self.body = json.dumps(value).encode()


class Middle:
    """Passes everything on. ``memory`` is for the notes of one connection."""

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}

    def head(self, head: Head) -> Head:
        """A request on its way to the server."""
        return head

    def answer(self, answer: Answer, head: Head) -> Answer:
        """An answer on its way to the client; ``head`` is what was asked."""
        return answer

    def request(self, message: Any) -> Iterable[Out]:
        """A text message of the client: its JSON, or the text if it is none."""
        return [message]

    def event(self, event: dict[str, Any]) -> Iterable[Out]:
        """An event of the server over WebSocket."""
        return [event]

    def sse(self, event: dict[str, Any]) -> Iterable[Out]:
        """An event of the server over HTTP; a string given back is a whole block of the stream."""
        return [event]

    def frame(self, frame: raw.Frame) -> Iterable[Out]:
        """A control frame of the server."""
        return [raw.frame(frame.op, frame.payload, fin=frame.fin, rsv=frame.rsv, masked=False)]

    def client_frame(self, frame: raw.Frame) -> Iterable[bytes]:
        """Any frame of the client that is no whole text message."""
        return [raw.frame(frame.op, frame.payload, fin=frame.fin, rsv=frame.rsv, masked=frame.masked)]


def packed(out: Out, *, masked: bool) -> bytes:
    """One thing that a hook gave back, as a frame."""
    if isinstance(out, bytes):
        return out
    text = out if isinstance(out, str) else json.dumps(out, ensure_ascii=False)
    return raw.frame(raw.TEXT, text.encode("utf-8", "surrogateescape"), masked=masked)


class MiddleStream(trio.abc.HalfCloseableStream):
    """The server's end of a stream, with a `Middle` in it."""

    def __init__(self, inner: trio.abc.HalfCloseableStream, middle: Middle) -> None:
        self._inner, self._middle = inner, middle
        self._in, self._out = bytearray(), bytearray()
        self._heads: list[Head] = []
        self._open = False  # after the 101, in both directions
        self._client, self._server = raw.FrameReader(), raw.FrameReader()
        self._chunked = False
        self._sse = ""

    # --- from the client ----------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            data = bytes(await self._inner.receive_some(max_bytes))
            if not data:
                rest, self._in = bytes(self._in), bytearray()
                return rest
            passed = self._from_client(data)
            if passed:
                return passed

    def _from_client(self, data: bytes) -> bytes:
        if self._open:
            return b"".join(self._client_frames(data))
        self._in += data
        out = b""
        while (head := self._whole_head()) is not None:
            out += _request_bytes(self._middle.head(head))
        # What is no HTTP, or is too long to be waited for, passes as it is.
        if len(self._in) > 65536 or (
            not b"GET POST PUT DELETE HEAD ".startswith(bytes(self._in[:3]))
            and bytes(self._in[:3]) not in (b"GET", b"POS", b"PUT", b"DEL", b"HEA", b"PAT", b"OPT")
        ):
            out, self._in = out + bytes(self._in), bytearray()
        return out

    def _whole_head(self) -> Head | None:
        end = self._in.find(HEAD_END)
        if end < 0:
            return None
        lines = bytes(self._in[:end]).decode("latin-1").split("\r\n")
        first = lines[0].split(" ")
        if len(first) != 3:
            return None
        head = Head(first[0], first[1], _headers(lines[1:]))
        size = head.get("content-length") or "0"
        whole = end + 4 + (int(size) if size.isdecimal() else 0)
        if len(self._in) < whole:
            return None
        head.body = bytes(self._in[end + 4 : whole])
        del self._in[:whole]
        self._heads.append(head)
        return head

    def _client_frames(self, data: bytes) -> Iterable[bytes]:
        for frame in self._client.feed(data):
            if frame.op == raw.TEXT and frame.fin and frame.masked and not frame.rsv:
                text = frame.payload.decode("utf-8", "surrogateescape")
                for out in self._middle.request(_parsed(text)):
                    if not isinstance(out, Delay | Drop):
                        yield packed(
                            out if isinstance(out, str | bytes) else _unparsed(out, text), masked=True
                        )
            else:
                yield from self._middle.client_frame(frame)

    # --- from the server ----------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        pending = bytearray()
        for out in self._from_server(bytes(data)):
            if isinstance(out, bytes):
                pending += out
                continue
            await self._inner.send_all(bytes(pending))
            pending.clear()
            if isinstance(out, Delay):
                await trio.sleep(out.seconds)
            else:
                await self._inner.aclose()
                raise trio.BrokenResourceError("dropped")
        await self._inner.send_all(bytes(pending))

    def _from_server(self, data: bytes) -> Iterable[bytes | Delay | Drop]:
        if self._open:
            yield from self._server_frames(data)
            return
        self._out += data
        while self._out and not self._open:
            if self._chunked:
                piece = self._chunk()
                if piece is None:
                    return
                yield piece
                continue
            answer = self._whole_answer()
            if answer is None:
                return
            yield answer
        if self._open and self._out:
            rest, self._out = bytes(self._out), bytearray()
            yield from self._server_frames(rest)

    def _whole_answer(self) -> bytes | None:
        end = self._out.find(HEAD_END)
        if end < 0:
            return None
        lines = bytes(self._out[:end]).decode("latin-1").split("\r\n")
        _, status, reason = [*lines[0].split(" ", 2), ""][:3]
        answer = Answer(int(status), reason, _headers(lines[1:]))
        size = end + 4 + int(answer.get("content-length") or 0)
        if len(self._out) < size:
            return None
        answer.body = bytes(self._out[end + 4 : size])
        del self._out[:size]
        if answer.status == 100:
            return _answer_bytes(answer)
        self._chunked = "chunked" in (answer.get("transfer-encoding") or "")
        answer.body = None if self._chunked else answer.body
        head = self._heads.pop(0) if self._heads else Head("GET", "", [])
        self._open = answer.status == 101
        return _answer_bytes(self._middle.answer(answer, head))

    def _chunk(self) -> bytes | None:
        end = self._out.find(b"\r\n")
        if end < 0:
            return None
        size = int(bytes(self._out[:end]).partition(b";")[0], 16)
        whole = end + 2 + size + 2
        if len(self._out) < whole:
            return None
        data = bytes(self._out[end + 2 : whole - 2])
        del self._out[:whole]
        if not size:
            self._chunked = False
            return b"0\r\n\r\n"
        self._sse += data.decode("utf-8", "surrogateescape")
        blocks = self._sse.split("\n\n")
        self._sse = blocks.pop()
        text = "".join(self._blocks(block) for block in blocks).encode("utf-8", "surrogateescape")
        return b"%x\r\n%s\r\n" % (len(text), text) if text else b""

    def _blocks(self, block: str) -> str:
        data = [line[5:].strip() for line in block.split("\n") if line.startswith("data:")]
        event = _parsed("\n".join(data))
        if not isinstance(event, dict):
            return f"{block}\n\n"
        out = ""
        for one in self._middle.sse(event):
            if isinstance(one, str):
                out += one
            elif isinstance(one, dict):
                out += f"event: {one.get('type')}\ndata: {json.dumps(one, ensure_ascii=False)}\n\n"
        return out

    def _server_frames(self, data: bytes) -> Iterable[bytes | Delay | Drop]:
        for frame in self._server.feed(data):
            if frame.op != raw.TEXT:
                yield from self._middle.frame(frame)  # type: ignore[misc]
                continue
            event = _parsed(frame.payload.decode())
            for out in self._middle.event(event):
                yield out if isinstance(out, Delay | Drop) else packed(out, masked=False)

    # --- the rest of a stream -----------------------------------------------------------------------

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _headers(lines: list[str]) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in lines)
    return [(name, value.strip()) for name, _, value in pairs]


def _request_bytes(head: Head) -> bytes:
    if head.body:
        head.headers = [pair for pair in head.headers if pair[0].lower() != "content-length"]
        head.headers.append(("Content-Length", str(len(head.body))))
    lines = [f"{head.method} {head.path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + head.body


def _answer_bytes(answer: Answer) -> bytes:
    if answer.body is not None and answer.get("content-length") is not None:
        answer.set("Content-Length", str(len(answer.body)))
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}".rstrip()]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (answer.body or b"")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _unparsed(value: Any, text: str) -> Out:
    """The text again as it was, if the hook left the value as it is (so that odd JSON stays odd)."""
    return text if value == _parsed(text) else value
