"""The judge against anything at all: no trace can upset it, and it says the same however it is fed."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import turn

from conformance.invariants.shapes import shapes_of
from conformance.judge import Judge, judge
from conformance.specdoc import Spec, load
from conformance.trace import read


@cache
def spec() -> Spec:
    return load()


ids = st.sampled_from(["r1", "r2", "m1", "m2", "c1", "", "resp_1"])
odd = st.none() | st.booleans() | st.integers(-2, 5) | st.text(max_size=3) | ids | st.just([]) | st.just({})


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event of a known type or none, whose fields may be missing, right, or of any type."""
    types = [*shapes_of(spec()).event_types, "response.done", "response.create", "response.steer", "x"]
    part = st.fixed_dictionaries({}, optional={"type": odd, "text": odd, "refusal": odd, "annotations": odd})
    item = st.fixed_dictionaries(
        {},
        optional={
            "id": ids,
            "type": st.sampled_from(["message", "function_call", "custom_tool_call", "reasoning", "y"]) | odd,
            "status": st.sampled_from(["completed", "incomplete", "in_progress"]) | odd,
            "content": st.lists(part, max_size=2) | odd,
            "summary": st.lists(part, max_size=2) | odd,
            "arguments": odd,
            "call_id": odd,
        },
    )
    usage = st.fixed_dictionaries(
        {}, optional={"input_tokens": odd, "output_tokens": odd, "total_tokens": odd}
    )
    response = st.fixed_dictionaries(
        {},
        optional={
            "id": ids | odd,
            "status": odd,
            "output": st.lists(item | odd, max_size=2) | odd,
            "usage": usage | odd,
            "error": st.fixed_dictionaries({}, optional={"code": odd, "message": odd}) | odd,
            "incomplete_details": st.fixed_dictionaries({}, optional={"reason": odd}) | odd,
            "tools": odd,
            "metadata": odd,
            "previous_response_id": odd,
        },
    )
    fields: dict[str, st.SearchStrategy[Any]] = {
        "sequence_number": st.integers(0, 5) | odd,
        "stream_id": st.sampled_from(["a", "b"]) | odd,
        "response": response | odd,
        "item": item | odd,
        "part": part | odd,
        "item_id": ids | odd,
        "output_index": st.integers(0, 2) | odd,
        "content_index": st.integers(0, 2) | odd,
        "summary_index": st.integers(0, 2) | odd,
        "delta": odd,
        "text": odd,
        "arguments": odd,
        "logprobs": odd,
        "error": st.fixed_dictionaries({}, optional={"type": odd, "code": odd, "message": odd}) | odd,
        "status": odd,
        "steer": st.fixed_dictionaries({}, optional={"id": odd, "previous_response_id": ids}) | odd,
        "input": odd | st.lists(item, max_size=2),
        "tools": odd,
        "model": odd,
    }
    return {"type": draw(st.sampled_from(types)), **draw(st.fixed_dictionaries({}, optional=fields))}


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    base = {"t": draw(st.floats(0, 9)), "conn": draw(st.sampled_from(["a", "b"]))}
    base["dir"] = draw(st.sampled_from(["c2s", "s2c", "s2c", "s2c"]))
    kind = draw(st.sampled_from(["text"] * 8 + ["close", "eof", "http", "binary", "ping", "note", "junk"]))
    if kind == "text":
        body = draw(events())
        text = draw(st.sampled_from([json.dumps(body)] * 6 + ["[DONE]", "[1]", '"x"', "{", "", "NaN"]))
        return {**base, "kind": "text", "text": text}
    if kind == "http":
        body = draw(events())
        bodies = ["", f"event: x\ndata: {json.dumps(body)}\n\n", "data: [DONE]\n\n", json.dumps(body)]
        heads = [{}, {"head": "POST /v1/responses HTTP/1.1\r\n\r\n"}, {"head": "HTTP/1.1 200 OK\r\n\r\n"}]
        return {**base, "kind": "http", "body": draw(st.sampled_from(bodies)), **draw(st.sampled_from(heads))}
    return {
        **base,
        "kind": kind,
        **draw(st.fixed_dictionaries({}, optional={"code": odd, "reason": odd, "base64": odd})),
    }


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(records(), max_size=25))
def test_no_trace_can_upset_the_judge(trace: list[dict[str, Any]]) -> None:
    found = judge(spec(), read(json.dumps(one) for one in trace))
    assert all(1 <= finding.line <= len(trace) for finding in found.findings)
    assert set(found.broken) | set(found.held) <= set(spec().clauses)


def _turn_on(conn: str, response: str) -> list[dict[str, Any]]:
    create = {"type": "response.create", "input": "x"}
    events = turn(response, ["x", "y"])
    return [
        {"conn": conn, "dir": "c2s", "frame": create},
        *({"conn": conn, "dir": "s2c", "frame": event} for event in events),
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_connections_do_not_disturb_each_other(names: list[str], random: Any) -> None:
    """Turns on several connections, shuffled into each other, are judged like one after another."""
    queues = [_turn_on(f"{name}{place}", f"resp_{place}") for place, name in enumerate(names)]
    alone = [record for queue in queues for record in queue]
    mixed = []
    while queues:
        queue = random.choice(queues)
        mixed.append(queue.pop(0))
        queues = [one for one in queues if one]
    one, other = (judge(spec(), read(json.dumps(record) for record in trace)) for trace in (alone, mixed))
    assert (one.held, one.broken) == (other.held, other.broken)


def test_a_recording_says_which_profiles_count() -> None:
    def profiles(*meta: dict[str, Any]) -> frozenset[str]:
        one = Judge(spec())
        for line, record in read(json.dumps(record) for record in meta):
            one.feed(line, record)
        return one.finish().profiles

    assert profiles() == {"CORE"}
    assert profiles({"kind": "meta", "profiles": ["lanes"]}) == {"CORE", "LANES"}
    assert profiles({"kind": "meta", "profiles": "lanes"}) == {"CORE"}
