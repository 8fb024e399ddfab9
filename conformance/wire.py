"""One WebSocket connection as a client sees it: handshake, an inbox, pings and Close answered, all recorded.

A reader task takes everything that comes, at once, whatever the case is doing: a server that is not read from
cannot be judged. What it cannot make sense of ends the connection with 1002, and the record says why.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Callable
from typing import Any, Final

import attrs
import trio

from conformance import raw
from conformance.state import TERMINAL, word
from conformance.target import Endpoint, Gone, Target
from conformance.trace import Recorder, b64
from conformance.web import BadAnswer, Exchange, Head, from_json, request_head, request_headers

_GUID: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@attrs.frozen
class Message:
    """``value`` is the parsed JSON, the text itself if it is none, or ``{"$binary": hex}``."""

    record: int
    value: Any

    @property
    def type(self) -> str | None:
        """Its type, if it is one: a type that is no string is none."""
        return word(self.value.get("type")) if isinstance(self.value, dict) else None

    @property
    def response(self) -> str | None:
        """The id of the response object in it."""
        response = self.value.get("response") if isinstance(self.value, dict) else None
        name = response.get("id") if isinstance(response, dict) else None
        return name if isinstance(name, str) else None

    @property
    def lane(self) -> Any:
        return self.value.get("stream_id") if isinstance(self.value, dict) else None


@attrs.frozen
class Ended:
    """How the server ended the connection: ``how`` is close, eof or fault. No code: a Close without one."""

    how: str
    code: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.how == "close":
            return (
                f"Close {self.code or 'without a code'} {self.reason!r}"
                if self.reason
                else (f"Close {self.code or 'without a code'}")
            )
        return self.reason or "the TCP connection ended without a Close frame"


class Wire:
    """See the module. States: raw (TCP only), asked (handshake sent), open, refused."""

    def __init__(self, name: str, stream: trio.abc.Stream, recorder: Recorder, endpoint: Endpoint) -> None:
        self.name, self.stream, self.recorder, self.endpoint = name, stream, recorder, endpoint
        self.exchange = Exchange(name, stream, recorder)
        self.state = "raw"
        self.inbox: list[Message] = []
        self.pongs: list[bytes] = []
        self.ended: Ended | None = None
        self.seen_in_progress: set[str] = set()
        self.unanswered = 0  # creates of the default lane that nothing has come back for
        self.turns: set[str] = set()  # responses that have been created, and have not ended
        self.deaf = False  # our Close was not answered
        self._key = base64.b64encode(os.urandom(16)).decode()
        self._frames = raw.FrameReader()
        self._parts: list[bytes] = []
        self._part_op = 0
        self._out_parts: list[bytes] = []
        self._closing = False
        self._changed = trio.Event()
        self._sending = trio.Lock()
        self._head: Head | BadAnswer | None = None

    # --- waiting ------------------------------------------------------------------------------------

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``done`` holds; False if it does not within that time."""
        with trio.move_on_after(seconds):
            while not done():
                await self._changed.wait()
            return True
        return done()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # --- the handshake ------------------------------------------------------------------------------

    async def ask(self, options: dict[str, Any]) -> None:
        """Send a handshake as a ``>open`` line describes it."""
        standard = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", self._key),
        ]
        path = self.endpoint.resolve(options["path"]) if "path" in options else self.endpoint.path
        headers = request_headers(self.endpoint, options, standard)
        self._key = dict(headers).get("Sec-WebSocket-Key", "")
        self.state = "asked"
        await self.exchange.send(request_head(options.get("method", "GET"), path, headers))

    async def answer(self) -> Head:
        """The answer to the handshake (asked once, then remembered); raises `BadAnswer`."""
        if isinstance(self._head, BadAnswer):
            raise self._head
        if self._head is None:
            self.exchange.expect_answer(upgrade=True)
            try:
                self._head = await self.exchange.head()
            except BadAnswer as exc:
                self._head = exc
                raise
            self.state = "open" if self._head.status == 101 else "refused"
        return self._head

    def fault_of_handshake(self, head: Head) -> str | None:
        """Why a 101 does not complete the handshake that was asked for."""
        digest = hashlib.sha1((self._key + _GUID).encode()).digest()  # what RFC 6455 asks for
        if head.headers.get("upgrade", "").lower() != "websocket":
            return "the 101 has no `Upgrade: websocket`"
        if "upgrade" not in [part.strip().lower() for part in head.headers.get("connection", "").split(",")]:
            return "the 101 has no `Connection: Upgrade`"
        if head.headers.get("sec-websocket-accept", "") != base64.b64encode(digest).decode():
            return "the 101 has a wrong Sec-WebSocket-Accept"
        return None

    # --- sending ------------------------------------------------------------------------------------

    async def send_bytes(self, data: bytes) -> None:
        """Write as they are. A broken connection shows in what comes back, not here."""
        async with self._sending:
            try:
                await self.stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async def send_text(self, text: str) -> None:
        self.recorder.add(self.name, "c2s", "text", text=text)
        sent = from_json(text)
        if isinstance(sent, dict) and sent.get("type") == "response.create" and "stream_id" not in sent:
            self.unanswered += 1
        await self.send_bytes(raw.frame(raw.TEXT, text.encode("utf-8", "surrogateescape")))

    async def send_frame(self, fields: dict[str, Any]) -> None:
        """A frame as a ``>frame`` line describes it; what makes a message is recorded as one."""
        data = raw.build(fields)
        found = next(raw.FrameReader().feed(data), None)
        good = found is not None and not found.rsv and found.masked and "length" not in fields
        if found is not None and good:
            self._record_sent(found)
        else:
            self.recorder.add(self.name, "c2s", "note", frame=fields)
        await self.send_bytes(data)

    def _record_sent(self, sent: raw.Frame) -> None:
        if sent.op in (raw.CONT, raw.TEXT, raw.BINARY):
            self._out_parts.append(sent.payload)
            if sent.fin:
                whole, self._out_parts = b"".join(self._out_parts), []
                if sent.op == raw.BINARY:
                    self.recorder.add(self.name, "c2s", "binary", base64=b64(whole))
                else:
                    text = whole.decode("utf-8", "surrogateescape")
                    self.recorder.add(self.name, "c2s", "text", text=text)
        elif sent.op == raw.CLOSE:
            self._closing = True
            code, reason = raw.parse_close(sent.payload)
            self.recorder.add(self.name, "c2s", "close", code=code, reason=reason, by="client")
        elif sent.op in (raw.PING, raw.PONG):
            kind = "ping" if sent.op == raw.PING else "pong"
            self.recorder.add(self.name, "c2s", kind, base64=b64(sent.payload))

    async def close(self, code: int | None = 1000, reason: str = "") -> None:
        """Send a Close frame, unless one was sent."""
        if not self._closing and self.state == "open":
            fields: dict[str, Any] = {"op": "close", "reason": reason}
            await self.send_frame(fields if code is None else {**fields, "code": code})

    async def drop(self) -> None:
        """End TCP without a Close frame."""
        self.recorder.add(self.name, "c2s", "eof", reset=False)
        await trio.aclose_forcefully(self.stream)

    # --- receiving ----------------------------------------------------------------------------------

    async def read(self) -> None:
        """Task: everything that comes after the handshake, until TCP ends."""
        data = self.exchange.trailing()
        while True:
            try:
                for found in self._frames.feed(data):
                    await self._take(found)
                data = bytes(await self.stream.receive_some(65536))
            except raw.TooLong as exc:
                await self._fault(f"the server sent {exc}")
                return
            except Gone as exc:
                self.ended = self.ended or Ended("fault", None, str(exc))
                self._end_of_tcp(reset=True)
                return
            except trio.BrokenResourceError:
                self._end_of_tcp(reset=True)
                return
            except trio.ClosedResourceError:
                return
            if not data:
                self._end_of_tcp(reset=False)
                return

    async def read_nothing(self, seconds: float) -> bool:
        """Before a handshake: read and throw away until TCP ends; False if it does not within that time."""
        with trio.move_on_after(seconds):
            try:
                while await self.stream.receive_some(65536):
                    pass
                self._end_of_tcp(reset=False)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._end_of_tcp(reset=True)
        return self.ended is not None

    def _end_of_tcp(self, *, reset: bool) -> None:
        self.recorder.add(self.name, "s2c", "eof", reset=reset)
        if self.ended is None:
            self.ended = Ended("eof", None, "the connection was reset" if reset else "")
        self._change()

    async def _take(self, found: raw.Frame) -> None:
        fault = self._frame_fault(found)
        if fault:
            await self._fault(f"the server sent {fault}")
        elif found.op == raw.PING:
            self.recorder.add(self.name, "s2c", "ping", base64=b64(found.payload))
            self.recorder.add(self.name, "c2s", "pong", base64=b64(found.payload))
            await self.send_bytes(raw.frame(raw.PONG, found.payload))
        elif found.op == raw.PONG:
            self.recorder.add(self.name, "s2c", "pong", base64=b64(found.payload))
            self.pongs.append(found.payload)
        elif found.op == raw.CLOSE:
            await self._take_close(found.payload)
        else:
            self._take_data(found)
        self._change()

    def _frame_fault(self, found: raw.Frame) -> str | None:
        if found.masked:
            return "a masked frame"
        if found.rsv:
            return "a frame with a reserved bit"
        if found.op not in raw.OPS.values():
            return f"a frame with opcode {found.op}"
        if found.op >= raw.CLOSE and (not found.fin or len(found.payload) > 125):
            return "a control frame that is fragmented or too long"
        if found.op == raw.CONT and not self._parts:
            return "a continuation of nothing"
        if found.op in (raw.TEXT, raw.BINARY) and self._parts:
            return "a new message inside of another"
        return None

    async def _take_close(self, payload: bytes) -> None:
        code, reason = raw.parse_close(payload)
        by = "client" if self._closing else "server"
        self.recorder.add(self.name, "s2c", "close", code=code, reason=reason, by=by)
        if self.ended is None:
            self.ended = Ended("close", code, reason)
        await self.close(code if code is not None and raw.may_be_sent(code) else None)

    def _take_data(self, found: raw.Frame) -> None:
        self._parts.append(found.payload)
        if found.op != raw.CONT:
            self._part_op = found.op
        if not found.fin:
            return
        whole, self._parts = b"".join(self._parts), []
        if self._part_op == raw.BINARY:
            record = self.recorder.add(self.name, "s2c", "binary", base64=b64(whole))
            self.inbox.append(Message(record, {"$binary": whole.hex()}))
        else:
            text = whole.decode("utf-8", "surrogateescape")
            record = self.recorder.add(self.name, "s2c", "text", text=text)
            self.inbox.append(Message(record, from_json(text)))
            self._note(self.inbox[-1])

    def _note(self, message: Message) -> None:
        if message.lane is None and message.type in ("response.created", "error"):
            self.unanswered = max(0, self.unanswered - 1)
        if message.type == "response.created" and message.response:
            self.turns.add(message.response)
        elif message.type in TERMINAL:
            self.turns.discard(message.response or "")

    async def _fault(self, what: str) -> None:
        await self.close(1002, what)
        if self.ended is None:
            self.ended = Ended("fault", None, what)
        self._change()

    async def finish(self, seconds: float) -> None:
        """Close, give the server that long to answer, and end TCP. What still comes is recorded."""
        if self.state == "open" and self.ended is None:
            with trio.move_on_after(seconds):
                await self.close()
                await self.until(lambda: self.ended is not None, math.inf)
            self.deaf = self.ended is None
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self.stream)


async def connect(name: str, target: Target, recorder: Recorder) -> Wire:
    """TCP (and TLS) only; raises `Unreachable`."""
    return Wire(name, await target.connect(), recorder, target.endpoint)


__all__ = ["BadAnswer", "Ended", "Message", "Wire", "connect"]
