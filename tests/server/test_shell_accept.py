"""Who may come in, what a request becomes, and what a crash of one connection costs the others."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
import wire
from shell import PATIENT, QUICK, FakeApp, Harness, echo, hello, serving

from responses_ref.protocol.errors import Refused, problem
from responses_ref.server.accept import Server, check_host, open_listeners, read_keys
from responses_ref.server.framing import frame
from responses_ref.server.http import Request, Responder
from responses_ref.server.limits import ConfigError, Limits
from responses_ref.server.websocket import WebSocket

KINDS = pytest.mark.parametrize("kind", ["tcp", "memory"])


async def ask(shell: Harness, kind: str, data: bytes) -> wire.Answer:
    client = await shell.connect(kind)
    await client.send(data)
    answer = await client.answer()
    assert answer is not None
    return answer


# --- The upgrade.


@KINDS
@pytest.mark.parametrize(
    "target",
    [
        "/v1/responses",
        "/v1/responses?model=gpt-9&x=%20",
        "/responses",
        "/openai/v1/responses?api-version=preview",
        "/v1/codex/responses",
        "http://localhost/v1/responses?x=1",
    ],
)
async def test_all_names_of_the_path_are_one_place(kind: str, target: str) -> None:
    async with serving() as shell:
        assert (await ask(shell, kind, wire.upgrade(target))).status == 101
        await trio.testing.wait_all_tasks_blocked()
        request = shell.app.requests[0]
        assert (request.path, request.query) == ("/v1/responses", target.partition("?")[2])
        assert (await ask(shell, kind, wire.request("POST", target, body=b"x"))).json()[
            "path"
        ] == "/v1/responses"
        longer = target.partition("?")[0] + "/resp_1/input_items"
        assert (await ask(shell, kind, wire.request("GET", longer))).json()["path"] == (
            "/v1/responses/resp_1/input_items"
        )


@KINDS
@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "application/json"},
        {"cookie": "a=b", "x_unknown": "caf\xe9", "openai_beta": "responses_websockets=2026-02-06"},
        {"sec_websocket_protocol": "openai-insecure-api-key.sk-1, realtime"},
        {"sec_websocket_extensions": "permessage-deflate; client_max_window_bits, x-webkit"},
        {"connection": "keep-alive, UPGRADE", "upgrade": "WebSocket"},
        {"content_length": "0"},
        {"host": "a" * 300},
        {"origin": "null", "authorization": "Bearer whatever"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_an_upgrade_with_all_sorts_of_headers_is_accepted(kind: str, headers: dict[str, str]) -> None:
    async with serving() as shell:
        answer = await ask(shell, kind, wire.upgrade(**headers))
        assert answer.status == 101
        assert answer.headers == {
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-accept": wire.ACCEPT,
        }  # no subprotocol, no extension


@KINDS
async def test_turn_state_is_echoed_if_it_was_sent(kind: str) -> None:
    async with serving() as shell:
        answer = await ask(shell, kind, wire.upgrade(x_codex_turn_state="st\xe4te"))
        assert answer.status == 101
        assert answer.headers["x-codex-turn-state"] == "st\xe4te"


@KINDS
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (wire.request(), 426),
        (wire.request("HEAD"), 426),
        (wire.upgrade(connection=None), 426),
        (wire.upgrade(upgrade=None), 426),
        (wire.upgrade(upgrade="h2c"), 426),
        (wire.upgrade(sec_websocket_version="8"), 426),
        (wire.upgrade(sec_websocket_version=None), 426),
        (wire.upgrade(sec_websocket_version="13, 8"), 426),
        (wire.upgrade().replace(b"HTTP/1.1", b"HTTP/1.0"), 426),
        (wire.upgrade(method="POST"), 405),
        (wire.upgrade(method="HEAD"), 405),
        (wire.upgrade(method="PUT"), 405),
        (wire.upgrade(sec_websocket_key=None), 400),
        (wire.upgrade(sec_websocket_key="short"), 400),
        (wire.upgrade(sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAAAAAAA="), 400),
        (wire.upgrade(sec_websocket_key="!" * 24), 400),
        (wire.upgrade(content_length="5"), 400),
        (wire.upgrade(host=None).replace(b"host: localhost\r\n", b""), 400),
        (wire.upgrade(host="caf\xe9"), 400),
        (wire.upgrade(connection="Upgrade, \xff"), 400),
        (wire.upgrade(authorization="Bearer \xff"), 400),
        (wire.upgrade(sec_websocket_protocol="caf\xe9"), 400),
        (wire.upgrade(sec_websocket_extensions="\xe9"), 400),
        (wire.upgrade("/v1/caf\xe9"), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http\r\n\r\n", 400),
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nhost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ],
)
async def test_a_bad_request_is_refused_and_the_next_connection_works(
    kind: str, data: bytes, status: int
) -> None:
    async with serving() as shell:
        client = await shell.connect(kind)
        await client.send(data)
        head_only = data.startswith(b"HEAD")
        answer = await client.answer(head_only)
        assert answer is not None
        assert answer.status == status
        if status == 426:
            assert answer.headers["sec-websocket-version"] == "13"
            assert answer.headers["upgrade"] == "websocket"
            assert "upgrade" in answer.headers["connection"].lower()
        if status == 405:
            assert "GET" in answer.headers["allow"]
        if not head_only:
            expected = {426: "upgrade_required", 405: "method_not_allowed", 400: "bad_request"}
            assert answer.code == expected[status]
        assert not shell.app.sockets
        assert not shell.app.requests
        assert (await ask(shell, kind, wire.upgrade())).status == 101


@KINDS
async def test_an_upgrade_elsewhere_is_an_ordinary_request(kind: str) -> None:
    async with serving() as shell:
        assert (await ask(shell, kind, wire.upgrade("/v1/models"))).json()["path"] == "/v1/models"


@KINDS
async def test_the_head_may_hold_so_many_bytes_and_not_one_more(kind: str) -> None:
    def padded(size: int) -> bytes:
        return wire.upgrade(x_pad="x" * (size - len(wire.upgrade(x_pad=""))))

    async with serving(limits=attrs.evolve(PATIENT, head_bytes=2_000)) as shell:
        assert (await ask(shell, kind, padded(2_000))).status == 101
        for size in (2_002, 5_000, 100_000):
            client = await shell.connect(kind)
            await client.send(padded(size))
            answer = await client.answer()
            assert answer is not None
            assert (answer.status, answer.code) == (431, "request_head_too_large")
            assert await client.ended()
    async with serving() as shell:
        assert (await ask(shell, kind, padded(65_536))).status == 101
        assert (await ask(shell, kind, padded(65_538))).status == 431


# --- Deadlines of the handshake.


@KINDS
@pytest.mark.parametrize("data", [b"", b"GET /v1/resp", wire.upgrade()[:-2]])
async def test_a_silent_peer_is_cut_silently_at_the_deadline(kind: str, data: bytes) -> None:
    async with serving(limits=QUICK) as shell:
        client = await shell.connect(kind)
        await client.send(data)
        start = trio.current_time()
        assert await client.ended()
        assert 0.3 < trio.current_time() - start < 5


async def test_a_trickle_does_not_move_the_deadline(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(limits=Limits(), seconds=1_000) as shell:
        client = shell.memory()
        start = trio.current_time()
        with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            await trickle(client, wire.upgrade(x_pad="x" * 1_000))
        assert trio.current_time() - start == pytest.approx(Limits().handshake_seconds, abs=1.1)


async def trickle(client: wire.Client, data: bytes) -> None:
    for byte in data:
        await client.send(bytes([byte]))
        await trio.sleep(1)


# --- Keys.


@KINDS
async def test_each_key_is_a_tenant_and_without_one_nobody_comes_in(kind: str) -> None:
    async with serving(keys=("sk-one", "sk-two")) as shell:
        for tenant, value in enumerate(["Bearer sk-one", "bearer  sk-two "]):
            fields = [("authorization", value)]
            assert (await ask(shell, kind, wire.request("GET", "/v1/models", fields))).json()[
                "tenant"
            ] == tenant
            assert (await ask(shell, kind, wire.upgrade(authorization=value))).status == 101
            await trio.testing.wait_all_tasks_blocked()
            assert shell.app.requests[-1].tenant == tenant
        seen = len(shell.app.requests)
        for wrong in [
            None,
            "sk-one",
            "Basic sk-one",
            "Bearer",
            "Bearer sk-on",
            "Bearer sk-one,sk-two",
            "Bearer x",
        ]:
            for data in (
                wire.upgrade(authorization=wrong),
                wire.request("POST", "/v1/responses", [("authorization", wrong)] if wrong else [], b"{}"),
                wire.request("GET", "/v1/responses", [("authorization", wrong)] if wrong else []),
            ):
                answer = await ask(shell, kind, data)
                assert (answer.status, answer.code) == (401, "invalid_api_key")
                assert answer.headers["www-authenticate"] == "Bearer"
        assert len(shell.app.requests) == seen
        assert (await ask(shell, kind, wire.request("GET", "/healthz"))).status == 200


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", " sk-one, ,sk-two ")
    assert read_keys("KEYS") == ("sk-one", "sk-two")
    assert read_keys(None) == ()
    for value in ("", " , ", "sk-\xe9"):
        monkeypatch.setenv("KEYS", value)
        with pytest.raises(ConfigError, match="KEYS"):
            read_keys("KEYS")
    monkeypatch.delenv("KEYS")
    with pytest.raises(ConfigError, match="KEYS"):
        read_keys("KEYS")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_without_a_key_this_machine_is_served(host: str) -> None:
    check_host(host, ())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.1", "example.org"])
def test_without_a_key_no_other_address_is_served(host: str) -> None:
    with pytest.raises(ConfigError, match="loopback"):
        check_host(host, ())
    check_host(host, ("sk-one",))


# --- The bound on connections.


@KINDS
async def test_above_the_bound_a_connection_is_told_so_and_closed(kind: str) -> None:
    async with serving(limits=attrs.evolve(PATIENT, max_connections=2, overflow_connections=1)) as shell:
        first = await (await shell.connect(kind)).open()
        second = await (await shell.connect(kind)).open()
        third = await shell.connect(kind)
        await third.send(wire.upgrade())
        answer = await third.answer()
        assert answer is not None
        assert (answer.status, answer.code) == (503, "too_many_connections")
        assert answer.headers["retry-after"] == "1"
        fourth = await shell.connect(kind)  # the third is still being told
        assert await fourth.ended()
        assert await third.ended()
        await third.stream.aclose()
        await second.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        await (await shell.connect(kind)).open()
        await first.send(wire.frame("x"))
        assert await first.text() == "x"


# --- The firewall.


class Boom(Exception):
    """What no code foresees."""


async def crash_at_once(socket: WebSocket, request: Request) -> None:
    socket.send(frame(b"last words"))
    raise Boom


async def crash_in_a_task(socket: WebSocket, request: Request) -> None:
    async def task() -> None:
        socket.send(frame(b"last words"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash_at_once, socket, request)

    await socket.receive()
    socket.nursery.start_soon(task)
    await echo(socket, request)


def crash_in_a_deadline(server: list[Server]) -> Callable[..., object]:
    async def app(socket: WebSocket, request: Request) -> None:
        def ring() -> None:
            raise Boom

        socket.send(frame(b"last words"))
        deadlines = server[0].timers.deadlines
        deadlines.set((socket.number, "x"), trio.current_time() + 0.01, ring, socket.nursery)
        await echo(socket, request)

    return app


async def stream_for_ever(socket: WebSocket, request: Request) -> None:
    async def stream() -> None:
        n = 0
        while True:
            socket.send(frame(str(n).encode()))
            n += 1
            await trio.sleep(0.01)

    socket.nursery.start_soon(stream)
    while await socket.receive() is not None:
        pass


@KINDS
@pytest.mark.parametrize("how", ["at once", "in a task", "in a deadline"])
async def test_a_crash_leaves_twenty_others_streaming(
    kind: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    servers: list[Server] = []
    crash = {
        "at once": crash_at_once,
        "in a task": crash_in_a_task,
        "in a deadline": crash_in_a_deadline(servers),
    }
    app = FakeApp(stream_for_ever)
    async with serving(app, crashes=1) as shell:
        servers.append(shell.server)
        others = [await (await shell.connect(kind)).open() for _ in range(20)]
        app.on_websocket = crash[how]  # type: ignore[assignment]
        victim = await (await shell.connect(kind)).open()
        if how == "in a task":
            await victim.send(wire.frame("go"))
        assert await victim.text() == "last words"
        got = await victim.frame()
        while got is not None and got.opcode == wire.TEXT:
            got = await victim.frame()
        assert got is not None
        assert got.payload == (1011).to_bytes(2, "big") + b"internal error"
        await victim.send(wire.close(1011))
        assert await victim.ended()
        for other in others:
            for n in range(20):
                assert await other.text() == str(n)
        crashes = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [record.getMessage() for record in crashes] == ["connection 21 crashed"]
        assert crashes[0].exc_info is not None
        assert crashes[0].exc_info[0] is Boom  # itself, out of all groups
        assert shell.server.stats.crashed == 1


async def test_a_crash_while_the_peer_reads_nothing_ends_too(caplog: pytest.LogCaptureFixture) -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        socket.send(frame(b"x" * 10_000_000))
        raise Boom

    async with serving(FakeApp(app), QUICK, crashes=1) as shell:
        await (await shell.tcp(receive_buffer=4_096)).open()
        with trio.fail_after(10):
            await shell.server.empty()
    assert shell.server.stats.slow_consumers == 1


@KINDS
async def test_a_crash_of_a_plain_request_is_a_500_without_details(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(request: Request, respond: Responder) -> None:
        await request.body()
        if request.path == "/group":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                raise Boom
        raise Boom

    async with serving(FakeApp(on_http=app), crashes=2) as shell:
        client = await shell.connect(kind)
        for path in ("/plain", "/group"):  # the connection goes on: the framing is not hurt
            await client.send(wire.request("POST", path, body=b"secret"))
            answer = await client.answer()
            assert answer is not None
            assert (answer.status, answer.code) == (500, "server_error")
            assert b"Boom" not in answer.body
        assert [record.getMessage() for record in caplog.records] == ["connection 1 crashed"] * 2


@KINDS
async def test_refusals_are_answered_as_they_say_also_out_of_a_group(kind: str) -> None:
    async def app(request: Request, respond: Responder) -> None:
        if request.path == "/group":
            async with respond.while_connected():
                raise Refused(problem("not_found"))
        elif request.path == "/silent":
            return
        raise Refused(problem("not_found"))

    async with serving(FakeApp(on_http=app)) as shell:
        client = await shell.connect(kind)
        for path, status in [("/plain", 404), ("/group", 404), ("/silent", 500), ("/plain", 404)]:
            await client.send(wire.request("GET", path))
            answer = await client.answer()
            assert answer is not None
            assert answer.status == status


async def test_cancelling_passes_through_the_firewall() -> None:
    async with serving(FakeApp(stream_for_ever)) as shell:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                ours, theirs = trio.testing.memory_stream_pair()
                nursery.start_soon(shell.server.serve_stream, theirs)
                client = await wire.Client(ours).open()
                assert await client.text() == "0"
                scope.cancel()
        assert scope.cancelled_caught
        assert shell.server.stats.crashed == 0
        await shell.server.empty()


# --- TLS.


CERTIFICATE = Path(__file__).parent / "localhost.pem"  # and its key: for tests only


async def test_the_same_over_tls() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    trust = ssl.create_default_context(cafile=CERTIFICATE)
    async with serving() as shell:
        listeners = await open_listeners("127.0.0.1", 0, context)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, shell.server.serve_stream, listeners)
            port = listeners[0].transport_listener.socket.getsockname()[1]
            tcp = await trio.open_tcp_stream("127.0.0.1", port)
            stream = trio.SSLStream(tcp, trust, server_hostname="localhost", https_compatible=True)
            client = await wire.Client(stream).open()
            await client.send(wire.frame("x" * 300_000))
            assert await client.text() == "x" * 300_000
            await client.send(wire.close())
            got = await client.frame()
            assert got is not None
            assert got.code == 1000
            plain = wire.Client(await trio.open_tcp_stream("127.0.0.1", port))
            await plain.send(wire.upgrade())  # no TLS: cut, and nothing else happens
            await plain.ended()
            await plain.stream.aclose()
            await client.stream.aclose()
            nursery.cancel_scope.cancel()
        assert shell.server.stats.crashed == 0


async def test_hello_is_what_it_says() -> None:
    async with serving(FakeApp(on_http=hello)) as shell:
        answer = await ask(shell, "memory", wire.request("GET", "/x?y"))
        assert answer.json() == {"method": "GET", "path": "/x", "query": "y", "tenant": 0, "body": ""}


async def test_a_free_port_is_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with two addresses: a free port of each would be two, and only one could be told."""
    opened = []

    async def both(port: int, host: str) -> list[trio.SocketListener]:
        opened.extend([(await real(port, host=address))[0] for address in ("127.0.0.1", "127.0.0.2")])
        return list(opened)

    real = trio.open_tcp_listeners
    monkeypatch.setattr(trio, "open_tcp_listeners", both)
    (listener,) = await open_listeners("localhost", 0)
    assert listener is opened[0]
    assert [one.socket.fileno() for one in opened[1:]] == [-1]
    await listener.aclose()
