"""Mutants of ORD, and those of SEQ that are about errors: the order of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import mutant
from conformance.mutants.middle import Out
from conformance.mutants.tools import ENDS, beside, far, numbered

Event = dict[str, Any]


@mutant("RWS-ORD-001")
def the_first_response_is_not_created(event: Event, memory: Event) -> Iterable[Out]:
    first = not memory and "stream_id" not in event
    memory["begun"] = True
    if not first or event["type"] != "response.created":
        yield from numbered(memory, event)


@mutant("RWS-ORD-002")
def nothing_is_in_progress(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.in_progress":
        yield from numbered(memory, event)


@mutant("RWS-ORD-003")
def ends_twice(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] in ENDS:
        yield {**event, "sequence_number": event["sequence_number"] + 1}


@mutant("RWS-ORD-004")
def a_straggler(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] in ENDS:
        yield {**event, "type": "response.in_progress", "sequence_number": event["sequence_number"] + 1}


@mutant("RWS-ORD-005")
def done_once_more(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] in ENDS:
        yield {**event, "type": "response.done", "sequence_number": event["sequence_number"] + 1}


@mutant("RWS-ORD-006")
def an_event_of_its_own(event: Event, memory: Event) -> Iterable[Out]:
    yield from numbered(memory, event)
    if event["type"] == "response.in_progress":
        yield from numbered(memory, beside(event, "response.rate_limits"))


@mutant("RWS-ORD-007", on="sse")
def no_logprobs_over_http(event: Any, memory: Event) -> Iterable[Out]:
    if isinstance(event, dict):
        event.pop("logprobs", None)
    yield event


@mutant("RWS-ORD-008")
def a_delta_of_nothing(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.output_text.delta" and far(event):
        event["item_id"] = "msg_of_nobody"
    yield event


@mutant("RWS-ORD-009")
def an_item_is_never_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.output_item.done" or event["output_index"] != 3:
        yield from numbered(memory, event)


@mutant("RWS-ORD-010")
def a_place_is_left_out(event: Event, memory: Event) -> Iterable[Out]:
    if far(event):
        event["output_index"] += 1
    yield event


@mutant("RWS-ORD-011")
def deltas_of_another_place(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.output_text.delta":
        event["output_index"] += 5
    yield event


@mutant("RWS-ORD-012")
def done_twice(event: Event, memory: Event) -> Iterable[Out]:
    yield from numbered(memory, event)
    if event["type"] == "response.output_item.done":
        yield from numbered(memory, event)


@mutant("RWS-ORD-013")
def parts_are_not_added(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.content_part.added":
        yield from numbered(memory, event)


@mutant("RWS-ORD-014")
def parts_from_one(event: Event, memory: Event) -> Iterable[Out]:
    if "content_index" in event:
        event["content_index"] += 1
    yield event


@mutant("RWS-ORD-015")
def the_text_is_never_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.output_text.done":
        yield from numbered(memory, event)


@mutant("RWS-ORD-015")
def the_text_is_done_too_late(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.output_text.done":
        memory["held"] = event
        return
    held = memory.pop("held", None)
    yield from numbered(memory, *([event, held] if held else [event]))


@mutant("RWS-ORD-016")
def parts_are_never_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.content_part.done":
        yield from numbered(memory, event)


@mutant("RWS-ORD-017")
def summaries_are_never_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.reasoning_summary_text.done":
        yield from numbered(memory, event)


@mutant("RWS-ORD-018")
def summaries_from_one(event: Event, memory: Event) -> Iterable[Out]:
    if "summary_index" in event:
        event["summary_index"] += 1
    yield event


@mutant("RWS-ORD-020")
def the_next_item_comes_first(event: Event, memory: Event) -> Iterable[Out]:
    held = memory.pop("held", None)
    if event["type"] == "response.output_item.done":
        memory["held"] = event
    elif held and event["type"] == "response.output_item.added":
        yield from numbered(memory, event, held)
    else:
        yield from numbered(memory, *([held, event] if held else [event]))


@mutant("RWS-ORD-021")
def completed_in_spite_of_an_error(event: Event, memory: Event) -> Iterable[Out]:
    erred = memory.pop("erred", False)
    memory["erred"] = event["type"] == "error" and "sequence_number" in event
    if erred and event["type"] == "response.failed":
        resource = {**event["response"], "status": "completed", "error": None, "completed_at": 1}
        event = {**event, "type": "response.completed", "response": resource}
    yield event


@mutant("RWS-ORD-022")
def cut_items_are_not_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.output_item.done" or event["item"].get("status") != "incomplete":
        yield from numbered(memory, event)


@mutant("RWS-ORD-023")
def compacting_a_message(event: Event, memory: Event) -> Iterable[Out]:
    yield from numbered(memory, event)
    if event["type"] == "response.output_item.added" and event["item"]["type"] == "message":
        where = {"item_id": event["item"]["id"], "output_index": event["output_index"]}
        yield from numbered(memory, beside(event, "response.compaction.compacting", **where))


@mutant("RWS-ORD-024")
def a_part_without_its_place(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.content_part.done":
        del event["output_index"]
    yield event


@mutant("RWS-SEQ-001")
def parts_have_no_number(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.content_part.done":
        del event["sequence_number"]
    yield from numbered(memory, event)


@mutant("RWS-SEQ-003")
def numbers_stop(event: Event, memory: Event) -> Iterable[Out]:
    if "sequence_number" in event:
        event["sequence_number"] = min(event["sequence_number"], 1)
    yield event


@mutant("RWS-SEQ-004")
def refusals_have_a_number(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "error":
        event.setdefault("sequence_number", 0)
    yield event


@mutant("RWS-SEQ-006")
def stream_errors_have_no_number(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "error":
        event.pop("sequence_number", None)
    yield from numbered(memory, event)
