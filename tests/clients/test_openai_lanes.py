"""Lanes and steering by the `openai` package: plain connections and its managed sessions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import process
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketAccumulator,
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)

SECONDS = 60
TERMINAL = {"response.completed", "response.failed", "response.incomplete"}
LIMITS = ResponsesWebSocketLimits(
    max_lanes=8,
    max_events_per_lane=10_000,
    max_events=50_000,
    max_bytes_per_lane=16 * 2**20,
    max_bytes=64 * 2**20,
)


def create(text: str, **fields: Any) -> Any:
    return {"type": "response.create", "model": "scripted", "store": False, "input": text, **fields}


def run(server: process.Server, story: Callable[[AsyncOpenAI, Any], Awaitable[None]]) -> None:
    """Run a story with an async connection, under asyncio."""

    async def main() -> None:
        async with AsyncOpenAI(api_key="sk-test", base_url=server.http) as client:
            options: Any = {"max_size": None}
            async with client.responses.connect(websocket_connection_options=options) as connection:
                await asyncio.wait_for(story(client, connection), SECONDS)

    asyncio.run(main())


def managed(server: process.Server, story: Callable[[Any], Awaitable[None]]) -> None:
    """The same with a managed session."""

    async def inside(client: AsyncOpenAI, connection: Any) -> None:
        async with AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session:
            await story(session)

    run(server, inside)


async def until(lane: Any, kind: str) -> Any:
    """The next event of this type on a lane."""
    while (event := await lane.recv()).type != kind:
        assert event.type != "error", event
    return event


# --- Lanes. ---


def test_two_lanes_are_interleaved_and_tagged(server: process.Server) -> None:
    async def story(client: AsyncOpenAI, connection: Any) -> None:
        for name in ("left", "right"):
            await connection.response.create(
                model="scripted", store=False, stream_id=name, input="every: 0.005\ntokens: 40"
            )
        order, ended = [], 0
        async for event in connection:
            order.append(event.stream_id)
            ended += event.type in TERMINAL
            if ended == 2:
                break
        assert set(order) == {"left", "right"}
        switches = sum(a != b for a, b in itertools.pairwise(order))
        assert switches > 20, "both run at the same time"

    run(server, story)


def test_managed_lanes_each_collect_their_own_response(server: process.Server) -> None:
    async def story(session: Any) -> None:
        lanes = {name: session.lane(name) for name in ("one", "two")}
        for name, lane in lanes.items():
            await lane.send(create(f"every: 0.002\nsay: this is the answer of lane {name}"))
        await session.default.send(create("say: and this has no lane"))
        for name, lane in lanes.items():
            assert (await lane.get_final_response()).output_text == f"this is the answer of lane {name}"
        assert (await session.default.get_final_response()).output_text == "and this has no lane"

    managed(server, story)


def test_a_fork_goes_on_from_another_lane_and_leaves_it_alone(server: process.Server) -> None:
    async def story(session: Any) -> None:
        main, fork = session.lane("main"), session.lane("fork")
        await main.send(create("say: the common root"))
        root = await main.get_final_response()
        await fork.send(create("every: 0.01\nsay: a branch grows", previous_response_id=root.id))
        await until(fork, "response.in_progress")  # from here on the source may go on
        await main.send(create("say: the stem grows", previous_response_id=root.id))
        stem, branch = await main.get_final_response(), await fork.get_final_response()
        assert (stem.output_text, branch.output_text) == ("the stem grows", "a branch grows")
        assert stem.previous_response_id == branch.previous_response_id == root.id
        assert stem.usage.input_tokens_details.cached_tokens > 0

    managed(server, story)


def test_a_failed_fork_is_that_lanes_own_trouble(server: process.Server) -> None:
    async def story(session: Any) -> None:
        main, fork = session.lane("main"), session.lane("fork")
        await main.send(create("say: root"))
        root = await main.get_final_response()
        await fork.send(create("reject: 400 no_fork", previous_response_id=root.id))
        with pytest.raises(ResponsesWebSocketError) as refused:
            await fork.get_final_response()
        assert refused.value.event.error.code == "no_fork"
        assert refused.value.event.stream_id == "fork"
        await main.send(create("say: still here", previous_response_id=root.id))
        assert (await main.get_final_response()).output_text == "still here"

    managed(server, story)


def test_a_managed_session_in_sync_code(server: process.Server) -> None:
    client = OpenAI(api_key="sk-test", base_url=server.http)
    with (
        client,
        client.responses.connect() as connection,
        ResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lanes = [session.lane(name) for name in ("a", "b")]
        for lane in lanes:
            lane.send(create("think: Hm.\nsay: in sync code"))
        texts = [lane.get_final_response(timeout=SECONDS).output_text for lane in lanes]
    assert texts == ["in sync code"] * 2


def test_the_accumulator_arrives_at_what_the_server_says(server: process.Server) -> None:
    async def story(session: Any) -> None:
        lane, accumulator = session.lane("x"), ResponsesWebSocketAccumulator()
        await lane.send(create('think: Let me see.\nsay: A text.\ncall: look {"at":"it"}\ncustom: write now'))
        while (event := await lane.recv()).type not in TERMINAL:
            accumulator.add_event(event)
        projected = [row["item"] for row in accumulator.detailed_snapshot()["output"]]
        finished = [item.to_dict() for item in event.response.output]
        assert [item["id"] for item in projected] == [item["id"] for item in finished]
        texts = [part.get("text") for row in accumulator.detailed_snapshot()["output"]
                 for part in (content["part"] for content in row.get("content") or [])]  # fmt: skip
        assert "A text." in texts
        accumulator.add_event(event)
        assert accumulator.get_final_response().id == event.response.id

    managed(server, story)


# --- Steering. ---

SLOW = "every: 0.02\nsay: one two three four five six\nsay: seven eight nine ten eleven twelve"


def test_a_steer_in_mid_turn_ends_it_and_its_successor_goes_on(server: process.Server) -> None:
    async def story(client: AsyncOpenAI, connection: Any) -> None:
        await connection.response.create(model="scripted", store=False, input=f"{SLOW}\nthink: x\n{SLOW}")
        seen: list[Any] = []
        async for event in connection:
            seen.append(event)
            if event.type == "response.output_text.delta" and event.delta == "one":
                first = seen[0].response.id
                await connection.response.steer(input="say: as you wish", previous_response_id=first)
            if event.type == "response.completed":
                break
        accepted = next(e for e in seen if e.type == "response.steer.accepted")
        steered = next(e for e in seen if e.type == "response.incomplete")
        assert accepted.steer.previous_response_id == first
        assert steered.response.incomplete_details.reason == "steered"
        assert steered.response.output[-1].status == "completed", "the item under way was finished"
        assert seen[-1].response.previous_response_id == first
        assert seen[-1].response.output_text == "as you wish"
        created = [e.response.id for e in seen if e.type == "response.created"]
        assert created == [first, seen[-1].response.id]

    run(server, story)


def test_a_steer_on_a_managed_lane_while_another_lane_runs_on(server: process.Server) -> None:
    async def story(session: Any) -> None:
        lane, other = session.lane("steered"), session.lane("other")
        await other.send(create("every: 0.01\nsay: not to be disturbed by anybody"))
        await lane.send(create(f"{SLOW}\nthink: x\n{SLOW}"))
        target = (await until(lane, "response.created")).response.id
        await until(lane, "response.output_text.delta")
        steer: Any = {"type": "response.steer", "previous_response_id": target, "input": "say: turned"}
        await lane.send(steer)
        accepted = await until(lane, "response.steer.accepted")
        assert accepted.stream_id == "steered"
        assert (await until(lane, "response.incomplete")).response.incomplete_details.reason == "steered"
        successor = (await until(lane, "response.created")).response
        assert successor.previous_response_id == target
        assert (await lane.get_final_response()).output_text == "turned"
        assert (await other.get_final_response()).output_text == "not to be disturbed by anybody"

    managed(server, story)


def test_a_steer_of_a_response_that_calls_a_tool_waits_for_the_output(server: process.Server) -> None:
    async def story(session: Any) -> None:
        lane = session.lane("tools")
        await lane.send(create('every: 0.02\ncall: look {"at":"one two three four five"}'))
        target = (await until(lane, "response.created")).response.id
        await until(lane, "response.function_call_arguments.delta")
        # The steer's script is the newest, and the output that follows answers its first line.
        script = "call: look\nsay: by the way"
        steer: Any = {"type": "response.steer", "previous_response_id": target, "input": script}
        await lane.send(steer)
        call = (await until(lane, "response.completed")).response.output[0]
        pending = await until(lane, "response.steer.pending")
        (stub,) = pending.required_input
        assert pending.reason == "waiting_for_required_input"
        assert (stub.type, stub.call_id, stub.name) == ("function_call_output", call.call_id, "look")
        answer = {**stub.to_dict(), "output": "seen"}
        await lane.send({**create(""), "input": [answer], "previous_response_id": target})
        assert (await lane.get_final_response()).output_text == "by the way"

    managed(server, story)


def test_a_steer_that_comes_too_late_gets_its_input_back(server: process.Server) -> None:
    async def story(client: AsyncOpenAI, connection: Any) -> None:
        await connection.response.create(model="scripted", store=False, input="say: done")
        async for event in connection:
            if event.type == "response.completed":
                await connection.response.steer(input="too late", previous_response_id=event.response.id)
                await connection.response.steer(input="nobody", previous_response_id="resp_none")
            if event.type == "response.steer.failed":
                break
        unknown = await anext(aiter(connection))
        assert (event.error.code, event.steer.input) == ("response_already_completed", "too late")
        assert (unknown.error.code, unknown.steer.id) == ("response_not_found", None)

    run(server, story)
