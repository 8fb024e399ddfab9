"""A plain WebSocket client for tests: sends JSON, receives JSON, and waits for nothing for ever."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

SECONDS = 60  # for one event, on a busy machine
CLOSE_SECONDS = 5
TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})
Event = dict[str, Any]


def ends(event: Event) -> bool:
    """Whether a turn ends with this event: a terminal, or the refusal of a request."""
    return event["type"] in TERMINAL or (event["type"] == "error" and "sequence_number" not in event)


@attrs.define
class Peer:
    """One connection to a server under test."""

    socket: WebSocketConnection

    async def send(self, message: Any) -> None:
        """Send text or bytes as they are, and anything else as JSON."""
        raw = message if isinstance(message, str | bytes) else json.dumps(message)
        with trio.fail_after(SECONDS):
            await self.socket.send_message(raw)

    async def create(self, input: Any = "say: ok", **fields: Any) -> None:
        """Send a ``response.create`` that is not stored, unless ``fields`` says otherwise."""
        basic = {"type": "response.create", "model": "scripted", "store": False, "input": input}
        await self.send({**basic, **fields})

    async def event(self) -> Event:
        """The next event."""
        with trio.fail_after(SECONDS):
            event: Event = json.loads(await self.socket.get_message())
        return event

    async def rest(self) -> list[Event]:
        """The events up to the end of a turn."""
        events = [await self.event()]
        while not ends(events[-1]):
            events.append(await self.event())
        return events

    async def turn(self, input: Any = "say: ok", **fields: Any) -> list[Event]:
        """Send one create and return all of its events."""
        await self.create(input, **fields)
        return await self.rest()

    async def response(self, input: Any = "say: ok", **fields: Any) -> Event:
        """Send one create and return the response it ends with."""
        response: Event = (await self.turn(input, **fields))[-1]["response"]
        return response

    async def refusal(self, message: Any) -> Event:
        """Send a message that is refused, and return the error."""
        await self.send(message)
        event = await self.event()
        assert event["type"] == "error", event
        error: Event = event["error"]
        return {"status": event["status"], **error}


@asynccontextmanager
async def connect(url: str, headers: Sequence[tuple[str, str]] = ()) -> AsyncIterator[Peer]:
    """Open a connection to a ``ws:`` URL, and close it at the end of the block."""
    place = urlsplit(url)
    raw = [(name.encode(), value.encode()) for name, value in headers]
    with trio.fail_after(SECONDS):
        stream = await trio.open_tcp_stream(place.hostname or "", place.port or 80)
    try:
        async with stream, trio.open_nursery() as nursery:  # the library leaves its socket open at times
            target = f"{place.path}?{place.query}".rstrip("?")
            with trio.fail_after(SECONDS):
                socket = await wrap_client_stream(
                    nursery, stream, place.netloc, target, extra_headers=raw, max_message_size=2**26
                )
            yield Peer(socket)
            with trio.move_on_after(CLOSE_SECONDS):
                await socket.aclose()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # what went wrong in the block, out of the client's nursery
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None
