"""The reference as an oracle: JSON lines in, JSON lines out, in virtual time."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from core_bench import brief, check_story, strict

from responses_ref.oracle import Oracle, answers
from responses_ref.protocol.settings import Settings

Line = dict[str, Any]


def ask(oracle: Oracle, *lines: Line | str) -> list[Line]:
    """What comes out for these lines."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return [strict(out) for out in answers(oracle, texts)]


def receive(value: Any, conn: str = "a") -> Line:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"do": "receive", "conn": conn, "text": text}


def create(said: Any, **fields: Any) -> Line:
    sent = {"type": "response.create", "model": "scripted", "store": False, "input": said, **fields}
    return receive(sent)


def sent(lines: Iterable[Line]) -> list[Line]:
    """The events among what came out."""
    return [strict(line["text"]) for line in lines if line["out"] == "send"]


def told(lines: Iterable[Line]) -> str:
    return " ".join(brief(event) for event in sent(lines))


@pytest.fixture
def oracle() -> Oracle:
    """With one connection ``a`` open."""
    fresh = Oracle(7)
    ask(fresh, {"do": "open", "conn": "a"})
    return fresh


OPEN = {"do": "open", "conn": "a"}
SAID = "created in_progress +message (output_text 'hi' ='hi' )output_text -message completed"


def test_a_turn(oracle: Oracle) -> None:
    """All of an instant model's answer comes at once, and then the next deadline."""
    out = ask(oracle, create("say: hi"))
    assert told(out) == SAID
    assert [line["out"] for line in out].count("deadline") == 1
    assert out[-1] == {"out": "deadline", "at": 3600.0}


def test_time_passes_when_it_is_told_to(oracle: Oracle) -> None:
    """A pause ends when time has been advanced so far, not before."""
    out = ask(oracle, create("say: a\npause: 2.5\nsay: b"))
    assert out[-1]["at"] == 2.5
    assert told(ask(oracle, {"do": "advance", "to": 2.4})) == ""
    out = ask(oracle, {"do": "advance", "to": 2.5})
    assert told(out).endswith("completed")
    assert sent(out)[0]["item"]["type"] == "message"


def test_a_heartbeat_and_the_limit(oracle: Oracle) -> None:
    """Deadlines come in their order, however far time is advanced at once."""
    ask(oracle, create("pause: 500\nsay: late"))
    out = ask(oracle, {"do": "advance", "to": 10_000})
    assert told(out) == (
        "in_progress in_progress +message (output_text 'late' ='late' )output_text -message completed"
        " error websocket_connection_limit_reached"
    )
    assert [line for line in out if line["out"] == "close"] == [
        {"out": "close", "conn": "a", "code": 1001, "reason": "connection limit"}
    ]
    assert out[-1] == {"out": "deadline", "at": None}


def test_a_binary_message(oracle: Oracle) -> None:
    """Bytes come as base64."""
    bytes_ = base64.b64encode(b"{}").decode()
    assert told(ask(oracle, {"do": "receive", "conn": "a", "base64": bytes_})) == "error invalid_event"


def test_a_store_for_all_connections(oracle: Oracle) -> None:
    """A stored response is continued on another connection, with its context and its items."""
    (first,) = [
        event
        for event in sent(ask(oracle, create("say: a", store=True)))
        if event["type"].endswith("completed")
    ]
    ask(oracle, {"do": "open", "conn": "b"})
    response = first["response"]
    on_b = json.loads(create("say: b", previous_response_id=response["id"])["text"])
    assert told(ask(oracle, receive(on_b, "b"))).startswith("created")
    by_name = {"type": "item_reference", "id": response["output"][0]["id"]}
    on_b = json.loads(create([by_name, {"role": "user", "content": "say: c"}])["text"])
    assert told(ask(oracle, receive(on_b, "b"))).startswith("created")


def test_a_steered_response(oracle: Oracle) -> None:
    """The model is stopped, and what it would have said is never said."""
    out = ask(oracle, create("say: a\npause: 9\nsay: never"))
    (response,) = {event["response"]["id"] for event in sent(out) if "response" in event}
    steer = {"type": "response.steer", "previous_response_id": response, "input": "say: b"}
    out = ask(oracle, receive(steer), {"do": "advance", "to": 20})
    assert "steered" in told(out)
    assert "never" not in told(out)
    assert told(out).endswith("'b' ='b' )output_text -message completed")


def test_a_refused_turn_and_a_tool_loop(oracle: Oracle) -> None:
    """What the pipeline refuses is an error; calls are answered and the script goes on."""
    assert (
        told(ask(oracle, create([{"type": "item_reference", "id": "none"}]))) == "error item_not_found @input"
    )
    out = sent(ask(oracle, create('call: f {"a":1}\nsay: done')))
    response = out[-1]["response"]
    outputs = [{"type": "function_call_output", "call_id": response["output"][0]["call_id"], "output": "1"}]
    out = ask(oracle, create(outputs, previous_response_id=response["id"]))
    assert "'done'" in told(out)


def test_a_peer_that_leaves(oracle: Oracle) -> None:
    """Nothing comes after that, and nothing will."""
    ask(oracle, create("pause: 5\nsay: a"))
    nothing = [{"out": "deadline", "at": None}]
    assert ask(oracle, {"do": "peer_closed", "conn": "a"}) == nothing
    assert ask(oracle, create("say: b")) == nothing
    assert ask(oracle, {"do": "advance", "to": 9_000}) == nothing
    assert told(ask(oracle, OPEN, create("say: hi"))) == SAID


def test_the_same_seed_gives_the_same_lines() -> None:
    """Byte for byte; and another seed other ids."""
    lines = [OPEN, create("tokens: 20"), create("say: x", stream_id="b"), {"do": "advance", "to": 5000}]
    first, second, other = (list(answers(Oracle(seed), map(json.dumps, lines))) for seed in (1, 1, 2))
    assert first == second
    assert first != other
    lane_b = [event for event in sent(map(json.loads, first)) if event.get("stream_id") == "b"]
    check_story(lane_b)


def test_references_are_asked_for_in_their_order(oracle: Oracle) -> None:
    """Else the lines would differ from one process to the next."""
    names = [f"msg_{number}" for number in (5, 3, 9, 3, 1, 7)]
    event = {"type": "response.create", "model": "m", "input": [reference(name) for name in names]}
    oracle.step({"do": "open", "conn": "b", "inner": True})
    out = oracle.step({"do": "receive", "conn": "b", "text": json.dumps(event)})
    assert f'"items": {json.dumps(list(dict.fromkeys(names)))}' in json.dumps(out)


def reference(name: str) -> dict[str, str]:
    return {"type": "item_reference", "id": name}


def test_settings_are_obeyed() -> None:
    """Other bounds than the default ones, for ports that want to test them."""
    oracle = Oracle(settings=Settings(lifetime=2, grace=1))
    ask(oracle, OPEN)
    out = ask(oracle, create("pause: 60\nsay: a"), {"do": "advance", "to": 3})
    assert told(out) == "created in_progress failed server_error error websocket_connection_limit_reached"


# Lines that are none of the oracle's: each gives one error line, and changes nothing.
BAD = [
    "",
    "{",
    "[]",
    "5",
    '{"do":"open"}',
    '{"do":"open","conn":5}',
    '{"conn":"a"}',
    '{"do":"fly","conn":"a"}',
    '{"do":["open"],"conn":"a"}',
    '{"do":"receive","conn":"a"}',
    '{"do":"receive","conn":"a","text":5}',
    '{"do":"receive","conn":"a","text":null}',
    '{"do":"receive","conn":"a","base64":5}',
    '{"do":"receive","conn":"a","base64":"?"}',
    '{"do":"receive","conn":"none","text":"{}"}',
    '{"do":"receive","conn":["a"],"text":"{}"}',
    '{"do":"advance"}',
    '{"do":"advance","to":"5"}',
    '{"do":"advance","to":"inf"}',
    '{"do":"advance","to":true}',
    '{"do":"advance","to":false}',
    '{"do":"advance","to":null}',
    '{"do":"advance","to":1e999}',
    '{"do":"advance","to":1' + "0" * 400 + "}",
    '{"do":"peer_closed","conn":"none"}',
    '{"do":"peer_closed","conn":5}',
    '{"do":"open","conn":"a"}',
]


@pytest.mark.parametrize("line", BAD)
def test_a_line_that_is_no_input(oracle: Oracle, line: str) -> None:
    """It is answered by one error line in plain words, and the next line works as if it had not been."""
    out = ask(oracle, line)
    if line.strip():
        (error,) = out
        assert error["out"] == "error"
        assert error["message"].startswith("not an input of the oracle: ")
        assert line[:40] in error["message"]
    else:
        assert out == []
    assert told(ask(oracle, create("say: hi"))) == SAID


def test_time_does_not_run_back(oracle: Oracle) -> None:
    """Advancing to a time that has been is no step at all."""
    ask(oracle, {"do": "advance", "to": 10})
    ask(oracle, {"do": "advance", "to": 5})
    assert ask(oracle, create("pause: 1\nsay: a"))[-1]["at"] == 11


def test_a_fault_of_ours_is_not_taken_for_the_callers(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception inside the core is loud: it is not answered as a wrong line."""

    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("a step that is not in its table")

    monkeypatch.setattr("responses_ref.protocol.connection.codec.create", broken)
    with pytest.raises(KeyError):
        ask(oracle, create("say: hi"))


def test_as_a_process() -> None:
    """``responses-ref oracle`` answers line by line until its input ends."""
    command = [sys.executable, "-c", "from responses_ref.oracle import run; raise SystemExit(run(3))"]
    given = "\n".join(json.dumps(line) for line in (OPEN, create("say: hi"))) + "\n\n{\n"
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=60, check=True, env={**os.environ}
    )
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert told(out[1:-1]) == SAID
    assert [line["out"] for line in out].count("deadline") == 2
    assert out[-1]["out"] == "error"
    assert done.stderr == ""
