"""Servers on other libraries, each as its users would write it: ``python -m responses_ref.bench.peers NAME``.

A client's message says how many deltas it wants and how fast.  trio-websocket takes a
second argument: which responses to count under callgrind, as a JSON list.
  trio-websocket makes
each event with ``json.dumps`` and sends it with ``send_message``, always.  The others send
one ready event over and over when no speed is asked for, which is less than any real
server does; at a speed they make each event with ``json.dumps`` and sleep to its time.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import trio

from .callgrind import Responses

ITEM = "msg_0000000000000000000000000000000000"
COMPLETED = json.dumps({"type": "response.completed", "sequence_number": 0, "response": {}})


def event(number: int) -> dict[str, Any]:
    """A text delta in the shape and size of ours."""
    return {
        "type": "response.output_text.delta",
        "item_id": ITEM,
        "output_index": 0,
        "content_index": 0,
        "logprobs": [],
        "delta": " token",
        "sequence_number": number,
    }


READY = json.dumps(event(10_000), separators=(",", ":"))


def asked(message: str | bytes) -> tuple[int, float]:
    """How many deltas the client wants, and how many a second (0: flat out)."""
    wish = json.loads(message)["metadata"]
    return int(wish["tokens"]), float(wish["tps"])


# --- trio-websocket: naive, and the yardstick. ---


async def with_trio_websocket(listener: socket.socket) -> None:
    library = import_module("trio_websocket")
    counted = Responses(frozenset(json.loads(sys.argv[2]))) if len(sys.argv) > 2 else None

    async def handle(request: Any) -> None:
        connection = await request.accept()
        while True:
            try:
                count, tps = asked(await connection.get_message())
            except library.ConnectionClosed:
                return
            start = trio.current_time()
            for number in range(count):
                if tps:
                    await trio.sleep_until(start + number / tps)
                await connection.send_message(json.dumps(event(number)))
            await connection.send_message(COMPLETED)
            if counted is not None:
                counted.end()

    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
    await library.WebSocketServer(handle, listeners).run()


# --- asyncio: one coroutine sends an event. ---

Send = Callable[[str], Awaitable[None]]


async def answer(message: str | bytes, send: Send) -> None:
    """Send what was asked for; above some speed an event's time is past already, and no sleep is due."""
    count, tps = asked(message)
    clock = asyncio.get_running_loop().time
    start = clock()
    for number in range(count):
        if tps:
            if (wait := start + number / tps - clock()) > 0:
                await asyncio.sleep(wait)
            await send(json.dumps(event(number)))
        else:
            await send(READY)
    await send(COMPLETED)


async def with_websockets(listener: socket.socket) -> None:
    library = import_module("websockets.asyncio.server")

    async def handle(connection: Any) -> None:
        async for message in connection:
            await answer(message, connection.send)

    async with library.serve(handle, sock=listener, compression=None, ping_interval=None):
        await asyncio.Event().wait()


async def with_aiohttp(listener: socket.socket) -> None:
    web: Any = import_module("aiohttp.web")

    async def handle(request: Any) -> Any:
        connection = web.WebSocketResponse(compress=False)
        await connection.prepare(request)
        async for message in connection:
            await answer(message.data, connection.send_str)
        return connection

    app = web.Application()
    app.router.add_get("/v1/responses", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await asyncio.Event().wait()


async def with_picows(listener: socket.socket) -> None:
    library = import_module("picows")
    text = library.WSMsgType.TEXT
    tasks = set()

    class Handler(library.WSListener):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.writable = asyncio.Event()
            self.writable.set()

        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            if frame.msg_type == text:
                task = asyncio.create_task(answer(frame.get_payload_as_bytes(), self.sender(transport)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        def sender(self, transport: Any) -> Send:
            async def send(message: str) -> None:
                transport.send(text, message.encode())
                if not self.writable.is_set():
                    await self.writable.wait()

            return send

        def pause_writing(self) -> None:
            self.writable.clear()

        def resume_writing(self) -> None:
            self.writable.set()

    await library.ws_create_server(lambda request: Handler(), sock=listener)
    await asyncio.Event().wait()


async def with_uvicorn(listener: socket.socket) -> None:
    library = import_module("uvicorn")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return

        async def send_text(message: str) -> None:
            await send({"type": "websocket.send", "text": message})

        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await answer(message["text"], send_text)

    options = {"lifespan": "off", "log_level": "error", "access_log": False, "ws_ping_interval": None}
    config = library.Config(app, ws="wsproto", ws_per_message_deflate=False, **options)
    await library.Server(config).serve(sockets=[listener])


PEERS: dict[str, Callable[[socket.socket], Awaitable[None]]] = {
    "websockets": with_websockets,
    "aiohttp": with_aiohttp,
    "picows": with_picows,
    "uvicorn": with_uvicorn,
}


def main() -> None:
    """Serve until killed; the first line of the output is the port."""
    name = sys.argv[1]
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    print(f"port {listener.getsockname()[1]}", flush=True)
    if name == "trio-websocket":
        trio.run(with_trio_websocket, listener)
    else:
        coroutine: Any = PEERS[name](listener)
        asyncio.run(coroutine)


if __name__ == "__main__":
    main()
