"""The server's side of one WebSocket: wsproto reads, we write.

wsproto parses frames and serialises control frames; text frames come from
:func:`frame`, which costs a seventh of its serialiser.  No task of this module is
alive while the connection idles: ``receive`` reads in its caller's task, a writer
exists only while the kernel is full, and ``_linger`` only while the connection closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import trio
from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage

from responses_ref.server.outbox import READ_BYTES, Outbox, half_close
from responses_ref.server.timer import call
from responses_ref.server.trace import Trace

NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_CLOSE, INVALID_DATA, TOO_BIG, CRASHED = (
    1000, 1001, 1002, 1006, 1007, 1009, 1011,
)  # fmt: skip
UNCLOSED = (ConnectionState.OPEN, ConnectionState.LOCAL_CLOSING)  # the peer has not sent Close
# What a peer that broke a rule is told.
REASONS = {PROTOCOL_ERROR: "protocol error", INVALID_DATA: "invalid UTF-8", TOO_BIG: "message too big"}


def frame(payload: bytes, opcode: int = 1) -> bytes:
    """One whole, unmasked frame (RFC 6455, 5.2); opcode 1 is text."""
    n = len(payload)
    if n < 126:
        return bytes((0x80 | opcode, n)) + payload
    if n < 65_536:
        return bytes((0x80 | opcode, 126)) + n.to_bytes(2, "big") + payload
    return bytes((0x80 | opcode, 127)) + n.to_bytes(8, "big") + payload


@attrs.frozen
class Closed:
    """How a connection ended; code 1005 is a Close without a code, 1006 no Close at all."""

    code: int
    reason: str
    by: str  # "client" or "server"


@attrs.define(eq=False)
class _Goodbye:
    ended: trio.Event = attrs.field(factory=trio.Event)  # the peer has nothing more to say
    shut: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class WebSocket:
    """One open connection; made by the shell once the upgrade is accepted.

    ``nursery`` is the connection's own: tasks started there end with it, and an
    exception in one of them crashes this connection only.
    """

    number: int
    _out: Outbox
    _wire: Connection
    trace: Trace | None = None
    closed: Closed | None = None
    on_drain: Callable[[], None] | None = None
    nursery: trio.Nursery = attrs.field(init=False)
    _parts: list[Any] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)  # bytes of the message so far
    _frames: int = attrs.field(default=0, init=False)
    _failed: bool = attrs.field(default=False, init=False)  # wsproto gave up: it must not be fed any more
    _reading: bool = attrs.field(default=False, init=False)
    _over: bool = attrs.field(default=False, init=False)  # nothing more will come
    _goodbye: _Goodbye | None = attrs.field(default=None, init=False)

    async def receive(self) -> str | bytes | None:
        """The next whole message, or None once the connection is over: ``closed`` says how.

        Answers Ping and Close in passing, so one task must always be in here.
        """
        self._reading = True
        try:
            while not self._over:
                await trio.lowlevel.checkpoint()  # a peer's burst of frames is no reason to starve others
                event = next(self._wire.events(), None)
                if event is None:
                    await self._read()
                elif (message := self._handle(event)) is not None:
                    return message
            return None
        finally:
            self._reading = False

    def send(self, payload: bytes) -> None:
        """Send one or more whole frames, joined; never waits. After the end nothing happens."""
        if self.closed is None:
            if self.trace is not None:
                self.trace.sent(payload)
            self._out.send(payload)

    @property
    def congested(self) -> bool:
        """Whether a producer should wait in ``drained``."""
        return self.closed is None and self._out.congested

    async def drained(self) -> None:
        """Wait until the outbox is below its low-water mark, or the connection closes."""
        await trio.lowlevel.checkpoint()
        while self.congested:
            await self._out.moved()

    def close_soon(self, code: int = NORMAL, reason: str = "") -> None:
        """Start the close handshake behind what is queued; never waits. Only the first call counts."""
        if self.closed is None:
            self.closed = Closed(code, reason, "server")
            self._say_goodbye(CloseConnection(code, reason))

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Close, and wait until TCP is shut: ``write_seconds`` plus ``close_seconds`` at most."""
        self.close_soon(code, reason)
        if self._goodbye is None:  # the peer went without a word
            await trio.aclose_forcefully(self._out.stream)
            return
        with trio.CancelScope(shield=True):  # _linger ends it
            while not self._over and not self._reading:
                await self.receive()
            await self._goodbye.shut.wait()

    def drain(self) -> None:
        """Tell the application that the server is about to end."""
        leave = partial(self.close_soon, GOING_AWAY, "server shutting down")
        self.nursery.start_soon(call, self.on_drain or leave)

    async def _read(self) -> None:
        try:
            data = await self._out.stream.receive_some(READ_BYTES)
        except trio.ClosedResourceError:
            self._lost()
        except trio.BrokenResourceError:
            self._peer_gone(reset=True)
        else:
            if not data:
                self._peer_gone(reset=False)
            elif not self._failed:
                self._wire.receive_data(bytes(data))

    def _handle(self, event: Event) -> str | bytes | None:
        if isinstance(event, TextMessage | BytesMessage):
            return self._gather(event)
        if isinstance(event, CloseConnection) and self._wire.state in UNCLOSED:
            self._failed = True  # wsproto reports a broken rule as a Close that the peer never sent
            self.close_soon(event.code, REASONS.get(event.code, ""))
            return None
        if self.trace is not None:
            self.trace.received(event)
        if isinstance(event, CloseConnection):
            self._peer_closed(event)
        elif isinstance(event, Ping) and self._wire.state is ConnectionState.OPEN:
            self._send_control(event.response(), urgent=True)
        return None

    def _gather(self, event: TextMessage | BytesMessage) -> str | bytes | None:
        """Collect the pieces of a message; wsproto has checked that they belong together."""
        data = event.data
        self._size += len(data.encode()) if isinstance(data, str) and not data.isascii() else len(data)
        self._frames += event.frame_finished
        self._parts.append(data)
        limits = self._out.limits
        if self._size > limits.max_message_bytes or self._frames > limits.max_fragments:
            self.close_soon(TOO_BIG, REASONS[TOO_BIG])
        if self.closed is None and not event.message_finished:
            return None
        message = "".join(self._parts) if isinstance(data, str) else b"".join(self._parts)
        self._parts, self._size, self._frames = [], 0, 0
        if self.closed is not None:
            return None
        if self.trace is not None:
            payload = message.encode() if isinstance(message, str) else message
            self.trace.frame("c2s", 1 if isinstance(message, str) else 2, payload)
        return message

    def _peer_closed(self, event: CloseConnection) -> None:
        if self.closed is None:
            self.closed = Closed(int(event.code), event.reason or "", "client")
            self._say_goodbye(event.response())
        self._end()

    def _peer_gone(self, reset: bool) -> None:
        if self.trace is not None:
            self.trace.eof(reset)
        self._lost()

    def _lost(self) -> None:
        if self.closed is None:
            slow = self._out.slow
            self.closed = Closed(NO_CLOSE, "slow consumer" if slow else "", "server" if slow else "client")
        self._end()

    def _end(self) -> None:
        self._over = True
        self._out.wake()
        if self._goodbye is not None:
            self._goodbye.ended.set()

    def _send_control(self, event: Event, urgent: bool = False) -> None:
        data = self._wire.send(event)
        if self.trace is not None:
            self.trace.sent(data)
        self._out.send(data, urgent)

    def _say_goodbye(self, event: CloseConnection) -> None:
        self._send_control(event)
        self._out.wake()  # producers need not wait any longer
        self._goodbye = _Goodbye()
        self._out.nursery.start_soon(self._linger, self._goodbye)

    async def _linger(self, goodbye: _Goodbye) -> None:
        """Give the Close frame and its answer their time, then shut TCP whatever the peer does."""
        limits, closed = self._out.limits, self.closed
        try:
            with trio.move_on_after(limits.write_seconds) as scope:
                await self._out.flushed()
                scope.deadline = trio.current_time() + limits.close_seconds
                if closed is not None and closed.by == "server" and closed.code in REASONS:
                    await half_close(self._out.stream)  # its answer may be as broken: let it see our end
                await goodbye.ended.wait()
        finally:
            goodbye.shut.set()
            await trio.aclose_forcefully(self._out.stream)
