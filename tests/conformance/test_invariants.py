"""Each invariant tells its good literal trace from its bad one, and the judge sorts events as it should."""

from __future__ import annotations

import itertools
import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from odd import ODD
from servers import turn

from conformance.demux import Demux
from conformance.invariants import REGISTRY, Invariant
from conformance.invariants.echo import EchoesItsCreate
from conformance.invariants.literal import lines, records
from conformance.judge import Judge, Judgement
from conformance.places import Place
from conformance.specdoc import Clause, Spec
from conformance.trace import Record

INVARIANTS = [one for classes in REGISTRY.values() for one in classes]


def clause(name: str, **fields: object) -> Clause:
    return Clause(
        name, "The server MUST.", "MUST", "CORE", "server", "wire", "0.1", "chosen", Place("x", 1), **fields
    )


def judge_one(one: type[Invariant], trace: str) -> Judgement:
    spec = Spec(clauses={one.clause: clause(one.clause)})
    judge = Judge(spec, classes=[one])
    for number, record in lines(trace):
        judge.feed(number, record)
    return judge.finish()


@pytest.mark.parametrize("one", INVARIANTS, ids=lambda one: f"{one.clause}-{one.__name__}")
def test_an_invariant_tells_its_good_trace_from_its_bad_one(one: type[Invariant]) -> None:
    good, bad = judge_one(one, one.good), judge_one(one, one.bad)
    assert good.held[one.clause] > 0, "the good trace is not judged at all"
    assert good.findings == []
    assert bad.broken[one.clause] > 0, "the bad trace passes"
    assert bad.findings[0].detail != "does not hold", "a fault needs words"


def resolved(text: str) -> Iterator[tuple[str | None, str | None]]:
    """(type, id of the response) of each event of the server."""
    demux = Demux()
    for number, record in lines(text):
        event = demux.event(record, number)
        if event.dir == "s2c":
            yield event.type, event.response.id if event.response else None
        demux.apply(event)


def test_an_event_belongs_to_the_response_that_it_names_else_to_its_item_else_to_its_lane() -> None:
    found = list(
        resolved("""
        > {"type":"response.create"}
        > {"type":"response.create","stream_id":"x"}
        < {"type":"response.created","response":{"id":"r1"}}
        < {"type":"response.created","response":{"id":"r2"},"stream_id":"x"}
        < {"type":"response.output_item.added","stream_id":"x","item":{"id":"m2","type":"message"}}
        < {"type":"response.output_text.delta","item_id":"m2","output_index":0,"content_index":0,"delta":"a"}
        < {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}
        < {"type":"response.completed","response":{"id":"r2"}}
        < {"type":"response.completed","response":{"id":"r1"}}
        """)
    )
    assert [name for _, name in found] == ["r1", "r2", "r2", "r2", "r1", "r2", "r1"]


def test_an_event_that_fits_to_nothing_on_its_lane_belongs_to_the_response_that_its_number_continues() -> (
    None
):
    start = """
        > {"type":"response.create","stream_id":"x"}
        < {"type":"response.created","sequence_number":0,"response":{"id":"r1"},"stream_id":"x"}
    """
    added = '< {"type":"response.output_item.added","sequence_number":1,"item":{"id":"m1","type":"message"}}'
    error = '< {"type":"error","sequence_number":1}'
    both = """
        > {"type":"response.create"}
        < {"type":"response.created","sequence_number":5,"response":{"id":"r2"}}
    """
    assert list(resolved(start + added))[-1][1] == "r1"
    assert list(resolved(start + error))[-1][1] == "r1"
    assert list(resolved(start + both + added))[-1][1] == "r2"
    assert list(resolved(start + both + error))[-1][1] == "r1"
    assert list(resolved(start + both + error.replace("1", "6")))[-1][1] == "r2"
    assert list(resolved(start + both + error.replace("1", "9")))[-1][1] == "r2"
    assert list(resolved(start + both.replace("5", "0") + error))[-1][1] == "r2"


@pytest.mark.parametrize("lane", ["a b", "", "ä", "x" * 257, 7, []])
def test_a_create_on_a_lane_that_is_none_waits_for_its_error_and_for_nothing_else(lane: object) -> None:
    bad = f'> {{"type":"response.create","stream_id":{json.dumps(lane)}}}'
    demux = Demux()
    for number, record in lines(f"""
        > {{"type":"response.create"}}
        {bad}
        < {{"type":"error","status":400}}
        < {{"type":"response.created","response":{{"id":"r1"}}}}
    """):
        demux.apply(demux.event(record, number))
    response = demux.conns["a"].lane(None).open
    assert response is not None
    assert response.request is not None
    assert response.request.line == 1


def _lanes_broken(text: str) -> set[str]:
    spec = Spec(clauses={name: clause(name) for name in ("RWS-LAN-003", "RWS-LAN-004")})
    judge = Judge(spec)
    for number, record in lines(text):
        judge.feed(number, record)
    return {finding.clause for finding in judge.finish().findings}


def test_events_of_a_response_name_the_lane_of_its_create() -> None:
    create = '> {"type":"response.create","stream_id":"x"}\n'
    created = '< {"type":"response.created","response":{"id":"r1"},"stream_id":"x"}\n'
    plain = created.replace(',"stream_id":"x"', "")
    delta = '< {"type":"response.refusal.delta","item_id":"m1","delta":"a"}\n'
    item = '< {"type":"response.output_item.added","item":{"id":"m1","type":"message"},"stream_id":"x"}\n'
    assert _lanes_broken(create + created + item + delta) == {"RWS-LAN-003"}
    assert _lanes_broken(create + created + item + delta.replace("}", ',"stream_id":"y"}')) == {"RWS-LAN-003"}
    assert _lanes_broken(create + plain + item) == {"RWS-LAN-003"}
    assert _lanes_broken('> {"type":"response.create"}\n' + create + plain) == set()
    assert _lanes_broken('> {"type":"response.create"}\n' + created + item) == {"RWS-LAN-004"}
    assert _lanes_broken(plain + delta) == set()


TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
ASKED: dict[str, Any] = {
    "previous_response_id": "r0",
    "metadata": {"a": "b"},
    "store": False,
    "instructions": "Be brief.",
    "tools": [{**TOOL, "strict": True}, {"type": "custom", "name": "g"}],
    "tool_choice": {"type": "function", "name": "f"},
}


@pytest.mark.parametrize(
    ("asked", "told", "held"),
    [
        ({}, {}, None),
        ({"metadata": None, "tools": []}, {"metadata": {"a": "b"}, "tools": None}, None),
        (ASKED, ASKED, True),
        *((ASKED, {key: value for key, value in ASKED.items() if key != name}, False) for name in ASKED),
        *((ASKED, {**ASKED, name: None}, False) for name in ASKED),
        *((ASKED, {**ASKED, name: value}, False) for name in ASKED for value in ODD),
        (ASKED, {**ASKED, "metadata": {"a": "b", "c": "d"}}, False),
        (ASKED, {**ASKED, "store": 0}, False),
        ({"instructions": [{"type": "message"}]}, {"instructions": [{"type": "message", "id": "m1"}]}, True),
        ({"tools": [TOOL]}, {"tools": [{**TOOL, "description": None, "strict": None}]}, True),
        ({"tools": [{**TOOL, "strict": True}]}, {"tools": [TOOL]}, True),  # told by RWS-RES-029
        ({"tools": [{**TOOL, "strict": True}]}, {"tools": [{**TOOL, "strict": False}]}, False),
        ({"tools": [{**TOOL, "description": None}]}, {"tools": [{**TOOL, "description": ""}]}, True),
        ({"tools": [TOOL]}, {"tools": [TOOL, TOOL]}, False),
        ({"tool_choice": "auto"}, {"tool_choice": "none"}, False),
    ],
)
def test_a_response_echoes_what_its_create_has(
    asked: dict[str, Any], told: dict[str, Any], held: bool | None
) -> None:
    create = json.dumps({"type": "response.create", **asked})
    for kind in ("created", "in_progress", "failed"):
        before = '< {"type":"response.created","response":{"id":"r1"}}\n' if kind != "created" else ""
        now = json.dumps({"type": f"response.{kind}", "response": {"id": "r1", **told}})
        found = judge_one(EchoesItsCreate, f"> {create}\n{before}< {now}")
        last = [one for one in found.findings if one.line == (3 if before else 2)]
        assert bool(last) == (held is False)
        assert bool(found.held["RWS-RES-012"]) == (held is True)


def test_only_the_create_that_a_response_answers_says_what_it_echoes() -> None:
    text = """
        > {"type":"response.create","store":false}
        < {"type":"response.created","response":{"id":"r1","store":false}}
        > {"type":"response.create","store":true}
        < {"type":"response.incomplete","response":{"id":"r1","store":false,"incomplete_details":%s}}
        < {"type":"response.created","response":{"id":"r2","previous_response_id":"r1","store":false}}
        < {"type":"response.completed","response":{"id":"r2","store":false}}
        < {"type":"response.created","response":{"id":"r3","store":true}}
    """
    assert judge_one(EchoesItsCreate, text % '{"reason":"steered"}').findings == []
    accepted = """
        > {"type":"response.create","store":false}
        < {"type":"response.created","response":{"id":"r1","store":false}}
        > {"type":"response.create","store":true}
        < {"type":"response.steer.accepted","steer":{"id":"s1","previous_response_id":"r1"}}
        < {"type":"response.completed","response":{"id":"r1","store":false}}
        < {"type":"response.created","response":{"id":"r2","previous_response_id":"r1","store":false}}
        < {"type":"response.completed","response":{"id":"r2","store":false}}
        < {"type":"response.created","response":{"id":"r3","store":%s}}
    """
    assert judge_one(EchoesItsCreate, accepted % "true").findings == []
    assert [one.line for one in judge_one(EchoesItsCreate, accepted % "false").findings] == [8]


def test_an_event_without_created_starts_a_response_only_if_a_create_is_unanswered() -> None:
    start = """
        > {"type":"response.create"}
        < {"type":"response.created","response":{"id":"r1"}}
        < {"type":"response.completed","response":{"id":"r1"}}
    """
    late = '< {"type":"response.in_progress","response":{"id":"r2"}}'
    assert list(resolved(start + late))[-1][1] == "r1"
    assert list(resolved(start + '> {"type":"response.create"}\n' + late))[-1][1] == "r2"


def test_a_refused_create_is_not_waited_for() -> None:
    text = """
        > {"type":"response.create"}
        < {"type":"error","status":400}
        > nonsense
    """.replace("> nonsense", ">text nonsense")
    more = """
        > {"type":"response.create"}
        < {"type":"error","status":400}
        < {"type":"response.created","response":{"id":"r1"}}
    """
    demux = Demux()
    for number, record in lines(text + more):
        event = demux.event(record, number)
        demux.apply(event)
    assert demux.conns["a"].lane(None).open is not None
    assert not demux.conns["a"].lane(None).pending


def test_a_streamed_answer_over_http_is_judged_like_messages() -> None:
    body = json.dumps({"type": "response.create", "stream": True})
    stream = "\n".join(
        f"<http {json.dumps({'body': 'event: x' + chr(10) + 'data: ' + json.dumps(event) + chr(10) * 2})}"
        for event in turn("r1", ["a"])
    )
    head = json.dumps({"head": "POST /v1/responses HTTP/1.1\r\n\r\n", "body": body})
    assert {name for _, name in resolved(f">http {head}\n{stream}")} == {"r1"}


def long_trace(count: int) -> Iterator[Record]:
    """``count`` records of turns with 40 deltas each."""
    yield {"kind": "meta", "trace_version": 1}
    made: Iterator[Record] = itertools.chain.from_iterable(
        [
            {
                "t": 1.0,
                "conn": "a",
                "dir": "c2s",
                "kind": "text",
                "text": '{"type":"response.create","input":"x"}',
            },
            *(
                {"t": 1.0, "conn": "a", "dir": "s2c", "kind": "text", "text": json.dumps(event)}
                for event in turn(f"resp_{number}", ["word "] * 40)
            ),
        ]
        for number in itertools.count()
    )
    yield from itertools.islice(made, count)


def test_memory_does_not_grow_with_closed_responses() -> None:
    def peak(count: int) -> int:
        spec = Spec(clauses={name: clause(name) for name in REGISTRY})
        judge = Judge(spec)
        tracemalloc.start()
        for number, record in enumerate(long_trace(count), 1):
            judge.feed(number, record)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    small, large = peak(2_000), peak(20_000)
    assert large < small * 1.5 + 200_000


def test_a_long_trace_is_judged_in_time() -> None:
    """The goal is 100,000 lines in 5 s; here a tenth of it, with room for a busy machine."""
    spec = Spec(clauses={name: clause(name) for name in REGISTRY})
    judge, trace = Judge(spec), list(enumerate(long_trace(10_000), 1))
    began = time.process_time()
    for number, record in trace:
        judge.feed(number, record)
    assert time.process_time() - began < 1.5
    assert judge.finish().held["RWS-SEQ-002"] > 9_000


def test_literal_traces_say_what_they_cannot_read() -> None:
    with pytest.raises(ValueError, match="cannot read: nonsense"):
        records("nonsense")


def test_unless_is_judged_by_connection() -> None:
    spec = Spec(clauses={"RWS-ORD-005": clause("RWS-ORD-005", unless=("APPEND",))})
    judge = Judge(spec)
    text = """
        > {"type":"response.append","input":[]}
        < {"type":"response.done","response":{"id":"r1"}}
        @b < {"type":"response.done","response":{"id":"r2"}}
    """
    for number, record in lines(text):
        judge.feed(number, record)
    assert [finding.conn for finding in judge.finish().findings] == ["b"]
