"""Leaving in stages: nobody new, the idle at once, the busy when they are done, the rest by force."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import wire
from shell import FakeApp

from responses_ref.server import drain
from responses_ref.server.accept import Server, open_listeners
from responses_ref.server.framing import frame
from responses_ref.server.http import Request, Responder
from responses_ref.server.websocket import WebSocket

DELTAS = 40


async def busy_on_request(socket: WebSocket, request: Request) -> None:
    """Streams when it is told to, and leaves when it is idle and the server drains."""
    busy = leaving = False

    async def stream() -> None:
        nonlocal busy
        busy = True
        for n in range(DELTAS):
            socket.send(frame(str(n).encode()))
            await trio.sleep(0.01)
        busy = False
        if leaving:
            socket.close_soon(1001)

    def on_drain() -> None:
        nonlocal leaving
        leaving = True
        if not busy:
            socket.close_soon(1001)

    socket.on_drain = on_drain
    while (message := await socket.receive()) is not None:
        if message == "hang":
            busy = True
        else:
            socket.nursery.start_soon(stream)


async def slow_answer(request: Request, respond: Responder) -> None:
    if request.path == "/late":
        await trio.sleep(0.3)
    async with respond.stream() as out:
        for n in range(DELTAS):
            out.send(b"%d," % n)
            await trio.sleep(0.01)


@attrs.define
class Draining:
    server: Server
    port: int
    signals: trio.MemorySendChannel[int]
    gone: trio.Event
    clients: list[wire.Client] = attrs.Factory(list)

    async def connect(self) -> wire.Client:
        self.clients.append(wire.Client(await trio.open_tcp_stream("127.0.0.1", self.port)))
        return self.clients[-1]


@asynccontextmanager
async def serving_until(grace: float = 5.0) -> AsyncIterator[Draining]:
    server = Server(FakeApp(busy_on_request, slow_answer))
    send, receive = trio.open_memory_channel[int](5)
    listeners = await open_listeners("127.0.0.1", 0)
    gone = trio.Event()

    async def run() -> None:
        await drain.serve(server, listeners, receive, grace)
        gone.set()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            draining = Draining(server, listeners[0].socket.getsockname()[1], send, gone)
            try:
                yield draining
            finally:
                with trio.CancelScope(shield=True):
                    for client in draining.clients:
                        await trio.aclose_forcefully(client.stream)
            await gone.wait()
    assert server.stats.open == 0
    assert server.stats.crashed == 0


async def leave(client: wire.Client) -> None:
    """Expect 1001, answer it, and see TCP shut."""
    got = await client.frame()
    assert got is not None
    assert got.code == 1001
    await client.send(wire.close(1001))
    assert await client.ended()


async def test_idle_ones_go_at_once_and_busy_ones_lose_nothing() -> None:
    async with serving_until() as draining:
        idle, busy, plain, waiting, half = [await draining.connect() for _ in range(5)]
        await waiting.send(wire.request("GET", "/stream"))
        assert await waiting.answer() is not None  # now it is kept for a next request
        await half.send(b"GET /v1/resp")
        await idle.open()
        await busy.open()
        await busy.send(wire.frame("go"))
        await plain.send(wire.request("GET", "/stream"))
        assert await busy.text() == "0"
        head = await plain.answer(head_only=True)
        assert head is not None
        assert "connection" not in head.headers
        await draining.signals.send(signal.SIGTERM)
        start = trio.current_time()
        await leave(idle)
        assert await waiting.ended()
        assert await half.ended()
        assert trio.current_time() - start < 1
        with pytest.raises(OSError, match="connect"):
            await draining.connect()
        for n in range(1, DELTAS):
            assert await busy.text() == str(n)
        await leave(busy)
        for n in range(DELTAS):
            assert await plain.chunk() == b"%d," % n
        assert await plain.chunk() == b""
        start = trio.current_time()
        assert await plain.ended()  # although its head had promised to keep it
        assert trio.current_time() - start < 1


async def test_an_answer_that_begins_while_draining_says_close() -> None:
    async with serving_until() as draining:
        client = await draining.connect()
        await client.send(wire.request("GET", "/late"))
        await trio.testing.wait_all_tasks_blocked(0.02)
        await draining.signals.send(signal.SIGTERM)
        answer = await client.answer()
        assert answer is not None
        assert answer.headers["connection"] == "close"
        assert await client.ended()


async def test_an_upgrade_on_a_kept_connection_is_refused_while_draining() -> None:
    async with serving_until() as draining:
        client = await draining.connect()
        await client.send(wire.request("GET", "/stream"), wire.upgrade())
        assert await client.answer(head_only=True) is not None
        assert await client.chunk() == b"0,"
        await draining.signals.send(signal.SIGTERM)
        while await client.chunk():
            pass
        answer = await client.answer()
        assert answer is not None
        assert (answer.status, answer.code) == (503, "server_shutting_down")
        assert await client.ended()


async def test_whoever_hangs_is_cut_behind_the_grace_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "MARGIN_SECONDS", 0.2)
    async with serving_until(grace=0.3) as draining:
        client = await (await draining.connect()).open()
        await client.send(wire.frame("hang"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        start = trio.current_time()
        await draining.signals.send(signal.SIGINT)
        assert await client.ended()
        await draining.gone.wait()
        assert 0.45 < trio.current_time() - start < 5


async def test_a_second_signal_stops_at_once() -> None:
    async with serving_until(grace=60) as draining:
        client = await (await draining.connect()).open()
        await client.send(wire.frame("hang"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        await draining.signals.send(signal.SIGTERM)
        await trio.sleep(0.1)
        assert not draining.gone.is_set()
        await draining.signals.send(signal.SIGTERM)
        with trio.fail_after(5):
            await draining.gone.wait()


PROGRAM = """
import signal, trio
from shell import FakeApp
from test_shell_drain import busy_on_request, slow_answer
from responses_ref.server import accept, drain

async def main():
    server = accept.Server(FakeApp(busy_on_request, slow_answer))
    listeners = await accept.open_listeners("127.0.0.1", 0)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        print(listeners[0].socket.getsockname()[1], flush=True)
        await drain.serve(server, listeners, signals, 10.0)

trio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_drains_on_a_signal_and_exits_0(number: int) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), str(here.parent.parent)])
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    process = subprocess.Popen(  # noqa: ASYNC220
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        assert process.stdout is not None
        with trio.fail_after(30), process.stdout:
            port = int(await trio.to_thread.run_sync(process.stdout.readline))
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            client = await wire.Client(stream).open()
            await client.send(wire.frame("go"))
            assert await client.text() == "0"
            process.send_signal(number)
            for n in range(1, DELTAS):
                assert await client.text() == str(n)
            await leave(client)
            await stream.aclose()
            assert await trio.to_thread.run_sync(process.wait) == 0
    finally:
        process.kill()
        process.wait()
