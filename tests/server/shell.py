"""A fake application and servers around it, for the tests of the shell."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import wire
from trio.testing import memory_stream_pair

from responses_ref.server.accept import Server
from responses_ref.server.framing import frame
from responses_ref.server.http import Request, Responder
from responses_ref.server.limits import Limits
from responses_ref.server.websocket import WebSocket

# Quick deadlines only where one is to be reached: the machine may be busy.
QUICK = Limits(handshake_seconds=0.5, close_seconds=0.5, write_seconds=0.5, keepalive_seconds=0.5)

PATIENT = Limits()


async def echo(socket: WebSocket, request: Request) -> None:
    """Says every message back."""
    while (message := await socket.receive()) is not None:
        data = message.encode() if isinstance(message, str) else message
        socket.send(frame(data, 1 if isinstance(message, str) else 2))


async def hello(request: Request, respond: Responder) -> None:
    """Answers with what it was asked."""
    body = await request.body()
    await respond.json(
        200,
        {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "tenant": request.tenant,
            "body": body.decode(),
        },
    )


@attrs.define
class FakeApp:
    """Two functions and what they have seen."""

    on_websocket: Callable[[WebSocket, Request], Awaitable[None]] = echo
    on_http: Callable[[Request, Responder], Awaitable[None]] = hello
    sockets: list[WebSocket] = attrs.Factory(list)
    requests: list[Request] = attrs.Factory(list)

    async def websocket(self, socket: WebSocket, request: Request) -> None:
        self.sockets.append(socket)
        self.requests.append(request)
        await self.on_websocket(socket, request)

    async def http(self, request: Request, respond: Responder) -> None:
        self.requests.append(request)
        await self.on_http(request, respond)


@attrs.define
class Harness:
    """A server that runs, and ways to reach it."""

    server: Server
    app: FakeApp
    nursery: trio.Nursery
    port: int
    clients: list[wire.Client] = attrs.Factory(list)

    async def tcp(self, receive_buffer: int | None = None) -> wire.Client:
        """A real socket."""
        socket = trio.socket.socket()
        if receive_buffer is not None:
            socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
        await socket.connect(("127.0.0.1", self.port))
        return self._client(trio.SocketStream(socket))

    def memory(self) -> wire.Client:
        """A stream without a socket."""
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.server.serve_stream, theirs)
        return self._client(ours)

    async def connect(self, kind: str) -> wire.Client:
        return await self.tcp() if kind == "tcp" else self.memory()

    def _client(self, stream: trio.abc.Stream) -> wire.Client:
        self.clients.append(wire.Client(stream))
        return self.clients[-1]


def open_files() -> int:
    """File descriptors of this process: sockets that were left open show up here."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@asynccontextmanager
async def serving(
    app: FakeApp | None = None,
    limits: Limits = PATIENT,
    seconds: float = 60,
    crashes: int = 0,
    **options: Any,
) -> AsyncIterator[Harness]:
    """Run a server on a real port and check that every connection leaves nothing behind."""
    app = app or FakeApp()
    server = Server(app, limits, **options)
    with trio.fail_after(seconds):
        async with server.running() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            await nursery.start(trio.serve_listeners, server.serve_stream, listeners)
            harness = Harness(server, app, nursery, listeners[0].socket.getsockname()[1])
            await trio.testing.wait_all_tasks_blocked()
            before = tasks(), open_files()
            try:
                yield harness
            finally:
                with trio.CancelScope(shield=True):
                    for client in harness.clients:
                        await trio.aclose_forcefully(client.stream)
            await server.empty()
            await trio.testing.wait_all_tasks_blocked()
            assert (tasks(), open_files()) == before
            assert not server._peers
            assert server.stats.crashed == crashes
