"""One TCP, TLS or in-memory stream: bytes in, and an outbox for the bytes out.

``send`` never waits.  While nothing is queued it hands the bytes to the kernel at
once: a joined batch then costs one system call and no task switch.  What the kernel
does not take goes to a writer task, started on demand, so that an idle connection has
none; whatever is sent meanwhile queues behind it, in order and within bounds.  As
``send`` is synchronous, no cancelled task can leave half a frame behind.

Only a plain TCP socket can be tried at once; TLS and in-memory streams always take
the writer.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import attrs
import trio

from responses_ref.server.limits import Limits, Stats
from responses_ref.server.timer import Timers
from responses_ref.server.trace import Trace

READ_BYTES = 65_536


class Shell(Protocol):
    """What a link needs of its server."""

    limits: Limits
    stats: Stats
    timers: Timers
    draining: trio.Event
    nursery: trio.Nursery

    def spawn(self, number: int, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Start a task for connection ``number`` that may outlive it, but not its stream."""


@attrs.define(eq=False)
class Link:
    """Bytes both ways; ``queued`` of those given to ``send`` are not yet with the kernel."""

    stream: trio.abc.Stream
    number: int
    shell: Shell
    trace: Trace | None = None
    queued: int = 0
    gone: bool = False  # nothing can be sent any more
    slow: bool = False  # gone because the peer reads too slowly
    _queue: list[bytes] = attrs.field(factory=list, init=False)
    _urgent: int = attrs.field(default=0, init=False)  # so many of the queue's first are urgent
    _busy: bool = attrs.field(default=False, init=False)  # a writer task has what was sent last
    _ahead: bool = attrs.field(default=False, init=False)  # the last read found something without waiting
    _scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    _moved: trio.Event | None = attrs.field(default=None, init=False)
    _socket: trio.socket.SocketType | None = attrs.field(init=False)  # if bytes may go straight through it

    @_socket.default
    def _plain(self) -> trio.socket.SocketType | None:
        plain = isinstance(self.stream, trio.SocketStream) and os.name == "posix"
        return self.stream.socket if plain else None  # type: ignore[attr-defined]

    async def receive(self, size: int = READ_BYTES) -> bytes:
        """Read some bytes; none at the end, however it came. A checkpoint at least every other time."""
        reset = False
        try:
            if (socket := self._socket) is None:
                data = bytes(await self.stream.receive_some(size))
            else:
                data = await self._read(socket, size)
        except trio.ClosedResourceError:  # by us
            return b""
        except (trio.BrokenResourceError, OSError):
            data, reset = b"", True
        if not data and self.trace is not None:
            self.trace.eof(reset)
        return data

    def abort(self) -> None:
        """Shut the stream under whoever uses it."""
        self.shell.spawn(self.number, trio.aclose_forcefully, self.stream)

    async def _read(self, socket: trio.socket.SocketType, size: int) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        data = self._read_now(socket, size)
        if data is not None and self._ahead:  # a peer that sends without end must not starve the others
            await trio.lowlevel.cancel_shielded_checkpoint()
        self._ahead = data is not None
        while data is None:
            await trio.lowlevel.wait_readable(socket)
            data = self._read_now(socket, size)
        return data

    @staticmethod
    def _read_now(socket: trio.socket.SocketType, size: int) -> bytes | None:
        if socket.fileno() == -1:
            raise trio.ClosedResourceError
        try:
            return os.read(socket.fileno(), size)
        except BlockingIOError:
            return None

    @property
    def congested(self) -> bool:
        """Whether a producer should wait."""
        return self.queued > self.shell.limits.low_water_bytes and not self.gone

    def send(self, data: bytes, urgent: bool = False) -> None:
        """Send whole frames, in order; urgent ones overtake what no write has begun with."""
        if self.gone:
            return
        if self._busy:
            self._enqueue(data, urgent)
            return
        sent = self._write_now(data)
        if sent < len(data):
            self._busy, self.queued = True, len(data) - sent
            self.shell.spawn(self.number, self._write, memoryview(data)[sent:])

    async def moved(self) -> None:
        """Wait until some bytes have left, or none ever will."""
        if self._moved is None:
            self._moved = trio.Event()
        await self._moved.wait()

    async def flushed(self) -> None:
        """Wait until all is with the kernel, or never will be."""
        while self.queued and not self.gone:
            await self.moved()

    def wake(self) -> None:
        """Let all who wait in ``moved`` look again."""
        if self._moved is not None:
            self._moved.set()
            self._moved = None

    async def half_close(self) -> None:
        """Tell the peer that nothing more will come, where the stream can say so."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            if isinstance(self.stream, trio.abc.HalfCloseableStream):
                await self.stream.send_eof()

    def _write_now(self, data: bytes) -> int:
        if (socket := self._socket) is None:
            return 0
        try:
            return os.write(socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError:  # the reader will learn what happened to the connection
            self.gone = True
            return len(data)

    def _enqueue(self, data: bytes, urgent: bool) -> None:
        full = len(self._queue) >= self.shell.limits.outbox_messages
        if full or self.queued + len(data) > self.shell.limits.outbox_bytes:
            self._lose(slow=True)
            return
        self.queued += len(data)
        self._queue.insert(self._urgent if urgent else len(self._queue), data)
        self._urgent += urgent

    def _take(self) -> bytes:
        """Join the first frames of the queue: at least one, at most ``write_bytes`` of them."""
        size = count = 0
        for part in self._queue:
            size += len(part)
            if count and size > self.shell.limits.write_bytes:
                break
            count += 1
        batch = b"".join(self._queue[:count])
        del self._queue[:count]
        self._urgent = max(0, self._urgent - count)
        return batch

    async def _write(self, batch: bytes | memoryview) -> None:
        """The writer: ends as soon as nothing is queued."""
        with trio.CancelScope() as self._scope:
            try:
                while batch and not self.gone:
                    await self._write_slices(memoryview(batch), self._scope)
                    batch = self._take()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._lose(slow=False)
        if self._scope.cancelled_caught:
            self._lose(slow=True)
        self._busy, self._scope = False, None
        if self.gone:
            await trio.aclose_forcefully(self.stream)

    async def _write_slices(self, data: memoryview, scope: trio.CancelScope) -> None:
        for start in range(0, len(data), self.shell.limits.write_bytes):
            part = data[start : start + self.shell.limits.write_bytes]
            scope.deadline = trio.current_time() + self.shell.limits.write_seconds
            await self.stream.send_all(part)
            self.queued -= len(part)
            self.wake()

    def _lose(self, slow: bool) -> None:
        """Give the peer up: no Close frame would get through to it (RWS-LIM-017)."""
        if not self.gone:
            self.gone, self.slow = True, slow
            self.shell.stats.slow_consumers += slow
            self._queue.clear()
        self.wake()
        if self._scope is not None:
            self._scope.cancel()
