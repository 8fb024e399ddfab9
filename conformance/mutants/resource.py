"""Mutants of RES: the response object and its usage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import mutant
from conformance.mutants.middle import Answer, Head, Out
from conformance.mutants.tools import ENDS, FAR, is_create, lifecycle, usage

Event = dict[str, Any]
NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _changed(event: Event, kind: str, **fields: Any) -> Event:
    if event["type"] == f"response.{kind}":
        event["response"] |= fields
    return event


@mutant("RWS-RES-001")
def no_model(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.in_progress":
        del event["response"]["model"]
    yield event


@mutant("RWS-RES-002")
def completed_too_early(event: Event, memory: Event) -> Iterable[Out]:
    yield _changed(event, "in_progress", status="completed")


@mutant("RWS-RES-003")
def another_id_on_the_way(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.in_progress" and not memory:
        event["response"]["id"] += "0"
    if event["type"] in ENDS:
        memory["begun"] = True
    yield event


@mutant("RWS-RES-004")
def no_truncation(event: Event, memory: Event) -> Iterable[Out]:
    if resource := lifecycle(event):
        del resource["truncation"]
    yield event


@mutant("RWS-RES-005")
def verbosity_is_null(event: Event, memory: Event) -> Iterable[Out]:
    if resource := lifecycle(event):
        resource["text"]["verbosity"] = None
    yield event


@mutant("RWS-RES-029")
def tools_as_they_came(event: Event, memory: Event) -> Iterable[Out]:
    for tool in (lifecycle(event) or {}).get("tools", ()):
        tool.pop("strict", None)
    yield event


@mutant("RWS-RES-006")
def the_last_item_is_left_out(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] in ENDS and len(event["response"]["output"]) > FAR:
        event["response"]["output"].pop()
    yield event


@mutant("RWS-RES-007")
def items_are_told_anew(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] in ENDS:
        for item in event["response"]["output"][FAR:]:
            item["created_by"] = "another"
    yield event


@mutant("RWS-RES-008")
def failed_without_an_error(event: Event, memory: Event) -> Iterable[Out]:
    yield _changed(event, "failed", error=None)


def _is_steered(event: Event) -> bool:
    details = (lifecycle(event) or {}).get("incomplete_details") or {}
    return bool(details.get("reason") == "steered")


@mutant("RWS-RES-009")
def incomplete_without_details(event: Event, memory: Event) -> Iterable[Out]:
    yield event if _is_steered(event) else _changed(event, "incomplete", incomplete_details=None)


@mutant("RWS-RES-010")
def a_reason_of_its_own(event: Event, memory: Event) -> Iterable[Out]:
    tired = {"reason": "tired"}
    yield event if _is_steered(event) else _changed(event, "incomplete", incomplete_details=tired)


@mutant("RWS-RES-011", on="request")
def talks_without_a_limit(message: Any, memory: Event) -> Iterable[Out]:
    if is_create(message):
        message.pop("max_output_tokens", None)
    yield message


@mutant("RWS-RES-012")
def metadata_is_lost(event: Event, memory: Event) -> Iterable[Out]:
    if resource := lifecycle(event):
        resource["metadata"] = {}
    yield event


@mutant("RWS-RES-013")
def failed_and_completed(event: Event, memory: Event) -> Iterable[Out]:
    yield _changed(event, "failed", completed_at=1)


@mutant("RWS-RES-020")
def the_tier_that_was_asked_for(event: Event, memory: Event) -> Iterable[Out]:
    if resource := lifecycle(event):
        resource["service_tier"] = "flex"
    yield event


@mutant("RWS-RES-022")
def one_id_for_all_responses(event: Event, memory: Event) -> Iterable[Out]:
    resource = lifecycle(event)
    if resource and not resource["previous_response_id"] and "stream_id" not in event:
        resource["id"] = memory.setdefault("first", resource["id"])
    yield event


@mutant("RWS-RES-028", on="answer")
def stored_a_little_later(answer: Answer, memory: Event, head: Head) -> Answer:
    if head.method == "GET" and "/responses/resp_" in head.path:
        answer.status = 404
    return answer


# --- Usage. ---


@mutant("RWS-RES-014")
def no_usage_in_the_end(event: Event, memory: Event) -> Iterable[Out]:
    yield _changed(event, "completed", usage=None)


@mutant("RWS-RES-015")
def a_wrong_total(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        counts["total_tokens"] += 1
    yield event


@mutant("RWS-RES-016")
def no_cached_tokens(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        del counts["input_tokens_details"]["cached_tokens"]
    yield event


@mutant("RWS-RES-017")
def usage_before_the_end(event: Event, memory: Event) -> Iterable[Out]:
    yield _changed(event, "in_progress", usage=NO_USAGE)


@mutant("RWS-RES-018")
def more_cached_than_there_is(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        counts["input_tokens_details"] = {
            "cached_tokens": counts["input_tokens"] + 1,
            "cache_write_tokens": -1,
        }
    yield event


@mutant("RWS-RES-019")
def more_reasoning_than_output(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        counts["output_tokens_details"]["reasoning_tokens"] = counts["output_tokens"] + 1
    yield event


def _count_more(counts: Event, kind: str) -> None:
    counts[f"{kind}_tokens"] += 1
    counts["total_tokens"] += 1


@mutant("RWS-RES-023")
def a_token_too_many_in_a_continuation(event: Event, memory: Event) -> Iterable[Out]:
    counts = usage(event)
    if counts and event["response"]["previous_response_id"]:
        _count_more(counts, "input")
        counts["input_tokens_details"]["cache_write_tokens"] += 1
    yield event


@mutant("RWS-RES-024")
def a_cached_token_too_few(event: Event, memory: Event) -> Iterable[Out]:
    counts = usage(event)
    if counts and counts["input_tokens_details"]["cached_tokens"]:
        counts["input_tokens_details"]["cached_tokens"] -= 1
        counts["input_tokens_details"]["cache_write_tokens"] += 1
    yield event


@mutant("RWS-RES-025")
def nothing_is_written(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        counts["input_tokens_details"]["cache_write_tokens"] = 0
    yield event


@mutant("RWS-RES-026")
def an_output_token_too_many(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        _count_more(counts, "output")
    yield event


@mutant("RWS-RES-027")
def reasoning_is_free(event: Event, memory: Event) -> Iterable[Out]:
    if counts := usage(event):
        counts["output_tokens_details"]["reasoning_tokens"] = 0
    yield event
