"""Mutants of FC: tool calls and their outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import middle_mutant, mutant
from conformance.mutants.middle import Out
from conformance.mutants.tools import Deaf, finished, is_create, items, numbered, of_type, spoiled

Event = dict[str, Any]
OUTPUTS = ("function_call_output", "custom_tool_call_output")


@mutant("RWS-FC-001")
def calls_without_a_status(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "function_call"):
        del item["status"]
    yield event


@mutant("RWS-FC-002")
def other_arguments_in_the_end(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.function_call_arguments.done":
        event["arguments"] += " "
    yield event


@mutant("RWS-FC-003")
def another_input_in_the_end(event: Event, memory: Event) -> Iterable[Out]:
    for item in finished(event, "custom_tool_call"):
        item["input"] += " "
    yield event


@mutant("RWS-FC-006")
def arguments_are_never_done(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.function_call_arguments.done":
        yield from numbered(memory, event)


@mutant("RWS-FC-019")
def one_call_id_for_all(event: Event, memory: Event) -> Iterable[Out]:
    item = event.get("item") or {}
    for call in [item] if event["type"] == "response.output_item.added" else finished(event):
        if "call_id" in call:
            call["call_id"] = memory.setdefault("first", call["call_id"])
    yield event


@mutant("RWS-FC-015")
def calls_end_a_response_early(event: Event, memory: Event) -> Iterable[Out]:
    last = finished(event)[-1:] if event["type"] == "response.completed" else []
    if last and last[0]["type"] == "function_call":
        resource = event["response"]
        resource |= {"status": "incomplete", "completed_at": None}
        resource["incomplete_details"] = {"reason": "max_messages"}
        event["type"] = "response.incomplete"
    yield event


@mutant("RWS-FC-014", on="request")
def always_parallel(message: Any, memory: Event) -> Iterable[Out]:
    if is_create(message):
        message.pop("parallel_tool_calls", None)
    yield message


@middle_mutant("RWS-FC-016")
class NoneIsAuto(Deaf):
    def other(self, message: Event) -> None:
        if message["tool_choice"] == "none":
            message["tool_choice"] = "auto"


@middle_mutant("RWS-FC-017")
class RequiredIsNone(Deaf):
    def other(self, message: Event) -> None:
        if message["tool_choice"] == "required":
            message["tool_choice"] = "none"


@middle_mutant("RWS-FC-018")
class AnyFunctionWillDo(Deaf):
    def other(self, message: Event) -> None:
        if isinstance(message["tool_choice"], dict):
            message["tool_choice"] = "required"


# --- Outputs. ---


def _outputs(message: Any) -> list[Event]:
    return [item for kind in OUTPUTS for item in of_type(message, kind)]


@mutant("RWS-FC-008", on="request")
def outputs_are_strings_only(message: Any, memory: Event) -> Iterable[Out]:
    lists = [item for item in _outputs(message) if not isinstance(item["output"], str)]
    yield spoiled(message) if lists else message


@mutant("RWS-FC-013", on="request")
def outputs_and_nothing_else(message: Any, memory: Event) -> Iterable[Out]:
    last = items(message)[-1:]
    mixed = len(_outputs(message)) > 1 and last and last[0].get("role") == "user"
    yield spoiled(message) if mixed else message


@mutant("RWS-FC-009", on="request")
def outputs_without_a_call_are_dropped(message: Any, memory: Event) -> Iterable[Out]:
    if is_create(message) and isinstance(message.get("input"), list):
        message["input"] = [item for item in message["input"] if item.get("call_id") != "call_none"]
    yield message


@mutant("RWS-FC-010")
def another_code_for_no_call(event: Event, memory: Event) -> Iterable[Out]:
    yield _recoded(event, "tool_call_not_found")


@mutant("RWS-FC-011", on="request")
def calls_without_an_output_get_one(message: Any, memory: Event) -> Iterable[Out]:
    if items(message):
        answered = {item["call_id"] for item in _outputs(message)}
        open_calls = [item for item in of_type(message, "function_call") if item["call_id"] not in answered]
        outputs = [{"type": OUTPUTS[0], "call_id": call["call_id"], "output": ""} for call in open_calls]
        message["input"] = [*message["input"], *outputs]
    yield message


@mutant("RWS-FC-012")
def another_code_for_no_output(event: Event, memory: Event) -> Iterable[Out]:
    yield _recoded(event, "tool_output_missing")


@mutant("RWS-FC-020", on="request")
def repetitions_are_refused(message: Any, memory: Event) -> Iterable[Out]:
    repeats = is_create(message) and message.get("previous_response_id") and of_type(message, "function_call")
    yield spoiled(message) if repeats else message


@mutant("RWS-FC-021", on="request")
def equal_outputs_are_refused(message: Any, memory: Event) -> Iterable[Out]:
    outputs = [(item["call_id"], str(item["output"])) for item in _outputs(message)]
    yield spoiled(message) if len(set(outputs)) < len(outputs) else message


@mutant("RWS-FC-022")
def another_code_for_a_conflict(event: Event, memory: Event) -> Iterable[Out]:
    yield _recoded(event, "tool_output_conflict")


@mutant("RWS-FC-023", on="request")
def early_outputs_are_dropped(message: Any, memory: Event) -> Iterable[Out]:
    seen, kept = set(), []
    for item in items(message):
        seen.add(item.get("call_id") if item.get("type") not in OUTPUTS else None)
        if item.get("type") not in OUTPUTS or item["call_id"] in seen or item["call_id"] != "call_late":
            kept.append(item)
    yield {**message, "input": kept} if items(message) else message


def _recoded(event: Event, code: str) -> Event:
    if event["type"] == "error" and event["error"].get("code") == code:
        event["error"]["code"] = "bad_input"
    return event
