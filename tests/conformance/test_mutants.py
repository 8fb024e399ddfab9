"""The tools of the mutants: what passes through the man in the middle, and the mutants by machine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
import trio
from servers import Good, Memory, accept, each_frame
from trio.testing import memory_stream_pair

from conformance import raw, transcript
from conformance.invariants.shapes import shapes_of
from conformance.mutants import harness, machine
from conformance.mutants.middle import Answer, Delay, Drop, Head, Middle, MiddleStream, Out
from conformance.runner import run_case
from conformance.session import Outcome
from conformance.specdoc import load

CREATE = '> {"type":"response.create","model":"scripted","input":"say: a b"}\n'


async def through(middle: Middle, text: str) -> Outcome:
    """A transcript against the small server, with a man in the middle."""
    head = "id: a-case\ncovers: RWS-ORD-001\n"
    case = transcript.parse("x.md", 1, (head + text).split("\n"))

    async def serve(stream: trio.abc.Stream) -> None:
        await Good().serve(MiddleStream(stream, middle))

    async with trio.open_nursery() as nursery:
        outcome = await run_case(case, Memory(nursery, serve))
        nursery.cancel_scope.cancel()
    return outcome


async def test_a_middle_that_does_nothing_changes_nothing(autojump_clock: trio.abc.Clock) -> None:
    text = (
        CREATE + '<... until {"type":"response.completed"} [RWS-ORD-001]\n>frame {"op":"ping","text":"x"}\n'
    )
    outcome = await through(Middle(), text + '<pong "x"\n>close 1000\n= close 1000')
    assert outcome.broken is None


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ([{"type": "other"}], '< {"type":"other"}'),
        (["no json"], '< "no json"'),
        ([raw.frame(raw.BINARY, b"x", masked=False)], '< {"$binary":"78"}'),
        ([Delay(2.0), {"type": "late"}], '<! {} within 1\n< {"type":"late"}'),
        ([Drop()], "= eof"),
        ([], "= open\n<! {} within 1"),
    ],
)
async def test_events_can_be_replaced(out: list[Out], line: str, autojump_clock: trio.abc.Clock) -> None:
    class Replaces(Middle):
        def event(self, event: dict[str, Any]) -> Iterable[Out]:
            return out if event["type"] == "response.created" else []

    assert (await through(Replaces(), CREATE + line)).broken is None


async def test_requests_answers_frames_and_heads_can_be_replaced(autojump_clock: trio.abc.Clock) -> None:
    class Replaces(Middle):
        def head(self, head: Head) -> Head:
            self.memory["path"] = head.path
            return head

        def answer(self, answer: Answer, head: Head) -> Answer:
            answer.set("X-Path", head.path)
            return answer

        def request(self, message: Any) -> Iterable[Out]:
            return [{**message, "input": "say: other words"}]

        def frame(self, frame: raw.Frame) -> Iterable[Out]:
            return [raw.frame(raw.PONG, b"other", masked=False)] if frame.op == raw.PONG else []

    middle = Replaces()
    text = '>open {}\n<open 101 - {"x-path":"/v1/responses"}\n' + CREATE
    text += '<... until {"type":"response.output_text.done","text":"otherwords"}\n'
    outcome = await through(middle, text + '>frame {"op":"ping","text":"x"}\n<pong "other"')
    assert outcome.broken is None
    assert middle.memory == {"path": "/v1/responses"}


async def test_a_plain_answer_can_be_replaced(autojump_clock: trio.abc.Clock) -> None:
    class Replaces(Middle):
        def answer(self, answer: Answer, head: Head) -> Answer:
            answer.status, answer.json = 418, {"was": answer.status}
            return answer

    outcome = await through(Replaces(), '>http GET /v1/x\n<http 418 {"was":426}')
    assert outcome.broken is None


async def test_bytes_that_are_no_http_pass_untouched(autojump_clock: trio.abc.Clock) -> None:
    client, server = memory_stream_pair()
    stream = MiddleStream(server, Middle())
    await client.send_all(b"\x00\x01nonsense\r\n\r\n")
    assert await stream.receive_some() == b"\x00\x01nonsense\r\n\r\n"
    await client.send_all(b"GET /v1/resp")
    await client.aclose()
    assert await stream.receive_some() == b"GET /v1/resp"
    assert await stream.receive_some() == b""


async def test_a_streamed_answer_is_seen_event_by_event(autojump_clock: trio.abc.Clock) -> None:
    class Doubles(Middle):
        def sse(self, event: dict[str, Any]) -> Iterable[Out]:
            return [event, event]

    client, server = memory_stream_pair()
    stream = MiddleStream(server, Doubles())
    block = b'event: x\ndata: {"type":"x"}\n\n'
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(block), block)
    for start in range(0, len(data), 7):
        await stream.send_all(data[start : start + 7])
    await stream.aclose()
    got = b""
    while more := bytes(await client.receive_some()):
        got += more
    assert got.count(b'data: {"type": "x"}') == 2
    assert got.endswith(b"0\r\n\r\n")


def test_two_mutants_cannot_have_one_name() -> None:
    known = harness.MUTANTS[0]
    with pytest.raises(ValueError, match=f"two mutants called {known.name}"):
        harness.add(known)


def test_a_mutant_is_run_against_the_cases_for_its_clause_and_one_of_each_chapter() -> None:
    spec = load()
    made = harness.Mutant("RWS-SEQ-002", "a_test_only")
    cases = harness.relevant(spec, made)
    own = [case for case in spec.cases.values() if "RWS-SEQ-002" in case.covers]
    assert {case.id for case in own} <= {case.id for case in cases}
    chapters = {case.place.file for case in cases if case.place.file.startswith("spec/")}
    assert len(chapters) > 5


@pytest.mark.parametrize(
    ("clause", "also", "words"),
    [
        ("RWS-SEQ-005", {}, "not caught: RWS-SEQ-005 is"),
        ("RWS-SEQ-002", {"RWS-SEQ-005": "why"}, "also_fails names RWS-SEQ-005, which does not fail"),
        ("RWS-SEQ-003", {}, "not caught"),
    ],
)
def test_what_is_wrong_with_a_mutant_is_said(clause: str, also: dict[str, str], words: str) -> None:
    doubled = next(one for one in harness.MUTANTS if one.clause == "RWS-SEQ-002")
    made = harness.Mutant(clause, "a_test_only", also, doubled.middle)
    assert harness.try_mutant(load(), made).problem.startswith(words)


@cache
def score() -> machine.Score:
    return machine.score(load())


def test_mutants_by_machine_are_caught_or_excused() -> None:
    assert score().total > 5000
    assert score().caught >= machine.SHARE * score().total
    assert list(score().missed) == []
    assert score().told().endswith(" for none")


def test_every_excuse_is_needed() -> None:
    assert list(score().stale) == []
    assert score().good


def test_mutants_by_machine_change_events_of_every_type() -> None:
    changed = {one.event for _, one in machine.every(load())}
    assert [kind for kind in shapes_of(load()).event_types if kind not in changed] == []
    kinds = {one.change for _, one in machine.every(load())}
    assert kinds == {"drop", "rename", "retype", "double", "skip a number from", "swap"}


def test_a_survivor_that_is_not_listed_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CASES", ("a-whole-turn",))
    monkeypatch.setattr(machine, "SURVIVORS", {("*", "swap", "response.created"): "a test only"})
    found = machine.score(load())
    assert [line.split(" at ")[0] for line in found.missed] == ["a-whole-turn: double response.in_progress"]
    assert found.stale == (("*", "swap", "response.created"),)
    assert not found.good


async def test_the_small_server_is_what_the_other_tests_take_it_for(autojump_clock: trio.abc.Clock) -> None:
    """A control for `servers`: it accepts a handshake, and its frames are whole."""
    client, server = memory_stream_pair()
    seen: list[raw.Frame] = []

    async def take(frame: raw.Frame) -> bool:
        seen.append(frame)
        return False

    async def serve() -> None:
        if await accept(server):
            await each_frame(server, take)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await client.send_all(b"GET / HTTP/1.1\r\nSec-WebSocket-Key: x\r\n\r\n")
        assert bytes(await client.receive_some()).startswith(b"HTTP/1.1 101")
        await client.send_all(raw.frame(raw.TEXT, b"hello"))
    assert [frame.payload for frame in seen] == [b"hello"]
