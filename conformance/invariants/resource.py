"""RES: the response object in the lifecycle events."""

from __future__ import annotations

from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import (
    BEFORE_THE_END,
    CREATED,
    ENDS,
    LIFECYCLE,
    added,
    done,
    equal,
    live,
    s2c,
)
from conformance.match import same
from conformance.state import Event, Seen, word

_COMPLETED: Final = "response.completed"


def _resource(event: Event) -> dict[str, Any] | None:
    """The response object, of a response that has not ended before."""
    resource = event.get("response")
    return resource if isinstance(resource, dict) and live(event) else None


def _says(kind: str, **fields: Any) -> str:
    return s2c(kind, response={"id": "r1", **fields})


class StatusFits(Invariant):
    clause = "RWS-RES-002"
    on = LIFECYCLE
    kind = "behaviour"
    good = _says("created", status="in_progress") + _says("completed", status="completed")
    bad = _says("created", status="completed")

    def see(self, event: Event) -> Says:
        resource, kind = _resource(event), event.type
        if resource is None or kind is None:
            return None
        early = ("in_progress", "queued")
        fitting = early if kind in BEFORE_THE_END else (kind.removeprefix("response."),)
        status = resource.get("status")
        return status in fitting or f"status {status!r} in {kind}"


class OneId(Invariant):
    clause = "RWS-RES-003"
    on = LIFECYCLE
    good = CREATED + _says("completed")
    bad = CREATED + s2c("completed", response={"id": "r2"})

    def see(self, event: Event) -> Says:
        resource, response = _resource(event), event.response
        if resource is None or response is None or response.id is None or event.type == "response.created":
            return None
        return equal(resource.get("id"), response.id, "the response's id")


class AllFields(Invariant):
    clause = "RWS-RES-004"
    on = LIFECYCLE
    kind = "schema"
    _FIELDS: Final = (
        "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
        "previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation",
        "parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs",
        "temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store", "background",
        "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
    )  # fmt: skip
    good = _says("created", **dict.fromkeys(_FIELDS))
    bad = _says("created", **dict.fromkeys(_FIELDS[:-1]))

    def see(self, event: Event) -> Says:
        resource = _resource(event)
        if resource is None:
            return None
        missing = [name for name in self._FIELDS if name not in resource]
        return not missing or f"{event.type} lacks {', '.join(missing)}"


class VerbosityIsNotNull(Invariant):
    clause = "RWS-RES-005"
    on = LIFECYCLE
    kind = "schema"
    good = _says("created", text={"format": {"type": "text"}})
    bad = _says("created", text={"verbosity": None})

    def see(self, event: Event) -> Says:
        text = event.get("response", "text")
        if not isinstance(text, dict):
            return None
        return text.get("verbosity", "") is not None or "text.verbosity is null"


class ToolsAreWhole(Invariant):
    clause = "RWS-RES-029"
    on = LIFECYCLE
    kind = "schema"
    good = _says("created", tools=[{"type": "function", "name": "f", "description": None, "strict": None}])
    bad = _says("created", tools=[{"type": "function", "name": "f", "strict": True}])

    def see(self, event: Event) -> Says:
        tools = event.get("response", "tools")
        listed = tools if isinstance(tools, list) else []
        functions = [tool for tool in listed if isinstance(tool, dict) and tool.get("type") == "function"]
        if not functions:
            return None
        whole = all(tool.keys() >= {"description", "strict"} for tool in functions)
        return whole or "a function tool lacks description or strict"


class OutputIsWhole(Invariant):
    """That an item was not finished is told by RWS-ORD-009 and RWS-ORD-022."""

    clause = "RWS-RES-006"
    on = ENDS
    kind = "behaviour"
    good = CREATED + added("message") + done("message") + _says("completed", output=[{"id": "i1"}])
    bad = CREATED + added("message") + done("message") + _says("completed", output=[])

    def see(self, event: Event) -> Says:
        response, output = live(event), event.get("response", "output")
        if response is None or not isinstance(output, list):
            return None
        open_ids = {item.id for item in response.items if item.done is None}
        names = [item.get("id") if isinstance(item, dict) else None for item in output]
        told = [name for name in names if not isinstance(name, str) or name not in open_ids]
        wanted = [item.done.get("id") for item in response.items if item.done is not None]
        return equal(told, wanted, "the output's ids")


class OutputIsTheSame(Invariant):
    clause = "RWS-RES-007"
    on = ENDS
    kind = "behaviour"
    good = (
        CREATED
        + added("message")
        + done("message", status="completed")
        + _says("completed", output=[{"id": "i1", "type": "message", "status": "completed"}])
    )
    bad = (
        CREATED
        + added("message")
        + done("message", status="completed")
        + _says("completed", output=[{"id": "i1", "type": "message", "status": "incomplete"}])
    )

    def see(self, event: Event) -> Says:
        response, output = live(event), event.get("response", "output")
        if response is None or not isinstance(output, list):
            return None
        known = {word(item.done.get("id")): item.done for item in response.items if item.done is not None}
        found = False
        for item in output:
            name = item.get("id") if isinstance(item, dict) else None
            if isinstance(name, str) and name in known:
                found = True
                if not same(item, known[name]):
                    return f"{name} differs from its response.output_item.done"
        return found or None


def _only_in(event: Event, field: str, kind: str) -> Says:
    """Whether the field is an object in that event, and null or absent in the others."""
    resource = _resource(event)
    if resource is None:
        return None
    value = resource.get(field)
    if event.type == kind:
        return isinstance(value, dict) or f"{field} is {value!r} in {kind}"
    return value is None or f"{field} is set in {event.type}"


class ErrorInFailed(Invariant):
    clause = "RWS-RES-008"
    on = LIFECYCLE
    kind = "behaviour"
    good = CREATED + _says("failed", error={"code": "server_error", "message": "no"})
    bad = CREATED + _says("failed", error=None)

    def see(self, event: Event) -> Says:
        return _only_in(event, "error", "response.failed")


class DetailsInIncomplete(Invariant):
    clause = "RWS-RES-009"
    on = LIFECYCLE
    kind = "behaviour"
    good = CREATED + _says("incomplete", incomplete_details={"reason": "max_output_tokens"})
    bad = CREATED + _says("completed", incomplete_details={"reason": "max_output_tokens"})

    def see(self, event: Event) -> Says:
        return _only_in(event, "incomplete_details", "response.incomplete")


class KnownReason(Invariant):
    clause = "RWS-RES-010"
    on = ("response.incomplete",)
    kind = "schema"
    _REASONS: Final = frozenset(("max_output_tokens", "max_messages", "content_filter", "steered"))
    good = CREATED + _says("incomplete", incomplete_details={"reason": "content_filter"})
    bad = CREATED + _says("incomplete", incomplete_details={"reason": "tired"})

    def see(self, event: Event) -> Says:
        reason = event.get("response", "incomplete_details", "reason")
        if not live(event) or not isinstance(reason, str):
            return None
        return reason in self._REASONS or f"the reason is {reason!r}"


class CompletedAt(Invariant):
    clause = "RWS-RES-013"
    on = LIFECYCLE
    kind = "behaviour"
    good = CREATED + _says("failed", completed_at=None)
    bad = CREATED + _says("failed", completed_at=1700000000)

    def see(self, event: Event) -> Says:
        resource = _resource(event)
        if resource is None or event.type == _COMPLETED:
            return None
        return resource.get("completed_at") is None or f"completed_at is set in {event.type}"


class ResponseIdsDiffer(Invariant):
    """One instance judges one trace, so what it has seen is kept for all connections."""

    clause = "RWS-RES-022"
    on = ("response.created",)
    kind = "behaviour"
    good = CREATED + s2c("completed") + s2c("created", response={"id": "r2"})
    bad = CREATED + s2c("completed") + CREATED

    def __init__(self) -> None:
        self._seen = Seen()

    def see(self, event: Event) -> Says:
        name = event.get("response", "id")
        if not isinstance(name, str):
            return None
        return self._seen.add(name) or f"{name} names an earlier response too"
