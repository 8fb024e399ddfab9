"""The `openai-agents` package with its WebSocket transport, against a server process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import process
import pytest
from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    function_tool,
    responses_websocket_session,
    set_tracing_disabled,
)
from agents.models.openai_responses import ResponsesWebSocketError

SECONDS = 60
LOOP = 'call: weather {"city":"Ulm"}\nnext:\ncall: weather {"city":"Bonn"}\nsay: Ulm is dry, Bonn is wet.'


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine() -> Iterator[None]:
    """The package sends a trace of each run to its maker, unless it is told not to."""
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
def alone(serve: Callable[..., process.Server]) -> process.Server:
    """A server of the test's own: its traces show this test's sockets only."""
    return serve()


def agent(asked: list[str]) -> Agent[Any]:
    """An agent with one tool, which notes what it is asked."""

    @function_tool
    def weather(city: str) -> str:
        """Say how the weather is."""
        asked.append(city)
        return f"{city}: so so"

    settings = ModelSettings(store=False)
    return Agent(name="Clerk", model="scripted", tools=[weather], model_settings=settings)


def run(server: process.Server, story: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with responses_websocket_session(api_key="sk-test", base_url=server.http) as session:
            await asyncio.wait_for(story(session), SECONDS)

    asyncio.run(main())


def creates(server: process.Server) -> dict[int, list[Any]]:
    """Per socket, what the server has been sent, as its traces have it."""
    sent: dict[int, list[Any]] = {}
    for file in sorted(server.traces.glob("*.jsonl")):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["kind"] == "text" and line["dir"] == "c2s":
                sent.setdefault(line["conn"], []).append(json.loads(line["text"]))
    return sent


def test_a_text_turn(alone: process.Server) -> None:
    async def story(session: Any) -> None:
        result = await session.run(agent([]), "say: Good morning.")
        assert result.final_output == "Good morning."

    run(alone, story)
    ((create,),) = creates(alone).values()
    assert create["store"] is False


def test_a_streamed_text_turn(alone: process.Server) -> None:
    async def story(session: Any) -> None:
        result = session.run_streamed(agent([]), "say: Good morning, in pieces.")
        events = [event async for event in result.stream_events()]
        raw = [event.data for event in events if event.type == "raw_response_event"]
        deltas = [data.delta for data in raw if data.type == "response.output_text.delta"]
        assert "".join(deltas) == result.final_output == "Good morning, in pieces."
        assert len(deltas) > 1

    run(alone, story)


def test_a_tool_loop_of_three_turns_with_a_parent_on_one_socket(alone: process.Server) -> None:
    asked: list[str] = []

    async def story(session: Any) -> None:
        result = await session.run(agent(asked), LOOP, auto_previous_response_id=True)
        assert result.final_output == "Ulm is dry, Bonn is wet."
        assert result.context_wrapper.usage.requests == 3

    run(alone, story)
    assert asked == ["Ulm", "Bonn"]
    ((first, second, third),) = creates(alone).values()
    assert "previous_response_id" not in first
    for create in (second, third):
        assert create["previous_response_id"].startswith("resp_")
        assert [item["type"] for item in create["input"]] == ["function_call_output"]


def test_the_package_s_own_loop_sends_everything_again(alone: process.Server) -> None:
    asked: list[str] = []

    async def story(session: Any) -> None:
        result = await session.run(agent(asked), LOOP)
        assert result.final_output == "Ulm is dry, Bonn is wet."

    run(alone, story)
    assert asked == ["Ulm", "Bonn"]
    (sent,) = creates(alone).values()
    assert [len(create["input"]) for create in sent] == [1, 3, 5]


def test_a_chain_that_is_gone_starts_again_with_its_whole_input(alone: process.Server) -> None:
    asked: list[str] = []

    async def first(session: Any) -> None:
        one = await session.run(agent(asked), LOOP, auto_previous_response_id=True)
        results.append(one)

    async def second(session: Any) -> None:
        (one,) = results
        with pytest.raises(ResponsesWebSocketError) as refused:
            await session.run(agent(asked), "and now?", previous_response_id=one.last_response_id)
        assert refused.value.code == "previous_response_not_found"
        history = [*one.to_input_list(), {"role": "user", "content": "say: So much for the weather."}]
        again = await session.run(agent(asked), history)
        assert again.final_output == "So much for the weather."

    results: list[Any] = []
    run(alone, first)
    run(alone, second)  # another socket: with store=False nothing of the chain is left


def test_what_a_model_may_end_in_is_an_exception_of_the_package(alone: process.Server) -> None:
    async def story(session: Any) -> None:
        for ending in ("fail: server_error It broke.", "incomplete: content_filter"):
            with pytest.raises(ModelBehaviorError):
                await session.run(agent([]), ending)
        assert (await session.run(agent([]), "say: alive")).final_output == "alive"

    run(alone, story)
