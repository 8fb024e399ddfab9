"""The client: blocking sockets, no WebSocket library, so that all servers meet the same one."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

import attrs
import h11

PATH = "/v1/responses"
TIMEOUT = 60.0
READ_BYTES = 1 << 20
DELTA, DONE = b'.delta"', b'"response.completed"'
UPGRADE = (
    f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
).encode()


class Broken(Exception):
    """A server did something that no arm of a benchmark may do."""


def connect(port: int) -> socket.socket:
    """A TCP connection that sends at once and never waits for ever."""
    sock = socket.create_connection(("127.0.0.1", port), TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def upgraded(sock: socket.socket) -> None:
    """Wait for the answer to UPGRADE. The servers here say nothing more before they are asked."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += _some(sock)
    if b" 101 " not in head.partition(b"\r\n")[0]:
        raise Broken(f"no upgrade but {head[:60]!r}")


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(READ_BYTES)
    if not data:
        raise Broken("the server closed the connection")
    return data


def frame(payload: bytes) -> bytes:
    """One client text frame. Its mask is zero, which is a mask, and costs the server what any other does."""
    size = len(payload)
    if size < 126:
        head = bytes((0x81, 0x80 | size))
    elif size < 65_536:
        head = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        head = b"\x81\xff" + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


def dumps(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def create(text: str, **fields: Any) -> dict[str, Any]:
    """A ``response.create`` that asks for one message and keeps nothing."""
    return {"type": "response.create", "model": "scripted", "store": False, "input": text, **fields}


def ask(tokens: int, tps: float = 0) -> bytes:
    """The frame that asks any server for so many deltas. Peers obey ``tps``; ours has its own speed."""
    return frame(dumps(create(f"tokens: {tokens}", metadata={"tokens": str(tokens), "tps": str(tps)})))


@attrs.define
class Counter:
    """Counts the deltas of one stream without parsing it, over the cuts between reads.

    It has to be quick: a reader that keeps up costs a server more than one that lags, and
    is the one to be measured with, as every send then wakes it up.
    """

    deltas: int = 0
    done: bool = False
    rest: bytes = b""

    def feed(self, data: bytes) -> int:
        """Count what has come; how many of them were new."""
        rest = self.rest
        new = data.count(DELTA) + (DELTA in rest[1 - len(DELTA) :] + data[: len(DELTA) - 1])
        if DONE in data or DONE in rest + data[: len(DONE) - 1]:
            self.done = True
        self.rest = (rest + data[1 - len(DONE) :])[1 - len(DONE) :]
        self.deltas += new
        return new


def stream(sock: socket.socket, message: bytes) -> int:
    """Ask for one response and read it to its end; the number of its deltas."""
    sock.sendall(message)
    counter = Counter()
    while not counter.done:
        counter.feed(_some(sock))
    return counter.deltas


@attrs.define
class WebSocket:
    """A connection that reads whole messages."""

    sock: socket.socket
    buffer: bytearray = attrs.Factory(bytearray)
    sent: int = 0
    received: int = 0

    @classmethod
    def open(cls, port: int) -> WebSocket:
        sock = connect(port)
        sock.sendall(UPGRADE)
        upgraded(sock)
        return cls(sock)

    def send(self, message: Mapping[str, Any]) -> None:
        data = frame(dumps(message))
        self.sent += len(data)
        self.sock.sendall(data)

    def receive(self) -> bytes:
        """The next message; the servers here fragment nothing."""
        size, start = self._need(2)[1], 2
        if size > 125:
            start = 4 if size == 126 else 10
            size = int.from_bytes(self._need(start)[2:start], "big")
        payload = bytes(self._need(start + size)[start : start + size])
        del self.buffer[: start + size]
        return payload

    def _need(self, count: int) -> bytearray:
        while len(self.buffer) < count:
            data = _some(self.sock)
            self.received += len(data)
            self.buffer += data
        return self.buffer

    def close(self) -> None:
        self.sock.close()


@attrs.define
class Http:
    """A kept HTTP connection whose answers are event streams."""

    sock: socket.socket
    wire: h11.Connection = attrs.Factory(lambda: h11.Connection(h11.CLIENT))
    sent: int = 0
    received: int = 0

    @classmethod
    def open(cls, port: int) -> Http:
        return cls(connect(port))

    def post(self, message: Mapping[str, Any]) -> list[bytes]:
        """Post one create and read its whole answer; the data of its events."""
        body = dumps(message)
        headers = [("host", "127.0.0.1"), ("content-length", str(len(body)))]
        events = (
            h11.Request(method="POST", target=PATH, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        data = b"".join(self.wire.send(event) or b"" for event in events)
        self.sent += len(data)
        self.sock.sendall(data)
        return self._answer()

    def _answer(self) -> list[bytes]:
        text = bytearray()
        while True:
            event = self.wire.next_event()
            if event is h11.NEED_DATA:
                data = _some(self.sock)
                self.received += len(data)
                self.wire.receive_data(data)
            elif isinstance(event, h11.Data):
                text += event.data
            elif isinstance(event, h11.Response) and event.status_code != 200:
                raise Broken(f"HTTP status {event.status_code}")
            elif isinstance(event, h11.EndOfMessage):
                self.wire.start_next_cycle()
                lines = bytes(text).split(b"\n")
                return [line[6:] for line in lines if line.startswith(b"data: ")]

    def close(self) -> None:
        self.sock.close()
