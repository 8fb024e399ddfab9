"""How a connection ends: its limit, silence, a server that goes down, a peer that leaves (chapter 80)."""

from __future__ import annotations

from typing import Any

import pytest
from core_bench import Bench, Step, create, lines, message, play, steer

from responses_ref.protocol.actions import CancelModel
from responses_ref.protocol.batch import Finished, ItemStarted
from responses_ref.protocol.settings import Settings

START = "created in_progress"
SAID = "+message (output_text 'ok' ='ok' )output_text -message completed"
LIMIT = "error websocket_connection_limit_reached"
AT_LIMIT, AWAY = (1001, "connection limit"), (1001, "going away")
DOWN = "error server_shutting_down"


def limit(bench: Bench) -> None:
    bench.reach("lifetime")


def grace(bench: Bench) -> None:
    bench.reach("grace")


# (doc, what happens, what is sent, the close code and reason)
ENDS: list[tuple[str, list[Step], str, tuple[int, str] | None]] = [
    ("nothing runs at the limit", [limit], LIMIT, AT_LIMIT),
    ("a response may go on", [create(), limit], START, None),
    ("it ends, then the limit is told", [create(), limit, Bench.finish], f"{START} {SAID} {LIMIT}", AT_LIMIT),
    ("what waits is refused at once", [create(), create(), limit], f"{START} {LIMIT}", None),
    ("and the limit is told once then", [create(), create(), limit, Bench.finish],
     f"{START} {LIMIT} {SAID}", AT_LIMIT),
    ("each that waits is told", [create(), create(), create(), limit], f"{START} {LIMIT} {LIMIT}", None),
    ("what comes later is refused", [create(), limit, create(), Bench.finish],
     f"{START} {LIMIT} {SAID}", AT_LIMIT),
    ("other messages are judged as ever", [create(), limit, "{"], f"{START} error invalid_json", None),
    ("the grace time is over", [create(), limit, grace], f"{START} failed server_error {LIMIT}", AT_LIMIT),
    ("nothing runs at the drain", [Bench.drain], "", AWAY),
    ("a draining server lets it end", [create(), Bench.drain, Bench.finish], f"{START} {SAID}", AWAY),
    ("what waits still runs", [create(), create(), Bench.drain, Bench.finish, Bench.finish],
     f"{START} {SAID} {START} {SAID}", AWAY),
    ("what comes later is refused while it drains", [create(), Bench.drain, create(), Bench.finish],
     f"{START} {DOWN} {SAID}", AWAY),
    ("what waits at the end of the grace is refused", [create(), create(), Bench.drain, grace],
     f"{START} {DOWN} failed server_error", AWAY),
    ("the limit comes while it drains",
     [create(), Bench.drain, limit, Bench.finish], f"{START} {SAID}", AWAY),
    ("the drain comes after the limit", [create(), limit, Bench.drain, Bench.finish],
     f"{START} {SAID} {LIMIT}", AT_LIMIT),
    ("told to go twice", [create(), Bench.drain, Bench.drain, Bench.finish], f"{START} {SAID}", AWAY),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "sent", "closed"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_an_end(steps: list[Step], sent: str, closed: tuple[int, str] | None) -> None:
    """The limit refuses what has not begun, a drain does not; the Close comes after the last response."""
    bench = Bench()
    assert play(bench, steps) == sent
    assert bench.closed == closed


@pytest.mark.parametrize("way", [Bench.drain, limit])
@pytest.mark.parametrize("state", ["LoadParent", "Prepare", "Store"])
def test_the_grace_time_ends_every_turn(way: Any, state: str) -> None:
    """A turn that has no response yet is refused, whatever it waits for; else it fails (RWS-LIM-007)."""
    bench = Bench(held={state})
    bench.send(create(previous_response_id="resp_9" if state == "LoadParent" else None, store=True))
    if state == "Store":
        bench.finish()
    way(bench)
    assert bench.closed is None
    told = {"LoadParent": "error", "Prepare": "error", "Store": "failed"}[state]
    assert bench.reach("grace")[0].startswith(told)
    assert bench.closed is not None
    assert bench.closed[0] == 1001
    assert bench.pending == []


def test_the_limit_event() -> None:
    """It names the limit, has no lane and no number (RWS-LIM-003, RWS-LIM-004, RWS-ERR-009)."""
    for seconds, words in (
        (3600, "(60 minutes)"),
        (6e8, "(10000000 minutes)"),
        (1234567, "(1234567 seconds)"),
        (90, "(90 seconds)"),
        (2.5, "(2.5 seconds)"),
    ):
        bench = Bench(Settings(lifetime=seconds))
        bench.sends(create(stream_id="a"), create(stream_id="a"))
        bench.reach("lifetime")
        event = bench.events[-1]
        assert event["status"] == 400
        assert event["error"]["type"] == "invalid_request_error"
        assert event["error"]["message"] == (
            f"Responses websocket connection limit reached {words}."
            " Create a new websocket connection to continue."
        )
        bench.send(create(stream_id="b"))
        assert bench.events[-1]["error"] == event["error"]
        assert "stream_id" not in event | bench.events[-1]
        assert "sequence_number" not in event


def test_a_draining_server_names_the_lane() -> None:
    """That refusal belongs to its create, and so to its lane."""
    bench = Bench()
    bench.sends(create(stream_id="a"), create(stream_id="a"))
    bench.drain()
    assert bench.send(create(stream_id="b")) == [f"b: {DOWN}"]
    assert bench.events[-1]["status"] == 503
    assert bench.reach("grace") == [f"a: {DOWN}", "a: failed server_error"]


def test_a_grace_time_is_not_renewed() -> None:
    """The drain of a connection that is at its limit already gives it no more time."""
    bench = Bench()
    bench.send(create())
    limit(bench)
    due = bench.deadlines["grace"]
    bench.now += 5
    bench.drain()
    assert bench.deadlines["grace"] == due


# --- Idleness. ---


def test_an_idle_connection_is_closed() -> None:
    """After the idle time without a message and without a response: Close 1001 (RWS-LIM-013)."""
    bench = Bench(Settings(idle=10))
    assert bench.reach("idle") == []
    assert (bench.now, bench.closed) == (10, (1001, "idle"))


@pytest.mark.parametrize("touch", ["{", create(generate=False), {"type": "x"}])
def test_a_message_is_a_sign_of_life(touch: Any) -> None:
    """The idle time starts anew with each message, a bad one included (RWS-LIM-014)."""
    bench = Bench(Settings(idle=10))
    bench.now = 6
    bench.send(touch)
    bench.reach("idle")
    assert bench.closed is None
    bench.reach("idle")
    assert (bench.now, bench.closed) == (16, (1001, "idle"))


def test_a_response_is_a_sign_of_life() -> None:
    """While a response runs the connection is not idle; then the time starts with its end (RWS-LIM-014)."""
    bench = Bench(Settings(idle=10))
    bench.send(create())
    for _ in range(3):
        bench.reach("idle")
    bench.now = 35
    bench.finish()
    bench.reach("idle")
    assert bench.closed is None
    bench.reach("idle")
    assert (bench.now, bench.closed) == (45, (1001, "idle"))


def test_the_limit_comes_before_idleness() -> None:
    """Where both are due at the same time, the limit is told."""
    assert "idle" not in Bench(Settings(idle=60, lifetime=60)).deadlines


# --- Heartbeats. ---


def test_a_silent_turn_repeats_in_progress() -> None:
    """After 240 s without an event, also in the middle of a part (RWS-LIM-010)."""
    bench = Bench()
    bench.send(create())
    assert bench.reach("heartbeat 1") == ["in_progress"]
    bench.now += 200
    bench.say(*message("a")[:-1])
    assert bench.reach("heartbeat 1") == []
    assert bench.reach("heartbeat 1") == ["in_progress"]
    assert bench.now == 240 + 200 + 240
    numbers = [event["sequence_number"] for event in bench.events]
    assert numbers == list(range(len(numbers)))
    assert bench.events[-1]["response"]["status"] == "in_progress"


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("message", "output_text"),
        ("message", "refusal"),
        ("reasoning", "summary"),
        ("reasoning", "reasoning_text"),
        ("function_call", "arguments"),
        ("custom_tool_call", "input"),
        ("compaction", "encrypted_content"),
    ],
)
def test_a_heartbeat_fits_everywhere(kind: str, part: str) -> None:
    """It comes between any two events of an item."""
    batch = message("x", part=part, kind=kind)
    bench = Bench()
    bench.send(create())
    for piece in (*batch, Finished()):
        assert bench.reach("heartbeat 1") == ["in_progress"]
        bench.say(piece)
    assert bench.events[-1]["type"] == "response.completed"


def test_the_end_ends_the_heartbeat() -> None:
    """No deadline of a turn is left when it has ended."""
    for end in (Bench.finish, Bench.fail):
        bench = Bench()
        bench.send(create())
        assert "heartbeat 1" in bench.deadlines
        end(bench)
        assert "heartbeat 1" not in bench.deadlines


def test_a_late_heartbeat_is_nobodys() -> None:
    """A deadline that was on its way when the turn ended says nothing."""
    bench = Bench(held={"Store"})
    bench.send(create(store=True))
    bench.finish()
    assert lines(bench.feed(bench.core.deadline, "heartbeat 1")) == []
    bench.stores()
    assert lines(bench.feed(bench.core.deadline, "heartbeat 1")) == []


# --- A peer that leaves. ---


@pytest.mark.parametrize("state", ["LoadParent", "Prepare", "Store", None])
def test_a_peer_that_leaves(state: str | None) -> None:
    """All work is stopped, what was begun is billed as cancelled, and nothing is sent (RWS-CLS-013)."""
    done: list[Any] = []
    bench = Bench(held={state} if state else set(), watch=done.append)
    bench.sends(
        create(previous_response_id="resp_9" if state == "LoadParent" else None, store=True), create()
    )
    if state == "Store":
        bench.finish()
    done.clear()
    assert bench.leave() == []
    assert [type(action) for action in done][:1] == [CancelModel]
    assert bench.bills == ([] if state in ("LoadParent", "Prepare") else [("resp_1", "cancelled")])
    assert bench.closed is None
    assert not bench.core.lanes.busy


def test_after_the_end_nothing_happens() -> None:
    """A closed connection does nothing more, whatever still comes."""
    bench = Bench()
    bench.send(create())
    turn = bench.playing[0]
    bench.leave()
    done: list[Any] = []
    bench.watch = done.append
    bench.send(create())
    bench.say(ItemStarted("message"), turn=turn)
    bench.feed(bench.core.stored, turn)
    bench.drain()
    bench.feed(bench.core.deadline, "lifetime")
    bench.leave()
    assert done == []


def test_our_own_close_is_the_last_action() -> None:
    """Nothing follows a Close, not even from what was on its way."""
    bench = Bench()
    bench.send(create())
    turn = bench.playing[0]
    bench.drain()
    bench.finish()
    done: list[Any] = []
    bench.watch = done.append
    bench.say(Finished(), turn=turn)
    bench.send(create())
    bench.send(steer("resp_1"))
    bench.leave()
    assert done == []
