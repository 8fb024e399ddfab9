"""What the model produces, and the events that come of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from core_bench import Bench, call, check_story, create, message
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.protocol.batch import BatchPart, Failed, Finished, ItemDone, ItemStarted, Piece

# (doc, the model's batch, the events after in_progress)
BATCHES: list[tuple[str, list[BatchPart], str]] = [
    ("nothing at all", [], "completed"),
    ("a message of two tokens", message("to", " be"),
     "+message (output_text 'to' ' be' ='to be' )output_text -message completed"),
    ("a message without parts", [ItemStarted("message"), ItemDone()], "+message -message completed"),
    ("an empty piece opens the part", message(""),
     "+message (output_text ='' )output_text -message completed"),
    ("empty pieces among others send nothing", message("a", "", "b"),
     "+message (output_text 'a' 'b' ='ab' )output_text -message completed"),
    ("a refusal", message("no", part="refusal"), "+message (refusal 'no' ='no' )refusal -message completed"),
    (
        "two parts",
        [ItemStarted("message"), Piece("a", "output_text"), Piece("b", "refusal"),
         Piece("c", "output_text"), ItemDone()],
        "+message (output_text 'a' ='a' )output_text (refusal 'b' ='b' )refusal"
        " (output_text 'c' ='c' )output_text -message completed",
    ),
    (
        "two items",
        [*message("a"), *message("b")],
        "+message (output_text 'a' ='a' )output_text -message"
        " +message (output_text 'b' ='b' )output_text -message completed",
    ),
    (
        "reasoning",
        [ItemStarted("reasoning"), Piece("s", "summary"), Piece("t", "reasoning_text"), ItemDone()],
        "+reasoning (summary_text 's' ='s' )summary_text"
        " (reasoning_text 't' ='t' )reasoning_text -reasoning completed",
    ),
    ("reasoning without a word", [ItemStarted("reasoning"), ItemDone()], "+reasoning -reasoning completed"),
    ("a call", call("f", "{}"), "+function_call '{}' ='{}' -function_call completed"),
    ("a call without arguments", [ItemStarted("function_call", "f"), ItemDone()],
     "+function_call ='' -function_call completed"),
    (
        "a custom call",
        message("l", "s", part="input", kind="custom_tool_call"),
        "+custom_tool_call 'l' 's' ='ls' -custom_tool_call completed",
    ),
    (
        "a custom call without input",
        [ItemStarted("custom_tool_call", "f"), ItemDone()],
        "+custom_tool_call ='' -custom_tool_call completed",
    ),
    (
        "compaction",
        message("ab", "cd", part="encrypted_content", kind="compaction"),
        "+compaction compaction.compacting -compaction completed",
    ),
    (
        "cut off",
        [*message("a")[:-1], ItemDone("incomplete"), Finished("max_output_tokens")],
        "+message (output_text 'a' ='a' )output_text -message! incomplete max_output_tokens",
    ),
    ("incomplete at an item's end", [*message("a"), Finished("content_filter")],
     "+message (output_text 'a' ='a' )output_text -message incomplete content_filter"),
    ("failed in a part", [*message("a")[:-1], Failed("rate_limit_exceeded", "Slow down.")],
     "+message (output_text 'a' failed rate_limit_exceeded"),
    ("failed at once", [Failed("server_error", "Oh.")], "failed server_error"),
    ("failed with a stream error", [Failed("server_error", "Oh.", announced=True)],
     "error server_error failed server_error"),
    ("a stream error in a part", [*message("a")[:-1], Failed("server_error", "Oh.", announced=True)],
     "+message (output_text 'a' error server_error failed server_error"),
    ("a stream error in a call", [ItemStarted("function_call", "f"), Failed("x", "Oh.", announced=True)],
     "+function_call error x failed x"),
]  # fmt: skip


def _whole(batch: list[BatchPart]) -> list[BatchPart]:
    return batch if batch and isinstance(batch[-1], Finished | Failed) else [*batch, Finished()]


@pytest.mark.parametrize(("batch", "events"), [row[1:] for row in BATCHES], ids=[row[0] for row in BATCHES])
def test_a_batch(batch: list[BatchPart], events: str) -> None:
    """Brackets open and close in order: item, part, deltas, whole text, part, item (RWS-ORD-008 and on)."""
    bench = Bench()
    bench.send(create())
    assert " ".join(bench.say(*_whole(batch))) == events
    if "failed" not in events:
        check_story(bench.events)


@pytest.mark.parametrize("batch", [row[1] for row in BATCHES], ids=[row[0] for row in BATCHES])
def test_batches_leave_no_trace(batch: list[BatchPart]) -> None:
    """Where one batch ends and the next begins cannot be seen from the events (design, section 3)."""
    together, apart = Bench(), Bench()
    together.send(create())
    apart.send(create())
    together.say(*_whole(batch))
    for part in _whole(batch):
        apart.say(part)
    assert together.events == apart.events


ITEMS = st.sampled_from([
    message("a", "b"), message(""), message("no", part="refusal"), call(), call("f", ""),
    [ItemStarted("message"), Piece("a", "output_text"), Piece("b", "refusal"), ItemDone()],
    [ItemStarted("reasoning"), Piece("s", "summary"), Piece("t", "reasoning_text"), ItemDone()],
    message("x", part="input", kind="custom_tool_call"),
    message("e", part="encrypted_content", kind="compaction"),
])  # fmt: skip


@given(
    items=st.lists(ITEMS, max_size=4),
    cuts=st.lists(st.integers(0, 20), max_size=3),
    lane=st.sampled_from([None, "a"]),
)
def test_the_story_is_told_three_times_alike(
    items: list[list[BatchPart]], cuts: list[int], lane: str | None
) -> None:
    """Deltas, done items and the final output agree, indices count up, and each event names its item."""
    bench = Bench()
    bench.send(create(**({"stream_id": lane} if lane else {})))
    parts = [part for item in items for part in item]
    places = sorted({0, len(parts), *(cut for cut in cuts if cut < len(parts))})
    for start, end in pairwise(places):
        bench.say(*parts[start:end])
    bench.say(Finished())
    check_story(bench.events)
    assert all(event.get("stream_id") == lane for event in bench.events)


def test_a_token_is_a_delta_and_counts_once() -> None:
    """One piece is one delta and one output token; pieces of reasoning count as such (RWS-RES-026, -027)."""
    bench = Bench()
    bench.send(create())
    bench.say(
        ItemStarted("reasoning"),
        Piece("a", "summary"),
        Piece("b", "reasoning_text"),
        Piece("", "reasoning_text"),
    )
    bench.say(
        ItemDone(), *message("c", "d"), *message("e", part="encrypted_content", kind="compaction"), Finished()
    )
    usage = bench.events[-1]["response"]["usage"]
    assert usage["output_tokens"] == 5
    assert usage["output_tokens_details"] == {"reasoning_tokens": 2}
    assert sum("delta" in event for event in bench.events) == 4


def test_encrypted_reasoning_only_for_those_who_ask() -> None:
    """RWS-ITM-027, RWS-ITM-028."""
    for include, sealed in ((["reasoning.encrypted_content"], True), ([], False), (["other"], False)):
        bench = Bench()
        bench.send(create(include=include))
        bench.say(ItemStarted("reasoning"), ItemDone(), Finished())
        added, done = (event["item"] for event in bench.events if "item" in event)
        assert added.get("encrypted_content") is None
        assert isinstance(done.get("encrypted_content"), str) is sealed


def test_an_event_out_of_order_cannot_leave() -> None:
    """The table catches a model that breaks its contract: that is a fault of ours, not an event."""
    bench = Bench()
    bench.send(create())
    with pytest.raises(KeyError):
        bench.say(*message("a")[:-1], Finished())
    assert bench.events[-1]["type"] == "response.in_progress"
