"""Faults that people have met in the field with other servers, one small probe each.

The numbers (``E08`` and so on) are those of a collection of public bug reports; the
letter is its group: B handshake, D limits, E continuation, F cancelling, G lanes,
H steering, I warm-up, J errors, K sizes, L events, M tools, N compaction, P keys,
Q accounting.  Every probe runs against a server process.
"""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Callable
from typing import Any

import process
import pytest
import trio
from peer import Event, Peer, connect, ends
from trio_websocket import ConnectionClosed

from responses_ref.protocol.events import SENDABLE

SECONDS = 60
LOOK: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CREATE = {"type": "response.create", "model": "scripted", "store": False}


def output(call: Event, text: str = "seen") -> Event:
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": text}


async def not_found(peer: Peer, response_id: str) -> bool:
    """Whether the server says that it does not know this parent."""
    events = await peer.turn(previous_response_id=response_id)
    return events[-1].get("error", {}).get("code") == "previous_response_not_found"


# --- Refused messages: the code, and a socket that works on (A10, J02, J11). ---

ORPHAN = {"type": "function_call_output", "call_id": "call_x", "output": "1"}
REFUSALS: list[tuple[str, Any, int, str, str | None]] = [
    ("F08", {"type": "response.cancel"}, 400, "unknown_event_type", "type"),
    ("H03", {"type": "session.update", "session": {}}, 400, "unknown_event_type", "type"),
    ("J11", "{", 400, "invalid_json", None),
    ("J11", '{"type":"response.create","type":"response.create"}', 400, "invalid_json", None),
    ("J11", "[1]", 400, "invalid_event", None),
    ("C09", b"{}", 400, "invalid_event", None),
    ("E01", {**CREATE, "input": "x", "previous_response_id": "resp_0"}, 400,
     "previous_response_not_found", "previous_response_id"),
    ("M02", {**CREATE, "input": [ORPHAN]}, 400, "tool_call_not_found", "input"),
    ("I04", {**CREATE, "model": None, "generate": False}, 400, "missing_required_parameter", "model"),
    ("D05", {**CREATE, "stream_id": "x" * 257}, 400, "invalid_stream_id", "stream_id"),
    ("D05", {**CREATE, "stream_id": "a b"}, 400, "invalid_stream_id", "stream_id"),
    ("D05", {**CREATE, "stream_id": ""}, 400, "invalid_stream_id", "stream_id"),
    ("G06", {**CREATE, "stream_id": 7}, 400, "invalid_stream_id", "stream_id"),
    ("J09", {**CREATE, "input": "reject: 503 server_is_overloaded"}, 503, "server_is_overloaded", None),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "message", "status", "code", "param"), REFUSALS)
async def test_a_refusal_is_one_error_and_the_socket_works_on(
    server: process.Server, fault: str, message: Any, status: int, code: str, param: str | None
) -> None:
    async with connect(server.ws) as peer:
        error = await peer.refusal(message)
        assert (error["status"], error["code"], error["param"]) == (status, code, param)
        assert not any(sign in error["message"] for sign in ("/", "0x", "Traceback", "Error("))  # D04
        assert (await peer.response("say: on we go"))["status"] == "completed"


# --- B: the handshake and the HTTP door. ---

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def ask(server: process.Server, method: str, path: str, headers: Any = None, body: Any = None) -> Any:
    """One plain request; returns (status, headers, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    data = None if body is None else json.dumps(body)
    connection.request(method, path, body=data, headers=headers or {})
    answer = connection.getresponse()
    head = dict(answer.getheaders())
    content = b"" if answer.status == 101 else answer.read()
    answer.close()
    connection.close()
    return answer.status, head, content


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/responses", "/openai/v1/responses", "/v1/codex/responses"]
)
def test_b01_b04_b05_b06_b08_every_path_answers_alike(server: process.Server, path: str) -> None:
    status, head, _ = ask(server, "GET", path)  # also what a middlebox leaves that strips Upgrade
    assert (status, head["Sec-WebSocket-Version"]) == (426, "13")
    assert ask(server, "GET", path, UPGRADE)[0] == 101
    assert ask(server, "POST", path, body={"model": "scripted", "input": "say: hi"})[0] == 200


async def test_b11_b12_the_model_is_the_body_s_with_and_without_one_in_the_query(
    server: process.Server,
) -> None:
    for query in ("", "?model=other"):
        async with connect(server.ws + query) as peer:
            assert (await peer.response())["model"] == "scripted"


def test_b13_b16_p01_a_key_is_asked_for_on_both_transports(serve: Callable[..., process.Server]) -> None:
    server = serve("--api-key-env", "TEST_KEYS", env={"TEST_KEYS": "sk-a,sk-b"})
    create = {"model": "scripted", "input": "say: hi"}
    for headers, plain, upgrade in (
        ({}, 401, 401),
        ({"Authorization": "Bearer sk-c"}, 401, 401),
        ({"Authorization": "Bearer sk-a"}, 200, 101),
    ):
        status, _, body = ask(server, "POST", "/v1/responses", headers, create)
        assert status == plain
        assert ask(server, "GET", "/v1/responses", {**UPGRADE, **headers})[0] == upgrade
    mine = json.loads(body)["id"]
    path, other = f"/v1/responses/{mine}", {"Authorization": "Bearer sk-b"}
    assert ask(server, "GET", path, headers)[0] == 200
    assert ask(server, "GET", path, other)[0] == 404
    chained = {**create, "previous_response_id": mine}
    _, _, body = ask(server, "POST", "/v1/responses", other, chained)
    assert json.loads(body)["error"]["code"] == "previous_response_not_found"


def test_b15_an_offered_subprotocol_does_no_harm(server: process.Server) -> None:
    offer = {"Sec-WebSocket-Protocol": "realtime, openai-insecure-api-key.x"}
    status, head, _ = ask(server, "GET", "/v1/responses", {**UPGRADE, **offer})
    assert status == 101
    assert head.get("Sec-WebSocket-Protocol", "realtime") in ("realtime", "openai-insecure-api-key.x")


# --- D, K: limits at N and at N + 1. ---


async def test_d05_the_17th_response_waits_and_the_33rd_lane_is_refused(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        for lane in range(17):
            await peer.create("every: 0.02\ntokens: 20", stream_id=f"lane-{lane}")
        running, most, started = set(), 0, []
        while len(started) < 17 or running:
            event = await peer.event()
            if event["type"] == "response.created":
                started.append(event["stream_id"])
                running.add(event["stream_id"])
            if ends(event):
                running.discard(event["stream_id"])
            most = max(most, len(running))
        assert (most, started[-1]) == (16, "lane-16")
        for lane in range(17, 32):
            await peer.turn(stream_id=f"lane-{lane}")
        refusal = (await peer.turn(stream_id="lane-32"))[-1]
        assert refusal["error"]["code"] == "websocket_stream_limit_reached"
        assert refusal["stream_id"] == "lane-32"
        assert (await peer.turn(stream_id="lane-0"))[-1]["type"] == "response.completed"
        assert (await peer.turn())[-1]["type"] == "response.completed", "the default lane is not counted"


async def test_k01_a_message_over_the_limit_is_closed_with_1009(serve: Callable[..., process.Server]) -> None:
    server = serve("--max-message-bytes", "65536")

    def create(size: int) -> str:
        head, tail = json.dumps({**CREATE, "input": "say: ok\n"})[:-2], '"}'
        return head + " " * (size - len(head) - len(tail)) + tail

    async with connect(server.ws) as peer:
        await peer.send(create(65_536))
        assert (await peer.rest())[-1]["type"] == "response.completed"
        await peer.send(create(65_537))
        with pytest.raises(ConnectionClosed) as closed:
            await peer.event()
    assert closed.value.reason.code == 1009


async def test_d05_a_connection_lives_as_long_as_it_was_told(serve: Callable[..., process.Server]) -> None:
    server = serve("--max-connection-seconds", "1", "--grace-seconds", "5")
    async with connect(server.ws) as peer:
        events = await peer.turn("pause: 1.5\nsay: what has begun is ended")
        assert events[-1]["type"] == "response.completed"
        limit = await peer.event()
        assert limit["error"]["code"] == "websocket_connection_limit_reached"
        with pytest.raises(ConnectionClosed) as closed:
            await peer.event()
    assert closed.value.reason.code == 1001


async def test_c06_c02_a_long_silence_is_filled(serve: Callable[..., process.Server]) -> None:
    server = serve("--heartbeat-seconds", "0.2", "--idle-seconds", "0.5")
    async with connect(server.ws) as peer:
        events = await peer.turn("pause: 1.2\nsay: at last")
    types = [event["type"] for event in events]
    assert types.count("response.in_progress") > 3
    assert types[-1] == "response.completed"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


# --- E: continuation. ---


async def test_e07_e12_e18_a_chain_without_store_carries_all_of_its_context(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        script = "call: look\nsay: red\ncall: look\nsay: blue and red"
        one = await peer.response(script, tools=[LOOK])
        two = await peer.response([output(one["output"][0])], previous_response_id=one["id"], tools=[LOOK])
        assert [item["type"] for item in two["output"]] == ["message", "function_call"]
        three = await peer.response([output(two["output"][1])], previous_response_id=two["id"], tools=[LOOK])
        assert three["output"][0]["content"][0]["text"] == "blue and red"
        sizes = [r["usage"]["input_tokens"] for r in (one, two, three)]
        assert sizes == sorted(set(sizes))


async def test_e08_a_continuation_that_fails_drops_its_parent(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        parent = (await peer.response())["id"]
        await peer.refusal({**CREATE, "previous_response_id": parent, "input": [ORPHAN]})
        assert await not_found(peer, parent)


async def test_e09_a14_a_response_that_is_not_stored_stays_on_its_socket(server: process.Server) -> None:
    async with connect(server.ws) as one, connect(server.ws) as other:
        parent = (await one.response())["id"]
        assert await not_found(other, parent)
        assert not await not_found(one, parent)


async def test_e10_a_stored_child_of_an_unstored_parent_keeps_the_whole_context(
    server: process.Server,
) -> None:
    async with connect(server.ws) as one:
        parent = await one.response("call: look\nsay: root is known", tools=[LOOK])
        child = await one.response(
            [output(parent["output"][0])], previous_response_id=parent["id"], store=True
        )
    async with connect(server.ws) as other:
        grown = await other.response("say: still here", previous_response_id=child["id"])
        assert grown["usage"]["input_tokens"] > child["usage"]["total_tokens"]


async def test_e10_j11_the_lane_is_free_at_the_moment_the_terminal_is_seen(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        parent = None
        for _ in range(200):
            response = await peer.response("say: ok", previous_response_id=parent)
            assert response["status"] == "completed"
            parent = response["id"]


async def test_e11_a_stored_tool_turn_survives_a_reconnect(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        stored = await peer.response("call: look\nsay: after a while", tools=[LOOK], store=True)
    async with connect(server.ws) as peer:
        answer = [output(stored["output"][0])]
        again = await peer.response(answer, previous_response_id=stored["id"])
    assert again["output"][0]["content"][0]["text"] == "after a while"
    assert ask(server, "GET", f"/v1/responses/{stored['id']}")[0] == 200


async def test_e23_instructions_are_this_request_s_only(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        one = await peer.response(instructions="Speak plainly.")
        two = await peer.response(previous_response_id=one["id"])
        three = await peer.response(previous_response_id=two["id"], instructions="Sing.")
    assert [r["instructions"] for r in (one, two, three)] == ["Speak plainly.", None, "Sing."]


async def test_n02_without_a_parent_a_warm_socket_starts_anew(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        long = await peer.response("tokens: 1\nsay: " + "word " * 2000)
        short = await peer.response("three little words")
    assert long["usage"]["input_tokens"] > 2000
    assert short["usage"]["input_tokens"] < 10
    assert short["usage"]["input_tokens_details"]["cached_tokens"] == 0


# --- F, Q: a client that goes, and what is accounted for. ---


def bills(server: process.Server, connection: int) -> list[Event]:
    lines = (server.traces / f"{connection:06}.jsonl").read_text().splitlines()
    return [note["bill"] for note in map(json.loads, lines) if "bill" in note]


async def test_f06_q01_q02_each_response_is_accounted_for_once(serve: Callable[..., process.Server]) -> None:
    server = serve()
    async with connect(server.ws) as peer:
        for _ in range(5):
            await peer.turn()
    async with connect(server.ws) as peer:  # gone in mid-turn
        await peer.create("every: 0.05\ntokens: 1000")
        for _ in range(6):
            await peer.event()
    server.stop()
    assert len(bills(server, 1)) == len({bill["id"] for bill in bills(server, 1)}) == 5
    (cut,) = bills(server, 2)
    assert cut["usage"]["output_tokens"] < 100, "the model was stopped"


# --- G, H: lanes and steering. ---


async def test_g01_lanes_run_side_by_side_and_first_in_first_out_inside(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        for script in ("every: 0.01\ntokens: 20", "say: second"):
            for lane in ("a", "b"):
                await peer.create(script, stream_id=lane)
        events = []
        while sum(map(ends, events)) < 4:
            events.append(await peer.event())
    for lane in ("a", "b"):
        kinds = [event["type"] for event in events if event["stream_id"] == lane]
        first = kinds.index("response.completed")
        assert kinds[first + 1] == "response.created", "the second waits for the first"
    lanes = [event["stream_id"] for event in events if event["type"] == "response.output_text.delta"]
    assert sum(a != b for a, b in itertools.pairwise(lanes)) > 10


async def test_g03_an_error_names_its_lane_and_harms_no_other(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        await peer.create("every: 0.01\ntokens: 20", stream_id="y")
        await peer.create([ORPHAN], stream_id="x")
        by_lane: dict[str, str] = {}
        while len(by_lane) < 2:
            if ends(event := await peer.event()):
                by_lane[event["stream_id"]] = event["type"]
    assert by_lane == {"x": "error", "y": "response.completed"}


async def test_h01_h02_h06_a_steer_is_answered_while_deltas_flow(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        await peer.create("every: 0.02\ntokens: 30\nthink: more\ntokens: 30")
        target = (await peer.event())["response"]["id"]
        while (await peer.event())["type"] != "response.output_text.delta":
            pass
        await peer.send({"type": "response.steer", "previous_response_id": target, "input": "say: short"})
        answered = trio.current_time()
        while (await peer.event())["type"] != "response.steer.accepted":
            pass
        assert trio.current_time() - answered < 5
        steered = (await peer.rest())[-1]["response"]
        assert steered["incomplete_details"] == {"reason": "steered"}
        successor = (await peer.rest())[-1]["response"]
        assert successor["previous_response_id"] == target
        assert successor["output"][0]["content"][0]["text"] == "short"


# --- I: warm-up. ---


async def test_i01_i02_i06_a_warm_up_runs_no_model_even_without_input(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        warm = await peer.turn([], generate=False)
        assert [event["type"] for event in warm] == ["response.created", "response.completed"]
        response = warm[-1]["response"]
        assert (response["output"], response["usage"]["output_tokens"]) == ([], 0)
        after = await peer.response("say: warm", previous_response_id=response["id"])
        assert after["output"][0]["content"][0]["text"] == "warm"


async def test_i03_a_header_makes_no_warm_up(server: process.Server) -> None:
    async with connect(server.ws, headers=[("x-codex-prewarm", "true")]) as peer:
        assert (await peer.response("say: spoken"))["output"]


# --- J12: the same judgement on both transports. ---


@pytest.mark.parametrize(
    "fields",
    [
        {"input": [ORPHAN]},
        {"input": 5},
        {"temperature": 3},
        {"max_output_tokens": "4"},
        {"background": True},
        {"tools": [{"type": "function"}]},
        {"tool_choice": {"type": "function", "name": "none"}},
        {"previous_response_id": "resp_0"},
        {"metadata": {"k": "v" * 513}},
        {"input": "reject: 429 slow_down Later."},
    ],
)
async def test_j12_both_transports_refuse_alike(server: process.Server, fields: Event) -> None:
    create = {"model": "scripted", "input": "say: ok", **fields}
    async with connect(server.ws) as peer:
        over_socket = await peer.refusal({"type": "response.create", **create})
    status, _, body = await trio.to_thread.run_sync(ask, server, "POST", "/v1/responses", None, create)
    over_http = {"status": status, **json.loads(body)["error"]}
    over_socket.pop("headers", None)
    assert over_http == over_socket


# --- L: events. ---

ALL_ITEMS = (
    'think: Hm.\nsay: Hello you.\nrefuse: no\ncompact:\nsay:\ncall: look {"a":1}\ncall: look\ncustom: w x'
)


async def test_l03_l04_l12_numbers_and_ids(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        for script in (ALL_ITEMS, "fail: server_error", "error: server_error", "incomplete: max_messages"):
            events = await peer.turn(script)
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert len({event["response"]["id"] for event in events if "response" in event}) == 1


async def test_l05_to_l09_l22_every_part_is_opened_filled_and_closed(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        events = await peer.turn(ALL_ITEMS)
    final = events[-1]["response"]["output"]
    count = {kind: sum(e["type"].endswith(kind) for e in events) for kind in ("part.added", "part.done")}
    assert count == {"part.added": 5, "part.done": 5}
    for index, item in enumerate(final):
        mine = [e for e in events if e.get("output_index") == index]
        kinds = [e["type"] for e in mine]
        assert (kinds[0], kinds[-1]) == ("response.output_item.added", "response.output_item.done")
        assert mine[-1]["item"] == item
        assert {e["item_id"] for e in mine[1:-1]} == {item["id"]} == {mine[0]["item"]["id"]}  # L11
    texts = [e for e in events if e["type"].endswith("_text.done") or e["type"] == "response.refusal.done"]
    for done in texts:
        kind = done["type"].removesuffix(".done")
        deltas = [
            e["delta"] for e in events if e["type"] == f"{kind}.delta" and e["item_id"] == done["item_id"]
        ]
        assert "".join(deltas) == done.get("text", done.get("refusal"))


async def test_l13_l18_calls_keep_name_and_ids_and_can_be_sent_back(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        events = await peer.turn('call: look {"a":1}', tools=[LOOK])
        added, done = (
            next(e["item"] for e in events if e["type"] == f"response.output_item.{kind}")
            for kind in ("added", "done")
        )
        assert (added["name"], added["call_id"]) == (done["name"], done["call_id"])
        assert done["id"].startswith("fc_")
        assert done["call_id"].startswith("call_")
        history = [{"role": "user", "content": "call: look\nsay: all told"}, done, output(done)]
        assert (await peer.response(history))["output"][0]["content"][0]["text"] == "all told"


# --- M: tools; N06: an event of Codex's own. ---


@pytest.mark.parametrize(
    ("script", "kind"), [("call: look", "function_call"), ("custom: w x", "custom_tool_call")]
)
async def test_a16_m04_an_output_is_taken_on_the_same_socket(
    server: process.Server, script: str, kind: str
) -> None:
    async with connect(server.ws) as peer:
        one = await peer.response(f"{script}\nsay: thanks")
        assert one["output"][0]["type"] == kind
        two = await peer.response([output(one["output"][0])], previous_response_id=one["id"])
    assert two["output"][0]["content"][0]["text"] == "thanks"


async def test_m06_a_second_output_of_a_call_is_a_clear_error(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        one = await peer.response("call: look")
        call = one["output"][0]
        twice = [output(call, "this"), output(call, "that")]
        error = await peer.refusal({**CREATE, "previous_response_id": one["id"], "input": twice})
    assert (error["status"], error["code"]) == (400, "tool_output_conflict")


async def test_m07_the_model_s_own_items_may_come_again(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        one = await peer.response("think: Hm.\ncall: look\nsay: thanks", tools=[LOOK])
        again = [*one["output"], output(one["output"][1])]
        two = await peer.response(again, previous_response_id=one["id"], tools=[LOOK])
        plain = await peer.response("call: look\nsay: thanks", tools=[LOOK])
        answer = [output(plain["output"][0])]
        three = await peer.response(answer, previous_response_id=plain["id"], tools=[LOOK])
    assert two["output"][0]["content"][0]["text"] == "thanks"
    grown = [r["usage"]["input_tokens_details"]["cache_write_tokens"] for r in (two, three)]
    assert grown[0] == grown[1], "what came again was not added again"


async def test_n06_a_receipt_is_no_fault(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        response = await peer.response()
        await peer.send({"type": "response.processed", "response_id": response["id"]})
        events = await peer.turn()
    assert events[0]["type"] == "response.created"


async def test_o04_no_event_of_a_server_s_own_making(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        assert {event["type"] for event in await peer.turn(ALL_ITEMS)} <= set(SENDABLE)
