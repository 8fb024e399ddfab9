"""ORD: what a response consists of, from its beginning to its one end."""

from __future__ import annotations

from typing import Final

from conformance.invariants.base import END, EVERY_EVENT, Invariant, Says
from conformance.invariants.common import CREATED, ENDS, added, done, is_new, live, s2c
from conformance.state import Event

# Types of OpenAI's SDK and of Open Responses, without the leading "response.".
_KNOWN: Final = frozenset(
    [
        "created",
        "queued",
        "in_progress",
        "completed",
        "failed",
        "incomplete",
        "output_item.added",
        "output_item.done",
        "content_part.added",
        "content_part.done",
        "output_text.delta",
        "output_text.done",
        "output_text.annotation.added",
        "refusal.delta",
        "refusal.done",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "reasoning_summary_part.added",
        "reasoning_summary_part.done",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_text.delta",
        "reasoning_text.done",
        "reasoning.delta",
        "reasoning.done",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "file_search_call.completed",
        "code_interpreter_call.in_progress",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "image_generation_call.in_progress",
        "image_generation_call.generating",
        "image_generation_call.partial_image",
        "image_generation_call.completed",
        "mcp_call.in_progress",
        "mcp_call.completed",
        "mcp_call.failed",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
        "shell_call_command.added",
        "shell_call_command.delta",
        "shell_call_command.done",
        "shell_call_output_content.delta",
        "shell_call_output_content.done",
        "audio.delta",
        "audio.done",
        "audio.transcript.delta",
        "audio.transcript.done",
        "compaction.compacting",
        "steer.accepted",
        "steer.pending",
        "steer.failed",
    ]
)


_RUNS: Final = s2c("in_progress", response={"id": "r1"})
_COMPLETED: Final = s2c("completed", response={"id": "r1"})
_INCOMPLETE: Final = s2c("incomplete", response={"id": "r1"})
_ERROR: Final = '< {"type":"error","sequence_number":1,"error":{"message":"no"}}\n'


class InProgressFirst(Invariant):
    clause = "RWS-ORD-002"
    on = ("response.output_item.added",)
    good = CREATED + _RUNS + added("message")
    bad = CREATED + added("message")

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or response.items:
            return None
        return response.in_progress or "the first item comes before response.in_progress"


class OneEnd(Invariant):
    """A response without an end shows in the trace only when a later one of its lane has ended."""

    clause = "RWS-ORD-003"
    on = (*ENDS, END)
    good = CREATED + _COMPLETED + s2c("created", response={"id": "r2"})
    bad = CREATED + _COMPLETED + s2c("failed", response={"id": "r1"})

    def see(self, event: Event) -> Says:
        response = event.response
        if response is not None:
            return response.terminal is None or f"{event.type} after {response.terminal}"
        for left in event.conn.open.values():
            if left.lane.last is not None and left.lane.last.line > left.line:
                return f"{left.id} has no end, though later responses have"
        return None


class KnownType(Invariant):
    """`response.done` is told by RWS-ORD-005, a type that is no string by RWS-FRM-003."""

    clause = "RWS-ORD-006"
    on = (EVERY_EVENT,)
    kind = "schema"
    good = CREATED + '< {"type":"acme:keepalive"}'
    bad = s2c("rate_limits")

    def see(self, event: Event) -> Says:
        kind = event.type
        if kind is None or kind == "response.done":
            return None
        known = kind == "error" or kind.removeprefix("response.") in _KNOWN
        return known or ":" in kind or f"{kind} is nobody's event, and has no prefix of its own"


class ErrorThenFailed(Invariant):
    clause = "RWS-ORD-021"
    on = ENDS
    good = CREATED + _ERROR + s2c("failed", sequence_number=2, response={"id": "r1"})
    bad = CREATED + _ERROR + s2c("completed", sequence_number=2, response={"id": "r1"})

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or not response.error:
            return None
        return event.type == "response.failed" or f"{event.type} after an error in the response"


class AllDone(Invariant):
    clause = "RWS-ORD-009"
    on = ("response.completed",)
    good = CREATED + added("message") + done("message") + _COMPLETED
    bad = CREATED + added("message") + _COMPLETED

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or not response.items:
            return None
        left = [item.id for item in response.items if item.done is None]
        return not left or f"no response.output_item.done for {', '.join(left)}"


class CutItemsAreDone(Invariant):
    clause = "RWS-ORD-022"
    on = ("response.incomplete",)
    good = CREATED + added("message") + done("message", status="incomplete") + _INCOMPLETE
    bad = CREATED + added("message") + _INCOMPLETE

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or not response.items:
            return None
        return all(item.done is not None for item in response.items) or "the open item has no done"


class OneAtATime(Invariant):
    clause = "RWS-ORD-020"
    on = ("response.output_item.added",)
    good = CREATED + added("message") + done("message") + added("message", "i2", 1)
    bad = CREATED + added("message") + added("message", "i2", 1)

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or not response.items or not is_new(event, response):
            return None
        left = [item.id for item in response.items if item.done is None]
        return not left or f"an item is added while {', '.join(left)} is open"
