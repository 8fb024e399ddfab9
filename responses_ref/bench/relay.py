"""A distance between client and server: ``python -m responses_ref.bench.relay PORT JSON``.

It forwards real TCP connections and holds every byte back for as long as it would take on
a line of that round-trip time and bandwidth.  Both of its ends are loopback, so what a
distance does to TCP itself is emulated, in each direction of each connection:

- set-up: the client's first bytes leave ``setup_rtts`` round trips after the connect
  (one for SYN, one for TLS 1.3);
- slow start: at most a window is on its way unacknowledged; it begins at ten segments
  (RFC 6928), grows by what is acknowledged, and is halved for each retransmission
  timeout that the direction was idle (RFC 2861), as Linux does.

Losses are not emulated. Times are kept to about 0.1 ms.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs

SEGMENT = 1_460
FIRST_WINDOW, MAX_WINDOW = 10 * SEGMENT, 4 << 20
READ_BYTES = 1 << 18
LEAST_RTO = 0.2
NEVER = float("inf")


@attrs.frozen
class Distance:
    """Seconds, and bytes a second (0: no limit)."""

    rtt: float = 0.0
    bandwidth: float = 0.0
    setup_rtts: int = 2


@attrs.define
class Line:
    """One direction: what waits for the window, and what is on its way."""

    distance: Distance
    opens: float
    window: float = FIRST_WINDOW
    free: float = 0.0  # when the line has sent what it was given
    flying: float = 0.0
    waiting: deque[bytes] = attrs.Factory(deque)
    arriving: deque[tuple[float, bytes]] = attrs.Factory(deque)
    unacknowledged: deque[tuple[float, int]] = attrs.Factory(deque)

    def put(self, data: bytes, now: float) -> None:
        """Bytes (none: the end) that the sender hands to its kernel now."""
        self._acknowledge(now)
        idle = (now - self.free) / (LEAST_RTO + self.distance.rtt)
        if not self.unacknowledged and idle > 1:
            self.window = max(FIRST_WINDOW, self.window / 2 ** int(min(idle, 64)))
        cuts = range(0, max(len(data), 1), SEGMENT)
        self.waiting.extend(data[cut : cut + SEGMENT] for cut in cuts)
        self.move(now)

    def move(self, now: float) -> None:
        """Let go what the window allows."""
        self._acknowledge(now)
        while self.waiting and self.flying + len(self.waiting[0]) <= self.window and now >= self.opens:
            data = self.waiting.popleft()
            took = len(data) / self.distance.bandwidth if self.distance.bandwidth else 0.0
            self.free = max(now, self.free) + took
            arrives = self.free + self.distance.rtt / 2
            self.arriving.append((arrives, data))
            self.unacknowledged.append((arrives + self.distance.rtt / 2, len(data)))
            self.flying += len(data)

    def _acknowledge(self, now: float) -> None:
        while self.unacknowledged and self.unacknowledged[0][0] <= now:
            size = self.unacknowledged.popleft()[1]
            self.flying -= size
            self.window = min(self.window + size, MAX_WINDOW)

    def take(self, now: float) -> Iterator[bytes]:
        """What has arrived by now."""
        while self.arriving and self.arriving[0][0] <= now:
            yield self.arriving.popleft()[1]

    def next(self) -> float:
        """When something happens here next."""
        moves = NEVER
        if self.waiting:
            moves = max(self.opens, self.unacknowledged[0][0] if self.unacknowledged else self.opens)
        return min(moves, self.arriving[0][0] if self.arriving else NEVER)


@attrs.define(eq=False)
class Relay:
    """All connections: which socket each socket's bytes go to, and over which line."""

    listener: socket.socket
    upstream: int
    distance: Distance
    lines: dict[socket.socket, tuple[socket.socket, Line]] = attrs.Factory(dict)

    def run(self) -> None:
        """Forward until killed. ``select`` is to the microsecond; ``epoll`` would round up to 1 ms."""
        ended: set[socket.socket] = set()
        while True:
            wait = min((line.next() for _, line in self.lines.values()), default=NEVER) - time.monotonic()
            readable = [self.listener, *(sock for sock in self.lines if sock not in ended)]
            ready, _, _ = select.select(readable, [], [], None if wait == NEVER else max(wait, 0.0))
            for sock in ready:
                if sock is self.listener:
                    self.accept()
                elif not self.read(sock):
                    ended.add(sock)
            for sock in list(self.lines):
                self.deliver(sock)
            ended &= self.lines.keys()

    def accept(self) -> None:
        """A new connection: its first bytes wait for the set-up."""
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.upstream))
        opens = time.monotonic() + self.distance.setup_rtts * self.distance.rtt
        for sock, other, first in ((client, server, opens), (server, client, 0.0)):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.lines[sock] = (other, Line(self.distance, first))

    def read(self, sock: socket.socket) -> bool:
        """Take what a side sends; false when it has ended."""
        try:
            data = sock.recv(READ_BYTES)
        except OSError:
            data = b""
        self.lines[sock][1].put(data, time.monotonic())
        return bool(data)

    def deliver(self, sock: socket.socket) -> None:
        """Hand over what has come from ``sock``; both sides are closed as soon as one has ended."""
        other, line = self.lines.get(sock, (sock, None))
        now = time.monotonic()
        if line is None:
            return
        line.move(now)
        data = list(line.take(now))
        with suppress(OSError):
            other.sendall(b"".join(data))
        if b"" in data:
            for side in (sock, other):
                self.lines.pop(side, None)
                side.close()


def main() -> None:
    """Relay to the port in the first argument over the distance in the second."""
    given: dict[str, Any] = json.loads(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(f"port {listener.getsockname()[1]}", flush=True)
    Relay(listener, int(sys.argv[1]), Distance(**given)).run()


if __name__ == "__main__":
    main()
