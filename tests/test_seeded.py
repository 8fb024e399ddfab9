"""With a seed, two runs of the process send the same bytes for the same messages."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import process

SECONDS = 60
SCRIPTS = (
    "say: Hello, reader.",
    "think: Hm.\nsay: Then so.",
    'call: look {"at":"it"}\ncustom: write it',
    "tokens: 50",
    "refuse: no",
    "error: server_error It broke.",
    "reject: 429 slow_down Later.",
    "compact:",
    "no script: the model's own words",
)


def request_head(host: str) -> bytes:
    """An upgrade with the key of RFC 6455, the same in each run."""
    fields = (
        "GET /v1/responses HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    return "\r\n".join([*fields, "", ""]).encode()


def frame(message: Any) -> bytes:
    """One text frame of up to 125 bytes; masked with zeros, so that it reads as it is."""
    payload = json.dumps(message, separators=(",", ":")).encode()
    assert len(payload) < 126
    return bytes((0x81, 0x80 | len(payload))) + bytes(4) + payload


def conversation(server: process.Server, messages: Sequence[Any], last: bytes, times: int = 1) -> bytes:
    """All bytes of one connection's server side; it is closed when ``last`` has come so many times."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as peer:
        peer.sendall(request_head(server.host))
        peer.sendall(b"".join(map(frame, messages)))
        received = bytearray()
        while received.count(last) < times:
            chunk = peer.recv(65_536)
            assert chunk, bytes(received)
            received += chunk
        peer.sendall(b"\x88\x82\0\0\0\0\x03\xe8")  # Close 1000
        while chunk := peer.recv(65_536):
            received += chunk
    return bytes(received)


def create(script: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.create", "model": "scripted", "store": False, "input": script, **fields}


MESSAGES = [*(create(script) for script in SCRIPTS), create("say: the very end")]
END = b'"text":"the very end","annotations":[]'


def run(serve: Callable[..., process.Server], *flags: str) -> tuple[bytes, bytes, bytes]:
    """Two connections, one after the other, and an HTTP request, to one process."""
    server = serve(*flags)
    first, second = (conversation(server, MESSAGES, END) for _ in range(2))
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as peer:
        body = json.dumps({"model": "scripted", "input": "tokens: 20", "stream": True}).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}"
        peer.sendall(f"{head}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: peer.recv(65_536), b""))
    return first, second, answer


def test_the_same_seed_gives_the_same_bytes(serve: Callable[..., process.Server]) -> None:
    one, again = run(serve, "--seed", "7"), run(serve, "--seed", "7")
    assert one == again
    first, second, answer = one
    assert first != second, "each connection has ids of its own"
    assert b'"created_at":1700000001' in first
    assert b"response.completed" in answer


def lanes(server: process.Server) -> dict[str, list[bytes]]:
    """What a connection with four lanes at once is sent, by lane."""
    names = [f"lane{n}" for n in range(4)]
    scripts = ("think: a b\nsay: c", "call: f {}", "tokens: 300")
    messages = [create(script, stream_id=name) for script in scripts for name in names]
    received = conversation(server, messages, b'"type":"response.completed"', len(messages))
    texts = list(payloads(received.partition(b"\r\n\r\n")[2]))
    return {name: [text for text in texts if f'"{name}"'.encode() in text] for name in names}


def payloads(frames: bytes) -> Iterator[bytes]:
    """What is in the frames of a server."""
    while frames:
        size, start = frames[1], 2
        if size > 125:
            start = 4 if size == 126 else 10
            size = int.from_bytes(frames[2:start], "big")
        yield frames[start : start + size]
        frames = frames[start + size :]


def test_lanes_side_by_side_do_not_change_each_other(serve: Callable[..., process.Server]) -> None:
    """They come in another order in each run; each by itself is the same."""
    one, again = (lanes(serve("--seed", "7")) for _ in range(2))
    assert one == again
    assert min(len(events) for events in one.values()) > 300


def test_another_seed_gives_other_ids_and_other_words(serve: Callable[..., process.Server]) -> None:
    seven, eight = run(serve, "--seed", "7"), run(serve, "--seed", "8")
    assert all(a != b for a, b in zip(seven, eight, strict=True))


def test_without_a_seed_no_id_comes_twice(server: process.Server) -> None:
    ids = set()
    for _ in range(2):
        received = conversation(server, [create("say: the very end")], END)
        ids.add(received.partition(b'"response":{"id":"')[2][:37])
    assert len(ids) == 2
