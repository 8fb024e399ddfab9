"""The runner against small servers over memory streams: each verb holds and fails where it should."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
import trio
from servers import NULL_SERVERS, Good, Memory, Serve, error, turn
from trio_websocket import ConnectionClosed, wrap_server_stream

from conformance import transcript
from conformance.runner import run_case
from conformance.session import Outcome, Patience

HEADER = "id: a-case\ncovers: RWS-ORD-001 RWS-ORD-002\n"


async def play(text: str, serve: Serve | None = None) -> Outcome:
    case = transcript.parse("test.md", 1, (HEADER + text).split("\n"))
    async with trio.open_nursery() as nursery:
        outcome = await run_case(case, Memory(nursery, serve or Good().serve))
        nursery.cancel_scope.cancel()
    return outcome


def judged(outcome: Outcome) -> list[tuple[str, bool]]:
    return [(one.clause, one.ok) for one in outcome.observations]


CREATE = '> {"type":"response.create","model":"scripted","input":"say: a b"}\n'

HOLDS = {
    "next": CREATE + '< {"type":"response.created","response":{"id":"$r"}} [RWS-ORD-001]',
    "until": CREATE + '<... until {"type":"response.completed"} [RWS-ORD-001]',
    "count": CREATE + '<... 2 {"type":"response.output_text.delta"} [RWS-ORD-001]',
    "also": CREATE + '< {"type":"response.created"}\n& {"sequence_number":0} [RWS-ORD-001]',
    "open": CREATE + "= open [RWS-ORD-001]",
    "closed": ">close 1000\n= close 1000 [RWS-ORD-001]",
    "closed without a code": ">close\n= close none [RWS-ORD-001]",
    "pong": '>frame {"op":"ping","text":"x"}\n<pong "x" [RWS-ORD-001]',
    "never": CREATE + '<... until {"type":"response.completed"}\n<! {"type":"error"} [RWS-ORD-001]',
    "never within": '<! {"type":"error"} within 3 [RWS-ORD-001]',
    "text": '>text "{"\n< {"type":"error"} [RWS-ORD-001]',
    "fragments": '>frame {"op":"text","fin":false,"text":"{"}\n>frame {"op":"cont","text":"}"}\n'
    '< {"type":"error"} [RWS-ORD-001]',
    "handshake": '>open {"headers":{"X-Other":"1"}}\n<open 101 - {"upgrade":"websocket"} [RWS-ORD-001]\n'
    + CREATE,
    "refused": '>open {"headers":{"Sec-WebSocket-Key":null}}\n<open 4xx [RWS-ORD-001]',
    "plain http": ">http GET /v1/responses\n<http 426 [RWS-ORD-001]",
    "raw": '>raw "GET / HTTP/1.1\\r\\nHost: ${host}\\r\\n\\r\\n"\n<open 426 [RWS-ORD-001]',
    "either": CREATE + 'either [RWS-ORD-001]\n< {"type":"error"}\nor\n< {"type":"response.created"}\n'
    '<... until {"type":"response.completed"}\nend\n= open',
    "two connections": CREATE + '@b > {"type":"response.create","model":"scripted","input":"say: c"}\n'
    '@b <... until {"type":"response.completed"} [RWS-ORD-001]\n'
    '<... until {"type":"response.completed"} [RWS-ORD-002]',
    "repeat": 'repeat 3\n> {"type":"response.create","model":"scripted","input":"say: w${i}"}\n'
    '<... until {"type":"response.output_text.done","text":"w${i}"}\n'
    '<... until {"type":"response.completed","response":{"id":"$r"}} [RWS-ORD-001]\nend',
    "lanes": '> {"type":"response.create","model":"scripted","input":"say: a","stream_id":"x"}\n'
    '> {"type":"response.create","model":"scripted","input":"say: b"}\n'
    '< {"type":"response.created","stream_id":"<absent>"} [RWS-ORD-001]\n'
    '<... until {"type":"response.completed","stream_id":"x"} [RWS-ORD-002]',
}

FAILS = {
    "next": CREATE + '< {"type":"response.in_progress"} [RWS-ORD-001]',
    "until": CREATE + '<... until {"type":"response.failed"} [RWS-ORD-001]',
    "count": CREATE + '<... 3 {"type":"response.output_text.delta"} [RWS-ORD-001]',
    "also": CREATE
    + '< {"type":"response.created"}\n& {"sequence_number":1} [RWS-ORD-001]\n= open [RWS-ORD-002]',
    "open": ">close\n= close none\n= open [RWS-ORD-001]",
    "close code": ">close 1000\n= close 1001 [RWS-ORD-001]",
    "still open": "= close any [RWS-ORD-001]",
    "pong": '>frame {"op":"ping","text":"x"}\n<pong "y" [RWS-ORD-001]',
    "never": CREATE + '<! {"type":"response.completed"} [RWS-ORD-001]\n= open [RWS-ORD-002]',
    "never within": CREATE + '<! {"type":"response.completed"} within 3 [RWS-ORD-001]',
    "handshake": ">open {}\n<open 401 [RWS-ORD-001]",
    "either": CREATE + 'either [RWS-ORD-001]\n< {"type":"error"}\nor\n= close 1000\nend',
}


@pytest.mark.parametrize("name", HOLDS)
async def test_holds(name: str, autojump_clock: trio.abc.Clock) -> None:
    outcome = await play(HOLDS[name])
    assert outcome.broken is None
    assert judged(outcome)
    assert all(one.ok for one in outcome.observations)


@pytest.mark.parametrize("name", FAILS)
async def test_fails(name: str, autojump_clock: trio.abc.Clock) -> None:
    outcome = await play(FAILS[name])
    assert judged(outcome)[0] == ("RWS-ORD-001", False)
    assert ("RWS-ORD-002", False) not in judged(outcome)
    if "RWS-ORD-002" in FAILS[name]:
        assert ("RWS-ORD-002", True) in judged(outcome)
        assert outcome.broken is None


async def test_an_untagged_line_that_does_not_hold_breaks_the_case_off(
    autojump_clock: trio.abc.Clock,
) -> None:
    outcome = await play(CREATE + '< {"type":"error"}\n= open [RWS-ORD-001]')
    assert judged(outcome) == []
    assert outcome.broken is not None
    assert 'expected "error", got "response.created"' in outcome.broken
    assert outcome.broken_line == 4


async def test_a_name_that_was_not_bound_because_a_line_did_not_hold_is_no_fault_of_ours(
    autojump_clock: trio.abc.Clock,
) -> None:
    outcome = await play(
        CREATE + '< {"type":"response.created"}\n& {"nothing":"$x"} [RWS-ORD-001]\n'
        '> {"type":"response.create","model":"scripted","input":"$x"}\n= open [RWS-ORD-002]'
    )
    assert outcome.harness_error is None
    assert outcome.broken == "line 6: the name $x is not bound, since line 5 did not hold"
    assert judged(outcome) == [("RWS-ORD-001", False)]


async def test_a_number_that_is_none_compares_with_nothing(autojump_clock: trio.abc.Clock) -> None:
    good = Good(change=lambda events: [{**one, "sequence_number": "0"} for one in events])
    outcome = await play(
        CREATE + '< {"sequence_number":"$n"}\n< {"sequence_number":"<eq:$n+1>"} [RWS-ORD-001]', good.serve
    )
    assert (judged(outcome), outcome.harness_error) == ([("RWS-ORD-001", False)], None)


async def test_a_deadline_is_the_case_s_own_and_shrinks_with_patience(autojump_clock: trio.abc.Clock) -> None:
    case = transcript.parse("test.md", 1, f"{HEADER}deadline: 20\n= close any [RWS-ORD-001]".split("\n"))
    patience, waited = Patience(), []
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            outcome = await run_case(case, Memory(nursery, Good().serve), patience)
            nursery.cancel_scope.cancel()
        waited.append(outcome.observations[0].detail.rpartition(" after ")[2])
    assert waited == ["20 s", "10 s"]


async def test_a_repeated_sign_of_life_is_skipped(autojump_clock: trio.abc.Clock) -> None:
    good = Good(change=lambda events: [*events[:2], events[1], *events[2:]])
    outcome = await play(
        CREATE + '< {"type":"response.created"}\n< {"type":"response.in_progress"}\n'
        '< {"type":"response.output_item.added"} [RWS-ORD-001]',
        good.serve,
    )
    assert judged(outcome) == [("RWS-ORD-001", True)]


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ('{"type":"response.created"}', True),
        ('{"type":"<in:response.created,error>"}', True),
        ('{"type":"slug:limits","left":5}', True),
        ('{"type":"<str>","left":5}', True),
        ('{"left":5}', True),
        ('{"type":"error"}', False),
    ],
)
async def test_an_extension_s_event_is_skipped_unless_it_is_meant(
    pattern: str, holds: bool, autojump_clock: trio.abc.Clock
) -> None:
    good = Good(change=lambda events: [{"type": "slug:limits", "left": 5}, *events])
    assert judged(await play(CREATE + f"< {pattern} [RWS-ORD-001]", good.serve)) == [("RWS-ORD-001", holds)]


async def test_what_comes_after_the_last_line_is_in_the_trace(autojump_clock: trio.abc.Clock) -> None:
    good = Good(change=lambda events: [*events, {"type": "straggler"}])
    outcome = await play(CREATE + '<... until {"type":"response.completed"}', good.serve)
    assert "straggler" in [record for record in outcome.records if record["kind"] == "text"][-1]["text"]
    closed = [record for record in outcome.records if record["kind"] == "close" and record["dir"] == "s2c"]
    assert [(record["code"], record["by"]) for record in closed] == [(1000, "client")]


async def test_an_error_before_the_barrier_is_found(autojump_clock: trio.abc.Clock) -> None:
    good = Good(change=lambda events: [error("late"), *events])
    outcome = await play('<! {"error":{"code":"late"}} [RWS-ORD-001]', good.serve)
    assert judged(outcome) == [("RWS-ORD-001", False)]


@pytest.mark.parametrize("name", NULL_SERVERS)
async def test_a_server_that_is_worth_nothing_ends_a_case_in_time(
    name: str, autojump_clock: trio.abc.Clock
) -> None:
    began = trio.current_time()
    outcome = await play(
        CREATE + '<... until {"type":"response.completed"} [RWS-ORD-001]\n= open', NULL_SERVERS[name]
    )
    assert outcome.harness_error is None
    assert outcome.broken is not None
    assert all(not one.ok for one in outcome.observations)
    assert trio.current_time() - began < 12


async def test_a_server_ten_times_slower_holds(autojump_clock: trio.abc.Clock) -> None:
    outcome = await play(HOLDS["until"], Good(delay=0.3).serve)
    assert judged(outcome) == [("RWS-ORD-001", True)]
    assert not math.isclose(outcome.seconds, 0)


async def test_a_server_made_with_a_library_understands_us_and_we_it(autojump_clock: trio.abc.Clock) -> None:
    """Our frames and our handshake are our own; trio-websocket is the second opinion."""

    async def serve(stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            socket = await request.accept()
            with suppress(ConnectionClosed):
                while message := json.loads(await socket.get_message()):
                    for event in turn("resp_1", [message["input"]]):
                        await socket.send_message(json.dumps(event))
            nursery.cancel_scope.cancel()

    long = '{"type":"response.create","model":"scripted","input":{"$repeat":["é",70000]}}'
    outcome = await play(
        f'{CREATE}<... until {{"type":"response.completed"}} [RWS-ORD-001]\n= open\n> {long}\n'
        '<... until {"type":"response.output_text.done","text":"<len:70000>"} [RWS-ORD-002]\n'
        ">close 4001\n= close 4001",
        serve,
    )
    assert outcome.broken is None
    assert judged(outcome) == [("RWS-ORD-001", True), ("RWS-ORD-002", True)]
