"""One WebSocket at a time: what it answers to good and bad peers, and what it promises to the application."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import attrs
import pytest
import trio
import wire
from hypothesis import given
from hypothesis import strategies as st
from shell import PATIENT, QUICK, FakeApp, echo, serving
from wire import BINARY, CLOSE, PING, PONG, TEXT

from responses_ref.server.framing import frame
from responses_ref.server.http import Request
from responses_ref.server.trace import frames
from responses_ref.server.websocket import Closed, WebSocket

KINDS = pytest.mark.parametrize("kind", ["tcp", "memory"])
SMALL = attrs.evolve(QUICK, max_message_bytes=1_000, max_fragments=50)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 8, 9, 10]), st.binary(max_size=300)), max_size=5))
def test_joined_frames_come_apart_as_they_were(messages: list[tuple[int, bytes]]) -> None:
    assert list(frames(b"".join(frame(data, opcode) for opcode, data in messages))) == messages


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 70_000])
async def test_a_frame_of_any_size_is_parsed_by_a_peer(size: int) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(frame(b"x" * size))
    await ours.aclose()
    client = wire.Client(theirs)
    assert await client.frame() == wire.Frame(TEXT, b"x" * size)
    assert await client.frame() is None


# --- Good peers.


@KINDS
async def test_messages_arrive_whole_however_they_were_cut(kind: str) -> None:
    snowman = "☃" * 40_000
    raw = snowman.encode()
    async with serving() as shell:
        client = await (await shell.connect(kind)).open()
        await client.send(wire.frame(snowman))
        assert await client.text() == snowman
        await client.send(wire.frame(raw[:7], fin=False), wire.frame(b"p", PING))  # within a character
        assert await client.frame() == wire.Frame(PONG, b"p")
        await client.send(wire.frame(b"", 0, fin=False), wire.frame(raw[7:], 0))
        assert await client.text() == snowman
        for byte in wire.frame(b"\x00\xff", BINARY):
            await client.send(bytes([byte]))
        assert await client.frame() == wire.Frame(BINARY, b"\x00\xff")


@KINDS
async def test_frames_sent_with_the_upgrade_are_not_lost(kind: str) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        await client.send(wire.upgrade() + wire.frame("early"))
        assert (await client.answer()) is not None
        assert await client.text() == "early"


@KINDS
@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (wire.close(1000), 1000, ""),
        (wire.close(4321, b"bye"), 4321, "bye"),
        (wire.close(None), 1005, ""),
    ],
)
async def test_close_is_answered_with_its_own_code(kind: str, sent: bytes, code: int, reason: str) -> None:
    async with serving() as shell:
        client = await (await shell.connect(kind)).open()
        await client.send(sent)
        answer = await client.frame()
        assert answer is not None
        assert answer.code == code
        assert await client.ended()
        await shell.server.empty()
        assert shell.app.sockets[0].closed == Closed(code, reason, "client")


@KINDS
@pytest.mark.parametrize("reset", [False, True])
async def test_a_connection_cut_without_close_is_1006(kind: str, reset: bool) -> None:
    async with serving() as shell:
        client = await (await shell.connect(kind)).open()
        if reset and isinstance(client.stream, trio.SocketStream):
            client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await trio.aclose_forcefully(client.stream)
        await shell.server.empty()
        assert shell.app.sockets[0].closed == Closed(1006, "", "client")


# --- Bad peers (design table), each with its close code.

BROKEN = {
    "invalid UTF-8": (wire.frame(b"\xff\xfe"), 1007),
    "UTF-8 cut at the end": (wire.frame("☃".encode()[:2]), 1007),
    "invalid UTF-8 in a fragment": (wire.frame(b"ok", fin=False) + wire.frame(b"\xc3\x28", 0), 1007),
    "invalid UTF-8 in a close reason": (wire.close(1000, b"\xff"), 1007),
    "unmasked": (wire.frame("x", mask=None), 1002),
    "reserved bit": (wire.frame("x", rsv=4), 1002),
    "unknown opcode": (wire.frame("x", 3), 1002),
    "unknown control opcode": (wire.frame("x", 11), 1002),
    "fragmented ping": (wire.frame("x", PING, fin=False), 1002),
    "oversized ping": (wire.frame(b"x" * 126, PING), 1002),
    "continuation of nothing": (wire.frame("x", 0), 1002),
    "a new message inside a message": (wire.frame("x", fin=False) + wire.frame("y"), 1002),
    "length not minimal": (b"\x81\xfe\x00\x05" + wire.MASK + b"xxxxx", 1002),
    "close code 999": (wire.close(999), 1002),
    "close code 1005": (wire.close(1005), 1002),
    "close code 1006": (wire.close(1006), 1002),
    "close code 1004": (wire.close(1004), 1002),
    "close code 2999": (wire.close(2999), 1002),
    "close code 5000": (wire.close(5000), 1002),
    "close payload of one byte": (wire.frame(b"\x03", CLOSE), 1002),
    "message of 1001 bytes": (wire.frame(b"x" * 1_001), 1009),
    "1001 bytes in 501 characters": (wire.frame("é" * 500 + "x"), 1009),
    "1001 bytes in fragments": (wire.frame(b"x" * 600, fin=False) + wire.frame(b"x" * 401, 0), 1009),
    "endless empty fragments": (wire.frame(b"", fin=False) + wire.frame(b"", 0, fin=False) * 60, 1009),
    "a giant announced": (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + wire.MASK + b"x" * 2_000, 1009),
}


@KINDS
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_rule_is_answered_with_its_code(kind: str, name: str) -> None:
    sent, code = BROKEN[name]
    async with serving(limits=SMALL) as shell:
        witness = await (await shell.connect(kind)).open()
        client = await (await shell.connect(kind)).open()
        await client.send(wire.frame("before"))
        assert await client.text() == "before"
        await client.send(sent)
        answer = await client.frame()
        assert answer is not None
        assert answer.code == code
        assert "'" not in answer.payload[2:].decode()  # no Python in what a peer is told
        assert await client.ended()  # the peer says nothing: the deadline, or our half of TCP, ends it
        await client.stream.aclose()
        await witness.send(wire.frame("still here"))
        assert await witness.text() == "still here"
        closed = shell.app.sockets[1].closed
        assert closed is not None
        assert (closed.code, closed.by) == (code, "server")


@KINDS
@pytest.mark.parametrize("sent", [wire.frame("x", 3), wire.frame(b"x" * 2_000)], ids=["1002", "1009"])
async def test_one_that_broke_a_rule_and_reads_on_sees_the_end_at_once(kind: str, sent: bytes) -> None:
    async with serving(limits=attrs.evolve(SMALL, close_seconds=20.0)) as shell:
        client = await (await shell.connect(kind)).open()
        await client.send(sent)
        got = await client.frame()
        assert got is not None
        assert got.opcode == CLOSE
        start = trio.current_time()
        assert await client.ended()  # our half of TCP
        await client.stream.aclose()
        await shell.server.empty()
        assert trio.current_time() - start < 10


async def send_until_cut(client: wire.Client, data: bytes) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        while True:
            await client.send(data)


@KINDS
async def test_the_largest_message_is_taken(kind: str) -> None:
    async with serving(limits=SMALL) as shell:
        client = await (await shell.connect(kind)).open()
        for _ in range(2):  # the count starts anew with each message
            await client.send(wire.frame("é" * 250, fin=False), wire.frame("é" * 250, 0))
            assert await client.text() == "é" * 500
            await client.send(
                wire.frame(b"", fin=False), wire.frame(b"", 0, fin=False) * 48, wire.frame("x", 0)
            )
            assert await client.text() == "x"


@KINDS
async def test_an_oversize_sender_that_goes_silent_is_gone_by_the_deadline(kind: str) -> None:
    async with serving(limits=SMALL) as shell:
        client = await (await shell.connect(kind)).open()
        await client.send(wire.frame(b"x" * 2_000))
        with trio.fail_after(5):  # it neither reads nor writes nor closes
            await shell.server.empty()


@pytest.mark.parametrize("sent", [wire.frame("x", 3), wire.frame(b"x" * 2_000)], ids=["1002", "1009"])
async def test_one_that_never_stops_sending_is_gone_by_the_deadline(sent: bytes) -> None:
    async with serving(limits=SMALL) as shell:
        client = await (await shell.tcp()).open()
        await client.send(sent)
        start = trio.current_time()
        await send_until_cut(client, wire.frame(b"x" * 60_000))
        assert trio.current_time() - start < 5
        held = shell.app.sockets[0]._wire._frame_decoder.buffer
        assert len(held) <= 200_000  # what was thrown away was not kept


# --- The server's own Close.


def closing(code: int, reason: str = "") -> Callable[[WebSocket, Request], object]:
    async def app(socket: WebSocket, request: Request) -> None:
        while (message := await socket.receive()) is not None:
            socket.send(frame(b"last"))
            socket.close_soon(code, reason)
            socket.close_soon(1011, "a second call changes nothing")
            socket.send(frame(b"too late"))
            assert message == "close"  # what comes after the Close is not delivered

    return app


@KINDS
async def test_close_comes_behind_what_was_sent_and_waits_for_its_answer(kind: str) -> None:
    async with serving(FakeApp(closing(4000, "ä" * 100))) as shell:  # type: ignore[arg-type]
        client = await (await shell.connect(kind)).open()
        await client.send(wire.frame("close"))
        assert await client.text() == "last"
        got = await client.frame()
        assert got is not None
        assert got.code == 4000
        assert got.payload[2:].decode() == "ä" * 61  # 123 bytes hold no half character
        await client.send(wire.frame("ignored"), wire.frame(b"x", PING), wire.close(4000))
        assert await client.ended()
        await shell.server.empty()
        assert shell.app.sockets[0].closed == Closed(4000, "ä" * 100, "server")


@KINDS
async def test_a_close_without_answer_is_cut_at_the_deadline(kind: str) -> None:
    async with serving(FakeApp(closing(1000)), QUICK) as shell:  # type: ignore[arg-type]
        client = await (await shell.connect(kind)).open()
        start = trio.current_time()
        await client.send(wire.frame("close"))
        await shell.server.empty()
        assert 0.3 < trio.current_time() - start < 5


@KINDS
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_close_returns_when_tcp_is_shut(kind: str, elsewhere: bool) -> None:
    shut = []

    async def app(socket: WebSocket, request: Request) -> None:
        async def close() -> None:
            await socket.close(1001, "going")
            with pytest.raises(trio.ClosedResourceError):
                await socket.link.stream.receive_some(1)
            shut.append(socket.closed)

        await socket.receive()
        if elsewhere:
            socket.nursery.start_soon(close)
            assert await socket.receive() is None
            await trio.sleep_forever()
        await close()

    async with serving(FakeApp(app)) as shell:
        client = await (await shell.connect(kind)).open()
        await client.send(wire.frame("x"))
        got = await client.frame()
        assert got is not None
        assert got.code == 1001
        await client.send(wire.close(1001))
        assert await client.ended()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert shut == [Closed(1001, "going", "server")]
        if elsewhere:
            shell.app.sockets[0].nursery.cancel_scope.cancel()


async def test_close_in_a_cancelled_scope_still_shakes_hands() -> None:
    order = []

    async def app(socket: WebSocket, request: Request) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await socket.close(4000)
        with pytest.raises(trio.ClosedResourceError):
            await socket.link.stream.send_all(b"x")
        order.append("shut")

    async with serving(FakeApp(app)) as shell:
        client = await shell.memory().open()
        got = await client.frame()
        assert got is not None
        assert got.code == 4000
        assert not order
        await client.send(wire.close(4000))
        assert await client.ended()
        await shell.server.empty()
        assert order == ["shut"]


async def test_the_application_ends_normally_and_the_peer_gets_1000() -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        socket.nursery.start_soon(trio.sleep_forever)
        socket.send(frame(b"done"))

    async with serving(FakeApp(app)) as shell:
        client = await shell.memory().open()
        assert await client.text() == "done"
        got = await client.frame()
        assert got is not None
        assert got.code == 1000
        await client.send(wire.close(1000))
        assert await client.ended()


# --- The promise to the application: send never waits, order is kept, a slow peer is dropped.


def numbered(count: int, size: int = 1_000) -> list[bytes]:
    return [frame(json.dumps({"n": n, "pad": "x" * size}).encode()) for n in range(count)]


async def read_numbers(client: wire.Client, count: int) -> None:
    """Read as many events, and check that none is missing, torn or out of order."""
    for n in range(count):
        assert json.loads(await client.text())["n"] == n


async def test_a_producer_waits_for_a_slow_reader_and_nothing_is_lost() -> None:
    highest = 0

    async def app(socket: WebSocket, request: Request) -> None:
        nonlocal highest
        for data in numbered(5_000):
            socket.send(data)
            highest = max(highest, socket.link.queued)
            await socket.drained()
        assert await socket.receive() is None

    async with serving(FakeApp(app), PATIENT) as shell:
        client = await (await shell.tcp(receive_buffer=65_536)).open()
        await trio.sleep(0.1)
        await read_numbers(client, 5_000)
        assert PATIENT.low_water_bytes < highest < PATIENT.low_water_bytes + 2_000


async def test_a_ping_is_answered_right_behind_the_frame_that_is_being_written() -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        socket.send(frame(b"x" * 10_000_000))
        for data in numbered(10_000, 2_000):
            socket.send(data)
        assert await socket.receive() is None

    async with serving(FakeApp(app), PATIENT) as shell:
        client = await (await shell.tcp(receive_buffer=65_536)).open()
        pings = [str(n).encode() for n in range(5_000)]
        await client.send(*(wire.frame(ping, PING) for ping in pings))
        await trio.sleep(0.5)  # the 10 MB are stuck, the pings have been read
        assert await client.text() == "x" * 10_000_000
        assert [await client.frame() for _ in pings] == [wire.Frame(PONG, ping) for ping in pings]
        await client.send(wire.frame(b"again", PING))  # overtakes what is neither in the kernel nor begun
        numbers = []
        while (got := await client.frame()) != wire.Frame(PONG, b"again"):
            assert got is not None
            numbers.append(json.loads(got.payload)["n"])
        assert numbers == list(range(len(numbers)))
        assert len(numbers) < 5_000


async def test_close_is_seen_and_answered_while_a_send_is_stuck() -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        socket.send(frame(b"x" * 10_000_000))
        assert await socket.receive() is None
        await socket.drained()  # returns: nobody waits for a closed connection

    async with serving(FakeApp(app), PATIENT) as shell:
        client = await (await shell.tcp(receive_buffer=65_536)).open()
        await client.send(wire.close(1000))
        await trio.sleep(0.1)
        assert await client.text() == "x" * 10_000_000
        got = await client.frame()
        assert got is not None
        assert got.code == 1000
        assert await client.ended()


async def test_a_close_releases_who_waits_for_a_slow_reader() -> None:
    order = []

    async def app(socket: WebSocket, request: Request) -> None:
        async def produce() -> None:
            socket.send(frame(b"x" * 10_000_000))
            await socket.drained()
            order.append(socket.congested)

        socket.nursery.start_soon(produce)
        assert await socket.receive() is None
        with trio.move_on_after(0.5):
            await trio.testing.wait_all_tasks_blocked(0.05)
        order.append("end")

    async with serving(FakeApp(app)) as shell:
        client = await (await shell.tcp(receive_buffer=4_096)).open()
        await client.send(wire.close())
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert order == [False, "end"]  # although not a byte has moved


async def flood(socket: WebSocket, request: Request) -> None:
    """Sends without waiting, and keeps reading."""
    for data in numbered(5_000, 4_000):
        socket.send(data)
    assert await socket.receive() is None


@pytest.mark.parametrize(
    "limits",
    [
        QUICK,  # no progress for write_seconds
        attrs.evolve(QUICK, write_seconds=60.0, outbox_bytes=1_000_000),
        attrs.evolve(QUICK, write_seconds=60.0, outbox_messages=1_000),
    ],
    ids=["seconds", "bytes", "messages"],
)
async def test_a_peer_that_does_not_read_is_dropped_and_counted(limits: object) -> None:
    app = FakeApp(flood)
    async with serving(app, limits) as shell:  # type: ignore[arg-type]
        slow = await (await shell.tcp(receive_buffer=4_096)).open()
        with trio.fail_after(10):
            await shell.server.empty()
        assert shell.server.stats.slow_consumers == 1
        assert shell.server.stats.crashed == 0
        assert app.sockets[0].closed == Closed(1006, "slow consumer", "server")
        app.on_websocket = echo
        other = await (await shell.tcp()).open()
        await other.send(wire.frame("fine"))
        assert await other.text() == "fine"
        assert not await slow.ended()  # a part of the flood, then the cut


async def test_pings_without_reading_are_bounded_too() -> None:
    async with serving(limits=attrs.evolve(QUICK, write_seconds=60.0, outbox_messages=100)) as shell:
        client = await (await shell.tcp(receive_buffer=4_096)).open()
        await send_until_cut(client, wire.frame(b"x" * 125, PING) * 100)
        await shell.server.empty()
        assert shell.server.stats.slow_consumers == 1


async def test_a_cancelled_producer_leaves_no_torn_frame() -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        events = iter(numbered(3_000, 5_000))
        while (data := next(events, None)) is not None:
            with trio.move_on_after(0.0005):
                while data is not None:
                    socket.send(data)
                    await socket.drained()
                    data = next(events, None)
                continue
        assert await socket.receive() is None

    async with serving(FakeApp(app)) as shell:
        client = await (await shell.tcp(receive_buffer=4_096)).open()
        await trio.sleep(0.05)
        last = -1
        while last < 2_999:  # some are sent twice by this application, none is torn
            got = json.loads(await client.text())["n"]
            assert got >= last
            last = got


@pytest.mark.parametrize("seed", range(8))
async def test_short_writes_keep_frames_whole_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    from responses_ref.server import link

    draw, write = random.Random(seed), link.os.write

    def short(fd: int, data: bytes) -> int:
        if draw.random() < 0.3:
            raise BlockingIOError
        return write(fd, memoryview(data)[: draw.randrange(1, len(data) + 1)])

    async def app(socket: WebSocket, request: Request) -> None:
        for data in numbered(300, draw.choice([1, 200, 70_000])):
            socket.send(data)
            if draw.random() < 0.1:
                await socket.drained()
        assert await socket.receive() is None

    async with serving(FakeApp(app)) as shell:
        client = await (await shell.tcp()).open()
        monkeypatch.setattr(link.os, "write", short)
        await client.send(*(wire.frame(str(n), PING) for n in range(50)))
        numbers, pongs = [], []
        while len(numbers) < 300 or len(pongs) < 50:
            got = await client.frame()
            assert got is not None
            if got.opcode == PONG:
                pongs.append(int(got.payload))
            else:
                numbers.append(json.loads(got.payload)["n"])
        assert numbers == list(range(300))
        assert pongs == list(range(50))
        monkeypatch.undo()


async def test_a_stream_without_a_socket_takes_the_writer_and_holds_back_the_producer() -> None:
    ahead = []

    async def app(socket: WebSocket, request: Request) -> None:
        for n, data in enumerate(numbered(500)):
            socket.send(data)
            await socket.drained()
            ahead.append(n)
        assert await socket.receive() is None

    async with serving(FakeApp(app)) as shell:
        ours, theirs = trio.testing.lockstep_stream_pair()
        shell.nursery.start_soon(shell.server.serve_stream, theirs)
        client = await wire.Client(ours).open()
        await trio.testing.wait_all_tasks_blocked()
        assert 60 < len(ahead) < 140  # the low-water mark, and the write in hand
        await read_numbers(client, 500)
        await ours.aclose()


async def test_a_burst_of_frames_does_not_starve_other_tasks() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def app(socket: WebSocket, request: Request) -> None:
        socket.nursery.start_soon(others)
        while await socket.receive() is not None:
            pass
        socket.nursery.cancel_scope.cancel()

    async with serving(FakeApp(app)) as shell:
        client = await shell.memory().open()
        await client.send(wire.frame(b"", PONG) * 2_000 + wire.frame("") * 2_000 + wire.close())
        assert await client.ended() is False
        await shell.server.empty()
        assert turns >= 4_000
