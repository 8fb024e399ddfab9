"""Traces: one file a connection, every line in the published form, no key in any of them."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio
import wire
from shell import FakeApp, echo, serving
from wire import BINARY, PING, PONG

from responses_ref.server.framing import frame
from responses_ref.server.http import Request, Responder
from responses_ref.server.limits import ConfigError
from responses_ref.server.trace import TraceDir
from responses_ref.server.websocket import WebSocket

META = {"profiles": ["core", "http"], "limits": {"lifetime": 3600}}


def lines(folder: Path, number: int = 1) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{number:06}.jsonl").read_text("utf-8").splitlines()]


def without_time(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in ("t", "conn")} for entry in entries]


async def test_everything_that_was_said_is_written_in_order(tmp_path: Path) -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        assert socket.trace is not None
        socket.trace.note("bill", id="resp_1", usage={"input_tokens": 3})
        await echo(socket, request)

    async with serving(FakeApp(app), traces=TraceDir(tmp_path / "new" / "dir", META)) as shell:
        client = await (await shell.tcp()).open()
        await client.send(wire.frame("h☃", fin=False), wire.frame("!", 0), wire.frame(b"\0\xff", BINARY))
        await client.send(wire.frame(b"p", PING), wire.frame(b"q", PONG), wire.close(4000, b"bye"))
        assert not await client.ended()
    entries = lines(tmp_path / "new" / "dir")
    assert entries[0] == {"kind": "meta", "trace_version": 1, "conn": 1, **META}
    assert all(entry["conn"] == 1 for entry in entries)
    times = [entry["t"] for entry in entries[1:]]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < 20
    assert all(round(t, 6) == t for t in times)
    binary = base64.b64encode(b"\0\xff").decode()
    request, answer, *rest = without_time(entries[1:])
    assert request["kind"] == answer["kind"] == "http"
    assert (request["dir"], answer["dir"]) == ("c2s", "s2c")
    assert request["head"].startswith("GET /v1/responses HTTP/1.1\r\n")
    assert answer["head"].startswith("HTTP/1.1 101 ")
    assert rest == [
        {"dir": "s2c", "kind": "note", "bill": {"id": "resp_1", "usage": {"input_tokens": 3}}},
        {"dir": "c2s", "kind": "text", "text": "h☃!"},
        {"dir": "s2c", "kind": "text", "text": "h☃!"},
        {"dir": "c2s", "kind": "binary", "base64": binary},
        {"dir": "s2c", "kind": "binary", "base64": binary},
        {"dir": "c2s", "kind": "ping", "base64": "cA=="},
        {"dir": "s2c", "kind": "pong", "base64": "cA=="},
        {"dir": "c2s", "kind": "pong", "base64": "cQ=="},
        {"dir": "c2s", "kind": "close", "code": 4000, "reason": "bye", "by": "client"},
        {"dir": "s2c", "kind": "close", "code": 4000, "reason": "bye", "by": "client"},
        {"dir": "s2c", "kind": "eof", "reset": False},
    ]


async def test_a_peer_that_only_knocks_leaves_no_file(tmp_path: Path) -> None:
    async with serving(FakeApp(echo), traces=TraceDir(tmp_path)) as shell:
        await (await shell.tcp()).stream.aclose()
        client = await shell.tcp()
        await client.send(b"\x16\x03\x01\r\n\r\n")
        assert (await client.answer()) is not None
    assert os.listdir(tmp_path) == ["000002.jsonl"]


async def test_who_closed_first_and_who_just_went_is_told_apart(tmp_path: Path) -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        if await socket.receive() is not None:
            socket.close_soon(1001, "going")
            assert await socket.receive() is None

    async with serving(FakeApp(app), traces=TraceDir(tmp_path)) as shell:
        client = await shell.memory().open()
        await client.send(wire.frame("go"))
        assert await client.frame() is not None
        await client.send(wire.close(None))
        await client.ended()
        await (await shell.memory().open()).stream.aclose()
        resetting = await (await shell.tcp()).open()
        assert isinstance(resetting.stream, trio.SocketStream)
        resetting.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await resetting.stream.aclose()
    assert without_time(lines(tmp_path, 1))[-3:] == [
        {"dir": "s2c", "kind": "close", "code": 1001, "reason": "going", "by": "server"},
        {"dir": "c2s", "kind": "close", "code": 1005, "reason": "", "by": "server"},
        {"dir": "s2c", "kind": "eof", "reset": False},
    ]
    assert without_time(lines(tmp_path, 2))[-1] == {"dir": "c2s", "kind": "eof", "reset": False}
    assert without_time(lines(tmp_path, 3))[-1] == {"dir": "c2s", "kind": "eof", "reset": True}


async def test_plain_requests_and_their_answers(tmp_path: Path) -> None:
    async def app(request: Request, respond: Responder) -> None:
        await request.body()
        if request.path == "/json":
            await respond.json(200, {"ok": True})
        else:
            async with respond.stream() as out:
                for n in range(3):
                    out.send(b"data: %d\n\n" % n)

    async with serving(FakeApp(on_http=app), traces=TraceDir(tmp_path)) as shell:
        client = shell.memory()
        for path in ("/json", "/stream"):
            await client.send(wire.request("POST", path, body="caf\xe9".encode()))
            assert await client.answer() is not None
        await client.send(b"garbage\r\n\r\n")
        assert await client.answer() is not None
    http = [entry for entry in lines(tmp_path) if entry["kind"] == "http"]
    said = [(entry["dir"], entry.get("head", "").split("\r\n")[0], entry["body"]) for entry in http]
    assert said[:7] == [
        ("c2s", "POST /json HTTP/1.1", "café"),
        ("s2c", "HTTP/1.1 200 OK", '{"ok": true}'),
        ("c2s", "POST /stream HTTP/1.1", "café"),
        ("s2c", "HTTP/1.1 200 OK", ""),
        *(("s2c", "", f"data: {n}\n\n") for n in range(3)),
    ]
    assert http[7]["head"].startswith("HTTP/1.1 400 ")
    assert len(http) == 8


async def test_no_key_is_written(tmp_path: Path) -> None:
    traces = TraceDir(tmp_path, META, secrets=("sk-good",))
    async with serving(keys=("sk-good",), traces=traces) as shell:
        for fields in (
            {"authorization": "Bearer sk-good", "cookie": "session=hidden"},
            {"authorization": "Bearer sk-hidden", "x_api_key": "hidden"},
            {"sec_websocket_protocol": "openai-insecure-api-key.sk-hidden, realtime"},
            {"x_goog_api_key": "hidden", "x_auth_token": "hidden"},
        ):
            client = shell.memory()
            await client.send(wire.upgrade("/v1/responses?key=sk-good&access_token=hidden&a=b", **fields))
            assert await client.answer() is not None
        client = await shell.memory().open(authorization="Bearer sk-good")
        await client.send(wire.frame("my key is sk-good"))
        await client.text()
        body = b"my key is sk-good"
        bearer = [("authorization", "Bearer sk-good")]
        await client.send(wire.close())
        other = shell.memory()
        await other.send(wire.request("POST", "/v1/models", bearer, body))
        assert await other.answer() is not None
    for number in range(1, 7):
        text = json.dumps(lines(tmp_path, number))
        assert "[redacted]" in text
        assert "sk-" not in text
        assert "hidden" not in text


async def test_a_line_reaches_the_file_before_the_connection_ends(tmp_path: Path) -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        while await socket.receive() is not None:
            socket.send(frame(b'{"type":"x.delta"}') + frame(b'{"type":"x.done"}'))

    async with serving(FakeApp(app), traces=TraceDir(tmp_path)) as shell:
        client = await shell.memory().open()
        await client.send(wire.frame("x"))
        await client.text()
        await client.text()
        assert [entry.get("text") for entry in lines(tmp_path)[-3:]] == [
            "x",
            '{"type":"x.delta"}',
            '{"type":"x.done"}',
        ]


async def test_a_delta_that_nothing_follows_is_written_within_a_second(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def app(socket: WebSocket, request: Request) -> None:
        socket.send(frame(b'{"type":"x.delta"}'))
        await echo(socket, request)

    async with serving(FakeApp(app), traces=TraceDir(tmp_path)) as shell:
        client = await shell.memory().open()
        await client.text()
        await trio.sleep(1.1)
        assert lines(tmp_path)[-1]["text"] == '{"type":"x.delta"}'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
async def test_a_file_that_cannot_be_written_ends_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """The disk is full: connections go on, also those whose deltas still wait in a buffer."""

    async def app(socket: WebSocket, request: Request) -> None:
        socket.send(frame(b'{"type":"x.delta"}'))
        await echo(socket, request)

    (tmp_path / "000001.jsonl").symlink_to("/dev/full")
    (tmp_path / "000002.jsonl").mkdir()  # and this one cannot even be opened
    async with serving(FakeApp(app), traces=TraceDir(tmp_path)) as shell:
        for _ in range(3):
            client = await shell.memory().open()
            await client.text()
            await trio.sleep(1.1)  # beyond the next flush
            await client.send(wire.frame("x"))
            assert await client.text() == "x"
    assert "text" in {entry["kind"] for entry in lines(tmp_path, 3)}
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the trace of connection 1 ends here",
        "no trace of connection 2",
    ]


def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=r"cannot write traces to .*file.*: \w+"):
        TraceDir(file)
    with pytest.raises(ConfigError, match="cannot write traces"):
        TraceDir(file / "below")
