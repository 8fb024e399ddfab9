"""The server's side of one WebSocket: wsproto parses, we do the rest.

wsproto's ``FrameProtocol`` turns bytes into checked frames.  No task of this module is
alive while the connection idles: ``receive`` reads in its caller's task, a writer exists
only while the kernel is full, and ``_linger`` only while the connection closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import trio
from wsproto.frame_protocol import Frame, FrameProtocol, Opcode, ParseFailed

from responses_ref.server.framing import frame
from responses_ref.server.link import Link
from responses_ref.server.timer import call
from responses_ref.server.trace import Trace

# Close codes of RFC 6455, 7.4.1.
NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_CLOSE = 1000, 1001, 1002, 1006
INVALID_DATA, TOO_BIG, CRASHED = 1007, 1009, 1011
# What a peer that broke a rule is told (RWS-FRM-008, RWS-FRM-013).
REASONS = {PROTOCOL_ERROR: "protocol error", INVALID_DATA: "invalid UTF-8", TOO_BIG: "message too big"}


@attrs.frozen
class Closed:
    """How a connection ended; code 1005 is a Close without a code, 1006 no Close at all."""

    code: int
    reason: str
    by: str  # "client" or "server"


@attrs.define(eq=False)
class _Goodbye:
    """What a connection has from its Close on, and an open one need not carry."""

    ended: trio.Event = attrs.field(factory=trio.Event)  # the peer has nothing more to say
    shut: trio.Event = attrs.field(factory=trio.Event)  # TCP is


@attrs.define(eq=False)
class WebSocket:
    """One open connection; made by the shell once the upgrade is accepted.

    ``nursery`` is the connection's own: tasks started there end with it, and an
    exception in one of them crashes this connection only.
    """

    link: Link
    number: int = attrs.field(init=False)
    trace: Trace | None = attrs.field(init=False)
    closed: Closed | None = attrs.field(default=None, init=False)
    on_drain: Callable[[], None] | None = attrs.field(default=None, init=False)
    nursery: trio.Nursery = attrs.field(init=False)
    _parser: FrameProtocol | None = attrs.field(default=None, init=False)  # made for the first bytes
    _parts: list[Any] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)  # bytes of the message so far
    _frames: int = attrs.field(default=0, init=False)
    _deaf: bool = attrs.field(default=False, init=False)  # what comes can no longer be parsed
    _reading: bool = attrs.field(default=False, init=False)
    _over: bool = attrs.field(default=False, init=False)  # nothing more will come
    _goodbye: _Goodbye | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.number, self.trace = self.link.number, self.link.trace

    @property
    def congested(self) -> bool:
        """Whether a producer should wait in ``drained``."""
        return self.closed is None and self.link.congested

    async def receive(self) -> str | bytes | None:
        """The next whole message, or None once the connection is over: ``closed`` says how.

        Answers Ping and Close in passing, so one task must always be in here.
        """
        self._reading = True
        try:
            while not self._over:
                got = self._parse()
                if got is None:
                    self.feed(await self.link.receive())
                    continue
                await trio.lowlevel.cancel_shielded_checkpoint()  # a burst of frames must not starve others
                if (message := self._handle(got)) is not None:
                    return message
            return None
        finally:
            self._reading = False

    def feed(self, data: bytes) -> None:
        """Take bytes from the peer; none are its end."""
        if not data:
            self._lost()
        elif not self._deaf:
            self._wire.receive_bytes(data)

    def send(self, payload: bytes) -> None:
        """Send one or more whole frames, joined; never waits. After the end nothing happens."""
        if self.closed is None:
            self._send(payload)

    async def drained(self) -> None:
        """Wait until the outbox is below its low-water mark, or the connection closes."""
        await trio.lowlevel.checkpoint()
        while self.congested:
            await self.link.moved()

    def close_soon(self, code: int = NORMAL, reason: str = "") -> None:
        """Start the close handshake behind what is queued; never waits. Only the first call counts."""
        self._start_closing(Closed(code, reason, "server"))

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Close, and wait until TCP is shut: ``write_seconds`` plus ``close_seconds`` at most."""
        self.close_soon(code, reason)
        if self._goodbye is None:  # the peer went without a word
            await trio.aclose_forcefully(self.link.stream)
            return
        with trio.CancelScope(shield=True):  # _linger ends it
            while not self._over and not self._reading:
                await self.receive()
            await self._goodbye.shut.wait()

    def drain(self) -> None:
        """Tell the application that the server is about to end."""
        leave = partial(self.close_soon, GOING_AWAY, "server shutting down")
        self.nursery.start_soon(call, self.on_drain or leave)

    @property
    def _wire(self) -> FrameProtocol:
        if self._parser is None:
            self._parser = FrameProtocol(client=False, extensions=[])
        return self._parser

    def _parse(self) -> Frame | None:
        if self._parser is None:
            return None
        try:
            return next(self._wire.received_frames(), None)
        except ParseFailed as broken:  # RWS-FRM-012
            self._deaf = True
            self.close_soon(broken.code, REASONS[broken.code])
            return None

    def _handle(self, got: Frame) -> str | bytes | None:
        if not got.opcode.iscontrol():
            return self._gather(got)
        payload: Any = got.payload
        if got.opcode is Opcode.CLOSE:
            if self.trace is not None:
                self.trace.close("c2s", *payload)
            self._start_closing(Closed(payload[0], payload[1], "client"))  # RWS-CLS-002, RWS-CLS-011
            self._end()
            return None
        if self.trace is not None:
            self.trace.frame("c2s", got.opcode, payload)
        if got.opcode is Opcode.PING and self.closed is None:
            self._send(frame(payload, Opcode.PONG), urgent=True)  # RWS-LIM-012
        return None

    def _gather(self, got: Frame) -> str | bytes | None:
        """Collect the pieces of a message (RWS-FRM-006); wsproto has checked that they belong together."""
        data: Any = got.payload
        self._parts.append(data)
        self._size += len(data) if got.opcode is Opcode.BINARY or data.isascii() else len(data.encode())
        self._frames += got.frame_finished
        limits = self.link.shell.limits
        if self._size > limits.max_message_bytes or self._frames > limits.max_fragments:
            self.close_soon(TOO_BIG, REASONS[TOO_BIG])  # RWS-FRM-009
        if self.closed is None and not got.message_finished:
            return None
        message: str | bytes = data[:0].join(self._parts)
        self._parts, self._size, self._frames = [], 0, 0
        if self.closed is not None:
            return None
        if self.trace is not None:
            self.trace.frame("c2s", got.opcode, message.encode() if isinstance(message, str) else message)
        return message

    def _lost(self) -> None:
        if self.closed is None:
            slow = self.link.slow
            self.closed = Closed(NO_CLOSE, "slow consumer" if slow else "", "server" if slow else "client")
        self._end()

    def _end(self) -> None:
        self._over = True
        self.link.wake()
        if self._goodbye is not None:
            self._goodbye.ended.set()

    def _send(self, data: bytes, urgent: bool = False) -> None:
        if self.trace is not None:
            self.trace.sent(data)
        self.link.send(data, urgent)

    def _start_closing(self, closed: Closed) -> None:
        if self.closed is None:
            self.closed = closed
            self._send(bytes(self._wire.close(closed.code, closed.reason)))  # cuts the reason to 123 bytes
            self.link.wake()  # producers need not wait any longer
            self._goodbye = _Goodbye()
            self.link.shell.spawn(self.number, self._linger, self._goodbye, closed)

    async def _linger(self, goodbye: _Goodbye, closed: Closed) -> None:
        """Give the Close frame and its answer their time, then shut TCP in any case (RWS-CLS-012)."""
        limits = self.link.shell.limits
        try:
            with trio.move_on_after(limits.write_seconds) as scope:
                await self.link.flushed()
                scope.deadline = trio.current_time() + limits.close_seconds
                if closed.by == "server" and closed.code in REASONS:
                    await self.link.half_close()  # its answer may be as broken: let it see our end
                await goodbye.ended.wait()
        finally:
            goodbye.shut.set()
            await trio.aclose_forcefully(self.link.stream)
