"""Plain HTTP on a connection: one request after another, answers whole and streamed."""

from __future__ import annotations

import logging

import attrs
import pytest
import trio
import wire
from shell import PATIENT, QUICK, FakeApp, hello, serving

from responses_ref.server.http import Request, Responder

KINDS = pytest.mark.parametrize("kind", ["tcp", "memory"])


async def answered(client: wire.Client, data: bytes) -> wire.Answer:
    await client.send(data)
    answer = await client.answer()
    assert answer is not None
    return answer


@KINDS
async def test_a_connection_is_kept_for_the_next_request(kind: str) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        for n in range(5):
            body = str(n).encode() * 100_000
            answer = await answered(client, wire.request("POST", f"/{n}", body=body))
            assert (answer.json()["path"], answer.json()["body"].encode()) == (f"/{n}", body)
            assert answer.headers["content-type"] == "application/json"
            assert "connection" not in answer.headers
        assert shell.server.stats.accepted == 1
        await client.send(wire.upgrade())  # and then it may still become a WebSocket
        answer = await client.answer()
        assert answer is not None
        assert answer.status == 101
        await client.send(wire.frame("x"))
        assert await client.text() == "x"


@KINDS
async def test_requests_sent_ahead_are_answered_in_order(kind: str) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        await client.send(*(wire.request("POST", f"/{n}", body=b"x" * n) for n in range(100)))
        for n in range(100):
            answer = await client.answer()
            assert answer is not None
            assert (answer.json()["path"], len(answer.json()["body"])) == (f"/{n}", n)


@KINDS
async def test_requests_sent_ahead_of_a_stream_wait_for_its_end(kind: str) -> None:
    async def app(request: Request, respond: Responder) -> None:
        async with respond.stream() as out:
            for n in range(3):
                await trio.sleep(0.01)
                out.send(f"{request.path} {n}\n".encode())

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.connect(kind)
        await client.send(wire.request("GET", "/a"), wire.request("GET", "/b"))
        for path in ("/a", "/b"):
            answer = await client.answer()
            assert answer is not None
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.body.decode() == "".join(f"{path} {n}\n" for n in range(3))


@KINDS
async def test_bodies_come_chunked_and_after_100_continue(kind: str) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        head = wire.request("POST", "/x", [("transfer-encoding", "chunked")])
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in b"abc" * 1_000)
        answer = await answered(client, head + chunks + b"0\r\n\r\n")
        assert answer.json()["body"] == "abc" * 1_000
        fields = [("expect", "100-continue"), ("content-length", "3")]
        await client.send(wire.request("POST", "/x", fields))
        interim = await client.answer(head_only=True)
        assert interim == wire.Answer(100, {})
        assert (await answered(client, b"abc")).json()["body"] == "abc"


@KINDS
async def test_head_gets_the_head_of_get(kind: str) -> None:
    async def app(request: Request, respond: Responder) -> None:
        if request.path == "/stream":
            async with respond.stream() as out:
                out.send(b"data")
        await hello(request, respond) if not respond.started else None

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.connect(kind)
        for path in ("/x", "/stream", "/x"):
            await client.send(wire.request("HEAD", path))
            answer = await client.answer(head_only=True)
            assert answer is not None
            assert answer.status == 200
            assert shell.app.requests[-1].method == "GET"
        assert int(answer.headers["content-length"]) > 0
        assert (await answered(client, wire.request("GET", "/x"))).status == 200  # nothing lay between


@KINDS
async def test_http_1_0_gets_its_answer_and_the_end(kind: str) -> None:
    async def app(request: Request, respond: Responder) -> None:
        async with respond.stream() as out:
            out.send(b"all of it")

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.connect(kind)
        await client.send(b"GET /x HTTP/1.0\r\n\r\n")
        answer = await client.answer(head_only=True)
        assert answer is not None
        assert answer.headers["connection"] == "close"
        assert not await client.ended()
        assert client.buffer == b"all of it"


# --- Bodies that are too large, too late, broken or unwanted.


@KINDS
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_may_have_so_many_bytes_and_not_one_more(kind: str, chunked: bool) -> None:
    def post(size: int) -> bytes:
        if not chunked:
            return wire.request("POST", "/x", body=b"x" * size)
        head = wire.request("POST", "/x", [("transfer-encoding", "chunked")])
        return head + b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)

    async with serving(limits=attrs.evolve(PATIENT, max_message_bytes=1_000)) as shell:
        client = await shell.connect(kind)
        assert (await answered(client, post(1_000))).status == 200
        answer = await answered(client, post(1_001))
        assert (answer.status, answer.code) == (413, "request_body_too_large")
        client = await shell.connect(kind)
        answer = await answered(client, post(200_000))  # more than was read: the rest is not waited for
        assert (answer.status, answer.code) == (413, "request_body_too_large")
        assert answer.headers["connection"] == "close"
        assert await client.ended()
        assert not client.reset


async def test_a_body_that_is_announced_too_large_is_not_asked_for() -> None:
    async with serving(limits=attrs.evolve(PATIENT, max_message_bytes=1_000)) as shell:
        client = await shell.tcp()
        fields = [("expect", "100-continue"), ("content-length", "1001")]
        assert (await answered(client, wire.request("POST", "/x", fields))).status == 413
        assert await client.ended()


@KINDS
async def test_a_body_that_does_not_come_is_408(kind: str) -> None:
    async with serving(limits=attrs.evolve(PATIENT, body_seconds=0.2)) as shell:
        client = await shell.connect(kind)
        answer = await answered(
            client, wire.request("POST", "/x", [("content-length", "5")], b"")[:] + b"123"
        )
        assert (answer.status, answer.code) == (408, "bad_request")
        assert await client.ended()


@KINDS
@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nabcdefgh\r\n"])
async def test_a_broken_body_is_400_and_closed(kind: str, body: bytes) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        answer = await answered(client, wire.request("POST", "/x", [("transfer-encoding", "chunked")]) + body)
        assert (answer.status, answer.code) == (400, "bad_request")
        assert await client.ended()


@KINDS
async def test_a_length_said_in_two_ways_is_400_and_closed(kind: str) -> None:
    """A proxy may have believed the other one: what follows could be a request that it never saw."""
    async with serving() as shell:
        client = await shell.connect(kind)
        two = [("content-length", "5"), ("transfer-encoding", "chunked")]
        await client.send(wire.request("POST", "/", two), b"0\r\n\r\n", wire.request("GET", "/hidden"))
        answer = await client.answer()
        assert answer is not None
        assert (answer.status, answer.code) == (400, "bad_request")
        assert await client.ended()
        assert not shell.app.requests


@KINDS
async def test_a_body_nobody_reads_costs_the_connection_only_if_it_is_not_here(kind: str) -> None:
    async def app(request: Request, respond: Responder) -> None:
        await respond.json(404, b"{}")

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.connect(kind)
        for _ in range(2):
            answer = await answered(client, wire.request("POST", "/x", body=b"x" * 100))
            assert "connection" not in answer.headers
        answer = await answered(client, wire.request("POST", "/x", [("content-length", "1000000")]))
        assert answer.headers["connection"] == "close"
        with trio.move_on_after(0.1):
            await client.send(b"x" * 1_000_000)
        assert await client.ended()
        assert not client.reset


@KINDS
async def test_an_idle_connection_is_closed_at_its_deadline(kind: str) -> None:
    async with serving(limits=QUICK) as shell:
        client = await shell.connect(kind)
        assert (await answered(client, wire.request("GET", "/x"))).status == 200
        start = trio.current_time()
        assert await client.ended()
        assert 0.3 < trio.current_time() - start < 5


@KINDS
async def test_garbage_behind_a_good_request_is_400_and_closed(kind: str) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        await client.send(wire.request("GET", "/x") + b"garbage\r\n\r\n")
        for status in (200, 400):
            answer = await client.answer()
            assert answer is not None
            assert answer.status == status
        assert await client.ended()


# --- Streams.


@KINDS
@pytest.mark.parametrize("how", ["stream", "json"])
async def test_an_answer_is_cancelled_when_its_client_goes(kind: str, how: str) -> None:
    after = []

    async def app(request: Request, respond: Responder) -> None:
        if how == "json":
            async with respond.while_connected():
                await trio.sleep_forever()
        else:
            async with respond.stream() as out:
                while True:
                    out.send(b"x")
                    await trio.sleep(0.001)
        after.append(request.path)

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.connect(kind)
        await client.send(wire.request("GET", "/x"))
        if how == "stream":
            await client.answer(head_only=True)
            assert await client.chunk() == b"x"
        else:
            await trio.testing.wait_all_tasks_blocked(0.02)
        await trio.aclose_forcefully(client.stream)
        await shell.server.empty()
        assert after == ["/x"]  # the block ended, the application went on
        assert shell.server.stats.crashed == 0


@KINDS
async def test_a_crash_in_a_stream_cuts_it_without_the_last_chunk(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(request: Request, respond: Responder) -> None:
        async with respond.stream() as out:
            out.send(b"begun")
            raise ZeroDivisionError

    async with serving(FakeApp(on_http=app), crashes=1) as shell:
        client = await shell.connect(kind)
        await client.send(wire.request("GET", "/x"))
        await client.answer(head_only=True)
        assert await client.chunk() == b"begun"
        assert await client.chunk() is None
        assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]
        assert caplog.records[0].levelno == logging.ERROR


async def test_a_stream_waits_for_a_slow_reader_and_loses_nothing() -> None:
    async def app(request: Request, respond: Responder) -> None:
        async with respond.stream() as out:
            for n in range(1_000):
                out.send(b"%06d" % n * 200)
                await out.drained()

    async with serving(FakeApp(on_http=app), PATIENT) as shell:
        client = await shell.tcp(receive_buffer=65_536)
        await client.send(wire.request("GET", "/x"))
        await trio.sleep(0.05)
        answer = await client.answer()
        assert answer is not None
        assert answer.body == b"".join(b"%06d" % n * 200 for n in range(1_000))
        assert (await answered(client, wire.request("GET", "/x"))).status == 200


async def test_a_stream_that_nobody_reads_is_dropped_and_counted() -> None:
    async def app(request: Request, respond: Responder) -> None:
        async with respond.stream() as out:
            while True:
                out.send(b"x" * 10_000)
                await out.drained()

    async with serving(FakeApp(on_http=app), QUICK) as shell:
        client = await shell.tcp(receive_buffer=4_096)
        await client.send(wire.request("GET", "/x"))
        with trio.fail_after(10):
            await trio.testing.wait_all_tasks_blocked(0.1)
            await shell.server.empty()
        assert shell.server.stats.slow_consumers == 1


async def test_a_flood_of_requests_ahead_is_not_read_without_bound() -> None:
    async def app(request: Request, respond: Responder) -> None:
        async with respond.while_connected():
            await trio.sleep_forever()

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.tcp()
        with trio.move_on_after(0.5) as scope:
            await client.send(wire.request("GET", "/x") * 500_000)
        assert scope.cancelled_caught  # it stands in the kernel, not in our memory
        shell.nursery.cancel_scope.cancel()
