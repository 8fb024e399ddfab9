"""The `openai` package, as it is installed, against a server process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import openai
import process
import pytest
from openai import AsyncOpenAI, OpenAI

SECONDS = 60  # for one whole test on a busy machine
TERMINAL = {"response.completed", "response.failed", "response.incomplete"}
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "Say how the weather is.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
# Two calls, one after the other, and a text: three responses.
LOOP = 'call: weather {"city":"Ulm"}\nnext:\ncall: weather {"city":"Bonn"}\nsay: Ulm is dry, Bonn is wet.'


@pytest.fixture
def client(server: process.Server) -> Iterator[OpenAI]:
    with OpenAI(api_key="sk-test", base_url=server.http, max_retries=0, timeout=SECONDS) as client:
        yield client


def turn(connection: Any, **fields: Any) -> list[Any]:
    """Send one create and return its events."""
    connection.response.create(model="scripted", store=False, **fields)
    events = []
    for event in connection:
        events.append(event)
        if event.type in TERMINAL or event.type == "error":
            return events
    raise AssertionError("the connection ended before the response did")


def output_of(call: Any) -> Any:
    city = json.loads(call.arguments)["city"]
    return {"type": "function_call_output", "call_id": call.call_id, "output": f"{city}: so so"}


def calls(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "function_call"]


# --- WebSocket, sync. ---


def test_a_text_turn(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        events = turn(connection, input="say: Good morning, dear reader.")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    response = events[-1].response
    assert "".join(deltas) == response.output_text == "Good morning, dear reader."
    assert len(deltas) == response.usage.output_tokens > 1
    assert response.status == "completed"


def test_a_tool_loop_of_three_turns_on_one_socket(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        responses = [turn(connection, input=LOOP, tools=[WEATHER])[-1].response]
        while called := calls(responses[-1]):
            outputs = [output_of(call) for call in called]
            parent = responses[-1].id
            ended = turn(connection, input=outputs, previous_response_id=parent, tools=[WEATHER])[-1]
            responses.append(ended.response)
    assert len(responses) == 3
    assert responses[-1].output_text == "Ulm is dry, Bonn is wet."
    assert [r.previous_response_id for r in responses] == [None, responses[0].id, responses[1].id]
    cached = [r.usage.input_tokens_details.cached_tokens for r in responses]
    assert cached == sorted(set(cached)), "each turn finds more of its context prepared"


def test_a_chain_that_is_gone_starts_again_with_its_whole_input(client: OpenAI) -> None:
    script: Any = {"role": "user", "content": LOOP}
    with client.responses.connect() as connection:
        first = turn(connection, input=[script], tools=[WEATHER])[-1].response
    history = [script, *first.output, output_of(calls(first)[0])]
    with client.responses.connect() as connection:  # store=False: the other socket's state is gone
        (refusal,) = turn(connection, input=history[-1:], previous_response_id=first.id, tools=[WEATHER])
        assert (refusal.type, refusal.status) == ("error", 400)
        assert refusal.error.code == "previous_response_not_found"
        assert refusal.error.param == "previous_response_id"
        again = turn(connection, input=history, tools=[WEATHER])[-1].response
        (call,) = calls(again)
        assert json.loads(call.arguments) == {"city": "Bonn"}, "the context has arrived whole"
        last = turn(connection, input=[output_of(call)], previous_response_id=again.id, tools=[WEATHER])
    assert last[-1].response.output_text == "Ulm is dry, Bonn is wet."


def test_a_warm_up_prepares_what_the_next_create_goes_on_from(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        warm = turn(connection, input="say: warm and ready", generate=False)
        assert [event.type for event in warm] == ["response.created", "response.completed"]
        ended = turn(connection, input=[], previous_response_id=warm[-1].response.id)[-1]
    assert ended.response.output_text == "warm and ready"
    assert ended.response.usage.input_tokens_details.cache_write_tokens == 0


def test_events_can_be_dispatched_to_handlers(client: OpenAI) -> None:
    heard: list[str] = []
    with client.responses.connect() as connection:
        connection.on("response.output_text.delta", lambda event: heard.append(event.delta))
        connection.on("response.completed", lambda event: connection.close())
        connection.response.create(model="scripted", store=False, input="say: by handlers")
        connection.dispatch_events()
    assert "".join(heard) == "by handlers"


def test_an_error_that_nobody_handles_is_raised(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        connection.response.create(model="scripted", store=False, input="reject: 429 slow_down Later.")
        with pytest.raises(openai.OpenAIError, match=r"slow_down"):
            connection.dispatch_events()


# --- WebSocket, async. ---


def run(server: process.Server, story: Callable[[AsyncOpenAI], Awaitable[None]]) -> None:
    """Run a coroutine function with an async client; under asyncio, which that client needs."""

    async def main() -> None:
        async with AsyncOpenAI(api_key="sk-test", base_url=server.http, max_retries=0) as client:
            await asyncio.wait_for(story(client), SECONDS)

    asyncio.run(main())


async def aturn(connection: Any, **fields: Any) -> Any:
    """Send one create and return its last event."""
    await connection.response.create(model="scripted", store=False, **fields)
    async for event in connection:
        if event.type in TERMINAL or event.type == "error":
            return event
    raise AssertionError("the connection ended before the response did")


def test_async_text_turn_tool_loop_and_recovery(server: process.Server) -> None:
    async def story(client: AsyncOpenAI) -> None:
        async with client.responses.connect() as connection:
            assert (await aturn(connection, input="say: Hello.")).response.output_text == "Hello."
            script: Any = {"role": "user", "content": LOOP}
            first = (await aturn(connection, input=[script], tools=[WEATHER])).response
            second = await _answer(connection, first)
            third = await _answer(connection, second)
            assert third.output_text == "Ulm is dry, Bonn is wet."
        async with client.responses.connect() as connection:
            history = [script, *first.output, output_of(calls(first)[0])]
            refusal = await aturn(
                connection, input=history[-1:], previous_response_id=first.id, tools=[WEATHER]
            )
            assert refusal.error.code == "previous_response_not_found"
            again = (await aturn(connection, input=history, tools=[WEATHER])).response
            assert (await _answer(connection, again)).output_text == "Ulm is dry, Bonn is wet."

    run(server, story)


async def _answer(connection: Any, response: Any) -> Any:
    outputs = [output_of(call) for call in calls(response)]
    ended = await aturn(connection, input=outputs, previous_response_id=response.id, tools=[WEATHER])
    return ended.response


def test_the_package_reconnects_by_itself_when_the_server_closes_for_its_age(
    serve: Callable[..., process.Server],
) -> None:
    server, codes = serve("--max-connection-seconds", "1"), []

    def on_reconnecting(event: Any) -> None:
        codes.append(event.close_code)
        if len(codes) == 1:  # the package keeps it for the next socket
            connection.response.create(model="scripted", store=False, input="say: on the next socket")

    client = OpenAI(api_key="sk-test", base_url=server.http)
    connect = client.responses.connect(on_reconnecting=on_reconnecting, initial_delay=0.01)
    with client, connect as connection:
        events = iter(connection)
        assert next(events).error.code == "websocket_connection_limit_reached"
        answer = next(event for event in events if event.type == "response.completed")
    assert answer.response.output_text == "on the next socket"
    assert codes == [1001]


# --- HTTP. ---


def test_http_create_retrieve_list_and_delete(client: OpenAI) -> None:
    created = client.responses.create(model="scripted", input="say: over HTTP", metadata={"k": "v"})
    assert created.output_text == "over HTTP"
    assert client.responses.retrieve(created.id).to_dict() == created.to_dict()
    (item,) = client.responses.input_items.list(created.id).data
    assert item.content[0].text == "say: over HTTP"  # type: ignore[union-attr]
    client.responses.delete(created.id)
    with pytest.raises(openai.NotFoundError) as gone:
        client.responses.retrieve(created.id)
    assert gone.value.code == "response_not_found"


def test_http_stream(client: OpenAI) -> None:
    with client.responses.stream(model="scripted", input="think: Hm.\nsay: in pieces") as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    assert types[0] == "response.created"
    assert types[-1] == "response.completed"
    assert "response.reasoning_text.delta" in types
    assert final.output_text == "in pieces"


def test_http_stream_with_the_events_as_they_come(client: OpenAI) -> None:
    numbers = []
    for event in client.responses.create(model="scripted", input="say: one two three", stream=True):
        numbers.append(event.sequence_number)
    assert numbers == list(range(len(numbers)))


def test_http_tool_loop(client: OpenAI) -> None:
    response = client.responses.create(model="scripted", input=LOOP, tools=[WEATHER])
    turns = 1
    while called := calls(response):
        outputs = [output_of(call) for call in called]
        response = client.responses.create(
            model="scripted", input=outputs, previous_response_id=response.id, tools=[WEATHER]
        )
        turns += 1
    assert (turns, response.output_text) == (3, "Ulm is dry, Bonn is wet.")


def test_http_refusals_are_the_exceptions_of_the_package(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="scripted", input="say: x", previous_response_id="resp_none")
    assert refused.value.code == "previous_response_not_found"
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model="scripted", input="reject: 429 slow_down Later.")


def test_http_models(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]


def test_http_typed_output(client: OpenAI) -> None:
    class Weather(openai.BaseModel):
        city: str
        dry: bool

    answer = 'say: {"city":"Ulm","dry":true}'
    parsed = client.responses.parse(model="scripted", input=answer, text_format=Weather)
    assert parsed.output_parsed == Weather(city="Ulm", dry=True)


def test_http_async(server: process.Server) -> None:
    async def story(client: AsyncOpenAI) -> None:
        created = await client.responses.create(model="scripted", input="say: async over HTTP")
        assert created.output_text == "async over HTTP"
        async with client.responses.stream(model="scripted", input="say: and SSE") as stream:
            assert (await stream.get_final_response()).output_text == "and SSE"
        assert (await client.responses.retrieve(created.id)).id == created.id

    run(server, story)


def test_a_key_is_asked_for(serve: Callable[..., process.Server]) -> None:
    server = serve("--api-key-env", "TEST_KEYS", env={"TEST_KEYS": "sk-one,sk-two"})
    wrong = OpenAI(api_key="sk-no", base_url=server.http, max_retries=0)
    with wrong, pytest.raises(openai.AuthenticationError):
        wrong.responses.create(model="scripted", input="say: x")
    with OpenAI(api_key="sk-two", base_url=server.http) as right, right.responses.connect() as connection:
        assert turn(connection, input="say: let in")[-1].response.output_text == "let in"
