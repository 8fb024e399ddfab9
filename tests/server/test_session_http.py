"""The HTTP side of the whole server over real sockets: answers as they are sent, and ids over requests."""

from __future__ import annotations

import json
import logging
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import wire

from responses_ref.model.streamer import profile
from responses_ref.serving import Options, build


@attrs.define
class Peer:
    """A client on one connection that is kept."""

    client: wire.Client

    async def post(self, **fields: Any) -> wire.Answer:
        body = json.dumps({"model": "scripted", **fields}).encode()
        return await self._answered(wire.request("POST", "/v1/responses", body=body))

    async def get(self, target: str) -> wire.Answer:
        return await self._answered(wire.request("GET", target))

    async def _answered(self, request: bytes) -> wire.Answer:
        await self.client.send(request)
        answer = await self.client.answer()
        assert answer is not None
        return answer


@asynccontextmanager
async def listening(**options: Any) -> AsyncIterator[tuple[str, int]]:
    server = build(Options(speed=profile("instant"), **options))
    with trio.fail_after(60):
        async with server.running() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            await nursery.start(trio.serve_listeners, server.serve_stream, listeners)
            yield listeners[0].socket.getsockname()[:2]
            await server.empty()


@asynccontextmanager
async def peer(**options: Any) -> AsyncIterator[Peer]:
    async with listening(**options) as address, await trio.open_tcp_stream(*address) as stream:
        yield Peer(wire.Client(stream))


@pytest.mark.parametrize("status", [400, 419, 499, 520, 599])
async def test_a_script_rejects_with_any_status(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """A status without a name of its own is a status too, and the connection is kept."""
    with caplog.at_level(logging.ERROR):
        async with peer() as client:
            answer = await client.post(input=f"reject: {status} odd")
            assert (answer.status, answer.code) == (status, "odd")
            assert (await client.get("/healthz")).status == 200
    assert not caplog.records


async def test_with_a_seed_each_request_of_a_connection_has_ids_of_its_own() -> None:
    """SDKs keep their connections: the second response must not take the place of the first."""
    async with peer(seed=1) as client:
        first = (await client.post(input="say: one")).json()
        second = (await client.post(input="say: two", previous_response_id=first["id"])).json()
        assert first["id"] != second["id"]
        assert first["output"][0]["id"] != second["output"][0]["id"]
        assert (await client.get(f"/v1/responses/{first['id']}")).json() == first
        await client.client.open()  # and what the connection becomes at last does not begin again either
        await client.client.send(wire.frame('{"type":"response.create","model":"m","input":"say: three"}'))
        third = json.loads(await client.client.text())["response"]["id"]
        assert third not in (first["id"], second["id"])


async def test_a_client_that_goes_at_once_is_no_crash(caplog: pytest.LogCaptureFixture) -> None:
    """Its create has been read, and the work on it not begun, when the connection is gone."""
    create = wire.frame('{"type":"response.create","model":"m","input":"say: a"}')
    with caplog.at_level(logging.ERROR):
        async with listening() as address:
            for _ in range(30):
                stream = await trio.open_tcp_stream(*address)
                client = await wire.Client(stream).open()
                await client.send(create)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                await stream.aclose()
    assert not caplog.records


async def test_the_pages_of_the_input_items() -> None:
    """In both directions, page after page, each item once, and no more on a page than may be."""
    texts = [f"item {n}" for n in range(120)]
    async with peer() as client:
        first = (await client.post(input=[{"role": "user", "content": text} for text in texts])).json()
        second = (await client.post(input="last", previous_response_id=first["id"])).json()
        said = first["output"][0]["content"][0]["text"]
        for order, wanted in (("asc", [*texts, said, "last"]), ("desc", ["last", said, *reversed(texts)])):
            got: list[str] = []
            after = ""
            while True:
                target = f"/v1/responses/{second['id']}/input_items?order={order}&limit=50{after}"
                page = (await client.get(target)).json()
                got += [item["content"][0]["text"] for item in page["data"]]
                assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
                after = f"&after={page['last_id']}"
                if not page["has_more"]:
                    break
            assert got == wanted
        twice = [{"role": "user", "content": text, "id": "msg_a"} for text in ("one", "two")]
        third = (await client.post(input=twice)).json()
        target = f"/v1/responses/{third['id']}/input_items?limit=1&after="
        page = (await client.get(target)).json()
        rest = (await client.get(target + page["last_id"])).json()
        texts = [one["data"][0]["content"][0]["text"] for one in (page, rest)]
        assert (texts, rest["has_more"]) == (["two", "one"], False)
        for limit in ("", "0", "101", "x", "-1", "000000001999"):
            assert (await client.get(f"/v1/responses/{second['id']}/input_items?limit={limit}")).status == 400


async def test_a_wish_for_a_warm_up_is_passed_over() -> None:
    """In either form (RWS-HTTP-003, RWS-WRM-009): an answer without output is no use to anybody here."""
    async with peer() as client:
        for wish in ({"generate": False}, {"prompt_cache_options": {"prewarm": True, "ttl": "30m"}}):
            made = (await client.post(input="say: a", **wish)).json()
            assert made["output"][0]["content"][0]["text"] == "a"
