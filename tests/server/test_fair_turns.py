"""Streams that are flat out take turns: on one connection, and on several (RWS-LAN-028)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import attrs
import pytest
import trio

from responses_ref.model.streamer import profile
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.events import Deltas, Event, Sendable
from responses_ref.server.ids import RandomIds
from responses_ref.server.session import Rooms, Session
from responses_ref.serving import Options, build

STREAMS = 16
TURN = 256  # deltas at most, says the clause


@attrs.define
class Log:
    """All runs of deltas, of all sessions, in the order in which they went out: (stream, deltas)."""

    runs: list[tuple[str, int]] = attrs.Factory(list)
    begun: dict[str, int] = attrs.Factory(dict)  # how many runs there were at its response.in_progress
    ended: list[str] = attrs.Factory(list)
    changed: trio.Event = attrs.Factory(trio.Event)

    async def until_ended(self, streams: int) -> None:
        while len(self.ended) < streams:
            self.changed = trio.Event()
            await self.changed.wait()


@attrs.define
class Sink:
    """Where one session's events go: the stream is the lane, or the session."""

    log: Log
    name: str

    def send(self, events: Sequence[Sendable]) -> None:
        for event in events:
            if isinstance(event, Deltas):
                name = event.template.stream_id or self.name
                self.log.runs.append((name, len(event.texts)))
            elif isinstance(event, Event) and event.type == "response.in_progress":
                self.log.begun[event.stream_id or self.name] = len(self.log.runs)
            elif isinstance(event, Event) and event.type == "response.completed":
                self.log.ended.append(event.stream_id or self.name)
        self.log.changed.set()

    async def drained(self) -> None:
        """Never full: only the processor is shared."""

    def close(self, code: int, reason: str) -> None:
        raise AssertionError("nobody closes here")


@attrs.define
class Streams:
    """Sessions of one server: ``lanes`` puts all streams on the first, else each has its own."""

    rooms: Rooms
    nursery: trio.Nursery
    lanes: bool
    log: Log = attrs.Factory(Log)
    sessions: list[Session] = attrs.Factory(list)

    def start(self, name: str, tokens: int) -> None:
        if not self.sessions or not self.lanes:
            core = Connection(self.rooms.settings, RandomIds())
            number = len(self.sessions) + 1
            self.sessions.append(
                Session(self.rooms, core, Sink(self.log, name), self.nursery, number, 0, None)
            )
            self.sessions[-1].feed(core.open)
        lane = {"stream_id": name} if self.lanes else {}
        create = {"type": "response.create", "model": "m", "input": f"tokens: {tokens}", **lane}
        self.sessions[-1].feed(self.sessions[-1].core.receive, json.dumps(create))


@asynccontextmanager
async def streams(lanes: bool) -> AsyncIterator[Streams]:
    server = build(Options(speed=profile("instant")))
    rooms: Rooms = server.app.rooms  # type: ignore[attr-defined]
    with trio.fail_after(600):
        async with server.running() as nursery:
            yield (started := Streams(rooms, nursery, lanes))
            for session in started.sessions:
                session.end()
            nursery.cancel_scope.cancel()


ON = pytest.mark.parametrize("lanes", [True, False], ids=["lanes", "connections"])


@ON
async def test_none_waits_for_more_than_a_round(lanes: bool, autojump_clock: object) -> None:
    """Between two turns of a stream each other one has at most two: it may be last in a round, then first."""
    async with streams(lanes) as started:
        for number in range(STREAMS):
            started.start(f"s{number}", 20 * TURN)
        await started.log.until_ended(STREAMS)
    runs = started.log.runs
    assert max(size for _, size in runs) <= TURN
    for stream in {name for name, _ in runs}:
        places = [place for place, (name, _) in enumerate(runs) if name == stream]
        assert len(places) >= 20
        for earlier, later in pairwise(places):
            between = [name for name, _ in runs[earlier + 1 : later]]
            assert all(between.count(other) <= 2 for other in set(between))


@ON
async def test_a_first_delta_passes_what_streams_already(lanes: bool, autojump_clock: object) -> None:
    """A new stream speaks after three turns of each other one at most, however much they have left to say."""
    async with streams(lanes) as started:
        for number in range(STREAMS - 1):
            started.start(f"s{number}", 200 * TURN)
        while len(started.log.runs) < 5 * STREAMS:
            await trio.lowlevel.checkpoint()
        started.start("new", 1)
        await started.log.until_ended(1)
    assert started.log.ended[0] == "new"
    runs, begun = started.log.runs, started.log.begun["new"]
    waited = [name for name, _ in runs[begun : runs.index(("new", 1))]]
    assert all(waited.count(other) <= 3 for other in set(waited))
