"""The judge against anything at all: no trace can upset it, and it says the same however it is fed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd import ODD, places, replaced
from servers import spec, turn

from conformance import reading
from conformance.cli import main
from conformance.invariants import REGISTRY, Invariant, literal
from conformance.invariants.base import Says
from conformance.invariants.framing import NoBinary, StringType
from conformance.invariants.shapes import shapes_of
from conformance.judge import Fall, Judge, Judgement, judge
from conformance.state import Event
from conformance.trace import read

ids = st.sampled_from(["r1", "r2", "m1", "m2", "c1", "", "resp_1"])
odd = st.booleans() | st.integers(-2, 5) | st.floats() | st.text(max_size=3) | st.sampled_from(ODD)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event of a known type or none, whose fields may be missing, right, or of any type."""
    types = [*shapes_of(spec()).event_types, "response.done", "response.create", "response.steer", "x"]
    part = st.fixed_dictionaries({}, optional={"type": odd, "text": odd, "refusal": odd, "annotations": odd})
    item = st.fixed_dictionaries(
        {},
        optional={
            "id": ids | odd,
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
        "steer": st.fixed_dictionaries({}, optional={"id": odd, "previous_response_id": ids | odd}) | odd,
        "input": odd | st.lists(item, max_size=2),
        "tools": odd,
        "model": odd,
    }
    kind = st.sampled_from(types) if draw(st.integers(0, 9)) else odd
    return {"type": draw(kind), **draw(st.fixed_dictionaries({}, optional=fields))}


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    rarely = odd if not draw(st.integers(0, 19)) else st.nothing()
    base = {"t": draw(st.floats(0, 9) | rarely), "conn": draw(st.sampled_from(["a", "b"]) | rarely)}
    base["dir"] = draw(st.sampled_from(["c2s", "s2c", "s2c", "s2c"]) | rarely)
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
    assert found.falls == []
    assert all(1 <= finding.line <= len(trace) for finding in found.findings)
    assert set(found.broken) | set(found.held) <= set(spec().clauses)


GOOD = {one.good for classes in REGISTRY.values() for one in classes}


def test_no_field_of_any_type_upsets_the_judge() -> None:
    """Each field of each event in the examples of the invariants, with one odd value after another."""
    fields = {}
    for text in sorted(GOOD):
        trace = literal.records(text)
        for line, record in enumerate(trace):
            body = (
                json.loads(record["text"]) if record["kind"] == "text" and record["text"][:1] == "{" else {}
            )
            for path in places(body):
                fields.setdefault((record["dir"], body.get("type"), *path), (trace, line, body, path))
    assert len(fields) > 200
    for trace, line, body, path in fields.values():
        for new in ODD:
            text = json.dumps(replaced(body, path, new))
            found = judge(spec(), enumerate([*trace[:line], {**trace[line], "text": text}, *trace[line:]], 1))
            assert found.falls == [], (text, found.falls)


def lines_of(*texts: str) -> Judgement:
    return judge(spec(), read(texts))


PLAIN = {"conn": "a", "dir": "s2c", "kind": "text", "text": '{"type":"x:y"}'}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        *((json.dumps({**PLAIN, "t": t}), "`t` is no number") for t in ("x", "1.5", None, [], {}, True)),
        *((json.dumps({**PLAIN, "t": t}), "`t` is no number") for t in (10**400, float("nan"))),
        (json.dumps({**PLAIN, "conn": []}), "`conn` is neither a string nor a number"),
        (json.dumps({**PLAIN, "dir": []}), "`dir` is neither c2s nor s2c"),
        (json.dumps({**PLAIN, "kind": "http", "head": []}), "`head` or `body` is no text"),
        ("[" * 200_000, "nested too deeply"),
        ('{"frame":' * 200_000, "nested too deeply"),
        ("[1]", "not a JSON object"),
    ],
)
def test_a_line_that_cannot_be_read_is_reported_and_passed_over(line: str, why: str) -> None:
    found = lines_of(json.dumps(PLAIN), line, json.dumps({**PLAIN, "t": 1.5}))
    assert found.unreadable == [(2, why)]
    assert found.records == 2


def test_a_message_that_is_nested_too_deeply_is_no_message() -> None:
    def event(depth: int) -> str:
        return json.dumps(
            {**PLAIN, "text": '{"type":"response.created","x":' + "[" * depth + "]" * depth + "}"}
        )

    assert lines_of(event(reading.DEPTH - 1)).held["RWS-FRM-003"] == 1
    deep = lines_of(event(reading.DEPTH), event(900), event(100_000))
    assert (deep.records, deep.falls, deep.held["RWS-FRM-003"]) == (3, [], 0)
    wide = json.dumps({**PLAIN, "text": json.dumps({"type": "x:y", "x": [[]] * 1000})})
    assert lines_of(wide).held["RWS-FRM-003"] == 1


def falls(one: Invariant, event: Event) -> Says:
    raise KeyError("oh")


def test_what_falls_over_a_line_is_a_harness_error_of_its_clause_and_the_others_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NoBinary, "on", ("*",))
    monkeypatch.setattr(NoBinary, "see", falls)
    one = Judge(spec(), classes=[NoBinary, StringType])
    for line, record in read([json.dumps(PLAIN)] * 2):
        one.feed(line, record)
    assert [(fall.clause, fall.line) for fall in one.result.falls] == [("RWS-FRM-002", 1), ("RWS-FRM-002", 2)]
    assert one.result.held["RWS-FRM-003"] == 2
    one = Judge(spec(), classes=[StringType])
    monkeypatch.setattr("conformance.reading.parse", lambda event, text: 1 / 0)
    one.feed(7, {**PLAIN, "t": 0.0})
    assert one.result.falls == [Fall("", 7, "ZeroDivisionError: division by zero")]


@pytest.mark.parametrize("asked", [[], ["--json"]])
def test_findings_can_be_printed_whatever_is_in_them(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"type": "response.created", "response": {"id": "\ud800", "status": "\ud800\0"}}
    (tmp_path / "x").write_text(json.dumps({**PLAIN, "text": json.dumps(body)}))
    with pytest.raises(SystemExit, match="1"):
        main(["judge", str(tmp_path / "x"), *asked])
    assert r"status '\ud800" in capsys.readouterr().out.replace("\\\\", "\\")


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


@pytest.mark.parametrize("asked", [[], ["--json"]])
def test_a_fall_of_the_judge_is_told_with_its_line_and_exit_code_4(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join([json.dumps(PLAIN)] * 2))
    monkeypatch.setattr(StringType, "see", falls)
    with pytest.raises(SystemExit, match="4"):
        main(["judge", str(file), *asked])
    out = capsys.readouterr().out
    if asked:
        found = json.loads(out)["harness_errors"]
        assert found[1] == {"clause": "RWS-FRM-003", "line": 2, "what": "KeyError: 'oh'"}
    else:
        assert "line 2: harness-error of RWS-FRM-003: KeyError: 'oh'" in out
