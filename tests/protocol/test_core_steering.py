"""Input that comes while a response runs: accepted, applied at a boundary, pending, or failed."""

from __future__ import annotations

from typing import Any

import json_values
import pytest
from core_bench import Bench, Step, call, create, message, output, play, refusal, steer
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.protocol import codec
from responses_ref.protocol.batch import BatchPart, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.errors import problem
from responses_ref.protocol.items import Message
from responses_ref.protocol.settings import Settings

START = "created in_progress"
SAID = "+message (output_text 'ok' ='ok' )output_text -message"
CALLED = "+function_call '{}' ='{}' -function_call"
ACCEPTED = "steer.accepted"
FAILED = "steer.failed"
STEERED = f"+message (output_text 'a' {ACCEPTED} ='a' )output_text -message"
NOT_FOUND = "error previous_response_not_found @previous_response_id"
WARM = {"generate": False}
ME = {"role": "user", "content": "me"}


def says(*parts: BatchPart) -> Step:
    return lambda bench: bench.say(*parts)


def opens(bench: Bench) -> None:
    """The model is in the middle of a message."""
    bench.say(*message("a")[:-1])


def closes(bench: Bench) -> None:
    """It ends that message, and would say more."""
    bench.say(ItemDone(), *message("never said"))


def calls(bench: Bench) -> None:
    bench.say(*call(), Finished())


def limit(bench: Bench) -> None:
    bench.reach("lifetime")


def after(number: int, said: Any = "next", **fields: Any) -> dict[str, Any]:
    return create(said, previous_response_id=f"resp_{number}", **fields)


# (doc, what happens, what is sent)
STEERS: list[tuple[str, list[Step], str]] = [
    ("between two items it applies at once", [create(), steer("resp_1")],
     f"{START} {ACCEPTED} incomplete steered {START}"),
    ("in an item, when that is finished", [create(), opens, steer("resp_1"), closes],
     f"{START} {STEERED} incomplete steered {START}"),
    ("a natural end is no steered one", [create(), opens, steer("resp_1"), says(ItemDone(), Finished())],
     f"{START} {STEERED} completed {START}"),
    ("the boundary comes without the end", [create(), opens, steer("resp_1"), says(ItemDone()), Bench.finish],
     f"{START} {STEERED} incomplete steered {START} {SAID} completed"),
    ("several at once are one successor's", [create(), opens, steer("resp_1"), steer("resp_1"), closes],
     f"{START} +message (output_text 'a' {ACCEPTED} {ACCEPTED} ='a' )output_text -message"
     f" incomplete steered {START}"),
    ("the successor is steered in turn", [create(), steer("resp_1"), steer("resp_2")],
     f"{START} {ACCEPTED} incomplete steered {START} {ACCEPTED} incomplete steered {START}"),
    ("before what waits on its lane", [create(), create("q"), steer("resp_1"), Bench.finish, Bench.finish],
     f"{START} {ACCEPTED} incomplete steered {START} {SAID} completed {START} {SAID} completed"),
    ("a call is no boundary", [create(), says(*call()), steer("resp_1"), Bench.finish],
     f"{START} {CALLED} {ACCEPTED} {SAID} completed steer.pending"),
    ("in a call, its end is none",
     [create(), says(*call()[:2]), steer("resp_1"), says(ItemDone(), Finished())],
     f"{START} +function_call '{{}}' {ACCEPTED} ='{{}}' -function_call completed steer.pending"),
    ("in a call, what follows it is said too",
     [create(), says(*call()[:2]), steer("resp_1"), says(ItemDone(), *message("ok"), Finished())],
     f"{START} +function_call '{{}}' {ACCEPTED} ='{{}}' -function_call {SAID} completed steer.pending"),
    ("pending, then the outputs come", [create(), says(*call()[:2]), steer("resp_1"),
     says(ItemDone(), Finished()), after(1, [output("call_1")]), Bench.finish],
     f"{START} +function_call '{{}}' {ACCEPTED} ='{{}}' -function_call completed steer.pending"
     f" {START} {SAID} completed"),
    ("each submission is told",
     [create(), says(*call()), steer("resp_1"), steer("resp_1"), says(Finished())],
     f"{START} {CALLED} {ACCEPTED} {ACCEPTED} completed steer.pending steer.pending"),
    ("the create came already", [create(), says(*call()), steer("resp_1"), after(1, [output("call_1")]),
     says(Finished())], f"{START} {CALLED} {ACCEPTED} completed {START}"),
    ("a create that names it is the successor",
     [create(), opens, steer("resp_1"), after(1), closes, Bench.finish],
     f"{START} {STEERED} incomplete steered"
     f" {START} {SAID} completed"),
    ("the response fails", [create(), opens, steer("resp_1"), Bench.fail],
     f"{START} +message (output_text 'a' {ACCEPTED} failed server_error {FAILED} successor_creation_failed"),
    ("incomplete by itself", [create(), opens, steer("resp_1"),
     says(ItemDone("incomplete"), Finished("max_output_tokens"))],
     f"{START} {STEERED}! incomplete max_output_tokens {START}"),
    ("nobody's response", [steer("resp_9")], f"{FAILED} response_not_found"),
    ("another type of id", [steer(9)], f"{FAILED} invalid_input"),
    ("no id", [{"type": "response.steer", "input": "x"}], f"{FAILED} invalid_input"),
    ("one that has completed", [create(), Bench.finish, steer("resp_1")],
     f"{START} {SAID} completed {FAILED} response_already_completed"),
    ("one that has failed", [create(), Bench.fail, steer("resp_1")],
     f"{START} failed server_error {FAILED} response_not_active"),
    ("one that was steered", [create(), steer("resp_1"), steer("resp_1")],
     f"{START} {ACCEPTED} incomplete steered {START} {FAILED} response_not_active"),
    ("a warm-up is over at once", [create(**WARM), steer("resp_1")],
     f"created completed {FAILED} response_already_completed"),
    ("with a conversation", [create(conversation="c"), steer("resp_1")],
     f"{START} {FAILED} steering_not_supported"),
    ("with automatic compaction", [create(context_management=[{"type": "compaction"}]), steer("resp_1")],
     f"{START} {FAILED} steering_not_supported"),
    ("at the limit the successor still comes", [create(), limit, steer("resp_1"), Bench.finish],
     f"{START} {ACCEPTED} incomplete steered {START} {SAID} completed"
     " error websocket_connection_limit_reached"),
    ("a draining server too", [create(), Bench.drain, steer("resp_1"), Bench.finish],
     f"{START} {ACCEPTED} incomplete steered {START} {SAID} completed"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "sent"), [row[1:] for row in STEERS], ids=[row[0] for row in STEERS])
def test_a_steer(steps: list[Step], sent: str) -> None:
    """What becomes of a submission depends on where its response stands."""
    assert play(Bench(), steps) == sent


IMAGE = {"type": "input_image", "image_url": "data:"}
TEXT = {"type": "input_text", "text": "hi"}


@pytest.mark.parametrize(
    "said",
    [
        "text",
        "",
        [ME],
        [
            ME,
            {
                "type": "message",
                "role": "user",
                "content": [TEXT, IMAGE, {"type": "input_file", "file_id": "f"}],
            },
        ],
    ],
)
def test_input_that_is_taken(said: Any) -> None:
    """A string, or user messages of texts, images and files (RWS-STR-001)."""
    assert (
        play(Bench(), [create(), steer("resp_1", said)]) == f"{START} {ACCEPTED} incomplete steered {START}"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": []},
        {"input": None},
        {"input": 5},
        {"input": {}},
        {"input": [5]},
        {"input": ["text"]},
        {"input": [ME | {"role": "developer"}]},
        {"input": [ME | {"role": "assistant"}]},
        {"input": [ME | {"id": "msg_1"}]},
        {"input": [ME | {"status": "completed"}]},
        {"input": [ME | {"mood": "good"}]},
        {"input": [ME, output("call_1")]},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [ME | {"content": [{"type": "output_text", "text": "x"}]}]},
        {"input": [ME | {"content": [{"type": "input_audio"}]}]},
        {"stream_id": "a"},
        {"model": "m"},
        {"generate": False},
    ],
)
def test_input_that_is_not_taken(wrong: dict[str, Any]) -> None:
    """Anything else, another field included, is invalid_input and comes back (RWS-STR-004, -005, -009)."""
    bench = Bench()
    bench.send(create())
    sent = steer("resp_1") | wrong
    assert bench.send(sent) == [f"{FAILED} invalid_input"]
    failed = bench.events[-1]
    assert failed["steer"] == {"previous_response_id": "resp_1", "input": sent["input"]}
    assert failed["error"]["type"] == "invalid_request_error"
    assert failed["sequence_number"] == 2
    assert "stream_id" not in failed


def test_a_content_that_is_empty_is_no_content() -> None:
    """A message without a word is a user message all the same."""
    bench = Bench()
    assert play(bench, [create(), steer("resp_1", [ME | {"content": []}])]).startswith(f"{START} {ACCEPTED}")


def test_the_successor() -> None:
    """It inherits the settings, continues the steered response, holds the input in order (RWS-STR-013)."""
    bench = Bench()
    play(
        bench,
        [create("go", instructions="Be kind.", metadata={"a": "b"}, temperature=0.5, store=True), opens],
    )
    play(bench, [steer("resp_1", "one"), steer("resp_1", [ME, ME | {"content": "two"}]), closes])
    first, second = bench.events[0]["response"], bench.events[-1]["response"]
    assert second["id"] == "resp_2"
    assert second["previous_response_id"] == "resp_1"
    inherited = set(first) - {"id", "previous_response_id", "created_at"}
    assert {name: second[name] for name in inherited} == {name: first[name] for name in inherited}
    assert bench.inputs["resp_2"] == ["one", "me", "two"]


def test_a_pending_steer() -> None:
    """It lists what the client owes for each call; the create keeps its settings (RWS-STR-015 to -029)."""
    bench = Bench()
    play(
        bench,
        [
            create("go", temperature=0.5),
            says(*call("f"), *message("x", part="input", kind="custom_tool_call")),
        ],
    )
    play(bench, [steer("resp_1", "one"), steer("resp_1", "two"), says(Finished())])
    *_, accepted, accepted2, completed, pending, pending2 = bench.events
    assert completed["type"] == "response.completed"
    assert [accepted["steer"]["id"], accepted2["steer"]["id"]] == [
        pending["steer"]["id"],
        pending2["steer"]["id"],
    ]
    assert pending["steer"]["previous_response_id"] == "resp_1"
    assert pending["reason"] == "waiting_for_required_input"
    assert pending["required_input"] == [
        {"type": "function_call_output", "call_id": "call_1", "name": "f"},
        {"type": "custom_tool_call_output", "call_id": "call_2"},
    ]
    numbers = [event["sequence_number"] for event in bench.events]
    assert numbers == list(range(len(numbers)))
    outputs = [output("call_2", kind="custom_tool_call_output"), output("call_1")]
    play(bench, [after(1, outputs, temperature=1), Bench.finish])
    assert bench.inputs["resp_2"] == ["one", "two", "out", "out"]
    assert bench.events[-1]["response"]["temperature"] == 1
    assert play(bench, [after(2)]) == START
    assert bench.inputs["resp_3"] == ["next"]


def test_too_many_at_once() -> None:
    """16 submissions may wait for one response (RWS-STR-016, RWS-STR-017)."""
    bench = Bench()
    play(bench, [create(), opens])
    for _ in range(16):
        assert bench.send(steer("resp_1")) == [ACCEPTED]
    assert bench.send(steer("resp_1")) == [f"{FAILED} too_many_pending_steers"]
    closes(bench)
    assert len(bench.inputs["resp_2"]) == 16


def test_too_large_together() -> None:
    """What waits is bounded in bytes too; what has no room is refused, and what fits is still taken."""
    bench = Bench(Settings(max_queued_bytes=1_000))
    play(bench, [create(), opens, steer("resp_1", "a" * 700)])
    assert bench.send(steer("resp_1", "b" * 300)) == [f"{FAILED} too_many_pending_steers"]
    assert bench.send(steer("resp_1", "c")) == [ACCEPTED]


def test_on_a_named_lane() -> None:
    """All replies are on the lane of the target, also when that has ended (RWS-STR-006)."""
    bench = Bench()
    play(bench, [create(stream_id="a"), create(), steer("resp_1")])
    play(bench, [steer("resp_1"), lambda b: b.finish(turn=b.turn_on("a")), steer("resp_3"), steer("resp_9")])
    told = [(e["type"], e.get("stream_id")) for e in bench.events if "steer" in e]
    assert told == [
        ("response.steer.accepted", "a"),
        ("response.steer.failed", "a"),
        ("response.steer.failed", "a"),
        ("response.steer.failed", None),
    ]
    assert bench.events[-1]["sequence_number"] == 0
    (successor,) = (
        e for e in bench.events if e.get("response", {}).get("id") == "resp_3" and e["sequence_number"] == 0
    )
    assert successor["stream_id"] == "a"
    assert successor["response"]["previous_response_id"] == "resp_1"


def test_while_a_fork_runs() -> None:
    """Steering one lane does not touch a fork of the same parent on another (RWS-LAN-020)."""
    bench = Bench()
    play(bench, [create(), Bench.finish, after(1), after(1, stream_id="a")])
    assert play(bench, [steer("resp_2")]) == f"{ACCEPTED} incomplete steered {START}"
    assert bench.finish(turn=bench.turn_on("a"))[-1] == "a: completed"
    assert bench.finish(turn=bench.turn_on(None))[-1] == "completed"


def test_a_fork_is_not_the_matching_create() -> None:
    """Only a create on the target's lane takes the pending input."""
    bench = Bench()
    play(bench, [create(), says(*call()), steer("resp_1"), says(Finished())])
    play(bench, [after(1, [output("call_1")], stream_id="a"), after(1, [output("call_1")])])
    assert bench.inputs["resp_2"] == ["out"]
    assert bench.inputs["resp_3"] == ["more", "out"]


def test_steered_while_it_is_stored() -> None:
    """A response whose outcome is known takes no more input."""
    bench = Bench(held={"Store"})
    play(bench, [create(store=True), Bench.finish])
    assert bench.send(steer("resp_1")) == [f"{FAILED} response_not_active"]
    assert bench.stores() == ["completed"]
    assert [event["sequence_number"] for event in bench.events][-2:] == [8, 9]


def test_a_stored_response_is_steered() -> None:
    """The steered response is stored before its successor starts from it."""
    bench = Bench(held={"Store"})
    assert play(bench, [create(store=True), steer("resp_1")]) == f"{START} {ACCEPTED}"
    assert bench.stores() == ["incomplete steered", "created", "in_progress"]


# --- Submissions that come to nothing: each is told, once. ---


def failed(bench: Bench) -> list[tuple[Any, ...]]:
    """(steer id, target, input, code, number) of each failed submission."""
    replies = [event for event in bench.events if event["type"] == "response.steer.failed"]
    return [
        (
            e["steer"].get("id"),
            e["steer"]["previous_response_id"],
            e["steer"]["input"],
            e["error"]["code"],
            e["sequence_number"],
        )
        for e in replies
    ]


def test_the_successor_is_refused() -> None:
    """The pipeline forbids it: the input comes back with its id, and no error, as nobody sent a create."""
    bench = Bench(held={"Prepare"})
    play(bench, [create(), Bench.prepares, steer("resp_1", "one")])
    assert bench.refuses(problem("invalid_prompt")) == [f"{FAILED} successor_creation_failed"]
    assert failed(bench) == [("steer_1", "resp_1", "one", "successor_creation_failed", 0)]


def test_the_matching_create_is_refused() -> None:
    """A refused create that had taken pending input takes it along (and costs its parent)."""
    bench = Bench()
    play(bench, [create(), says(*call()), steer("resp_1"), says(Finished())])
    assert bench.send(after(1)) == ["error tool_output_missing @input", f"{FAILED} successor_creation_failed"]
    assert failed(bench) == [("steer_1", "resp_1", "more", "successor_creation_failed", 0)]


def test_the_matching_create_is_wrong() -> None:
    """Refused before it could take the input: its parent is gone, and so is any hope for the submission."""
    bench = Bench()
    play(bench, [create(), says(*call()), steer("resp_1"), says(Finished())])
    told = bench.send(after(1, [output("call_1")], model=None))
    assert told == ["error missing_required_parameter @model", f"{FAILED} successor_creation_failed"]
    assert len(failed(bench)) == 1


def test_an_error_names_the_place_that_the_client_knows() -> None:
    """The steered input that stands before the create's own does not shift its places (RWS-CRE-011)."""
    bench = Bench()
    play(bench, [create(), says(*call()), steer("resp_1", "one"), steer("resp_1", "two"), says(Finished())])
    told = bench.send(after(1, [output("call_1"), {"role": 1, "content": "x"}]))
    assert told[0] == "error invalid_type @input[1].role"


def test_a_failed_target_takes_its_steers_along() -> None:
    """That is said after the end, when no response runs to be numbered with (RWS-STR-025)."""
    bench = Bench()
    play(bench, [create(), opens, steer("resp_1")])
    assert bench.fail() == ["failed server_error", f"{FAILED} successor_creation_failed"]
    assert failed(bench) == [("steer_1", "resp_1", "more", "successor_creation_failed", 0)]


def test_the_conversation_goes_elsewhere() -> None:
    """A new chain on the lane drops the target: what waited for it fails when that chain's response ends."""
    bench = Bench()
    play(
        bench,
        [create(), says(*call()), steer("resp_1"), says(Finished()), create("new")],
    )
    assert failed(bench) == []
    assert bench.finish()[-1] == f"{FAILED} successor_creation_failed"
    assert failed(bench) == [("steer_1", "resp_1", "more", "successor_creation_failed", 0)]


def test_a_stored_target_can_still_be_named() -> None:
    """A stored target survives a new chain on its lane; the submission waits on with it."""
    bench = Bench()
    play(bench, [create(store=True), says(*call()), steer("resp_1"), says(Finished())])
    play(bench, [create("new"), Bench.finish])
    play(bench, [after(1, [output("call_1")])])
    taken = bench.inputs.get("resp_3") == ["more", "out"]
    assert taken is not bool(failed(bench))


def test_a_waiting_create_names_it_but_another_comes_first() -> None:
    """The explicit create is not next on its lane: the one before it drops the target (RWS-STR-033)."""
    bench = Bench()
    play(bench, [create(), opens, create("other"), steer("resp_1"), after(1), closes])
    assert bench.finish()[-2:] == [NOT_FOUND, f"{FAILED} successor_creation_failed"]


def test_a_waiting_create_names_a_stored_target_and_another_comes_first() -> None:
    """What is stored can still be named: the submission waits on with the create that does (RWS-STR-030)."""
    bench = Bench()
    play(bench, [create(store=True), opens, create("other"), steer("resp_1"), after(1), closes, Bench.finish])
    assert bench.inputs["resp_3"] == ["more", "next"]
    assert failed(bench) == []


def test_closing_drops_the_queue() -> None:
    """Accepted input is lost with its connection, without a word (RWS-STR-034)."""
    bench = Bench()
    play(bench, [create(), opens, steer("resp_1")])
    assert bench.leave() == []


def test_the_grace_time_ends_a_steered_response() -> None:
    """It fails, and so does what waited for its end."""
    bench = Bench()
    play(bench, [create(), opens, steer("resp_1"), limit])
    assert bench.reach("grace")[:2] == ["failed server_error", f"{FAILED} successor_creation_failed"]


def test_a_successor_that_waits_for_the_pipeline() -> None:
    """At the end of the grace time its input comes back; then comes the limit event, before the Close."""
    bench = Bench(held={"Prepare"})
    play(bench, [create(), Bench.prepares, steer("resp_1"), limit])
    assert bench.reach("grace") == [
        f"{FAILED} successor_creation_failed",
        "error websocket_connection_limit_reached",
    ]


def test_piece_by_piece() -> None:
    """Where the model's batches are cut changes nothing about where a steered response stops."""
    bench = Bench()
    play(
        bench,
        [create(), says(ItemStarted("reasoning"), Piece("t", "reasoning_text")), steer("resp_1")],
    )
    assert bench.say(Piece("u", "reasoning_text")) == ["'u'"]
    assert bench.say(Piece("v", "reasoning_text"), ItemDone(), *message("no"), Finished())[-5:] == [
        ")reasoning_text",
        "-reasoning",
        "incomplete steered",
        "created",
        "in_progress",
    ]


def test_the_first_boundary_counts() -> None:
    """An item that begins in the same batch is finished; a call that begins there is no boundary either."""
    bench = Bench(Settings())
    play(bench, [create(), says(ItemStarted("message")), steer("resp_1")])
    assert bench.say(ItemDone(), *call(), Finished())[-3:] == ["incomplete steered", "created", "in_progress"]


@given(st.lists(json_values.items, max_size=3))
def test_what_a_steer_may_say_a_create_may_say(said: list[Any]) -> None:
    """Steered input is judged without making objects of it, and is judged no differently."""
    good = all(refusal(lambda raw=raw: codec.item(raw, 0)) is None for raw in said)
    items = [codec.item(raw, 0) for raw in said] if good else []
    plain = [item for item in items if isinstance(item, Message) and item.role == "user" and not item.extra]
    good = bool(said) and len(plain) == len(said)
    for item in plain:
        good = good and item.id is None and item.status is None
        good = good and all(part.type in ("input_text", "input_image", "input_file") for part in item.content)
    bench = Bench(plain=True)
    bench.send(create())
    bench.send(steer("resp_1", said))
    assert (bench.events[2]["type"] == "response.steer.accepted") == good
