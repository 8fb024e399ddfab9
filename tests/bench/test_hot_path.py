"""What the fast path is made of, counted: writes, passes, and what an idle connection holds on to."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import attrs
import h11
import pytest
import trio

from responses_ref.bench.wire import UPGRADE, frame
from responses_ref.model.streamer import profile
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.events import Deltas, Event, Sendable
from responses_ref.server.ids import RandomIds
from responses_ref.server.session import BURST, Rooms, Session
from responses_ref.server.websocket import WebSocket
from responses_ref.serving import Options, build


@attrs.define
class Sink:
    """Remembers what each write would hold."""

    writes: list[list[Sendable]] = attrs.Factory(list)
    ended: trio.Event = attrs.Factory(trio.Event)

    def send(self, events: Sequence[Sendable]) -> None:
        self.writes.append(list(events))
        if isinstance(events[-1], Event) and events[-1].type == "response.completed":
            self.ended.set()

    async def drained(self) -> None:
        """Never full."""

    def close(self, code: int, reason: str) -> None:
        raise AssertionError("nobody closes here")


async def played(speed: str, script: str) -> Sink:
    """Have one response in a session of its own; the sink it went to."""
    server = build(Options(speed=profile(speed, 0.0)))
    rooms: Rooms = server.app.rooms  # type: ignore[attr-defined]
    sink, core = Sink(), Connection(rooms.settings, RandomIds())
    with trio.fail_after(600):
        async with server.running() as nursery:
            session = Session(rooms, core, sink, nursery, 1, 0, None)
            session.feed(core.open)
            session.feed(core.receive, f'{{"type":"response.create","model":"m","input":"{script}"}}')
            await sink.ended.wait()
            session.end()
            nursery.cancel_scope.cancel()
    return sink


def runs(sink: Sink) -> list[Deltas]:
    return [event for write in sink.writes for event in write if isinstance(event, Deltas)]


async def test_what_is_due_at_once_is_one_write_for_each_burst(autojump_clock: object) -> None:
    tokens = 10 * BURST
    sink = await played("instant", f"tokens: {tokens}")
    assert sum(len(run.texts) for run in runs(sink)) == tokens
    assert len(runs(sink)) <= tokens / BURST + 1
    assert len(sink.writes) <= tokens / BURST + 3


@pytest.mark.parametrize(("speed", "at_most"), [("1000", 2), ("4000", 8), ("100", 1)])
async def test_a_tick_is_one_write_of_all_that_is_due(
    speed: str, at_most: int, autojump_clock: object
) -> None:
    """On a grid of 2 ms; the first tick of all has what is due at the start."""
    sink = await played(speed, "tokens: 1000")
    sizes = [len(run.texts) for run in runs(sink)]
    assert sum(sizes) == 1_000
    assert max(sizes[1:]) <= at_most + 1
    assert len(sizes) <= 1_000 / at_most + 2


async def test_numbers_run_on_over_all_writes(autojump_clock: object) -> None:
    sink, expected = await played("4000", "think: a b c\\nsay: d e f\\ntokens: 500"), 0
    for event in (event for write in sink.writes for event in write):
        assert event.sequence_number == expected
        expected += len(event.texts) if isinstance(event, Deltas) else 1


async def test_an_idle_connection_is_one_task_and_no_http() -> None:
    """Thirty upgraded connections: a task each, no parser of HTTP, and none of frames yet."""
    count = 30
    server = build(Options(speed=profile("instant")))
    with trio.fail_after(60):
        async with server.running() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            await nursery.start(trio.serve_listeners, server.serve_stream, listeners)
            port = listeners[0].socket.getsockname()[1]
            gc.collect()
            before = trio.lowlevel.current_statistics().tasks_living, parsers()
            streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(count)]
            for stream in streams:
                await stream.send_all(UPGRADE)
                assert b" 101 " in await stream.receive_some()
            gc.collect()
            after = trio.lowlevel.current_statistics().tasks_living, parsers()
            assert after == (before[0] + count, before[1])
            sockets = [one for one in gc.get_objects() if isinstance(one, WebSocket)]
            assert len(sockets) == count
            assert all(one._parser is None for one in sockets)
            await streams[0].send_all(frame(b"{"))
            await streams[0].receive_some()
            assert sum(one._parser is not None for one in sockets) == 1
            for stream in streams:
                await stream.aclose()
            await server.empty()
            nursery.cancel_scope.cancel()


def parsers() -> int:
    return sum(isinstance(one, h11.Connection) for one in gc.get_objects())
