"""The append prototype, in outline: a response pauses at its calls and goes on with their outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core_bench import Bench, Step, call, create, message, output, play, steer

from responses_ref.oracle import Oracle
from responses_ref.protocol.batch import Finished, ItemDone, ItemStarted, Piece

START = "created in_progress"
SAID = "+message (output_text 'ok' ='ok' )output_text -message"
CALLED = "+function_call '{}' ='{}' -function_call"
PAUSED = f"{START} {CALLED} done"
FAILED = "created failed"


def append(*items: Any) -> dict[str, Any]:
    return {"type": "response.append", "input": list(items)}


def calls(bench: Bench) -> None:
    bench.say(*call(), Finished())


def two_calls(bench: Bench) -> None:
    bench.say(*call(), *call(), Finished())


def limit(bench: Bench) -> None:
    bench.reach("lifetime")


def grace(bench: Bench) -> None:
    bench.reach("grace")


ONE, TWO = output("call_1"), output("call_2")

# (doc, what happens, what is sent)
APPENDS: list[tuple[str, list[Step], str]] = [
    ("a turn without calls", [create(), Bench.finish], f"{START} {SAID} completed"),
    ("a pause", [create(), calls], PAUSED),
    ("it goes on", [create(), calls, append(ONE), Bench.finish], f"{PAUSED} in_progress {SAID} completed"),
    ("it pauses again", [create(), calls, append(ONE), calls], f"{PAUSED} in_progress {CALLED} done"),
    ("some of the outputs", [create(), two_calls, append(ONE), append(TWO), Bench.finish],
     f"{START} {CALLED} {CALLED} done in_progress done in_progress {SAID} completed"),
    ("no output that is due", [create(), calls, append({"role": "user", "content": "x"})],
     f"{PAUSED} failed tool_output_missing"),
    ("an output of nothing", [create(), calls, append(output("none"))],
     f"{PAUSED} failed tool_call_not_found"),
    ("input that is no list", [create(), calls, {"type": "response.append", "input": "x"}],
     f"{PAUSED} failed invalid_type"),
    ("while it runs", [create(), append(ONE)], f"{START} failed append_while_running"),
    ("after the end: the next turn",
     [create(), Bench.finish, append({"role": "user", "content": "x"}), Bench.finish],
     f"{START} {SAID} completed {START} {SAID} completed"),
    ("after a warm-up: a turn that generates",
     [create(generate=False), append({"role": "user", "content": "x"}), Bench.finish],
     f"created completed {START} {SAID} completed"),
    ("on a named lane nothing pauses", [create(stream_id="a"), calls, create(stream_id="a")],
     "a: created a: in_progress a: +function_call a: '{}' a: ='{}' a: -function_call a: completed"
     " a: created a: in_progress"),
    ("with nothing before", [append(ONE)], f"{FAILED} append_without_response"),
    ("a create supersedes a pause", [create(), calls, create()], f"{PAUSED} incomplete superseded {START}"),
    ("a refused create fails at once", [create(model=None)], f"{FAILED} missing_required_parameter"),
    ("a refused create of a known model", [create([5])], f"{FAILED} invalid_type"),
    ("a pause at the limit", [create(), calls, limit, grace],
     f"{PAUSED} failed server_error error websocket_connection_limit_reached"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "sent"), [row[1:] for row in APPENDS], ids=[row[0] for row in APPENDS])
def test_an_append(steps: list[Step], sent: str) -> None:
    """One response over all pauses, numbered on."""
    bench = Bench(append=True)
    assert play(bench, steps) == sent


@pytest.mark.parametrize("model", [{"a": None}, ["m", True], 5, None])
def test_a_model_that_is_no_name_is_not_repeated(model: Any) -> None:
    """What cannot be said as it came is not said in the server's own language either."""
    bench = Bench(append=True)
    play(bench, [create(model=model)])
    assert [event["response"]["model"] for event in bench.events] == ["unknown", "unknown"]


@pytest.mark.parametrize("bad", [append(output("none")), append(ONE)])
def test_while_it_is_prepared(bad: dict[str, Any]) -> None:
    """An append before the response has started refuses it, one after that ends it."""
    bench = Bench(append=True, held={"Prepare"})
    assert play(bench, [create(), bad]) == f"{FAILED} append_while_running"
    assert bench.pending == []


def test_numbers_and_account_over_a_pause() -> None:
    """One response, one run of numbers, one bill."""
    bench = Bench(append=True)
    play(bench, [create(), calls, append(ONE), Bench.finish])
    assert [event["sequence_number"] for event in bench.events] == list(range(len(bench.events)))
    assert bench.bills == [("resp_1", "completed")]
    done = next(event for event in bench.events if event["type"] == "response.done")
    assert done["response"]["status"] == "in_progress"
    assert [item["type"] for item in bench.events[-1]["response"]["output"]] == ["function_call", "message"]


def test_late_refusals_and_late_appends() -> None:
    """A paused response is billed when its peer leaves; an append after that is nothing."""
    bench = Bench(append=True)
    play(bench, [create(), calls])
    bench.leave()
    assert bench.bills == [("resp_1", "cancelled")]
    assert bench.send(append(ONE)) == []


def test_an_append_after_the_limit() -> None:
    """The lifetime is over while another lane still runs: an append is refused like any new create."""
    oracle = Oracle()
    oracle.step({"do": "open", "conn": "a"})
    oracle.connections["a"].speaks_append = True
    oracle.step({"do": "advance", "to": 3590.0})
    for lane, text in (({"stream_id": "b"}, "pause: 30\nsay: late"), ({}, "say: soon")):
        event = {"type": "response.create", "model": "m", "input": text, **lane}
        oracle.step({"do": "receive", "conn": "a", "text": json.dumps(event)})
    oracle.step({"do": "advance", "to": 3600.0})
    appended = json.dumps(append({"role": "user", "content": "say: more"}))
    sent = oracle.step({"do": "receive", "conn": "a", "text": appended})
    assert [json.loads(line["text"])["type"] for line in sent if line["out"] == "send"] == ["error"]
    assert "websocket_connection_limit_reached" in sent[0]["text"]


def test_appends_wait_within_the_bounds_of_creates() -> None:
    """64 may wait; the next one is a response that fails at once, and drops nothing (RWS-LIM-005)."""
    bench = Bench(append=True)
    play(bench, [create(), Bench.finish])
    for lane in range(16):
        bench.send(create(stream_id=f"lane-{lane}"))
    more = append({"role": "user", "content": "x"})
    assert [bench.send(more) for _ in range(64)] == [[]] * 64
    assert bench.send(more) == ["created", "failed too_many_queued_responses"]
    bench.finish()
    assert bench.events[-1]["response"]["previous_response_id"] == "resp_1"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"conversation": "c"}, None),
        ({"prompt_cache_options": {"prewarm": True, "ttl": "1h"}}, "resp_1"),
        ({"generate": False}, "resp_1"),
    ],
)
def test_the_next_response_goes_on_and_generates(settings: dict[str, Any], expected: str | None) -> None:
    """An append after the end keeps the settings, but for what would forbid the turn or make it a warm-up."""
    bench = Bench(append=True)
    bench.send(create(**settings))
    if bench.playing:
        bench.finish()
    bench.send(append({"role": "user", "content": "x"}))
    assert bench.finish()[-1] == "completed"
    assert bench.events[-1]["response"]["previous_response_id"] == expected


def test_what_waits_at_the_limit_is_no_response() -> None:
    """Its turn never came, and another one is running: it gets the limit event, once (RWS-LIM-009)."""
    bench = Bench(append=True)
    assert play(bench, [create(), create("waits"), limit]) == (
        f"{START} error websocket_connection_limit_reached"
    )
    assert bench.finish()[-1] == "completed"
    assert bench.closed is not None


@pytest.mark.parametrize(
    "ends",
    [
        [create("new", store=False)],
        [append(output("nobody's"))],
        [limit, grace],
    ],
)
def test_a_pause_that_no_append_has_ended(ends: list[Step]) -> None:
    """What it leaves behind is the context of the pause, once, and its call is still open (RWS-FC-011)."""
    bench = Bench(append=True)
    play(bench, [create([{"role": "user", "content": "hi", "id": "msg_in"}], store=True), calls, *ends])
    node = bench.kept["resp_1"] if "resp_1" in bench.kept else bench.core.cache.get("resp_1")
    assert node is not None
    assert [item.type for step in node.back() for item in step.items] == ["message", "function_call"]
    assert list(node.open_calls) == ["call_1"]
    assert node.response.status in ("incomplete", "failed")


def test_a_steered_pause_has_no_successor_over_its_open_call() -> None:
    """Superseded by a create, it still owes the output: its steer waits for the create that brings it."""
    bench = Bench(append=True)
    bench.send(create())
    bench.say(ItemStarted("function_call", "f"), Piece("{}", "arguments"))
    bench.send(steer("resp_1"))
    bench.say(ItemDone(), Finished())
    assert bench.send(create("new"))[:2] == ["incomplete superseded", "steer.pending"]
    assert [event["type"] for event in bench.events].count("response.created") == 2


def test_items_from_before_a_pause_can_be_referred_to() -> None:
    """They came over this connection, and their context is held (RWS-ITM-025)."""
    bench = Bench(append=True)
    mine = {"role": "user", "content": "hi", "id": "msg_mine"}
    play(bench, [create([mine]), calls, append(ONE), Bench.finish])
    play(bench, [create([{"type": "item_reference", "id": "msg_mine"}])])
    assert bench.inputs["resp_2"] == ["hi"]


def test_a_create_on_another_lane_leaves_the_pause_alone() -> None:
    """The dialect is the default lane's; a named lane is a conversation of its own."""
    bench = Bench(append=True)
    told = play(bench, [create(), calls, create(stream_id="a"), append(ONE), Bench.finish])
    assert "superseded" not in told


def test_a_refused_create_is_an_ended_response() -> None:
    """Nothing of it is kept, and it says so; a steer for it is too late (RWS-STR-024)."""
    bench = Bench(append=True)
    play(bench, [create(model=None)])
    assert bench.events[-1]["response"]["store"] is False
    assert bench.send(steer("resp_1")) == ["steer.failed response_not_active"]


def test_a_response_that_has_called_is_not_interrupted_after_its_pause() -> None:
    """Nor by a steer that comes when the outputs are in (RWS-STR-026)."""
    bench = Bench(append=True)
    play(bench, [create(), calls, append(ONE)])
    assert bench.send(steer("resp_1")) == ["steer.accepted"]
    assert not any("incomplete" in line for line in bench.say(*message("a")))
