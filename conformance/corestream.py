"""The WebSocket around a core: a byte stream for the runner, messages for the port behind it."""

from __future__ import annotations

import base64
from collections.abc import Callable

import trio
from wsproto import ConnectionType, WSConnection, events
from wsproto.connection import ConnectionState
from wsproto.utilities import ProtocolError

from conformance.target import Gone


class CoreStream(trio.abc.Stream):
    """The client's end of a connection. ``say(what, conn=name, …)`` tells the port what happens on it."""

    def __init__(self, name: str, say: Callable[..., None]) -> None:
        self.name, self._say = name, say
        self._websocket = WSConnection(ConnectionType.SERVER)
        self._text: list[str] = []
        self._data: list[bytes] = []
        self._out = bytearray()
        self._told = False  # the port knows of this connection, and not of its end
        self._ended: str | None = None  # empty: it ended as a connection does; else what went wrong
        self._closed = False
        self._changed = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError
        if self._ended is not None:
            raise trio.BrokenResourceError
        try:
            self._websocket.receive_data(bytes(data))
            for event in self._websocket.events():
                self._take(event)
        except ProtocolError:
            self.end("")

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._out and self._ended is None and not self._closed:
            await self._changed.wait()
        if self._closed:
            raise trio.ClosedResourceError
        if not self._out and self._ended:
            raise Gone(self._ended)
        data = bytes(self._out[:max_bytes])
        del self._out[:max_bytes]
        return data

    async def aclose(self) -> None:
        self._closed = True
        self._tell_end(1006)
        self._change()
        await trio.lowlevel.checkpoint()

    def end(self, why: str) -> None:
        """Nothing comes any more; ``why`` is empty if that is how a connection ends."""
        if self._ended is None:
            self._ended = why
        self._change()

    # --- from the client ----------------------------------------------------------------------------

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.Request):
            self._send(events.AcceptConnection())
            self._told = True
            self._say("open", conn=self.name)
        elif isinstance(event, events.TextMessage):
            self._text.append(event.data)
            if event.message_finished:
                text, self._text = "".join(self._text), []
                self._say("receive", conn=self.name, text=text)
        elif isinstance(event, events.BytesMessage):
            self._data.append(bytes(event.data))
            if event.message_finished:
                data, self._data = b"".join(self._data), []
                self._say("receive", conn=self.name, base64=base64.b64encode(data).decode())
        elif isinstance(event, events.Ping):
            self._send(event.response())
        elif isinstance(event, events.CloseConnection):
            self._take_close(event)

    def _take_close(self, event: events.CloseConnection) -> None:
        self._tell_end(int(event.code))
        if self._websocket.state is not ConnectionState.CLOSED:
            self._send(event.response())
        self.end("")

    def _tell_end(self, code: int) -> None:
        if self._told:
            self._told = False
            self._say("peer_closed", conn=self.name, code=code)

    # --- from the port ------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        self._send(events.TextMessage(text))

    def close(self, code: int, reason: str) -> None:
        self._told = False
        self._send(events.CloseConnection(code, reason))

    def _send(self, event: events.Event) -> None:
        """What the client can no longer get is lost, as it would be in a socket."""
        if self._ended is None and not self._closed:
            self._out += self._websocket.send(event)
            self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
