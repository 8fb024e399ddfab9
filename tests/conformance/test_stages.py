"""A server that stops half-way, wherever that is, gets a clear verdict in bounded time, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import attrs
import trio
from servers import NULL_SERVERS, Serve, accept, each_frame, turn
from test_cli import Done, serve, suite

from conformance import raw

CLAUSES = "RWS-SEQ-00[23]"
MINUTE = 60


def text_frame(event: object) -> bytes:
    return raw.frame(raw.TEXT, json.dumps(event).encode(), masked=False)


async def half_a_head(stream: trio.abc.Stream) -> None:
    await stream.receive_some(65536)
    await stream.send_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: webs")
    await trio.sleep_forever()


async def a_head_in_drops(stream: trio.abc.Stream) -> None:
    """One byte every tenth of a second: alive, but of no use."""
    await stream.receive_some(65536)
    for byte in b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 1000:
        await stream.send_all(bytes((byte,)))
        await trio.sleep(0.1)


async def an_endless_head(stream: trio.abc.Stream) -> None:
    await stream.send_all(b"HTTP/1.1 101 Switching Protocols\r\n")
    while True:
        await stream.send_all(b"X-More: " + b"x" * 8000 + b"\r\n")


def answering(answer: Callable[[trio.abc.Stream], Awaitable[None]]) -> Serve:
    """A server that accepts, and does this with each text message."""

    async def server(stream: trio.abc.Stream) -> None:
        async def take(frame: raw.Frame) -> bool:
            if frame.op == raw.TEXT:
                await answer(stream)
            return True

        if await accept(stream):
            await each_frame(stream, take)

    return server


async def half_a_turn(stream: trio.abc.Stream) -> None:
    for event in turn("resp_1", ["a"])[:5]:
        await stream.send_all(text_frame(event))


async def half_a_frame(stream: trio.abc.Stream) -> None:
    await stream.send_all(text_frame(turn("resp_1", ["a"])[0])[:-20])


async def half_a_message(stream: trio.abc.Stream) -> None:
    await stream.send_all(raw.frame(raw.TEXT, b'{"type":', fin=False, masked=False))


async def an_endless_turn(stream: trio.abc.Stream) -> None:
    events = turn("resp_1", ["a"])
    await stream.send_all(b"".join(map(text_frame, events[:4])))
    while True:
        await stream.send_all(text_frame(events[4]))


async def a_frame_of_an_exbibyte(stream: trio.abc.Stream) -> None:
    await stream.send_all(raw.frame(raw.TEXT, b"x", masked=False, length=1 << 60))


async def never_reads(stream: trio.abc.Stream) -> None:
    await accept(stream)
    await trio.sleep_forever()


@attrs.frozen
class Stage:
    """``words`` of the report; ``scheme`` by which the server is asked; ``cases`` to play."""

    server: Serve
    words: str
    scheme: str = "ws"
    cases: str = CLAUSES


STAGES = {
    "before TLS": Stage(NULL_SERVERS["hang"], "no TLS with 127.0.0.1:", scheme="wss"),
    "in the head": Stage(half_a_head, "no answer to the handshake within 5 s"),
    "in the head, drop by drop": Stage(a_head_in_drops, "no answer to the handshake within 5 s"),
    "in a head without end": Stage(an_endless_head, "the handshake failed: no HTTP answer"),
    "after the head": Stage(never_reads, "nothing that matches came within 5 s"),
    "after the head, while it is sent to": Stage(
        never_reads, "nothing that matches came within 5 s", cases="sixteen-mebibytes"
    ),
    "in a frame": Stage(answering(half_a_frame), "nothing that matches came within 5 s"),
    "in a message": Stage(answering(half_a_message), "nothing that matches came within 5 s"),
    "in a turn": Stage(answering(half_a_turn), "nothing that matches came within 5 s"),
    "in a turn without end": Stage(answering(an_endless_turn), "nothing that matches came within 5 s"),
    "in a frame without end": Stage(answering(a_frame_of_an_exbibyte), "the server sent a frame of"),
}


async def test_a_server_that_stops_half_way() -> None:
    found: dict[str, tuple[Done, float]] = {}

    async def one(name: str, stage: Stage) -> None:
        async with places, trio.open_nursery() as nursery:
            address = await serve(nursery, stage.server)
            began = trio.current_time()
            done = await suite("run", f"{stage.scheme}://{address}/v1/responses", "-k", stage.cases)
            found[name] = done, trio.current_time() - began
            nursery.cancel_scope.cancel()

    places = trio.Semaphore(4)
    async with trio.open_nursery() as nursery:
        for name, stage in STAGES.items():
            nursery.start_soon(one, name, stage)
    for name, (done, seconds) in found.items():
        assert STAGES[name].words in done.out, (name, done.out)
        assert done.code in (1, 3), (name, done.out)
        assert seconds < MINUTE, name
