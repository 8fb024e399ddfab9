"""Several conversations on one connection: names, slots, queues, forks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core_bench import Bench, Step, create, play

from responses_ref.protocol.settings import Settings

START = "created in_progress"
SAID = "+message (output_text 'ok' ='ok' )output_text -message completed"


def on(lane: str, **fields: Any) -> dict[str, Any]:
    return create(stream_id=lane, **fields)


def _by(lane: str, words: str) -> str:
    return " ".join(f"{lane}: {word}" for word in words.split(" "))


A, B, A_SAID, B_SAID = _by("a", START), _by("b", START), _by("a", SAID), _by("b", SAID)


def ends(lane: str | None) -> Step:
    """The model finishes what it plays on that lane."""
    return lambda bench: bench.finish(turn=bench.turn_on(lane))


@pytest.mark.parametrize("name", ["a", "Z", "0", "-", "_", ".", "a.b-c_d", "x" * 256])
def test_a_name(name: str) -> None:
    """1 to 256 of letters, digits and ``_-.`` are echoed in every event (RWS-LAN-001, RWS-LAN-003)."""
    bench = Bench()
    play(bench, [on(name), Bench.finish, on(name, model=None)])
    assert [event["stream_id"] for event in bench.events] == [name] * len(bench.events)
    assert bench.events[-1]["type"] == "error"


@pytest.mark.parametrize(
    "name", ["", "x" * 257, "a b", "a/b", "é", "a\n", "\n", "𝟜", None, 5, True, ["a"], {"a": 1}]
)
def test_no_name(name: Any) -> None:
    """Anything else is refused without an echo, and takes no place (RWS-LAN-002, RWS-LAN-016)."""
    bench = Bench(Settings(max_lanes=1))
    assert bench.send(create(stream_id=name)) == ["error invalid_stream_id @stream_id"]
    assert "stream_id" not in bench.events[0]
    assert bench.send(on("a")) == ["a: created", "a: in_progress"]


# (doc, what happens, what is sent): the default lane and the lanes a and b, two slots
LANES: list[tuple[str, list[Step], str]] = [
    ("a lane beside the default one", [create(), on("a")], f"{START} a: created a: in_progress"),
    ("one lane is FIFO", [on("a"), on("a")], "a: created a: in_progress"),
    ("the second of a lane follows the first", [on("a"), on("a"), ends("a")],
     f"{A} {A_SAID} {A}"),
    ("beyond the slots a create waits", [on("a"), on("b"), create()], f"{A} {B}"),
    ("a slot that is free is taken", [on("a"), create(), on("b"), ends(None)],
     f"{A} {START} {SAID} {B}"),
    ("the default lane waits too", [on("a"), on("b"), create(), ends("b"), ends(None)],
     f"{A} {B} {B_SAID} {START} {SAID}"),
    ("an idle lane need not wait for a busy one", [on("a"), on("a"), create()], f"{A} {START}"),
    ("an error in one lane is that lane's", [on("a"), on("b", model=None), create()],
     f"{A} b: error missing_required_parameter @model {START}"),
    ("a lane without a parent starts anew", [on("a"), ends("a"), on("a")],
     f"{A} {A_SAID} {A}"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "sent"), [row[1:] for row in LANES], ids=[row[0] for row in LANES])
def test_lanes(steps: list[Step], sent: str) -> None:
    """Two slots for the default lane and the lanes a and b."""
    assert play(Bench(Settings(max_in_flight=2)), steps) == sent


def test_sixteen_run_and_the_rest_wait() -> None:
    """16 in flight, the default lane included; the 17th waits without a word (RWS-LAN-009, -010, -011)."""
    bench = Bench()
    for number in range(15):
        assert bench.send(on(f"lane{number}")) != []
    assert bench.send(create()) == ["created", "in_progress"]
    assert bench.send(on("late")) == []
    assert bench.finish()[-2:] == ["late: created", "late: in_progress"]


def test_thirty_two_names() -> None:
    """The 33rd name is refused with an echo, known ones and the default lane go on (RWS-LAN-012 to -017)."""
    bench = Bench(Settings(max_in_flight=64))
    for number in range(32):
        assert bench.send(on(f"lane{number}")) != []
    refused = ["lane33: error websocket_stream_limit_reached @stream_id"]
    assert bench.send(on("lane33")) == refused
    assert "(32)" in bench.events[-1]["error"]["message"]
    assert bench.send(create()) == ["created", "in_progress"]
    bench.finish(turn=bench.turn_on("lane0"))
    assert bench.send(on("lane0")) == ["lane0: created", "lane0: in_progress"]
    assert bench.send(on("lane33")) == refused


def test_a_create_beyond_the_queue_opens_no_lane() -> None:
    """What is refused for the queue takes no name (RWS-LAN-016)."""
    bench = Bench(Settings(max_in_flight=1, max_queued=1, max_lanes=2))
    bench.sends(on("a"), on("a"))
    assert bench.send(on("b")) == ["b: error too_many_queued_responses"]
    play(bench, [ends("a"), ends("a")])
    assert bench.send(on("c")) == ["c: created", "c: in_progress"]


def test_sixty_four_wait() -> None:
    """64 creates may wait, the 65th is refused; one that need not wait is none of them (RWS-LIM-005)."""
    bench = Bench()
    for _ in range(65):
        bench.send(on("a"))
    assert bench.send(on("a")) == ["a: error too_many_queued_responses"]
    assert "(64)" in bench.events[-1]["error"]["message"]
    assert bench.send(on("b")) == ["b: created", "b: in_progress"]
    assert bench.send(create()) == ["created", "in_progress"]
    bench.finish(turn=bench.turn_on("a"))
    assert bench.send(on("a")) == []


def test_sixty_four_mebibytes_wait() -> None:
    """What waits is bounded in bytes too (RWS-LIM-015)."""
    bench = Bench(Settings(max_queued_bytes=1_000))
    bench.sends(create(), create("x" * 400))
    assert bench.send(create("x" * 600)) == ["error too_many_queued_responses"]
    wide = json.dumps(create("\u20ac" * 200), ensure_ascii=False)
    assert bench.send(wide) == ["error too_many_queued_responses"]
    assert bench.send(on("a", input="x" * 2_000)) == ["a: created", "a: in_progress"]
    assert bench.send(create()) == []


def test_without_lanes() -> None:
    """All creates run one after another, and a stream_id means nothing (RWS-CRE-034)."""
    bench = Bench(Settings(profiles=frozenset({"core"})))
    assert play(bench, [on("a"), on("b"), on(""), Bench.finish]) == f"{START} {SAID} {START}"


def test_a_fork_is_on_its_own_lane() -> None:
    """A fork continues another lane's response; both go on, each with its own numbers (RWS-LAN-019)."""
    bench = Bench()
    play(bench, [create("root"), Bench.finish])
    play(bench, [on("a", previous_response_id="resp_1"), create(previous_response_id="resp_1")])
    play(bench, [ends("a"), ends(None)])
    for lane in ("a", None):
        numbers = [event["sequence_number"] for event in bench.events[9:] if event.get("stream_id") == lane]
        assert numbers == list(range(9))
    assert bench.inputs["resp_2"] == bench.inputs["resp_3"] == ["hi"]


def test_a_response_that_runs_cannot_be_forked() -> None:
    """Only what has ended is a context."""
    bench = Bench()
    bench.send(create())
    told = "a: error previous_response_not_found @previous_response_id"
    assert bench.send(on("a", previous_response_id="resp_1")) == [told]
    assert bench.finish()[-1] == "completed"
