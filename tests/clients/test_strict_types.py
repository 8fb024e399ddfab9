"""Everything that any server process of these tests has sent is what the `openai` package's types say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import process
import pytest
import strict
import trio
from openai import OpenAI
from peer import Peer, connect
from strict import ALLOWED, SSE, WS, faults

from responses_ref.protocol.events import SENDABLE

APPEND_ONLY = {"response.done"}  # not in the package's types: the append prototype came before them
STEERED = "every: 0.01\nsay: one two three four five six\nsay: seven eight"

# One create each; together with the steers below they make a server send all it can send.
SCRIPTS = (
    "say: Hello, reader.\nsay: On two lines.",
    "think: Let me think.\nsay: Done.",
    "think:",
    "say:",
    "refuse: That I will not say.",
    'call: look {"at":"it"}\ncall: look {}\ncustom: write some free text',
    "compact:\nsay: shorter",
    "say: half\nfail: server_error It broke.",
    "say: half\nerror: rate_limit_exceeded It broke with a warning.",
    "say: half\nincomplete: max_output_tokens",
    "incomplete: content_filter",
    "incomplete: max_messages",
    "reject: 429 slow_down Later.",
    "no script at all",
)
FIELDS: tuple[dict[str, Any], ...] = (
    {"tools": [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]},
    {"tools": [{"type": "custom", "name": "write"}], "tool_choice": {"type": "custom", "name": "write"}},
    {"text": {"format": {"type": "json_object"}, "verbosity": "low"}, "reasoning": {"effort": "low"}},
    {"metadata": {"a": "b"}, "instructions": "Be brief.", "temperature": 0.5, "max_output_tokens": 2},
    {"include": ["reasoning.encrypted_content"], "input": "think: secretly\nsay: so"},
    {"truncation": "auto", "service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "me"},
    {"generate": False},
    {"conversation": "conv_1", "store": True},
    {"model": None},
    {"previous_response_id": "resp_none"},
)


@pytest.fixture(scope="session")
def driven(server: process.Server) -> None:
    """Have one server send every type of event, over WebSocket and as server-sent events."""
    trio.run(_over_websocket, server)
    with OpenAI(api_key="sk-test", base_url=server.http, max_retries=0) as client:
        for script in (*SCRIPTS, "say: stored"):
            _over_http(client, script)


async def _over_websocket(server: process.Server) -> None:
    async with connect(server.ws) as peer:
        for stream in ({}, {"stream_id": "named"}):
            for script in SCRIPTS:
                await peer.turn(script, **stream)
            for fields in FIELDS:
                await peer.turn(**fields, **stream)
            await _steers(peer, stream)


async def _steers(peer: Peer, stream: dict[str, str]) -> None:
    """All three answers to a steer: accepted, pending and failed."""
    for script in (STEERED, 'every: 0.01\ncall: look {"at":"one two three four"}'):
        await peer.create(script, **stream)
        created = await peer.event()
        target = created["response"]["id"]
        for text in ("one more thing", "and another"):
            await peer.send({"type": "response.steer", "previous_response_id": target, "input": text})
        ended = (await peer.rest())[-1]
        calls = [item for item in ended["response"]["output"] if item["type"] == "function_call"]
        if calls:
            for _ in range(2):
                assert (await peer.event())["type"] == "response.steer.pending"
            output = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "seen"}
            await peer.create([output], previous_response_id=target, **stream)
        await peer.rest()
    await peer.send({"type": "response.steer", "previous_response_id": target, "input": "too late"})
    assert (await peer.event())["type"] == "response.steer.failed"


def _over_http(client: OpenAI, script: str) -> None:
    with suppress(openai.APIError):  # the package raises for a refusal and for a stream's error event
        for event in client.responses.create(model="scripted", input=script, stream=True):
            if event.type == "response.completed":
                client.responses.retrieve(event.response.id)
                client.responses.input_items.list(event.response.id)


# --- The judge itself. ---

GOOD = (
    '{"type":"response.refusal.done","refusal":"no","item_id":"i",'
    '"output_index":0,"content_index":0,"sequence_number":1}'
)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("", ""), None),
        (('"refusal":"no"', '"refusal":"no","mood":"bad"'), "mood: ResponseRefusalWsDone has no such field"),
        (('"refusal":"no",', ""), "refusal: Field required"),
        (('"output_index":0', '"output_index":"0"'), "output_index: Input should be a valid integer"),
    ],
)
def test_the_judge_sees_what_is_wrong(change: tuple[str, str], fault: str | None) -> None:
    found = faults(GOOD.replace(*change) if change[0] else GOOD, WS["response.refusal.done"])
    assert [line.lstrip(".") for line in found] == ([fault] if fault else [])


def test_the_judge_looks_into_the_response(server: process.Server) -> None:
    with OpenAI(api_key="sk-test", base_url=server.http) as client:
        raw = client.responses.with_raw_response.create(model="scripted", input="say: hi")
    spoilt = raw.text.replace('"annotations"', '"extra":1,"annotations"')
    assert spoilt != raw.text
    (fault,) = faults(spoilt, strict.Response)
    assert fault == ".output[0].content[0].extra: ResponseOutputText has no such field"


# --- What was sent. ---


@pytest.fixture(scope="session")
def judged(server: process.Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the whole conformance suite provoke that server; what it says of it is another test's matter."""
    features = tmp_path_factory.mktemp("suite") / "features.toml"
    features.write_text('profiles = ["core", "warm", "lanes", "steer", "http", "openresponses", "codex"]')
    suite = shutil.which("responses-conformance", path=Path(sys.executable).parent)
    assert suite is not None
    command = [suite, "run", server.ws, "--features", features, "--jobs", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1, 3), done.stderr


@pytest.fixture(scope="session")
def everything(driven: None, judged: None, servers_folder: Path) -> list[strict.Sent]:
    return list(strict.sent(servers_folder))


@pytest.mark.last
def test_every_event_of_every_test_is_of_a_type_of_the_package(everything: list[strict.Sent]) -> None:
    unknown = {one.name for one in everything if one.model is None}
    assert not unknown
    wrong = Counter(f"{one.name} {fault}" for one in everything for fault in faults(one.text, one.model))
    assert not wrong, "\n".join(f"{count} times {fault}" for fault, count in wrong.most_common(40))


@pytest.mark.last
def test_every_type_that_can_be_sent_was_sent(everything: list[strict.Sent]) -> None:
    seen = {one.name for one in everything}
    assert set(SENDABLE) - APPEND_ONLY - seen == set()
    over_http = {f"sse {name}" for name in SENDABLE if name in SSE}
    assert over_http - seen == set()


def test_the_table_of_types_is_the_package_s() -> None:
    assert set(SENDABLE) - set(WS) == APPEND_ONLY


def test_each_exception_is_still_needed() -> None:
    assert all(ALLOWED.values())
    known = set(strict.Response.model_fields)
    assert not [name for model, name in ALLOWED if model == "Response" and name in known]
