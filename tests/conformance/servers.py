"""Small servers for the suite's own tests: a good one of a few lines, and some that are worth nothing.

Each is an ``async def serve(stream)`` over any byte stream. They share no code with the reference server.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import attrs
import trio
from trio.testing import memory_stream_pair

from conformance import raw
from conformance.offer import Config, Features, Unavailable
from conformance.specdoc import Spec, load
from conformance.target import Endpoint, Target

Serve = Callable[[trio.abc.Stream], Awaitable[None]]
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@cache
def spec() -> Spec:
    """The specification, read once for all tests."""
    return load()


@attrs.frozen
class One:
    """An offer of one target."""

    only: Target
    features: Features = attrs.Factory(Features)
    name: str = "a foreign server"
    own_servers: bool = False

    async def target(self, config: Config) -> Target:
        if config:
            raise Unavailable(f"it does not offer {config}")
        return self.only


async def read_head(stream: trio.abc.Stream) -> dict[str, str] | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65536)
        if not more:
            return None
        data += bytes(more)
    lines = data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines[1:])
    }
    return {"": lines[0], **headers}


async def accept(stream: trio.abc.Stream) -> bool:
    head = await read_head(stream)
    if head is None or "sec-websocket-key" not in head:
        await stream.send_all(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
        return False
    digest = base64.b64encode(hashlib.sha1((head["sec-websocket-key"] + GUID).encode()).digest()).decode()
    await stream.send_all(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + digest.encode() + b"\r\n\r\n"
    )
    return True


async def each_frame(stream: trio.abc.Stream, take: Callable[[raw.Frame], Awaitable[bool]]) -> None:
    """Feed frames to ``take`` until it gives False or TCP ends."""
    reader = raw.FrameReader()
    while True:
        try:
            data = await stream.receive_some(65536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        if not data:
            return
        for frame in reader.feed(bytes(data)):
            if not await take(frame):
                return


@attrs.define
class Good:
    """A server that answers each create with one message; a transform over its events makes it a mutant."""

    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda events: events
    delay: float = 0.0
    number: int = 0
    parts: str = ""

    async def serve(self, stream: trio.abc.Stream) -> None:
        async def take(frame: raw.Frame) -> bool:
            if frame.op == raw.PING:
                await self.out(stream, raw.frame(raw.PONG, frame.payload, masked=False))
            elif frame.op == raw.CLOSE:
                await self.out(stream, raw.frame(raw.CLOSE, frame.payload, masked=False))
                await stream.aclose()
                return False
            elif frame.fin:
                text, self.parts = self.parts + frame.payload.decode("utf-8", "replace"), ""
                await self.answer(stream, text)
            else:
                self.parts += frame.payload.decode("utf-8", "replace")
            return True

        if await accept(stream):
            await each_frame(stream, take)

    async def answer(self, stream: trio.abc.Stream, text: str) -> None:
        try:
            message = json.loads(text)
            events = self.turn(message)
        except (ValueError, KeyError, TypeError):
            events = [error("invalid_json")]
        for event in self.change(events):
            await trio.sleep(self.delay)
            data = event if isinstance(event, str) else json.dumps(event)
            await self.out(stream, raw.frame(raw.TEXT, data.encode(), masked=False))

    def turn(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["type"] != "response.create":
            return [error("unknown_event_type")]
        self.number += 1
        words = str(message["input"]).removeprefix("say: ").split()[:500]
        return turn(f"resp_{self.number}", words, message.get("stream_id"))

    async def out(self, stream: trio.abc.Stream, data: bytes) -> None:
        try:
            await stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


def error(code: str) -> dict[str, Any]:
    body = {"type": "invalid_request_error", "code": code, "message": "no", "param": None}
    return {"type": "error", "status": 400, "error": body}


def turn(name: str, words: list[str], lane: str | None = None) -> list[dict[str, Any]]:
    """The events of one response that says ``words``, without the fields that the tests do not need."""
    item = {"id": f"msg_{name}", "type": "message", "role": "assistant"}
    response = {"id": name, "object": "response", "status": "in_progress", "output": []}
    whole = "".join(words)
    part = {"type": "output_text", "text": whole, "annotations": [], "logprobs": []}
    done = {**item, "status": "completed", "content": [part]}
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **at, "text": whole, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [done]}},
    ]
    extra = {} if lane is None else {"stream_id": lane}
    return [{**event, "sequence_number": place, **extra} for place, event in enumerate(events)]


# --- servers that are worth nothing ------------------------------------------------------------------


async def silent(stream: trio.abc.Stream) -> None:
    """Accepts the upgrade, and says nothing any more."""

    async def take(_: raw.Frame) -> bool:
        return True

    if await accept(stream):
        await each_frame(stream, take)


async def drop(stream: trio.abc.Stream) -> None:
    """Ends TCP at once."""
    await stream.aclose()


async def drop_after_handshake(stream: trio.abc.Stream) -> None:
    await accept(stream)
    await stream.aclose()


async def drop_after_message(stream: trio.abc.Stream) -> None:
    async def take(_: raw.Frame) -> bool:
        await stream.aclose()
        return False

    if await accept(stream):
        await each_frame(stream, take)


async def echo(stream: trio.abc.Stream) -> None:
    """Sends every frame back."""

    async def take(frame: raw.Frame) -> bool:
        op = raw.PONG if frame.op == raw.PING else frame.op
        await stream.send_all(raw.frame(op, frame.payload, masked=False))
        return True

    if await accept(stream):
        await each_frame(stream, take)


async def always_error(stream: trio.abc.Stream) -> None:
    """Answers every message with the same error."""

    async def take(frame: raw.Frame) -> bool:
        if frame.op == raw.TEXT:
            text = json.dumps(error("server_error")).encode()
            await stream.send_all(raw.frame(raw.TEXT, text, masked=False))
        return True

    if await accept(stream):
        await each_frame(stream, take)


async def garbage(stream: trio.abc.Stream) -> None:
    """Bytes that are neither HTTP nor WebSocket."""
    await stream.send_all(b"\x00\xff\x13garbage\r\n\r\n" * 10)
    await stream.aclose()


async def hang(stream: trio.abc.Stream) -> None:
    """Takes the connection, and never answers the handshake."""
    while await stream.receive_some(65536):
        pass


async def refuse(stream: trio.abc.Stream) -> None:
    """Answers every handshake with 401."""
    if await read_head(stream):
        body = (
            b'{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"no","param":null}}'
        )
        head = f"HTTP/1.1 401 Unauthorized\r\nContent-Length: {len(body)}\r\n\r\n"
        await stream.send_all(head.encode() + body)
        await stream.aclose()


NULL_SERVERS: dict[str, Serve] = {
    "silent": silent,
    "drop": drop,
    "drop_after_handshake": drop_after_handshake,
    "drop_after_message": drop_after_message,
    "echo": echo,
    "always_error": always_error,
    "garbage": garbage,
    "hang": hang,
    "refuse": refuse,
}


@attrs.frozen
class Memory:
    """A target over memory streams; ``nursery`` holds the server's tasks."""

    nursery: trio.Nursery
    serve: Serve
    endpoint: Endpoint = attrs.Factory(Endpoint)

    async def connect(self) -> trio.abc.Stream:
        client, server = memory_stream_pair()
        self.nursery.start_soon(self._serve, server)
        return client

    async def _serve(self, stream: trio.abc.Stream) -> None:
        try:
            await self.serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def stop(self) -> None:
        raise NotImplementedError
