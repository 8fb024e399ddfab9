"""From events to JSON texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core_bench import Bench, call, create, message, steer, strict
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.protocol import codec
from responses_ref.protocol.batch import Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.emitter import PARTS
from responses_ref.protocol.events import SENDABLE, Deltas, Event, Template

anything = st.text(st.characters(exclude_categories=["Cs"]))  # control characters, quotes, emoji
tricky = st.text('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é😀', max_size=12)


@given(
    kind=st.sampled_from(sorted(PARTS)),
    lane=st.none() | st.from_regex(r"[A-Za-z0-9_.-]{1,9}", fullmatch=True),
    texts=st.lists(anything | tricky, min_size=1, max_size=5),
    first=st.integers(0, 10**9),
)
def test_a_delta_is_what_plain_encoding_would_give(
    kind: str, lane: str | None, texts: list[str], first: int
) -> None:
    """The template only saves work: each delta equals the plain encoding of the same event."""
    fields: dict[str, Any] = {"item_id": 'i"d', "output_index": 3, **PARTS[kind].extra}
    type_ = f"response.{PARTS[kind].event}.delta"
    encoded = codec.encode(Deltas(Template(type_, fields, lane), tuple(texts), first))
    for number, (text, got) in enumerate(zip(texts, encoded, strict=True), first):
        event = Event(type_, {**fields, "delta": text}, number, lane)
        (plain,) = codec.encode(event)
        assert strict(got.decode()) == strict(plain.decode())
        named = {} if lane is None else {"stream_id": lane}
        ordered = {"type": type_, **named, **fields, "delta": text, "sequence_number": number}
        assert got == json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def test_a_template_is_encoded_once() -> None:
    """What the deltas of a part share is encoded with the first of them, and then kept."""
    template = Template("response.output_text.delta", {"item_id": "a"})
    codec.encode(Deltas(template, ("x",), 0))
    template.fields = {"item_id": "changed"}
    assert b'"item_id":"a"' in codec.encode(Deltas(template, ("y",), 1))[0]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event("error", {"status": 400}), '{"type":"error","status":400}'),
        (Event("error", {"status": 400}, 0), '{"type":"error","sequence_number":0,"status":400}'),
        (Event("error", {"status": 400}, None, "a"), '{"type":"error","stream_id":"a","status":400}'),
        (
            Event("x", {"y": "é\u2028"}, 1, "a"),
            '{"type":"x","sequence_number":1,"stream_id":"a","y":"é\u2028"}',
        ),
    ],
)
def test_an_event(event: Event, text: str) -> None:
    """A number and a lane are there or absent, never null (RWS-SEQ-004, RWS-LAN-004)."""
    assert codec.encode(event) == [text.encode()]


def test_every_event_has_the_fields_of_its_row() -> None:
    """All types of the table are seen, each with the fields of its row and no other."""
    bench = Bench(append=True)
    bench.send(create(stream_id="a"))
    bench.say(*message("to"), *message("no", part="refusal"))
    bench.say(ItemStarted("reasoning"), Piece("s", "summary"), Piece("t", "reasoning_text"), ItemDone())
    bench.say(ItemStarted("custom_tool_call", "g"), Piece("x", "input"), ItemDone())
    bench.say(*message("sealed", part="encrypted_content", kind="compaction"))
    bench.send(steer("resp_1"))
    bench.send(steer("nobody"))
    bench.say(*call())
    bench.fail(announced=True)
    bench.send(create())
    bench.say(*call(), Finished())  # response.done, with the append prototype
    bench.send(create())
    bench.say(Finished("max_output_tokens"))
    bench.send(create(stream_id="b"))
    bench.say(*call())
    bench.send(steer("resp_4"))
    bench.append = bench.core.speaks_append = False
    bench.say(Finished(), turn=bench.turn_on("b"))
    common = {"type", "sequence_number", "stream_id"}
    for event in bench.events:
        assert event.keys() - common == set(SENDABLE[event["type"]])
    assert {event["type"] for event in bench.events} == SENDABLE.keys()


# fmt: off
REQUIRED = {
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
    "previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation",
    "parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs",
    "temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store", "background",
    "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}
# fmt: on


def test_the_response_object_has_all_its_fields() -> None:
    """Every field that Open Responses requires is there, null where it has no value (RWS-RES-004)."""
    bench = Bench()
    bench.send(create())
    bench.finish()
    first, last = bench.events[0]["response"], bench.events[-1]["response"]
    assert first.keys() == last.keys()
    assert first.keys() == REQUIRED
    assert first["usage"] is None
    assert last["usage"] == {
        "input_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 3,
    }
