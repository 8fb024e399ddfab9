"""The application on the shell: a session for each WebSocket, and one for each HTTP create."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import attrs

from responses_ref.protocol import codec
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.events import Sendable

from . import routes
from .framing import frames
from .http import Request, Responder
from .session import Rooms, Session, Sink
from .websocket import WebSocket

APPEND_BETA = "responses_websockets=2026-02-04"


@attrs.frozen
class FrameSink:
    """Events as text frames, all that belong together in one write."""

    socket: WebSocket

    def send(self, events: Sequence[Sendable]) -> None:
        self.socket.send(frames(chain.from_iterable(map(codec.encode, events))))

    async def drained(self) -> None:
        if self.socket.congested:
            await self.socket.drained()

    def close(self, code: int, reason: str) -> None:
        self.socket.close_soon(code, reason)


@attrs.frozen
class App:
    """What the shell calls for each upgrade and each request."""

    rooms: Rooms

    async def websocket(self, socket: WebSocket, request: Request) -> None:
        """Run one connection until it is closed. All of its state is local to this call."""
        core, sink = self.core(request), self.sink(socket)
        session = Session(self.rooms, core, sink, socket.nursery, socket.number, request.tenant, socket.trace)
        del request  # with it goes the HTTP side of the connection, 3 KB that need not idle along
        socket.on_drain = lambda: session.feed(core.drain)
        session.feed(core.open)
        try:
            while (message := await socket.receive()) is not None:
                session.feed(core.receive if isinstance(message, str) else core.receive_binary, message)
                del message
        finally:
            session.end()
        session.feed(core.peer_closed, socket.closed.code if socket.closed else 1006)

    def core(self, request: Request) -> Connection:
        """The protocol of one connection."""
        settings = self.rooms.settings
        append = settings.append_for_all or self._asks_for_append(request)
        return Connection(settings, self.rooms.ids(request.connection, request.ordinal), append)

    def sink(self, socket: WebSocket) -> Sink:
        """Where its events go."""
        return FrameSink(socket)

    def _asks_for_append(self, request: Request) -> bool:
        """The upgrade's own wish for the append prototype (RWS-APP-001)."""
        betas = request.headers.get("openai-beta", "").split(",")
        return APPEND_BETA in map(str.strip, betas) and self.rooms.settings.offers("append")

    async def http(self, request: Request, respond: Responder) -> None:
        """Answer one plain HTTP request."""
        await routes.answer(self.rooms, request, respond)
