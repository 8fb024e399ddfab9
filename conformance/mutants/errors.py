"""Mutants of ERR: error events, their codes, and texts that are almost JSON.

Most of the shapes are broken in refusals of the model only: what the server itself refuses has a code of the
catalogue, and is looked at by other clauses as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import mutant, server_mutant
from conformance.mutants.middle import Out
from responses_ref.protocol.errors import CATALOGUE
from responses_ref.server.accept import Server
from responses_ref.store import MemoryStore

Event = dict[str, Any]


def stream_error(event: Event) -> bool:
    return event["type"] == "error" and "sequence_number" in event


def refusal_of_the_model(event: Event) -> bool:
    refusal = event["type"] == "error" and not stream_error(event)
    return refusal and event["error"]["code"] not in CATALOGUE


def without(fields: Event, *names: str) -> Event:
    return {name: value for name, value in fields.items() if name not in names}


def with_error(event: Event, **changes: Any) -> Event:
    """The event with other fields in its object `error`."""
    return {**event, "error": {**event["error"], **changes}}


# --- the shape --------------------------------------------------------------------------------------


@mutant("RWS-ERR-001")
def says_everything_twice(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if refusal_of_the_model(event):
        yield event


@mutant("RWS-ERR-022")
def sends_flat_stream_errors(event: Event, memory: Event) -> Iterable[Out]:
    yield {**without(event, "error"), **without(event["error"], "type")} if stream_error(event) else event


@mutant("RWS-ERR-002")
def leaves_the_status_out(event: Event, memory: Event) -> Iterable[Out]:
    yield without(event, "status") if refusal_of_the_model(event) else event


@mutant("RWS-ERR-003")
def repeats_the_status_as_status_code(event: Event, memory: Event) -> Iterable[Out]:
    yield {**event, "status_code": event["status"]} if event["type"] == "error" else event


@mutant("RWS-ERR-004")
def sends_errors_without_a_text(event: Event, memory: Event) -> Iterable[Out]:
    if refusal_of_the_model(event):
        event = {**event, "error": without(event["error"], "message")}
    yield event


@mutant("RWS-ERR-005")
def sends_errors_without_a_code(event: Event, memory: Event) -> Iterable[Out]:
    yield with_error(event, code=None) if refusal_of_the_model(event) else event


@mutant("RWS-ERR-006")
def sends_errors_without_a_param(event: Event, memory: Event) -> Iterable[Out]:
    if refusal_of_the_model(event):
        event = {**event, "error": without(event["error"], "param")}
    yield event


@mutant("RWS-ERR-021")
def tells_what_went_wrong_inside(event: Event, memory: Event) -> Iterable[Out]:
    if refusal_of_the_model(event):
        event = with_error(event, message="KeyError: 'unprocessable_entity' in /srv/model/script.py")
    yield event


@mutant("RWS-ERR-023")
def sends_stream_errors_without_a_status(event: Event, memory: Event) -> Iterable[Out]:
    own = stream_error(event) and event["error"]["code"] not in CATALOGUE
    yield without(event, "status") if own else event


# --- refused, or failed -----------------------------------------------------------------------------


@mutant("RWS-ERR-007")
def begins_before_it_refuses(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.created":
        memory["created"] = event
    elif refusal_of_the_model(event):
        created = memory["created"]
        yield {**created, "response": {**created["response"], "id": "resp_that_never_runs"}}
    yield event


@mutant("RWS-ERR-008")
def calls_a_sudden_failure_incomplete(event: Event, memory: Event) -> Iterable[Out]:
    announced = memory.get("announced")
    memory["announced"] = stream_error(event)
    if event["type"] == "response.failed" and not announced:
        end = {"status": "incomplete", "error": None, "incomplete_details": {"reason": "content_filter"}}
        event = {**event, "type": "response.incomplete", "response": {**event["response"], **end}}
    yield event


@mutant("RWS-ERR-014")
def answers_nothing_after_a_refusal(event: Event, memory: Event) -> Iterable[Out]:
    memory["silent"] = memory.get("silent", False) or event["type"] == "error"
    if event["type"] == "error" or not memory["silent"]:
        yield event


# --- codes ------------------------------------------------------------------------------------------


def code(event: Event) -> str | None:
    return event["error"]["code"] if event["type"] == "error" else None


@mutant("RWS-ERR-009")
def has_its_own_words_for_a_documented_code(event: Event, memory: Event) -> Iterable[Out]:
    if code(event) == "previous_response_not_found":
        event = with_error(event, message="No such response.")
    yield event


@mutant("RWS-ERR-013")
def has_its_own_code_for_an_unknown_parent(event: Event, memory: Event) -> Iterable[Out]:
    if code(event) == "previous_response_not_found":
        event = with_error(event, code="response_not_found")
    yield event


@mutant("RWS-ERR-012")
def does_not_say_when_to_try_again(event: Event, memory: Event) -> Iterable[Out]:
    if refusal_of_the_model(event):
        event = {**event, "error": without(event["error"], "headers")}
    yield event


class _OneStoreForAllKeys(MemoryStore):
    __slots__ = ()

    async def put(self, tenant: int, node: Any) -> None:
        await super().put(0, node)

    async def get(self, tenant: int, key: str) -> Any:
        return await super().get(0, key)


@server_mutant("RWS-ERR-015")
def shows_everybody_everything(server: Server) -> None:
    server.app.rooms.store.__class__ = _OneStoreForAllKeys  # type: ignore[attr-defined]


@mutant("RWS-ERR-020")
def has_another_code_for_unknown_types(event: Event, memory: Event) -> Iterable[Out]:
    if code(event) == "unknown_event_type":
        event = with_error(event, code="invalid_event_type")
    yield event


@mutant("RWS-ERR-020")
def has_its_own_words_for_bad_json(event: Event, memory: Event) -> Iterable[Out]:
    if code(event) == "invalid_json":
        event = with_error(event, message="We could not parse the JSON body of your request.")
    yield event


# --- what is not JSON -------------------------------------------------------------------------------


@mutant("RWS-ERR-010", on="request")
def passes_over_what_is_no_json(message: Any, memory: Event) -> Iterable[Out]:
    if not isinstance(message, str):
        yield message


@mutant("RWS-ERR-011", on="request")
def reads_arrays_of_events(message: Any, memory: Event) -> Iterable[Out]:
    yield from message if isinstance(message, list) else [message]


@mutant("RWS-ERR-016", on="request")
def takes_the_last_of_two_keys(message: Any, memory: Event) -> Iterable[Out]:
    yield json.dumps(message) if isinstance(message, dict) else message
