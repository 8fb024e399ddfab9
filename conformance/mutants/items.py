"""Mutants of ITM: items and parts, going out and coming in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import mutant
from conformance.mutants.middle import Out
from conformance.mutants.tools import ENDS, FAR, far, finished, is_create, items, of_type, rewritten, spoiled

Event = dict[str, Any]


@mutant("RWS-ITM-001")
def one_id_for_all_messages(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.output_item.added" and event["item"]["type"] == "message":
        memory.pop("now", None)
        if event["output_index"] == 0 and "stream_id" not in event:
            memory["now"] = event["item"]["id"]
            memory.setdefault("first", memory["now"])
    yield rewritten(event, memory["now"], memory["first"]) if "now" in memory else event


@mutant("RWS-ITM-002")
def another_id_in_the_end(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event):
        item["id"] += "0"
    yield event


@mutant("RWS-ITM-002")
def another_name_in_the_end(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "function_call"):
        item["name"] = ""
    yield event


@mutant("RWS-ITM-003")
def items_begin_completed(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.output_item.added" and "status" in event["item"]:
        event["item"]["status"] = "completed"
    yield event


@mutant("RWS-ITM-004")
def calls_begin_with_arguments(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.output_item.added" and event["item"]["type"] == "function_call":
        event["item"]["arguments"] = "{}"
    yield event


@mutant("RWS-ITM-005")
def items_end_in_progress(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "message"):
        item["status"] = "in_progress"
    yield event


@mutant("RWS-ITM-006")
def goes_on_after_an_incomplete_item(event: Event, memory: Event) -> Iterable[Out]:
    later = finished(event)[FAR:] if event["type"] in ENDS else finished(event) if far(event) else []
    for item in later:
        if item["type"] == "reasoning":
            item["status"] = "incomplete"
    if event["type"] == "response.completed" and later:
        resource = event["response"]
        resource |= {"status": "incomplete", "completed_at": None}
        resource["incomplete_details"] = {"reason": "content_filter"}
        event["type"] = "response.incomplete"
    yield event


@mutant("RWS-ITM-007")
def completed_with_an_incomplete_item(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.incomplete" and finished(event, "function_call"):
        event["response"] |= {"status": "completed", "completed_at": 1, "incomplete_details": None}
        event["type"] = "response.completed"
    yield event


@mutant("RWS-ITM-008")
def parts_begin_with_a_text(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.content_part.added" and "text" in event["part"]:
        event["part"]["text"] = "?"
    yield event


@mutant("RWS-ITM-009")
def messages_of_nobody(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "message"):
        del item["role"]
    yield event


@mutant("RWS-ITM-011")
def another_text_when_it_is_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.reasoning_text.done":
        event["text"] += "."
    yield event


@mutant("RWS-ITM-013")
def another_part_when_it_is_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.content_part.done" and far(event) and "text" in event["part"]:
        event["part"]["text"] = event["part"]["text"].strip() + " "
    yield event


@mutant("RWS-ITM-014")
def another_message_when_it_is_done(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "message"):
        for part in item["content"]:
            if "refusal" in part:
                part["refusal"] = ""
    yield event


@mutant("RWS-ITM-015")
def another_summary_when_it_is_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.reasoning_summary_text.done":
        event["text"] = ""
    yield event


@mutant("RWS-ITM-018")
def reasoning_is_forgotten(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "reasoning"):
        item["summary"] = []
    yield event


@mutant("RWS-ITM-019")
def logprobs_are_null(event: Event, memory: Event) -> Iterable[Out]:
    if "logprobs" in event:
        event["logprobs"] = None
    yield event


@mutant("RWS-ITM-020")
def always_padded(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"].endswith(".delta"):
        event["obfuscation"] = "xxxx"
    yield event


@mutant("RWS-ITM-021")
def parsed_on_the_wire(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "function_call"):
        item["parsed_arguments"] = {}
    yield event


@mutant("RWS-ITM-027")
def reasoning_is_never_sealed(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "reasoning"):
        item.pop("encrypted_content", None)
    yield event


@mutant("RWS-ITM-028")
def reasoning_is_always_sealed(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "reasoning"):
        item["encrypted_content"] = "sealed"
    yield event


@mutant("RWS-ITM-030")
def ids_tell_nothing(event: Event, memory: Event) -> Iterable[Out]:
    yield rewritten(event, "msg_", "item_")


# --- What comes in. ---


@mutant("RWS-ITM-010", on="request")
def unknown_items_are_refused(message: Any, memory: Event) -> Iterable[Out]:
    yield spoiled(message) if of_type(message, "weather_report") else message


@mutant("RWS-ITM-022", on="request")
def items_without_a_type_are_something_else(message: Any, memory: Event) -> Iterable[Out]:
    for item in items(message):
        item.setdefault("type", "something_else")
    yield message


@mutant("RWS-ITM-023", on="request")
def content_as_a_string_is_no_text(message: Any, memory: Event) -> Iterable[Out]:
    for item in of_type(message, "message"):
        if isinstance(item.get("content"), str):
            item["content"] = [{"type": "something_else", "text": item["content"]}]
    yield message


@mutant("RWS-ITM-025", on="request")
def references_are_not_followed(message: Any, memory: Event) -> Iterable[Out]:
    for item in of_type(message, "item_reference"):
        if item["id"].startswith("fc_"):
            item["type"] = "something_else"
    yield message


@mutant("RWS-ITM-026", on="request")
def references_to_nothing_are_dropped(message: Any, memory: Event) -> Iterable[Out]:
    if is_create(message) and isinstance(message.get("input"), list):
        message["input"] = [item for item in message["input"] if item.get("id") != "msg_of_nobody"]
    yield message


@mutant("RWS-ITM-029", on="request")
def ids_of_clients_are_replaced(message: Any, memory: Event) -> Iterable[Out]:
    for item in of_type(message, "message"):
        if "id" in item:
            item["id"] = "msg_of_the_server"
    yield message
