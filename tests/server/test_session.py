"""A whole connection over a memory stream, in virtual time: accounts, a store that fails, what is left."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import wire
from trio.testing import MockClock, memory_stream_pair
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from responses_ref.model.streamer import profile
from responses_ref.server.accept import Server
from responses_ref.serving import Options, build
from responses_ref.store import MemoryStore, StoreFailed

Event = dict[str, Any]


@attrs.define
class Accounts:
    """A biller that takes its time. ``log`` says when each account was done."""

    seconds: float = 1.0
    log: list[tuple[float, Mapping[str, Any]]] = attrs.Factory(list)

    async def __call__(self, record: Mapping[str, Any]) -> None:
        await trio.sleep(self.seconds)
        self.log.append((trio.current_time(), record))


@attrs.define
class Client:
    socket: WebSocketConnection

    async def create(self, text: object, **fields: object) -> None:
        event = {"type": "response.create", "model": "scripted", "input": text, **fields}
        await self.socket.send_message(json.dumps(event))

    async def until(self, *kinds: str) -> Event:
        """The next event of one of these types."""
        while True:
            event: Event = json.loads(await self.socket.get_message())
            if event["type"] in kinds:
                return event


@asynccontextmanager
async def connected(server: Server, *headers: tuple[str, str]) -> AsyncIterator[Client]:
    """One client of a server that runs; in the end it closes, and the server is empty."""
    async with server.running() as nursery, trio.open_nursery() as wire:
        near, far = memory_stream_pair()
        nursery.start_soon(server.serve_stream, far)
        extra = [(name.encode(), value.encode()) for name, value in headers]
        socket = await wrap_client_stream(wire, near, "server", "/v1/responses", extra_headers=extra)
        yield Client(socket)
        await socket.aclose()
        await server.empty()
        wire.cancel_scope.cancel()


def _build(accounts: Accounts | None = None, **options: Any) -> Server:
    chosen = Options(speed=profile("instant"), seed=1, **options)
    return build(chosen) if accounts is None else build(chosen, accounts)


async def test_the_next_turn_does_not_wait_for_the_account(autojump_clock: MockClock) -> None:
    """With a biller that takes a second the next response.created comes before it is done."""
    accounts = Accounts()
    async with connected(_build(accounts)) as client:
        for text in ("say: one", "say: two"):
            await client.create(text, store=False)
            await client.until("response.completed")
        assert accounts.log == []
    assert [record["usage"]["output_tokens"] for _, record in accounts.log] == [1, 1]


async def test_every_account_is_done_when_the_connection_has_ended(autojump_clock: MockClock) -> None:
    """The peer closes right after the last turn: the server is not empty before the account is done."""
    accounts = Accounts(3.0)
    async with connected(_build(accounts)) as client:
        await client.create("say: one")
        done = await client.until("response.completed")
    assert [record["id"] for _, record in accounts.log] == [done["response"]["id"]]


async def test_an_account_that_never_ends_holds_nobody_up(autojump_clock: MockClock) -> None:
    """A biller that hangs is given up after its five seconds, and the connection ends."""
    accounts = Accounts(10_000.0)
    async with connected(_build(accounts)) as client:
        await client.create("say: one")
        await client.until("response.completed")
    assert trio.current_time() < 60
    assert accounts.log == []


async def test_what_was_begun_is_accounted_for_when_the_peer_leaves(autojump_clock: MockClock) -> None:
    """A peer leaves in the middle of a turn: one account, with the tokens that were made by then."""
    accounts = Accounts()
    async with connected(_build(accounts)) as client:
        await client.create("every: 1\nsay: a b c d e f g h")
        for _ in range(3):
            await client.until("response.output_text.delta")
    assert [record["usage"]["output_tokens"] for _, record in accounts.log] == [3]


async def test_a_draining_server_waits_for_its_accounts(autojump_clock: MockClock) -> None:
    """The server goes down right after a turn: Close 1001 at once, and the account is still done."""
    accounts = Accounts(2.0)
    server = _build(accounts)
    async with connected(server) as client:
        await client.create("say: one")
        await client.until("response.completed")
        server.drain()
        with pytest.raises(ConnectionClosed):
            await client.until("never")
        assert client.socket.closed.code == 1001
    assert len(accounts.log) == 1


@pytest.mark.parametrize(
    ("beta", "answer"),
    [
        ("responses_websockets=2026-02-04", "response.failed"),
        ("assistants=v2,  responses_websockets=2026-02-04", "response.failed"),
        ("responses_websockets=2026-02-04-rc", "error"),
        ("no_responses_websockets=2026-02-04", "error"),
    ],
)
async def test_the_prototype_is_one_word_of_its_header(
    beta: str, answer: str, autojump_clock: MockClock
) -> None:
    """``OpenAI-Beta`` is a list; without the word an append is unknown, with it a response that fails."""
    async with connected(_build(), ("OpenAI-Beta", beta)) as client:
        await client.socket.send_message('{"type": "response.append", "input": []}')
        assert (await client.until("error", "response.failed"))["type"] == answer


async def test_an_event_stream_says_what_came_before_its_head(autojump_clock: MockClock) -> None:
    """A model in no time makes hundreds of events before the head of the answer is out: none is lost."""
    create = {"model": "scripted", "store": False, "stream": True, "input": "call: f\n" * 100}
    body = json.dumps(create).encode()
    head = b"POST /v1/responses HTTP/1.1\r\nhost: server\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    server = _build()
    async with server.running() as nursery:
        near, far = memory_stream_pair()
        nursery.start_soon(server.serve_stream, far)
        await near.send_all(head % len(body) + body)
        answer = b"".join([part async for part in near])
    numbers = [int(number) for number in re.findall(rb'"sequence_number":(\d+)', answer)]
    assert numbers == list(range(403))


@attrs.define
class FullStore(MemoryStore):
    async def put(self, tenant: int, node: object) -> None:
        raise StoreFailed


async def test_a_store_that_fails_fails_the_response(autojump_clock: MockClock) -> None:
    """What could not be kept must not look kept; without store nothing is lost, and the turn completes."""
    server = _build()
    rooms = server.app.rooms
    server.app = attrs.evolve(server.app, rooms=attrs.evolve(rooms, store=FullStore()))
    async with connected(server) as client:
        await client.create("say: one")
        failed = await client.until("response.failed", "response.completed")
        assert failed["response"]["error"]["code"] == "server_error"
        await client.create("say: two", store=False)
        assert await client.until("response.completed", "response.failed", "error")


@pytest.mark.parametrize(("end", "seconds"), [("close", 0), ("limit", 40), ("idle", 20)])
async def test_nothing_is_left_behind(end: str, seconds: float, autojump_clock: MockClock) -> None:
    """However a connection ends, with a turn under way or not, the shared timer forgets it."""
    server = _build(max_connection_seconds=20.0, idle_seconds=10.0, grace_seconds=5.0)
    async with connected(server) as client:
        await client.create("say: soon" if end == "idle" else "pause: 30\nsay: late")
        await client.until("response.in_progress")
        assert server.timers.deadlines._due
        await trio.sleep(seconds)
    assert not server.timers.deadlines._due


async def test_a_create_and_a_close_in_one_write(autojump_clock: MockClock) -> None:
    """The turn is cancelled before its task has begun: that is no crash, and the Close is answered."""
    create = {"type": "response.create", "model": "scripted", "input": "say: unheard"}
    for store in (True, False):
        server = _build()
        async with server.running() as nursery:
            near, far = memory_stream_pair()
            nursery.start_soon(server.serve_stream, far)
            await near.send_all(wire.upgrade())
            head = await near.receive_some()
            assert head.startswith(b"HTTP/1.1 101 ")
            text = json.dumps({**create, "store": store}).encode()
            await near.send_all(wire.frame(text) + wire.close())
            answer = b""
            while data := await near.receive_some():
                answer += data
            assert answer.endswith(b"\x88\x02\x03\xe8")
            await server.empty()
        assert server.stats.crashed == 0


async def test_a_request_that_is_complete_too_late_is_refused(autojump_clock: MockClock) -> None:
    """Its body comes while the server drains and waits for others (RWS-CLS-010)."""
    body = b'{"model": "m", "input": "say: a"}'
    head = b"POST /v1/responses HTTP/1.1\r\nhost: server\r\ncontent-length: %d\r\n\r\n" % len(body)
    server = _build()
    async with server.running() as nursery:
        near, far = memory_stream_pair()
        nursery.start_soon(server.serve_stream, far)
        await near.send_all(head + body[:5])
        await trio.testing.wait_all_tasks_blocked()
        server.drain()
        await near.send_all(body[5:])
        answer = await near.receive_some()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"server_shutting_down" in answer
