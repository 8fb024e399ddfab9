"""What the context of a turn is made of: references, repetitions, and calls with their outputs."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from core_bench import Bench, Event, call, create, message, output

from responses_ref.protocol import codec
from responses_ref.protocol.batch import BatchPart, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.context import Context
from responses_ref.protocol.items import Message

CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "id": "fc_1"}
CUSTOM = {"type": "custom_tool_call", "call_id": "call_1", "name": "f", "input": "", "id": "ctc_1"}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and"}]}
SAID = {"type": "message", "role": "assistant", "content": [], "id": "msg_1", "status": "completed"}
THOUGHT = {"type": "reasoning", "summary": [], "id": "rs_1"}
ONE, TWO = output("call_1"), output("call_2")
OURS = output("call_1", kind="custom_tool_call_output")

NEW = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "new", "annotations": [], "logprobs": []}],
}

CUSTOM_CALL = message("x", part="input", kind="custom_tool_call")
REASONING: list[BatchPart] = [ItemStarted("reasoning"), ItemDone()]

FOUND = "error tool_call_not_found @input"
MISSING = "error tool_output_missing @input"
CONFLICT = "error tool_output_conflict @input"


def _named(item_id: str) -> Event:
    return {"type": "item_reference", "id": item_id}


# (doc, what the model said before, the input that follows, what of it is new; or the error)
AFTER: list[tuple[str, list[BatchPart], list[Event], list[Event] | str]] = [
    ("nothing is due, nothing comes", message("hi"), [], []),
    ("a user message", message("hi"), [USER], [USER]),
    ("the output that is due", call(), [ONE], [ONE]),
    ("an output and a message", call(), [ONE, USER], [ONE, USER]),
    ("a message and an output", call(), [USER, ONE], [USER, ONE]),
    ("both outputs, in another order", [*call(), *call()], [TWO, ONE], [TWO, ONE]),
    ("one of two", [*call(), *call()], [TWO], MISSING),
    ("none", call(), [USER], MISSING),
    ("nothing at all", call(), [], MISSING),
    ("an output of nothing", message("hi"), [ONE], FOUND),
    ("an output of the other kind", call(), [OURS], FOUND),
    ("a custom output", CUSTOM_CALL, [OURS], [OURS]),
    ("a custom call without", CUSTOM_CALL, [USER], MISSING),
    ("the same output again", call(), [ONE, ONE], [ONE]),
    ("another output again", call(), [ONE, output("call_1", "else")], CONFLICT),
    ("another kind of output again", call(), [ONE, OURS], FOUND),
    ("the model's call again", call(), [CALL, ONE], [ONE]),
    ("the model's custom call again", CUSTOM_CALL, [CUSTOM, OURS], [OURS]),
    ("the model's call after its output", call(), [ONE, CALL], [ONE]),
    ("the model's reasoning again", REASONING, [THOUGHT, USER], [USER]),
    ("the model's message again", message("hi"), [SAID, USER], [USER]),
    ("a message of the assistant's that is not known", message("hi"), [SAID | {"id": "msg_9"}],
     [SAID | {"id": "msg_9"}]),
    ("the model's message again, without its id", message("hi"),
     [{"role": "assistant", "content": "hi"}, USER], [USER]),
    ("the model's reasoning again, without its id", REASONING, [{"type": "reasoning"}, USER], [USER]),
    ("other words of the assistant's", message("hi"), [NEW], [NEW]),
    ("reasoning that is not known", REASONING, [THOUGHT | {"id": "rs_9"}], [THOUGHT | {"id": "rs_9"}]),
    ("a user message with a known id", message("hi"), [USER | {"id": "msg_1"}],
     [USER | {"id": "msg_1"}]),
    ("a reference into the context", message("hi"), [_named("msg_1"), USER], [USER]),
    ("a reference to its call", call(), [_named("fc_1"), ONE], [ONE]),
    ("a reference to nothing", message("hi"), [_named("msg_9")], "error item_not_found @input"),
    ("a call of the client's own", message("hi"), [CALL, ONE], [CALL, ONE]),
    ("a call of the client's own without output", message("hi"), [CALL], MISSING),
    ("an output before its call", message("hi"), [ONE, CALL], FOUND),
]  # fmt: skip


def _new_items(bench: Bench) -> list[Event]:
    prepared = bench.playing[0].prepared
    assert prepared is not None
    return [codec.wire(item) for item in prepared.items]


@pytest.mark.parametrize(("said", "given", "new"), [row[1:] for row in AFTER], ids=[row[0] for row in AFTER])
def test_a_continuation(said: list[BatchPart], given: list[Event], new: list[Event] | str) -> None:
    """Calls and outputs are paired, and what the context holds already is dropped (RWS-FC-009 to -023)."""
    bench = Bench()
    bench.send(create())
    bench.say(*said, Finished())
    events = bench.send(create(given, previous_response_id="resp_1"))
    if isinstance(new, str):
        assert events == [new]
    else:
        assert events == ["created", "in_progress"]
        assert _new_items(bench) == new


def test_messages_of_the_two_pairing_errors() -> None:
    """The texts are those seen in the wild (RWS-FC-010, RWS-FC-012)."""
    texts = []
    for given in (
        [output("X")],
        [OURS | {"call_id": "X"}],
        [CALL | {"call_id": "X"}],
        [CUSTOM | {"call_id": "X"}],
    ):
        bench = Bench()
        bench.send(create(given))
        texts.append(bench.events[0]["error"]["message"])
    assert texts == [
        "No tool call found for function call output with call_id X.",
        "No tool call found for custom tool call output with call_id X.",
        "No tool output found for function call X.",
        "No tool output found for custom tool call X.",
    ]


def test_a_whole_history_without_a_parent() -> None:
    """A client that keeps the history itself sends all of it, calls and outputs in order."""
    bench = Bench()
    given = [USER, THOUGHT, CALL, ONE, SAID, CALL | {"call_id": "call_2"}, TWO]
    assert bench.send(create(given)) == ["created", "in_progress"]
    assert _new_items(bench) == given


def test_an_answered_call_stays_answered() -> None:
    """Turns later, an equal output is dropped, another one is a conflict, and the call is no new call."""
    for given, expected in (
        ([ONE, USER], [USER]),
        ([CALL, USER], [USER]),
        ([output("call_1", "x")], CONFLICT),
    ):
        bench = Bench()
        bench.send(create())
        bench.say(*call(), Finished())
        for number in (1, 2):
            bench.send(create([ONE] if number == 1 else [USER], previous_response_id=f"resp_{number}"))
            bench.finish()
        events = bench.send(create(given, previous_response_id="resp_3"))
        assert events == [expected] if isinstance(expected, str) else _new_items(bench) == expected


def test_references_resolve_on_the_connection_and_in_the_store() -> None:
    """A reference becomes the item that a context of this connection or the store holds (RWS-ITM-025)."""
    bench = Bench(items={"msg_s": Message("assistant", (), "msg_s")})
    bench.send(create([USER | {"id": "mine"}], stream_id="a"))
    bench.finish("said")
    references = [_named(name) for name in ("mine", "msg_1", "msg_s")]
    assert bench.send(create(references)) == ["created", "in_progress"]
    assert [item["id"] for item in _new_items(bench)] == ["mine", "msg_1", "msg_s"]
    bench.finish()
    bench.send(create([*references, _named("none")]))
    assert bench.events[-1]["error"]["message"] == "Item with id 'none' not found."


def test_a_reference_is_gone_with_its_context() -> None:
    """What no context holds any more can no longer be named."""
    bench = Bench()
    bench.send(create())
    bench.finish("said")
    bench.send(create("other"))
    bench.finish("more")
    assert bench.send(create([_named("msg_1")])) == ["error item_not_found @input"]


def test_calls_in_another_turn_of_the_same_id() -> None:
    """A client that uses a call id twice in one request has made one call (FC-019 binds only the server)."""
    context = Context(None, lambda _: None)
    for raw in (CALL, CALL | {"name": "g"}, ONE):
        context.add(codec.item(raw, 0))
    context.close()
    assert [codec.wire(item) for item in context.items] == [CALL, ONE]


def test_an_unfinished_call_is_no_call() -> None:
    """A failed response may be continued: what it had not finished is not in its context (RWS-CTX-006)."""
    bench = Bench()
    bench.send(create())
    bench.say(*message("done"), ItemStarted("function_call", "f"), Piece("{", "arguments"))
    bench.fail()
    assert bench.send(create([USER], previous_response_id="resp_1")) == ["created", "in_progress"]
    node = bench.playing[0].parent
    assert node is not None
    assert [item.id for item in node.output] == ["msg_1"]


def test_nodes_do_not_change() -> None:
    """A context once made stays as it is: nobody who shares it can be disturbed."""
    bench = Bench()
    bench.send(create())
    bench.finish()
    node = bench.core.cache.get("resp_1")
    assert node is not None
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        node.output = ()  # type: ignore[misc]


def test_the_context_is_in_order() -> None:
    """Back from a node lie its input and output, then its parent's (RWS-CTX-001, RWS-CTX-002)."""
    bench = Bench()
    for number, word in enumerate(("one", "two", "three")):
        bench.send(create(word, previous_response_id=f"resp_{number}" if number else None))
        bench.finish(word.upper())
    node: Any = bench.core.cache.get("resp_3")
    said = [[item.content[0].text for item in step.items] for step in node.back()]
    assert said == [["three", "THREE"], ["two", "TWO"], ["one", "ONE"]]
